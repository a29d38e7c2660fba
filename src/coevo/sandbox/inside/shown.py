"""What of the host a candidate may see. Read by both sides of the wall; imports nothing of ours."""

from __future__ import annotations

import glob
import os
import sys

PACKAGES = "/packages"
"""Where the preloaded packages lie in a root of its own."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
LINKS = ("/lib", "/lib64")
"""Folders that are links on most systems, and links then in the new root, too."""


def visible_paths(interpreter: str) -> list[str]:
    """Real paths of the stdlib, shared libraries, the interpreter (a real path), and time zones; none inside another."""
    wanted = {os.path.dirname(os.__file__), "/lib64", "/usr/lib64", "/usr/share/zoneinfo", interpreter}
    tag = getattr(sys.implementation, "_multiarch", "")
    if tag:
        wanted |= {f"/usr/lib/{tag}", f"/lib/{tag}"}
    wanted.update(glob.glob(f"{os.path.dirname(os.path.dirname(interpreter))}/lib/libpython*.so*"))
    found = sorted({os.path.realpath(path) for path in wanted if os.path.exists(path)})
    return [path for path in found if not any(path.startswith(other + "/") for other in found)]


def foreign_packages(paths: list[str]) -> list[str]:
    """Folders of installed packages inside `paths`: they are covered, since they may hold anything."""
    found: set[str] = set()
    for path in paths:
        for middle in ("", "/python*"):
            for name in ("site-packages", "dist-packages"):
                found.update(glob.glob(f"{glob.escape(path)}{middle}/{name}"))
    return sorted(path for path in found if os.path.isdir(path))


def without_packages(paths: list[str]) -> list[str]:
    """The same paths, but with folders of installed packages left out: by naming everything beside them."""
    hidden = foreign_packages(paths)
    result: list[str] = []
    for path in paths:
        if path in hidden:
            continue
        inside = any(cover.startswith(path + "/") for cover in hidden)
        result += without_packages([f"{path}/{name}" for name in os.listdir(path)]) if inside else [path]
    return result
