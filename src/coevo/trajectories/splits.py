"""Which split a task belongs to: a function of its family's name and the seed, so that adding tasks moves none."""

from __future__ import annotations

from coevo.streams import stream
from coevo.tasks.types import Task
from coevo.trajectories.settings import SplitConfig

FAMILY = "family:"
"""Tags that begin so name a task's family."""


def family_of(task: Task) -> str:
    """A tag `family:NAME`, else the name before its colon."""
    tagged = next((tag for tag in task.config.tags if tag.startswith(FAMILY)), None)
    return tagged.removeprefix(FAMILY) if tagged else task.name.partition(":")[0]


def split_of(task: Task, config: SplitConfig, *, seed: int) -> str:
    """train, validation or test."""
    key = family_of(task) if config.by == "family" else task.name
    point = stream(seed, "split", key).random()
    if point < config.test:
        return "test"
    return "validation" if point < config.test + config.validation else "train"
