"""A training run in a process of its own, which kills itself (SIGKILL: nothing is cleaned up) at a point named beforehand."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers.models.llama.modeling_llama  # noqa: F401 - here, so that processes forked from the server need not
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401

from coevo.config import parse
from coevo.runs import Run
from coevo.training import checkpoints, grpo, session
from coevo.training.evaluating import Evaluator
from coevo.training.settings import Recipe

SERVER = multiprocessing.get_context("forkserver")
"""Forks the processes that are to be killed, so that they need not import for seconds each. A package that is missing is passed over."""
SERVER.set_forkserver_preload([__name__, "trl.trainer.grpo_trainer", "trl.trainer.grpo_config"])

POINTS = (
    ("sampled", 1),
    ("batch half written", 2),
    ("batch committed", 3),
    ("updated, not committed", 4),
    ("update committed", 5),
    ("checkpoint without its mark", 6),
    ("evaluated, not committed", 8),
    ("own searches, not committed", 9),
)
"""Where to die, and at which step. In the order in which a run meets them."""


def run(config: dict[str, Any], weights: str, folder: str, point: str, step: int) -> None:
    """Begin or resume the run in `folder`; die at `point` of `step`, or bring it to its end."""
    torch.set_num_threads(1)
    if point:
        _plant(point, step)
    path = Path(folder)
    if (path / "run.db").exists():
        session.go_on(path)
    else:
        session.train(parse(Recipe, config, where="test"), path, weights=weights)


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _plant(point: str, step: int) -> None:
    match point:
        case "sampled":
            _before(grpo, "commit_batch", lambda parts, batch, *rest: batch.step == step)
        case "batch half written":
            _before(Run, "put_rollouts", lambda run, rows, **named: named["step"] == step)
        case "batch committed":
            _after(grpo, "commit_batch", lambda parts, batch, *rest: batch.step == step)
        case "updated, not committed":
            _before(grpo, "commit_update", lambda parts, at, *rest: at == step)
        case "update committed":
            _after(grpo, "commit_update", lambda parts, at, *rest: at == step)
        case "checkpoint without its mark":
            _before(checkpoints, "write_whole", lambda path, text: path.parent.name == checkpoints.name_of(step))
        case "evaluated, not committed":
            _before(Run, "put_rollouts", lambda run, rows, **named: named["step"] == step and _in(Evaluator.evaluate))
        case "own searches, not committed":
            _before(Run, "put_completion", lambda run, key, payload: key == f"states-{step}")
        case _:
            raise AssertionError(point)


def _in(function: Callable[..., Any]) -> bool:
    """Whether a function is on the stack."""
    import sys

    frame = sys._getframe()
    while frame is not None:
        if frame.f_code is function.__code__:
            return True
        frame = frame.f_back
    return False


def _before(owner: Any, name: str, here: Callable[..., bool]) -> None:
    real = getattr(owner, name)

    def planted(*args: Any, **named: Any) -> Any:
        if here(*args, **named):
            _die()
        return real(*args, **named)

    setattr(owner, name, planted)


def _after(owner: Any, name: str, here: Callable[..., bool]) -> None:
    real = getattr(owner, name)

    def planted(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        if here(*args, **named):
            _die()
        return found

    setattr(owner, name, planted)
