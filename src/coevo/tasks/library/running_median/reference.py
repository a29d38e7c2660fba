import sys
from bisect import insort


def main():
    ordered, medians = [], []
    for text in sys.stdin.read().split()[1:]:
        insort(ordered, float(text))
        half = len(ordered) // 2
        medians.append((ordered[half] + ordered[~half]) / 2)
    print("\n".join(map(repr, medians)))


main()
