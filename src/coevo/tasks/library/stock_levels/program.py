n, q = map(int, input().split())
shelves = list(map(int, input().split()))
for _ in range(q):
    command, first, second = input().split()
    if command == "add":
        shelves[int(first) - 1] += int(second)
    else:
        total = 0
        for number in shelves[int(first) - 1 : int(second)]:
            total += number
        print(total)
