"""What the parent does reliably, the child still does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coevo.gate.checks.running import failed, passed, unknown
from coevo.gate.settings import GateConfig
from coevo.gate.types import Check, Look, Seen
from coevo.stats import sign_flip_p

RELIABLE = 0.8
"""Mean truth from which on the parent passes a task."""
FEWEST = 5
"""Reliable tasks under which nothing is said."""


def reliable_tasks(config: GateConfig, seen: Seen) -> Check:
    """The mean loss on tasks that the parent passes is not over `config.regression` (one-sided sign-flip test over those tasks at alpha).

    A task is chosen by one half of the parent's samples and its loss measured by the other, both ways round: the half that chose
    it is lucky there, and would make any twin look worse.
    """
    looks = [look for look in seen.looks if look.split == "gate"]
    losses = _losses(looks, seen.tasks)
    if len(losses) < FEWEST:
        return unknown(f"not checked: the parent passes {len(losses)} tasks reliably", tasks=len(losses))
    loss = float(np.mean(losses))
    over = [value - config.regression for value in losses]
    p = sign_flip_p(over, seed=0, alternative="greater", resamples=4_999)
    numbers = {"loss": loss, "p": p, "tasks": len(losses), "limit": config.regression}
    if loss > config.regression and p <= config.alpha:
        return failed(f"loses {loss:.3f} on {len(losses)} tasks that the parent passes reliably", **numbers)
    return passed(f"loses {loss:+.3f} on {len(losses)} tasks that the parent passes reliably", **numbers)


def _losses(looks: Sequence[Look], tasks: Sequence[str]) -> list[float]:
    found = []
    for task in tasks:
        parent = [v for look in looks for v in look.parent.get(task, ()) if v is not None]
        child = [v for look in looks for v in look.child.get(task, ()) if v is not None]
        if len(parent) < 2 or not child:
            continue
        halves = (parent[::2], parent[1::2])
        mine = [
            float(np.mean(measures) - np.mean(child))
            for chooses, measures in (halves, halves[::-1])
            if np.mean(chooses) >= RELIABLE
        ]
        if mine:
            found.append(float(np.mean(mine)))
    return found
