"""The report of a lab: what came out, how to use it, what was tried, what came of it, what the last measurement says; and the command behind every number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevo.errors import StoreError
from coevo.lab import picture
from coevo.lab.baseline import NAME, against_base, baseline_of
from coevo.lab.designing import told
from coevo.lab.judging import why_of
from coevo.lab.ledger import KINDS, Ledger, fold
from coevo.lab.preflight import counted
from coevo.lab.proposals import calibration_of
from coevo.lab.settings import LabConfig
from coevo.lab.spending import told as told_spending
from coevo.lab.telling import UNITS, commands_of, lineage, moved, outcome, use_of
from coevo.runs import Run

FILE = "report"


def write_report(run: Run, config: LabConfig, *, drawn: bool = False) -> tuple[dict[str, Any], Path]:
    """Write `artifacts/report.json`, with `drawn` (it takes a second) the picture of the branches, and after them `report.md`; each appears whole.

    The report's data, and where `report.md` is. Raises `StoreError` where the disk refuses.
    """
    data = {**report_of(run, config), "picture": ""}
    try:
        run.artifacts.mkdir(exist_ok=True)
        if drawn:
            data["picture"] = picture.draw(data, run.artifacts / picture.FILE) or picture.FILE
        texts = {f"{FILE}.json": json.dumps(data, indent=2, default=str) + "\n", f"{FILE}.md": markdown(data)}
        for name, text in texts.items():
            part = run.artifacts / f".{name}"
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
            part.replace(run.artifacts / name)
    except OSError as e:
        raise StoreError(
            f"cannot write the report of lab {run.path}: {e.strerror or e}. All that was measured is kept; free some space or make the folder "
            f"writable, then `coevo lab resume {run.path}` writes it"
        ) from e
    return data, run.artifacts / f"{FILE}.md"


def report_of(run: Run, config: LabConfig) -> dict[str, Any]:
    """Plain data."""
    ledger = fold(run.events(kinds=KINDS))
    last: dict[str, Any] = {"why": "the lab has not ended; they are at its end"}
    for event in run.events(kinds=("reported",)):
        last = dict(event.payload)
    calibration = ledger.calibration
    judged = {event.payload["branch"]: event.payload for event in run.events(kinds=("judged",))}
    rows = [row for number in range(1, ledger.rounds + 1) for row in rows_of(ledger, number)]
    final = last.get("final") or ledger.parent
    return {
        "schema": 1,
        "lab": config.name,
        "path": str(run.path),
        "seed": config.seed,
        "agent": "placebo" if config.placebo else config.agent.kind,
        "frozen_harness": config.frozen_harness,
        "calibration": None if calibration is None else calibration.to_dict(),
        "rounds": [{**row, **_of_verdict(judged.get(row["branch"], {}))} for row in rows],
        "spend": config.spend,
        "kept": lineage(ledger, final)[1:] if final else [],
        "final": {**_final(last, config), "reports": ledger.reports},
        "predictions": calibration_of(ledger.predictions),
        "diagnostics": [
            {"id": a["proposal"]["id"], "admitted": a["admitted"], "reason": a["reason"]} for a in ledger.admissions
        ],
        "cost": {
            "steps": ledger.steps_spent,
            "holdout_accesses": ledger.holdout,
            **{name: value for name, value in run.ledger.spent().items() if value},
        },
        "ended": ledger.exhausted or f"{counted(ledger.rounds, 'round')} made",
        "use": use_of(run.path, final, config.recipe.trainer) if final else {},
        "commands": commands_of(run.path, config),
    }


def _of_verdict(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside a verdict: the yardstick, and what training spent in multiples of the control's."""
    return {"against": payload.get("against"), "spent": payload.get("spent", {})}


def rows_of(ledger: Ledger, number: int) -> list[dict[str, Any]]:
    """The branches of a round (0: the start), in order."""
    found = []
    for branch in ledger.branches.values():
        if branch.round != number:
            continue
        judgement = branch.judgement
        found.append(
            {
                "round": number,
                "branch": branch.name,
                "parent": branch.parent,
                "change": told(branch.proposal) if branch.proposal else "",
                "family": str(branch.proposal.family) if branch.proposal else "",
                "skill": branch.proposal.skill if branch.proposal else "",
                "state": str(branch.state),
                "verdict": None if judgement is None else str(judgement.verdict),
                "difference": None if judgement is None else judgement.difference,
                "low": None if judgement is None else judgement.low,
                "high": None if judgement is None else judgement.high,
                "reasons": [] if judgement is None else list(judgement.reasons),
                "why": [] if judgement is None else why_of(judgement.reasons),
                "steps": ledger.steps[branch.name],
            }
        )
    return found


def _final(last: dict[str, Any], config: LabConfig) -> dict[str, Any]:
    """The final branch against the start, and against the base weights, on the report split: paired intervals over tasks, made once."""
    found = {name: last.get(name) for name in ("final", "start", "why")}
    samples = last.get("samples")
    if not samples:
        return found
    final, start = samples[last["final"]], samples[last["start"]]
    base = against_base(last["final"], samples[NAME], final, seed=config.seed) if NAME in samples else None
    found["base"] = base and base.to_dict()
    if last["final"] == last["start"] or (moved := against_base(last["final"], start, final, seed=config.seed)) is None:
        return found
    return {
        **found,
        "truth_start": moved.base,
        "truth_final": moved.base + moved.difference,
        **{name: getattr(moved, name) for name in ("difference", "low", "high", "tasks")},
    }


def markdown(data: dict[str, Any]) -> str:
    """The report for a reader."""
    lines = [f"# Lab {data['lab']}", ""]
    if data["calibration"] is None:
        lines += ["**The gate was not calibrated: nobody knows how often it promotes what is no gain.**", ""]
    lines += [*_headline(data["final"]), "", outcome(data["rounds"], data["kept"]), "", *_gate(data["calibration"]), ""]
    if data["picture"] == picture.FILE:
        lines += [
            f"![Branches round by round: what the gate said of each, and the way to the final policy]({picture.FILE})",
            "",
        ]
    lines += [*_use(data), "## Rounds", ""]
    lines += [
        "Truth is the share of hidden tests passed (0 to 1); a difference is to what the branch was held against.",
        "",
    ]
    lines += ["| round | branch | change | verdict | difference in truth [95 %] | why |", "|---|---|---|---|---|---|"]
    for row in data["rounds"]:
        change = row["change"] + (f" (skill {row['skill']})" if row["skill"] else "")
        why = _cell("; ".join(row["why"][:2]))
        lines.append(
            f"| {row['round']} | {_parents(row)} | {_cell(change)} | {row['verdict'] or row['state']} | {moved(row)} | {why} |"
        )
    lines += _spending(data)
    lines += ["", "## The agent's predictions", "", *_predictions(data["predictions"]), ""]
    if data["diagnostics"]:
        lines += ["## New diagnostics", ""]
        lines += [
            f"- `{d['id']}`: {'admitted' if d['admitted'] else 'refused'}; {d['reason']}" for d in data["diagnostics"]
        ]
        lines.append("")
    lines += [
        "## Cost",
        "",
        *(f"- {_amount(value)} {UNITS.get(name, name)}" for name, value in data["cost"].items()),
        "",
    ]
    commands = data["commands"]
    lines += [
        "## Commands",
        "",
        "```",
        f"{commands['again']}   # the same lab again",
        f"{commands['more']}   # go on, three rounds more",
    ]
    lines += [commands["branch"], commands["pair"], "```", ""]
    return "\n".join(lines)


def _spending(data: dict[str, Any]) -> list[str]:
    """What each proposal's training spent in multiples of its control's."""
    spent = {row["branch"]: told_spending(row["spent"]) for row in data["rounds"] if row.get("spent")}
    if not spent:
        return []
    bound = data["spend"]
    rule = "no bound was set" if bound is None else f"over {bound:g} times, a branch is rejected unmeasured"
    head = f"What training spent, in multiples of the control's ({rule}; a gain of a branch over 1 is in part what it spent): "
    return ["", head + "; ".join(f"{name} {said}" for name, said in spent.items()) + "."]


def _use(data: dict[str, Any]) -> list[str]:
    """How the final policy and recipe are used."""
    use = dict(data["use"])
    if not use:
        return []
    note = use.pop("note", "")
    final = data["final"].get("final") or "the start"
    return [f"## Using {final}", "", *([note, ""] if note else []), "```", *use.values(), "```", ""]


def _parents(row: dict[str, Any]) -> str:
    """A branch, what it was made from, and, where that is another, what it was held against."""
    other = row["against"] if row["against"] not in (None, row["parent"]) else ""
    return f"{row['branch']} of {row['parent']}{f', against {other}' if other else ''}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def summary(data: dict[str, Any]) -> list[str]:
    """The report in a few lines: what the last measurement says, what was kept, what the gate can see."""
    return [*_headline(data["final"]), outcome(data["rounds"], data["kept"]), *_gate(data["calibration"])]


def _headline(final: dict[str, Any]) -> list[str]:
    if "difference" not in final:
        said = final.get("why") or "it could not be measured"
        if not final.get("final"):
            return [f"The best branch and the start were not compared on the report tasks yet: {said}."]
        said = f"Final branch: {final['final']}. The final branch and the start were not compared: {said}."
        return [said, *_against_base(final)]
    again = ""
    if final["reports"] > 1:
        again = (
            f" It is measurement {final['reports']} of this split: the lab had reported, and was given more to spend."
        )
    return [
        (
            f"Final branch {final['final']} against the start {final['start']}, on {final['tasks']} report tasks that no choice rests on: "
            f"truth {final['truth_start']:.4f} -> {final['truth_final']:.4f}, {moved(final)} (95 % bootstrap interval over tasks; fresh samples of both).{again}"
        ),
        *_against_base(final),
        "The final policy was trained for more steps than the start; what more steps alone do stands in the rows `continue` below.",
    ]


def _against_base(final: dict[str, Any]) -> list[str]:
    """Whether all the training has made anything better than the model that nobody had trained."""
    base = baseline_of(final.get("base"))
    if base is None:
        return []
    said = f"On the same {base.tasks} tasks the base weights, untrained, have {base.base:.4f}: {base.branch} is at {base.difference:+.4f} [{base.low:+.4f}, {base.high:+.4f}] to them"
    return [said + (", worse than before any training." if base.spoilt else ".")]


def _gate(calibration: dict[str, Any] | None) -> list[str]:
    if calibration is None:
        return []
    return [
        (
            f"The gate promotes twins {calibration['false_promotions']:.1%} of the time ({calibration['trials']} trials, 95 % interval "
            f"{calibration['low']:.1%} to {calibration['high']:.1%}) and sees gains from {calibration['detectable']:.3f} of truth up."
        )
    ]


def _predictions(found: dict[str, float]) -> list[str]:
    if not found.get("n"):
        return ["None could be scored."]
    return [
        (
            f"{found['n']:.0f} scored: {found['hit_rate']:.0%} came true, {found['confidence']:.0%} was the mean confidence; Brier score "
            f"{found['brier']:.3f} (0 is perfect, 0.25 is always saying one half)."
        )
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
