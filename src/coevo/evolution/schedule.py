"""When a step may be decided: after how many commits, whatever the number of workers.

Step 0 is the start program. A decision reads the archive as it stands after exactly `ready(i)` commits, so the
course of a search depends on its seed and schedule alone, never on which worker was quicker.
"""

from __future__ import annotations

from typing import Literal

from coevo.streams import stream

Schedule = Literal["rounds", "steady"]


def ready(step: int, schedule: Schedule, batch: int) -> int:
    """Commits after which `step` is decided.

    rounds: steps 1..batch are decided together after the start, the next `batch` after all of those, and so on.
    steady: step i waits for the commit of step i - batch, so that `batch` steps are always in flight.
    """
    if step == 0:
        return 0
    if schedule == "rounds":
        return 1 + (step - 1) // batch * batch
    return max(1, step - batch + 1)


def asks_model(step: int, seed: int, share: float, ahead: int) -> bool:
    """Whether a step belongs to the models, where they have a fixed share of the steps. A function of its number alone.

    The steps before the first block that is decided early are the operators', so that none has to wait for a model.
    """
    return step > _first(ahead) and stream(seed, "lane", step).random() < share


def early_block(commits: int, ahead: int) -> range:
    """The steps whose model requests are decided, early, after exactly so many commits; mostly none.

    Blocks are half of `ahead` long: their requests go out together, and the operators' steps before them go on meanwhile.
    """
    length = max(1, ahead // 2)
    if not ahead or commits < 1 or (commits - 1) % length:
        return range(0)
    first = commits + _first(ahead)
    return range(first, first + length)


def _first(ahead: int) -> int:
    """Steps before the first early block, the start not counted."""
    return ahead - max(1, ahead // 2) if ahead else 0
