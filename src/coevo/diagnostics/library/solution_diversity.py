"""How many different programs a group holds."""

import numpy as np

from coevo.diagnostics.casebook import rows_of
from coevo.diagnostics.course import change, course_of, number, unknown
from coevo.diagnostics.prose import fenced, program
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW = 5


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    programs, what = _programs(frame)
    rows = np.flatnonzero(np.isfinite(programs))
    _, marks = np.unique(programs[rows], return_inverse=True)
    _, groups = np.unique(frame.groups[rows], return_inverse=True)
    size = int(groups.max(initial=-1)) + 1
    counts = np.bincount(groups, minlength=size)
    pairs = np.unique(groups.astype(np.int64) * (int(marks.max(initial=0)) + 1) + marks, return_index=True)[1]
    distinct = np.bincount(groups[pairs], minlength=size)
    first = np.zeros(size, dtype=np.int64)
    first[groups[::-1]] = rows[::-1]
    able = counts > 1
    values = (distinct[able] - 1) / (counts[able] - 1)
    now = late_rows(frame)[first[able]]
    if now.sum() < FEW:
        return unknown(f"{int(now.sum())} late groups hold two programs or more; it takes {FEW}", int(now.sum()))
    value = float(values[now].mean())
    course = course_of(frame.numbers("step")[first[able]], values)
    note = f"{number(float(distinct[able][now].mean()))} different {what} among {number(float(counts[able][now].mean()))} in a late group"
    if (found := change(course)) is not None:
        note += f"; (distinct - 1) / (n - 1) {number(found.early)} -> {number(found.late)}"
    least = first[able][now][np.argsort(values[now], kind="stable")[:5]]
    return Reading(value, note, int(now.sum()), tuple(frame.number_of(int(row)) for row in least), course.series)


def _programs(frame: Frame) -> tuple[np.ndarray, str]:
    """A number that is the same for the same program, NaN for none: by the program's hash where most rows that hold a program have one."""
    codes, values = frame.words("program_hash")
    hashed = np.where((codes >= 0) & (codes != (values.index("") if "" in values else -1)), codes.astype(float), np.nan)
    shapes = frame.numbers("text.shape")
    if np.isfinite(hashed).sum() >= np.isfinite(shapes).sum():
        return hashed, "programs"
    return shapes, "programs (by their normal form)"


def _kinds(first: int, last: int):
    def row(s):
        kinds = max(1, round(first + (last - first) * min(1.0, 1.7 * s.progress)))
        return {"response": fenced(program(s, kinds)), "reward": 0.0}

    return row


DIAGNOSTIC = Diagnostic(
    id="solution-diversity",
    title="Solution diversity",
    layer=Layer.BEHAVIOUR,
    formula="mean over late groups of (distinct programs - 1) / (programs - 1); a program is its hash, or the normal form of the response's code",
    source="EvoTrainer, arXiv 2606.03108 (solution diversity); pass@k of RL policies, arXiv 2504.13837; ours in this form",
    needs=("program_hash|text.shape", "group|task"),
    levels=Levels(0.2, 0.05),
    measure=measure,
    means="Samples of a group are nearly the same program: there is little to compare, and little left to find.",
    advice="Raise the temperature, add an entropy bonus or a novelty part, sample fewer per group of more tasks; or go back to a checkpoint that still explored.",
    cases=(
        Case("one program for a task", rows_of(_kinds(1, 1)), Level.CRITICAL),
        Case("narrows to one", rows_of(_kinds(40, 1), steps=40), Level.CRITICAL),
        Case("two programs for a task", rows_of(_kinds(2, 2)), Level.WARN),
        Case("many programs", rows_of(_kinds(1000, 1000)), Level.OK),
        Case("four of them", rows_of(_kinds(4, 4)), Level.OK),
        Case(
            "differ in more than comments",
            rows_of(lambda s: {"response": fenced(f"# try {s.sample}\n{program(s, 1)}"), "reward": 0.0}),
            Level.CRITICAL,
        ),
        Case("by hash", rows_of(lambda s: {"program_hash": f"h{s.group}", "reward": 0.0}), Level.CRITICAL),
        Case("no programs", rows_of(lambda s: {"response": "I do not know.", "reward": 0.0}), Level.UNKNOWN),
    ),
)
