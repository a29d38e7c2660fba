"""Bad folders, damage, full disks and kills: a clear error, and nothing lost that was stored."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.errors import StoreError
from coevo.runs import Budget, Run
from coevo.runs.check import problems
from coevo.runs.export import TABLES, rows
from coevo.runs.status import status_of
from coevo.streams import stream
from tests.runs.conftest import Create, program, write_step

ROOT = Path(__file__).parents[2]
_MS_RDONLY, _MS_REMOUNT, _MS_BIND = 1, 32, 4096


def mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, options.encode()):
        pytest.skip(f"needs to mount a {kind or 'bind'} file system here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("tmpfs", disk, "tmpfs", 0, "size=1m")
    yield disk
    assert ctypes.CDLL(None).umount2(str(disk).encode(), 2) == 0


@pytest.mark.parametrize("write", [True, False])
def test_what_is_no_run_is_named(tmp_path: Path, write: bool) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, message in (("nowhere", "does not exist"), ("folder", "holds no run.db"), ("file", "is a file")):
        with pytest.raises(StoreError, match=message):
            Run.open(tmp_path / name, write=write)
    assert list((tmp_path / "folder").iterdir()) == []  # Looking leaves no trace.


def test_a_run_does_not_move_into_a_used_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"not empty .*thesis\.tex"):
        Run.create(tmp_path, kind="k", config={})
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot make run folder"):
        Run.create(tmp_path / "file" / "run", kind="k", config={})


@pytest.mark.parametrize("left", [["run.lock"], ["run.lock", "run.yaml", "run.db.new"], ["artifacts", "run.yaml.new"]])
def test_what_an_interrupted_create_left_is_taken_over(tmp_path: Path, left: list[str]) -> None:
    for name in left:
        (tmp_path / name).mkdir() if name == "artifacts" else (tmp_path / name).write_bytes(b"half")
    with Run.create(tmp_path, kind="k", config={}) as run:
        write_step(run, 1)
        assert problems(run) == []


def test_a_config_that_cannot_be_stored_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot store"):
        Run.create(tmp_path / "run", kind="k", config={"x": object()})
    Run.create(tmp_path / "run", kind="k", config={}).close()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "header", "pages"])
def test_a_damaged_database_is_named_and_not_touched(make: Create, tmp_path: Path, damage: str) -> None:
    run = make()
    for i in range(200):
        write_step(run, i)
    run.close()
    file = tmp_path / "run" / "run.db"
    whole = file.read_bytes()
    broken = {
        "empty": b"",
        "text": b"this is no database, but long enough to be looked at" * 100,
        "cut": whole[: len(whole) // 2],
        "header": b"\0" * 100 + whole[100:],
        "pages": whole[:4096] + b"\xff" * (len(whole) - 4096),
    }[damage]
    file.write_bytes(broken)
    for write in (False, True):
        with pytest.raises(StoreError, match=r"damaged; nothing was changed.*recover"):
            Run.open(tmp_path / "run", write=write)
    assert file.read_bytes() == broken


@pytest.mark.parametrize("noise", [b"\0" * 4096, b"\0" * 2048, random.Random(1).randbytes(4096)])
def test_any_bad_page_is_a_clear_error_or_harmless(make: Create, tmp_path: Path, noise: bytes) -> None:
    run = make()
    for i in range(40):
        write_step(run, i)
    run.close()
    file = tmp_path / "run" / "run.db"
    whole, told = file.read_bytes(), 0
    looks = [Run.digest, status_of, problems, *(lambda run, table=t: list(rows(run, table)) for t in TABLES)]
    for end in range(4096, len(whole) + 1, 4096):
        file.write_bytes(whole[: end - len(noise)] + noise + whole[end:])
        for look in looks:
            try:
                with Run.open(tmp_path / "run", write=False) as damaged:
                    look(damaged)
            except StoreError as e:
                told += "damaged" in str(e)
    assert told > len(whole) // 4096  # Anything but a StoreError would have come through.


def test_damage_met_later_is_told_as_well(make: Create, tmp_path: Path) -> None:
    run = make()
    for i in range(300):
        write_step(run, i)
    run.close()
    file = tmp_path / "run" / "run.db"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    file.write_bytes(data)
    with Run.open(tmp_path / "run", write=False) as run:
        assert problems(run) != []
        with pytest.raises(StoreError, match="damaged"):
            print([list(rows(run, table)) for table in TABLES])


def test_a_disk_that_fills_up_keeps_what_was_stored(small_disk: Path) -> None:
    run = Run.create(small_disk / "run", kind="k", config={})
    written, message = fill(run)
    assert written > 10 and "Everything stored before this step is kept" in message and "coevo resume" in message
    with pytest.raises(StoreError, match=r"full|disk I/O"):
        write_big_step(run, written)  # Still full: still an error, and still nothing half stored.
    assert run.counts()["programs"] == written and run.ledger.spent()["evaluations"] == written
    ctypes.CDLL(None).mount(b"tmpfs", str(small_disk).encode(), b"tmpfs", _MS_REMOUNT, b"size=8m")
    write_big_step(run, written)  # With space again, the same open run goes on.
    run.close()
    with Run.open(small_disk / "run", write=True) as again:
        assert again.counts()["programs"] == written + 1 and problems(again) == []


def test_no_space_for_a_new_run_is_an_error(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(b"x" * (2 << 20))
    with pytest.raises(StoreError, match=r"(full|No space).*Nothing was begun.*the same command again"):
        Run.create(small_disk / "run", kind="k", config={"a": "b" * 5000})
    (small_disk / "filler").unlink()
    Run.create(small_disk / "run", kind="k", config={}).close()


def write_big_step(run: Run, i: int) -> None:
    child = program(i)
    ticket = run.ledger.reserve("w", step=i, evaluations=1)
    try:
        with run.transaction():
            run.put_program(child)
            run.append("step", {"program": child.id, "noise": random.Random(i).randbytes(2000).hex()}, step=i)
            run.ledger.settle(ticket)
    except StoreError:
        run.ledger._tickets.pop(ticket.id, None)
        raise


def fill(run: Run) -> tuple[int, str]:
    """Write steps until the disk refuses; returns how many were stored, and the message."""
    for i in range(100_000):
        try:
            write_big_step(run, i)
        except StoreError as e:
            return i, str(e)
    raise AssertionError("the disk never filled up")


LIMITED = """
import resource, sys
from coevo.runs import Run
from tests.runs.test_trouble import fill
run = Run.create(sys.argv[1], kind="k", config={})
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
print(fill(run)[0], flush=True)
run.close()
"""


def test_a_file_size_limit_is_like_a_full_disk(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 0, answer.stderr
    with Run.open(tmp_path / "run", write=True) as run:
        assert run.counts()["programs"] == int(answer.stdout) > 10 and problems(run) == []


def test_a_folder_that_may_not_be_written_can_still_be_read(make: Create, tmp_path: Path) -> None:
    run = make(budget=Budget(tokens=5000))
    write_step(run, 1)
    digest = run.digest()
    run.close()
    folder = tmp_path / "run"
    with read_only(folder):
        with Run.open(folder, write=False) as reader:
            assert reader.digest() == digest and reader.ledger.spent()["tokens"] == 10
        with pytest.raises(StoreError, match=r"cannot write.*reading .* still works"):
            Run.open(folder, write=True)
        with pytest.raises(StoreError, match="cannot"):
            Run.create(folder / "artifacts" / "other", kind="k", config={})


class read_only:
    """Make a folder read-only: by its mode, or for root, whom modes do not bind, by a mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        if os.geteuid():
            for path in (self.folder, self.folder / "artifacts", *self.folder.glob("run.*")):
                path.chmod(path.stat().st_mode & ~0o222)
            return
        mount(str(self.folder), self.folder, "", _MS_BIND)
        mount("none", self.folder, "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY)

    def __exit__(self, *_: object) -> None:
        if os.geteuid():
            for path in (self.folder, self.folder / "artifacts", *self.folder.glob("run.*")):
                path.chmod(path.stat().st_mode | 0o200)
        else:
            assert ctypes.CDLL(None).umount2(str(self.folder).encode(), 2) == 0


def write_until_killed(path: Path, *, paid: bool) -> None:
    """In a child: go on with the run where it is, step after step."""
    with Run.open(path, write=True) as run:
        for i in range(run.counts()["programs"], 10**9):
            ticket = run.ledger.reserve("paid", step=i, usd=0.001) if paid else None
            write_step(run, i)
            if ticket:
                run.ledger.settle(ticket, usd=0.0005)


def kill_a_writer(path: Path, after_s: float, *, paid: bool) -> None:
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(path, paid=paid)
        finally:
            os._exit(1)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_killed_at_any_moment_the_run_is_sound(path: Path) -> None:
    Run.create(path, kind="k", config={}, budget=Budget(usd=1e6)).close()
    seen = 0
    for n in range(25):
        kill_a_writer(path, stream(11, "kill", n).uniform(0, 0.08), paid=True)
        with Run.open(path, write=True) as run:
            assert problems(run) == []
            counts, spent = run.counts(), run.ledger.spent()
            assert counts["programs"] == counts["evaluations"] == counts["completions"] >= seen
            assert [e.step for e in run.events(kinds=["step"])] == list(range(counts["programs"]))
            assert spent["evaluations"] == counts["programs"] and spent["tokens"] == 10 * counts["programs"]
            none = {"settled": 0, "usd": 0.0}
            paid, lost = (run.ledger.by_purpose().get(purpose, none) for purpose in ("paid", "lost"))
            # Each dollar reserved is settled, or lost once: nothing vanishes and nothing is counted twice.
            assert paid["usd"] == pytest.approx(0.0005 * paid["settled"])
            assert lost["usd"] == pytest.approx(0.001 * lost["settled"])
            assert lost["settled"] == len(list(run.events(kinds=["run.lost"]))) <= n + 1
            assert paid["settled"] <= counts["programs"] <= paid["settled"] + lost["settled"]
            seen = counts["programs"]
    assert seen > 25


def test_the_digest_after_kills_is_that_of_a_quiet_run(make: Create, path: Path) -> None:
    Run.create(path, kind="evolve", config={}).close()
    for n in range(6):
        kill_a_writer(path, 0.01 + 0.01 * n, paid=False)
    with Run.open(path, write=True) as killed:
        quiet = make("quiet")
        for i in range(killed.counts()["programs"]):
            write_step(quiet, i, wall_s=0.7)
        assert quiet.digest() == killed.digest()
