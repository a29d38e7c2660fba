"""Running untrusted code: `open_sandbox(config, preload=..., workers=...)`, then `run(job)`."""

from coevo.sandbox.ladder import open_sandbox, probe
from coevo.sandbox.types import (
    Call,
    CallResult,
    Execution,
    Job,
    Level,
    Limits,
    Preload,
    Sandbox,
    SandboxConfig,
    Status,
    Wall,
)

__all__ = [
    "Call",
    "CallResult",
    "Execution",
    "Job",
    "Level",
    "Limits",
    "Preload",
    "Sandbox",
    "SandboxConfig",
    "Status",
    "Wall",
    "open_sandbox",
    "probe",
]
