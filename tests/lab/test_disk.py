"""A disk that fills up under a lab, and processes that outlive it: one error that says how the lab goes on, and the same events in the end."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.errors import StoreError
from coevo.lab.driver import Ended, new_lab, run_lab
from coevo.lab.harness import Harness
from tests.lab.small_lab import Plan, config, digest, kinds, proposal

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 16 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=16m"):
        pytest.skip(f"needs to mount a tmpfs here: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(str(folder).encode(), 2)


def fill(folder: Path, *, leave: int) -> None:
    """Take all space but so many bytes; what was taken before is given back."""
    filler = folder / "filler"
    filler.unlink(missing_ok=True)
    free = os.statvfs(folder)
    with filler.open("wb") as file:
        file.write(b"\0" * max(0, free.f_bavail * free.f_bsize - leave))


def test_a_full_disk_loses_nothing(tmp_path: Path, disk: Path) -> None:
    """Space comes back in small pieces, so that it is full at every stage: database, branches, git, report."""
    small = {"steps": 2, "calibration": 10, "gate": {"samples": 1, "looks": 1}}
    agent = Plan([[proposal()]])
    new_lab(config(**small), tmp_path / "calm")
    run_lab(tmp_path / "calm", agent=agent)
    new_lab(config(**small), disk / "lab")
    said = []
    for leave in (0, 100_000, 350_000, 700_000):
        fill(disk, leave=leave)
        with pytest.raises(StoreError) as raised:
            run_lab(disk / "lab", agent=agent)
        said.append(str(raised.value))
    assert all("space" in text for text in said), said
    assert not any("coevo resume" in text and "branches" in text.split("coevo resume")[1] for text in said), said
    (disk / "filler").unlink()
    assert run_lab(disk / "lab", agent=agent).ended is Ended.FINISHED
    assert kinds(disk / "lab") == kinds(tmp_path / "calm")
    assert digest(disk / "lab") == digest(tmp_path / "calm")


def test_git_that_does_not_say_why(disk: Path) -> None:
    made = Harness(disk)
    commit = made.begin({"trainer": "toy"})
    fill(disk, leave=0)
    with pytest.raises(StoreError, match="can be written and has space, then resume it"):
        made.commit(commit, {"recipe.yaml": "trainer: toy\n" + "#" * 50_000}, "A change")
    (disk / "filler").unlink()
    assert made.commit(commit, {"recipe.yaml": "trainer: toy\nlr: 1.0\n"}, "A change") != commit


def worker(lab: Path, parent: int) -> subprocess.CompletedProcess[bytes]:
    """A process that trains b0 up to step 2, asked for by `parent`."""
    order = json.dumps({"branch": "b0", "step": 2, "budget": {}, "parent": parent})
    command = [sys.executable, "-m", "coevo.lab.worker", str(lab)]
    return subprocess.run(command, input=order.encode(), capture_output=True, check=False)


def test_a_worker_says_what_is_wrong_and_ends_with_its_driver(disk: Path) -> None:
    """One whose driver was killed would hold its branch, and the lab could not go on."""
    path = disk / "lab"
    new_lab(config(), path)
    run_lab(path, agent=Plan([]), actions=1)
    gone = worker(path, 1)
    assert (gone.returncode, gone.stdout) == (1, b"") and not (path / "branches" / "b0").exists()
    fill(disk, leave=100_000)
    full = worker(path, os.getpid())
    said = json.loads(full.stdout)
    assert full.returncode == 1 and said["stored"] and "space" in said["error"]
