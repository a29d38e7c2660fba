"""Nothing is left behind: not in the next run, not after a death, not after thousands of runs."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevo.sandbox import Level, Limits, SandboxConfig, Status, open_sandbox
from coevo.sandbox.ladder import reachable
from coevo.sandbox.pool import LocalSandbox
from coevo.sandbox.spawn import interpreter

from .conftest import job
from .hostile import ATTACKS

ROOT = Path(__file__).resolve().parents[2]


def _workers_of(pid: int) -> set[int]:
    """Processes of workers (and of what they run) that this process has made."""
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f'"parent": {pid}'.encode() in Path(entry.path, "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def _wait(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _left_behind(pid: int) -> tuple[list[str], list[str]]:
    """Scratch folders of anybody, control groups of this process."""
    scratch = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("coevo-sandbox-")]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/coevo-{pid}-*") if path.is_dir()]
    return scratch, groups


SCAN = """
import ctypes, gc, os
libc = ctypes.CDLL(None)
shift = bytes((i + 1) % 256 for i in range(256))
def f(shifted):
    # What is looked for must not itself be in memory, so everything is shifted by one.
    needles = [text.encode() for text in shifted]
    r, w = os.pipe()
    seen, found = set(), set()
    # Around everything alive, page by page: a write from an address that is not mapped fails, without a fault.
    starts = {id(o) >> 20 for o in gc.get_objects()} | {id(str(i) * 9) >> 20 for i in range(99)}
    for megabyte in {s + d for s in starts for d in (-1, 0, 1)}:
        for page in range(256):
            address = (megabyte << 20) + (page << 12)
            if libc.write(w, ctypes.c_void_p(address), 4096) != 4096:
                continue
            data = os.read(r, 4096).translate(shift)
            seen.add(address)
            found.update(n.decode() for n in needles if n in data)
    return len(seen), sorted(found)
"""

SHIFT = bytes((i + 1) % 256 for i in range(256))


def test_nothing_of_an_earlier_job_is_in_a_later_ones_memory(best: LocalSandbox) -> None:
    marks = ["mark-in-source-71", "mark-in-argument-72", "mark-in-output-73", "mark-in-answer-74"]
    source = f"note = {marks[0]!r} * 20\ndef f(x):\n    print('mark-in-' 'output-73' * 40)\n    return ['mark-in-' + 'answer-74' for _ in x * 50]"
    for _ in range(3):
        assert best.run(job(source, [marks[1] + str(i) for i in range(50)])).status is Status.OK
    limits = Limits(cpu_s=60)
    shifted = [mark.encode().translate(SHIFT).decode() for mark in marks]
    pages, found = best.run(job(SCAN, shifted, limits=limits)).calls[0].value
    assert pages > 500 and found == []
    # The scan does see what is there: a mark in its own source.
    there = best.run(job(SCAN + f"\nnote = {marks[0]!r} * 20", shifted, limits=limits)).calls[0].value[1]
    assert there == [shifted[0]]


@pytest.mark.parametrize("level", [Level.NAMESPACES, Level.LANDLOCK, Level.BUBBLEWRAP], ids=str)
def test_nothing_of_an_earlier_job_is_in_a_later_ones_world(
    level: Level, sandboxes: Callable[[Level], LocalSandbox]
) -> None:
    leave = """
import builtins, fcntl, os, sys, random
def f(x):
    for folder in ("/tmp", "/dev/shm", os.getcwd(), "/"):
        try: open(folder + "/left", "w").write("x")
        except OSError: pass
    builtins.left = sys.left = random.left = os.environ["LEFT"] = "x"
    for fd in (0, 1, 2, 3):
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
    return 1
"""
    look = """
import builtins, fcntl, os, sys, random
def f(x):
    found = [p + "/left" for p in ("/tmp", "/dev/shm", os.getcwd(), "/") if os.path.exists(p + "/left")]
    found += [o.__name__ for o in (builtins, sys, random) if hasattr(o, "left")] + [n for n in os.environ if n == "LEFT"]
    return found + [fd for fd in (0, 1, 2, 3) if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK], os.listdir(os.getcwd())
"""
    sandbox = sandboxes(level)
    assert sandbox.run(job(leave, 1)).status is Status.OK
    assert sandbox.run(job(look, 1)).calls[0].value == ([], ["program.py"])


def test_a_worker_that_dies_is_replaced_and_the_job_tried_again() -> None:
    with open_sandbox() as sandbox:
        (worker,) = sandbox._all
        worker._process.kill()
        execution = sandbox.run(job("def f(x): return x", 5))
        assert execution.status is Status.OK and execution.calls[0].value == 5
        assert len(sandbox._all) == 1


def test_a_job_whose_worker_dies_twice_is_unmeasured() -> None:
    before = _left_behind(os.getpid())[1]
    with open_sandbox() as sandbox:
        over = threading.Event()

        def kill_all() -> None:
            while not over.is_set():
                for worker in list(sandbox._all - set(sandbox._idle[job("").preload])):
                    worker._process.kill()
                time.sleep(0.05)

        killer = threading.Thread(target=kill_all)
        killer.start()
        execution = sandbox.run(job("import time\ndef f(x): time.sleep(60)", 1, limits=Limits(cpu_s=60)))
        over.set()
        killer.join()
        assert execution.status is Status.INFRASTRUCTURE and execution.calls[0].status is Status.SKIPPED
        assert sandbox.run(job("def f(x): return x", 5)).status is Status.OK
    assert _left_behind(os.getpid())[1] == before


@pytest.mark.parametrize("level", [Level.NAMESPACES, Level.LANDLOCK, Level.BUBBLEWRAP], ids=str)
def test_kill_9_of_the_maker_leaves_nothing(level: Level, sandboxes: Callable[[Level], LocalSandbox]) -> None:
    sandboxes(level)  # or skip
    program = f"""
import threading
from coevo.sandbox import *
s = open_sandbox(SandboxConfig(level={str(level)!r}), workers=2)
loop = Job((("program.py", "import os\\nos.write(1, b'x')\\nwhile True: pass"),), "program.py", limits=Limits(cpu_s=600))
for _ in range(2): threading.Thread(target=s.run, args=(loop,)).start()
print("running", flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    maker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    assert maker.stdout is not None and maker.stdout.readline() == b"running\n"
    processes = 2 if level is Level.BUBBLEWRAP else 3  # what the two candidates and their workers are, at least
    name = (lambda: _bubblewrap_of(maker.pid)) if level is Level.BUBBLEWRAP else (lambda: _workers_of(maker.pid))
    assert _wait(lambda: len(name()) >= processes)
    time.sleep(0.2)
    alive = name()
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()
    assert _wait(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in alive)), alive
    assert _wait(lambda: not name())
    assert _wait(lambda: not _left_behind(maker.pid)[1])


def _bubblewrap_of(pid: int) -> set[int]:
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"coevo-{pid}-".encode() in Path(entry.path, "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def _resident(pids: set[int]) -> int:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4
    return total


def test_two_thousand_executions_leak_nothing() -> None:
    hostile = [attack for attack in ATTACKS if attack.limits.cpu_s <= 0.3 and Status.CPU not in attack.ends]
    rng = random.Random(7)
    good = job("def f(x): return x + 1", 1)
    others = _workers_of(os.getpid())
    with open_sandbox(SandboxConfig(level=Level.NAMESPACES), workers=2) as sandbox, ThreadPoolExecutor(2) as threads:
        where = {
            "secret": "/nowhere",
            "folder": "/nowhere",
            "port": 9,
            "abstract": "x",
            "pid": os.getpid(),
            "source": "/x",
            "packages": [],
        }

        def round_of(n: int, share: float) -> None:
            picks = [rng.choice(hostile) if rng.random() < share else None for _ in range(n)]
            jobs = [good if pick is None else job(pick.source, where, limits=pick.limits) for pick in picks]
            for pick, execution in zip(picks, threads.map(sandbox.run, jobs), strict=True):
                assert execution.status is not Status.INFRASTRUCTURE, execution
                if pick is None:
                    assert execution.status is Status.OK and execution.calls[0].value == 2, execution

        round_of(200, 0.3)  # warm
        mine, processes = len(os.listdir("/proc/self/fd")), _workers_of(os.getpid()) - others
        theirs = {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in processes}
        mounts = {pid: len(Path(f"/proc/{pid}/mounts").read_text().splitlines()) for pid in processes}
        memory = _resident(processes)
        round_of(2000, 0.06)
        assert _workers_of(os.getpid()) - others == processes
        assert len(os.listdir("/proc/self/fd")) == mine
        assert {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in processes} == theirs
        assert {pid: len(Path(f"/proc/{pid}/mounts").read_text().splitlines()) for pid in processes} == mounts
        assert _resident(processes) - memory < 2048  # KiB over four processes
    assert _workers_of(os.getpid()) == others


@pytest.mark.skipif(not reachable(Path(interpreter())).stands, reason="no ordinary user can come to this Python")
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already: the whole suite runs as one")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux) to become an ordinary user")
def test_the_attacks_as_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = Path(tempfile.mkdtemp(prefix="coevo-user-"))
    base.chmod(0o777)
    chosen = f"{Path(__file__).parent}/test_hostile.py"
    command = [
        "setpriv",
        "--reuid",
        "12345",
        "--regid",
        "12345",
        "--clear-groups",
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-q",
    ]
    command += ["-p", "no:cacheprovider", "-x", f"--basetemp={base}/t", "-k", "namespaces or landlock", chosen]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=600, env={**os.environ, "HOME": str(base)}
        )
    finally:
        shutil.rmtree(base, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
