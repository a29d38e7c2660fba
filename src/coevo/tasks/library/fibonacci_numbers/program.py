def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def fibonacci_numbers(indices):
    return [fibonacci(index) for index in indices]
