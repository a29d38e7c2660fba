"""The training part of a round: branches are launched, trained rung by rung, and pruned."""

from __future__ import annotations

import numpy as np

from coevo.errors import BudgetSpent
from coevo.evidence.types import Frame
from coevo.lab.branches import FOLDER, Trained
from coevo.lab.designing import told
from coevo.lab.desk import Desk, Fact
from coevo.lab.interventions import apply
from coevo.lab.ledger import START
from coevo.lab.proposals import proposal_dict
from coevo.lab.rounds import Launch, Prune, Train
from coevo.lab.types import Change, Family, Prediction, Proposal

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
        "timing": {"minutes": one.minutes - desk.ledger.minutes.get(name, 0.0)},
        "round": round_,
    }
    truth = promise(desk.frame(name))
    said = "" if truth is None else f", truth {truth:.3f} in training"
    desk.notify(f"{name}: step {one.step} of {desk.ledger.wanted[name]}{said}")
    desk.commit(Fact("trained", payload))


def prune(desk: Desk, action: Prune) -> None:
    """Stop the less promising part of a round's branches: successive halving (Jamieson and Talwalkar 2016) on truth in training. Ties and
    branches of which nothing is known go on."""
    known = {name: promise(desk.frame(name)) for name in action.branches}
    ranked = sorted((n for n in known if known[n] is not None), key=lambda n: -(known[n] or 0.0))
    room = max(0, action.keep - (len(known) - len(ranked)))
    stopped = [n for n in ranked[room:] if room and known[n] != known[ranked[room - 1]]]
    for name in stopped:
        desk.notify(f"{name}: stopped at step {desk.ledger.steps[name]}; others are more promising")
    desk.commit(Fact("pruned", {"rung": action.rung, "branches": stopped, "promise": known}))


def promise(frame: Frame) -> float | None:
    """Mean truth over a branch's last quarter of steps; None where it was not recorded."""
    truth, step = frame.numbers("truth"), frame.numbers("step")
    known = np.isfinite(truth) & np.isfinite(step)
    if not known.any():
        return None
    first, last = step[known].min(), step[known].max()
    late = known & (step >= last - LATEST * (last - first))
    return float(truth[late].mean())
