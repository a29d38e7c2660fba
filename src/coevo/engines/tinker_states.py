"""Where a Tinker engine's saved states are: names to addresses on the server."""

from __future__ import annotations

import json
import os
from pathlib import Path

from coevo.engines import tinker_wire as wire
from coevo.errors import StoreError

FILE = "states.json"


class States:
    """Names of saved states and where they are, in one file that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, name: str) -> str:
        """The address of a state: of a name, or an address itself. Raises `StoreError`."""
        if wire.is_state(name):
            return name
        known = self._read()
        if name not in known:
            raise StoreError(f"no state {name!r} in {self._path}. It has: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def put(self, name: str, path: str) -> None:
        known = {**self._read(), name: path}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
            part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
            part.replace(self._path)
        except OSError as e:
            raise StoreError(
                f"state {name!r} is on the server as {path}, but cannot be noted in {self._path}: {e}"
            ) from e

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as e:
            raise StoreError(f"cannot read {self._path}: {e}") from None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise StoreError(f"{self._path} is no list of states")
        return found
