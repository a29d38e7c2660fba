"""Better on the tasks it trains on, and not on the others."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import by_step, change, number, quantile_t
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

LEAST = 0.3
"""Standard deviations by which training must have risen."""
FEWEST = 6
"""Tasks that were evaluated early and late."""
HELD_OUT = ("eval", "test", "val", "validation", "dev")


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    held = np.zeros(frame.rows, dtype=bool)
    for name in HELD_OUT:
        held |= frame.is_word("split", name)
    name = _shared(frame, held)
    if name is None:
        return Reading(
            None, "no evaluation rows (split eval) with a truth, fitness or reward that training rows have, too"
        )
    values = frame.numbers(name)
    train = frame.is_word("split", "train") & np.isfinite(values)
    course = by_step(frame, values, train)
    rise = change(course)
    sd = float(values[train].std())
    if rise is None or sd < 1e-9:
        return Reading(None, f"{len(course.steps)} training steps with {name}, too few, or all alike")
    differences = _by_task(frame, values, held & np.isfinite(values))
    if len(differences) < FEWEST:
        return Reading(None, f"{len(differences)} tasks were evaluated both early and late; it takes {FEWEST}")
    gain = float(differences.mean())
    reach = quantile_t(len(differences) - 1) * float(differences.std(ddof=1)) / math.sqrt(len(differences))
    note = f"{name} on training rows {number(rise.early)} -> {number(rise.late)}; on {len(differences)} held-out tasks {gain:+.3f} (at most {gain + reach:+.3f})"
    if not rise.rose or rise.difference < LEAST * sd:
        return Reading(1.0, f"{note}: training did not rise", course.n, (), course.series)
    return Reading(min(1.0, (gain + reach) / rise.difference), note, len(differences), (), course.series)


def _shared(frame: Frame, held: np.ndarray) -> str | None:
    for name in ("truth", "fitness", "reward"):
        known = np.isfinite(frame.numbers(name))
        if (known & held).any() and (known & frame.is_word("split", "train")).any():
            return name
    return None


def _by_task(frame: Frame, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Last less first evaluation's mean, for each task that has both: (tasks,)."""
    steps, codes = frame.numbers("step"), frame.words("task").codes
    mask = mask & np.isfinite(steps) & (codes >= 0)
    different = np.unique(steps[mask])
    if len(different) < 2:
        return np.empty(0)
    k = max(1, len(different) // 3)
    size = int(codes.max()) + 1
    means = []
    for part in (different[:k], different[-k:]):
        some = mask & np.isin(steps, part)
        counts = np.bincount(codes[some], minlength=size)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append(np.bincount(codes[some], weights=values[some], minlength=size) / counts)
    found = means[1] - means[0]
    return found[np.isfinite(found)]


def _run(last: float):
    def rows():
        train = rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.8))})()
        held = rows_of(
            lambda s: {"reward": coin(s, ramp(s, 0.2, last)), "task": f"held-{s.group}"}, groups=12, split="eval"
        )()
        return [*train, *(row for row in held if row["step"] in (1, 10, 20, 30))]

    return rows


DIAGNOSTIC = Diagnostic(
    id="train-eval-gap",
    title="Training against evaluation",
    layer=Layer.SCORE,
    formula="(gain on held-out tasks from the first to the last third of evaluations, paired by task, at the upper end of its 95 % interval) / (rise on training rows); 1 where training did not rise",
    source="ours",
    needs=("split", "step", "task", "truth|fitness|reward"),
    levels=Levels(0.25, 0.0),
    measure=measure,
    means="What is learned is the training tasks and not the skill.",
    advice="More and more varied tasks, fewer passes over them, an earlier checkpoint.",
    cases=(
        Case("memorised", _run(0.05), Level.CRITICAL),
        Case("carries over", _run(0.7), Level.OK),
        Case("no evaluation", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.8))}), Level.UNKNOWN),
    ),
    split="",
)
