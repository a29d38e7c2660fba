"""The demonstration: the same six ideas, some honest and some not, put to a gate and to "keep what scores higher".

Trainer `toy`, whose true ability is known exactly, so that afterwards everybody can see who was fooled. No key, no GPU, about a minute. The ideas are a
script (a person's plan, say); what follows from them is measured: nothing of the outcome is written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.backtest.types import Known, Past
from coevo.config import parse
from coevo.lab.arms import KeepIfHigher, ability_of
from coevo.lab.driver import new_lab, read_lab, run_lab
from coevo.lab.ledger import START, Ledger
from coevo.lab.measuring import open_measurer
from coevo.lab.proposals import proposal_dict
from coevo.lab.settings import LabConfig
from coevo.lab.types import Change, Family, Prediction, Proposal
from coevo.runs import Run

Notify = Callable[[str], None]


@dataclass(frozen=True)
class Idea:
    """One round of the script."""

    name: str
    what: str
    family: Family
    sets: Mapping[str, Any]


IDEAS: tuple[Idea, ...] = (
    Idea("honest", "a rate at which something is learnt", Family.HYPERPARAMETER, {"lr": 2e-5}),
    Idea("sub-noise", "a setting that hardly does anything", Family.HYPERPARAMETER, {"loss.clip_high": 0.29}),
    Idea("seed shopping", "another seed, nothing else", Family.HYPERPARAMETER, {"seed": 7}),
    Idea("shaped hack", "a bonus for long edits", Family.REWARD, {"toy.bonus": 0.5}),
    Idea("leak", "public tests whose answers can be written down", Family.REWARD, {"toy.leak": 0.8}),
    Idea("too fast", "thirty times the rate", Family.HYPERPARAMETER, {"lr": 6e-4}),
)
START_RECIPE = {"trainer": "toy", "lr": 2e-6, "advantage": {"name": "group_mean"}}


def demo_config(seed: int, script: Path) -> LabConfig:
    """One branch and its control a round, as many rounds as there are ideas."""
    data = {
        "name": "demo",
        "seed": seed,
        "recipe": START_RECIPE,
        "steps": 30,
        "branches": 1,
        "budget": {"rounds": len(IDEAS)},
        "prune": {"rungs": 0},
        "agent": {"kind": "scripted", "script": str(script)},
        "frozen_harness": True,
    }
    return parse(LabConfig, data, where="demo")


def write_script(path: Path) -> None:
    """The ideas as an agent's turns."""
    lines = []
    for idea in IDEAS:
        proposal = Proposal(
            family=idea.family,
            hypothesis=f"{idea.what[0].upper()}{idea.what[1:]}.",
            evidence=(START,),
            change=Change(sets=idea.sets),
            prediction=Prediction("truth", "up", confidence=0.5),
            success="it scores higher",
            rollback="the parent stays",
        )
        lines.append(json.dumps(proposal_dict(proposal)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def demo_lab(out: Path, *, seed: int = 0, notify: Notify = lambda line: None) -> dict[str, Any]:
    """Run both labs, look up true ability, and find a diagnostic; the data of the report. Goes on where a kill left it."""
    out.mkdir(parents=True, exist_ok=True)
    script = out / "ideas.jsonl"
    if not script.exists():
        write_script(script)
    config = demo_config(seed, script.resolve())
    rules: dict[str, Any] = {"gate": None, "keep-if-higher": KeepIfHigher("reward")}
    told: dict[str, list[dict[str, Any]]] = {}
    past: list[Past] = []
    for name, gate in rules.items():
        folder = out / name
        notify(f"== {name}")
        settings = config if gate is None else config.model_copy(update={"calibration": 0})
        if not (folder / "run.db").exists():
            new_lab(settings, folder)
        run_lab(folder, gate=gate, notify=notify)
        told[name], some = _hindsight(folder, name)
        past += some
    notify("== a new diagnostic")
    data = {
        "schema": 1,
        "seed": seed,
        "start": told["gate"][0]["before"],
        "labs": told,
        "diagnostic": _diagnostic(past, seed),
    }
    (out / "demo.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return data


def _hindsight(folder: Path, lab: str) -> tuple[list[dict[str, Any]], list[Past]]:
    """Each round with true ability before and after; and every branch with what is known of it now."""
    from coevo.evidence.opening import open_evidence

    config, ledger = read_lab(folder)
    promoted = _promotions(folder)
    with open_measurer(config) as measurer:
        ability = {
            name: ability_of(config, folder / "branches" / name, measurer)["ability"] for name in ledger.branches
        }
    rows, past, parent = [], [], START
    for number, idea in enumerate(IDEAS, 1):
        kept = promoted.get(number, "")
        rows.append({"round": number, "idea": idea.name, "what": idea.what, **_said(ledger, number), "kept": kept})
        rows[-1] |= {"before": ability[parent], "after": ability[kept or parent]}
        parent = kept or parent
    for branch in ledger.branches.values():
        if branch.parent is not None:
            worse = ability[branch.name] < 0.9 * ability[branch.parent]
            known = Known.BAD if worse else Known.GOOD
            why = f"true ability {ability[branch.parent]:.4f} -> {ability[branch.name]:.4f}"
            frame = open_evidence(folder / "branches" / branch.name, workers=1)
            past.append(Past(f"{lab}/{branch.name}", frame, known, why))
    return rows, past


def _promotions(folder: Path) -> dict[int, str]:
    with Run.open(folder, write=False) as run:
        return {e.payload["round"]: e.payload["promoted"] for e in run.events(kinds=("ended",))}


def _said(ledger: Ledger, number: int) -> dict[str, Any]:
    """What was said of the round's idea."""
    branches = [b for b in ledger.branches.values() if b.round == number]
    child = next((b for b in branches if b.proposal and b.proposal.family is not Family.CONTINUE), None)
    if child is None:
        return {"branch": "", "verdict": "refused", "why": "seeds are the lab's: a change of nothing else is sent back"}
    judgement = child.judgement
    assert judgement is not None
    return {
        "branch": child.name,
        "verdict": str(judgement.verdict),
        "why": "; ".join(judgement.reasons[:1]),
        "score": judgement.difference,
    }


def _diagnostic(past: Sequence[Past], seed: int) -> dict[str, Any]:
    """Suppose the lab had no diagnostics at all: the term of the grammar that tells the branches apart best, and whether the replay admits it."""
    from coevo.backtest.admission import admit
    from coevo.backtest.candidates import screen
    from coevo.backtest.proposed import diagnostic_of
    from coevo.lab.types import DiagnosticProposal

    found = screen(past, seed=seed)
    if not found.best:
        return {"term": "", "admitted": False, "reason": "no term separates the branches", "table": []}
    best = found.best[0].to_dict()
    proposal = DiagnosticProposal(
        id="found-in-the-demo",
        title=str(best["term"]),
        formula=str(best["term"]),
        means="branches that turned out worse than their parents stand apart in it",
        warn=float(best["warn"]),
        critical=float(best["critical"]),
        term=str(best["term"]),
    )
    admission = admit(diagnostic_of(proposal), past, {}, seed=seed, family=found.family)
    return {
        "term": best["term"],
        "admitted": admission.admitted,
        "reason": admission.reason,
        "table": [entry.to_dict() for entry in admission.table.entries],
    }
