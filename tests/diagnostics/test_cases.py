"""Every shipped diagnostic judges its cases as it says, and says what it must."""

import re

import pytest

from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.types import Diagnostic, Level
from coevo.evidence.rows import frame_of

CASES = [(d, case) for d in shipped().values() for case in d.cases]


@pytest.mark.parametrize(("diagnostic", "case"), CASES, ids=[f"{d.id}:{c.name}" for d, c in CASES])
def test_a_case_is_judged_as_it_says(diagnostic, case) -> None:
    frame = frame_of(case.rows())
    baseline = None if case.baseline is None else frame_of(case.baseline())
    found = diagnose(frame, baseline, diagnostics={diagnostic.id: diagnostic}).findings[0]
    assert found.level is case.level, found.reading.note
    assert "it failed" not in found.reading.note
    assert all(0 <= row < frame.rows for row in found.reading.rows)


@pytest.mark.parametrize("diagnostic", shipped().values(), ids=lambda d: d.id)
def test_a_diagnostic_says_all_that_it_must(diagnostic: Diagnostic) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", diagnostic.id)
    assert all((diagnostic.title, diagnostic.formula, diagnostic.source, diagnostic.means, diagnostic.advice))
    assert diagnostic.needs and diagnostic.levels.warn != diagnostic.levels.critical
    levels = [case.level for case in diagnostic.cases]
    assert Level.OK in levels, "a case in which it must be silent"
    assert {Level.WARN, Level.CRITICAL} & set(levels), "a case in which it must speak"
