"""Tries each wall, in a process of its own, and says which stand. Executed as a plain file by a clean interpreter.

python -s -P -S probe.py SETTINGS      prints a JSON list of [name, stands, detail]
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import threading
from collections.abc import Callable

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import cgroup
import shown
import syscalls as sc
import walls
from seccomp import Filter

Trial = Callable[[], str]
"""Returns a detail; raises when the wall does not stand."""


def main() -> None:
    settings = json.loads(sys.argv[1])
    uid, gid = settings["host_uid"], settings["host_gid"]
    found: list[tuple[str, bool, str]] = []

    def trial(name: str, attempt: Trial, flags: int = 0) -> None:
        stands, detail = _in_child(attempt, flags, uid, gid)
        found.append((name, stands, detail))

    trial("user namespace", _mapped, sc.CLONE_NEWUSER)
    for name, flag in (
        ("pid namespace", sc.CLONE_NEWPID),
        ("mount namespace", sc.CLONE_NEWNS),
        ("network namespace", sc.CLONE_NEWNET),
        ("ipc namespace", sc.CLONE_NEWIPC),
    ):
        trial(name, lambda: "", sc.CLONE_NEWUSER | flag)
    trial("private root", _root, sc.ALL_NAMESPACES)
    trial("user id", lambda: _user(uid, gid))
    trial("landlock", _landlock)
    trial("seccomp", _seccomp)
    trial("resource limits", lambda: _limits(uid, gid))
    trial("cpu account of processes", lambda: _account(settings["name"]))
    print(json.dumps(found))


def _in_child(attempt: Trial, flags: int, uid: int, gid: int) -> tuple[bool, str]:
    """Run a trial in a fresh process, which may raise walls that never come down."""
    told, tell = os.pipe()
    wait, go = os.pipe()
    try:
        pid, pidfd = sc.clone(flags)
    except OSError as e:
        for fd in (told, tell, wait, go):
            os.close(fd)
        return False, e.strerror or str(e)
    if pid == 0:
        os.close(go)
        os.read(wait, 1)
        _tell(attempt, tell)
    detail = ""
    try:
        if flags:
            _map_user(pid, uid, gid)
    except OSError as e:
        detail = f"a user cannot be mapped: {e.strerror}"
    for fd in (wait, go, tell, pidfd):
        os.close(fd)
    with os.fdopen(told, "rb") as file:
        answer = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    if detail or not answer:
        return False, detail or "the process that tried it died"
    return answer[0] == "+", answer[1:]


def _tell(attempt: Trial, tell: int) -> None:
    try:
        answer = "+" + attempt()
    except OSError as e:
        answer = f"-{e.strerror if e.filename else e.args[-1]}"
    except BaseException as e:
        answer = f"-{e}"
    os.write(tell, answer.encode())
    os._exit(0)


def _map_user(pid: int, uid: int, gid: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{walls.USER} {uid} 1"),
        ("gid_map", f"{walls.USER} {gid} 1"),
    ):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)


def _mapped() -> str:
    os.setresuid(walls.USER, walls.USER, walls.USER)
    return ""


def _root() -> str:
    walls.raise_root(shown.visible_paths(sys.executable), [])
    walls.private_scratch(1 << 16)
    for path in ("/etc/passwd", "/proc/self", "/home"):
        if os.path.exists(path):
            raise PermissionError(f"{path} still shows")
    try:
        os.mkdir("/here")
    except OSError:
        return ""
    raise PermissionError("the root can be written to")


def _user(uid: int, gid: int) -> str:
    if os.geteuid() == 0:
        walls.become(uid, gid)
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise PermissionError("still root")
    return f"runs as {os.getuid()}"


def _landlock() -> str:
    abi = walls.landlock_abi()
    if abi == 0:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock (needs Linux 5.13 with landlock among its lsm)")
    sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
    walls.Landlock.enforce(walls.Landlock(execute=False).ruleset([os.path.dirname(os.__file__)], None))
    os.listdir(os.path.dirname(os.__file__))
    try:
        os.listdir("/")
    except PermissionError:
        return f"ABI {abi}"
    raise PermissionError("it let a forbidden folder be read")


def _seccomp() -> str:
    sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
    Filter(processes=False, signals=False, metadata=False).install(os.getpid())
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    try:
        pid = os.fork()
    except PermissionError:
        return ""
    if pid == 0:
        os._exit(0)
    raise PermissionError("it let a process be forked")


def _limits(uid: int, gid: int) -> str:
    if os.geteuid() == 0:
        walls.become(uid, gid)
    walls.limit(resource.RLIMIT_AS, walls.AddressSpace().size() + (64 << 20))
    try:
        bytearray(256 << 20)
    except MemoryError:
        pass
    else:
        raise PermissionError("memory over the limit was given")
    walls.limit(resource.RLIMIT_NPROC, 0)
    try:
        pid = os.fork()
    except BlockingIOError:
        return ""
    if pid == 0:
        os._exit(0)
    raise PermissionError("processes over the limit were given: a worker must not be root outside")


def _account(name: str) -> str:
    account = cgroup.join(name)
    if not account.counts:
        raise PermissionError(
            "no control group can be made: with limits.processes, children that hide their end go uncounted"
        )
    used = account.usage()
    account.leave()
    return f"cgroup v2, {used:.3f} s"


if __name__ == "__main__":
    main()
