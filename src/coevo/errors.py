"""The error model, on one page.

Three kinds of trouble, kept apart everywhere:

* **The candidate's.** A program that crashes, loops, lies or returns nonsense is *data*, never an
  exception: it becomes a failed `Evaluation` with a typed `Failure` and feedback.
* **The user's.** Bad config, unknown names, broken task folders, a run that cannot be opened: a
  `UsageError`. It names the thing, the value and the next step, and ends the command with exit code 2.
* **The machine's or the endpoint's.** A worker that died, a disk that is full, an endpoint that is
  down: an `InfrastructureError`. It is retried where that makes sense, then recorded as *unmeasured*.
  It is never a zero score, and never charged to the candidate.

Code inside a room raises plain Python errors where they occur; the boundary of the room turns them
into one of ours, once (`boundary`). The command line is the only place that catches `CoevoError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


class CoevoError(Exception):
    """Anything coevo tells its user. `exit_code` is what the command line ends with."""

    exit_code = 1


class UsageError(CoevoError):
    """What was asked for cannot be done as asked; changing the input can mend it."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has an unknown name or a value that is out of range."""


class TaskError(UsageError):
    """A task folder is missing something, or contradicts itself."""


class BudgetSpent(CoevoError):
    """The work asked for would go past the budget. Nothing of it was started."""

    exit_code = 3


class GateBlocked(CoevoError):
    """A check that must hold before results are believed did not hold."""

    exit_code = 4


class InfrastructureError(CoevoError):
    """The machine or an endpoint failed, not the candidate. The work is unmeasured."""


class SandboxError(InfrastructureError):
    """A sandbox worker could not be started, or died between executions."""


class WallsError(UsageError):
    """This machine cannot raise the walls that the config demands."""


class ModelError(InfrastructureError):
    """A model could not be reached or gave no usable reply after all retries."""


class StoreError(CoevoError):
    """A run folder cannot be read or written; the message says what was kept."""


class RunLocked(StoreError):
    """Another process is writing to this run."""


class RunTooNew(StoreError):
    """The run was written by a newer version of coevo."""


def pick(name: str, table: Mapping[str, T], *, kind: str) -> T:
    """Return `table[name]`, or raise a `ConfigError` that lists what is known and what was near."""
    if name in table:
        return table[name]
    near = get_close_matches(name, list(table), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(sorted(table))}")


@contextmanager
def boundary(kind: type[CoevoError], what: str) -> Iterator[None]:
    """Turn whatever escapes `what` into `kind`, unless it is already one of ours."""
    try:
        yield
    except CoevoError:
        raise
    except Exception as e:
        raise kind(f"{what}: {type(e).__name__}: {e}") from e
