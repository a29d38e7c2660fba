"""From a frame to a diagnosis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from coevo.diagnostics.recording import missing
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.rules import RULES
from coevo.diagnostics.types import Diagnosis, Diagnostic, Finding, Fired, Level, Levels, Reading, Rule
from coevo.evidence.types import Frame

NOTE = 400
"""Characters of a note at most."""


def diagnose(
    frame: Frame,
    baseline: Frame | None = None,
    *,
    diagnostics: Mapping[str, Diagnostic] | None = None,
    rules: Sequence[Rule] = RULES,
    split: str | None = None,
) -> Diagnosis:
    """All that the evidence says of one run (or branch).

    `diagnostics` by id, the shipped ones by default. `split` names the rows that training saw: `train` by default where there are such rows,
    else all. A diagnostic that raises, or says something that is no reading, is a finding of level unknown with the reason; it costs
    nobody else a word.
    """
    known = shipped() if diagnostics is None else diagnostics
    views = _Views(frame, baseline, split)
    findings, unknown = [], {}
    for id, diagnostic in known.items():
        finding = _finding(diagnostic, *views.of(diagnostic))
        findings.append(finding)
        if finding.level is Level.UNKNOWN:
            unknown[id] = finding.reading.note
    by_id = {f.diagnostic: f for f in findings}
    fired = []
    for rule in rules:
        try:
            if all(id in by_id for id in rule.cites) and rule.when(by_id):
                fired.append(Fired(rule.id, rule.level, rule.says, rule.cites, rule.suggests))
        except Exception as e:
            unknown[f"rule {rule.id}"] = f"it failed: {type(e).__name__}: {e}"[:NOTE]
    order = (Level.CRITICAL, Level.WARN)
    fired.sort(key=lambda f: order.index(f.level) if f.level in order else len(order))
    return Diagnosis(tuple(findings), tuple(fired), unknown, frame.rows, frame.source)


def training_split(frame: Frame) -> str | None:
    """`train` where some rows are of that split, else None: all of them."""
    return "train" if frame.is_word("split", "train").any() else None


class _Views:
    """The rows each diagnostic is given, cut once."""

    def __init__(self, frame: Frame, baseline: Frame | None, split: str | None) -> None:
        self._whole = (frame, baseline)
        name = training_split(frame) if split is None else split
        other = training_split(baseline) if baseline is not None and split is None else split
        self._cuts: dict[str, tuple[Frame, Frame | None]] = {
            "": self._whole,
            "train": (_cut(frame, name), None if baseline is None else _cut(baseline, other)),
        }

    def of(self, diagnostic: Diagnostic) -> tuple[Frame, Frame | None]:
        if diagnostic.split not in self._cuts:
            frame, baseline = self._whole
            name = diagnostic.split
            self._cuts[name] = (_cut(frame, name), None if baseline is None else _cut(baseline, name))
        return self._cuts[diagnostic.split]


def _cut(frame: Frame, split: str | None) -> Frame:
    return frame if split is None else frame.split(split)


def _finding(diagnostic: Diagnostic, frame: Frame, baseline: Frame | None) -> Finding:
    reading = _reading(diagnostic, frame, baseline)
    return Finding(diagnostic.id, _level(diagnostic.levels, reading), reading, diagnostic.layer)


def _level(levels: Levels, reading: Reading) -> Level:
    return Level(Levels(*levels).of(reading.value))


def _reading(diagnostic: Diagnostic, frame: Frame, baseline: Frame | None) -> Reading:
    if frame.rows == 0:
        return Reading(None, f"no rows of split '{diagnostic.split}'" if diagnostic.split else "no rows")
    if lacking := missing(frame, diagnostic.needs):
        return Reading(None, lacking)
    if diagnostic.needs_baseline and (baseline is None or baseline.rows == 0):
        return Reading(None, "no baseline: name the evidence of the run it came from (--baseline)")
    try:
        return _plain(diagnostic.measure(frame, baseline))
    except Exception as e:
        return Reading(None, f"it failed: {type(e).__name__}: {e}"[:NOTE])


def _plain(reading: Reading) -> Reading:
    """As plain numbers, whatever a diagnostic returned."""
    value, note, n, rows, series = reading
    number = None if value is None else float(value)
    if number is not None and not math.isfinite(number):
        number, note = None, f"no finite number ({number}): {note}"
    points = tuple((float(x), float(y)) for x, y in series)
    return Reading(
        number,
        str(note)[:NOTE],
        int(n),
        tuple(int(row) for row in rows),
        tuple(point for point in points if all(map(math.isfinite, point))),
    )
