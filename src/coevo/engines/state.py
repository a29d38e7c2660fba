"""A state of an engine on disk: a Hugging Face folder that any program can load, and beside it what goes on needs.

    NAME/config.json, model*.safetensors, tokenizer*, generation_config.json
    NAME/adapter/               LoRA: the adapter alone (the weights above have it merged)
    NAME/optimizer.safetensors  moments and step counts of AdamW
    NAME/engine.json            what wrote it, the counters, and the SHA-256 of every other file; written last

A state is written into a hidden folder, forced to the disk, and renamed: at any moment there is the old one, the new one, or (between
two renames, mended by `recover`) the old one under a hidden name. Loading checks every file against `engine.json`.

No state of a random generator is needed: sampling draws from each prompt's seed, dropout from (seed, version, pass), nothing else draws.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coevo.errors import CoevoError, ConfigError, StoreError

FORMAT = 1
RECORD = "engine.json"
OPTIMIZER = "optimizer.safetensors"
ADAPTER = "adapter"
_NAME = re.compile(r"[A-Za-z0-9][\w.@+=-]{0,199}")


@dataclass(frozen=True)
class Record:
    """The content of `engine.json`."""

    version: int
    """Optimizer steps behind the weights."""
    optimizer: bool
    """Whether the optimizer's state is part of it."""
    lora: dict[str, Any] | None
    base_digest: str
    """Of an adapter: SHA-256 over the weights it fits; else empty."""
    settings: dict[str, Any]
    """Of the optimizer's last step: for the record; the next step brings its own."""
    seed: int
    software: dict[str, str]
    format: int = FORMAT
    engine: str = "torch"
    files: dict[str, str] = field(default_factory=dict)
    """Path within the folder to SHA-256."""


def place(folder: Path, name: str) -> Path:
    """Where the state `name` of an engine in `folder` lies. Raises `ConfigError` for a name that is none."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"state name {name!r}: use letters, digits, '.', '_', '-', '+', '=', '@', and begin with a letter or digit"
        )
    return folder / name


def find(folder: Path, name: str) -> Path:
    """The folder of a saved state: by its name, or by a path (which is what `save` returned, of this run or another)."""
    path = Path(name).expanduser()
    if not (path.is_absolute() or os.sep in name):
        path = place(folder, name)
    recover(path)
    if not path.is_dir():
        known = sorted(p.parent.name for p in folder.glob(f"*/{RECORD}")) if folder.is_dir() else []
        raise StoreError(f"no saved state {name!r} in {folder}. There: {', '.join(known) or 'none'}")
    return path


def write(target: Path, record: Record, fill: Callable[[Path], None]) -> None:
    """Make the state: `fill` writes its files into a folder that becomes `target` when all is on the disk."""
    part, old = _hidden(target, "part"), _hidden(target, "old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        fill(part)
        files = {str(file.relative_to(part)): digest(file) for file in _files(part)}
        content = json.dumps({**asdict(record), "files": files}, indent=1, sort_keys=True)
        (part / RECORD).write_text(content + "\n", encoding="utf-8")
        for path in [*_files(part), part]:
            _sync(path)
        if target.exists():
            target.rename(old)
        part.rename(target)
        _sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except CoevoError:
        raise
    except Exception as e:  # safetensors reports a full disk by an error of its own
        why = e.strerror if isinstance(e, OSError) and e.strerror else f"{type(e).__name__}: {e}"
        raise StoreError(f"cannot save the state {target}: {why}. The state before it, if any, is kept") from e
    finally:
        shutil.rmtree(part, ignore_errors=True)
        recover(target)


def recover(target: Path) -> None:
    """Finish or undo a replacement that was killed between its two renames."""
    old = _hidden(target, "old")
    if old.is_dir():
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def read(folder: Path, *, with_optimizer: bool) -> Record:
    """The record of a state, all its files checked (the optimizer's only where it is wanted). Raises `StoreError` that names what
    is missing, cut short or changed."""
    try:
        data = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if data.get("format") != FORMAT or data.get("engine") != "torch":
            raise StoreError(
                f"{folder / RECORD}: engine {data.get('engine')!r}, format {data.get('format')!r}; this version reads torch, {FORMAT}"
            )
        record = Record(**data)
    except FileNotFoundError:
        raise StoreError(f"{folder} is not a saved state: it has no {RECORD}") from None
    except (OSError, ValueError, TypeError, AttributeError) as e:
        raise StoreError(f"{folder / RECORD} cannot be read: {e}") from e
    if with_optimizer and not (record.optimizer and OPTIMIZER in record.files):
        raise StoreError(
            f"{folder} was saved without its optimizer; load it with with_optimizer=False to begin a new one"
        )
    for name, expected in record.files.items():
        if name == OPTIMIZER and not with_optimizer:
            continue
        file = folder / name
        if not file.is_file():
            raise StoreError(f"{file} is missing: the state is damaged; load another one")
        if digest(file) != expected:
            raise StoreError(
                f"{file} is not the file that was saved (SHA-256 differs): damaged or changed; load another state"
            )
    return record


def digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and digests of a folder's weights."""
    lines = [f"{file.name} {digest(file)}\n" for file in sorted(folder.glob("*.safetensors")) if file.name != OPTIMIZER]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _hidden(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{kind}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
