"""The report of a lab: what was tried, what came of it, what the last measurement says; and the command behind every number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coevo.errors import StoreError
from coevo.lab.designing import told
from coevo.lab.judging import why_of
from coevo.lab.ledger import KINDS, Ledger, fold
from coevo.lab.proposals import calibration_of
from coevo.lab.settings import LabConfig
from coevo.runs import Run

FILE = "report"


def write_report(run: Run, config: LabConfig) -> Path:
    """`artifacts/report.json` and, after it, `report.md`; each appears whole. Raises `StoreError` where the disk refuses."""
    data = report_of(run, config)
    texts = {f"{FILE}.json": json.dumps(data, indent=2, default=str) + "\n", f"{FILE}.md": markdown(data)}
    try:
        run.artifacts.mkdir(exist_ok=True)
        for name, text in texts.items():
            part = run.artifacts / f".{name}"
            part.write_text(text, encoding="utf-8")
            part.replace(run.artifacts / name)
    except OSError as e:
        raise StoreError(
            f"cannot write the report of lab {run.path}: {e.strerror or e}. All that was measured is kept; free some space or make the folder "
            f"writable, then `coevo lab resume {run.path}` writes it"
        ) from e
    return run.artifacts / f"{FILE}.md"


def report_of(run: Run, config: LabConfig) -> dict[str, Any]:
    """Plain data."""
    ledger = fold(run.events(kinds=KINDS))
    last: dict[str, Any] = {}
    for event in run.events(kinds=("reported",)):
        last = dict(event.payload)
    calibration = ledger.calibration
    return {
        "schema": 1,
        "lab": config.name,
        "path": str(run.path),
        "seed": config.seed,
        "agent": "placebo" if config.placebo else config.agent.kind,
        "frozen_harness": config.frozen_harness,
        "calibration": None if calibration is None else calibration.to_dict(),
        "rounds": [row for number in range(1, ledger.rounds + 1) for row in rows_of(ledger, number)],
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
        "ended": ledger.exhausted or f"{ledger.rounds} rounds were made",
        "commands": {
            "again": f"coevo lab new DIR --config {run.path}/run.yaml && coevo lab run DIR",
            "branch": f"coevo diagnose {run.path}/branches/NAME",
            "pair": f"coevo compare {run.path}/branches/A {run.path}/branches/B",
        },
    }


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
    """The final branch against the start on the report split: a paired interval over tasks, made once."""
    found = {name: last.get(name) for name in ("final", "start", "why")}
    samples = last.get("samples")
    if not samples:
        return found
    from statistics import fmean

    from coevo.stats import bootstrap_ci

    means = {
        arm: {
            t: fmean(v for v in values if v is not None)
            for t, values in tasks.items()
            if any(v is not None for v in values)
        }
        for arm, tasks in samples.items()
    }
    start, final = means[last["start"]], means[last["final"]]
    tasks = [task for task in start if task in final]
    if len(tasks) < 2:
        return found
    interval = bootstrap_ci([final[t] - start[t] for t in tasks], seed=config.seed)
    return {
        **found,
        "truth_start": fmean(start[t] for t in tasks),
        "truth_final": fmean(final[t] for t in tasks),
        "difference": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "tasks": len(tasks),
    }


def markdown(data: dict[str, Any]) -> str:
    """The report for a reader."""
    lines = [f"# Lab {data['lab']}", ""]
    if data["calibration"] is None:
        lines += ["**The gate was not calibrated: nobody knows how often it promotes what is no gain.**", ""]
    lines += [*_headline(data["final"]), "", *_gate(data["calibration"]), "", "## Rounds", ""]
    lines += ["| round | branch | change | verdict | difference in truth | why |", "|---|---|---|---|---|---|"]
    for row in data["rounds"]:
        change = row["change"] + (f" (skill {row['skill']})" if row["skill"] else "")
        why = _cell("; ".join(row["why"][:2]))
        lines.append(
            f"| {row['round']} | {row['branch']} of {row['parent']} | {_cell(change)} | {row['verdict'] or row['state']} | {_moved(row)} | {why} |"
        )
    lines += ["", "## The agent's predictions", "", *_predictions(data["predictions"]), ""]
    if data["diagnostics"]:
        lines += ["## New diagnostics", ""]
        lines += [
            f"- `{d['id']}`: {'admitted' if d['admitted'] else 'refused'}; {d['reason']}" for d in data["diagnostics"]
        ]
        lines.append("")
    lines += ["## Cost", "", *(f"- {name}: {value:.6g}" for name, value in data["cost"].items()), ""]
    lines += ["## Commands", "", "```", *data["commands"].values(), "```", ""]
    return "\n".join(lines)


def _headline(final: dict[str, Any]) -> list[str]:
    if "difference" not in final:
        said = final.get("why") or "it could not be measured"
        return [f"Final branch: {final.get('final')}. The final branch and the start were not compared: {said}."]
    again = ""
    if final["reports"] > 1:
        again = (
            f" It is measurement {final['reports']} of this split: the lab had reported, and was given more to spend."
        )
    return [
        (
            f"Final branch {final['final']} against the start {final['start']}, on {final['tasks']} report tasks that no choice rests on: "
            f"truth {final['truth_start']:.4f} -> {final['truth_final']:.4f}, {_moved(final)} (95 % bootstrap interval over tasks; fresh samples of both).{again}"
        ),
        "The final policy was trained for more steps than the start; what more steps alone do stands in the rows `continue` below.",
    ]


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


def _moved(row: dict[str, Any]) -> str:
    if row.get("difference") is None:
        return ""
    if row.get("low") is None or row.get("high") is None:
        return f"{row['difference']:+.4f}"
    return f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
