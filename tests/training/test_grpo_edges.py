"""What goes wrong around a training run: it is refused before anything is written, or recorded, and never takes a run along unsaid."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from safetensors.numpy import load_file

from coevo.config import parse
from coevo.episodes.types import Source, StartState
from coevo.errors import ConfigError, GateBlocked, InfrastructureError, TaskError, UsageError
from coevo.evolution.types import Attempt, Context, Edit
from coevo.runs import Run
from coevo.tasks import load_task, task_digest
from coevo.training.history import curve, past_of
from coevo.training.session import go_on, train
from coevo.training.settings import Recipe
from coevo.trajectories.folder import write_folder
from coevo.trajectories.rows import Trajectory
from tests.training.recipes import recipe
from tests.training.tiny_policy import write_task


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def told(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The curve, and the payloads of the batches."""
    with Run.open(path, write=False) as run:
        return list(curve(run)), [event.payload for event in run.events(kinds=("batch",))]


def own_reward(folder: Path, body: str) -> str:
    file = folder / "own.py"
    file.write_text(f"import time\n\ndef reward(sample):\n    {body}\n")
    return f"{file}:reward"


# Refused before anything is written


def refused(plan: Recipe, path: Path, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        train(plan, path)
    assert not path.exists()


def test_nothing_to_train_on_or_with(stage: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(recipe(stage, states={"tasks": []}), out, ConfigError, "nothing to train on|not one such state")
    refused(recipe(stage, states={"tasks": ["no_such_task"]}), out, TaskError, "no_such_task")
    refused(recipe(stage, base=str(tmp_path / "nowhere")), out, UsageError, "nowhere")
    refused(recipe(stage, base="mini"), out, UsageError, "coevo mini pretrain")
    refused(
        recipe(stage, states={"tasks": [str(stage.task)], "mix": {"search": 1}, "runs": ["none"]}),
        out,
        Exception,
        "none",
    )


def test_what_is_measured_must_not_train_under_any_name(stage: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    both = {"tasks": [str(stage.task)]}
    refused(recipe(stage, evaluate=both), out, ConfigError, r"'three' is in evaluate\.tasks and among those trained on")
    missing = {"mix": {"statement": 1}, "tasks": [str(stage.task)]}
    assert recipe(stage, states=missing, evaluate={"tasks": [str(stage.other)]})


def test_a_data_set_measured_by_another_judge_is_refused(stage: Any, tmp_path: Path) -> None:
    """Its programs' fitness would stand against that of replies by the judge of today."""
    task = load_task(write_task(tmp_path / "task" / "three", (4, 7, 2)))
    start = Attempt(task.start, fitness=0.5, correctness=0.5)
    state = StartState("s", "three", Context(start), Edit.REWRITE, Source.SYNTH)
    row = Trajectory(state, task_digest=task_digest(task), next=start)
    write_folder(tmp_path / "data", {"train": lambda: [row]}, facts=dict)
    mix = {"mix": {"synth": 1.0}, "trajectories": [str(tmp_path / "data")]}
    train(recipe(stage, steps=0, states={"tasks": [str(task.folder)], **mix}), tmp_path / "same")
    write_task(tmp_path / "task" / "three", (4, 7, 3))
    refused(
        recipe(stage, states={"tasks": [str(task.folder)], **mix}),
        tmp_path / "run",
        ConfigError,
        "measured on another task 'three'",
    )


def test_prompts_and_replies_must_fit_the_context(stage: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(recipe(stage, episode={"max_tokens": 600}), out, ConfigError, "max_tokens = 600 .*context is 512")
    refused(recipe(stage, episode={"max_tokens": 500}), out, ConfigError, "not one of 1 start states fits")


def test_what_the_engine_cannot_do(stage: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="groups"):
        parse(Recipe, {"groups": 0}, where="x")
    with pytest.raises(ConfigError, match="over group_size"):
        recipe(stage, advantage={"name": "best_of_k", "k": 9})
    with pytest.raises(ConfigError, match="group_size"):
        recipe(stage, group_size=1)


def test_a_reward_that_pays_cheats_is_refused_unless_allowed(stage: Any, tmp_path: Path) -> None:
    pays = own_reward(tmp_path, "return 5.0 if 'exit' in sample.source else 0.0")
    refused(recipe(stage, reward={"parts": {pays: 1.0}}), tmp_path / "run", GateBlocked, "pays for cheating")
    made = train(recipe(stage, steps=1, reward={"parts": {pays: 1.0}}, allow_cheats=True), tmp_path / "run")
    assert made.steps == 1


# Recorded


def test_equal_rewards_change_no_weights_and_say_so(stage: Any, tmp_path: Path) -> None:
    made = train(recipe(stage, reward={"parts": {"length": 1.0}}, episode={"max_tokens": 200}), tmp_path / "run")
    rows, batches = told(tmp_path / "run")
    assert [row["skipped"].partition(":")[0] for row in rows] == ["no signal", "no signal"]
    assert all(row["dead_groups"] == 1 and row["kept_groups"] == 0 for row in rows)
    assert batches[0]["reasons"] == {"group: no spread": 4}
    assert any("2 of 2 steps changed no weights" in note for note in made.notes)
    before, after = load_file(stage.policy / "model.safetensors"), load_file(made.last / "model.safetensors")  # type: ignore[operator]
    assert all((before[name] == after[name]).all() for name in before)


def test_dropped_groups_are_replaced_for_as_many_rounds_as_allowed(stage: Any, tmp_path: Path) -> None:
    plan = recipe(stage, steps=1, reward={"parts": {"length": 1.0}}, episode={"max_tokens": 200})
    for rounds in (0, 2):
        train(
            plan.model_copy(update={"filter": plan.filter.model_copy(update={"replace": rounds})}),
            tmp_path / str(rounds),
        )
        _, batches = told(tmp_path / str(rounds))
        assert len(batches[0]["groups"]) == 2 * (1 + rounds)
        assert [key for key, *_ in batches[0]["groups"]] == [f"1.{r}.{i}" for r in range(1 + rounds) for i in range(2)]


def test_a_reward_that_fails_masks_its_rollout_and_no_other(stage: Any, tmp_path: Path) -> None:
    body = "return {0: 1 / 0 if sample.fitness is None else sample.fitness, 1: float('nan')}[int(sample.fitness or 0)]"
    part = own_reward(tmp_path, body)
    plan = recipe(
        stage, steps=1, group_size=12, reward={"parts": {part: 1.0}}, allow_cheats=True, filter={"name": "none"}
    )
    train(plan, tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as run:
        evidence = list(run.rollouts(split="train"))
    masked = [row for row in evidence if row["reward"] is None]
    assert masked and len(masked) < len(evidence)
    assert all("ZeroDivisionError" in row["unmeasured_reason"] and not row["kept"] for row in masked)
    assert all(row["advantage"] is None for row in masked)
    rows, batches = told(tmp_path / "run")
    assert rows[0]["masked"] == pytest.approx(len(masked) / len(evidence))
    assert sum(n for why, n in batches[0]["reasons"].items() if why.startswith("reward:")) == len(masked)
    assert rows[0]["trained_rows"] == len(evidence) - len(masked)


def test_a_reward_that_hangs_costs_its_time_and_not_the_run(stage: Any, tmp_path: Path) -> None:
    part = own_reward(tmp_path, "time.sleep(60 if sample.fitness is None else 0)\n    return sample.fitness")
    settings = {"parts": {part: 1.0}, "timeout_s": 0.2}
    train(recipe(stage, steps=1, reward=settings, allow_cheats=True), tmp_path / "run")
    rows, batches = told(tmp_path / "run")
    assert 0 < rows[0]["masked"] < 1 and any("reward:" in why for why in batches[0]["reasons"])
    (tmp_path / "own.py").write_text("def reward(sample):\n    return 1.0\n")
    with pytest.raises(ConfigError, match=r"reward functions of run .* have changed"):
        go_on(tmp_path / "run")


def test_a_machine_that_cannot_measure_ends_the_run_and_says_why(stage: Any, tmp_path: Path) -> None:
    broken = write_task(tmp_path / "broken", (1, 2, 3))
    (broken / "task.yaml").write_text((broken / "task.yaml").read_text() + "checker: {name: custom}\n")
    (broken / "checker.py").write_text(
        "def check(output, expected, arguments):\n    raise RuntimeError('out of order')\n"
    )
    plan = recipe(stage, steps=9, states={"tasks": [str(broken)]})
    with pytest.raises(InfrastructureError, match=r"3 steps in a row could not be measured.*coevo doctor"):
        train(plan, tmp_path / "run")
    rows, batches = told(tmp_path / "run")
    assert len(rows) == 3 and all("could not be measured" in row["skipped"] for row in rows)
    assert all(why.startswith(("unmeasured:", "group:")) for why in batches[0]["reasons"])
    with Run.open(tmp_path / "run", write=False) as run:
        evidence = list(run.rollouts())
    assert all(row["reward"] is None and row["truth"] is None for row in evidence if row["unmeasured_reason"])


def out_of_order(folder: Path) -> Path:
    """A task whose programs run, and whose judge fails."""
    task = write_task(folder, (1, 2, 3))
    (task / "task.yaml").write_text((task / "task.yaml").read_text() + "checker: {name: custom}\n")
    (task / "checker.py").write_text(
        "def check(output, expected, arguments):\n    raise RuntimeError('out of order')\n"
    )
    return task


def test_the_share_that_cannot_be_measured_is_that_of_the_step_and_not_of_a_round(stage: Any, tmp_path: Path) -> None:
    broken = out_of_order(tmp_path / "broken")
    plan = recipe(stage, steps=4, unmeasured=0.7, states={"tasks": [str(stage.task), str(broken)]})
    train(plan, tmp_path / "run")
    rows, batches = told(tmp_path / "run")
    rounds = [[group[0] for group in batch["groups"]] for batch in batches]
    assert any(len(keys) == 3 for keys in rounds)
    assert not [row["skipped"] for row in rows if "could not be measured" in row["skipped"]]


def test_an_evaluation_that_measures_nothing_is_not_a_zero(stage: Any, tmp_path: Path) -> None:
    """Its judge fails on every program but the start."""
    held = write_task(tmp_path / "held", (1, 2, 3))
    (held / "task.yaml").write_text((held / "task.yaml").read_text() + "checker: {name: custom}\n")
    (held / "checker.py").write_text(
        "def check(output, expected, arguments):\n    if output != arguments[1]:\n        raise RuntimeError('out of order')\n    return False\n"
    )
    plan = recipe(stage, steps=2, evaluate={"tasks": [str(held)], "every": 1, "samples": 3, "patience": 1})
    result = train(plan, tmp_path / "run")
    with Run.open(tmp_path / "run", write=False) as run:
        found = [event.payload["metrics"] for event in run.events(kinds=("evaluated",))]
        past = past_of(run)
    assert result.steps == 2 and [row["tasks_measured"] for row in found] == [0, 0, 0]
    assert all("fitness" not in row for row in found)
    assert past.best is None and past.since_best == 0 and result.best is None


def test_an_evaluation_without_one_of_its_tasks_is_neither_best_nor_worse(stage: Any, tmp_path: Path) -> None:
    """The judge of one task fails from the second evaluation on, and the other task alone would score higher than both."""
    held, marker = write_task(tmp_path / "held", (11, 12, 13)), tmp_path / "out_of_order"
    (held / "task.yaml").write_text((held / "task.yaml").read_text() + "checker: {name: custom}\n")
    (held / "checker.py").write_text(
        f"import os\n\ndef check(output, expected, arguments):\n    if os.path.exists({str(marker)!r}):\n"
        "        raise RuntimeError('out of order')\n    return False\n"
    )
    evaluate = {"tasks": [str(held), str(stage.other)], "every": 1, "samples": 3, "patience": 1}
    made = train(recipe(stage, steps=3, evaluate=evaluate), tmp_path / "run", observer=lambda _: marker.touch())
    with Run.open(tmp_path / "run", write=False) as run:
        found = [event.payload["metrics"] for event in run.events(kinds=("evaluated",))]
        past = past_of(run)
    assert [row["tasks_measured"] for row in found] == [2, 1, 1, 1]
    assert found[1]["fitness"] > found[0]["fitness"]
    assert past.best is not None and past.best[0] == 0 and past.since_best == 0
    assert made.steps == 3 and made.best is None and made.metrics["eval_last"]["step"] == 0
    assert any("1 of 2 tasks could not be measured, 'held' first" in note for note in made.notes)


def test_a_loss_that_is_not_finite_leaves_the_weights_and_ends_the_run(stage: Any, tmp_path: Path) -> None:
    plan = recipe(stage, steps=9, advantage={"name": "group_zscore", "scale": 1e308}, checkpoint_every=1)
    with pytest.raises(InfrastructureError, match=r"not finite 3 steps in a row.*--branch-from"):
        train(plan, tmp_path / "run")
    rows, _ = told(tmp_path / "run")
    assert all("not finite" in row["skipped"] or row["skipped"].startswith("no signal") for row in rows)
    saved = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    before, after = load_file(stage.policy / "model.safetensors"), load_file(saved / "model.safetensors")
    assert all((before[name] == after[name]).all() for name in before)


def test_a_tokenizer_without_a_chat_template_trains_on_plain_prompts(stage: Any, tmp_path: Path) -> None:
    import json

    base = tmp_path / "plain"
    shutil.copytree(stage.policy, base)
    for name in ("engine.json", "chat_template.jinja"):
        (base / name).unlink(missing_ok=True)
    config = json.loads((base / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (base / "tokenizer_config.json").write_text(json.dumps(config))
    made = train(recipe(stage, steps=1, base=str(base)), tmp_path / "run")
    assert made.steps == 1
    with Run.open(tmp_path / "run", write=False) as run:
        prompt = next(iter(run.rollouts()))["prompt"]
    assert prompt.rstrip().endswith("Assistant:")


def test_an_observer_that_raises_is_dropped(stage: Any, tmp_path: Path) -> None:
    def observe(progress: Any) -> None:
        raise ValueError("my bug")

    with pytest.warns(UserWarning, match="progress is no longer shown: ValueError: my bug"):
        made = train(recipe(stage), tmp_path / "run", observer=observe)
    assert made.steps == 2


def test_weights_that_give_no_numbers_end_the_run_and_are_named(stage: Any, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    damaged = shutil.copytree(stage.policy, tmp_path / "damaged")
    (damaged / "engine.json").unlink()  # It vouches for the weights, so the change would be told.
    weights = dict(load_file(damaged / "model.safetensors"))
    name = next(name for name in weights if "norm" in name)
    save_file({**weights, name: weights[name] * float("nan")}, damaged / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InfrastructureError, match=r"damaged gives no numbers .*weights are damaged"):
        train(recipe(stage, base=str(damaged)), tmp_path / "run")


def test_a_policy_that_diverges_is_told_with_its_rate(stage: Any, tmp_path: Path) -> None:
    config = recipe(stage, steps=8, lr=1e9, optim={"max_grad_norm": None})
    with pytest.raises(
        InfrastructureError, match=r"after step \d+ the policy gives no numbers.*lr = 1e\+09.*--branch-from"
    ):
        train(config, tmp_path / "run")
    assert told(tmp_path / "run")[0], "the steps before it are kept"


def test_a_step_that_no_memory_holds_is_refused(stage: Any) -> None:
    with pytest.raises(ConfigError, match=r"groups = 1000000 x group_size = 6 are 6,000,000 rollouts a step.*limit"):
        recipe(stage, groups=1_000_000)
