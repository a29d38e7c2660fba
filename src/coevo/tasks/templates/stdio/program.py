n = int(input())
different = []
for _ in range(n):
    number = int(input())
    if number not in different:
        different.append(number)
print(len(different))
