"""Everything that determines a study, and what its arms differ in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from coevo.bench.suites import SuiteConfig
from coevo.config import Config, assigned, leaves, parse
from coevo.errors import ConfigError, pick
from coevo.evolution.settings import SearchConfig, StrategyName
from coevo.runs import Budget
from coevo.sandbox.types import SandboxConfig
from coevo.training.settings import WHOLE, Recipe

EQUAL = ("trainer", "base", "seed", "steps", "groups", "group_size", "epochs", "episode", "filter", "engine", "pool")
"""Settings of a recipe that no arm may change: arms train equally long, on as many samples, from the same weights."""


class ArmConfig(Config):
    """A policy and how it searches."""

    what: str = ""
    """In words, for the table."""
    strategy: StrategyName = "evolve"
    search: dict[str, Any] = Field(default_factory=dict)
    """Settings of the search that differ from the study's (dotted names)."""
    recipe: dict[str, Any] | None = None
    """Settings of the recipe that differ from the study's (dotted names). None: the untrained policy."""

    @property
    def trained(self) -> bool:
        return self.recipe is not None


_SEARCHED = {"states.mix": {"search": 1.0}}
ARMS: Mapping[str, ArmConfig] = {
    "best_of_n": ArmConfig(what="independent children of the start program, the best one", strategy="independent"),
    "self_refine": ArmConfig(what="refine the last program, one at a time", strategy="sequential"),
    "search": ArmConfig(what="the search, with the untrained model"),
    "direct": ArmConfig(
        what="RL on the statement alone",
        recipe={"states.mix": {"statement": 1.0}, "reward.parts": {"absolute": 1.0}},
    ),
    "evolve_absolute": ArmConfig(
        what="RL on recorded searches; the child's fitness", recipe={**_SEARCHED, "reward.parts": {"absolute": 1.0}}
    ),
    "evolve_metaevolve": ArmConfig(
        what="the same; gain, and -1 for a regression", recipe={**_SEARCHED, "reward.parts": {"metaevolve": 1.0}}
    ),
    "evolve_difference": ArmConfig(
        what="the same; the difference itself is the advantage, without a group's baseline",
        recipe={**_SEARCHED, "reward.parts": {"difference": 1.0}, "advantage.name": "raw"},
    ),
    "evolve_lazy": ArmConfig(
        what="the same as evolve_metaevolve; no credit for copies", recipe={**_SEARCHED, "reward.parts": {"lazy": 1.0}}
    ),
    "evolve_search": ArmConfig(
        what="what a search earns: gain over the parent, best of k children, states of the policy's own searches, most of them late, an "
        "entropy floor",
        recipe={
            "states.mix": {"policy": 1.0},
            "states.early": 0.2,
            "reward.parts": {"search_gain": 1.0},
            "advantage.name": "best_of_k",
            "advantage.unit": True,
            "entropy.floor": 0.25,
            "entropy.coefficient": 0.03,
        },
    ),
}
"""The arms that are known by name."""

REFERENCE = "search"
"""What every arm is compared with."""


class ProbeConfig(Config):
    """Single replies to recorded states, with parts of the prompt spoilt: is feedback used, is history?"""

    states: int = Field(default=48, ge=0)
    """Start states, from the pilot's searches on the validation split; 0 makes no probe."""
    samples: int = Field(default=4, ge=1)
    """Replies per state and variant."""


class StatesFrom(Config):
    """The recorded searches that evolution-aware arms train on: of the untrained policy, on the training tasks."""

    tasks: int = Field(default=64, ge=1)
    """At most so many tasks, the first ones."""
    evaluations: int = Field(default=25, ge=2)
    """Of each search."""


class StudyConfig(Config):
    """A study: arms on a suite at equal budgets, several times."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    title: str = ""
    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Everything random in the study follows from it."""
    seeds: int = Field(default=3, ge=1)
    """Repetitions of every arm: training runs and searches."""
    model: str
    """The untrained policy, as a model spec; `mini[,options]` is the model that `coevo mini pretrain` makes. Trained policies are
    asked with the same options."""
    suite: SuiteConfig
    arms: dict[str, ArmConfig] = Field(default_factory=lambda: {name: ARMS[name] for name in ("search",)}, min_length=1)
    """By name. A list of known names will do; a mapping changes or adds some."""
    search: SearchConfig = SearchConfig(
        batch=4, islands=1, population=64, migrate_every=0, proposers={"rewrite": 1.0}, stall=None
    )
    """Of every search. `batch` is the number of children in a round."""
    evaluations: int = Field(default=33, ge=2)
    """Bound of every search, the start program included."""
    tokens: int | None = Field(default=None, ge=1)
    """Bound of every search on prompt and reply tokens together."""
    proposals: int | None = Field(default=None, ge=1)
    """Bound of every search on replies. Copies cost no evaluation: without this bound, or `tokens`, nothing ends a search that
    only copies but the default of three replies per evaluation."""
    recipe: Recipe = Recipe()
    """Of every trained arm, but for what the arm changes. `base`, `seed` and the tasks are the study's."""
    states: StatesFrom = StatesFrom()
    select: int = Field(default=2, ge=1)
    """Checkpoints of a training run, evenly spaced and the last among them, that the validation split chooses from. 1: the last."""
    probe: ProbeConfig = ProbeConfig()
    primary: tuple[tuple[str, str, str], ...] = (
        ("evolve_search", "search", "ood"),
        ("evolve_search", "direct", "ood"),
    )
    """(arm, other, test split): the comparisons the study is about. Those whose arms or split it lacks are left out."""
    parallel: int = Field(default=32, ge=1)
    """Searches at once."""
    pool: str = "local"
    """Where programs are judged."""
    sandbox: SandboxConfig = SandboxConfig()
    ledger: str = ""
    """File of the holdout ledger. Empty: holdout.jsonl beside the study's folder."""
    keep_runs: bool = False
    """Keep the run folder of every search (some 200 KB each)."""

    @field_validator("arms", mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        if isinstance(given, list | tuple):
            given = {str(name): {} for name in given}
        if not isinstance(given, Mapping):
            return given
        try:
            return {name: _arm(str(name), value) for name, value in given.items()}
        except ConfigError as e:
            raise ValueError(str(e)) from None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, arm in self.arms.items():
            if not arm.trained:
                continue
            if not self.suite.train:
                raise ValueError(f"arm {name!r} trains, and the suite has no train split")
            for key in arm.recipe or {}:
                if key.split(".")[0] in EQUAL:
                    raise ValueError(
                        f"arm {name!r} changes recipe.{key}; arms are trained equally in {', '.join(EQUAL)}"
                    )
        if any(arm.trained for arm in self.arms.values()) and self.select > 1 and not self.suite.validation:
            raise ValueError(
                f"select = {self.select} checkpoints needs a validation split; give one, or set select to 1"
            )
        return self

    @property
    def budget(self) -> Budget:
        """Of every search."""
        proposals = self.proposals if self.proposals or self.tokens else 3 * self.evaluations
        return Budget(evaluations=self.evaluations, tokens=self.tokens, proposals=proposals)

    @property
    def comparisons(self) -> list[tuple[str, str, str]]:
        """The primary comparisons that this study can make."""
        return [
            (arm, other, split)
            for arm, other, split in self.primary
            if arm in self.arms and other in self.arms and split in self.suite.test
        ]

    def search_of(self, arm: str) -> SearchConfig:
        """The search of an arm, but for its seed."""
        known = self.arms[arm]
        data = assigned(self.search.model_dump() | {"strategy": known.strategy}, known.search)
        if known.strategy != "evolve":
            data |= {"islands": 1}
        return parse(SearchConfig, data, where=f"search of arm {arm}")

    def differences(self, arm: str) -> dict[str, tuple[Any, Any]]:
        """What an arm's recipe changes: by dotted name, (the study's value, the arm's)."""
        base = dict(leaves(self.recipe.model_dump(mode="json"), whole=WHOLE))
        own = dict(leaves(assigned(self.recipe.model_dump(mode="json"), self.arms[arm].recipe or {}), whole=WHOLE))
        return {name: (base.get(name), own.get(name)) for name in {**base, **own} if base.get(name) != own.get(name)}


def recipe_of(study: StudyConfig, arm: str, changes: Mapping[str, Any]) -> Recipe:
    """An arm's recipe: the study's, the arm's changes, and `changes` (base, seed, tasks, runs), checked as a whole."""
    data = assigned(study.recipe.model_dump(mode="json"), {**(study.arms[arm].recipe or {}), **changes})
    return parse(Recipe, data, where=f"recipe of arm {arm}")


def _arm(name: str, value: Any) -> Any:
    """A known arm under its own name, with what is given in place of its own settings."""
    if isinstance(value, ArmConfig):
        return value
    given = dict(value or {})
    if not given:
        return pick(name, ARMS, kind="arm")
    if name in ARMS:
        known = ARMS[name].model_dump()
        for part in ("search", "recipe"):
            if isinstance(given.get(part), Mapping) and known[part] is not None:
                given[part] = {**known[part], **given[part]}
        given = known | given
    return given
