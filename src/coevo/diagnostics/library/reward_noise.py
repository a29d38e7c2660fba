"""How differently the same program is paid."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, shown, usable, within
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 30
"""Rollouts that share their program with another one of their group."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards = frame.numbers("reward")
    codes, values = frame.words("program_hash")
    empty = values.index("") if "" in values else -1
    known = late_rows(frame, mask=usable(frame, "reward") & (codes >= 0) & (codes != empty))
    if not known.any():
        return Reading(None, "no measured rollout names its program")
    _, cells, counts = np.unique(
        frame.groups[known] * (len(values) + 1) + codes[known], return_inverse=True, return_counts=True
    )
    r = rewards[known]
    means = np.bincount(cells, weights=r) / counts
    repeated = counts[cells] > 1
    degrees = int(counts[counts > 1].sum() - (counts > 1).sum())
    if repeated.sum() < FEWEST:
        return Reading(
            None,
            f"{int(repeated.sum())} late rollouts share their program with another of their group; it takes {FEWEST}",
        )
    noise = float(((r - means[cells])[repeated] ** 2).sum()) / degrees
    _, sizes = np.unique(frame.groups[known], return_counts=True)
    signal = within(frame, rewards, known)[known]
    spread = float((signal**2).sum()) / max(1, len(r) - len(sizes))
    if spread < 1e-12:
        return Reading(0.0, "rewards do not differ within groups", int(repeated.sum()))
    share = noise / spread
    note = (
        f"equal programs of a group differ by a standard deviation of {number(noise**0.5)} in reward, all of its rollouts by {number(spread**0.5)}"
        f" ({int(repeated.sum())} rollouts with a twin)"
    )
    at = np.zeros(frame.rows, dtype=bool)
    at[np.flatnonzero(known)[repeated & (np.abs(r - means[cells]) > noise**0.5)]] = True
    return Reading(min(1.0, share), note, int(repeated.sum()), shown(frame, at) if share > 0.1 else ())


def _run(jitter: float):
    def make(s):
        which = int(s.rng.integers(3))
        return {"reward": 0.3 * which + jitter * float(s.rng.normal()), "program_hash": f"p{which}"}

    return rows_of(make)


DIAGNOSTIC = Diagnostic(
    id="reward-noise",
    title="Noise in the reward",
    layer=Layer.SIGNAL,
    formula="variance of rewards among rollouts of one group with one program_hash, over the variance of rewards within groups; last third",
    source="ours: measured time is noise to a policy; one decode took ten times as long beside a busy neighbour",
    needs=("reward", "program_hash", "group|task"),
    levels=Levels(0.25, 0.5),
    measure=measure,
    means="A good part of what is compared is the measurement's jitter: the same program wins here and loses there.",
    advice="Measure paired and repeated, count instead of timing, give the reward a tolerance, or filter by signal to noise.",
    cases=(
        Case("mostly jitter", _run(0.4), Level.CRITICAL),
        Case("some jitter", _run(0.2), Level.WARN),
        Case("a little", _run(0.02), Level.OK),
        Case(
            "no twins",
            rows_of(lambda s: {"reward": coin(s, 0.5), "program_hash": f"{s.step}.{s.group}.{s.sample}"}),
            Level.UNKNOWN,
        ),
    ),
)
