def count_primes(low, high):
    composite = [False] * (high + 1)
    count = 0
    for number in range(2, high + 1):
        if not composite[number]:
            if number >= low:
                count += 1
            for multiple in range(2 * number, high + 1, number):
                composite[multiple] = True
    return count
