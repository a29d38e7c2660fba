"""Online problems judged on data alone: decisions must not depend on what comes later, shown by replays.

A candidate gets a whole sequence and returns all its decisions, so it could look ahead. To catch that, the instances of a
split hold *replays*: sequences that share a beginning with one of the sequences that count, and then differ in content
and length. Each runs in a process of its own (`fresh_process`), and where two sequences agree so far, so must the
decisions. A candidate cannot tell where a replay will end, nor see the sequence that it replays.

A rule that looks ahead rarely is caught rarely: if it changes a share p of the decisions just before a cut, one cut catches
it with probability p, and all c cuts of a split with 1 - (1 - p)^c; what it can gain is bounded by that p, too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from coevo.tasks.exact import Infeasible, integer, listed

SHORTEST_CUT = 40
"""Replays share at least this many items, so that a beginning belongs to one sequence only."""


def with_replays(
    sequences: Sequence[list[int]], cuts: int, draw: Callable[[], int], rng: random.Random
) -> list[list[int]]:
    """The sequences and `cuts` replays of each, shuffled.

    A replay keeps items 0..cut-1 of its sequence; its next item is another one, then up to 60 more follow, so
    that its length differs from that of every sequence. The first replay of each is cut in the last twentieth, so that
    turning offline just before the end is seen, too. `draw` makes an item; a sequence must be longer than `SHORTEST_CUT`.
    """
    lengths = {len(items) for items in sequences}
    made = [list(items) for items in sequences]
    for items in sequences:
        for number in range(cuts):
            earliest = max(SHORTEST_CUT, len(items) - len(items) // 20) if number == 0 else SHORTEST_CUT
            cut = rng.randrange(earliest, len(items))
            tail = [draw() for _ in range(rng.randint(1, 61))]
            while tail[0] == items[cut]:
                tail[0] = draw()
            while cut + len(tail) in lengths:
                tail.append(draw())
            made.append(items[:cut] + tail)
    rng.shuffle(made)
    return made


def checked_packing(output: Any, items: Sequence[int], capacity: int, what: str) -> list[int]:
    """Bin of each item, as a list; bins are numbered in the order in which they are opened, and never overfull."""
    bins = listed(output, what)
    if len(bins) != len(items):
        raise Infeasible(f"{what} has {len(bins)} entries for {len(items)} items")
    free: list[int] = []
    for i, (chosen, size) in enumerate(zip(bins, items, strict=True)):
        b = integer(chosen, f"{what}[{i}]", low=0, high=len(free))
        bins[i] = b
        if b == len(free):
            free.append(capacity)
        if free[b] < size:
            raise Infeasible(f"{what}[{i}] puts an item of {size} into bin {b}, which has {free[b]} of {capacity} left")
        free[b] -= size
    return bins


def check_replays(sequences: Sequence[Sequence[int]], decisions: Sequence[Sequence[int]]) -> None:
    """Raise unless any two sequences get the same decisions for as long as they agree.

    In sorted order it is enough to look at neighbours: what two sequences share, all between them share.
    """
    order = sorted(range(len(sequences)), key=lambda i: tuple(sequences[i]))
    for a, b in pairwise(order):
        shared = common(sequences[a], sequences[b])
        same = common(decisions[a], decisions[b])
        if same < shared:
            raise Infeasible(
                f"not online: two sequences that agree in their first {shared} items got different bins for item {same}; "
                "a decision may only depend on the items up to it"
            )


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def score_packings(outputs: Sequence[Any], instances: Sequence[dict[str, Any]], length: int) -> dict[str, Any]:
    """Excess of the bins used over the L1 bound, in per cent, over the sequences of `length` items (replays do not count).

    The L1 bound of a sequence is ceil(sum of items / capacity). The score is 100 * (bins / bound - 1), both summed over all
    sequences, the definition of FunSearch (Romera-Paredes et al., Nature 2024).
    """
    packings = [
        checked_packing(output, instance["items"], instance["capacity"], "answer")
        for output, instance in zip(outputs, instances, strict=True)
    ]
    check_replays([instance["items"] for instance in instances], packings)
    bins = bound = 0
    for packing, instance in zip(packings, instances, strict=True):
        if len(instance["items"]) == length:
            bins += max(packing) + 1
            bound += math.ceil(sum(instance["items"]) / instance["capacity"])
    value = 100 * (bins - bound) / bound
    return {
        "score": value,
        "feedback": f"{bins} bins where the items' volume needs at least {bound}: {value:.4g} % excess",
        "bins": bins,
        "bound": bound,
    }
