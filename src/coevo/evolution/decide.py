"""What a step will do, as a pure function of the committed state, the config and the step's own random stream."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevo.evolution.archive import Island
from coevo.evolution.records import Decision
from coevo.evolution.schedule import asks_model
from coevo.evolution.selection import inspire, partner, select
from coevo.evolution.settings import MODEL_EDITS
from coevo.evolution.state import State
from coevo.evolution.strategies import default_weights
from coevo.evolution.tuner import MAX_CONSTANTS
from coevo.evolution.types import Edit
from coevo.streams import stream

FRESH = 0.2
"""Share of `tune` steps that go to the parent drawn rather than to the optimiser that is doing best."""

_TWO_PARENTS = frozenset({Edit.CROSSOVER, Edit.SPLICE})


@dataclass(frozen=True)
class Parent:
    id: str
    skeleton: str = ""
    constants: int = 0
    """0 also where they are not known."""


def weights_of(state: State, models: Mapping[str, float]) -> dict[str, float]:
    """Weight per proposer: the config's, else the strategy's defaults; model proposers only where there is a model."""
    given = state.config.proposers
    found = dict(given) if given is not None else default_weights(state.strategy, models=bool(models))
    return {name: weight for name, weight in found.items() if weight > 0 and (models or Edit(name) not in MODEL_EDITS)}


def in_lane(state: State, step: int, weights: Mapping[str, float]) -> Mapping[str, float]:
    """The weights of those who may take this step: with a fixed share for models, either models or operators."""
    share = state.config.model_share
    sides: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for name, weight in weights.items():
        sides[Edit(name) in MODEL_EDITS][name] = weight
    if share is None or not all(sides.values()):
        return weights
    return sides[asks_model(step, state.config.seed, share, state.config.ahead)]


def decide(state: State, step: int, models: Mapping[str, float]) -> Decision:
    """The decision of `step`. `models` gives each model's weight by name; empty without models."""
    archive, config = state.archive, state.config
    island = archive.islands[step % len(archive.islands)]
    if step == 0:
        return Decision(step, Edit.START, 0)
    rng = stream(config.seed, "decide", step)
    parent = _parent(state, island, rng)
    weights = _possible(in_lane(state, step, weights_of(state, models)), state, island, parent)
    edit = Edit(state.bandit.draw(rng, weights, learn=config.bandit))
    if edit is Edit.TUNE and parent.constants:
        return _tune(state, step, island, parent, rng)
    model = ""
    if edit in MODEL_EDITS:
        names = sorted(models)
        model = rng.choices(names, [models[name] for name in names])[0]
        if state.strategy.parent == "select" and island.failures and rng.random() < config.repair:
            parent = Parent(rng.choice(list(island.failures)))
    return Decision(
        step,
        edit,
        island.index,
        parent.id,
        others=_others(state, island, parent.id, edit, rng),
        history=history_of(state, island, parent.id) if edit in MODEL_EDITS else (),
        model=model,
        rejected=state.rejected.get(parent.id, "") if edit in MODEL_EDITS and state.strategy.history else "",
        at=state.commits,
    )


def _tune(state: State, step: int, island: Island, parent: Parent, rng: random.Random) -> Decision:
    """Go on with the island's best running optimiser, or (with chance `FRESH`) with that of the parent drawn."""
    running = state.tuner.focus(island.index) if rng.random() >= FRESH else None
    skeleton, size = running or (parent.skeleton, parent.constants)
    asked = state.tuner.ask((island.index, skeleton), parent.id, size, step)
    return Decision(
        step,
        Edit.TUNE,
        island.index,
        asked.founder,
        offsets=asked.offsets,
        generation=asked.generation,
        skeleton=skeleton,
        at=state.commits,
    )


def _parent(state: State, island: Island, rng: random.Random) -> Parent:
    rule, archive = state.strategy.parent, state.archive
    if rule == "select" and island.ranked:
        member = select(island, rng, state.config.selection)
        return Parent(member.id, member.skeleton, member.constants)
    if rule == "best" and archive.best is not None:
        return Parent(archive.best.id, archive.best.skeleton, archive.best.constants)
    by_rule = {"latest": state.latest, "climber": state.climber}.get(rule)
    chosen = by_rule or archive.start
    if chosen is None:
        raise ValueError("the start program was not measured, so there is nothing to begin from")
    assert chosen.program is not None
    traits = chosen.traits
    return Parent(chosen.program, traits.skeleton, traits.constants) if traits else Parent(chosen.program)


def _possible(weights: Mapping[str, float], state: State, island: Island, parent: Parent) -> dict[str, float]:
    """Proposers that can work on this parent; if none can, all of them (the step is then a typed rejection)."""
    lone = not state.strategy.others or len(island) < 2

    def can(edit: Edit) -> bool:
        if edit in _TWO_PARENTS:
            return not lone
        if edit is Edit.TUNE:
            return 0 < parent.constants <= MAX_CONSTANTS
        return True

    return {name: weight for name, weight in weights.items() if can(Edit(name))} or dict(weights)


def _others(state: State, island: Island, parent: str, edit: Edit, rng: random.Random) -> tuple[str, ...]:
    """Second parent first, then inspirations (models only)."""
    second = partner(island, parent, rng, state.config.selection) if edit in _TWO_PARENTS else None
    first = (second,) if second is not None else ()
    if edit not in MODEL_EDITS or not state.strategy.others:
        return first
    shown = inspire(island, parent, rng, state.config.inspirations + len(first))
    return (*first, *(name for name in shown if name not in first))[: max(state.config.inspirations, len(first))]


def history_of(state: State, island: Island, parent: str) -> tuple[str, ...]:
    """Earlier attempts: the parent's last measured children, then its living ancestors, nearest first."""
    if not state.strategy.history or not state.config.history:
        return ()
    found: Sequence[str] = list(state.archive.attempts.get(parent, ()))[::-1]
    member = island.members.get(parent)
    while member is not None and len(found) < state.config.history and member.parent:
        found = [*found, member.parent]
        member = island.members.get(member.parent)
    return tuple(dict.fromkeys(name for name in found if name != parent))[: state.config.history]
