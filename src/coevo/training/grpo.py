"""The inner loop: draw start states, act, judge, reward, compare, filter, learn, record. Engine-neutral.

A step is two transactions. The *batch* keeps every rollout as evidence and the rows as trained; the *update* keeps what the optimizer
did with them. Nothing else is remembered (`coevo.training.history` folds it back), so a run that was killed anywhere goes on by loading its
last checkpoint, repeating the updates of committed batches from their rows, and sampling on: same weights, same next batch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from coevo.engines.types import Diverged, Row
from coevo.episodes.running import run_episodes
from coevo.episodes.types import Rollout, Source, Start, StartState
from coevo.errors import BudgetSpent, InfrastructureError, ModelError
from coevo.evolution.interrupts import Interrupts
from coevo.runs.types import Ticket
from coevo.streams import stream_seed
from coevo.training import batch as batches
from coevo.training import effect
from coevo.training.batch import Batch, Group
from coevo.training.filters import FilterState, decide, replaceable
from coevo.training.history import Past, past_of
from coevo.training.parts import Parts, Timed
from coevo.training.records import commit_batch, commit_update, stored_rows
from coevo.training.result import StoppedBy
from coevo.training.rewards import Reward, reward_of
from coevo.training.updates import Update, repeat, update

IN_A_ROW = 3
"""Steps without a usable measurement, or without a finite gradient, one after another, that end a run with an error."""


def train_grpo(parts: Parts) -> tuple[StoppedBy, str]:
    """Train in an opened run, new or resumed, until something ends it; says what did, for the program and for a person.

    Raises `InfrastructureError` when the machine cannot measure or the gradient is not finite several steps in a row, `GateBlocked` when
    the recipe did not take effect, `ModelError` when the engine's server fails, `StoreError` when the run cannot be written. What was
    committed by then is kept.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(parts.run.path))
        loop = Loop(parts, stack.enter_context(reward_of(parts.recipe.reward)), interrupts)
        try:
            loop.catch_up()
            while (end := loop.end()) is None:
                loop.step()
        except BudgetSpent as e:
            end = StoppedBy.BUDGET, str(e)
        except Asked:
            end = StoppedBy.INTERRUPTED, f"asked to stop by {interrupts.cause}"
        except ModelError as e:
            raise ModelError(f"{e}. {_kept(loop)}") from e
        loop.leave_checkpoint()
        return end


def _kept(loop: Loop) -> str:
    return f"Every step up to {loop.past.made} is kept; `coevo resume {loop.parts.run.path}` goes on after it"


class Asked(Exception):
    """To stop, in the midst of something that is not a step yet."""


@dataclass
class Loop:
    parts: Parts
    reward: Reward
    interrupts: Interrupts

    def __post_init__(self) -> None:
        self.past: Past = past_of(self.parts.run)
        self.lost = self.broken = 0
        """Steps in a row, of this process, that could not be measured, and whose gradient was not finite."""
        self.proven = False
        """Whether a step of this process was held against the recipe."""

    # One step

    def step(self) -> None:
        """Make the next step, whole."""
        step, begun = self.past.made + 1, time.monotonic()
        self.refresh(step)
        batch, rows, tickets = self.collect(step)
        self.parts.last = commit_batch(self.parts, batch, rows, tickets)
        self.past = replace(self.past, batch=step, filter=FilterState.from_dict(batch.filter))
        self._learn(step, rows, batch.skipped, effect.of_batch(batch.groups), begun=begun)
        self.after(step)
        self.watch_measuring(batch)

    def collect(self, step: int) -> tuple[Batch, list[Row], list[Ticket]]:
        """Sample, judge, score and filter the groups of a step; dropped ones are replaced for as many rounds as the recipe allows."""
        recipe, begun = self.parts.recipe, time.monotonic()
        policy, tickets = Timed(self.parts.engine), []
        states = self.parts.states.draw(step, recipe.groups)
        open_places = list(range(len(states)))
        groups: list[Group] = []
        memory, skipped = self.past.filter, ""
        for round in range(1 + recipe.filter.replace):
            if round:
                states = [self.parts.states.redraw(step, round, i, _source(groups, i)) for i in open_places]
            try:
                tickets.append(self.parts.purse.reserve("train", states, samples=recipe.group_size, step=step))
            except BudgetSpent:
                if not round:
                    raise
                break
            new = self._groups(policy, step, round, list(zip(open_places, states, strict=True)))
            decision = decide(recipe.filter, memory, [group.returns for group in new])
            memory = decision.state
            new = batches.filtered(new, decision)
            groups += new
            if skipped := self._unmeasurable(groups):
                break
            open_places = [
                i
                for i, group in zip(open_places, new, strict=True)
                if not group.kept and replaceable(recipe.filter, group.returns)
            ]
            if not open_places:
                break
        rows = [] if skipped else [row for group in groups if group.kept for row in batches.rows_of_group(group)]
        if not skipped and not self._worth_training(step, rows):
            skipped, rows = _no_signal(groups), []
        timing = {**policy.timing(), "collect_s": time.monotonic() - begun}
        return Batch(step, tuple(groups), memory.to_dict(), skipped, timing), rows, tickets

    def _groups(self, policy: Timed, step: int, round: int, places: Sequence[tuple[int, StartState]]) -> list[Group]:
        recipe = self.parts.recipe
        keys = [f"{step}.{round}.{i}" for i, _ in places]
        starts = [
            Start(state, key, sample)
            for key, (_, state) in zip(keys, places, strict=True)
            for sample in range(recipe.group_size)
        ]
        parts, seed = self.parts, stream_seed(recipe.seed, "rollouts")
        try:
            rollouts: list[Rollout] = policy.within(
                lambda: run_episodes(
                    policy,
                    starts,
                    recipe.episode,
                    pool=parts.pool,
                    tasks=parts.tasks,
                    seed=seed,
                    step=step,
                    known=parts.known,
                )
            )
        except Diverged as e:
            raise InfrastructureError(self._diverged(step)) from e
        by_key: dict[str, list[Rollout]] = {key: [] for key in keys}
        for rollout in rollouts:
            by_key[rollout.group].append(rollout)
        return [batches.scored_group(key, by_key[key], self.reward, recipe, round=round) for key in keys]

    def _diverged(self, step: int) -> str:
        recipe = self.parts.recipe
        if step == self.past.begin + 1:
            return f"base {recipe.base} gives no numbers (NaN or infinite logits): its weights are damaged, or need another engine.dtype"
        return (
            f"after step {step - 1} the policy gives no numbers any more: it diverged (lr = {recipe.lr:g}). Go on from an earlier checkpoint "
            f"with a lower rate: `coevo train --branch-from {self.parts.run.path}@STEP --set lr={recipe.lr / 10:g}`"
        )

    def _unmeasurable(self, groups: Sequence[Group]) -> str:
        share = batches.unmeasured_share(groups)
        if share <= self.parts.recipe.unmeasured:
            return ""
        why = next((r for r in batches.reasons(groups) if r.startswith("unmeasured")), "unmeasured")
        return f"{share:.0%} of the rollouts could not be measured; most often: {why.removeprefix('unmeasured: ')}"

    def _worth_training(self, step: int, rows: Sequence[Row]) -> bool:
        loss = self.parts.loss_at(step, self.past.entropy)
        return bool(rows) and (batches.has_signal(rows) or loss.kl > 0 or loss.entropy > 0)

    def _learn(
        self, step: int, rows: list[Row], skipped: str, shown: Mapping[str, Any], *, begun: float | None = None
    ) -> None:
        """Update the weights with a committed batch, and commit that. `shown` is what the batch showed of its recipe."""
        result = (
            update(self.parts, step, rows, self.past.entropy)
            if not skipped
            else Update.none(self.past.entropy, skipped)
        )
        if not skipped and not self.proven:
            self.parts.prove(step, result, shown, rows)
            self.proven = True
        wall = {"wall_s": time.monotonic() - begun} if begun is not None else {}
        row = commit_update(self.parts, step, result, wall)
        self.parts.last = {**self.parts.last, **row} if begun is not None else row
        kl = result.metrics.get("kl", self.past.kl)
        self.past = replace(self.past, made=step, entropy=result.entropy, kl=kl)
        self.broken = self.broken + 1 if result.broken else 0 if not skipped else self.broken
        if self.broken >= IN_A_ROW:
            raise InfrastructureError(
                f"the gradient was not finite {self.broken} steps in a row ({result.skipped}). The weights are those before them. Go on "
                f"from an earlier checkpoint with a lower rate: `coevo train --branch-from {self.parts.run.path}@STEP --set lr=...`"
            )

    def watch_measuring(self, batch: Batch) -> None:
        unmeasured = bool(batch.skipped) and batches.unmeasured_share(batch.groups) > self.parts.recipe.unmeasured
        self.lost = self.lost + 1 if unmeasured else 0
        if self.lost >= IN_A_ROW:
            raise InfrastructureError(
                f"{self.lost} steps in a row could not be measured ({batch.skipped}). `coevo doctor` checks the sandbox; "
                f"`coevo resume {self.parts.run.path}` goes on"
            )

    # Around the steps

    def catch_up(self) -> None:
        """Bring the engine to where the run's events are, and do what was due there."""
        run, past = self.parts.run, self.past
        for event in run.events(kinds=("update",)):
            if (event.step or 0) > self.parts.restored and event.payload["passes"]:
                repeat(self.parts, event.step or 0, stored_rows(run, event.step or 0), event.payload)
        self.parts.recall_policy_states()
        if past.batch > past.made:
            rows, skipped = self.parts.committed_batch(past.batch)
            self._learn(past.batch, rows, skipped, self.parts.shown_by(past.batch))
        self.after(self.past.made)

    def refresh(self, step: int) -> None:
        """Let the policy search, where its states are due."""
        searches = self.parts.searches
        if searches is not None and searches.due(step) and not searches.refresh(step, self.interrupts.requested):
            raise Asked

    def after(self, step: int) -> None:
        """Evaluate and save, where that is due and not done yet; tell whoever watches."""
        evaluation = None
        if self.parts.evaluator is not None and self.parts.evaluator.due(step, self.past):
            evaluation = self.parts.evaluator.evaluate(step)
            self.past = past_of(self.parts.run)
        best = self.past.best
        self.save_when_due(step, evaluation is not None and best is not None and best[0] == step)
        if evaluation is not None or self.parts.last.get("step") == step:
            self.parts.tell(step, evaluation)

    def save_when_due(self, step: int, new_best: bool) -> None:
        """Leave a checkpoint at every so many steps, and of the best."""
        best = self.past.best
        if step > self.past.begin and (new_best or step % self.parts.recipe.checkpoint_every == 0):
            self.parts.save(step, best[0] if best else None)

    def leave_checkpoint(self) -> None:
        """Of the last step, whatever ended the run."""
        best = self.past.best
        if self.past.made > self.past.begin:
            self.parts.save(self.past.made, best[0] if best else None)

    def end(self) -> tuple[StoppedBy, str] | None:
        """Why there is no next step; None if there is one."""
        recipe, past = self.parts.recipe, self.past
        if past.made >= recipe.steps:
            return StoppedBy.STEPS, f"all {recipe.steps} steps were made"
        if recipe.max_kl is not None and past.kl is not None and past.kl > recipe.max_kl:
            return (
                StoppedBy.MAX_KL,
                f"the divergence from the reference is {past.kl:.4g}, over max_kl = {recipe.max_kl:g}",
            )
        patience = recipe.evaluate.patience
        if patience is not None and past.since_best >= patience:
            assert past.best is not None
            return StoppedBy.PATIENCE, f"{past.since_best} evaluations brought nothing better than step {past.best[0]}"
        if self.interrupts.requested():
            return StoppedBy.INTERRUPTED, f"asked to stop by {self.interrupts.cause}"
        return None


def _source(groups: Sequence[Group], place: int) -> Source:
    """Of the group that is replaced: the first of its place."""
    return next(group.state.source for group in groups if int(group.key.rpartition(".")[2]) == place)


def _no_signal(groups: Sequence[Group]) -> str:
    if not any(value is not None for group in groups for value in group.returns):
        return "no signal: not one rollout has a reward"
    return "no signal: in every group all rewards are equal, so there is nothing to prefer"
