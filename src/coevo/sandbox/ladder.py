"""Which rung of the ladder this machine can stand on."""

from __future__ import annotations

from coevo.errors import WallsError
from coevo.sandbox.pool import LocalSandbox
from coevo.sandbox.types import Level, Preload, SandboxConfig


def open_sandbox(
    config: SandboxConfig | None = None, *, preload: Preload = Preload.STDLIB, workers: int = 1
) -> LocalSandbox:
    """Start workers on the best rung that stands. Raises `WallsError` if that is lower than the config demands."""
    config = config or SandboxConfig()
    level = config.level or Level.NAMESPACES
    if level is not Level.NAMESPACES:
        raise WallsError(f"level {str(level)!r} is not built yet")
    return LocalSandbox(level, preload=preload, workers=workers)
