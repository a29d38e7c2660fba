"""Every setting of a search has an effect: flipping it gives another run, and leaving it alone gives the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coevo.config import parse
from coevo.errors import ConfigError
from coevo.evaluation.pool import InlinePool
from coevo.evolution.result import SearchResult
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.evolution.strategies import STRATEGIES
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import Scripted, ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.models.types import Request, StopReason
from coevo.runs import Run
from coevo.streams import stream
from coevo.tasks.types import Task
from tests.evolution.problems import REPLIES, judges, line_task, program

BASE: dict[str, Any] = {
    "batch": 4,
    "islands": 2,
    "population": 40,
    "migrate_every": 1,
    "steps": 40,
    "verify": False,
    "bins": 3,
    "proposers": {"rewrite": 2, "diff": 1, "crossover": 1, "mutate": 1, "splice": 1, "tune": 1},
}


def reply(request: Request) -> str | Scripted:
    """New programs of any size, some that crash, some replies of the list, one in twelve lost."""
    rng = stream(9, request.key, request.messages[-1].content)
    kind = rng.randrange(12)
    if kind == 0:
        return Scripted(stop_reason=StopReason.FAILED, error="timeout")
    if kind < 3:
        return rng.choice(REPLIES)
    new = program(round(rng.uniform(0, 4), 2), round(rng.uniform(-2, 2), 2))
    if kind < 5:
        return new.replace("return", "return missing +")
    return new.replace("\ndef", "\nC = 3.5" * rng.randrange(40) + "\n\n\ndef")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return line_task(tmp_path_factory.mktemp("options") / "line")


@pytest.fixture(scope="module")
def pool(task: Task):
    with InlinePool(judges(task)) as pool:
        yield pool


def outcome(folder: Path, task: Task, pool: Any, **settings: Any) -> tuple[str, SearchResult]:
    config = parse(SearchConfig, {**BASE, **settings}, where="test")
    models = Ensemble([ScriptedModel(reply, spec=ModelSpec(kind="scripted", batch=1))], [1.0])
    with Run.create(folder, kind="evolve", config={}) as run:
        result = search(task, run, pool=pool, config=config, models=models)
        return run.digest(), result


@pytest.fixture(scope="module")
def base(task: Task, pool: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    return outcome(tmp_path_factory.mktemp("base") / "r", task, pool)[0]


FLIPS: dict[str, Any] = {
    "seed": 1,
    "strategy": "hill_climb",
    "schedule": "steady",
    "batch": 5,
    "steps": 39,
    "target": 8.4,
    "stall": 1,
    "model_failures": 1,
    "islands": 3,
    "population": 4,
    "bins": 1,
    "per_structure": 1,
    "migrate_every": 3,
    "migrants": 3,
    "novelty": 0.9,
    "selection": {"name": "tournament"},
    "proposers": {"rewrite": 1},
    "model_share": 0.5,
    "bandit": False,
    "token_price": 0.1,
    "repair": 1.0,
    "inspirations": 0,
    "history": 0,
    "prompt_chars": 1700,
}
ELSEWHERE = {"verify", "verify_top", "ahead"}
"""The first two change no step: tested in test_search.py and, with a timed task, in test_verify.py. The third: test_search_ahead.py."""


def test_every_setting_has_its_flip() -> None:
    assert set(FLIPS) | ELSEWHERE == set(SearchConfig.model_fields)
    assert all(field.description for field in SearchConfig.model_fields.values())


def test_the_same_settings_give_the_same_run(tmp_path: Path, task: Task, pool: Any, base: str) -> None:
    assert outcome(tmp_path / "r", task, pool)[0] == base


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_flipping_a_setting_changes_the_run(tmp_path: Path, task: Task, pool: Any, base: str, name: str) -> None:
    assert outcome(tmp_path / "r", task, pool, **{name: FLIPS[name]})[0] != base


def decisions(folder: Path) -> list[dict[str, Any]]:
    with Run.open(folder, write=False) as run:
        return [
            event.payload["decision"] | {"program": event.payload.get("program")}
            for event in run.events(kinds=["candidate"])
        ]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_strategies_do_what_their_names_say(tmp_path: Path, task: Task, pool: Any, name: str) -> None:
    _, result = outcome(tmp_path / "r", task, pool, strategy=name, proposers=None, steps=24)
    rows = decisions(tmp_path / "r")
    start, parents = rows[0]["program"], [row["parent"] for row in rows[1:]]
    edits = {row["edit"] for row in rows[1:]}
    if name == "evolve":
        assert {row["island"] for row in rows} == {0, 1} and edits >= {"rewrite", "mutate"}
        return
    assert {row["island"] for row in rows} == {0} and edits <= {"rewrite", "diff"}
    with Run.open(tmp_path / "r", write=False) as run:
        seen = [e.payload.get("evaluation", {}) for e in run.events(kinds=["candidate"])]
    fitness = [(e.get("fitness", -1.0) if e.get("outcome") == "scored" else -1.0) for e in seen]
    if name == "independent":
        assert set(parents) == {start} and not any("history" in row or "others" in row for row in rows)
    elif name == "sequential":
        latest = start
        for step, row in enumerate(rows[1:], 1):
            assert row["parent"] == latest
            latest = row["program"] if seen[step].get("outcome") in ("scored", "failed") else latest
    elif name == "best_of_n":
        rounds = [parents[i : i + 4] for i in range(0, 24, 4)]
        assert all(len(set(group)) == 1 for group in rounds)
        for number, group in enumerate(rounds):
            before = fitness[: 1 + 4 * number]
            assert group[0] == rows[before.index(max(before))]["program"]
    else:
        for step in range(1, 25):
            best = max(fitness[:step])
            last = max(i for i in range(step) if fitness[i] == best)
            assert rows[step]["parent"] == rows[last]["program"]
    assert result.steps == 25


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "evolv"}, "strategy = 'evolv'"),
        ({"proposers": {"rewrit": 1}}, "rewrit"),
        ({"proposers": {"rewrite": -1}}, "below 0"),
        ({"proposers": {"rewrite": 0}}, "no proposer has a weight above 0"),
        ({"batch": 0}, "batch = 0"),
        ({"populatoin": 5}, "Did you mean 'population'"),
        ({"selection": {"name": "ucb"}}, "selection.name = 'ucb'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(SearchConfig, settings, where="test")
