"""Real evidence: short runs of trainer toy, sound ones and ones with planted faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coevo.backtest import Bench, Known, Past
from coevo.config import parse, with_sets
from coevo.evidence import open_evidence
from coevo.evidence.types import Frame
from coevo.runs import Run
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy

QUICK = {"trainer": "toy", "steps": 12, "lr": 5e-5, "groups": 6, "filter": {"replace": 0}, "evaluate": {"every": 1000}}


def recipe_of(*sets: str) -> Recipe:
    return parse(Recipe, with_sets(QUICK, sets), where="test")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Recipe, Path, Frame]]:
    """A run by its settings, trained once: its recipe, folder and frame."""
    made: dict[tuple[str, ...], tuple[Recipe, Path, Frame]] = {}

    def train(*sets: str) -> tuple[Recipe, Path, Frame]:
        if sets not in made:
            recipe, folder = recipe_of(*sets), tmp_path_factory.mktemp("toy") / "run"
            with Run.create(folder, kind="train", config={"recipe": recipe.model_dump(mode="json")}) as run:
                train_toy(recipe, run)
            made[sets] = (recipe, folder, open_evidence(folder))
        return made[sets]

    return train


@pytest.fixture(scope="session")
def branches(trained) -> list[Past]:
    """Four sound branches, and four on which the public tests leak."""
    good = [Past(f"good{i}", trained(f"seed={i}")[2], Known.GOOD) for i in range(4)]
    bad = [Past(f"leak{i}", trained(f"seed={10 + i}", "toy.leak=0.8")[2], Known.BAD) for i in range(4)]
    return [*good, *bad]


@pytest.fixture(scope="session")
def bench():
    with Bench() as made:
        yield made
