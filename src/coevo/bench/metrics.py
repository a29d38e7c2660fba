"""Numbers of a study as pure functions of search records. docs/bench.md says in words what each is.

Means over searches leave out what was not measured (`None`), and say how many were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevo.bench.types import SearchRecord, Step


def curve(record: SearchRecord, evaluations: int) -> list[float] | None:
    """evolve@k: best public fitness after k evaluations beyond the start, for k = 0 ... `evaluations`.

    A search that ended early keeps its best. None where the start was not measured.
    """
    if record.start is None:
        return None
    best, values = record.start, [record.start]
    for step in record.steps:
        if step.fitness is not None:
            best = max(best, step.fitness)
        while len(values) < step.evaluations:  # Replies that cost no evaluation belong to the last one.
            values.append(best)
        values[-1] = best
    values += [best] * (evaluations + 1 - len(values))
    return values[: evaluations + 1]


def gain_by_round(records: Sequence[SearchRecord]) -> list[float]:
    """How much a round raises the best public fitness, mean over searches; a search that has ended gains nothing."""
    rounds = max((step.round for record in records for step in record.steps), default=0)
    totals, searches = [0.0] * rounds, 0
    for record in records:
        if record.start is None:
            continue
        searches += 1
        best = record.start
        for step in record.steps:
            if step.fitness is not None and step.fitness > best:
                totals[step.round - 1] += step.fitness - best
                best = step.fitness
    return [total / searches for total in totals] if searches else []


def distinct_children(records: Iterable[SearchRecord]) -> float | None:
    """Different programs among the replies of a round, as a share of them; mean over rounds of two replies or more. A copy of
    the parent is no new program, a reply without one is none."""
    shares: list[float] = []
    for record in records:
        rounds: dict[int, list[Step]] = {}
        for step in record.steps:
            rounds.setdefault(step.round, []).append(step)
        for steps in rounds.values():
            if len(steps) > 1:
                shares.append(len({s.program for s in steps if s.program and not s.copy}) / len(steps))
    return _mean(shares)


def entropy(records: Iterable[SearchRecord]) -> float | None:
    """Mean of -log p over all sampled tokens, in nats: an unbiased estimate of the policy's mean token entropy. None where the model
    gives no log-probabilities."""
    steps = [s for record in records for s in record.steps if s.surprise is not None and s.tokens]
    tokens = sum(s.tokens for s in steps)
    return math.fsum(s.surprise or 0.0 for s in steps) / tokens if tokens else None


def speedup(records: Iterable[SearchRecord]) -> float | None:
    """Geometric mean of the verified speed-up over the reference, over right programs of timed tasks; None without any."""
    logs = [math.log(r.hidden_speedup) for r in records if r.hidden_right and r.hidden_speedup]
    mean = _mean(logs)
    return None if mean is None else math.exp(mean)


@dataclass(frozen=True)
class Metric:
    """A named number of a list of records."""

    name: str
    what: str
    of: Callable[[Sequence[SearchRecord]], float | None]
    form: str = ".3f"


def _over_searches(value: Callable[[SearchRecord], float | None]) -> Callable[[Sequence[SearchRecord]], float | None]:
    return lambda records: _mean([v for record in records if (v := value(record)) is not None])


def _over_replies(value: Callable[[Step], float | None]) -> Callable[[Sequence[SearchRecord]], float | None]:
    return lambda records: _mean([v for r in records for step in r.steps if (v := value(step)) is not None])


def _improves(step: Step) -> float | None:
    if step.parent_fitness is None:
        return None
    return float(step.fitness is not None and step.fitness > step.parent_fitness)


METRICS: Mapping[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "fitness", "verified fitness of the best program, on hidden tests", _over_searches(lambda r: r.hidden_best)
        ),
        Metric("gain", "verified improvement over the start program", _over_searches(lambda r: r.gain)),
        Metric(
            "right",
            "share of searches whose best passes every hidden test",
            _over_searches(lambda r: None if r.hidden_right is None else float(r.hidden_right)),
        ),
        Metric(
            "speedup", "times the reference's speed, geometric mean over right programs of timed tasks", speedup, ".3g"
        ),
        Metric("public", "best public fitness, as the search saw it", _over_searches(lambda r: r.best)),
        Metric("improving", "share of replies better than their parent", _over_replies(_improves)),
        Metric("copies", "share of replies that hand the parent back", _over_replies(lambda s: float(s.copy))),
        Metric("repeats", "share of replies the search had already", _over_replies(lambda s: float(s.duplicate))),
        Metric(
            "parsed", "share of replies that hold a program", _over_replies(lambda s: float(bool(s.program) or s.copy))
        ),
        Metric("distinct", "different programs in a round, as a share of its replies", distinct_children),
        Metric("novelty", "distance of a reply's program from its parent, 0 to 1", _over_replies(lambda s: s.distance)),
        Metric("entropy", "nats per token of the replies", entropy),
        Metric("reply_tokens", "mean length of a reply", _over_replies(lambda s: float(s.tokens) or None), ".1f"),
        Metric("evaluations", "evaluations spent per search", _over_searches(lambda r: float(r.evaluations)), ".1f"),
        Metric("tokens", "tokens spent per search", _over_searches(lambda r: float(r.tokens)), ".0f"),
    )
}


def summary(records: Sequence[SearchRecord]) -> dict[str, float | None]:
    """Every metric of these records, and how many searches were measured on hidden tests."""
    measured = sum(record.hidden_best is not None for record in records)
    return {"searches": len(records), "measured": measured, **{name: m.of(records) for name, m in METRICS.items()}}


def table_of(
    records: Iterable[SearchRecord], *, seeds: Sequence[int], tasks: Sequence[str], metric: str = "hidden_best"
) -> list[list[float]]:
    """Values as a (seeds x tasks) table; NaN where there is none. `metric` is a field or property of a record."""
    cells = {(r.seed, r.task): getattr(r, metric) for r in records}
    rows = ([cells.get((seed, task)) for task in tasks] for seed in seeds)
    return [[math.nan if value is None else float(value) for value in row] for row in rows]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
