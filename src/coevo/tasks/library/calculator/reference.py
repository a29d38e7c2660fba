import re
import sys
from operator import add, floordiv, mul, sub

OPERATORS = {"+": (1, add), "-": (1, sub), "*": (2, mul), "/": (2, floordiv)}


def evaluate(line):
    """Dijkstra's two stacks: an operator waits until one that binds no tighter comes."""
    values, waiting = [], []

    def apply():
        right = values.pop()
        values[-1] = OPERATORS[waiting.pop()][1](values[-1], right)

    for token in re.findall(r"\d+|[-+*/()]", line):
        if token == "(":
            waiting.append(token)
        elif token == ")":
            while waiting[-1] != "(":
                apply()
            waiting.pop()
        elif token in OPERATORS:
            strength = OPERATORS[token][0]
            while waiting and waiting[-1] != "(" and OPERATORS[waiting[-1]][0] >= strength:
                apply()
            waiting.append(token)
        else:
            values.append(int(token))
    while waiting:
        apply()
    return values[0]


for line in sys.stdin:
    try:
        print(evaluate(line))
    except ZeroDivisionError:
        print("error")
