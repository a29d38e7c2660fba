"""A warm, walled Python that forks once per job. Executed as a plain file by a clean interpreter; knows nothing of coevo.

    python -s -P -S zygote.py SETTINGS      with its control socket as standard input

Two processes: the outer one only waits, so that the worker dies when its maker does, however that ends. The inner
one is process 1 of its own pid namespace (on that rung), has moved into a root that shows little, and serves jobs:
see `worker.py`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
from typing import Any, NoReturn

_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, _HERE)

import cgroup  # noqa: E402
import syscalls as sc  # noqa: E402
import walls  # noqa: E402
import worker  # noqa: E402

_OURS = ("cgroup", "child", "codec", "preload", "runner", "seccomp", "shown", "syscalls", "walls", "wire", "worker")


def main() -> NoReturn:
    settings = json.loads(sys.argv[1])
    # A candidate may bring modules of the same names; ours live on in their functions.
    for name in _OURS:
        sys.modules.pop(name, None)
    sys.path.remove(_HERE)
    sys.argv, sys.orig_argv = [""], [sys.executable]
    os.dup2(0, worker.CONTROL)
    if settings["parent"] is None:  # bubblewrap watches over us instead
        worker.Worker(settings, cgroup.NONE).serve()
    parent = os.pidfd_open(os.getppid())
    if os.getppid() != settings["parent"]:  # it died while we started
        _clean(settings)
        os._exit(1)
    _outer(settings, parent)


def _outer(settings: dict[str, Any], parent: int) -> NoReturn:
    """Clone the worker, give it its user, wait until it ends, the maker ends or hangs up; then leave nothing behind."""
    namespaces = settings["level"] == "namespaces"
    if os.geteuid() == 0:
        os.setgroups([])
    account = cgroup.join(settings["name"])
    mine, theirs = os.pipe()
    pid, pidfd = sc.clone(sc.ALL_NAMESPACES if namespaces else 0)
    if pid == 0:
        os.close(theirs)
        os.read(mine, 1)  # until the user map is written
        os.close(mine)
        os.close(parent)
        worker.Worker(settings, account).serve()
    try:
        if namespaces:
            _map_user(pid, settings["host_uid"], settings["host_gid"])
        for fd in (mine, theirs, 0):
            os.close(fd)
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        poller.register(parent, select.POLLIN)
        poller.register(worker.CONTROL, select.POLLRDHUP)
        poller.poll()
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitpid(pid, 0)
        account.leave()
        _clean(settings)
    os._exit(0)


def _clean(settings: dict[str, Any]) -> None:
    if settings["scratch"]:
        shutil.rmtree(settings["scratch"], ignore_errors=True)


def _map_user(pid: int, uid: int, gid: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{walls.USER} {uid} 1"),
        ("gid_map", f"{walls.USER} {gid} 1"),
    ):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
