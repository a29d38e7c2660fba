import sys


def main():
    lines = sys.stdin.read().splitlines()
    n = int(lines[0].split()[0])
    tree = [0, *map(int, lines[1].split())]  # Fenwick (1994): tree[i] covers the i & -i shelves that end at i
    for i in range(1, n + 1):
        above = i + (i & -i)
        if above <= n:
            tree[above] += tree[i]
    answers = []
    for line in lines[2:]:
        command, first, second = line.split()
        if command == "add":
            i, change = int(first), int(second)
            while i <= n:
                tree[i] += change
                i += i & -i
        else:
            total = 0
            i = int(second)
            while i:
                total += tree[i]
                i &= i - 1
            i = int(first) - 1
            while i:
                total -= tree[i]
                i &= i - 1
            answers.append(total)
    print("\n".join(map(str, answers)))


main()
