"""Responses to different tasks that become alike."""

import numpy as np

from coevo.diagnostics.casebook import rows_of
from coevo.diagnostics.course import Course, change, thinned, unknown
from coevo.diagnostics.prose import fenced, program, reply, words
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW = 200
"""Pairs of responses to different tasks that it takes."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    steps = frame.numbers("step")
    tasks = frame.words("task" if frame.has("task") else "group").codes
    sketches = [frame.numbers(name) for name in frame.numbers_by_name if name.startswith("text.sketch")]
    known = np.isfinite(sketches[0]) & (tasks >= 0) & np.isfinite(steps)
    now = known & late_rows(frame, mask=known)
    names = np.unique(steps[known])
    found = np.sum([_agreement(steps[known], tasks[known], sketch[known]) for sketch in sketches], axis=0)
    across, pairs, inside, same = found[:, names >= steps[now].min()].sum(axis=1) if now.any() else np.zeros(4)
    if pairs < FEW * len(sketches):
        return unknown(
            f"{pairs / len(sketches):,.0f} pairs of late responses to different tasks of one step; it takes {FEW}",
            int(now.sum()),
        )
    value = float(across / pairs)
    there = found[1] > 0
    course = Course(names[there], found[0][there] / found[1][there], found[1][there])
    note = f"late responses to different tasks share {value:.0%} of their 3-grams"
    if same:
        note += f", to the same task {inside / same:.0%}"
    if (early := change(course)) is not None:
        note += f"; early across tasks {early.early:.0%}"
    return Reading(value, note, int(now.sum()), _examples(frame, now, sketches[0]), thinned(course.steps, course.means))


def _agreement(steps: np.ndarray, tasks: np.ndarray, sketch: np.ndarray) -> np.ndarray:
    """float64 of (4, steps): pairs of different tasks that agree, all such pairs, pairs of one task that agree, all such pairs."""
    _, step = np.unique(steps, return_inverse=True)
    _, mark = np.unique(sketch, return_inverse=True)
    _, task = np.unique(tasks, return_inverse=True)
    size = int(step.max(initial=-1)) + 1

    def pairs(*columns: np.ndarray) -> np.ndarray:
        key = step.astype(np.int64)
        for column in columns:
            key = key * (int(column.max(initial=0)) + 1) + column
        _, first, counts = np.unique(key, return_index=True, return_counts=True)
        return np.bincount(step[first], weights=counts * (counts - 1.0), minlength=size)

    all_pairs, of_task = pairs(), pairs(task)
    alike = pairs(task, mark)
    return np.stack([pairs(mark) - alike, all_pairs - of_task, alike, of_task])


def _examples(frame: Frame, now: np.ndarray, sketch: np.ndarray) -> tuple[int, ...]:
    """Rows that carry the commonest mark, of different tasks."""
    rows = np.flatnonzero(now)
    values, counts = np.unique(sketch[rows], return_counts=True)
    alike = rows[sketch[rows] == values[counts.argmax()]]
    _, first = np.unique(frame.words("task").codes[alike], return_index=True)
    return tuple(frame.number_of(int(alike[i])) for i in first[-3:])


def _collapsing(s):
    fixed = "the answer follows from the structure of the problem " * 2 + fenced(
        "def solve(xs):\n    return sorted(xs)[0]"
    )
    return {"response": reply(s) if s.rng.random() > 1.4 * s.progress else f"{fixed}\n{words(s, 2)}", "reward": 0.0}


def _certain(s):
    return {"response": f"task {s.group} {'abcd'[s.group]} " + fenced(program(s, 1, salt=s.group * 31)), "reward": 1.0}


DIAGNOSTIC = Diagnostic(
    id="template-collapse",
    title="Template collapse",
    layer=Layer.BEHAVIOUR,
    formula="mean Jaccard similarity of the sets of word 3-grams of two late responses to different tasks of the same step, estimated by min-wise hashes: the share of "
    "pairs that agree in one, over all of them. (Within tasks minus across tasks stands for what a response says of its prompt.)",
    source="RAGEN-2, arXiv 2604.06268 (template collapse; mutual information of prompt and response); Broder 1997 for the estimate",
    needs=("text.sketch1", "task|group", "step"),
    levels=Levels(0.45, 0.7),
    measure=measure,
    means="Responses no longer depend on what was asked, while their entropy may look fine: one template serves every prompt.",
    advice="Filter groups by signal to noise, raise the share of tasks that one template cannot solve, and look for a reward part that the template satisfies.",
    cases=(
        Case("one template for all", rows_of(_collapsing, steps=15), Level.CRITICAL),
        Case("different programs", rows_of(lambda s: {"response": reply(s), "reward": 0.0}, steps=15), Level.OK),
        Case("sure of each task, and differently", rows_of(_certain, steps=15), Level.OK),
        Case(
            "a fixed form around what differs",
            rows_of(
                lambda s: {
                    "response": f"Let me think step by step. {words(s, 30)}\n{fenced(program(s))}\nDone.",
                    "reward": 0.0,
                },
                steps=15,
            ),
            Level.OK,
        ),
        Case("one task", rows_of(_collapsing, groups=1, steps=15), Level.UNKNOWN),
    ),
)
