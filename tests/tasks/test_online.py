"""Online packing: honest rules pass, rules that look ahead are caught, whatever they look at."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation.judge import Judge
from coevo.evaluation.trusted import load_judge_file
from coevo.evaluation.types import Outcome
from coevo.programs import Program
from coevo.tasks import load_task
from coevo.tasks.exact import Infeasible
from coevo.tasks.online import check_replays, checked_packing, common, score_packings, with_replays

Rule = Callable[[int, Sequence[int]], list[int]]


def draws(split: str = "public", seed: int = 0) -> list[dict]:
    return load_judge_file(load_task("bin_packing_uniform").folder / "generate.py").instances(
        split, random.Random(seed)
    )


def fit(capacity: int, items: Sequence[int], choose: Callable[[list[tuple[int, int]], int], int] = min) -> list[int]:
    """A rule that puts each item into the open bin with the least (room, number), or another choice."""
    room: list[int] = []
    bins = []
    for i, item in enumerate(items):
        fitting = [(left, b) for b, left in enumerate(room) if left >= item]
        if fitting:
            b = min(fitting)[1] if choose is min else choose(fitting, i)
        else:
            b = len(room)
            room.append(capacity)
        room[b] -= item
        bins.append(b)
    return bins


def offline(capacity: int, items: Sequence[int]) -> list[int]:
    """Best fit decreasing, renumbered in order of opening: the classical offline rule."""
    order = sorted(range(len(items)), key=lambda i: -items[i])
    packed = dict(zip(order, fit(capacity, [items[i] for i in order]), strict=True))
    names: dict[int, int] = {}
    return [names.setdefault(packed[i], len(names)) for i in range(len(items))]


def one_ahead(capacity: int, items: Sequence[int]) -> list[int]:
    """Best fit, but worst fit for an item whose successor is large."""
    return fit(
        capacity, items, lambda fitting, i: (max if i + 1 < len(items) and items[i + 1] > 80 else min)(fitting)[1]
    )


def knows_the_length(capacity: int, items: Sequence[int]) -> list[int]:
    """Best fit, but first fit in the second half of the sequence."""
    return fit(
        capacity, items, lambda fitting, i: min(b for _, b in fitting) if 2 * i > len(items) else min(fitting)[1]
    )


def only_for_the_real_ones(capacity: int, items: Sequence[int]) -> list[int]:
    """Offline where it pays, online for whatever looks like a replay."""
    return offline(capacity, items) if len(items) == 500 else fit(capacity, items)


def offline_at_the_end(capacity: int, items: Sequence[int]) -> list[int]:
    """Best fit, but with the last ten items sorted first."""
    early = fit(capacity, items[:-10])
    late = sorted(range(len(items) - 10, len(items)), key=lambda i: -items[i])
    order = [*range(len(items) - 10), *late]
    packed = dict(zip(order, fit(capacity, [items[i] for i in order]), strict=True))
    known = max(early) + 1
    names = {b: b for b in range(known)}
    return [names.setdefault(packed[i], len(names)) for i in range(len(items))]


def test_an_honest_rule_is_scored_over_the_sequences_that_count() -> None:
    instances = draws()
    result = score_packings([fit(**i) for i in instances], instances, 500)
    full = [i for i in instances if len(i["items"]) == 500]
    assert len(full) == 20 and len(instances) == 80
    bound = sum(-(-sum(i["items"]) // 150) for i in full)
    bins = sum(max(fit(**i)) + 1 for i in full)
    assert (result["bins"], result["bound"]) == (bins, bound)
    assert result["score"] == 100 * (bins - bound) / bound
    assert 4 < result["score"] < 7


@pytest.mark.parametrize("rule", [offline, one_ahead, knows_the_length, only_for_the_real_ones, offline_at_the_end])
@pytest.mark.parametrize("seed", range(3))
def test_a_rule_that_looks_ahead_is_caught(rule: Rule, seed: int) -> None:
    instances = draws(seed=seed)
    with pytest.raises(Infeasible, match=r"not online: two sequences that agree in their first .* items"):
        score_packings([rule(**i) for i in instances], instances, 500)


def test_memory_of_earlier_sequences_is_of_no_use_since_there_is_none() -> None:
    """Within one process this cheat would be consistent: it repeats what it did for the beginning it saw before."""
    cheat = """
SEEN = []

def offline(capacity, items, start, room):
    order = sorted(range(start, len(items)), key=lambda i: -items[i])
    chosen = {}
    for i in order:
        fitting = [(left, b) for b, left in enumerate(room) if left >= items[i]]
        b = min(fitting)[1] if fitting else len(room)
        if not fitting:
            room.append(capacity)
        room[b] -= items[i]
        chosen[i] = b
    return chosen

def pack(capacity, items):
    start, bins, room, names = 0, [], [], {}
    for seen, answer in SEEN:
        same = next((i for i, (a, b) in enumerate(zip(seen, items)) if a != b), min(len(seen), len(items)))
        if same > start:
            start, bins = same, answer[:same]
    for item, b in zip(items, bins):
        if b == len(room):
            room.append(capacity)
        room[b] -= item
    known = len(room)
    chosen = offline(capacity, items, start, room)
    names = {b: b for b in range(known)}
    answer = bins + [names.setdefault(chosen[i], len(names)) for i in range(start, len(items))]
    SEEN.append((items, answer))
    return answer
"""
    program = Program.of(cheat)
    instances = draws()
    scope: dict = {}
    exec(program.source, scope)
    outputs = [scope["pack"](**i) for i in instances]
    assert score_packings(outputs, instances, 500)["score"] < 5  # this is what fresh processes are for
    with Judge(load_task("bin_packing_uniform")) as judge:
        found = judge.evaluate(program, split="public", seed=1)
    assert found.outcome is Outcome.FAILED and "not online" in found.feedback


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 0, 0], r"answer\[2\] puts an item of 4 into bin 0, which has 3 of 10 left"),
        ([0, 2, 1], r"answer\[1\] is 2; it must be in 0..1"),
        ([0, -1, 1], r"answer\[1\] is -1"),
        ([0, 1], "answer has 2 entries for 3 items"),
        ([0, 1.0, 1], r"answer\[1\] must be an integer"),
        ([0, True, 1], r"answer\[1\] must be a number, not the bool"),
        ("011", "answer must be a list"),
    ],
)
def test_a_packing_that_breaks_a_rule_is_refused(answer: object, message: str) -> None:
    with pytest.raises(Infeasible, match=message):
        checked_packing(answer, [3, 4, 4], 10, "answer")


def test_replays_share_a_beginning_and_then_differ() -> None:
    for name in ("bin_packing_uniform", "bin_packing_weibull"):
        task = load_task(name)
        generate = load_judge_file(task.folder / "generate.py")
        assert task.config.fresh_process
        made = [i["items"] for i in generate.instances("public", random.Random(3))]
        full = [items for items in made if len(items) == generate.LENGTH]
        replays = [items for items in made if len(items) != generate.LENGTH]
        assert len(full) == generate.SEQUENCES and len(replays) == generate.SEQUENCES * generate.CUTS
        for items in replays:
            shared = max(common(items, other) for other in full)
            assert 40 <= shared < len(items) and len(items) - shared <= 62
        assert all(set(i) == {"capacity", "items"} for i in generate.instances("hidden", random.Random(3)))


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_replay_checks_see_every_pair(seed: int) -> None:
    """Sorted neighbours are enough: agrees with a comparison of all pairs, for random decisions."""
    rng = random.Random(seed)
    base = [[rng.randint(1, 3) for _ in range(60)] for _ in range(2)]
    sequences = with_replays(base, 4, lambda: rng.randint(1, 3), rng)
    decisions = [[sum(items[: i + 1]) % 5 for i in range(len(items))] for items in sequences]
    check_replays(sequences, decisions)
    victim = rng.randrange(len(sequences))
    decisions[victim][rng.randrange(len(sequences[victim]))] += 1
    expected = any(
        common(decisions[a], decisions[b]) < common(sequences[a], sequences[b])
        for a in range(len(sequences))
        for b in range(a)
    )
    try:
        check_replays(sequences, decisions)
        assert not expected
    except Infeasible:
        assert expected
