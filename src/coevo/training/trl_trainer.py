"""Trainer `trl`: TRL's GRPOTrainer makes the updates; start states, episodes, judging, rewards, advantages, filters and evidence are ours.

For those who live in TRL: its optimizer, accelerate, vLLM and loggers do their part (`trl.options` of a recipe go to `GRPOConfig` as they are). `epochs` of
its optimizer steps are one of our steps, and a batch is collected by the very code of trainer `grpo`, so the same recipe gives the same first batch.

What TRL does that this file works around, by the version it was written for (1.16):

* A reward that raises ends the run, one that is not finite spoils its group, and a group's spread is judged by a rounded deviation. Nothing of
  that is left to TRL: it is handed final advantages per token, and rewards only to log.
* Groups cannot be dropped or replaced: the batch has a fixed size. Places of dropped groups and of unmeasured rollouts hold a row whose every
  token is masked.
* A step without signal would still move the weights by the optimizer's momentum: its gradients are taken away before the step.
* A gradient that is not finite would be applied: it is taken away, too.
* After a kill it would sample the steps since its checkpoint again: batches that were committed are read back instead.
* The learning rate of a checkpoint wins over the settings: the schedule here is a function of the step alone.

One process. To train over several, export the data and the reward (docs/training.md) and run TRL itself.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coevo.engines.types import LossStats, Row, StepStats
from coevo.errors import BudgetSpent, ConfigError, InfrastructureError, StoreError, UsageError
from coevo.evolution.interrupts import Interrupts
from coevo.training import sealed
from coevo.training.batch import Group, rows_at
from coevo.training.checkpoints import MARK, write_whole
from coevo.training.entropy import observe
from coevo.training.filters import FilterState
from coevo.training.grpo import IN_A_ROW, Asked, Loop
from coevo.training.history import past_of
from coevo.training.parts import Parts
from coevo.training.records import commit_batch, commit_update
from coevo.training.result import StoppedBy
from coevo.training.rewards import reward_of
from coevo.training.settings import Recipe
from coevo.training.trl_making import FOLDER, LOSSES, make_trainer
from coevo.training.trl_policy import TrlPolicy
from coevo.training.updates import Update, kl_for_ceiling, metrics_of

_BY_ROWS = ("grpo", "gspo", "dr_grpo")
"""Losses that are means over rows: there the masked rows count."""


def train_trl(parts: Parts) -> tuple[StoppedBy, str]:
    """Train in an opened run, new or resumed, until something ends it; the counterpart of `train_grpo`.

    Raises `UsageError` without TRL, `ConfigError` for what TRL cannot do, and what `train_grpo` raises.
    """
    if importlib.util.find_spec("trl") is None:
        raise UsageError("trainer 'trl' needs the package trl. Install it with: pip install 'coevo[trl]'")
    require_possible(parts.recipe)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(parts.run.path))
        loop = TrlLoop(parts, stack.enter_context(reward_of(parts.recipe.reward)), interrupts)
        return loop.run()


def require_possible(recipe: Recipe) -> None:
    """Refuse what TRL cannot do, before anything is loaded."""
    loss, where = recipe.loss, "trainer 'trl'"
    if loss.name not in LOSSES:
        raise ConfigError(
            f"{where} has no loss {loss.name!r}; it has {', '.join(sorted(LOSSES))}. Trainer 'grpo' has all"
        )
    if loss.kl and (loss.kl_estimator != "k3" or loss.reference != "base"):
        raise ConfigError(f"{where} measures KL from the base by estimator k3 only; use trainer 'grpo' for others")
    if recipe.engine.name != "torch":
        raise ConfigError(f"{where} trains in this process: engine.name must be 'torch', not {recipe.engine.name!r}")


@dataclass
class TrlLoop(Loop):
    """Our loop turned inside out: TRL asks for batches, and says what it did with them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        policy = self.parts.engine
        assert isinstance(policy, TrlPolicy), "sessions open trainer trl with its policy"
        self.policy = policy
        self.trainer: Any = None
        self.step_now, self.why = 0, ""
        self.rows: list[Row] = []
        self.advantages: list[list[float]] = []
        self.rewards: list[float] = []
        self.lr, self.applied = 0.0, True
        self.ended: tuple[StoppedBy, str] | None = None

    def run(self) -> tuple[StoppedBy, str]:
        """Let TRL train until something ends it."""
        self.parts.recall_policy_states()
        made = self.past.made
        if self.parts.restored == made:  # Else the weights are of an earlier step, and `told` comes by this one again.
            self.after(made)
        if (end := self.end()) is not None and (made == self.past.begin or self.parts.checkpoints.has(made)):
            return end
        self.trainer = make_trainer(self)
        self.policy.trainer = self.trainer
        newest = latest_checkpoint(self.parts.run.path / FOLDER, up_to=made * self.parts.recipe.epochs)
        try:
            with _plainly():
                self.trainer.train(resume_from_checkpoint=str(newest) if newest else None)
            end = self.ended or self.end() or (StoppedBy.STEPS, f"all {self.parts.recipe.steps} steps were made")
        except BudgetSpent as e:
            end = StoppedBy.BUDGET, str(e)
        except Asked:
            end = StoppedBy.INTERRUPTED, f"asked to stop by {self.interrupts.cause}"
        self._leave_both()
        return end

    # What TRL asks for

    def batch(self) -> dict[str, list[Any]]:
        """The next step's rows in the form that `rollout_func` gives: always as many as the batch has places."""
        recipe = self.parts.recipe
        step = self.trainer.state.global_step // recipe.epochs + 1
        self.step_now = step
        self.rows, self.why = self._rows_of(step)
        bonus = self._entropy_bonus(step)
        self.trainer.entropy_coef, self.trainer._entropy_bonus_enabled = bonus, bool(bonus)
        places = recipe.groups * recipe.group_size
        ends = min(self.policy.codec.ends, default=0)
        blank = Row((ends, ends), 1, (0.0,), (False,), (0.0,))
        shown = [*self.rows, *[blank] * (places - len(self.rows))]
        # Masked rows count in means over rows; the others' advantages make up for them.
        scale = places / len(self.rows) if self.rows and recipe.loss.name in _BY_ROWS else 1.0
        self.advantages = [[value * scale for value in row.advantages] for row in shown]
        self.rewards += [math.nan] * (places - len(self.rewards))
        return {
            "prompt_ids": [list(row.token_ids[: row.prompt_tokens]) for row in shown],
            "completion_ids": [list(row.token_ids[row.prompt_tokens :]) for row in shown],
            "logprobs": [list(row.logprobs) for row in shown],
            "env_mask": [[int(flag) for flag in row.trained] for row in shown],
        }

    def _rows_of(self, step: int) -> tuple[list[Row], str]:
        self.rewards = []
        if step <= self.past.batch:  # Committed before a kill: its update is repeated.
            return self.parts.committed_batch(step)
        self.refresh(step)
        batch, rows, tickets = self.collect(step)
        self.parts.last = commit_batch(self.parts, batch, rows, tickets)
        self.past = replace(self.past, batch=step, filter=FilterState.from_dict(batch.filter))
        self.watch_measuring(batch)
        if rows:
            self.rewards = [
                value if value is not None else math.nan for group in batch.groups for value in _rewards(group)
            ]
        return rows, batch.skipped

    def _entropy_bonus(self, step: int) -> float:
        """Coefficient of the entropy bonus at a step; where its update is repeated, the one it had."""
        if step > self.past.made:
            return self.parts.loss_at(step, self.past.entropy).entropy
        events = self.parts.run.events(kinds=("update",))
        return next((event.payload["coefficient"] for event in events if event.step == step), 0.0)

    # What TRL tells

    def before_optimizer(self) -> None:
        """Gradients that no weight may see are taken away; the learning rate is the step's."""
        import torch

        parameters = [p for group in self.trainer.optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        finite = all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
        self.applied = finite and not self.why
        if not self.applied:
            for parameter in parameters:
                parameter.grad = None
        self.lr = float(self.trainer.optimizer.param_groups[0]["lr"])

    def told(self, logs: Mapping[str, float]) -> bool:
        """TRL has made an optimizer step. Commit the update when it was the step's last; whether a checkpoint is due then."""
        recipe, step = self.parts.recipe, self.step_now
        if self.trainer.state.global_step % recipe.epochs:
            return False
        self.policy.made = self.trainer.state.global_step
        if step < self.past.made:  # Repeated, on the way to the last that was made.
            return step % recipe.checkpoint_every == 0
        if step > self.past.made:
            self._commit(step, logs)
        self.after(step)
        best = self.past.best
        self.ended = self.end()
        new_best = best is not None and best[0] == step
        return step % recipe.checkpoint_every == 0 or new_best or self.ended is not None

    def _commit(self, step: int, logs: Mapping[str, float]) -> None:
        entropy, result = self.past.entropy, Update.none(self.past.entropy, self.why)
        if not self.why:
            stats, made = stats_of(logs, self.rows, self.lr, self.trainer.state.global_step, self.applied)
            seen = stats.entropy
            entropy = observe(entropy, seen) if seen is not None and math.isfinite(seen) else entropy
            loss = self.parts.loss_at(step, self.past.entropy)
            passes = ((stats, made),) * self.parts.recipe.epochs
            metrics = metrics_of(passes) | {"lr": self.lr}
            if (far := kl_for_ceiling(self.parts, self.rows, loss)) is not None:
                metrics["kl"] = far
            why = "" if self.applied else "the gradient was not finite"
            result = Update(
                entropy,
                metrics,
                self.lr,
                loss.entropy,
                passes,
                loss,
                why,
                not self.applied,
            )
        row = commit_update(self.parts, step, result, {})
        self.parts.last = {**self.parts.last, **row}
        self.past = replace(self.past, made=step, entropy=entropy, kl=result.metrics.get("kl", self.past.kl))
        self.broken = self.broken + 1 if result.broken else 0
        if self.broken >= IN_A_ROW:
            raise InfrastructureError(
                f"the gradient was not finite {self.broken} steps in a row. The weights are those before them; begin again with a lower rate"
            )

    def saved(self) -> None:
        """TRL has left its checkpoint: leave ours, which others can use, beside it."""
        vouch(self.parts.run.path / FOLDER / f"checkpoint-{self.trainer.state.global_step}")
        self.past = past_of(self.parts.run)
        best = self.past.best
        self.parts.save(self.trainer.state.global_step // self.parts.recipe.epochs, best[0] if best else None)

    def save_when_due(self, step: int, new_best: bool) -> None:
        """Ours follow TRL's, so that there is never one of ours without the optimizer's state (see `saved`)."""

    def _leave_both(self) -> None:
        made = self.past.made
        if (
            made
            and not self.parts.checkpoints.has(made)
            and self.trainer.state.global_step == made * self.parts.recipe.epochs
        ):
            self.trainer._save_checkpoint(self.trainer.model, None)
            self.saved()


def _rewards(group: Group) -> list[float | None]:
    """Of the rollouts that `rows_of_group` makes rows of, where the group is trained on."""
    return [group.returns[i] for i in rows_at(group)] if group.kept else []


def stats_of(
    logs: Mapping[str, float], rows: Sequence[Row], lr: float, version: int, applied: bool
) -> tuple[LossStats, StepStats]:
    """Our figures from TRL's log of one step. It reports no gap between sampler and trainer, and no size of the update."""
    stats = LossStats(
        loss=float(logs.get("policy_loss") or logs.get("loss", math.nan)),
        tokens=sum(sum(row.trained) for row in rows),
        rows=len(rows),
        entropy=logs.get("entropy"),
        kl=logs.get("kl"),
        clipped_low=float(logs.get("clip_ratio/low_mean") or 0.0),
        clipped_high=float(logs.get("clip_ratio/high_mean") or logs.get("cispo_clip_ratio") or 0.0),
    )
    return stats, StepStats(version, lr, float(logs.get("grad_norm", math.nan)), None, applied)


@contextmanager
def _plainly() -> Iterator[None]:
    """Without the library's progress bars and notes on its own renamings."""
    from transformers.utils import logging as hf

    shown, level = hf.is_progress_bar_enabled(), hf.get_verbosity()
    hf.disable_progress_bar()
    hf.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        hf.set_verbosity(level)
        if shown:
            hf.enable_progress_bar()


def latest_checkpoint(folder: Path, *, up_to: int, note: Callable[[str], None] = lambda text: None) -> Path | None:
    """TRL's newest whole checkpoint of at most `up_to` optimizer steps. One of which a file is missing or was changed is passed over."""
    found = [path for path in folder.glob("checkpoint-*") if (path / MARK).is_file()]
    for path in sorted((path for path in found if steps_of(path) <= up_to), key=steps_of, reverse=True):
        try:
            sealed.require_files(path, sealed.read(path / MARK))
            return path
        except StoreError as e:
            note(f"TRL's {path.name} is passed over, and what came after the one before it is computed again: {e}")
    return None


def vouch(checkpoint: Path) -> None:
    """Note the digests of all files of one of TRL's checkpoints; from then on it counts. Raises `StoreError` where the disk refuses."""
    names = sorted(str(p.relative_to(checkpoint)) for p in checkpoint.rglob("*") if p.is_file() and p.name != MARK)
    try:
        write_whole(checkpoint / MARK, sealed.text({}, of=checkpoint, files=names))
    except OSError as e:
        raise StoreError(f"cannot write {checkpoint / MARK}: {e.strerror or e}") from e


def steps_of(checkpoint: Path) -> int:
    """Optimizer steps behind one of TRL's checkpoints."""
    return int(checkpoint.name.rpartition("-")[2])
