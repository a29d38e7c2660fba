def tokenize(line):
    """Numbers and marks of a line, as strings."""
    tokens = []
    rest = line.strip()
    while rest:
        length = 1
        if rest[0].isdigit():
            while length < len(rest) and rest[length].isdigit():
                length += 1
        tokens.append(rest[:length])
        rest = rest[length:].strip()
    return tokens
