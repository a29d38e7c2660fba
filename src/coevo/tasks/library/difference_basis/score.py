"""|B|^2 / v, where 1..v is the longest run of differences; a bit set holds all differences at once."""

from fractions import Fraction
from itertools import pairwise

from coevo.tasks.exact import Infeasible, integer, listed, round_up

MOST, HIGHEST = 1500, 2_000_000


def reach(marks):
    """The largest v such that each of 1..v is a difference of two marks, which are distinct and sorted."""
    low = marks[0]
    ruler = sum(1 << (b - low) for b in marks) if len(marks) < 64 else _bits(marks)
    differences = 0
    for b in marks:
        differences |= ruler >> (b - low)
    holes = ~(differences >> 1)
    return (holes & -holes).bit_length() - 1


def _bits(marks):
    raw = bytearray((marks[-1] - marks[0]) // 8 + 1)
    for b in marks:
        raw[(b - marks[0]) >> 3] |= 1 << ((b - marks[0]) & 7)
    return int.from_bytes(raw, "little")


def score(output, instance):
    items = listed(output, "basis")
    if not 2 <= len(items) <= MOST:
        raise Infeasible(f"the basis has {len(items)} elements; it must have 2 to {MOST}")
    marks = sorted(integer(b, f"basis[{i}]", low=0, high=HIGHEST) for i, b in enumerate(items))
    for a, b in pairwise(marks):
        if a == b:
            raise Infeasible(f"{a} is in the basis twice")
    v = reach(marks)
    if v < instance["least"]:
        raise Infeasible(f"{v + 1} is not a difference, so v = {v}; it must be at least {instance['least']}")
    value = round_up(Fraction(len(marks) ** 2, v))
    return {
        "score": value,
        "feedback": f"{len(marks)} elements, v = {v}: {value:.10g}; the first missing difference is {v + 1}",
        "elements": len(marks),
        "v": v,
    }
