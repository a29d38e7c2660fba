"""What goes into an execution and what comes out. Plain values; the walls are raised elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from coevo.config import Config


class Preload(StrEnum):
    """Modules a worker has imported before it forks for a candidate; nothing else is importable but the stdlib."""

    STDLIB = "stdlib"
    NUMPY = "numpy"
    NUMPY_SCIPY = "numpy+scipy"


class Limits(Config):
    """Bounds of one execution. The supervisor owns every deadline."""

    cpu_s: float = Field(default=10.0, gt=0, le=86_400)
    """CPU seconds (user + system, all threads and processes of the execution)."""
    wall_s: float | None = Field(default=None, gt=0, le=864_000)
    """Wall seconds; None means 2 * cpu_s + 5."""
    memory_mb: int = Field(default=512, ge=16, le=1 << 20)
    """Megabytes on top of the warm worker's own size."""
    output_bytes: int = Field(default=1 << 20, ge=0, le=1 << 30)
    """Cap on each of: stdout, stderr, the encoded results. Past it the execution is ended."""
    disk_mb: int = Field(default=16, ge=0, le=1 << 16)
    """Size of the private scratch folder /tmp."""
    processes: int = Field(default=0, ge=0, le=512)
    """How many child processes may exist at once; 0 forbids fork and exec by seccomp (threads are allowed). Their CPU
    time counts in full on the namespaces rung where a control group can be made, and else only of those waited for."""

    @property
    def wall(self) -> float:
        return self.wall_s if self.wall_s is not None else 2 * self.cpu_s + 5


@dataclass(frozen=True)
class Call:
    """One call of the entry function. Arguments are plain data that `coevo.sandbox.codec` can encode."""

    args: Sequence[Any] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """Untrusted source files and what to do with them.

    With `entry`, the main file is executed as a module and `entry` is called once per item of `calls`, in one
    process, each with arguments of its own, decoded before the candidate's clock starts. Without, the main file is run as `__main__`
    with `stdin`, `argv`; its output is the stream. Neither answers nor anything else of the judge is ever in a job.
    """

    files: tuple[tuple[str, str], ...]
    main: str
    entry: str | None = None
    calls: tuple[Call, ...] = ()
    stdin: bytes = b""
    argv: tuple[str, ...] = ()
    preload: Preload = Preload.STDLIB
    limits: Limits = field(default_factory=Limits)
    seed: int = 0
    """Seeds `random` and numpy's legacy generator in the candidate's process (whose hash seed is always the same)."""


class Status(StrEnum):
    """How an execution, or one call in it, ended."""

    OK = "ok"
    ERROR = "error"
    """The code raised (SyntaxError and a missing entry included); see `error`."""
    EXITED = "exited"
    """The process ended before every answer was given (sys.exit, os._exit), or with a nonzero code as a script."""
    CRASHED = "crashed"
    """Killed by a signal of its own making (segfault, abort)."""
    CPU = "cpu"
    """Over the CPU limit."""
    WALL = "wall"
    """Over the wall limit."""
    MEMORY = "memory"
    """Over the memory budget (MemoryError, or killed for it)."""
    OUTPUT = "output"
    """Over the output cap."""
    INVALID = "invalid"
    """The call returned something that is not plain data (see `coevo.sandbox.codec`)."""
    SKIPPED = "skipped"
    """A call that was never begun, because the execution had ended."""
    INFRASTRUCTURE = "infrastructure"
    """The sandbox failed, not the candidate. Unmeasured."""


@dataclass(frozen=True)
class CallResult:
    """One call: its value (decoded plain data) when `status` is ok, else `error` says what happened."""

    status: Status
    value: Any = None
    error: str = ""
    line: int | None = None
    """Line in the candidate's own source where it raised, if known."""
    file: str | None = None


@dataclass(frozen=True)
class Execution:
    """One sandboxed run, as its supervisor saw it. CPU, wall, and memory are the kernel's figures.

    `status` is OK only if everything was: it is how the process ended, or else how the first call that failed did.
    CPU and memory are counted from when the walls are up: what the candidate itself used.
    """

    status: Status
    calls: tuple[CallResult, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    error: str = ""
    line: int | None = None
    """Line in the candidate's own source where it raised outside of any call (while it loaded), if known."""
    file: str | None = None
    exit_code: int | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0
    """Peak resident size over the warm worker's floor."""


@dataclass(frozen=True)
class Wall:
    """One wall: whether it stands on this machine, and if not, why."""

    name: str
    stands: bool
    detail: str = ""


class Level(StrEnum):
    """The ladder, best first. A run refuses untrusted code on a lower rung than its config demands."""

    NAMESPACES = "namespaces"
    """User, pid, mount, net, ipc namespaces + seccomp + rlimits + (where the kernel has it) Landlock."""
    LANDLOCK = "landlock"
    """No namespaces: Landlock + seccomp (no fork) + rlimits."""
    BUBBLEWRAP = "bubblewrap"
    """The bwrap binary around a fresh Python + rlimits (slow)."""
    RLIMITS = "rlimits"
    """Resource limits only. Not a wall against malice; refused unless asked for by name."""


class SandboxConfig(Config):
    """How walls are chosen."""

    level: Level | None = None
    """Exactly this rung; None takes the best one that stands, but not RLIMITS."""
    minimum: Level = Level.BUBBLEWRAP
    """Refuse to run with fewer walls than this rung."""


class Sandbox(Protocol):
    """Runs one job at a time per worker; `run` is thread-safe and never raises for what a candidate does."""

    @property
    def level(self) -> Level: ...

    def run(self, job: Job) -> Execution: ...

    def close(self) -> None: ...
