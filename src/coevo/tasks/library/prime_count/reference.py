from math import isqrt


def count_primes(low, high):
    prime = bytearray([1]) * (high + 1)
    prime[0:2] = bytes(len(prime[0:2]))
    for number in range(2, isqrt(high) + 1):
        if prime[number]:
            prime[number * number :: number] = bytes(len(range(number * number, high + 1, number)))
    return sum(prime[low:])
