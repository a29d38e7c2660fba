"""No model: Singer difference sets times the perfect ruler {0, 1, 4, 6} (Golay's construction), over random multipliers.

For a prime q, the powers of a primitive element of GF(q^3) that lie in a plane form q + 1 residues modulo m = q^2 + q + 1 whose
differences hit every nonzero residue once. Copies shifted by 0, m, 4m and 6m cover 1..6m and a little more; how much
more depends on the multiplier and on where the cyclic set is cut open.
"""

import math
import random
import time

PRIMES = (31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149)
RULER = (0, 1, 4, 6)


def singer(q, rng):
    """A perfect difference set modulo q^2 + q + 1."""
    m = q * q + q + 1
    while True:
        a, b, c = rng.randrange(q), rng.randrange(q), rng.randrange(1, q)  # x^3 = a x^2 + b x + c
        plane, element = [], (1, 0, 0)
        for i in range(m):
            if element[2] == 0:
                plane.append(i)
            low, middle, high = element
            element = (high * c % q, (low + high * b) % q, (middle + high * a) % q)
        if len(plane) == q + 1 and len({(x - y) % m for x in plane for y in plane}) == m:
            return plane


def reach(marks):
    """The largest v such that each of 1..v is a difference of two of the sorted marks."""
    low, ruler = marks[0], 0
    for b in marks:
        ruler |= 1 << (b - low)
    differences = 0
    for b in marks:
        differences |= ruler >> (b - low)
    holes = ~(differences >> 1)
    return (holes & -holes).bit_length() - 1


def widest_cuts(residues, m, count):
    """The cyclic set opened behind each of its `count` widest gaps."""
    order = sorted(residues)
    gaps = sorted(range(len(order)), key=lambda i: (order[i - 1] - order[i]) % m)
    return [sorted((x - order[i]) % m for x in order) for i in gaps[:count]]


def basis(least, seconds=20.0):
    end = time.process_time() + seconds
    rng = random.Random(0)
    sets = {}
    best, best_ratio = None, math.inf
    while best is None or time.process_time() < end:
        q = rng.choice(PRIMES)
        m = q * q + q + 1
        if q not in sets:
            sets[q] = singer(q, rng)
        factor = rng.randrange(1, m)
        if math.gcd(factor, m) > 1:
            continue
        for opened in widest_cuts([x * factor % m for x in sets[q]], m, 2):
            marks = sorted(x + m * r for r in RULER for x in opened)
            v = reach(marks)
            if v >= least and len(marks) ** 2 / v < best_ratio:
                best, best_ratio = marks, len(marks) ** 2 / v
    return best
