"""Evidence of skills: uses as events of a lab's run, and the page written from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.errors import UsageError
from coevo.runs import Run
from coevo.skills.states import Standing
from coevo.skills.types import Outcome, Skill, Use

USED = "skills"
"""Kind of a lab's event that says what a round did with skills; its payload holds `uses`, each as `use_row`."""


def use_row(use: Use) -> dict[str, Any]:
    """A use as plain data."""
    return {**use._asdict(), "outcome": str(use.outcome)}


def use_from(row: Mapping[str, Any]) -> Use:
    return Use(**{**row, "outcome": Outcome(row["outcome"])})


def uses_of(runs: Iterable[str | Path | Run]) -> list[Use]:
    """Every use of a skill in these labs, in order. Raises `StoreError` for a folder that is no run, `UsageError` for events of another shape."""
    found: list[Use] = []
    for run in runs:
        if isinstance(run, Run):
            found += _uses(run)
            continue
        with Run.open(run, write=False) as opened:
            found += _uses(opened)
    return found


def _uses(run: Run) -> list[Use]:
    try:
        return [use_from(row) for event in run.events(kinds=(USED,)) for row in event.payload["uses"]]
    except (KeyError, TypeError, ValueError) as e:
        raise UsageError(
            f"{run.path}: its events {USED!r} hold no uses of skills ({e!r}); name the folder of a lab"
        ) from None


def evidence_page(skill: Skill, uses: Sequence[Use], standing: Standing) -> str:
    """references/evidence.md: what is known of a skill, for a person or an agent. Deterministic."""
    record = standing.record
    counts = (record.fired, record.applied, record.helped, record.hurt, record.inconclusive, record.invalid)
    lines = [
        f"# Evidence of {skill.name}",
        "",
        "Written by coevo from the events of labs; edits are lost.",
        "",
        f"State: **{standing.state}**. " + "; ".join(_sentence(reason) for reason in standing.reasons) + ".",
        "",
        "| fired | applied | helped | hurt | inconclusive | invalid | chance that it helps next |",
        "|---|---|---|---|---|---|---|",
        "| " + " | ".join(map(str, counts)) + f" | {record.chance:.2f} |",
    ]
    settled = [use for use in uses if use.skill == skill.name and use.outcome not in (Outcome.FIRED, Outcome.APPLIED)]
    if settled:
        lines += [
            "",
            "| lab | round | context | outcome | difference in truth | control |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {_cell(use.lab)} | {use.round} | {_cell(use.context)} | {use.outcome} | {_number(use.difference)} | {_number(use.control)} |"
            for use in settled
        ]
    else:
        lines += ["", "No use of it has been settled yet."]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return _cell(text).rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:+.3g}"
