"""Everything one training run works with, opened, and the few things that several of its stages do."""

from __future__ import annotations

import hashlib
import math
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coevo.engines.types import Capabilities, Codec, Engine, LossConfig, Prompt, Row, Sampled
from coevo.episodes.known import Known
from coevo.errors import StoreError
from coevo.evaluation.pool import Pool
from coevo.runs import Run
from coevo.runs.jsontext import dumps
from coevo.tasks.types import Task
from coevo.training import effect
from coevo.training.branch import require_effect
from coevo.training.checkpoints import Checkpoints, model_card
from coevo.training.entropy import EntropyState, coefficient
from coevo.training.history import curve, evaluations
from coevo.training.purse import Purse
from coevo.training.records import stored_rows
from coevo.training.result import Observer, TrainProgress
from coevo.training.settings import Recipe
from coevo.training.sinks import Mirrors
from coevo.training.states import States
from coevo.training.updates import Update

if TYPE_CHECKING:
    from coevo.training.evaluating import Evaluator
    from coevo.training.onpolicy import Searches


@dataclass
class Parts:
    """One run, opened for training. `evaluator` and `searches` are None where the recipe wants none."""

    run: Run
    recipe: Recipe
    engine: Engine
    pool: Pool
    tasks: Mapping[str, Task]
    """All that the pool's workers can judge, by name."""
    states: States
    purse: Purse
    checkpoints: Checkpoints
    mirrors: Mirrors
    begin: int = 0
    """Steps behind the weights that the run began with."""
    branch: str = ""
    """Of evidence rows: what tells this run from its relatives."""
    parent: str = ""
    """RUN@CHECKPOINT, of a branch."""
    restored: int = 0
    """The step whose state the engine holds: of the last checkpoint, or `begin`."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Of a branch: what each changed field was before."""
    evaluator: Evaluator | None = None
    searches: Searches | None = None
    observer: Observer | None = None
    notes: list[str] = field(default_factory=list)
    known: Known = field(default_factory=Known)
    """What this process has judged so far, where that holds from step to step."""
    refreshed: set[int] = field(default_factory=set)
    """Steps before which the policy's own searches were made."""
    last: dict[str, Any] = field(default_factory=dict)
    """All figures of the step just made."""

    def note(self, text: str) -> None:
        """Something a person should know; part of the result, not of the run's events."""
        self.notes.append(text)

    # Losses

    @property
    def plain_loss(self) -> LossConfig:
        """The recipe's loss, with the constant that `dr_grpo` divides by filled in."""
        loss, episode = self.recipe.loss, self.recipe.episode
        if loss.length is None:
            turns = episode.rounds if episode.name == "refine" else 1
            loss = loss.model_copy(update={"length": turns * episode.max_tokens})
        return loss

    def loss_at(self, step: int, entropy: EntropyState) -> LossConfig:
        """As handed to the engine at a step: with an entropy floor, its coefficient takes the place of the constant one."""
        if self.recipe.entropy.floor is None:
            return self.plain_loss
        bonus = coefficient(self.recipe.entropy, entropy, step, self.recipe.steps)
        return self.plain_loss.model_copy(update={"entropy": bonus})

    # Proof

    def prove(self, step: int, result: Update, shown: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Hold a step against the recipe, by what its batch showed and its update shows."""
        seen = {**shown, **effect.of_update(result, rows)}
        require_effect(effect.expected(self.recipe, step, rows), seen, changed=self.changed)

    # Where a run stands

    def recall_policy_states(self) -> None:
        """Hand what earlier searches of the policy reached to the states."""
        from coevo.training.onpolicy import recalled

        for step, states in recalled(self.run):
            self.refreshed.add(step)
            self.states.refresh(states)

    def committed_batch(self, step: int) -> tuple[list[Row], str]:
        """Rows of a committed batch, or why it has none."""
        skipped = self._batch(step)["skipped"]
        return ([] if skipped else stored_rows(self.run, step)), skipped

    def shown_by(self, step: int) -> dict[str, Any]:
        """What a committed batch showed of its recipe."""
        return self._batch(step)["effective"]

    def _batch(self, step: int) -> dict[str, Any]:
        for event in self.run.events(kinds=("batch",)):
            if event.step == step:
                return event.payload
        raise StoreError(f"run {self.run.path} holds no batch of step {step}; it is damaged")

    # What it leaves, and says

    def save(self, step: int, best: int | None) -> None:
        """Leave a checkpoint of `step`, unless it is there."""
        if not self.checkpoints.has(step):
            self.checkpoints.save(step, card=self._card(step), about={"run": self.run.path.name}, best=best)

    def _card(self, step: int) -> str:
        recipe = self.recipe.model_dump(mode="json")
        rows = {row["step"]: row for row in curve(self.run)}
        judged = {row["step"]: row for row in evaluations(self.run)}
        metrics = {**rows.get(step, {}), **{f"eval_{k}": v for k, v in judged.get(step, {}).items()}}
        task = next(iter(self.tasks), "TASK")
        where = self.run.path / "checkpoints" / f"step-{step:06d}"
        return model_card(
            run=self.run.path.name,
            base=self.recipe.base,
            step=step,
            steps=self.recipe.steps,
            tasks=sorted(self.tasks),
            recipe=recipe,
            recipe_digest=digest_of(recipe),
            states=self.states.digest,
            metrics={name: value for name, value in metrics.items() if name != "step"},
            command=f"coevo evolve {shlex.quote(task)} --model {shlex.quote(f'local:{where}')}",
            parent=self.parent,
        )

    def tell(self, step: int, evaluation: Mapping[str, float] | None) -> None:
        """Mirror a step's metrics and show them; neither can fail the run."""
        row = self.last if self.last.get("step") == step else {}
        metrics = {k: float(v) for k, v in row.items() if isinstance(v, int | float) and math.isfinite(v)}
        judged = {f"eval_{name}": value for name, value in (evaluation or {}).items()}
        self.mirrors.log(step, {**metrics, **judged})
        if self.observer is None:
            return
        progress = TrainProgress(
            step, self.recipe.steps, metrics, row.get("skipped", ""), evaluation, self.run.ledger.spent()
        )
        try:
            self.observer(progress)
        except Exception as e:
            warnings.warn(f"progress is no longer shown: {type(e).__name__}: {e}", stacklevel=2)
            self.observer = None


def digest_of(value: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(dumps(value, canonical=True).encode()).hexdigest()


class Timed:
    """A policy whose sampling is timed: what is left of an episode's wall time was spent waiting for verdicts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._begun = time.monotonic()
        self._sampling = self._inside = 0.0
        self._tokens = 0

    @property
    def codec(self) -> Codec:
        return self._engine.codec

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    @property
    def version(self) -> int:
        return self._engine.version

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        begun = time.monotonic()
        found = self._engine.sample(prompts, each=each)
        self._sampling += time.monotonic() - begun
        self._tokens += sum(len(one.token_ids) for one in found)
        return found

    def within(self, work: Callable[[], Any]) -> Any:
        """Do something that samples and waits."""
        begun = time.monotonic()
        try:
            return work()
        finally:
            self._inside += time.monotonic() - begun

    def timing(self) -> dict[str, float]:
        """`sample_s`, `wait_s` (from the last token to the last verdict, prompts made included), `tokens_per_s` while sampling."""
        found = {"sample_s": self._sampling, "wait_s": max(0.0, self._inside - self._sampling)}
        if self._sampling:
            found["tokens_per_s"] = self._tokens / self._sampling
        return found
