"""What a run will cost is told before it begins, in numbers of what was looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch", reason="training needs torch (extra train)")

from coevo.training.session import begin
from tests.training.recipes import recipe
from tests.training.tiny_policy import write_task


def test_states_that_do_not_fit_are_counted_among_those_looked_at(stage: Any, tmp_path: Path) -> None:
    long = write_task(tmp_path / "tasks" / "long", (1, 2, 3))
    config = yaml.safe_load((long / "task.yaml").read_text())
    (long / "task.yaml").write_text(yaml.safe_dump(config | {"statement": "Write f(k, x). " * 400}))
    with begin(recipe(stage, states={"tasks": [str(stage.task), str(long)]}), tmp_path / "run") as session:
        plan = session.plan
    assert (plan.unfit, plan.looked_at) == (1, 2)
    assert any("1 of 2 states looked at do not fit" in line for line in plan.lines())
