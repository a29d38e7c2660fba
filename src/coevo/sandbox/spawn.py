"""How a worker process is started, by rung."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.errors import UsageError, WallsError
from coevo.sandbox.inside import cgroup, shown
from coevo.sandbox.types import Level, Preload

INSIDE = Path(__file__).resolve().parent / "inside"
BARE = "bare"
"""No walls at all: what the benchmark compares with. Not a rung, and never chosen."""
_PACKAGES = {Preload.STDLIB: (), Preload.NUMPY: ("numpy",), Preload.NUMPY_SCIPY: ("numpy", "scipy")}
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "1",  # else each thread reserves 64 MB of the address space that a budget bounds
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_SLACK_TASKS = 512
_numbers = itertools.count(1)


def interpreter() -> str:
    """The real Python under a virtual environment: workers start from it, without site-packages."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def package_folders(preload: Preload) -> list[str]:
    """The folders a preload set shows: the packages and their bundled libraries."""
    folders: list[str] = []
    for name in _PACKAGES[preload]:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(f"preload set {str(preload)!r} needs {name}, which is not installed: pip install {name}")
        folder = os.path.realpath(next(iter(spec.submodule_search_locations)))
        folders += [path for path in (folder, folder + ".libs") if os.path.isdir(path)]
    return folders


def host_id(own: int) -> int:
    """The user or group a worker has outside: one's own, but never 0, whose processes the kernel does not count."""
    return own or 61_000 + os.getpid() % 4_000


@dataclass(frozen=True)
class Spawned:
    """A started worker and what it may leave behind if it is killed: a control group, a scratch folder."""

    process: subprocess.Popen[bytes]
    group: str
    scratch: str

    def clean(self) -> None:
        """Remove both; the worker has ended."""
        cgroup.remove(self.group)
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


def spawn(level: Level | str, preload: Preload, control: socket.socket, disk_mb: int = 16) -> Spawned:
    """Start a worker with `control` as its standard input."""
    uid, gid = host_id(os.geteuid()), host_id(os.getegid())
    settings: dict[str, Any] = {
        "level": str(level),
        "parent": os.getpid(),
        "packages": package_folders(preload),
        "host_uid": uid,
        "host_gid": gid,
        "name": f"coevo-{os.getpid()}-{next(_numbers)}",
        "scratch": "",
        "tasks": 2,
    }
    if level is Level.BUBBLEWRAP:
        return Spawned(_start(_bubblewrap(settings, disk_mb), control, drop_to=(uid, gid)), settings["name"], "")
    if level is not Level.NAMESPACES:
        settings["scratch"] = tempfile.mkdtemp(prefix="coevo-sandbox-")
        if os.geteuid() == 0:
            os.chown(settings["scratch"], uid, gid)
        else:
            settings["tasks"] = _own_tasks() + _SLACK_TASKS
    return Spawned(_start(_python(str(INSIDE), settings), control), settings["name"], settings["scratch"])


def _python(inside: str, settings: dict[str, Any]) -> list[str]:
    # -P and -s rather than -I, which would ignore the hash seed.
    return [interpreter(), "-s", "-P", "-S", "-X", "utf8", f"{inside}/zygote.py", json.dumps(settings)]


def _start(
    command: list[str], control: socket.socket, drop_to: tuple[int, int] | None = None
) -> subprocess.Popen[bytes]:
    uid, gid = drop_to if drop_to is not None and os.geteuid() == 0 else (None, None)
    return subprocess.Popen(
        command,
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd="/",
        close_fds=True,
        start_new_session=True,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )


def _bubblewrap(settings: dict[str, Any], disk_mb: int) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise WallsError("level 'bubblewrap' needs the bwrap program: install the package bubblewrap")
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--uid", "1000", "--gid", "1000", "--chdir", "/"]
    visible = shown.visible_paths(interpreter())
    for path in shown.LINKS:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
    for path in visible:
        command += ["--ro-bind", path, path]
    for path in shown.foreign_packages(visible):
        command += ["--tmpfs", path, "--remount-ro", path]
    moved = {path: f"{shown.PACKAGES}/{os.path.basename(path)}" for path in settings["packages"]}
    for path, place in moved.items():
        command += ["--ro-bind", path, place]
    for device in shown.DEVICES:
        command += ["--dev-bind", device, device]
    command += [
        "--ro-bind",
        str(INSIDE),
        "/inside",
        "--size",
        str(max(disk_mb << 20, 1 << 20)),
        "--tmpfs",
        "/tmp",
        "--remount-ro",
        "/",
    ]
    inner = {**settings, "parent": None, "packages": list(moved.values())}
    return [*command, "--", *_python("/inside", inner)]


def _own_tasks() -> int:
    """How many processes and threads this user has: the kernel counts them against the limit of each of them."""
    count, uid = 0, os.geteuid()
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count
