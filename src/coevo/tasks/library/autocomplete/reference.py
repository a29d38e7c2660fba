import sys
from bisect import bisect_left


def main():
    data = sys.stdin.read().split()
    n = int(data[0])
    words = sorted(data[2 : n + 2])
    lines = []
    for prefix in data[n + 2 :]:
        first = bisect_left(words, prefix)
        last = bisect_left(words, prefix + "{", first)  # "{" comes after "z"
        lines.append(f"{last - first} {words[first]}" if first < last else "0")
    print("\n".join(lines))


main()
