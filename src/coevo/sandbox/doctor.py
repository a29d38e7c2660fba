"""Is this machine fit to run untrusted code? Tries the walls, measures the speed, sends in canaries."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from coevo.errors import CoevoError
from coevo.sandbox.ladder import LADDER, missing, open_sandbox, probe
from coevo.sandbox.types import Call, Execution, Job, Level, Limits, Preload, SandboxConfig, Status, Wall


@dataclass(frozen=True)
class Canary:
    """One program sent in: whether it came out as it should, and what came out."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Warmth:
    """What one preload set reaches here. `level` is None when no worker could be started: `detail` says why."""

    preload: Preload
    level: Level | None
    start_s: float = 0.0
    per_s: float = 0.0
    """Executions per second of one worker, a trivial function called once."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class DoctorReport:
    """The whole examination. `healthy`: the demanded level stands, and every canary came out as it should."""

    walls: tuple[Wall, ...]
    rungs: dict[Level, tuple[str, ...]]
    """Per rung, the walls it lacks here; none: it stands."""
    warmth: tuple[Warmth, ...]
    canaries: tuple[Canary, ...]

    @property
    def level(self) -> Level | None:
        """The rung that untrusted code runs on."""
        return self.warmth[0].level

    @property
    def healthy(self) -> bool:
        return self.level is not None and all(canary.ok for canary in self.canaries)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            **asdict(self),
            "rungs": {str(k): list(v) for k, v in self.rungs.items()},
            "level": self.level,
            "healthy": self.healthy,
        }


def examine(config: SandboxConfig | None = None, *, seconds: float = 2.0) -> DoctorReport:
    """Try the walls, then run programs for about `seconds`. Never raises for what this machine lacks."""
    config = config or SandboxConfig()
    walls = probe()
    warmth: list[Warmth] = []
    canaries: tuple[Canary, ...] = ()
    for preload in Preload:
        measured, found = _examine_set(config, preload, seconds / len(Preload))
        warmth.append(measured)
        canaries = canaries or found
    rungs = {level: tuple(wall.name for wall in missing(level, walls)) for level in LADDER}
    return DoctorReport(tuple(walls), rungs, tuple(warmth), canaries)


def _examine_set(config: SandboxConfig, preload: Preload, seconds: float) -> tuple[Warmth, tuple[Canary, ...]]:
    begun = time.perf_counter()
    try:
        sandbox = open_sandbox(config, preload=preload)
    except CoevoError as e:
        return Warmth(preload, None, detail=str(e)), ()
    with sandbox:
        start_s = time.perf_counter() - begun
        canaries = tuple(_send_in(canary, sandbox.run) for canary in CANARIES) if preload is Preload.STDLIB else ()
        job = _job("def f(x): return x", 1, preload=preload)
        times: list[float] = []
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end or len(times) < 3:
            sandbox.run(job)
            times.append(time.perf_counter() - now)
    times.sort()
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    return Warmth(
        preload, sandbox.level, start_s, len(times) / sum(times), statistics.median(times) * 1e3, p99 * 1e3
    ), canaries


def _job(source: str, argument: object, preload: Preload = Preload.STDLIB) -> Job:
    limits = Limits(cpu_s=0.5, wall_s=10, memory_mb=64, output_bytes=1 << 16)
    return Job((("program.py", source),), "program.py", "f", (Call((argument,)),), preload=preload, limits=limits)


_Judge = Callable[[Execution], bool]


def _nothing(execution: Execution) -> bool:
    """The program has nothing to show for its attempts."""
    return execution.status is Status.ERROR or (execution.status is Status.OK and execution.calls[0].value == [])


_READS = """
import os
def f(path):
    found = []
    for name in (path, "/etc/passwd", "/proc/self/environ"):
        try: found.append(open(name).read(1))
        except OSError: pass
    return found
"""
_FORKS = "import os\ndef f(x):\n    if os.fork() == 0: os._exit(0)\n    return ['forked']"
_CONNECTS = "import socket\ndef f(x):\n    socket.socket()\n    return ['a socket']"
CANARIES: tuple[tuple[str, str, _Judge], ...] = (
    (
        "a right program is right",
        "def f(x): return [41 + 1]",
        lambda e: e.status is Status.OK and e.calls[0].value == [42],
    ),
    ("a loop is ended", "def f(x):\n    while True: pass", lambda e: e.status is Status.CPU),
    ("memory is bounded", "def f(x):\n    return len(b'x' * (1 << 30))", lambda e: e.status is Status.MEMORY),
    ("output is bounded", "def f(x):\n    while True: print('x' * 1000)", lambda e: e.status is Status.OUTPUT),
    ("an early exit is no answer", "import os\nos._exit(0)", lambda e: e.status is Status.EXITED),
    (
        "an object that equals all is no answer",
        "class A:\n    __eq__ = lambda *a: True\ndef f(x): return A()",
        lambda e: e.status is Status.INVALID,
    ),
    ("the host's files cannot be read", _READS, _nothing),
    ("no process can be made", _FORKS, _nothing),
    ("no socket can be made", _CONNECTS, _nothing),
    (
        "the next program is right",
        "def f(x): return [41 + 1]",
        lambda e: e.status is Status.OK and e.calls[0].value == [42],
    ),
)


def _send_in(canary: tuple[str, str, _Judge], run: Callable[[Job], Execution]) -> Canary:
    name, source, judge = canary
    execution = run(_job(source, os.path.abspath(__file__)))
    return Canary(name, judge(execution), f"{execution.status}{': ' if execution.error else ''}{execution.error}")
