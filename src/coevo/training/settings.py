"""The recipe: everything that determines a training run."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from coevo.config import Config
from coevo.engines.settings import EngineConfig as EngineConfig
from coevo.engines.settings import LoraConfig as LoraConfig
from coevo.engines.types import LossConfig, OptimConfig
from coevo.episodes.types import EpisodeConfig
from coevo.evolution.settings import SearchConfig
from coevo.sandbox.types import SandboxConfig

RewardName = Literal[
    "metaevolve",
    "difference",
    "absolute",
    "lazy",
    "search_gain",
    "novelty",
    "efficiency_only_if_correct",
    "format",
    "length",
]
AdvantageName = Literal["group_mean", "group_zscore", "raw", "per_turn", "best_of_k"]
FilterName = Literal["none", "zero_spread", "ema_threshold", "snr", "top_uncertain"]
TrainerName = Literal["grpo", "trl", "toy", "command"]


WHOLE = frozenset({"parts", "mix"})
"""Mappings of a recipe that are one setting each: swapping a part of the reward for another is one change."""

MOST_ROLLOUTS = 65_536
"""Of one step."""


class RewardConfig(Config):
    """A weighted sum of named parts (docs/rewards.md has the formula of each)."""

    parts: dict[str, float] = Field(default_factory=lambda: {"search_gain": 1.0}, min_length=1)
    """Name (or PATH.py:FUNCTION, a function of a `Sample` that runs in a worker) to weight."""
    no_program: float = -1.0
    """`metaevolve`, `lazy`: what a reply without a program earns; the others give 0 for it (`difference`: minus the parent's fitness).
    `lazy`: also what a copy earns, and the least that any new program can."""
    worse: float = -1.0
    """`metaevolve`: what a regression earns."""
    tolerance: float = Field(default=0.0, ge=0)
    """Gains within this of 0 count as 0. Where fitness holds measured time, set it to the noise of an unchanged program (about 0.02):
    else a renamed copy is paid, or punished, for jitter."""
    timeout_s: float = Field(default=5.0, gt=0)
    """Of one call of a reward function of your own."""
    length_soft: float = Field(default=0.75, ge=0, le=1)
    """`length`: a reply of up to this share of `max_tokens` costs nothing; from there linearly down to -1 at all of it."""

    @field_validator("parts")
    @classmethod
    def _known(cls, parts: dict[str, float]) -> dict[str, float]:
        known = dict.fromkeys(get_args(RewardName))
        for name, weight in parts.items():
            path, _, function = name.rpartition(":")
            if not (path.endswith(".py") and function.isidentifier()) and name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"unknown reward {name!r}.{hint} Known: {', '.join(known)}, or PATH.py:FUNCTION")
            if not weight:
                raise ValueError(f"reward {name!r} has weight 0; leave it out, or give it a weight")
        return parts


class AdvantageConfig(Config):
    """From rewards to advantages. Groups without spread give exactly 0, but for `raw`."""

    name: AdvantageName = "group_zscore"
    k: int = Field(default=4, ge=1)
    """best_of_k: size of the subsets whose expected maximum is credited."""
    scale: float = Field(default=1.0, gt=0)
    """Factor on every advantage."""
    unit: bool = False
    """Divide the advantages that are compared with each other by their largest magnitude, so that a group whose gains are small or rare
    pushes as hard as any other (`best_of_k` of rewards in [0, 1] is small)."""
    returns: Literal["step", "episode"] = "step"
    """refine: credit each turn with its own reward (plus the discounted later ones), or all turns with the episode's."""
    discount: float = Field(default=1.0, ge=0, le=1)
    """refine, returns=step: weight of later turns' rewards in a turn's return."""


class FilterConfig(Config):
    """Which groups are trained on. What is dropped is recorded as `kept = false`."""

    name: FilterName = "zero_spread"
    spread: float = Field(default=1e-6, ge=0)
    """zero_spread: groups whose max - min of the rewards is at most this (times the largest |reward|, if that is over 1) are dead."""
    keep: float = Field(default=0.9, gt=0, le=1)
    """ema_threshold: aimed share of groups kept (its normal quantile sets the threshold: mean - z * std)."""
    decay: float = Field(default=0.1, gt=0, le=1)
    """ema_threshold: weight of the newest step in the running mean and variance of group spreads."""
    floor: float = Field(default=0.5, ge=0, le=1)
    """ema_threshold: at least this share of the groups with any spread is kept."""
    share: float = Field(default=0.25, gt=0, le=1)
    """top_uncertain: the share of groups with the largest reward deviation that is kept. snr: the same by signal to noise (how far
    apart the rewards' best two clusters are, against the spread inside them)."""
    replace: int = Field(default=1, ge=0, le=16)
    """Extra rounds of sampling that may replace dropped groups in a step; 0 trains on what is left."""


class EntropyConfig(Config):
    """A floor, not a bonus: acts only while the policy's entropy is below it."""

    floor: float | None = Field(default=None, ge=0)
    """Nats per token; None is off. "Below" is judged on the exponential mean of the last steps."""
    coefficient: float = Field(default=0.01, ge=0)
    """Of the entropy bonus at a full deficit (entropy 0); scales linearly with the deficit."""
    final: float | None = Field(default=None, ge=0)
    """Floor at the last step, reached linearly; None keeps it constant."""


class StatesConfig(Config):
    """Where start states come from."""

    tasks: tuple[str, ...] = ()
    """Tasks to train on: names, families, task folders, or folders of task folders."""
    mix: dict[Literal["statement", "synth", "search", "policy"], float] = Field(
        default_factory=lambda: {"statement": 1.0}
    )
    """Shares of the sources; those with a weight above 0 must be given below."""
    trajectories: tuple[str, ...] = ()
    """synth, search: folders that `coevo synth` made."""
    runs: tuple[str, ...] = ()
    """search: run folders of searches."""
    refresh: int = Field(default=10, ge=1)
    """policy: optimizer steps between searches of the policy itself."""
    searches: int = Field(default=16, ge=1)
    """policy: tasks searched at each refresh."""
    search: SearchConfig = SearchConfig(steps=24, batch=4, islands=1, verify=False, proposers={"rewrite": 1.0})
    """policy: settings of those searches."""
    pool: int = Field(default=512, ge=1)
    """policy: states kept, newest first."""
    early: float = Field(default=0.5, ge=0, le=1)
    """policy: share drawn from the first half of the searches; the rest are late states, where improving is hard."""
    style: Literal["rewrite", "diff"] = "rewrite"
    """In which form the policy answers where only a task is given with its start program (evaluations): a whole program, or edits."""
    limit: int = Field(default=20_000, ge=1)
    """synth, search: states held in memory at most; of more, this many are picked at random (by the seed)."""

    @field_validator("mix")
    @classmethod
    def _shares(cls, mix: dict[str, float]) -> dict[str, float]:
        for name, share in mix.items():
            if share < 0:
                raise ValueError(f"the share of {name!r} is below 0")
        if not any(mix.values()):
            raise ValueError("no source has a share above 0")
        return mix

    @model_validator(mode="after")
    def _given(self) -> Self:
        wants = {name for name, share in self.mix.items() if share > 0}
        if "synth" in wants and not self.trajectories:
            raise ValueError("states.mix asks for 'synth': name folders made by `coevo synth` in states.trajectories")
        if "search" in wants and not (self.runs or self.trajectories):
            raise ValueError("states.mix asks for 'search': name run folders in states.runs, or states.trajectories")
        return self


class EvalConfig(Config):
    """What the policy is measured on while it trains: a split that never trains."""

    tasks: tuple[str, ...] = ()
    """Empty: no evaluation."""
    every: int = Field(default=20, ge=1)
    samples: int = Field(default=4, ge=1)
    """Rollouts per task."""
    start: Literal["auto", "statement", "program"] = "auto"
    """What the policy is put before: the statement alone, or the task's start program. auto: the statement where nothing else is
    trained on."""
    patience: int | None = Field(default=None, ge=1)
    """Stop early after this many evaluations without a new best; None never does."""


class TrlConfig(Config):
    """Trainer `trl` only."""

    micro_rows: int | None = Field(default=None, ge=1)
    """Rows of one forward and backward pass; divides groups x group_size. None: all of a step's at once."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Given to TRL's GRPOConfig as they are (`use_vllm`, `report_to`, ...); they win over the recipe."""


class ToyConfig(Config):
    """Trainer `toy`: the world it trains in, and which faults are planted there (docs/rewards.md)."""

    noise: float = Field(default=0.01, ge=0, le=1)
    """Standard deviation of what is measured of a program's fitness."""
    levels: int | None = Field(default=None, ge=1)
    """Fault: the public tests tell so few levels of fitness apart that groups are ties. 1 makes every reward the same."""
    leak: float = Field(default=0.0, ge=0, le=1)
    """Fault: share of the headroom that hard-coding public tests gains on them. On hidden tests it halves fitness."""
    bonus: float = 0.0
    """Fault: what a shaped reward adds for a padded edit, which changes nothing."""
    unmeasured: float = Field(default=0.0, ge=0, lt=1)
    """Fault: share of rollouts that the machine loses."""
    lr_scale: float = Field(default=1e5, gt=0)
    """`lr` is a rate for language models; the toy's weights learn at lr * lr_scale. 1e-5 is a good rate, 1e-3 far too high."""


class Recipe(Config):
    """Everything that determines a training run but its folder."""

    trainer: TrainerName = "grpo"
    base: str = "mini"
    """Weights to start from: mini, local (the embedded SmolLM2), a Hugging Face folder, or RUN@CHECKPOINT."""
    seed: int = Field(default=0, ge=0, lt=1 << 62)
    steps: int = Field(default=100, ge=0)
    """Optimizer steps."""
    groups: int = Field(default=8, ge=1)
    """Start states per step."""
    group_size: int = Field(default=8, ge=2)
    """Rollouts per start state."""
    epochs: int = Field(default=1, ge=1, le=16)
    """Passes over each step's rows; above 1 the ratios move and clipping acts."""
    lr: float = Field(default=1e-5, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)
    """Steps of linear warm-up."""
    states: StatesConfig = StatesConfig()
    episode: EpisodeConfig = EpisodeConfig()
    reward: RewardConfig = RewardConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    filter: FilterConfig = FilterConfig()
    entropy: EntropyConfig = EntropyConfig()
    loss: LossConfig = LossConfig()
    optim: OptimConfig = OptimConfig()
    engine: EngineConfig = EngineConfig()
    evaluate: EvalConfig = EvalConfig()
    checkpoint_every: int = Field(default=20, ge=1)
    checkpoints: int = Field(default=3, ge=1)
    """Kept at most: the newest, and always the best by evaluation and the last."""
    max_kl: float | None = Field(default=None, gt=0)
    """Stop when the divergence from the reference passes this (measured by an extra pass where the loss has no KL term)."""
    unmeasured: float = Field(default=0.5, ge=0, lt=1)
    """A step with a larger share of rollouts that could not be measured is skipped; three such steps in a row end the run."""
    sandbox: SandboxConfig = SandboxConfig()
    pool: str = "local"
    sinks: tuple[str, ...] = ()
    """Mirrors of the metrics: tensorboard, wandb, trackio. They can neither fail nor hold up a run."""
    allow_cheats: bool = False
    """Train although the reward audit found a planted cheat that pays."""
    trl: TrlConfig = TrlConfig()
    """Trainer `trl`: what TRL alone knows."""
    command: tuple[str, ...] = ()
    """Trainer `command`: what to run; it gets recipe.json (docs/rewards.md)."""
    toy: ToyConfig = ToyConfig()
    """Trainer `toy`: its world."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.trainer == "command" and not self.command:
            raise ValueError("trainer = 'command' needs command: what to run")
        if self.advantage.name == "best_of_k" and self.advantage.k > self.group_size:
            raise ValueError(f"advantage.k = {self.advantage.k} is over group_size = {self.group_size}")
        if self.groups * self.group_size > MOST_ROLLOUTS:
            raise ValueError(
                f"groups = {self.groups} x group_size = {self.group_size} are {self.groups * self.group_size:,} rollouts a step, which "
                f"this process holds in memory; {MOST_ROLLOUTS:,} are the limit"
            )
        return self
