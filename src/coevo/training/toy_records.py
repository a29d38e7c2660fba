"""What trainer toy keeps of a step: rollouts and groups, their evidence rows, and a step's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coevo.episodes.evidence import SCHEMA
from coevo.evolution.types import Rejection
from coevo.training.advantages import is_dead
from coevo.training.toy_world import ACTIONS, State
from coevo.training.types import Sample, Scored

_TOKENS = {"pad": 400, "copy": 60, "junk": 20}
_USUAL_TOKENS = 80
_RIGHT = 0.999


@dataclass(frozen=True)
class Rollout:
    """One edit, measured."""

    state: State
    group: str
    sample: int
    action: int
    logprob: float
    hidden: float
    seen: Sample | None
    """None where the machine lost it."""


@dataclass(frozen=True)
class Group:
    state: State
    rollouts: tuple[Rollout, ...]
    scored: tuple[Scored | None, ...]
    advantages: tuple[float | None, ...]
    round: int
    kept: bool = True
    dropped: str = ""

    @property
    def rewards(self) -> list[float | None]:
        return [one.reward if one is not None else None for one in self.scored]


def evidence_of(run: str, step: int, group: Group, i: int, split: str) -> dict[str, Any]:
    """The evidence row, schema 1 (see `coevo.episodes.evidence`), of the i-th rollout of a group."""
    rollout, scored, advantage = group.rollouts[i], group.scored[i], group.advantages[i]
    seen, action = rollout.seen, ACTIONS[rollout.action]
    masked = scored.reason if scored is not None and scored.reward is None else ""
    return {
        "schema": SCHEMA,
        "run": run,
        "branch": "main",
        "step": step,
        "split": split,
        "task": rollout.state.name,
        "group": rollout.group,
        "sample": rollout.sample,
        "kind": "toy",
        "state_source": "toy",
        "prompt": f"symptom {rollout.state.symptom}, fitness {rollout.state.fitness:g}",
        "response": action,
        "reward": scored.reward if scored is not None else None,
        "truth": rollout.hidden if seen is not None else None,
        "parts": dict(scored.parts) if scored is not None else {},
        "contract_ok": seen.contract_ok if seen is not None else None,
        "copy": seen.rejection == Rejection.UNCHANGED if seen is not None else None,
        "meaning_ok": (seen.correctness or 0.0) >= _RIGHT if seen is not None else None,
        "tokens": tokens_of(action),
        "stop_reason": "stop",
        "turns": 1,
        "tool_calls": 0,
        "tool_errors": 0,
        "advantage": advantage,
        "logprob_mean": rollout.logprob,
        "entropy_mean": None,
        "kept": group.kept and advantage is not None if split == "train" else None,
        "unmeasured_reason": "the toy machine lost it" if seen is None else masked,
        "wall_s": 0.0,
        "cost_usd": 0.0,
        "parent_fitness": rollout.state.fitness,
        "fitness": seen.fitness if seen is not None else None,
        "correctness": seen.correctness if seen is not None else None,
        "efficiency": None,
        "edit_kind": "rewrite",
        "depth": 0,
        "program_hash": seen.program_hash if seen is not None else "",
    }


def tokens_of(action: str) -> int:
    """Length of the reply that an action stands for."""
    return _TOKENS.get(action, _USUAL_TOKENS)


def figures_of(groups: Sequence[Group]) -> dict[str, float]:
    """A step's metrics, by the names that trainer grpo uses."""
    rollouts = [r for group in groups for r in group.rollouts]
    seen = [(r, r.seen) for r in rollouts if r.seen is not None]
    fitness = [s.parent_fitness if s.rejection == Rejection.UNCHANGED else s.fitness or 0.0 for _, s in seen]
    gains = [f - s.parent_fitness for f, (_, s) in zip(fitness, seen, strict=True)]
    actions = [ACTIONS[r.action] for r in rollouts]
    means: dict[str, Sequence[float]] = {
        "reward_mean": [x for g in groups for x in g.rewards if x is not None],
        "reward_mean_kept": [x for g in groups if g.kept for x in g.rewards if x is not None],
        "fitness": fitness,
        "gain": gains,
        "improving": [gain > 0 for gain in gains],
        "truth": [r.hidden for r, _ in seen],
        "true_gain": [r.hidden - r.state.fitness for r, _ in seen],
        "contract_ok": [s.contract_ok or s.rejection == Rejection.UNCHANGED for _, s in seen],
        "copy_rate": [action == "copy" for action in actions],
        "hack_rate": [action == "hack" for action in actions],
        "pad_rate": [action == "pad" for action in actions],
        "distinct_children": [len({r.seen.program_hash for r in g.rollouts if r.seen} - {""}) for g in groups],
        "dead_groups": [is_dead([x for x in g.rewards if x is not None]) for g in groups],
        "kept_groups": [group.kept for group in groups],
        "unmeasured": [r.seen is None for r in rollouts],
        "masked": [one is not None and one.reward is None for g in groups for one in g.scored],
        "length": [tokens_of(action) for action in actions],
    }
    found = {name: mean(values) for name, values in means.items() if values}
    return {**found, "groups": len(groups), "rollouts": len(rollouts)}


def mean(values: Sequence[float]) -> float:
    """0 for no values."""
    return math.fsum(values) / len(values) if values else 0.0
