"""Disks that are full, folders that may not be written, runs that somebody else is writing: named at once, and nothing is lost."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from safetensors.numpy import load_file

from coevo.errors import RunLocked, StoreError
from coevo.runs import Run
from coevo.runs.check import problems
from coevo.training import session
from tests.training.recipes import recipe

_RDONLY, _REMOUNT = 1, 32


def mount(target: Path, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(target).encode(), b"tmpfs", flags, options.encode()):
        pytest.skip(f"needs to mount a tmpfs here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 24 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, 0, "size=24m")
    yield folder
    ctypes.CDLL(None).umount2(str(folder).encode(), 2)


def fill(folder: Path, *, leave: int) -> Path:
    """Take all space but so many bytes."""
    filler = folder / "filler"
    free = os.statvfs(folder)
    with filler.open("wb") as file:
        file.write(b"\0" * max(0, free.f_bavail * free.f_bsize - leave))
    return filler


def weights(run: Path, step: int) -> dict[str, Any]:
    return load_file(run / "checkpoints" / f"step-{step:06d}" / "model.safetensors")


@pytest.mark.parametrize(("leave", "what"), [(0, "run"), (300_000, "checkpoint")])
def test_a_disk_that_fills_up_loses_no_step_that_was_told(
    stage: Any, tmp_path: Path, disk: Path, leave: int, what: str
) -> None:
    plan = recipe(stage, steps=4, checkpoint_every=2, evaluate={"tasks": [str(stage.other)], "every": 2, "samples": 1})
    session.train(plan, tmp_path / "whole" / "run")
    told = []

    def observe(progress: Any) -> None:
        told.append(progress.step)
        if progress.step == 3:
            fill(disk, leave=leave)

    with pytest.raises(StoreError, match=rf"{what} .*free some space.*coevo resume") as raised:
        session.train(plan, disk / "run", observer=observe)
    assert str(disk / "run") in str(raised.value)
    with Run.open(disk / "run", write=False) as run:
        made = [event.step for event in run.events(kinds=("update",))]
        assert set(told) - {0} <= set(made) and problems(run) == []
    (disk / "filler").unlink()
    assert session.go_on(disk / "run").steps == 4
    with Run.open(tmp_path / "whole" / "run", write=False) as one, Run.open(disk / "run", write=False) as other:
        assert one.digest() == other.digest()
    one, other = weights(tmp_path / "whole" / "run", 4), weights(disk / "run", 4)
    assert all((one[name] == other[name]).all() for name in one)


def test_no_space_for_a_new_run_and_a_folder_that_may_not_be_written(stage: Any, disk: Path) -> None:
    (disk / "old").mkdir()
    filler = fill(disk, leave=0)
    with pytest.raises(StoreError, match=r"making run .*No space.*same command again"):
        session.train(recipe(stage, steps=1), disk / "run")
    filler.unlink()
    session.train(recipe(stage, steps=1), disk / "run")
    mount(disk, _REMOUNT | _RDONLY)
    nowhere = recipe(stage, steps=1, base=str(stage.policy)).model_copy(update={"base": "/no/such/base"})
    for out in (disk / "other", disk / "old" / "deep" / "run"):
        with pytest.raises(StoreError, match=r"cannot write to .*read-only"):
            session.train(nowhere, out, weights="/no/such/base")  # Told before the weights are looked for.
    with pytest.raises(StoreError, match="cannot write"):
        session.go_on(disk / "run")
    mount(disk, _REMOUNT, "size=24m")


def test_a_second_process_on_a_run_is_refused_before_it_loads_anything(stage: Any, tmp_path: Path) -> None:
    base = shutil.copytree(stage.policy, tmp_path / "base")
    plan, out = recipe(stage, steps=1, base=str(base)), tmp_path / "run"
    session.train(plan, out)
    shutil.rmtree(base)
    with (
        Run.open(out, write=True),
        pytest.raises(RunLocked, match=rf"run {out} is being written by process {os.getpid()}.*stop it"),
    ):
        session.go_on(out)
    with pytest.raises(StoreError, match=r"holds a run already.*coevo resume"):
        session.train(plan, out, weights=base)
