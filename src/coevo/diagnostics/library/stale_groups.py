"""Groups that come back at a later step, to the last digit of their log-probabilities."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import groups_of
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

DIFFERENT = 4
"""Values in a group, fewer of which may come back by chance: a policy over a few answers has few values."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    logs = frame.numbers("logprob_mean")
    groups = groups_of(frame, logs)
    able = groups.where(_different(frame, logs)[groups.ids] >= DIFFERENT)
    if len(able.n) < 2:
        return Reading(None, "no two groups have four different log-probabilities each")
    tokens = np.nan_to_num(frame.numbers("tokens"), nan=-1.0)
    marks = (
        _mixed(logs) + _mixed(tokens) * np.uint64(3) + _mixed(frame.words("task").codes.astype(float)) * np.uint64(5)
    )
    marks[~np.isfinite(logs)] = 0
    sums = np.zeros(int(frame.groups.max()) + 1, dtype=np.uint64)
    np.add.at(sums, frame.groups, marks)
    signature = sums[able.ids]
    _, first, inverse = np.unique(signature, return_index=True, return_inverse=True)
    seen = able.step[first[inverse]]
    again = able.step > seen if np.isfinite(able.step).all() else np.arange(len(seen)) != first[inverse]
    note = f"{int(again.sum())} of {len(again)} groups repeat an earlier step's, log-probabilities and all"
    rows = tuple(frame.number_of(int(row)) for row in able.where(again).first[-5:])
    return Reading(float(again.mean()), note, len(again), rows)


def _different(frame: Frame, logs: np.ndarray) -> np.ndarray:
    """How many different values each group has, by its number."""
    known = np.isfinite(logs)
    ids, some = frame.groups[known], logs[known]
    order = np.lexsort((some, ids))
    ids, some = ids[order], some[order]
    new = np.ones(len(ids), dtype=bool)
    new[1:] = (np.diff(ids) != 0) | (np.diff(some) != 0)
    return np.bincount(ids[new], minlength=int(frame.groups.max(initial=-1)) + 1)


def _mixed(values: np.ndarray) -> np.ndarray:
    """A hash of each float64 (the finaliser of MurmurHash3); order within a group does not matter to sums of them."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64).copy()
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(33))


_fresh = rows_of(lambda s: {"reward": coin(s, 0.5), "logprob_mean": -float(s.rng.exponential())}, groups=4, size=8)


def _every_other_again():
    rows = list(_fresh())
    old = [rows[i - 32]["logprob_mean"] if i // 32 % 2 else row["logprob_mean"] for i, row in enumerate(rows)]
    return [{**row, "logprob_mean": logprob} for row, logprob in zip(rows, old, strict=True)]


DIAGNOSTIC = Diagnostic(
    id="stale-groups",
    title="Stale groups",
    layer=Layer.MEASUREMENT,
    formula="share of groups (with four different log-probabilities or more) whose task, token counts and log-probabilities are those of a group of an earlier step, bit by bit",
    source="ours; a fresh sample under changed weights has other log-probabilities, a buffer's has not",
    needs=("logprob_mean", "group|task", "step"),
    levels=Levels(0.02, 0.2),
    measure=measure,
    means="Rollouts are used again at later steps, or were written under the wrong step.",
    advice="Check the rollout buffer and what a resume replays. If reuse is meant, correct for it with the sampler's log-probabilities.",
    cases=(
        Case("a buffer that is not refilled", _every_other_again, Level.CRITICAL),
        Case("always fresh", _fresh, Level.OK),
        Case(
            "a policy that is certain",
            rows_of(lambda s: {"reward": 1.0, "logprob_mean": -0.0, "tokens": 5}),
            Level.UNKNOWN,
        ),
    ),
)
