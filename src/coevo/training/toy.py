"""Trainer `toy`: a softmax policy over program edits, with a true ability that is known exactly. Seconds a run, numpy alone.

It takes the same recipe as the others (rewards, advantages, filter, losses, entropy floor, schedule), writes the same events and evidence rows, and goes
on where it was stopped. What it is for: demos, and testing whatever judges training from the outside. Faults can be planted (`ToyConfig`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coevo.errors import BudgetSpent, ConfigError, InfrastructureError, StoreError
from coevo.evolution.interrupts import Interrupts
from coevo.runs import Run
from coevo.runs.types import State as RunState
from coevo.runs.types import Ticket
from coevo.streams import array_stream
from coevo.training.advantages import advantages
from coevo.training.entropy import EntropyState, coefficient, observe
from coevo.training.filters import FilterState, decide, replaceable
from coevo.training.grpo import IN_A_ROW
from coevo.training.history import Past, past_of
from coevo.training.result import Observer, StoppedBy, TrainProgress, TrainResult
from coevo.training.rewards import Reward, reward_of
from coevo.training.schedule import lr_at
from coevo.training.settings import Recipe
from coevo.training.sinks import Mirrors
from coevo.training.toy_edits import Edits
from coevo.training.toy_policy import Choices, entropy_of, kl_of, step_of
from coevo.training.toy_records import Group, evidence_of, figures_of, mean
from coevo.training.toy_world import ACTIONS, FEATURES, STATES, World, log_policy
from coevo.training.types import Scored

POLICY = "policy.json"
"""In a run's artifacts: the weights at the end."""


def train_toy(recipe: Recipe, run: Run, *, observer: Observer | None = None) -> TrainResult:
    """Train in a run that is open for writing, new or stopped, until its steps or its budget end, or something asks to stop.

    Deterministic by the recipe alone. Raises `ConfigError` for what the toy cannot do.
    """
    _require_possible(recipe)
    mirrors = Mirrors(recipe.sinks, run.path, recipe.model_dump(mode="json"))
    try:
        with reward_of(recipe.reward) as reward, Interrupts(run.path) as interrupts:
            loop = _Loop(recipe, run, reward, mirrors, observer)
            stopped_by, message = loop.go(interrupts)
    finally:
        mirrors.close()
    run.mark(RunState.FINISHED if stopped_by.reached else RunState.STOPPED, by=message)
    return loop.result(stopped_by, message, mirrors.notes)


def start_of(run: Run) -> np.ndarray:
    """The policy that a toy run began with, (FEATURES, actions): zeros, or what its config's `weights` names (a file that `write_weights`
    wrote; a path is counted from the run's folder)."""
    name = run.config.get("weights")
    if not name:
        return np.zeros((FEATURES, len(ACTIONS)))
    path = run.path / name
    try:
        found = np.array(json.loads(path.read_text(encoding="utf-8"))["weights"], dtype=np.float64)
    except (OSError, ValueError, TypeError, LookupError) as e:
        raise StoreError(f"cannot read the toy weights {path}: {e}") from e
    if found.shape != (FEATURES, len(ACTIONS)) or not np.isfinite(found).all():
        raise StoreError(f"the toy weights {path} are not {FEATURES} x {len(ACTIONS)} finite numbers")
    return found


def write_weights(path: Path, weights: np.ndarray) -> None:
    """The file that a toy run can begin with."""
    text = json.dumps({"features": FEATURES, "actions": ACTIONS, "weights": weights.tolist()}, indent=1)
    path.write_text(text, encoding="utf-8")


def weights_of(run: Run, step: int | None = None) -> np.ndarray:
    """The policy of a toy run after a step (default: the last one made), (FEATURES, actions); before the first, what it began with."""
    found = start_of(run)
    for event in run.events(kinds=("update",)):
        if step is None or (event.step or 0) <= step:
            found = np.array(event.payload["weights"])
    return found


def true_ability(recipe: Recipe, weights: np.ndarray, k: int = 1) -> float:
    """Expected true gain in fitness of a search that keeps the best of `k` edits by this policy; exact. No recipe's faults change it."""
    return World(recipe.toy.leak).ability(np.exp(log_policy(weights, STATES)), k)


class _Loop:
    def __init__(self, recipe: Recipe, run: Run, reward: Reward, mirrors: Mirrors, observer: Observer | None) -> None:
        self.recipe, self.run, self.reward, self.mirrors, self.observer = recipe, run, reward, mirrors, observer
        self.edits = Edits(recipe)
        self.past: Past = past_of(run)
        self.begin, self.weights = start_of(run), weights_of(run)
        self.notes: list[str] = []
        self.lost = 0
        """Steps in a row, of this process, that could not be measured."""

    def go(self, interrupts: Interrupts) -> tuple[StoppedBy, str]:
        try:
            while (end := self._end(interrupts)) is None:
                self._step(self.past.made + 1)
        except BudgetSpent as e:
            end = StoppedBy.BUDGET, str(e)
        write_weights(self.run.artifacts / POLICY, self.weights)
        return end

    def result(self, stopped_by: StoppedBy, message: str, notes: Sequence[str]) -> TrainResult:
        from coevo.training.history import summary

        first, last = self.begin, self.weights
        known = {
            f"ability{'' if k == 1 else f'_{k}'}_{name}": true_ability(self.recipe, weights, k)
            for k in (1, 8)
            for name, weights in (("first", first), ("last", last))
        }
        metrics = {**summary(self.run), **known, "ability_best": self.edits.world.best_ability}
        return TrainResult(
            steps=self.past.made,
            stopped_by=stopped_by,
            message=message,
            metrics=metrics,
            spent=self.run.ledger.spent(),
            notes=(*self.notes, *notes),
        )

    def _end(self, interrupts: Interrupts) -> tuple[StoppedBy, str] | None:
        recipe, past = self.recipe, self.past
        if past.made >= recipe.steps:
            return StoppedBy.STEPS, f"all {recipe.steps} steps were made"
        if recipe.max_kl is not None and past.kl is not None and past.kl > recipe.max_kl:
            return StoppedBy.MAX_KL, f"the divergence from the start is {past.kl:.4g}, over max_kl = {recipe.max_kl:g}"
        if recipe.evaluate.patience is not None and past.since_best >= recipe.evaluate.patience:
            return StoppedBy.PATIENCE, f"{past.since_best} evaluations brought nothing better"
        if interrupts.requested():
            return StoppedBy.INTERRUPTED, f"asked to stop by {interrupts.cause}"
        return None

    # One step

    def _step(self, step: int) -> None:
        groups, memory, tickets = self._collect(step)
        chosen = _choices(groups)
        figures = figures_of(groups)
        lost = self._unmeasurable(groups)
        weights, entropy, update = self._learn(step, chosen, lost)
        with self.run.transaction():
            batch = {
                "skipped": update["skipped"],
                "groups": [[g.rollouts[0].group, g.state.name, g.kept, g.dropped] for g in groups],
                "metrics": figures,
                "filter": memory.to_dict(),
            }
            self.run.append("batch", batch, step=step)
            self.run.put_rollouts(
                (evidence_of(self.run.path.name, step, g, i, "train") for g in groups for i in range(len(g.rollouts))),
                step=step,
            )
            for round, ticket in enumerate(tickets):
                some = sum(len(g.rollouts) for g in groups if g.round == round)
                self.run.ledger.settle(ticket, evaluations=some)
            self.run.append("update", update, step=step)
            self.weights = weights
            self.past = replace(
                self.past, made=step, batch=step, filter=memory, entropy=entropy, kl=update["metrics"]["kl"]
            )
            evaluation = self._evaluate(step) if step % self.recipe.evaluate.every == 0 else None
        if evaluation is not None:
            self.past = past_of(self.run)
        self._tell(step, {**figures, **update["metrics"]}, update["skipped"], evaluation)
        self.lost = self.lost + 1 if lost else 0
        if self.lost >= IN_A_ROW:
            raise InfrastructureError(
                f"{self.lost} steps in a row could not be measured ({lost}). Lower toy.unmeasured, or raise unmeasured"
            )

    def _unmeasurable(self, groups: Sequence[Group]) -> str:
        """Why a step says too little to learn from; empty where it says enough."""
        share = mean([rollout.seen is None for group in groups for rollout in group.rollouts])
        return f"{share:.0%} of the rollouts could not be measured" if share > self.recipe.unmeasured else ""

    def _collect(self, step: int) -> tuple[list[Group], FilterState, list[Ticket]]:
        """Sample, measure, score and filter the groups of a step; dead ones are drawn again for as many rounds as the recipe allows."""
        recipe, memory = self.recipe, self.past.filter
        places, groups, tickets = list(range(recipe.groups)), [], []
        for round in range(1 + recipe.filter.replace):
            try:
                tickets.append(self.run.ledger.reserve("train", step=step, evaluations=len(places) * recipe.group_size))
            except BudgetSpent:
                if not round:
                    raise
                break
            new = [self._group(step, round, place) for place in places]
            decision = decide(recipe.filter, memory, [group.rewards for group in new])
            memory = decision.state
            verdicts = zip(new, decision.kept, decision.reasons, strict=True)
            new = [replace(group, kept=kept, dropped=reason) for group, kept, reason in verdicts]
            groups += new
            places = [
                place
                for place, group in zip(places, new, strict=True)
                if not group.kept and replaceable(recipe.filter, group.rewards)
            ]
            if not places:
                break
        return groups, memory, tickets

    def _group(self, step: int, round: int, place: int) -> Group:
        rng = array_stream(self.recipe.seed, "toy", step, round, place)
        state = STATES[int(rng.integers(len(STATES)))]
        rollouts = self.edits.rollouts(self.weights, rng, state, f"{step}.{round}.{place}", self.recipe.group_size)
        known = [i for i, rollout in enumerate(rollouts) if rollout.seen is not None]
        scored: list[Scored | None] = [None] * len(rollouts)
        for i, one in zip(known, self.reward([r.seen for r in rollouts if r.seen is not None]), strict=True):
            scored[i] = self.edits.with_bonus(one, ACTIONS[rollouts[i].action])
        rewards = [[one.reward if one is not None else None] for one in scored]
        found = [row[0] for row in advantages(rewards, self.recipe.advantage)]
        return Group(state, rollouts, tuple(scored), tuple(found), round)

    def _learn(self, step: int, chosen: Choices, lost: str) -> tuple[np.ndarray, EntropyState, dict[str, Any]]:
        recipe, past = self.recipe, self.past
        bonus = coefficient(recipe.entropy, past.entropy, step, recipe.steps)
        loss = recipe.loss.model_copy(update={"entropy": bonus}) if recipe.entropy.floor is not None else recipe.loss
        idle = not loss.kl and not loss.entropy
        quiet = idle and not np.any(chosen.advantages)
        skipped = lost or ("no signal: in every group all rewards are equal" if quiet else "")
        lr, weights = lr_at(recipe, step), self.weights
        entropy = entropy_of(weights, recipe.episode.temperature)
        metrics: dict[str, float] = {"entropy": entropy}
        if not skipped:
            for _ in range(recipe.epochs):
                weights, metrics["grad_norm"] = step_of(weights, chosen, loss, recipe, lr * recipe.toy.lr_scale)
        if not np.isfinite(weights).all():
            weights, skipped = self.weights, "the weights would not be finite; they are left as they were"
        metrics["kl"] = kl_of(weights, np.zeros_like(weights))
        metrics["ability"] = true_ability(recipe, weights)
        metrics["ability_8"] = true_ability(recipe, weights, 8)
        memory = observe(past.entropy, entropy)
        payload = {
            "skipped": skipped,
            "version": step,
            "lr": lr,
            "coefficient": loss.entropy,
            "metrics": metrics,
            "entropy": memory.to_dict(),
            "weights": weights.tolist(),
        }
        return weights, memory, payload

    def _evaluate(self, step: int) -> dict[str, float]:
        """Fresh rollouts from every state, as evidence of split "eval"; inside the step's transaction."""
        rows, hidden, public = [], [], []
        for state in STATES:
            rng = array_stream(self.recipe.seed, "toy-eval", step, state.index)
            rollouts = self.edits.rollouts(
                self.weights, rng, state, f"eval-{step}.{state.index}", self.recipe.evaluate.samples
            )
            group = Group(state, rollouts, (None,) * len(rollouts), (None,) * len(rollouts), 0)
            rows += [evidence_of(self.run.path.name, step, group, i, "eval") for i in range(len(rollouts))]
            hidden += [max(r.hidden, state.fitness) for r in rollouts if r.seen is not None]
            public += [max(r.seen.fitness or 0.0, r.seen.parent_fitness) for r in rollouts if r.seen is not None]
        found = {"ability": true_ability(self.recipe, self.weights)}
        if public:
            found |= {"fitness": mean(public), "truth": mean(hidden)}
        self.run.put_rollouts(rows, step=step)
        self.run.append("evaluated", {"metrics": found}, step=step)
        return found

    def _tell(
        self, step: int, metrics: Mapping[str, float], skipped: str, evaluation: Mapping[str, float] | None
    ) -> None:
        self.mirrors.log(step, metrics)
        if self.observer is None:
            return
        progress = TrainProgress(step, self.recipe.steps, metrics, skipped, evaluation, self.run.ledger.spent())
        try:
            self.observer(progress)
        except Exception as e:
            self.observer = None
            self.notes.append(f"the observer raised {type(e).__name__}: {e} at step {step} and was dropped")


def _require_possible(recipe: Recipe) -> None:
    if recipe.episode.name != "one_shot":
        raise ConfigError(f"trainer toy has one-shot episodes only, not episode.name = {recipe.episode.name!r}")


def _choices(groups: Sequence[Group]) -> Choices:
    """What is trained on: kept groups, rollouts with an advantage."""
    rows = [
        (rollout.state, rollout.action, rollout.logprob, advantage)
        for group in groups
        if group.kept
        for rollout, advantage in zip(group.rollouts, group.advantages, strict=True)
        if advantage is not None
    ]
    return Choices(
        tuple(row[0] for row in rows),
        np.array([row[1] for row in rows], dtype=int),
        np.array([row[2] for row in rows], dtype=float),
        np.array([row[3] for row in rows], dtype=float),
    )


__all__ = ["POLICY", "start_of", "train_toy", "true_ability", "weights_of", "write_weights"]
