"""An engine: one policy, six primitives, and nothing of how they are carried out.

The algorithm (`coevo.training`) makes rows of token ids, sampler log-probabilities, advantages and masks, and never knows the
hardware. The primitives follow Tinker's, so that one algorithm serves this process (`torch`) and any server that speaks them (`tinker`).

Ids in are ids out: rows carry the very tokens that were sampled; nothing is ever decoded and tokenised again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import Field

from coevo.config import Config
from coevo.errors import ModelError
from coevo.models.sampler import Prompt, Sampled
from coevo.models.types import Message

LossName = Literal["importance_sampling", "ppo", "dapo", "grpo", "dr_grpo", "gspo", "cispo", "cross_entropy"]


@dataclass(frozen=True)
class Row:
    """One sequence to learn from. What follows the prompt may alternate between sampled tokens and tokens of the environment.

    `advantages`, `trained` and `logprobs` have one entry per token after the prompt: len(token_ids) - prompt_tokens.
    """

    token_ids: tuple[int, ...]
    prompt_tokens: int
    """Leading tokens that are context only, at least 1."""
    advantages: tuple[float, ...]
    trained: tuple[bool, ...]
    """False for tokens that the policy did not sample (feedback between turns): they are never in the loss."""
    logprobs: tuple[float, ...]
    """Of the sampler at `temperature`, as it drew them; 0 where not trained."""
    version: int = 0
    """Of the policy that sampled: its number of optimizer steps. The difference to the engine's own is the staleness."""
    temperature: float = 1.0
    """Log-probabilities are compared at this temperature."""
    group: str = ""
    """Rows of one group begin with the same prompt, which an engine may compute once."""


class LossConfig(Config):
    """The policy-gradient loss. Advantages are per token and final: no loss normalises them again."""

    name: LossName = "dapo"
    """importance_sampling: -ratio * advantage, summed. ppo: clipped, token mean. dapo: clipped, mean over all trained tokens of the
    step. grpo: clipped, mean over tokens of each sequence, then over sequences. dr_grpo: clipped, sum over tokens / (rows * length). gspo: as
    grpo with one ratio per sequence, the geometric mean. cispo: -min(ratio, clip_high bound) detached * advantage * logprob.
    cross_entropy: -advantage-weighted log-likelihood (supervised)."""
    clip_low: float = Field(default=0.2, ge=0, le=1)
    """Ratios are clipped at 1 - clip_low ..."""
    clip_high: float = Field(default=0.28, ge=0)
    """... and at 1 + clip_high (cispo: the bound of the weight is 1 + clip_high)."""
    ratio_cap: float | None = Field(default=None, gt=1)
    """Two-sided bound of the ratio for negative advantages (dual clip); None is off."""
    length: int | None = Field(default=None, ge=1)
    """dr_grpo: the constant that token sums are divided by. None is the longest completion allowed by the recipe, which the trainer
    fills in; an engine asked without refuses."""
    kl: float = Field(default=0.0, ge=0)
    """Coefficient of the divergence from `reference` in the loss."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Schulman's estimators of KL(policy || reference) from sampled tokens: -log r, (log r)^2 / 2, r - 1 - log r, r = reference / policy."""
    reference: str = "base"
    """What KL is measured against: "base" (the weights the run began with) or the name of a saved state."""
    entropy: float = 0.0
    """Coefficient of the mean token entropy, added as a bonus. The trainer's schedule (entropy floor) overrides it per step."""


class OptimConfig(Config):
    """AdamW, and the bound on the gradient's norm. The learning rate is an argument of the step."""

    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.99, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float | None = Field(default=1.0, gt=0)
    """None does not clip."""


@dataclass(frozen=True)
class LossStats:
    """Of one `forward_backward`, over trained tokens; means are token means."""

    loss: float
    tokens: int
    """Trained tokens."""
    rows: int
    entropy: float | None = None
    """Mean token entropy in nats at the sampling temperature."""
    kl: float | None = None
    """To the reference, by the loss's estimator."""
    ratio_mean: float = 1.0
    ratio_max: float = 1.0
    clipped_low: float = 0.0
    """Share of trained tokens whose ratio was clipped from below (negative advantage) ..."""
    clipped_high: float = 0.0
    """... and from above (positive advantage)."""
    logprob_gap_mean: float = 0.0
    """Mean |trainer - sampler| log-probability: on policy it says how well both agree."""
    logprob_gap_max: float = 0.0
    skipped: int = 0
    """Rows whose loss was not finite: left out of the gradient."""


@dataclass(frozen=True)
class StepStats:
    """Of one `optim_step`."""

    version: int
    """Optimizer steps behind the weights, this one counted."""
    lr: float
    """As applied."""
    grad_norm: float
    """Before clipping."""
    update_ratio: float | None = None
    """Norm of the change over the norm of the weights."""
    applied: bool = True
    """False where the gradient was not finite (or there was none): the weights are untouched."""


class Diverged(ModelError):
    """The policy's numbers are no numbers any more, so nothing can be sampled from it."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do; asked for what it cannot, it raises a `ConfigError` that says so."""

    engine: str
    losses: frozenset[str]
    kl: bool = False
    entropy: bool = False
    """Whether `LossConfig.entropy` acts and entropies are reported."""
    logprobs: bool = True
    exact_resume: bool = False
    """Whether save and load give the same next weights bit by bit."""
    export: bool = False
    """Whether `save` leaves a Hugging Face folder on this machine."""
    lora: bool = False
    max_tokens: int | None = None
    """Of prompt and completion together."""
    details: dict[str, str] = field(default_factory=dict)
    """Device, dtype, versions: for the record."""


class Codec(Protocol):
    """Between messages and the policy's tokens."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Ids of the prompt up to where the reply begins."""
        ...

    def encode(self, text: str) -> tuple[int, ...]: ...

    def encode_next(self, message: Message, *, ended: bool) -> tuple[int, ...]:
        """Ids to append to a sampled reply so that the conversation goes on: the end of the assistant's turn (unless `ended`: the
        reply's last token was one of `ends`), the message, and the opening of the next reply. What was sampled is never re-tokenised."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without special tokens."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a reply."""
        ...

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end a reply beside `ends`, to be given with every prompt: a plain template has no end-of-turn token."""
        ...


class Engine(Protocol):
    """One policy. Not thread-safe; one owner calls it.

    Raises `ConfigError` for what it cannot do, `ModelError` for what goes wrong on the machine or the server, `StoreError` for a
    state that cannot be written or read.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def codec(self) -> Codec: ...

    @property
    def version(self) -> int:
        """Optimizer steps behind the weights."""
        ...

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        """Continue all prompts, whole groups at once. `each(index, sampled)` is called as soon as that one has ended, so that it
        can be judged while the others go on. A prompt that does not fit the context is the caller's mistake: `ConfigError`."""
        ...

    def logprobs(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        prompt_tokens: Sequence[int],
        temperature: float = 1.0,
        of: str = "policy",
    ) -> list[tuple[float, ...]]:
        """Log-probability of every token after each prompt; `of` is "policy", "base" or a saved state's name."""
        ...

    def forward_backward(self, rows: Sequence[Row], loss: LossConfig) -> LossStats:
        """Add the loss's gradient over `rows` (one optimizer step's whole batch, so that means are over all of it) to what is held."""
        ...

    def optim_step(self, lr: float, config: OptimConfig) -> StepStats:
        """Apply and clear the gradient."""
        ...

    def save(self, name: str, *, optimizer: bool = True) -> str:
        """Keep the state under a name; returns where it is (a folder, or a server's path). All or nothing: a killed save leaves no
        state of that name, or the one before."""
        ...

    def load(self, name: str, *, with_optimizer: bool) -> None:
        """Go back to a saved state (a name, or what `save` of another run returned)."""
        ...

    def close(self) -> None: ...


__all__ = [
    "Capabilities",
    "Codec",
    "Diverged",
    "Engine",
    "LossConfig",
    "LossName",
    "LossStats",
    "OptimConfig",
    "Prompt",
    "Row",
    "Sampled",
    "StepStats",
]
