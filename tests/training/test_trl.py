"""Trainer `trl` and trainer `grpo`: one recipe, two optimizers' loops, the same place."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")
pytest.importorskip("trl", reason="trainer trl needs trl (extra trl)")

from safetensors.numpy import load_file

from coevo.errors import ConfigError
from coevo.runs import Run, State
from coevo.training.result import StoppedBy
from coevo.training.session import go_on, train
from tests.training.killed import SERVER
from tests.training.recipes import recipe

LOSSES: dict[str, dict[str, Any]] = {
    "dapo": {},
    "dropped groups, mean over rows": {"loss": {"name": "grpo"}, "filter": {"name": "zero_spread", "replace": 0}},
    "several passes, ratio by sequence": {"loss": {"name": "gspo", "clip_low": 1e-3, "clip_high": 1e-3}, "epochs": 2},
    "constant length, entropy": {"loss": {"name": "dr_grpo", "entropy": 0.01}, "schedule": "linear", "warmup": 2},
    "cispo and KL": {"loss": {"name": "cispo", "kl": 0.1}, "epochs": 2},
    "micro-batches": {"trl": {"micro_rows": 4}},
    "two rounds": {"episode": {"name": "refine", "rounds": 2, "max_tokens": 40}},
}


@pytest.mark.parametrize("case", LOSSES)
def test_both_trainers_reach_the_same_place(stage: Any, tmp_path: Path, case: str) -> None:
    found = {}
    for trainer in ("grpo", "trl"):
        result = train(recipe(stage, steps=3, trainer=trainer, **LOSSES[case]), tmp_path / trainer)
        assert result.steps == 3 and result.last is not None
        found[trainer] = load_file(result.last / "model.safetensors")
    with Run.open(tmp_path / "grpo", write=False) as ours, Run.open(tmp_path / "trl", write=False) as theirs:
        first = [[row for row in run.rollouts(split="train") if row["step"] == 1] for run in (ours, theirs)]
        for one, other in zip(*first, strict=True):
            assert all(one[name] == other[name] for name in ("response", "reward", "advantage", "kept"))
        assert theirs.state() is State.FINISHED
    base = load_file(stage.policy / "model.safetensors")
    moved = sum(float(((found["grpo"][key] - base[key]) ** 2).sum()) for key in base) ** 0.5
    apart = sum(float(((found["grpo"][key] - found["trl"][key]) ** 2).sum()) for key in base) ** 0.5
    # AdamW divides tiny gradients by their own size, so rounding shows; it stays small beside what was learnt.
    assert moved > 0 and apart < 0.05 * moved, (apart, moved)


@pytest.mark.parametrize("kl", [0.0, 1e-3])
def test_the_ceiling_of_the_divergence_holds_for_both_trainers(stage: Any, tmp_path: Path, kl: float) -> None:
    """Step 1 is sampled from the reference itself; what is learnt there shows in step 2."""
    for trainer in ("grpo", "trl"):
        made = train(recipe(stage, steps=4, trainer=trainer, max_kl=1e-6, loss={"kl": kl}), tmp_path / trainer)
        assert (made.stopped_by, made.steps) == (StoppedBy.MAX_KL, 2), (trainer, made.message)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in the processes that are killed: sums of floats depend on the number of threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _until_killed(config: Any, folder: Path, step: int, seam: str = "commit_batch") -> None:
    import torch

    from coevo.training import trl_trainer

    torch.set_num_threads(1)
    commit = getattr(trl_trainer, seam)

    def dying(parts: Any, what: Any, *rest: Any) -> Any:
        found = commit(parts, what, *rest)
        if (what if seam == "commit_update" else what.step) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(trl_trainer, seam, dying)
    go_on(folder) if (folder / "run.db").exists() else train(config, folder)


def test_a_killed_run_repeats_committed_batches_and_ends_with_the_same_weights(
    one_thread: None, stage: Any, tmp_path: Path
) -> None:
    config = recipe(stage, steps=6, trainer="trl", checkpoint_every=2, schedule="linear", trl={"micro_rows": 6})
    whole = train(config, tmp_path / "whole" / "run")
    for step in (1, 4):  # Before the first checkpoint, and after one.
        process = SERVER.Process(target=_until_killed, args=(config, tmp_path / "killed" / "run", step))
        process.start()
        process.join(600)
        assert process.exitcode == -signal.SIGKILL
    killed = go_on(tmp_path / "killed" / "run")
    assert killed.steps == 6 and whole.last is not None and killed.last is not None
    with (
        Run.open(tmp_path / "whole" / "run", write=False) as one,
        Run.open(tmp_path / "killed" / "run", write=False) as other,
    ):
        assert one.digest() == other.digest()
    a, b = (load_file(last / "model.safetensors") for last in (whole.last, killed.last))
    assert all((a[key] == b[key]).all() for key in a)


def test_what_was_left_when_an_update_was_the_last_thing_kept_is_made_up_for(
    one_thread: None, stage: Any, tmp_path: Path
) -> None:
    """Killed between an update and its evaluation and checkpoint, also after the last step, and then robbed of TRL's own checkpoints: evaluations
    and checkpoints are of the weights that they name."""
    config = recipe(
        stage,
        steps=5,
        trainer="trl",
        checkpoint_every=2,
        checkpoints=9,
        entropy={"floor": 2.0},
        evaluate={"tasks": [str(stage.other)], "every": 1, "samples": 2},
    )
    whole, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    train(config, whole)
    for step in (3, 5):
        process = SERVER.Process(target=_until_killed, args=(config, killed, step, "commit_update"))
        process.start()
        process.join(600)
        assert process.exitcode == -signal.SIGKILL
    shutil.rmtree(killed / "trl")
    assert go_on(killed).steps == 5
    with Run.open(whole, write=False) as one, Run.open(killed, write=False) as other:
        assert one.digest() == other.digest()
    for step in (2, 4, 5):
        a, b = (load_file(run / "checkpoints" / f"step-{step:06d}" / "model.safetensors") for run in (whole, killed))
        assert all((a[key] == b[key]).all() for key in a), step


def test_a_step_without_signal_leaves_the_weights_alone(stage: Any, tmp_path: Path) -> None:
    """Every reward is 0: no gradient, and no momentum either."""
    config = recipe(stage, steps=2, trainer="trl", reward={"parts": {"efficiency_only_if_correct": 1.0}})
    result = train(config, tmp_path / "run")
    base, last = load_file(stage.policy / "model.safetensors"), load_file(result.last / "model.safetensors")  # type: ignore[operator]
    assert result.steps == 2 and all((base[key] == last[key]).all() for key in base)
    assert result.metrics["skipped"] == 2


def test_a_gradient_that_is_not_finite_is_not_applied(stage: Any, tmp_path: Path) -> None:
    config = recipe(stage, steps=2, trainer="trl", advantage={"name": "raw", "scale": 1e38})
    result = train(config, tmp_path / "run")
    last = load_file(result.last / "model.safetensors")  # type: ignore[operator]
    import numpy as np

    assert all(np.isfinite(values).all() for values in last.values())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": {"name": "importance_sampling"}}, "no loss 'importance_sampling'"),
        ({"loss": {"kl": 0.1, "kl_estimator": "k1"}}, "estimator k3"),
        ({"engine": {"name": "tinker", "url": "http://localhost:1"}}, "engine.name must be 'torch'"),
        ({"trl": {"micro_rows": 5}}, "micro_rows = 5 does not divide"),
    ],
)
def test_what_trl_cannot_do_is_refused_by_name(stage: Any, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        train(recipe(stage, trainer="trl", **changes), tmp_path / "run")
