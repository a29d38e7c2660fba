"""A skill's cases: diagnoses on which it must fire and near misses on which it must not. They are its specification, its test, and
what makes a candidate `validated`.

A line of assets/cases.jsonl:

    {"name": "...", "expect": "fires" | "silent" | "near-miss", "diagnosis": {...}, "recipe": {...}, "sets": {...},
     "after": {...}, "truth": [before, after], "verdict": "helped" | "hurt" | "inconclusive"}

`diagnosis` may leave out whatever is as in an empty one (`completed`). With `recipe`, apply.py must print `sets` (or, without `sets`, some change);
with `verdict`, verify.py must say it of `diagnosis` and `after`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coevo.skills.types import Failure, Fault, Outcome, Skill

if TYPE_CHECKING:
    from coevo.skills.running import Scripts

CASES = "assets/cases.jsonl"
EXPECTATIONS = ("fires", "silent", "near-miss")
MOST_CASES = 50
_KEYS = frozenset({"name", "expect", "diagnosis", "recipe", "sets", "after", "truth", "verdict"})
_WORDS = (Outcome.HELPED, Outcome.HURT, Outcome.INCONCLUSIVE)


@dataclass(frozen=True)
class Case:
    """One line of assets/cases.jsonl."""

    name: str
    expect: str
    diagnosis: Mapping[str, Any]
    recipe: Mapping[str, Any] | None = None
    sets: Mapping[str, Any] | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    truth: tuple[float | None, float | None] = (None, None)
    verdict: str = ""

    @property
    def fires(self) -> bool:
        return self.expect == "fires"


class Result(NamedTuple):
    """What became of one case."""

    case: str
    expect: str
    held: bool
    detail: str
    """What the script said where it held; what was expected and what came instead where it did not."""
    failure: Failure | None = None
    """Set where a script did not answer."""


@dataclass(frozen=True)
class Report:
    """All cases of one skill."""

    skill: str
    results: tuple[Result, ...]

    @property
    def hold(self) -> bool:
        return bool(self.results) and all(result.held for result in self.results)

    @property
    def measured(self) -> bool:
        """Whether the machine let every script answer."""
        return not any(r.failure is not None and r.failure.fault is Fault.INFRASTRUCTURE for r in self.results)

    @property
    def failed(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if not result.held)


def completed(diagnosis: Mapping[str, Any]) -> dict[str, Any]:
    """A diagnosis in its full form (schema 1, as `Diagnosis.to_dict`), from one that leaves out what is empty."""
    empty = {"value": None, "note": "", "n": 0, "rows": [], "series": []}
    findings = {
        name: {"id": name, "layer": "", "level": "ok", **empty, **found}
        for name, found in diagnosis.get("findings", {}).items()
    }
    base = {"schema": 1, "source": "", "rows": 0, "rules": [], "unknown": {}}
    return {**base, **diagnosis, "findings": findings}


def read_cases(text: str, *, where: str = CASES) -> tuple[tuple[Case, ...], list[str]]:
    """The cases, and what is wrong with them by line."""
    cases: list[Case] = []
    wrong: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _case(line)
        if isinstance(found, str):
            wrong.append(f"{where}:{number}: {found}")
        elif any(case.name == found.name for case in cases):
            wrong.append(f"{where}:{number}: a second case named {found.name[:80]!r}")
        else:
            cases.append(found)
        if len(cases) > MOST_CASES:
            return (), [*wrong, f"{where}:{number}: more than {MOST_CASES} cases; keep the telling ones"]
    if not wrong:
        wanted = {"fires": "on which it fires", "near-miss": "that nearly makes it fire, and must not"}
        wrong += [
            f"{where}:1: no case {what} (expect: {kind!r})"
            for kind, what in wanted.items()
            if not any(case.expect == kind for case in cases)
        ]
    return tuple(cases), wrong


def cases_of(skill: Skill) -> tuple[Case, ...]:
    return read_cases(skill.files.get(CASES, ""))[0]


def run_cases(skill: Skill, scripts: Scripts) -> Report:
    """Run every case of a skill's scripts."""
    return Report(skill.name, tuple(_run(skill, case, scripts) for case in cases_of(skill)))


def _run(skill: Skill, case: Case, scripts: Scripts) -> Result:
    said = scripts.fires(skill, case.diagnosis)
    if said.failure is not None:
        return Result(case.name, case.expect, False, f"trigger: {said.failure}", said.failure)
    if said.fires != case.fires:
        verb = "fires" if said.fires else "is silent"
        return Result(case.name, case.expect, False, f"expected {case.expect!r}, and it {verb}: {said.why}")
    wrong, failure = _patch_wrong(skill, case, scripts)
    if not wrong:
        wrong, failure = _verdict_wrong(skill, case, scripts)
    return Result(case.name, case.expect, not wrong, wrong or said.why, failure)


def _patch_wrong(skill: Skill, case: Case, scripts: Scripts) -> tuple[str, Failure | None]:
    if case.recipe is None:
        return "", None
    patch = scripts.patch_of(skill, case.recipe, case.diagnosis)
    if patch.failure is not None:
        return f"apply: {patch.failure}", patch.failure
    if case.sets is None:
        return "apply: it changes nothing" if patch.empty else "", None
    if dict(patch.sets) != dict(case.sets):
        return f"apply: expected {json.dumps(case.sets)}, not {json.dumps(dict(patch.sets))} ({patch.why})", None
    return "", None


def _verdict_wrong(skill: Skill, case: Case, scripts: Scripts) -> tuple[str, Failure | None]:
    if not case.verdict:
        return "", None
    said = scripts.verify(skill, case.diagnosis, case.after, truth=case.truth)
    if said.failure is not None:
        return f"verify: {said.failure}", said.failure
    right = said.word == case.verdict
    return "" if right else f"verify: expected {case.verdict!r}, not {said.word!s}: {said.reason}", None


def _case(line: str) -> Case | str:
    try:
        data = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as e:
        return f"is not JSON: {e}"
    if not isinstance(data, dict):
        return "a case is an object with name, expect and diagnosis"
    if unknown := set(data) - _KEYS:
        return f"unknown key {sorted(unknown)[0][:80]!r}; a case has {', '.join(sorted(_KEYS))}"
    name, expect, diagnosis = data.get("name"), data.get("expect"), data.get("diagnosis", {})
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        return "'name' must be a text of 1 to 200 characters"
    if expect not in EXPECTATIONS:
        return f"'expect' must be one of {', '.join(EXPECTATIONS)}, not {str(expect)[:80]!r}"
    for key in ("diagnosis", "recipe", "sets", "after"):
        if data.get(key) is not None and not isinstance(data[key], dict):
            return f"{key!r} must be an object"
    if wrong := _wrong_diagnosis(diagnosis) or _wrong_diagnosis(data.get("after", {"findings": {}})):
        return wrong
    truth = data.get("truth", [None, None])
    if not isinstance(truth, list) or len(truth) != 2 or not all(_number(t) for t in truth):
        return "'truth' must be [before, after], numbers or null"
    if data.get("verdict", "") not in ("", *_WORDS):
        return f"'verdict' must be one of {', '.join(_WORDS)}, not {str(data['verdict'])[:80]!r}"
    if "sets" in data and "recipe" not in data:
        return "'sets' is what apply.py must say of 'recipe', which is not given"
    return Case(
        name=name,
        expect=expect,
        diagnosis=completed(diagnosis),
        recipe=data.get("recipe"),
        sets=data.get("sets"),
        after=completed(data.get("after") or {}),
        truth=(truth[0], truth[1]),
        verdict=data.get("verdict", ""),
    )


def _wrong_diagnosis(diagnosis: Any) -> str:
    findings = diagnosis.get("findings") if isinstance(diagnosis, dict) else None
    if not isinstance(findings, dict) or not all(isinstance(found, dict) for found in findings.values()):
        return "'diagnosis' must hold 'findings': an object of objects by diagnostic"
    return ""


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")


__all__ = ["CASES", "Case", "Report", "Result", "cases_of", "completed", "read_cases", "run_cases"]
