"""Exports: what other trainers read is what coevo's own would train on, with the same rewards."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from coevo.episodes.running import run_episodes
from coevo.episodes.samples import samples_of
from coevo.episodes.types import EpisodeConfig, StartState
from coevo.errors import ConfigError, InfrastructureError, TaskError, UsageError
from coevo.evaluation.judges import Judges
from coevo.evaluation.pool import InlinePool
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Edit
from coevo.programs import Program
from coevo.training.exports import Scorer, export
from coevo.training.exports import record as records
from coevo.training.rewards import reward_of
from coevo.training.settings import Recipe, RewardConfig
from tests.episodes.stage import TablePolicy, fenced, ramp_task, starts_of, state_of, upto

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra: parquet)")

REPLIES = (
    fenced(upto(2)),
    fenced(upto(4)),
    fenced("def f(x):\n    return x\n"),
    fenced("def f(x):\n    raise ValueError(x)\n"),
    "No code at all.",
    fenced("def f(x:\n"),
    fenced(upto(2, note="  # the same but for a remark")),
)
PARTS = {"metaevolve": 1.0, "format": 0.25, "efficiency_only_if_correct": 0.5}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    root = tmp_path_factory.mktemp("tasks")
    return {task.name: task for task in (ramp_task(root / "ramp", 3), ramp_task(root / "climb", 5))}


@pytest.fixture(scope="module")
def states(tasks) -> list[StartState]:
    ramp, climb = tasks.values()
    history = (Attempt(Program.of(upto(1)), 0.25, 0.25), Attempt(Program.of(upto(3)), 0.75, 0.75))
    return [
        state_of(ramp),
        state_of(ramp, fitness=0.5, program=Program.of(upto(2)), history=history),
        state_of(climb, style=Edit.WRITE, fitness=None),
        state_of(climb, style=Edit.DIFF, fitness=0.25, program=Program.of(upto(1, 5)), known=frozenset({"ab"})),
    ]


def recipe(**reward: float) -> Recipe:
    return Recipe(reward=RewardConfig(parts=reward or PARTS), seed=7)


def ours(states: list[StartState], tasks, recipe: Recipe) -> list[list[float | None]]:
    """The rewards that coevo's own loop gives REPLIES, by state."""
    found = []
    with InlinePool(lambda: Judges(list(tasks.values()))) as pool, reward_of(recipe.reward) as reward:
        for state in states:
            replies = iter(REPLIES)
            policy: Any = TablePolicy(lambda text, seed, call, replies=replies: next(replies))
            rollouts = run_episodes(
                policy, starts_of(state, len(REPLIES)), EpisodeConfig(truth=0), pool=pool, tasks=tasks, seed=7, step=0
            )
            samples = [samples_of(rollout, max_tokens=1024)[0] for rollout in rollouts]
            found.append([scored.reward for scored in reward(samples)])
    return found


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def loaded(monkeypatch) -> Iterator:
    """Imports a file of an export; its scorer judges in this process and is closed at the end."""
    monkeypatch.setenv("COEVO_POOL", "inline")
    modules = []

    def load_(path: Path) -> ModuleType:
        modules.append(load(path, f"exported_{len(modules)}"))
        return modules[-1]

    yield load_
    for module in modules:
        module.scorer().close()


def rows_of(path: Path) -> list[dict]:
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()


def prompts(states, tasks) -> list[list[dict[str, str]]]:
    built = [build_messages(TaskView.of(tasks[s.task].config), s.context, style=Edit(s.style)) for s in states]
    return [[{"role": m.role, "content": m.content} for m in messages] for messages in built]


def test_verl_has_its_documented_columns_and_our_numbers(states, tasks, tmp_path, loaded):
    found = export("verl", states, tasks, recipe(), tmp_path / "out")
    assert found.rows == len(states) and not found.skipped
    assert found.files == ("README.md", "coevo.json", "coevo_reward.py", "train.parquet")
    rows = rows_of(found.folder / "train.parquet")
    assert [row["prompt"] for row in rows] == prompts(states, tasks)
    for i, row in enumerate(rows):
        assert set(row) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
        assert set(row["reward_model"]) == {"style", "ground_truth"} and row["reward_model"]["style"] == "rule"
        assert row["extra_info"]["index"] == i and row["extra_info"]["state"] == states[i].id
        assert row["data_source"] == f"coevo/{states[i].task}" and row["ability"] == "code"
    compute_score = loaded(found.folder / "coevo_reward.py").compute_score
    expected = ours(states, tasks, recipe())
    assert len({reward for group in expected for reward in group}) > 4
    for row, group in zip(rows, expected, strict=True):
        for reply, reward in zip(REPLIES, group, strict=True):
            score = compute_score(
                data_source=row["data_source"],
                solution_str=reply,
                ground_truth=row["reward_model"]["ground_truth"],
                extra_info={**row["extra_info"], "num_turns": None, "rollout_reward_scores": {}},
            )
            assert score["score"] == pytest.approx(reward)
            assert set(score) == {"score", "fitness", "parent_fitness", "correctness", "contract_ok"}


def test_trl_loads_as_a_data_set_and_rewards_groups(states, tasks, tmp_path, loaded):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed (extra: trl)")
    parts = recipe(search_gain=1.0, novelty=0.5, length=0.1)
    folder = export("trl", states, tasks, parts, tmp_path / "out").folder
    data = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert data["prompt"] == prompts(states, tasks) and data["state_id"] == [state.id for state in states]
    assert data["fitness"] == [state.context.parent.fitness for state in states]
    coevo = loaded(folder / "coevo_reward.py").coevo
    logged = {}
    with Scorer(folder, pool="inline") as scorer:
        for row, expected in zip(data, ours(states, tasks, parts), strict=True):
            n = len(REPLIES)
            completions = [[{"role": "assistant", "content": reply}] for reply in REPLIES]
            found = coevo(
                prompts=[row["prompt"]] * n,
                completions=completions,
                state=[row["state"]] * n,
                log_metric=logged.__setitem__,
            )
            assert found == pytest.approx(expected)
            longer = scorer.scores([row["state"]] * n, REPLIES, tokens=[1024] * n)
            assert [one.parts["length"] for one in longer] == [-0.1] * n
    assert logged == {"coevo/unmeasured": 0.0}


def test_verifiers_is_a_package_that_says_what_it_needs(states, tasks, tmp_path):
    folder = export("verifiers", states, tasks, recipe(), tmp_path / "out").folder
    rows = rows_of(folder / "coevo_env" / "train.parquet")
    assert [row["prompt"] for row in rows] == prompts(states, tasks)
    assert [records.state_of(json.loads(row["info"])["state"]) for row in rows] == states
    source = (folder / "coevo_env" / "__init__.py").read_text()
    compile(source, "coevo_env", "exec")
    assert "def load_environment(" in source and (folder / "coevo_env" / "coevo.json").is_file()
    assert 'packages = ["coevo_env"]' in (folder / "pyproject.toml").read_text()


def test_verifiers_by_the_real_library(states, tasks, tmp_path, loaded):
    pytest.importorskip("verifiers", reason="verifiers is not installed: pip install verifiers")
    folder = export("verifiers", states, tasks, recipe(), tmp_path / "out").folder
    module = loaded(folder / "coevo_env" / "__init__.py")
    expected = ours(states, tasks, recipe())
    if hasattr(sys.modules["verifiers"], "SingleTurnEnv"):
        environment = module.load_environment()
        assert len(environment.get_dataset()) == len(states)
        rubrics = getattr(environment.rubric, "rubrics", [environment.rubric])
        (reward,) = [f for rubric in rubrics for f in rubric.funcs if f.__name__ == "coevo"]
        for row, group in zip(environment.get_dataset(), expected, strict=True):
            for reply, value in zip(REPLIES, group, strict=True):
                completion = [{"role": "assistant", "content": reply}]
                assert asyncio.run(reward(completion=completion, info=row["info"])) == pytest.approx(value)
    if module.v1 is not None:
        taskset = module.CoevoTaskset(module.v1.TasksetConfig(id="coevo-env"))
        for task, group in zip(taskset, expected, strict=True):
            for reply, value in zip(REPLIES, group, strict=True):
                assert asyncio.run(task.coevo(type("Trace", (), {"last_reply": reply}))) == pytest.approx(value)


def test_a_reply_that_could_not_be_judged_is_no_zero(states, tasks, tmp_path, monkeypatch, loaded):
    def down(self, task, program, *, split, seed):
        raise InfrastructureError("the machine is on fire")

    verl = export("verl", states, tasks, recipe(), tmp_path / "verl").folder
    trl = export("trl", states, tasks, recipe(), tmp_path / "trl").folder
    text = records.state_text(states[0])
    monkeypatch.setattr(Judges, "evaluate", down)
    with pytest.raises(InfrastructureError, match=r"no reward: unmeasured: the machine is on fire"):
        loaded(verl / "coevo_reward.py").compute_score("coevo/ramp", REPLIES[0], text)
    found = loaded(trl / "coevo_reward.py").coevo([], [REPLIES[0], REPLIES[4]], [text, text])
    assert found[0] is None and found[1] == -1.0


def test_workers_judge_for_many_threads(states, tasks, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    folder = export("verl", states, tasks, recipe(), tmp_path / "out").folder
    text = records.state_text(states[0])
    with Scorer(folder, pool="local:2") as scorer, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda reply: scorer.score(text, reply).reward, REPLIES))
        assert found == pytest.approx(ours(states[:1], tasks, recipe())[0])


def test_a_state_goes_through_text(states):
    for state in states:
        assert records.state_of(records.state_text(state)) == state
    for text in ("", "[]", "{}", '{"state": 1}', "null"):
        with pytest.raises(UsageError, match="no start state"):
            records.state_of(text)


def test_what_cannot_be_exported_is_told(states, tasks, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match=r"unknown export 'vrl'\. Did you mean 'verl'"):
        export("vrl", states, tasks, recipe(), out)
    with pytest.raises(ConfigError, match="one_shot"):
        export("verl", states, tasks, Recipe(episode=EpisodeConfig(name="refine")), out)
    for part in ("novelty", "length"):
        with pytest.raises(ConfigError, match=f"the part '{part}'"):
            export("verl", states, tasks, recipe(**{part: 1.0}), out)
    with pytest.raises(UsageError, match="not among the tasks given"):
        export("verl", states, {}, recipe(), out)
    with pytest.raises(UsageError, match=r"no start state could be exported: there was none"):
        export("verl", [], tasks, recipe(), out)
    long = state_of(tasks[states[0].task], program=Program.of(upto(2) + "# " + "x" * 5000))
    small = Recipe(episode=EpisodeConfig(prompt_chars=2000), reward=RewardConfig(parts=PARTS))
    assert export("verl", [states[0], long], tasks, small, out).skipped == {"the prompt does not fit prompt_chars": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(UsageError, match="exists already"):
        export("verl", states, tasks, recipe(), out)


def test_a_changed_or_missing_task_is_noticed(tmp_path):
    task = ramp_task(tmp_path / "task", 4)
    folder = export("verl", [state_of(task)], {task.name: task}, recipe(), tmp_path / "out").folder
    (task.folder / "tests.jsonl").write_text((task.folder / "tests.jsonl").read_text().replace("4", "5", 1))
    with pytest.raises(ConfigError, match="changed since the export was made"):
        Scorer(folder, pool="inline")
    task.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(TaskError, match="of this export cannot be loaded"):
        Scorer(folder, pool="inline")
    (folder / "coevo.json").write_text("{}")
    with pytest.raises(UsageError, match="no record of an export"):
        Scorer(folder, pool="inline")


def test_functions_of_ones_own_come_along(states, tasks, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def short(sample):\n    return -len(sample.text)\n")
    monkeypatch.chdir(tmp_path)
    folder = export("verl", states, tasks, recipe(**{"mine.py:short": 1.0}), tmp_path / "out").folder
    monkeypatch.chdir("/")
    with Scorer(folder, pool="inline") as scorer:
        assert scorer.score(records.state_text(states[0]), "abc").reward == -3
        assert scorer.record.functions
