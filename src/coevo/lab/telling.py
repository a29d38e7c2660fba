"""What a person wants of a lab that has ended: how its final policy came to be, how to use it, how to do it again; and of one that runs, how
long it will take."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevo.errors import CoevoError
from coevo.lab.ledger import Ledger
from coevo.lab.preflight import counted, preflight
from coevo.lab.settings import LabConfig

UNITS = {
    "steps": "optimizer steps",
    "holdout_accesses": "looks at the holdout",
    "evaluations": "rollouts judged",
    "tokens": "tokens sampled or read",
    "usd": "US dollars",
    "minutes": "minutes",
}


def signed(value: float) -> str:
    """A difference to four digits, with its sign; nothing has none."""
    shown = f"{value:+.4f}"
    return "0.0000" if shown in ("+0.0000", "-0.0000") else shown


def moved(row: Mapping[str, Any]) -> str:
    """A difference in truth with its interval; nothing where none was measured."""
    if row.get("difference") is None:
        return ""
    if row.get("low") is None or row.get("high") is None:
        return signed(row["difference"])
    return f"{signed(row['difference'])} [{signed(row['low'])}, {signed(row['high'])}]"


def lineage(ledger: Ledger, final: str) -> list[str]:
    """Names of the branches that the final one was trained through, the start first."""
    names = [final]
    while (above := ledger.branches[names[-1]].parent) is not None:
        names.append(above)
    return names[::-1]


def outcome(rows: Sequence[Mapping[str, Any]], kept: Sequence[str]) -> str:
    """What the rounds came to, in a sentence or two."""
    tried = [row for row in rows if row["family"] != "continue"]
    held = [row for row in tried if row["branch"] in kept]
    plain = [row for row in rows if row["branch"] in kept and row["family"] == "continue"]
    if held:
        changes = "; ".join(f"{row['change']} (round {row['round']}, {row['branch']})" for row in held)
        more = f" {counted(len(plain), 'round')} kept more training under the recipe as it was." if plain else ""
        return f"{counted(len(tried), 'change')} of the recipe tried, {len(held)} kept: {changes}.{more}"
    said = f"{counted(len(tried), 'change')} of the recipe tried, none kept"
    if plain:
        names = ", ".join(row["branch"] for row in plain)
        return f"{said}: what is better than the start is so by more steps of the recipe it began with ({names})."
    return f"{said}, and no more steps either: the start is still the best known."


def use_of(path: Path, branch: str, trainer: str) -> dict[str, str]:
    """Commands by what they do with the final policy and its recipe, ready to paste; `note` where there is no model to load."""
    folder = path / "branches" / branch
    recipe = {
        "recipe": f"git -C {shlex.quote(str(path / 'harness'))} show main:recipe.yaml   # what differs from the default recipe",
        "changes": f"git -C {shlex.quote(str(path / 'harness'))} log --oneline",
    }
    if trainer == "toy":
        note = "trainer toy trains a table of numbers to try the machine on: there is no model to load. What it found is the recipe."
        return {"note": note, **recipe}
    try:
        weights = _weights(folder)
    except (CoevoError, OSError) as e:
        return {"note": f"the weights of {branch} cannot be found: {e}", **recipe}
    if not Path(weights).is_dir():
        return {"note": f"its weights lie where it was trained: {weights}", **recipe}
    adapter = (Path(weights) / "adapter_config.json").is_file()
    library, cls = ("peft", "AutoPeftModelForCausalLM") if adapter else ("transformers", "AutoModelForCausalLM")
    model = shlex.quote(f"local:{weights}")
    return {
        "search": f"coevo evolve TASK --model {model}",
        "python": f"from {library} import {cls}; model = {cls}.from_pretrained({weights!r})",
        **recipe,
    }


def commands_of(path: Path, config: LabConfig) -> dict[str, str]:
    """The lab again, more of it, and its branches looked at."""
    lab, branches = shlex.quote(str(path)), path / "branches"
    one, a, b = (shlex.quote(str(branches / name)) for name in ("NAME", "A", "B"))
    return {
        "again": f"coevo lab run NEW_DIR --config {shlex.quote(str(path / 'run.yaml'))}",
        "more": f"coevo lab resume {lab} --set budget.rounds={config.budget.rounds + 3}",
        "branch": f"coevo diagnose {one}",
        "pair": f"coevo compare {a} {b}",
    }


def _weights(run: Path) -> str:
    """Folder of the newest checkpoint; of a branch that trained nothing (an average), what it began with."""
    from coevo.runs import Run
    from coevo.training import checkpoints
    from coevo.training.opening import Setup

    if checkpoints.found(run):
        return checkpoints.pick(run).state
    with Run.open(run, write=False) as opened:
        return str(Setup.read(opened).weights)


def ahead(ledger: Ledger, config: LabConfig, minutes: float) -> str:
    """How long the rest takes at the pace so far, at most; empty where nothing was trained yet or nothing is left. `minutes`: spent so far."""
    if ledger.reported or ledger.exhausted or not ledger.steps_spent or not minutes:
        return ""
    plan = preflight(config)
    left = plan.steps_first + plan.rounds * plan.steps_round - ledger.steps_spent
    if config.budget.steps is not None:
        left = min(left, config.budget.steps - ledger.steps_spent)
    return about(max(0, left) * minutes / ledger.steps_spent)


def about(minutes: float) -> str:
    """A duration as one says it."""
    if minutes < 1.5:
        return f"{max(1, round(60 * minutes))} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
