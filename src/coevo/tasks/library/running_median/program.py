n = int(input())
numbers = []
for text in input().split():
    numbers.append(float(text))
    numbers.sort()
    middle = len(numbers) // 2
    if len(numbers) % 2 == 1:
        print(numbers[middle])
    else:
        print((numbers[middle - 1] + numbers[middle]) / 2)
