"""What the tests of the trainer share: one tiny policy and a task it can learn."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest


class Stage(NamedTuple):
    policy: Path
    """A Hugging Face folder."""
    task: Path
    other: Path
    """A task to evaluate on."""


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    pytest.importorskip("torch", reason="training needs torch (extra train)")
    from tests.training.tiny_policy import make_policy, write_task

    root = tmp_path_factory.mktemp("stage")
    task, other = write_task(root / "tasks" / "three", (4, 7, 2)), write_task(root / "held" / "other", (1, 5, 5))
    return Stage(make_policy(root / "policy"), task, other)
