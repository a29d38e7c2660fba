"""What a branch spent, against what its control spent: a gain that was bought with more is no gain of the change.

Two rules. What a recipe fixes beforehand (rollouts and optimizer passes a step) may not grow over the first recipe's: `interventions` refuses it.
What only training tells (programs judged, tokens: longer replies, more turns, dropped groups drawn again, more searches) is compared when it has
ended, and may come to `LabConfig.spend` times the control's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coevo.lab.ledger import Ledger
from coevo.lab.types import Branch

COUNTED = {"evaluations": "programs judged", "tokens": "tokens"}
"""What is compared: what the same training counts alike on every machine. Minutes are the machine's."""


class Spent(NamedTuple):
    """One thing that a branch spent."""

    what: str
    branch: float
    yardstick: float
    times: float
    """branch / yardstick."""


def spending(branch: Branch, yardstick: Branch) -> tuple[Spent, ...]:
    """In whole trainings; what the yardstick did not count is left out, since nothing can be said of it."""
    known = {name: (branch.cost.get(name, 0.0), yardstick.cost.get(name, 0.0)) for name in COUNTED}
    return tuple(Spent(name, mine, other, mine / other) for name, (mine, other) in known.items() if other > 0)


def of_branch(ledger: Ledger, name: str, against: str) -> tuple[Spent, ...]:
    """A proposal's spending against its round's control (where there is none, against what it is judged against). Empty for a control, and where
    either trained nothing (an average) or counted nothing."""
    branch = ledger.branches[name]
    if branch.proposal is None or branch.proposal.change.empty:
        return ()
    control = next(
        (
            other
            for other in ledger.branches.values()
            if other.round == branch.round and other.proposal is not None and other.proposal.change.empty
        ),
        ledger.branches[against],
    )
    return spending(branch, control) if any(branch.cost.get(name) for name in COUNTED) else ()


def overspent(found: tuple[Spent, ...], most: float | None) -> str:
    """Why a branch cannot be promoted for what it spent; "" where it can."""
    over = [one for one in found if most is not None and one.times > most]
    if not over:
        return ""
    said = " and ".join(
        f"{one.times:.2f} times the control's {COUNTED[one.what]} ({one.branch:,.0f} to {one.yardstick:,.0f})"
        for one in over
    )
    return f"training spent {said}; over {most:g} times (setting `spend`) what it gained may be bought, so it is not measured"


def told(found: Mapping[str, float]) -> str:
    """One line of {what: times}."""
    return ", ".join(f"{times:.2f} x {COUNTED[what]}" for what, times in found.items())
