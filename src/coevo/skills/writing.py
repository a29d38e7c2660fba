"""From a lab's intervention that held to a candidate skill: a folder that passes the validator, the same for the same discovery.

The trigger asks for what was out of order when it helped, no more closely than it takes to be silent where it was not right; the change is data;
the check is the prediction that came true. Texts of an agent are quoted, one line, never code.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from coevo.diagnostics.types import Diagnosis, Level
from coevo.errors import UsageError
from coevo.skills.contents import digest_of
from coevo.skills.patches import patch_from
from coevo.skills.reading import CASES, PATCH, problems, read_skill
from coevo.skills.running import plain
from coevo.skills.store import write_folder
from coevo.skills.templates import PAGE, TRIGGER, VERIFY
from coevo.skills.types import Origin, Skill

RANK = {Level.UNKNOWN: 0, Level.OK: 0, Level.WARN: 1, Level.CRITICAL: 2}
MOST_WANTED = 4
"""Findings in a trigger."""
MOST_NAMESAKES = 100
MOST_NEAR = 5
"""Recorded diagnoses among the near misses."""


@dataclass(frozen=True)
class Discovery:
    """An intervention that the gate promoted, as plain data."""

    name: str
    """Wished; made into a valid name."""
    hypothesis: str
    before: Diagnosis
    """Of the parent: what it answered."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)
    cites: tuple[str, ...] = ()
    """Diagnostics that the proposal rests on; those that were out of order become the trigger."""
    metric: str = "truth"
    """Predicted: "truth", or a diagnostic's id."""
    direction: str = "up"
    size: float | None = None
    difference: float | None = None
    """In truth, child less parent, as the gate measured it."""
    control: float | None = None
    context: str = ""
    lab: str = ""
    round: int = 0
    others: Sequence[Diagnosis] = ()
    """Of parents for which it was not right: it failed there, or another intervention was."""


class Condition(NamedTuple):
    """When a written trigger fires: every finding of `wanted` at least at its rank (1 warn, 2 critical), none of `fine` out of order."""

    wanted: Mapping[str, int]
    fine: tuple[str, ...] = ()

    def holds(self, diagnosis: Diagnosis) -> bool:
        ranks = _ranks(diagnosis)
        return all(ranks.get(name, 0) >= rank for name, rank in self.wanted.items()) and not any(
            ranks.get(name, 0) for name in self.fine
        )


def write_skill(discovery: Discovery, into: str | Path) -> Skill:
    """Write the skill of a discovery into a folder of skills, under the first free name. The same discovery again is the same skill.

    Raises `UsageError` where nothing was out of order before (a skill must have something to fire on), or the change is no patch.
    """
    into, base = Path(into), slug(discovery.name)
    for number in range(1, MOST_NAMESAKES + 1):
        name = base if number == 1 else f"{base[:56].rstrip('-')}-{number}"
        texts, target = skill_texts(discovery, name), into / name
        if not target.exists():
            write_folder(target, texts)
            return _require_sound(target)
        if not problems(target) and (found := read_skill(target)).digest == digest_of(texts):
            return found
    raise UsageError(f"{into} holds {MOST_NAMESAKES} skills named {base}; remove some")


def _require_sound(target: Path) -> Skill:
    try:
        return read_skill(target)
    except UsageError:
        shutil.rmtree(target)
        raise


def skill_texts(discovery: Discovery, name: str) -> dict[str, str]:
    """The files of a discovery's skill by path. Pure."""
    patch: dict[str, Any] = {"why": _line(discovery.hypothesis, 500)}
    patch |= {key: dict(value) for key, value in (("sets", discovery.sets), ("files", discovery.files)) if value}
    if isinstance(wrong := patch_from(patch), str):
        raise UsageError(f"the change of {discovery.name!r} is no patch: {wrong}")
    if wrong.empty:
        raise UsageError(f"{discovery.name!r} changes nothing, so there is no skill in it")
    condition, near = condition_of(discovery)
    return {
        "SKILL.md": _page(discovery, condition, name),
        "scripts/trigger.py": _filled(
            TRIGGER, WANTED=repr(dict(condition.wanted)), FINE=repr(condition.fine), RANKS="{'warn': 1, 'critical': 2}"
        ),
        "scripts/verify.py": _verify(discovery, condition),
        PATCH: _yaml(patch),
        CASES: "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in _cases(discovery, condition, near)),
    }


def condition_of(discovery: Discovery) -> tuple[Condition, tuple[Diagnosis, ...]]:
    """When the skill fires, and which of the other diagnoses it tells apart; those that look just the same it cannot."""
    ranks = _ranks(discovery.before)
    loud = sorted((name for name, rank in ranks.items() if rank), key=lambda name: (-ranks[name], name))
    if not loud:
        raise UsageError(
            f"nothing was out of order before {discovery.name!r} was tried, so a skill of it would have nothing to fire on"
        )
    cited = [name for name in discovery.cites if name in loud]
    condition = Condition(dict.fromkeys(cited[:MOST_WANTED] or loud[:1], 1))
    near = []
    for other in discovery.others:
        tighter = next((c for c in _tightened(condition, ranks, loud, other) if not c.holds(other)), None)
        if tighter is not None:
            condition = tighter
            near.append(other)
    return condition, tuple(near[:MOST_NEAR])


def _tightened(
    condition: Condition, ranks: Mapping[str, int], loud: Sequence[str], other: Diagnosis
) -> Iterable[Condition]:
    """The condition itself, and closer ones that still hold for what it was written from, the simplest first."""
    there = _ranks(other)
    yield condition
    for name in condition.wanted:
        yield condition._replace(wanted={**condition.wanted, name: ranks[name]})
    if len(condition.wanted) < MOST_WANTED:
        for name in loud:
            if name not in condition.wanted and there.get(name, 0) < ranks[name]:
                yield condition._replace(wanted={**condition.wanted, name: min(ranks[name], there.get(name, 0) + 1)})
    for name in sorted(there):
        if there[name] and not ranks.get(name, 0) and len(condition.fine) < MOST_WANTED:
            yield condition._replace(fine=(*condition.fine, name))


def slug(name: str) -> str:
    """A valid name: lower-case words joined by single hyphens, at most 60 characters."""
    words = re.findall(r"[a-z0-9]+", name.lower()[:500])
    return "-".join(words)[:60].strip("-") or "skill"


def _yaml(patch: Mapping[str, Any]) -> str:
    """Readable where that is faithful: some characters that YAML takes for line ends survive only as escapes."""
    text = yaml.safe_dump(patch, sort_keys=True, allow_unicode=True, width=120)
    try:
        faithful = yaml.safe_load(text) == patch
    except yaml.YAMLError:
        faithful = False
    return text if faithful else yaml.safe_dump(patch, sort_keys=True, width=120)


def _cases(discovery: Discovery, condition: Condition, near: Sequence[Diagnosis]) -> list[dict[str, Any]]:
    before = _compact(discovery.before)
    born = f"as in round {discovery.round} of {_line(discovery.lab, 60) or 'its lab'}"
    cases: list[dict[str, Any]] = [{"name": born, "expect": "fires", "diagnosis": before}]
    for name in condition.wanted:
        eased = {**before["findings"], name: {**before["findings"][name], "level": "ok"}}
        cases.append({"name": f"{born}, {name} fine", "expect": "near-miss", "diagnosis": {"findings": eased}})
    for name in condition.fine:
        worse = {**before["findings"], name: {"level": "warn", "value": None, "n": 0}}
        cases.append({"name": f"{born}, {name} out of order", "expect": "near-miss", "diagnosis": {"findings": worse}})
    for number, other in enumerate(near, 1):
        cases.append(
            {"name": f"recorded where it was not right ({number})", "expect": "near-miss", "diagnosis": _compact(other)}
        )
    return cases


def _compact(diagnosis: Diagnosis) -> dict[str, Any]:
    """What triggers look at: level and value; courses, notes and rows are left out."""
    found = {f.diagnostic: f.to_dict() for f in diagnosis.findings}
    return plain(
        {"findings": {name: {key: found[name][key] for key in ("level", "value", "n")} for name in sorted(found)}}
    )


def _verify(discovery: Discovery, condition: Condition) -> str:
    truth = discovery.metric == "truth"
    watched = next(iter(condition.wanted)) if truth else discovery.metric
    size = 0.0 if truth or discovery.size is None else abs(discovery.size) / 2
    direction = "" if truth else ("down" if discovery.direction == "down" else "up")
    return _filled(VERIFY, WATCHED=repr(watched), DIRECTION=repr(direction), SIZE=repr(size))


def _page(discovery: Discovery, condition: Condition, title: str) -> str:
    at = {1: "at least a warning", 2: "critical"}
    lines = [f"- `{_line(name, 80)}` is {at[rank]}" for name, rank in condition.wanted.items()]
    lines += [f"- `{_line(name, 80)}` is not out of order" for name in condition.fine]
    values = (*discovery.sets.items(), *((path, "(a file)") for path in discovery.files))
    changes = "\n".join(f"- `{name}`: `{_line(json.dumps(value), 200)}`" for name, value in values)
    size = "" if discovery.size is None else f" by about {abs(discovery.size):.3g}"
    what = ", ".join((*discovery.sets, *discovery.files))
    description = (
        f"Changes {what} when {' and '.join(condition.wanted)} "
        f"{'speaks' if len(condition.wanted) == 1 else 'speak'}: written by a lab from an intervention that held."
    )
    return _filled(
        PAGE,
        DESCRIPTION=_line(description, 900).replace("<", "").replace(">", ""),
        ORIGIN=str(Origin.AUTO),
        SCOPE=json.dumps(_line(discovery.context.partition("/")[0].replace(",", " "), 80), ensure_ascii=False),
        BORN=json.dumps(_line(f"{discovery.lab} round {discovery.round}", 100), ensure_ascii=False),
        NAME=title,
        WHEN="\n".join(lines),
        HYPOTHESIS=_line(discovery.hypothesis, 600) or "(none was given)",
        CHANGES=changes,
        HAPPENS=f"`{_line(discovery.metric, 80)}` goes {discovery.direction}{size}.",
        SEEN=_seen(discovery),
    )


def _seen(discovery: Discovery) -> str:
    if discovery.difference is None:
        return "What it gained there was not recorded."
    control = "" if discovery.control is None else f", the control {discovery.control:+.3g}"
    where = f" in {_line(discovery.context, 80)}" if discovery.context else ""
    return f"There it gained {discovery.difference:+.3g} of truth{control}{where}."


def _ranks(diagnosis: Diagnosis) -> dict[str, int]:
    return {finding.diagnostic: RANK[finding.level] for finding in diagnosis.findings}


def _filled(template: str, **texts: str) -> str:
    """One pass, so that a text which holds a mark is not filled again."""
    return re.sub(r"@([A-Z]+)@", lambda mark: texts.get(mark[1], mark[0]), template)


def _line(text: str, most: int) -> str:
    """One line of printable text, from whatever an agent wrote, that cannot end a code span or begin a heading."""
    found = "".join(char if char.isprintable() else " " for char in text).replace("`", "'")
    return " ".join(found.split())[:most].lstrip("#>- ").rstrip()
