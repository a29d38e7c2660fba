"""A lab as it lies in its folder: its settings, its ledger, and what it may spend, which a person may change while all else stays sealed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from coevo.config import assigned, parse
from coevo.errors import StoreError, UsageError
from coevo.lab.ledger import KINDS, START, Ledger, fold
from coevo.lab.rounds import Finish, Report, next_action
from coevo.lab.settings import LabBudget, LabConfig
from coevo.lab.types import BranchState
from coevo.runs import Budget, Run
from coevo.runs.types import State

KIND = "lab"
"""Kind of a lab's run."""

PAID = ("tokens", "usd", "minutes")
"""What the run's own ledger bounds; rounds and steps are bounded by the lab's."""


def budget_of(config: LabConfig) -> Budget:
    """Bounds of the run's own ledger."""
    return Budget(**{name: getattr(config.budget, name) for name in PAID})


def config_of(run: Run, ledger: Ledger | None = None) -> LabConfig:
    """The settings of a lab's run, with the budget that it was last given."""
    if run.kind != KIND:
        raise StoreError(f"{run.path} is a run of kind {run.kind!r}, not a lab; make one with `coevo lab new DIR`")
    config = parse(LabConfig, run.config, where=f"config of lab {run.path}")
    budget = (ledger or ledger_of(run)).budget
    if budget is None:
        return config
    return config.model_copy(update={"budget": parse(LabBudget, budget, where=f"budget of lab {run.path}")})


def ledger_of(run: Run) -> Ledger:
    return fold(run.events(kinds=KINDS))


def read_lab(path: str | Path) -> tuple[LabConfig, Ledger]:
    """Settings and ledger of a lab, without writing to it."""
    with Run.open(path, write=False) as run:
        ledger = ledger_of(run)
        return config_of(run, ledger), ledger


def give(path: str | Path, changes: Mapping[str, Any]) -> LabBudget:
    """Another budget for a lab: names of `LabBudget` -> bounds, the others stay; what was spent stays spent. The new budget, whole.

    A lab that ended goes on under it. Raises `UsageError` where it would not (the new bounds are spent already).
    """
    with Run.open(path, write=True) as run:
        ledger = ledger_of(run)
        config = config_of(run, ledger)
        budget = parse(LabBudget, assigned(config.budget.model_dump(mode="json"), changes), where="budget")
        if budget == config.budget:
            run.mark(State.STOPPED, by="its budget was given once more")
            return budget
        new = config.model_copy(update={"budget": budget})
        if ledger.exhausted or ledger.reported:
            _require_more(run, new, ledger)
        run.append("given", {"budget": budget.model_dump(mode="json")}, step=ledger.rounds)
        run.mark(State.STOPPED, by="it was given another budget")
    return budget


def _require_more(run: Run, new: LabConfig, ledger: Ledger) -> None:
    """Raise `UsageError` where a lab that ended could do nothing with its new budget: it would only measure the report split once more."""
    spent = run.ledger.spent()
    for name in PAID:
        bound = getattr(new.budget, name)
        if bound is not None and spent[name] >= bound:
            raise UsageError(
                f"budget.{name} = {bound:g} is spent ({spent[name]:g}), so lab {run.path} would not go on; give it more than that"
            )
    start = ledger.branches.get(START)
    if start is not None and start.state is BranchState.FAILED:
        raise UsageError(
            f"lab {run.path} would not go on: its first recipe cannot be trained. Make a new lab with another recipe"
        )
    action = next_action(replace(ledger, exhausted="", reported=False), new)
    if isinstance(action, Report | Finish):
        raise UsageError(
            f"lab {run.path} would not go on: {ledger.rounds} rounds of budget.rounds = {new.budget.rounds} were made, and {ledger.steps_spent} steps "
            f"of budget.steps = {new.budget.steps} (a round takes {new.steps} for every branch). Give it more of what ended it"
        )
