"""What a run is, what became of it, and what it may still spend: the part that is the same for every loop."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from coevo.runs import folder
from coevo.runs.types import DIMENSIONS, State

if TYPE_CHECKING:
    from coevo.runs.store import Run


def status_of(run: Run) -> dict[str, Any]:
    """Plain data for `coevo status` and its `--json`.

    Keys: `path`, `kind`, `state`, `by` (who writes, or what ended it), `created` and `last_activity` (seconds since
    1970), `counts` (rows per table), `budget` (per dimension: `limit`, `spent`, `remaining`; None is unlimited), `spent_on`
    (per purpose), `lost_usd`, `resume` (the command that continues; None while the run is running). Of a running run,
    the reservations of its process are not seen from outside, so `remaining` is what is not spent.
    """
    state, by = folder.state(run)
    ledger = run.ledger
    spent, remaining = ledger.spent(), ledger.remaining()
    limits = ledger.budget.model_dump()
    purposes = ledger.by_purpose()
    return {
        "path": str(run.path),
        "kind": run.kind,
        "state": state.value,
        "by": by,
        "created": run.meta["created"],
        "last_activity": run.last_event().ts,
        "counts": run.counts(),
        "budget": {
            name: {"limit": limits[name], "spent": spent[name], "remaining": remaining[name]} for name in DIMENSIONS
        },
        "spent_on": purposes,
        "lost_usd": purposes.get("lost", {}).get("usd", 0.0),
        "resume": None if state is State.RUNNING else resume_command(run),
    }


def resume_command(run: Run) -> str:
    """The command that goes on with this run; it asks for a larger budget where a bound is reached, or ended the search
    because the next step might have gone past it."""
    command = f"coevo resume {shlex.quote(str(run.path))}"
    limits = run.ledger.budget.model_dump(exclude_none=True)
    state, why = folder.state(run)
    named = set(re.findall(r"\w+", why)) if state is State.STOPPED and "budget" in why else set()
    reached = [
        name for name, left in run.ledger.remaining().items() if left == 0 or (left is not None and name in named)
    ]
    if not reached:
        return command
    asked = re.search(r"may take ([\d.e+-]+)", why) if named else None
    need = float(asked[1]) if asked else 0.0
    more = {
        name: value + max(value, need if name in named else 0.0) for name, value in limits.items() if name in reached
    }
    larger = ",".join(f"{name}={more.get(name, value):.12g}" for name, value in limits.items())
    return f"{command} --budget {larger}"
