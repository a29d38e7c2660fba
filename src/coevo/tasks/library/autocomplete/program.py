n, q = map(int, input().split())
words = [input() for _ in range(n)]
for _ in range(q):
    prefix = input()
    matches = [word for word in words if word[: len(prefix)] == prefix]
    if matches:
        print(len(matches), min(matches))
    else:
        print(0)
