"""Whether a run can be made or gone on with at a path, asked before slow work (loading weights, opening pools) begins.

The answers are those of `Run.create` and `Run.open`, which ask again and hold the lock: nothing is written or locked here.
"""

from __future__ import annotations

import os
from pathlib import Path

from coevo.errors import RunLocked, StoreError
from coevo.runs import folder
from coevo.runs.lock import holder


def require_new(path: Path) -> None:
    """Raise a `StoreError` where no run can be made: one is there already, or the place cannot be written."""
    if (path / folder.DB).exists():
        raise StoreError(f"{path} holds a run already. Go on with `coevo resume {path}`, or choose another folder")
    require_writable(path)


def require_free(path: Path) -> None:
    """Raise `RunLocked` while another process writes to the run at `path`, and a `StoreError` where it may not be written."""
    folder.require(path)
    if who := holder(path):
        raise RunLocked(
            f"run {path} is being written by {who}. Wait for it or stop it, then try again; reading (status, export) works meanwhile"
        )
    require_writable(path)


def require_writable(path: Path) -> None:
    """Raise a `StoreError` unless files can be made in the folder `path`, or in the nearest folder above it that exists."""
    there = next((p for p in (path, *path.absolute().parents) if p.exists()), Path("/"))
    if not there.is_dir():
        raise StoreError(f"cannot make {path}: {there} is a file; choose another folder with --out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StoreError(
            f"cannot write to {path}: {there} is read-only for this user; make it writable, or choose another folder"
        )
