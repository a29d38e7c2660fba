"""Digests of what branches train from and leave, by which the gate tells whether it is still that."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from coevo.runs import Run
from coevo.training.opening import Setup

_MANNERS = (".json", ".txt", ".model", ".jinja", ".py")
"""Files that decide how a model is asked and read, by suffix."""
_RECORDS = ("coevo.json", "engine.json")


def weights_folder(run: Path, step: int | None = None) -> Path:
    """The weights a run ended with (or had after `step`); of one that trained nothing, those it began with."""
    from coevo.training import checkpoints

    if not checkpoints.found(run):
        with Run.open(run, write=False) as opened:
            return Path(Setup.read(opened).weights)
    return Path(checkpoints.pick(run, str(step) if step is not None else "").state)


def digest_of(run: Path, step: int | None) -> str:
    with Run.open(run, write=False) as opened:
        if Setup.read(opened).recipe.trainer == "toy":
            from coevo.training.toy import weights_of

            return array_digest(weights_of(opened, step))
    return folder_digest(weights_folder(run, step))


def array_digest(weights: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(weights, dtype=np.float64).tobytes()).hexdigest()


def manner_digest(folder: Path) -> str:
    """Over the files beside the weights of a folder, but for what was noted of the weights."""
    total = hashlib.sha256()
    files = (path for path in folder.rglob("*") if path.suffix in _MANNERS and path.name not in _RECORDS)
    for file in sorted(path for path in files if path.is_file()):
        name = file.relative_to(folder).as_posix()
        total.update(f"{name}\x1f{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def folder_digest(folder: Path) -> str:
    """Over the weight files of a folder; of its name where there is none (a server's path, a hub id)."""
    total = hashlib.sha256()
    files = sorted(path for path in folder.glob("*.safetensors") if "optim" not in path.name) if folder.is_dir() else []
    for file in files:
        with file.open("rb") as handle:
            total.update(file.name.encode() + hashlib.file_digest(handle, "sha256").digest())
    if not files:
        total.update(str(folder).encode())
    return total.hexdigest()
