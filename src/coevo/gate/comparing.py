"""Two recorded sets of rollouts, paired by task: the gate's test at a fixed sample, and what stands against believing it.

`compare(a, b)` asks whether B is better than A. Unlike the gate it takes no samples of its own: how the rows came about, and how often somebody
has looked, is not in them. What can be told from the rows is told in `warnings`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.types import Frame
from coevo.gate.checks.integrity import has_reason
from coevo.gate.checks.tables import by_luck, means, named
from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan, detectable_by, estimate, to_settle, walk
from coevo.gate.types import Verdict
from coevo.stats import sign_flip_p

Metric = Literal["truth", "reward", "fitness"]
SPLITS = ("holdout", "eval", "report", "gate", "test", "train")
"""Which split is compared when none is named: the first that both have."""
FEW_SAMPLES = 4
TWICE = 0.001
"""Share of rows that say they are another row, from which on nothing is compared (as diagnostic `duplicate-rows`)."""
BRANCHES = "branches"


@dataclass(frozen=True)
class Paired:
    """What a comparison found. `difference` is B less A, the mean over tasks, in units of the metric."""

    verdict: Verdict
    reasons: tuple[str, ...]
    a: str
    b: str
    metric: str
    split: str
    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    """Each bound at one-sided `alpha`."""
    p: float | None = None
    """One-sided, of "B is no better than A"."""
    p_worse: float | None = None
    """One-sided, of "B is no worse than A"."""
    alpha: float = 0.05
    tasks: int = 0
    samples: tuple[int, int] = (0, 0)
    """Measured, of A and B, on the tasks that both have."""
    unmeasured: tuple[float, float] = (0.0, 0.0)
    """Shares."""
    detectable: float | None = None
    """True gain that so many tasks, with the spread seen, would show at the stated power."""
    to_settle: int | None = None
    """inconclusive: about how many tasks would settle it."""
    warnings: tuple[str, ...] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        return {"schema": 1, **vars(self), "verdict": str(self.verdict)}


class _Arm(NamedTuple):
    name: str
    frame: Frame
    tasks: frozenset[str]


def compare_evidence(a: str | Path, b: str | Path, **options: Any) -> Paired:
    """`compare` of two sources: files, folders, runs, or SOURCE:BRANCH (a branch of a lab, or of a file that holds several). Options as there."""
    return compare(_opened(a), _opened(b), names=(str(a), str(b)), **options)


def compare(
    a: Frame,
    b: Frame,
    *,
    metric: Metric = "truth",
    split: str = "",
    step: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    min_tasks: int = 12,
    unmeasured: float = 0.1,
    seed: int = 0,
    names: tuple[str, str] = ("A", "B"),
) -> Paired:
    """Is B better than A, on the tasks that both have. Of a split other than train that was measured at several steps, each side's last step
    counts, or `step`. Raises `UsageError` where one side has no such rows or no such metric."""
    config = GateConfig(
        alpha=alpha, power=power, looks=1, min_tasks=min_tasks, unmeasured=unmeasured, holdout=False, futility=0
    )
    warnings: list[str] = []
    chosen = split or _common_split(a, b, names)
    arms = [_arm(frame, chosen, step, metric, name, warnings) for frame, name in ((a, names[0]), (b, names[1]))]
    tasks = sorted(arms[0].tasks & arms[1].tasks)
    if not tasks:
        raise UsageError(
            f"{names[0]} and {names[1]} have no task in common in split {chosen!r}: {_few(arms[0].tasks)} against "
            f"{_few(arms[1].tasks)}; compare rollouts on the same tasks"
        )
    warnings += _odd(arms, tasks, metric)
    columns = [means([arm.frame], tasks, named(metric)) for arm in arms]
    differences = columns[1] - columns[0]
    paths = differences[:, None]
    plan = Plan.of(config, alpha)
    found = estimate(plan, paths, seed=seed)
    worth = detectable_by(config, plan, paths)
    counts, shares = zip(*(_counts(arm.frame, tasks, metric) for arm in arms), strict=True)
    barred = _twice(arms) or _barred(config, found.tasks, counts, shares)
    verdict, _, why = walk(config, plan, paths, goal=worth, seed=seed)
    assert verdict is not None  # One look is the last.
    if verdict is Verdict.PROMOTED:
        why = f"a difference of {found.difference:+.4f} is no luck at level {alpha:g}"
        if lost := _if_lacking_failed(config, plan, arms, tasks, metric, goal=worth, seed=seed):
            verdict, why = Verdict.INCONCLUSIVE, lost
    if barred:
        verdict, why = Verdict.UNMEASURED, barred
    both = np.isfinite(differences)
    known = differences[both]
    return Paired(
        verdict=verdict,
        reasons=(why,),
        a=names[0],
        b=names[1],
        metric=metric,
        split=chosen,
        mean_a=float(columns[0][both].mean()) if len(known) else None,
        mean_b=float(columns[1][both].mean()) if len(known) else None,
        difference=_finite(found.difference),
        low=_finite(found.low),
        high=_finite(found.high),
        p=sign_flip_p(list(known), seed=seed, alternative="greater"),
        p_worse=sign_flip_p(list(known), seed=seed, alternative="less"),
        alpha=alpha,
        tasks=found.tasks,
        samples=counts,
        unmeasured=shares,
        detectable=_finite(worth),
        to_settle=to_settle(config, plan, found, worth) if verdict is Verdict.INCONCLUSIVE else None,
        warnings=tuple(warnings),
    )


def _if_lacking_failed(
    config: GateConfig,
    plan: Plan,
    arms: Sequence[_Arm],
    tasks: Sequence[str],
    metric: str,
    *,
    goal: float | None,
    seed: int,
) -> str:
    """Why B is not surely better: rows of it that were not measured may be just those that failed. "" where it is better even so."""
    column = named(metric)
    known = [column(arm.frame)[~has_reason(arm.frame)] for arm in arms]
    least = min(float(values[np.isfinite(values)].min()) for values in known)
    worst = means([arms[1].frame], tasks, column, lacking=least) - means([arms[0].frame], tasks, column)
    verdict, _, _ = walk(config, plan, worst[:, None], goal=goal, seed=seed)
    if verdict is Verdict.PROMOTED:
        return ""
    return f"samples that {arms[1].name} lacks may be those that failed; counted as {least:g}, its gain is not certain"


def _opened(source: str | Path) -> Frame:
    from coevo.evidence.opening import open_evidence

    base, colon, branch = str(source).rpartition(":")
    if not colon or Path(source).exists() or not Path(base).exists():
        return open_evidence(source)
    if (run := Path(base) / BRANCHES / branch).is_dir():
        return open_evidence(run)
    frame = open_evidence(base)
    mask = frame.is_word("branch", branch) | frame.is_word("run", branch)
    if not mask.any():
        known = _few({*frame.words("branch").values, *frame.words("run").values})
        raise UsageError(f"no rows of a branch or run {branch!r} in {base}; it has {known}")
    return frame.where(mask)


def _common_split(a: Frame, b: Frame, names: tuple[str, str]) -> str:
    splits = [set(frame.words("split").values) for frame in (a, b)]
    if not splits[0] and not splits[1]:
        return ""
    common = splits[0] & splits[1]
    if not common:
        raise UsageError(
            f"no split in common: {names[0]} has {_few(splits[0])}, {names[1]} has {_few(splits[1])}; name one that both have "
            "with --split, after measuring both on it"
        )
    return min(common, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))


def _arm(frame: Frame, split: str, step: int | None, metric: str, name: str, warnings: list[str]) -> _Arm:
    rows = frame.split(split) if split else frame
    if not rows.rows:
        has = ", ".join(sorted(frame.words("split").values)) or "none"
        raise UsageError(f"{name} has no rows of split {split!r} (it has: {has})")
    steps = np.unique(rows.numbers("step")[np.isfinite(rows.numbers("step"))])
    if step is not None:
        if step not in steps:
            raise UsageError(f"{name} has no rows of step {step} in split {split!r} (it has {_few(map(int, steps))})")
        rows = rows.where(rows.numbers("step") == step)
    elif len(steps) > 1 and split != "train":
        warnings.append(f"{name} was measured at {len(steps)} steps; the last, {int(steps[-1])}, is compared")
        rows = rows.where(rows.numbers("step") == steps[-1])
    if not rows.has(metric):
        others = [m for m in ("truth", "reward", "fitness") if rows.has(m)]
        raise UsageError(
            f"{name} has no {metric}{f' in split {split!r}' if split else ''}; it has "
            + (f"{' and '.join(others)} (--metric {others[0]})" if others else "no score at all")
        )
    if not rows.has("task"):
        raise UsageError(f"{name} does not say which task a rollout belongs to; a comparison is paired by task")
    codes, values = rows.words("task")
    return _Arm(name, rows, frozenset(values[i] for i in np.unique(codes[codes >= 0])))


def _counts(frame: Frame, tasks: Sequence[str], metric: str) -> tuple[int, float]:
    """(measured samples, share of unmeasured ones) on some tasks. A sample whose number is passed over was there once: it is unmeasured, too."""
    codes, values = frame.words("task")
    here = np.isin(codes, [i for i, value in enumerate(values) if value in set(tasks)])
    good = here & np.isfinite(frame.numbers(metric)) & ~has_reason(frame)
    return int(good.sum()), 1 - float(good.sum()) / max(1, int(here.sum()) + _passed_over(frame.where(here)))


def _passed_over(frame: Frame) -> int:
    """Sample numbers within a group under its largest that no row has: the mean of what a filter left is not the policy's. 0 where samples are not
    numbered."""
    sample = frame.numbers("sample")
    known = np.isfinite(sample)
    if not known.any():
        return 0
    numbers = sample[known] - sample[known].min()
    if (numbers != np.floor(numbers)).any():
        return 0
    _, group = np.unique(frame.groups[known], return_inverse=True)
    pairs = np.unique(np.stack([group, numbers], axis=1), axis=0)
    largest = np.zeros(int(group.max()) + 1)
    np.maximum.at(largest, group, numbers)
    missing = float((largest + 1).sum()) - len(pairs)
    return int(missing) if missing <= frame.rows * 100 else 0  # Numbers that are ids of a whole run count nothing.


def _twice(arms: Sequence[_Arm]) -> str:
    """Why nothing can be said of rows that are there twice: what is repeated weighs more. "" where none is."""
    for arm in arms:
        sample = arm.frame.numbers("sample")
        known = np.isfinite(sample)
        again = int(known.sum()) - len(np.unique(np.stack([arm.frame.groups[known], sample[known]], axis=1), axis=0))
        if again > TWICE * known.sum():
            return (
                f"{again} of {int(known.sum())} rows of {arm.name} have the step, group and sample number of another: a mean over them counts some "
                "twice. Take the repeated ones out, or give groups names of their own"
            )
    return ""


def _barred(config: GateConfig, tasks: int, counts: Sequence[int], shares: Sequence[float]) -> str:
    """Why nothing can be said, "" if something can."""
    if max(shares) > config.unmeasured:
        return f"{shares[0]:.0%} and {shares[1]:.0%} of the samples are unmeasured or not there, over the limit of {config.unmeasured:.0%}"
    asked = [round(count / max(1e-9, 1 - share)) for count, share in zip(counts, shares, strict=True)]
    lost = [total - count for total, count in zip(asked, counts, strict=True)]
    if 2 * min(by_luck(lost[0], asked[0], lost[1], asked[1]), by_luck(lost[1], asked[1], lost[0], asked[0])) < 0.01:
        return f"{lost[0]} and {lost[1]} samples are unmeasured or not there: what is missing depends on the side, and may be what failed"
    if tasks < config.min_tasks:
        return f"{tasks} tasks are measured on both sides; {config.min_tasks} are needed"
    return ""


def _odd(arms: Sequence[_Arm], tasks: Sequence[str], metric: str) -> list[str]:
    """What a reader must know before believing it."""
    a, b = arms
    found = []
    alone = [(arm, sorted(arm.tasks - set(tasks))) for arm in arms]
    found += [f"{len(rest)} tasks of {arm.name} alone are left out: {_few(rest)}" for arm, rest in alone if rest]
    if _same_rows(a.frame, b.frame):
        found.append("both sides are the same rows: this compares a file with itself")
    for arm in arms:
        codes, values = arm.frame.words("branch" if arm.frame.has("branch") else "run")
        several = [values[i] for i in np.unique(codes[codes >= 0])]
        if len(several) > 1:
            found.append(
                f"{arm.name} holds {len(several)} branches ({_few(several)}), taken together; one is SOURCE:BRANCH"
            )
        per_task = arm.frame.rows / max(1, len(arm.tasks))
        if per_task < FEW_SAMPLES:
            found.append(f"{arm.name} has {per_task:.1f} samples a task; more tasks help most, then more samples")
        kept = arm.frame.numbers("kept")
        if metric == "reward" and np.isfinite(kept).any() and not (kept == 0).any():
            found.append(f"{arm.name} holds only rows that a filter kept: its mean is not the policy's")
    if metric == "truth":
        found += _public_against_truth(a, b, tasks)
    elif a.frame.has("truth") and b.frame.has("truth"):
        rises = [_rise(a, b, tasks, column) for column in (metric, "truth")]
        if rises[0] * rises[1] < 0 or abs(rises[0]) > abs(rises[1]) + 0.05:
            found.append(f"{metric} changes by {rises[0]:+.3f} and truth by {rises[1]:+.3f}: compare truth")
    return found


def _public_against_truth(a: _Arm, b: _Arm, tasks: Sequence[str]) -> list[str]:
    found = []
    for column in ("fitness", "reward"):
        if not (a.frame.has(column) and b.frame.has(column)):
            continue
        rise, truth = _rise(a, b, tasks, column), _rise(a, b, tasks, "truth")
        if rise > 0.05 and truth < rise / 2:
            found.append(f"{column} rose by {rise:.3f}, truth by {truth:+.3f}: what is seen improved more than what is")
        break
    return found


def _rise(a: _Arm, b: _Arm, tasks: Sequence[str], column: str) -> float:
    moved = means([b.frame], tasks, named(column)) - means([a.frame], tasks, named(column))
    return float(moved[np.isfinite(moved)].mean()) if np.isfinite(moved).any() else 0.0


def _same_rows(a: Frame, b: Frame) -> bool:
    names = [n for n in ("truth", "reward", "tokens", "logprob_mean", "wall_s", "step") if a.has(n) or b.has(n)]
    return a.rows == b.rows and all(np.array_equal(a.numbers(n), b.numbers(n), equal_nan=True) for n in names)


def _few(names: Any, most: int = 4) -> str:
    listed = sorted(map(str, names))
    return (", ".join(listed[:most]) or "none") + (f" and {len(listed) - most} more" if len(listed) > most else "")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
