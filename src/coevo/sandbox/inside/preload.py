"""What a worker has imported before its first job."""

from __future__ import annotations

import importlib
import os
import site
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

STDLIB = """
    abc array base64 bisect cmath collections collections.abc contextlib copy dataclasses datetime decimal enum fractions
    functools heapq inspect io itertools json linecache math numbers operator queue random re statistics string textwrap
    threading time traceback types typing unicodedata
""".split()  # noqa: SIM905
PACKAGES = {
    "numpy": ("numpy", "numpy.fft", "numpy.linalg", "numpy.polynomial", "numpy.random"),
    "scipy": ("scipy", "scipy.linalg", "scipy.optimize", "scipy.spatial", "scipy.special"),
}


class Packages:
    """Finds the packages of the preload set, and nothing else of the folder they lie in."""

    def __init__(self, folder: str, names: list[str]) -> None:
        self.folder = folder
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self.folder]) if name in self.names else None

    def move(self, folder: str) -> None:
        """Look in `folder` from now on, for submodules of what is loaded, too."""
        for module in list(sys.modules.values()):
            places = getattr(module, "__path__", None)
            if isinstance(places, list):
                module.__path__ = [
                    folder + p.removeprefix(self.folder) if p.startswith(self.folder) else p for p in places
                ]
        self.folder = folder


def preload(folders: list[str]) -> Packages | None:
    """Import the stdlib modules that programs use most, and the packages whose folders are given."""
    for name in STDLIB:
        importlib.import_module(name)
    site.setquit()
    site.setcopyright()
    site.sethelper()
    names = [os.path.basename(folder) for folder in folders if not folder.endswith(".libs")]
    if not names:
        return None
    packages = Packages(os.path.dirname(folders[0]), names)
    sys.meta_path.append(packages)  # type: ignore[arg-type]
    for name in names:
        for module in PACKAGES[name]:
            importlib.import_module(module)
    return packages
