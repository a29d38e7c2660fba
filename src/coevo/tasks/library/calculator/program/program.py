import sys

from expression import evaluate
from tokens import tokenize

for line in sys.stdin:
    try:
        print(evaluate(tokenize(line)))
    except ZeroDivisionError:
        print("error")
