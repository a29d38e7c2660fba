"""A small JSON file that vouches for other files and for itself, by SHA-256: what is damaged is told from what is whole.

{"step": 20, ..., "files": {"engine.json": "5f3c..."}, "seal": "91ab..."}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from coevo.engines.state import digest
from coevo.errors import StoreError


def text(content: Mapping[str, Any], *, of: Path, files: Iterable[str]) -> str:
    """`content` with the digests of these files of the folder `of`, and the seal over it all."""
    whole = {**content, "files": {name: digest(of / name) for name in files}}
    return json.dumps({**whole, "seal": _seal(whole)}, indent=2) + "\n"


def read(file: Path) -> dict[str, Any]:
    """The content. Raises `StoreError` for a file that cannot be read or is not as it was written; one without a seal is believed."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise StoreError(f"{file} cannot be read: {getattr(e, 'strerror', None) or e}") from e
    if not isinstance(found, dict):
        raise StoreError(f"{file} holds no JSON object: it is damaged")
    seal = found.pop("seal", None)
    if seal is not None and seal != _seal(found):
        raise StoreError(f"{file} is not as it was written (its seal differs): damaged or changed")
    return found


def require_files(folder: Path, content: Mapping[str, Any]) -> None:
    """Raise a `StoreError` unless all files that `content` vouches for are as they were."""
    files = content.get("files")
    for name, expected in files.items() if isinstance(files, dict) else ():
        file = folder / name
        if not file.is_file():
            raise StoreError(f"{file} is missing: what it belongs to is damaged")
        if digest(file) != expected:
            raise StoreError(f"{file} is not the file that was saved (SHA-256 differs): damaged or changed")


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
