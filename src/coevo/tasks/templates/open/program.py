from math import ceil, sqrt


# EVOLVE-BLOCK-START
def points(n):
    side = ceil(sqrt(n))
    step = 1.0 / (side - 1) if side > 1 else 1.0
    return [[(i % side) * step, (i // side) * step] for i in range(n)]


# EVOLVE-BLOCK-END
