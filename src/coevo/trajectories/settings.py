"""Settings of data synthesis. Each has one effect, and a test that flips it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from coevo.config import Config

DistanceName = Literal["token", "tree", "behaviour"]
Measure = Literal["fitness_spread", "behaviour", "programs", "none"]


class DiversityConfig(Config):
    """Which tasks are worth keeping, and which of a task's answers: the two-stage filter of MetaEvolve."""

    measure: Measure = "fitness_spread"
    """Problem level, over a task's distinct answers. fitness_spread: best minus worst fitness. behaviour: mean distance of test
    outcomes over all pairs. programs: share of answers that are distinct programs. none: keep every task."""
    low: float = Field(default=0.05, ge=0, le=1)
    """Tasks whose measure is below this are dropped: all their answers are alike ..."""
    high: float = Field(default=1.0, ge=0)
    """... and those above this one."""
    keep: int = Field(default=8, ge=1, le=1000)
    """Response level: answers kept per task at most."""
    quality: float = Field(default=0.5, ge=0, le=1)
    """Weight of an answer's fitness, against its distance to what was kept already."""
    distances: dict[DistanceName, float] = Field(
        default_factory=lambda: {"token": 1.0, "tree": 1.0, "behaviour": 1.0}, min_length=1
    )
    """The distance of two answers is the mean of these, by weight."""
    nearest: float = Field(default=0.05, ge=0, le=1)
    """An answer closer than this to one that was kept is a near copy: dropped."""
    farthest: float = Field(default=1.0, ge=0, le=1)
    """An answer farther than this from all that were kept has nothing to do with them: dropped."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low = {self.low:g} is over high = {self.high:g}")
        if self.nearest > self.farthest:
            raise ValueError(f"nearest = {self.nearest:g} is over farthest = {self.farthest:g}")
        if any(weight < 0 for weight in self.distances.values()) or not any(self.distances.values()):
            raise ValueError("the weights of distances must not be negative, and not all 0")
        return self


class ArrangeConfig(Config):
    """How independent answers become a current program with a past."""

    earlier_min: int = Field(default=1, ge=0, le=3)
    """Earlier attempts shown at least; a program without as many makes no row ..."""
    earlier_max: int = Field(default=3, ge=0, le=3)
    """... and at most. The number is drawn uniformly."""
    earlier: Literal["worse", "any"] = "worse"
    """worse: earlier attempts are no better than the current program, as on a path upwards. any: whatever was answered."""
    start: bool = True
    """Whether the task's own start program takes part, as a current program and as an attempt."""
    histories: int = Field(default=1, ge=1, le=1000)
    """Rows per current program, each with a history of its own."""
    styles: dict[Literal["rewrite", "diff"], float] = Field(default_factory=lambda: {"rewrite": 1.0}, min_length=1)
    """How the rows ask for the next program, by weight."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.earlier_min > self.earlier_max:
            raise ValueError(f"earlier_min = {self.earlier_min} is over earlier_max = {self.earlier_max}")
        if any(weight < 0 for weight in self.styles.values()) or not any(self.styles.values()):
            raise ValueError("the weights of styles must not be negative, and not all 0")
        return self


class LineageConfig(Config):
    """What is taken from recorded searches."""

    operators: bool = True
    """Also the steps of operators (tune, mutate, splice), shown as a model would have seen their parent."""
    rejected: bool = True
    """Also steps whose reply made no program: start states whose next program is not known."""
    per_run: int | None = Field(default=None, ge=1)
    """Rows of one run at most, drawn evenly over its steps; None takes all."""
    known: int = Field(default=64, ge=0, le=100_000)
    """Ids of the archive kept with each row, the fittest first."""


class MixConfig(Config):
    """Which rows are written, and in which order."""

    right: float | None = Field(default=0.8, ge=0, le=1)
    """Share of current programs that pass every test, among train rows made of samples. The largest set with exactly this
    share (within rounding) is kept. None takes all. MetaEvolve found 0.8 better than a balanced mix."""
    min_headroom: float | None = Field(default=None, ge=0)
    """Rows with less headroom (best known fitness of the task less the current one) are dropped."""
    buckets: int = Field(default=1, ge=1, le=1000)
    """Equal intervals of headroom from 0 to 1 (more than 1 counts as 1) ..."""
    per_bucket: int | None = Field(default=None, ge=1)
    """... of which each gives at most so many rows to a split; None is no bound."""
    per_task: int | None = Field(default=None, ge=1)
    """Rows of one task at most."""
    rows: int | None = Field(default=None, ge=1)
    """Rows of one split at most."""
    order: Literal["shuffled", "tasks", "easy_first", "hard_first"] = "shuffled"
    """shuffled: by the seed. tasks: as they were made. easy_first, hard_first: a curriculum by headroom, small or large first."""


class SplitConfig(Config):
    """Which tasks are held out. A task's split depends on its own name (and the seed) alone, whatever other tasks there are."""

    by: Literal["family", "task"] = "family"
    """family: tasks of one family (a tag `family:NAME`, else the name before its colon) go together. task: each by itself."""
    validation: float = Field(default=0.0, ge=0, lt=1)
    """Chance of a family to be in the validation split."""
    test: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(f"validation + test = {self.validation + self.test:g} leaves nothing to train on")
        return self


class ContaminationConfig(Config):
    """What of the training rows would give away a held-out task."""

    ngram: int = Field(default=13, ge=1, le=1000)
    """Words of the runs that statements are compared by (13: Brown et al. 2020, GPT-3, appendix C)."""
    program_ngram: int = Field(default=50, ge=1, le=10_000)
    """Tokens of the runs that programs are compared by (50: Lee et al. 2022); shorter programs are compared by hash alone."""
    overlap: float = Field(default=0.7, gt=0, le=1)
    """Two texts overlap when this share of the shorter one's runs is in the other (PaLM: 0.7, of 8-grams)."""
    statements: bool = True
    """Compare statements, and drop the whole training task."""
    programs: bool = True
    """Compare programs with right programs of held-out tasks, by normal form and by runs of tokens, and drop the row."""


class SynthConfig(Config):
    """Everything that determines a data set but its tasks, models, runs and budget."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    """Names every random stream."""
    samples: int = Field(default=10, ge=1, le=100_000)
    """Answers asked of the model per task."""
    ask: dict[Literal["write", "rewrite"], float] = Field(default_factory=lambda: {"write": 1.0}, min_length=1)
    """How they are asked for, by weight. write: from the statement alone. rewrite: from the task's start program."""
    batch: int = Field(default=64, ge=1, le=65_536)
    """Answers that are asked for together; twice as many are in flight."""
    model_failures: int = Field(default=20, ge=1)
    """Stop, as an error, after this many requests in a row that got no reply."""
    prompt_chars: int = Field(default=32_000, ge=1000)
    """Longest prompt; what is shortened first is stated in `coevo.evolution.prompt`."""
    diversity: DiversityConfig = DiversityConfig()
    arrange: ArrangeConfig = ArrangeConfig()
    lineage: LineageConfig = LineageConfig()
    mix: MixConfig = MixConfig()
    splits: SplitConfig = SplitConfig()
    contamination: ContaminationConfig = ContaminationConfig()
    group_rows: int = Field(default=500, ge=1, le=100_000)
    """Rows of a Parquet row group: what a writer or a reader holds in memory."""
    shard_rows: int = Field(default=50_000, ge=1)
    """Rows of one Parquet file."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if any(weight < 0 for weight in self.ask.values()) or not any(self.ask.values()):
            raise ValueError("the weights of ask must not be negative, and not all 0")
        return self
