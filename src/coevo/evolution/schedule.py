"""When a step may be decided: after how many commits, whatever the number of workers.

Step 0 is the start program. A decision reads the archive as it stands after exactly `ready(i)` commits, so the
course of a search depends on its seed and schedule alone, never on which worker was quicker.
"""

from __future__ import annotations

from typing import Literal

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
