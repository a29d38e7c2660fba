"""What a study consists of: its units, in order. A unit is what is done as a whole or again: one phase of one arm and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coevo.bench.settings import REFERENCE, ArmConfig, StudyConfig, recipe_of
from coevo.bench.suites import TRAIN, VALIDATION
from coevo.config import leaves
from coevo.runs.jsontext import dumps
from coevo.training.settings import WHOLE

NEUTRAL = ("title", "pool", "ledger", "keep_runs")
"""Settings that change no result: a study may go on with others."""

MIN_PILOT = 2
"""Repetitions without which no noise can be seen."""


@dataclass(frozen=True)
class Unit:
    """One thing to do."""

    phase: str
    """pilot, states, train, select, test or probe."""
    arm: str
    seed: int
    split: str = ""

    @property
    def key(self) -> str:
        return "/".join(filter(None, (self.phase, self.split, self.arm, str(self.seed))))

    def __str__(self) -> str:
        where = f" on {self.split}" if self.split else ""
        return f"{self.phase}{where}: {self.arm}, seed {self.seed}"


def plan(study: StudyConfig) -> list[Unit]:
    """All units, in the order in which they are made. Seeds are the outer loop, so that a study cut short has whole repetitions; nothing
    held out is opened before everything is trained and chosen."""
    seeds = range(study.seeds)
    trained = [name for name, arm in study.arms.items() if arm.trained]
    units: list[Unit] = []
    if study.suite.validation:
        units += [Unit("pilot", REFERENCE, seed, VALIDATION) for seed in range(max(MIN_PILOT, study.seeds))]
    if any(uses(study, name, "search") for name in trained):
        units += [Unit("states", REFERENCE, seed, TRAIN) for seed in seeds]
    units += [Unit("train", name, seed) for seed in seeds for name in trained]
    if study.select > 1:
        units += [Unit("select", name, seed, VALIDATION) for seed in seeds for name in trained]
    units += [Unit("test", name, seed, split) for seed in seeds for split in study.suite.test for name in study.arms]
    if study.suite.validation and study.probe.states:
        units += [Unit("probe", name, seed) for seed in seeds for name in policies(study)]
    return units


def policies(study: StudyConfig) -> list[str]:
    """Arms with different weights: the reference for the untrained ones, and every trained arm."""
    return [REFERENCE, *(name for name, arm in study.arms.items() if arm.trained)]


def arm_of(study: StudyConfig, name: str) -> ArmConfig:
    """An arm of the study; the reference also where it is no arm of its own (the pilot needs it)."""
    return study.arms.get(name) or ArmConfig()


def uses(study: StudyConfig, arm: str, source: str) -> bool:
    """Whether an arm's recipe draws start states from a source."""
    mix: Mapping[str, float] = dict(leaves(study.recipe.model_dump(mode="json"), whole=WHOLE))["states.mix"]
    mix = (study.arms[arm].recipe or {}).get("states.mix", mix)
    return mix.get(source, 0) > 0


def study_digest(config: Mapping[str, Any]) -> str:
    """Which study this is, whatever its folder: a digest of every setting that can change a result."""
    kept = {name: value for name, value in config.items() if name not in NEUTRAL}
    return hashlib.sha256(dumps(kept, canonical=True).encode()).hexdigest()


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names of settings that two studies differ in, neutral ones left out."""
    old, new = (
        dict(leaves({k: v for k, v in data.items() if k not in NEUTRAL}, whole=WHOLE)) for data in (before, now)
    )
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def arms_table(study: StudyConfig) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: every arm, and exactly what its recipe changes."""
    rows = []
    for name, arm in study.arms.items():
        changes = "; ".join(
            f"{key}: {_short(old)} -> {_short(new)}" for key, (old, new) in study.differences(name).items()
        )
        policy = "trained" if arm.trained else "untrained"
        searching = arm.strategy + "".join(f", {key}={_short(value)}" for key, value in arm.search.items())
        rows.append((name, policy, searching, changes if arm.trained else "-", arm.what))
    return ("arm", "policy", "search", "recipe, against the study's", "in words"), rows


def check_recipes(study: StudyConfig, arms: Iterable[str], example: Mapping[str, Any]) -> None:
    """Every trained arm's recipe can be read; `example` fills in what the study gives it. Raises `ConfigError`."""
    for name in arms:
        if study.arms[name].trained:
            recipe_of(study, name, example)


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_short(v)}" for k, v in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
