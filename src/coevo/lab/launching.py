"""The training part of a round: branches are launched, trained rung by rung, and pruned."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from coevo.errors import BudgetSpent
from coevo.lab.branches import FOLDER, Trained
from coevo.lab.designing import told
from coevo.lab.desk import Desk, Fact
from coevo.lab.interventions import apply
from coevo.lab.ledger import START
from coevo.lab.proposals import proposal_dict
from coevo.lab.rounds import Launch, Prune, Train
from coevo.lab.types import Change, Family, Prediction, Proposal
from coevo.runs import Run
from coevo.training.history import curve

LATEST = 0.25
"""Share of a branch's steps, newest first, whose truth says how promising it is."""

CONTROL = Proposal(
    family=Family.CONTINUE,
    hypothesis="More steps alone change truth by this much.",
    evidence=(),
    change=Change(),
    prediction=Prediction("truth", "up"),
    success="it is what every change of the round is held against",
    rollback="nothing was changed",
)


class Stopped(Exception):
    """Training was interrupted; the lab stops, and goes on from there."""


def launch(desk: Desk, action: Launch) -> None:
    """The harness commit of a branch, and its place in the forest."""
    ledger, harness = desk.ledger, desk.harness
    now = ledger.round
    proposal, commit, steps = None, ledger.harness, desk.config.steps
    if action.index is None:
        proposal = CONTROL if now is not None else None
    else:
        assert now is not None
        proposal = now.accepted[action.index]
        applied = apply(proposal.change, harness.recipe(commit), desk.config, harness.files(commit))
        if applied.files:
            message = f"{action.name}: {told(proposal)}\n\n{proposal.hypothesis}\n"
            commit = harness.commit(commit, applied.files, message)
        if "a" in proposal.change.weights:
            steps = 0
    desk.commit(
        Fact(
            "branch",
            {
                "name": action.name,
                "parent": None if action.name == START else ledger.parent,
                "round": now.number if now is not None else 0,
                "proposal": None if proposal is None else proposal_dict(proposal),
                "commit": commit,
                "run": f"{FOLDER}/{action.name}",
                "steps": steps,
            },
        )
    )


def train(desk: Desk, action: Train) -> None:
    """Bring branches to a step. In one process they come one at a time, each with its event; a kill costs at most one step of one."""
    together = action.branches if desk.config.parallel > 1 else action.branches[:1]
    for name in together:  # A branch that goes on loads its reward functions from its worktree.
        desk.harness.checkout(desk.ledger.branches[name].commit, name)
    budget = {name: left for name, left in desk.remaining().items() if name in ("tokens", "usd", "minutes")}
    tickets = [desk.run.ledger.reserve("train", evaluations=0, tokens=0, usd=0) for _ in together]
    try:
        found = desk.branches.train(desk.ledger, together, action.step, budget)
    except BaseException:
        for ticket in tickets:
            desk.run.ledger.release(ticket)
        raise
    for name, one, ticket in zip(together, found, tickets, strict=True):
        before = desk.ledger.branches[name].cost
        cost = {key: max(0.0, value - before.get(key, 0.0)) for key, value in one.cost.items()}
        with desk.run.transaction():
            whole = {key: int(cost[key]) for key in ("evaluations", "tokens")}
            desk.run.ledger.settle(ticket, **whole, usd=cost["usd"])
            _keep(desk, name, one, cost)
    if any(one.interrupted for one in found):
        raise Stopped("training was interrupted; the branch keeps its steps")
    if spent := next((one.spent for one in found if one.spent), ""):
        raise BudgetSpent(spent)


def _keep(desk: Desk, name: str, one: Trained, cost: dict[str, float]) -> None:
    desk.forget(name)
    round_ = desk.ledger.branches[name].round
    if one.failed:
        desk.notify(f"{name}: training failed: {one.failed}")
        desk.commit(Fact("failed", {"branch": name, "why": one.failed, "round": round_}))
        return
    if one.interrupted or one.spent:
        return
    payload = {
        "branch": name,
        "step": one.step,
        "ended": one.ended,
        "cost": cost,
        "weights": desk.branches.ended_with(name),
        "record": desk.branches.record(name),
        "asked": desk.branches.asked_with(name),
        "checkpoints": desk.branches.saved(name, desk.ledger.checkpoints.get(name, {})),
        "timing": {"minutes": one.minutes - desk.ledger.minutes.get(name, 0.0)},
        "round": round_,
    }
    truth = promise(desk.branches.path(name))
    said = "" if truth is None else f", truth {truth.mean:.3f} in training"
    desk.notify(f"{name}: step {one.step} of {desk.ledger.wanted[name]}{said}")
    desk.commit(Fact("trained", payload))


def prune(desk: Desk, action: Prune) -> None:
    """Stop the less promising part of a round's branches: successive halving (Jamieson and Talwalkar 2016) on truth in training.

    A branch is stopped only where it is behind the last one that goes on by more than twice the standard error of their difference: a change that
    mends something may begin low. Branches of which nothing is known go on.
    """
    known = {name: promise(desk.branches.path(name)) for name in action.branches}
    ranked = sorted(((n, one) for n, one in known.items() if one is not None), key=lambda pair: -pair[1].mean)
    room = max(0, action.keep - (len(known) - len(ranked)))
    stopped = []
    for name, one in ranked[room:] if room else ():
        last = ranked[room - 1][1]
        if last.mean - one.mean > 2 * math.hypot(last.error, one.error):
            stopped.append(name)
            desk.notify(f"{name}: stopped at step {desk.ledger.steps[name]}; others are clearly more promising")
    told = {name: None if one is None else list(one) for name, one in known.items()}
    desk.commit(Fact("pruned", {"rung": action.rung, "branches": stopped, "promise": told}))


class Promise(NamedTuple):
    """Truth in the newest steps of a training run."""

    mean: float
    error: float
    """Standard error, from the spread between steps."""


def promise(path: Path) -> Promise | None:
    """Over the last quarter of the steps that a training run has made (three at least); None where truth was not recorded."""
    with Run.open(path, write=False) as run:
        truths = [row["truth"] for row in curve(run) if row.get("truth") is not None]
    late = truths[-max(3, round(LATEST * len(truths))) :]
    if not late:
        return None
    return Promise(fmean(late), stdev(late) / math.sqrt(len(late)) if len(late) > 1 else math.inf)
