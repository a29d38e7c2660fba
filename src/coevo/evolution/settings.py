"""Everything that determines a search but its task, its models and its budget."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from coevo.config import Config
from coevo.evolution.types import Edit

StrategyName = Literal["evolve", "independent", "sequential", "best_of_n", "hill_climb"]
SelectionName = Literal["mix", "power_law", "ucb_tree", "tournament"]
ProposerName = Literal["rewrite", "diff", "crossover", "tune", "mutate", "splice"]

MODEL_EDITS = frozenset({Edit.REWRITE, Edit.DIFF, Edit.CROSSOVER})
"""Proposers that ask a model. The others are free."""


class SelectionConfig(Config):
    """How a parent is drawn from an island."""

    name: SelectionName = "mix"
    elite: float = Field(default=0.2, ge=0, le=1)
    """mix: chance of the island's best program."""
    explore: float = Field(default=0.3, ge=0, le=1)
    """mix: chance of a uniformly drawn cell's elite. What is left exploits by power law."""
    power: float = Field(default=1.0, ge=0, le=20)
    """mix, power_law: rank r (from 1) is drawn in proportion to r ** -power; 0 is uniform."""
    tournament: int = Field(default=4, ge=1, le=1000)
    """tournament: the best of this many uniform draws."""
    exploration: float = Field(default=1.0, ge=0, le=100)
    """ucb_tree: weight of the exploration term."""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.elite + self.explore > 1:
            raise ValueError(f"elite + explore = {self.elite + self.explore:g} is over 1")
        return self


class SearchConfig(Config):
    """Settings of one search. Each has one effect, and a test that flips it."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Names every random stream of the search."""
    strategy: StrategyName = "evolve"
    """evolve: islands, cells and selection as below. independent: always from the start program. sequential: refine the
    last candidate. best_of_n: `batch` children of one parent, keep the best, repeat. hill_climb: one child of the best at a time."""
    schedule: Literal["rounds", "steady"] = "rounds"
    """rounds: `batch` steps are decided together. steady: `batch` steps are always in flight."""
    batch: int = Field(default=16, ge=1, le=4096)
    """Steps of a round, or in flight. More parallelism, but older information in each decision."""
    steps: int | None = Field(default=None, ge=0)
    """Stop after this many steps beyond the start program; None leaves it to the budget."""
    target: float | None = None
    """Stop when this score (kind open, in the task's direction; else fitness) is reached."""
    stall: int | None = Field(default=1000, ge=1)
    """Stop after this many steps in a row that brought nothing new to evaluate."""
    model_failures: int = Field(default=20, ge=1)
    """Stop, as an error, after this many model steps in a row that got no reply."""

    islands: int = Field(default=4, ge=1, le=256)
    """Populations that mix only by migration. Step i belongs to island i modulo this."""
    population: int = Field(default=400, ge=1, le=1_000_000)
    """Programs kept as parents, all islands together; exact."""
    bins: int = Field(default=5, ge=1, le=100)
    """MAP-Elites cells per descriptor (size and control flow). 1 switches cells off. Coarsened where an island is too
    small to keep every cell's elite."""
    per_structure: int = Field(default=8, ge=1)
    """Programs of one structure (alike but for names and constants) that an island keeps."""
    novelty: float = Field(default=0.0, ge=0, le=1)
    """A child closer than this to its parent or its cell's elite (distance of code, 0 to 1) replaces it or is not kept,
    whichever is better. 0 keeps both."""
    migrate_every: int = Field(default=10, ge=0)
    """Rounds between migrations along the ring of islands; 0 is never."""
    migrants: int = Field(default=1, ge=1, le=100)
    """Best programs that each island sends to the next one."""
    selection: SelectionConfig = SelectionConfig()
    """How a parent is drawn from its island."""

    proposers: dict[ProposerName, float] | None = None
    """Weights. None: everything that the strategy and the models given allow."""
    model_share: float | None = Field(default=None, ge=0, le=1)
    """Share of steps that ask a model, where models and operators both take part. None: the bandit decides that, too."""
    ahead: int = Field(default=0, ge=0, le=1_000_000)
    """With `model_share`: model steps are decided up to so many steps early, in blocks of half of it, so that operators go on
    while a slow model answers. 0: like all other steps."""
    bandit: bool = True
    """Learn which proposer gains most per cost; off draws by weight alone."""
    token_price: float = Field(default=0.001, ge=0, le=1000)
    """The bandit's nominal cost of one token, in evaluations."""
    repair: float = Field(default=0.1, ge=0, le=1)
    """Share of model steps that start from a recently failed program of the island, if there is one."""
    inspirations: int = Field(default=2, ge=0, le=3)
    """Other programs shown to a model: the island's top and, in turn, the most different."""
    history: int = Field(default=3, ge=0, le=3)
    """Earlier attempts shown to a model."""

    prompt_chars: int = Field(default=32_000, ge=1000)
    """Longest prompt; what is shortened first is stated in `coevo.evolution.prompt`."""

    verify: bool = True
    """At the end, judge the best program and the start on hidden tests with a fresh seed."""
    verify_top: int = Field(default=3, ge=1, le=100)
    """Where fitness is timed, so noisy: this many leaders are measured again before the best is named."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.strategy == "evolve" and self.population < self.islands:
            raise ValueError(
                f"population = {self.population} is fewer than islands = {self.islands}; give every island room for one"
            )
        if self.ahead and self.model_share is None:
            raise ValueError(f"ahead = {self.ahead} needs model_share: which steps ask a model must be known early")
        if self.proposers is not None:
            bad = [name for name, weight in self.proposers.items() if weight < 0]
            if bad:
                raise ValueError(f"the weight of proposer {bad[0]!r} is below 0")
            if not any(self.proposers.values()):
                raise ValueError("no proposer has a weight above 0")
        return self
