def last_operator(tokens, operators):
    """Position of the last of these operators that is outside all parentheses, or None."""
    found = None
    depth = 0
    for position, token in enumerate(tokens):
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif depth == 0 and token in operators:
            found = position
    return found


def evaluate(tokens):
    for operators in ("+-", "*/"):
        place = last_operator(tokens, operators)
        if place is not None:
            left = evaluate(tokens[:place])
            right = evaluate(tokens[place + 1 :])
            if tokens[place] == "+":
                return left + right
            if tokens[place] == "-":
                return left - right
            if tokens[place] == "*":
                return left * right
            return left // right
    if tokens[0] == "(":
        return evaluate(tokens[1:-1])
    return int(tokens[0])
