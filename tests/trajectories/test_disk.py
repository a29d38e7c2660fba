"""A disk that fills up while data is made: the folder, what is kept and the next step are named; with space again, the same bytes come."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.errors import RunLocked, StoreError
from coevo.runs import Budget, Run
from coevo.trajectories.synth import Setup, begin, resume
from tests.trajectories import world

_RDONLY, _REMOUNT = 1, 32


def mount(target: Path, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(target).encode(), b"tmpfs", flags, options.encode()):
        pytest.skip(f"needs to mount a tmpfs here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, 0, "size=8m")
    yield folder
    ctypes.CDLL(None).umount2(str(folder).encode(), 2)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    tasks = world.make_tasks(tmp_path / "tasks", ("add", "mul"))
    return Setup.of(tasks, models=(world.script(tmp_path),), settings=world.config(), pool="inline")


def data(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "data").iterdir())}


@pytest.mark.parametrize("stage", ["answers", "arranging", "writing"])
def test_a_full_disk_at_any_stage(setup: Setup, tmp_path: Path, disk: Path, stage: str) -> None:
    with begin(setup, Budget(), tmp_path / "whole" / "run") as synthesis:
        synthesis.go()
    seen = []

    def progress(what: str, done: int, total: int) -> None:
        seen.append(what)
        if what.startswith(stage) and not (disk / "filler").exists():
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(b"\0" * (free.f_bavail * free.f_bsize))

    with (
        pytest.raises(StoreError, match=rf"{disk / 'run'}.*free some space.*coevo resume"),
        begin(setup, Budget(), disk / "run") as synthesis,
    ):
        synthesis.go(progress)
    assert (disk / "filler").exists(), seen
    (disk / "filler").unlink()
    with resume(disk / "run") as synthesis:
        synthesis.go()
    assert data(disk / "run") == data(tmp_path / "whole" / "run")


def test_where_nothing_can_be_written_and_who_writes_already(setup: Setup, disk: Path) -> None:
    with begin(setup, Budget(), disk / "run") as synthesis:
        synthesis.go()
    with Run.open(disk / "run", write=True), pytest.raises(RunLocked, match="being written by process"):
        resume(disk / "run").__enter__()
    mount(disk, _REMOUNT | _RDONLY)
    with pytest.raises(StoreError, match="read-only"):
        begin(setup, Budget(), disk / "other").__enter__()
    with pytest.raises(StoreError, match="cannot write"):
        resume(disk / "run").__enter__()
    mount(disk, _REMOUNT, "size=8m")
