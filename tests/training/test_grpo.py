"""Trainer `grpo` end to end: a real model, real tasks judged in the sandbox, a real run folder."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from safetensors.numpy import load_file

from coevo.episodes.types import Source
from coevo.errors import ConfigError, GateBlocked
from coevo.runs import Budget, Run, State
from coevo.training.history import curve, evaluations
from coevo.training.records import stored_rows
from coevo.training.result import StoppedBy, TrainProgress
from coevo.training.session import begin, branch, go_on, resume, train
from tests.training.recipes import OWN_SEARCHES, recipe


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


def rows(path: Path) -> list[dict[str, Any]]:
    with Run.open(path, write=False) as run:
        return list(curve(run))


def test_training_raises_the_truth_and_not_only_the_reward(stage: Any, tmp_path: Path) -> None:
    seen: list[TrainProgress] = []
    made = train(
        recipe(stage, steps=15, groups=4, group_size=16, pool="local:2"), tmp_path / "run", observer=seen.append
    )
    assert made.stopped_by is StoppedBy.STEPS and made.exit_code == 0 and made.steps == 15
    with Run.open(tmp_path / "run", write=False) as run:
        assert run.state() is State.FINISHED
        evidence = list(run.rollouts(split="train"))
    first = [row["truth"] for row in evidence if row["step"] <= 3]
    last = [row["truth"] for row in evidence if row["step"] > 12]
    # Welch's t over at least 192 rollouts a side: 6 is far beyond chance.
    error = (stdev(first) ** 2 / len(first) + stdev(last) ** 2 / len(last)) ** 0.5
    assert min(len(first), len(last)) >= 192
    assert (fmean(last) - fmean(first)) / error > 6, (fmean(first), fmean(last))
    assert [one.step for one in seen] == list(range(1, 16))
    assert all("truth" in one.metrics and one.metrics["gap_max"] < 1e-4 for one in seen)


def test_a_step_keeps_what_was_sampled_and_trains_on_exactly_that(stage: Any, tmp_path: Path) -> None:
    held = {"tasks": [str(stage.other)], "every": 1, "samples": 3}
    made = train(recipe(stage, evaluate=held), tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as run:
        evidence = [row for row in run.rollouts(split="train") if row["step"] == 1]
        kept = [row for row in evidence if row["kept"]]
        trained = stored_rows(run, 1)
        batch = next(event.payload for event in run.events(kinds=("batch",)))
        update = next(event.payload for event in run.events(kinds=("update",)))
        judged = list(evaluations(run))
        held_out = list(run.rollouts(split="eval"))
    assert len(trained) == len(kept)
    for row, told in zip(trained, kept, strict=True):
        assert sum(row.trained) == told["tokens"] == len(row.token_ids) - row.prompt_tokens
        assert set(row.advantages) == {told["advantage"]} and row.group == told["group"]
    by_group = {row.group: set() for row in trained}
    for row in trained:
        by_group[row.group].add(row.token_ids[: row.prompt_tokens])
    assert all(len(prompts) == 1 for prompts in by_group.values())
    assert update["metrics"]["trained_tokens"] == sum(sum(row.trained) for row in trained)
    assert update["effective"] | {"lr": 0.003, "epochs": 1, "loss.name": "dapo"} == update["effective"]
    assert batch["effective"] == {
        "groups": 2,
        "group_size": 6,
        "episode.temperature": 1.0,
        "reward.parts": ["absolute"],
    }
    rewards = [row["reward"] for row in evidence]
    assert batch["metrics"]["reward_mean"] == pytest.approx(fmean(rewards))
    assert batch["metrics"]["reward_mean_kept"] == pytest.approx(fmean(row["reward"] for row in kept))
    assert [row["step"] for row in judged] == [0, 1, 2]
    assert len(held_out) == 9 and all(row["task"] == "other" and row["reward"] is None for row in held_out)
    told = fmean(row["truth"] for row in held_out if row["step"] == 2)
    assert judged[-1]["truth"] == pytest.approx(told)
    card = (made.last / "README.md").read_text() if made.last else ""
    assert "base_model" in card and "reward_mean" in card and "coevo evolve" in card


def test_a_trained_policy_serves_the_search(stage: Any, tmp_path: Path) -> None:
    from coevo.models import open_model
    from coevo.models.types import Message

    made = train(recipe(stage, steps=1), tmp_path / "run")
    model = open_model(f"local:{made.last}")
    try:
        reply = model.generate([model.sampling.request([Message("user", "x")], seed=1, key="a")])[0]
        assert reply.completion_tokens > 0 and not reply.error
    finally:
        model.close()


def test_all_sources_of_states_and_several_rounds_in_an_episode(stage: Any, tmp_path: Path) -> None:
    from coevo.tasks import load_task
    from coevo.training.sources import states_of_run
    from coevo.trajectories.folder import write_states

    search = tmp_path / "search"
    _searched(stage, search)
    known = {"three": load_task(stage.task)}
    found = list(states_of_run(search, known))
    assert found and all(one.source is Source.SEARCH for one in found)
    write_states(tmp_path / "data", found, split="train")
    mixed = {
        "tasks": [str(stage.task)],
        **OWN_SEARCHES,
        "mix": {"statement": 1, "search": 1, "policy": 1},
        "runs": [str(search)],
        "trajectories": [str(tmp_path / "data")],
    }
    episode = {"name": "refine", "rounds": 2, "max_tokens": 40}
    made = train(recipe(stage, states=mixed, groups=3, episode=episode), tmp_path / "run")
    assert made.steps == 2
    with Run.open(tmp_path / "run", write=False) as run:
        evidence = list(run.rollouts(split="train"))
        own = [event.payload for event in run.events(kinds=("states",))]
    assert {row["edit_kind"] for row in evidence} == {"write", "rewrite"}
    assert max(row["turns"] for row in evidence) == 2
    assert len(own) == 1 and own[0]["count"] > 0


def _searched(stage: Any, path: Path) -> None:
    from coevo.evolution.session import Setup, begin
    from coevo.evolution.settings import SearchConfig
    from coevo.tasks import load_task

    task = load_task(stage.task)
    setup = Setup.of(task, search=SearchConfig(steps=6, batch=2, islands=1, verify=False), pool="inline")
    with begin(setup, Budget(), path, task=task) as session:
        session.go()


# Going on


def test_a_damaged_checkpoint_is_passed_over_and_the_run_ends_alike(stage: Any, tmp_path: Path) -> None:
    plan = recipe(stage, steps=5, checkpoint_every=2)
    whole = train(plan, tmp_path / "whole" / "run")
    part = tmp_path / "part" / "run"
    train(plan.model_copy(update={"steps": 4}), part)
    _lengthen(part, plan)
    file = part / "checkpoints" / "step-000004" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    again = go_on(part)
    assert any("step-000004 cannot be read" in note for note in again.notes), again.notes
    assert again.last and whole.last and same(weights(again.last), weights(whole.last))
    with Run.open(tmp_path / "whole" / "run", write=False) as a, Run.open(part, write=False) as b:
        assert a.digest() == b.digest()


def test_a_damaged_last_checkpoint_is_saved_again(stage: Any, tmp_path: Path) -> None:
    plan = recipe(stage, steps=2, checkpoint_every=1)
    last = train(plan, tmp_path / "run").last
    assert last is not None
    file = last / "model.safetensors"
    before = file.read_bytes()
    file.write_bytes(before[:1000])
    again = go_on(tmp_path / "run")
    assert again.last == last and file.read_bytes() == before
    assert any("step-000002 cannot be read" in note for note in again.notes), again.notes
    assert not go_on(tmp_path / "run").notes


def _lengthen(path: Path, plan: Any) -> None:
    """As if the run had been made with this recipe, and stopped early."""
    from coevo.runs.jsontext import dumps

    with Run.open(path, write=True) as run:
        config = {**run.config, "recipe": plan.model_dump(mode="json")}
        with run.transaction():
            run.connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (dumps(config),))
    (path / "run.yaml").unlink()


def test_a_full_disk_loses_no_step(stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coevo.engines.torch_engine import TorchEngine
    from coevo.errors import StoreError

    plan = recipe(stage, steps=3, checkpoint_every=2)
    whole = train(plan, tmp_path / "whole" / "run")

    def full(*_: Any, **__: Any) -> str:
        raise OSError(28, "No space left on device")

    path = tmp_path / "full" / "run"
    with monkeypatch.context() as patched:
        patched.setattr(TorchEngine, "save", full)
        with pytest.raises(StoreError, match=r"No space left.*Every step up to 2 is kept.*coevo resume"):
            train(plan, path)
    again = go_on(path)
    assert again.last and whole.last and same(weights(again.last), weights(whole.last))


def test_a_branch_without_changes_repeats_its_parent_and_one_with_changes_proves_them(
    stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from coevo.engines.torch_engine import TorchEngine

    parent = tmp_path / "parent"
    made = train(recipe(stage, steps=4, checkpoint_every=2), parent)
    with branch(parent, tmp_path / "same", checkpoint="2") as session:
        assert session.changed == []
        again = session.go()
    assert again.steps == 4 and again.last and made.last
    assert same(weights(again.last), weights(made.last))
    with branch(parent, tmp_path / "other", checkpoint="2", sets=["lr=1e-4", "group_size=4"]) as session:
        assert [str(one) for one in session.changed] == ["group_size: 6 -> 4", "lr: 0.003 -> 0.0001"]
        other = session.go()
    assert other.last and not same(weights(other.last), weights(made.last))
    told = rows(tmp_path / "other")
    assert [row["step"] for row in told] == [3, 4] and all(row["lr"] == pytest.approx(1e-4) for row in told)

    real = TorchEngine.optim_step

    def stale(self: Any, lr: float, config: Any) -> Any:
        return replace(real(self, 0.003, config))  # The optimizer's restored rate wins, as it does elsewhere.

    monkeypatch.setattr(TorchEngine, "optim_step", stale)
    trap = tmp_path / "trap"
    with (
        branch(parent, trap, checkpoint="2", sets=["lr=1e-4"]) as session,
        pytest.raises(GateBlocked, match=r"lr = 0\.0001 \(this branch changed it from 0\.003\) did not take effect"),
    ):
        session.go()
    assert rows(trap) == []


def test_a_branch_keeps_what_filter_floor_and_own_searches_remembered(stage: Any, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    plan = recipe(
        stage,
        steps=4,
        checkpoint_every=2,
        states={"tasks": [str(stage.task)], **OWN_SEARCHES, "refresh": 100},
        filter={"name": "ema_threshold"},
        entropy={"floor": 1.0},
    )
    made = train(plan, parent)
    with branch(parent, tmp_path / "same", checkpoint="step-000002") as session:
        again = session.go()
    with Run.open(parent, write=False) as a, Run.open(tmp_path / "same", write=False) as b:
        ours = [(e.step, e.payload["filter"]) for e in a.events(kinds=("batch",)) if (e.step or 0) > 2]
        theirs = [(e.step, e.payload["filter"]) for e in b.events(kinds=("batch",))]
        # A branch begins with fresh searches of its own policy; what the parent's had reached stays in its pool.
        assert [e.step for e in b.events(kinds=("states",))] == [1, 3]
        assert [step for step, _ in ours] == [step for step, _ in theirs]
        assert theirs[0][1]["rounds"] == ours[0][1]["rounds"]
    assert made.steps == again.steps == 4


def test_being_asked_to_stop_ends_the_step_and_resume_goes_on(stage: Any, tmp_path: Path) -> None:
    plan, path = recipe(stage, steps=4), tmp_path / "run"
    whole = train(plan, tmp_path / "whole")

    def ask(progress: TrainProgress) -> None:
        if progress.step == 2:
            (path / "stop").touch()

    made = train(plan, path, observer=ask)
    assert made.stopped_by is StoppedBy.INTERRUPTED and made.steps == 2 and made.exit_code == 0
    assert made.last and made.last.name == "step-000002"
    again = go_on(path)
    assert again.stopped_by is StoppedBy.STEPS and again.last and whole.last
    assert same(weights(again.last), weights(whole.last))


def test_a_spent_budget_stops_between_steps_and_a_larger_one_goes_on(stage: Any, tmp_path: Path) -> None:
    plan = recipe(stage, steps=3, filter={"name": "none", "replace": 0})
    made = train(plan, tmp_path / "run", budget=Budget(evaluations=30))
    assert made.stopped_by is StoppedBy.BUDGET and made.steps == 1 and made.exit_code == 0
    assert made.spent["evaluations"] <= 30
    none = train(plan, tmp_path / "none", budget=Budget(evaluations=10))
    assert none.steps == 0 and none.exit_code == 3
    again = go_on(tmp_path / "run", budget=Budget(evaluations=1000))
    assert again.steps == 3 and again.stopped_by is StoppedBy.STEPS
    short = train(plan, tmp_path / "tokens", budget=Budget(tokens=7000))
    assert short.stopped_by is StoppedBy.BUDGET and "tokens" in short.message


def test_kl_ceiling_and_patience_end_a_run_and_stay_ends(stage: Any, tmp_path: Path) -> None:
    held = {"tasks": [str(stage.other)], "every": 1, "samples": 1, "patience": 2}
    made = train(recipe(stage, steps=30, lr=1e-7, evaluate=held), tmp_path / "patience")
    assert made.stopped_by is StoppedBy.PATIENCE and made.steps < 30
    assert go_on(tmp_path / "patience").steps == made.steps
    far = train(recipe(stage, steps=30, max_kl=1e-5), tmp_path / "kl")
    assert far.stopped_by is StoppedBy.MAX_KL and 1 < far.steps < 30
    kl = [row["kl"] for row in rows(tmp_path / "kl") if "kl" in row]
    assert kl[0] < 1e-9 and kl[-1] > 1e-5  # The first step is sampled from the very weights it is measured against.
    with resume(tmp_path / "kl") as session:
        assert session.go().stopped_by is StoppedBy.MAX_KL


def test_other_data_under_a_run_is_refused(stage: Any, tmp_path: Path) -> None:
    from tests.training.tiny_policy import write_task

    task = write_task(tmp_path / "mine", (1, 1, 1))
    train(recipe(stage, steps=1, states={"tasks": [str(task)]}), tmp_path / "run")
    tests = task / "tests.jsonl"
    lines = [json.loads(line) for line in tests.read_text().splitlines()]
    lines[0]["expected"] = 99
    tests.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match=r"tasks of run .* have changed"):
        go_on(tmp_path / "run")


def test_preflight_says_what_a_step_costs(stage: Any, tmp_path: Path) -> None:
    with begin(recipe(stage), tmp_path / "run") as session:
        text = "\n".join(session.plan.lines())
    assert "12 rollouts" in text and "24 evaluations at most" in text and "MB" in text
