"""Which diagnostics there are: the shipped ones, and those of a harness."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from coevo.diagnostics.types import Diagnostic, Layer
from coevo.errors import UsageError

Foreign = Callable[[Path], Diagnostic]
"""Makes a diagnostic of a file that is not ours, without running its code in this process (`coevo.backtest` has one)."""


@cache
def shipped() -> Mapping[str, Diagnostic]:
    """All diagnostics of `coevo.diagnostics.library` by id, in the order of their layers, then of their ids."""
    from coevo.diagnostics import library

    found: dict[str, Diagnostic] = {}
    for module in sorted(pkgutil.iter_modules(library.__path__), key=lambda m: m.name):
        if module.name.startswith("_"):
            continue
        diagnostic = importlib.import_module(f"{library.__name__}.{module.name}").DIAGNOSTIC
        if diagnostic.id in found:
            raise UsageError(f"two shipped diagnostics are called {diagnostic.id!r}; one is {module.name}.py")
        found[diagnostic.id] = diagnostic
    layers = list(Layer)
    return MappingProxyType(
        {d.id: d for d in sorted(found.values(), key=lambda d: (layers.index(Layer(d.layer)), d.id))}
    )


def load(path: str | Path, *, foreign: Foreign | None = None) -> Diagnostic:
    """The diagnostic of a harness file. A file whose bytes are those of a shipped one is that one; any other is handed to `foreign`,
    since its code must not run here. Raises `UsageError` for a file that cannot be read, or that only `foreign` could open."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UsageError(f"the diagnostic {path} cannot be read: {e.strerror or e}") from e
    ours = _ours().get(hashlib.sha256(data).hexdigest())
    if ours is not None:
        return shipped()[ours]
    if foreign is None:
        raise UsageError(
            f"{path} is none of the shipped diagnostics, and code that others wrote runs only in the sandbox; "
            "have it admitted (`coevo backtest --diagnostic`, `coevo lab`)"
        )
    return foreign(path)


@cache
def _ours() -> Mapping[str, str]:
    """SHA-256 of each shipped file -> the id of its diagnostic."""
    from coevo.diagnostics import library

    found = {}
    for module in pkgutil.iter_modules(library.__path__):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"{library.__name__}.{module.name}")
            found[hashlib.sha256(Path(str(loaded.__file__)).read_bytes()).hexdigest()] = loaded.DIAGNOSTIC.id
    return MappingProxyType(found)
