"""The worst case of a search, said beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.errors import ConfigError
from coevo.evaluate.pool import InlinePool
from coevo.evolve.plan import plans
from coevo.evolve.search import search
from coevo.evolve.settings import SearchConfig
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.runs import Budget, Run
from tests.evolve.problems import REPLIES, judges, line_task


def ensemble(**options) -> Ensemble:
    return Ensemble([ScriptedModel(REPLIES, spec=ModelSpec(kind="scripted", **options))], [1.0])


def test_a_search_makes_at_least_the_proposals_that_were_promised(tmp_path: Path) -> None:
    task = line_task(tmp_path / "line")
    models, budget = ensemble(max_tokens=300), Budget(tokens=40_000)
    config = SearchConfig(proposers={"rewrite": 1}, stall=None, verify=False)
    promised = plans(task, config, models, budget.model_dump())["scripted"]
    assert promised.bound_by == "tokens" and promised.proposals is not None and promised.proposals >= 3
    with InlinePool(judges(task)) as pool, Run.create(tmp_path / "r", kind="evolve", config={}, budget=budget) as run:
        search(task, run, pool=pool, config=config, models=models)
        asked = [event.payload["asked"]["tokens"] for event in run.events(kinds=["candidate"]) if event.step]
    assert len(asked) >= promised.proposals
    assert max(asked) <= promised.prompt_tokens + promised.max_tokens


def test_a_plan_knows_the_context_and_operators_need_none(tmp_path: Path) -> None:
    task = line_task(tmp_path / "line")
    small = plans(task, SearchConfig(), ensemble(context=1000, max_tokens=300), {})["scripted"]
    assert small.prompt_tokens == 700 and small.proposals is None
    assert plans(task, SearchConfig(proposers={"tune": 1}), ensemble(), {}) == {}
    with pytest.raises(ConfigError, match="one proposal may take"):
        plans(task, SearchConfig(), ensemble(), {"tokens": 100})
