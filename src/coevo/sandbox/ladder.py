"""Which rung of the ladder this machine can stand on: by trying, never by assuming."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from coevo.errors import SandboxError, WallsError
from coevo.sandbox import spawn
from coevo.sandbox.pool import LocalSandbox
from coevo.sandbox.types import Call, Job, Level, Limits, Preload, SandboxConfig, Status, Wall

LADDER = (Level.NAMESPACES, Level.LANDLOCK, Level.BUBBLEWRAP, Level.RLIMITS)
"""Best first."""

NEEDS: dict[Level, tuple[str, ...]] = {
    Level.NAMESPACES: (
        "user namespace",
        "pid namespace",
        "mount namespace",
        "network namespace",
        "ipc namespace",
        "private root",
        "seccomp",
        "resource limits",
    ),
    Level.LANDLOCK: ("user id", "interpreter", "landlock", "seccomp", "resource limits"),
    Level.BUBBLEWRAP: ("bubblewrap", "seccomp", "resource limits"),
    Level.RLIMITS: ("resource limits",),
}
"""The walls a rung is made of. On the first rung and in bubblewrap, Landlock is raised, too, where the kernel has it."""

REMEDIES = {
    "user namespace": "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0, "
    "user.max_user_namespaces > 0; in a container: --security-opt seccomp=unconfined)",
    "private root": "in a container, allow mounts inside user namespaces (--security-opt apparmor=unconfined)",
    "interpreter": "let other users enter that folder (chmod o+x), or use a Python outside root's home",
    "landlock": "run on Linux 6.2 or later with landlock in its list of security modules",
    "seccomp": "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
    "bubblewrap": "install the package bubblewrap",
}
PROBE_S = 30.0
_CANARY = Job(
    files=(("program.py", "def double(x):\n    return 2 * x\n"),),
    main="program.py",
    entry="double",
    calls=(Call((21,)),),
    limits=Limits(cpu_s=10, memory_mb=64),
)


def probe() -> list[Wall]:
    """Try every wall on this machine. Takes about a fifth of a second; executes nothing that is not coevo's own."""
    settings = {
        "host_uid": spawn.host_id(os.geteuid()),
        "host_gid": spawn.host_id(os.getegid()),
        "name": f"coevo-probe-{os.getpid()}",
    }
    command = [spawn.interpreter(), "-s", "-P", "-S", str(spawn.INSIDE / "probe.py"), json.dumps(settings)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            cwd="/",
            env=spawn.ENVIRONMENT,
            check=True,
        )
        walls = [Wall(name, stands, detail) for name, stands, detail in json.loads(done.stdout)]
    except subprocess.CalledProcessError as e:
        lines = e.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {e.returncode}"]
        raise SandboxError(f"the walls of this machine could not be tried: {lines[-1]}") from None
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        raise SandboxError(f"the walls of this machine could not be tried: {e}") from None
    return [*walls, reachable(Path(spawn.interpreter())), _try_bubblewrap()]


def reachable(interpreter: Path) -> Wall:
    """Whether the user that a rung drops root to can come to the interpreter: without a root folder of its own, it must pass every folder above."""
    if os.geteuid() == 0:
        for folder in (
            *reversed(interpreter.parents),
            *reversed(interpreter.resolve().parents),
            *reversed(spawn.INSIDE.parents),
        ):
            if not folder.stat().st_mode & 0o001:
                return Wall("interpreter", False, f"{folder} lets no other user in, and {interpreter} is needed by one")
    return Wall("interpreter", True, "")


def _try_bubblewrap() -> Wall:
    if shutil.which("bwrap") is None:
        return Wall("bubblewrap", False, "there is no bwrap program")
    try:
        _open(Level.BUBBLEWRAP, Preload.STDLIB, 1).close()
    except (SandboxError, WallsError) as e:
        return Wall("bubblewrap", False, str(e))
    return Wall("bubblewrap", True, "")


def missing(level: Level, walls: list[Wall]) -> list[Wall]:
    """The walls that this rung needs and that do not stand."""
    found = {wall.name: wall for wall in walls}
    return [
        found.get(name, Wall(name, False, "not tried"))
        for name in NEEDS[level]
        if name not in found or not found[name].stands
    ]


def open_sandbox(
    config: SandboxConfig | None = None, *, preload: Preload = Preload.STDLIB, workers: int = 1
) -> LocalSandbox:
    """Start workers on the rung that `config` names, or on the best one that stands and is not below `config.minimum`.

    Every rung is tried with a program before it is believed. Raises `WallsError` that says which walls are
    missing, and what to do; `SandboxError` if a worker does not start although all its walls stand.
    """
    config = config or SandboxConfig()
    if config.level is not None:
        if LADDER.index(config.level) > LADDER.index(config.minimum) and config.level is not Level.RLIMITS:
            raise WallsError(
                f"level {str(config.level)!r} is below the minimum {str(config.minimum)!r}: lower sandbox.minimum"
            )
        rungs = (config.level,)
    else:
        rungs = tuple(r for r in LADDER[: LADDER.index(config.minimum) + 1] if r is not Level.RLIMITS)
    walls: list[Wall] | None = None
    for level in rungs:
        try:
            return _open(level, preload, workers)
        except (SandboxError, WallsError):
            walls = probe() if walls is None else walls
            if not missing(level, walls):
                raise
    raise WallsError(_complaint(rungs, walls or []))


def _open(level: Level, preload: Preload, workers: int) -> LocalSandbox:
    sandbox = LocalSandbox(level, preload=preload, workers=workers)
    try:
        execution = sandbox.run(replace(_CANARY, preload=preload))
        if execution.status is not Status.OK or execution.calls[0].value != 42:
            raise SandboxError(
                f"a right program does not run on level {str(level)!r}: {execution.status}: {execution.error}"
            )
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def _complaint(rungs: tuple[Level, ...], walls: list[Wall]) -> str:
    lines: list[str] = []
    for level in rungs:
        for wall in missing(level, walls):
            remedy = f"; {REMEDIES[wall.name]}" if wall.name in REMEDIES else ""
            lines.append(f"{level}: no {wall.name} ({wall.detail}){remedy}")
    asked = f"level {str(rungs[0])!r}" if len(rungs) == 1 else f"at least level {str(rungs[-1])!r}"
    return (
        f"untrusted code needs {asked}, and this machine does not have its walls:\n  " + "\n  ".join(lines) + "\n"
        "`coevo doctor` tries each wall. Level 'rlimits' runs without walls, if asked for by name"
    )
