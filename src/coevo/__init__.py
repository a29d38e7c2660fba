"""Evolve programs, policies, and the training harness, each under a judge that cannot be fooled cheaply.

import coevo
result = coevo.evolve("circle_packing:n=26", budget="evaluations=200", out="runs/first")
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "audit_reward",
    "compare",
    "compare_strategies",
    "diagnose",
    "evaluate",
    "evolve",
    "load_task",
    "pretrain",
    "replay",
    "resume",
    "run_lab",
    "run_study",
    "synthesize",
    "train",
]

if TYPE_CHECKING:
    from coevo.api import (
        audit_reward,
        compare,
        compare_strategies,
        diagnose,
        evaluate,
        evolve,
        load_task,
        pretrain,
        replay,
        resume,
        run_lab,
        run_study,
        synthesize,
        train,
    )


def __getattr__(name: str) -> Any:
    """The API on first use, so that `import coevo` and `coevo --help` stay instant."""
    if name in __all__:
        from coevo import api

        return getattr(api, name)
    raise AttributeError(f"module 'coevo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
