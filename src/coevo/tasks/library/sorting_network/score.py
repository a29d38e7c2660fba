"""Number of comparators of a network that sorts all 2^n zero-one inputs, held as n bit vectors of length 2^n."""

from itertools import pairwise

from coevo.tasks.exact import Infeasible, integer, listed, vector

MOST = 1000


def inputs(n):
    """Wire w as an integer whose bit x is bit w of x: all 2^n inputs at once."""
    wires = []
    for w in range(n):
        pattern = ((1 << (1 << w)) - 1) << (1 << w)
        for doubling in range(w + 1, n):
            pattern |= pattern << (1 << doubling)
        wires.append(pattern)
    return wires


def unsorted_input(comparators, n):
    """An input that the network leaves unsorted, as its n bits, or None."""
    wires = inputs(n)
    for i, j in comparators:
        wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
    for low, high in pairwise(wires):
        wrong = low & ~high
        if wrong:
            x = (wrong & -wrong).bit_length() - 1
            return [x >> w & 1 for w in range(n)]
    return None


def score(output, instance):
    n = instance["n"]
    items = listed(output, "network")
    if len(items) > MOST:
        raise Infeasible(f"the network has {len(items)} comparators; at most {MOST} are accepted")
    comparators = []
    for c, item in enumerate(items):
        pair = vector(item, 2, f"network[{c}]")
        i, j = (integer(w, f"network[{c}][{k}]", low=0, high=n - 1) for k, w in enumerate(pair))
        if i >= j:
            raise Infeasible(f"network[{c}] is [{i}, {j}]; the first wire must be below the second")
        comparators.append((i, j))
    wrong = unsorted_input(comparators, n)
    if wrong is not None:
        raise Infeasible(f"the network of {len(comparators)} comparators does not sort the input {wrong}")
    return {"score": float(len(comparators)), "feedback": f"sorts all 2^{n} inputs with {len(comparators)} comparators"}
