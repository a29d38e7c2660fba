"""A policy that a few steps turned into another one."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import by_step, number
from coevo.diagnostics.signal import uncertainty
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW = 5
"""Steps within which no healthy policy loses most of its entropy, or doubles it."""
FEWEST = 10


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    name, values = uncertainty(frame)
    course = by_step(frame, values)
    count = len(course.steps)
    if count < FEWEST:
        return Reading(None, f"{count} steps with {name}; it takes {FEWEST}", course.n, (), course.series)
    means = course.means
    start = float(means[0])
    if start <= 0:
        return Reading(None, f"{name} is {number(start)} at the first step", course.n, (), course.series)
    total = np.concatenate([[0.0], np.cumsum(means)])
    first = np.arange(count - FEW)
    # Before: up to five steps that end at i. After: up to five that begin five steps later. One step's noise makes no change.
    low = np.maximum(0, first - FEW + 1)
    before = (total[first + 1] - total[low]) / (first + 1 - low)
    high = np.minimum(count, first + 2 * FEW)
    after = (total[high] - total[first + FEW]) / (high - first - FEW)
    changes = np.abs(before - after) / start
    worst = int(changes.argmax())
    note = f"within {FEW} steps from step {int(course.steps[worst])} on, {name} went from {number(float(before[worst]))} to {number(float(after[worst]))}"
    return Reading(float(changes[worst]), note, course.n, (), course.series)


def _run(entropy):
    return rows_of(
        lambda s: {"reward": coin(s, 0.4), "entropy_mean": entropy(s.step) * float(s.rng.uniform(0.8, 1.2))}, steps=60
    )


DIAGNOSTIC = Diagnostic(
    id="learning-rate-too-high",
    title="Learning rate too high",
    layer=Layer.POLICY,
    formula="largest change of mean entropy per token (or of -logprob_mean) within five steps, means of up to five steps on both sides, over its value at the first step",
    source="ours; measured on runs with a rate a hundred times too high, docs/diagnose.md",
    needs=("entropy_mean|logprob_mean", "step"),
    levels=Levels(0.65, 0.85),
    measure=measure,
    means="A handful of updates decided for good what the policy does, on the evidence of a handful of groups.",
    advice="Divide the learning rate by three to ten, or warm up; start again from before the fall.",
    cases=(
        Case("gone in five steps", _run(lambda step: 2.0 if step < 4 else 0.05), Level.CRITICAL),
        Case("most in five steps", _run(lambda step: 2.0 if step < 20 else 0.45), Level.WARN),
        Case("noise after one update", _run(lambda step: 0.8 if step < 2 else 1.9), Level.CRITICAL),
        Case("gone in sixty", _run(lambda step: 2.0 * (1 - step / 61)), Level.OK),
        Case("stays", _run(lambda step: 1.0), Level.OK),
    ),
)
