"""A model: prompts in, completions out, each with its cost. Nothing here knows about programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Request:
    """One completion to make. Equal requests to a seeded model give equal replies."""

    messages: tuple[Message, ...]
    max_tokens: int = 2048
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    key: str = ""
    """Names the request within its run ("step-17"): what a replay looks up."""


@dataclass(frozen=True)
class Sampling:
    """How a model is asked by default; part of its spec, so that a request is built the same way everywhere."""

    max_tokens: int = 2048
    temperature: float = 1.0
    top_p: float = 1.0

    def request(self, messages: Sequence[Message], *, seed: int, key: str, stop: tuple[str, ...] = ()) -> Request:
        """The request for these messages under this sampling."""
        return Request(tuple(messages), self.max_tokens, self.temperature, self.top_p, stop, seed, key)


class StopReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    """Cut at `max_tokens` or at the model's context."""
    REFUSAL = "refusal"
    """The endpoint refused or filtered it. An outcome to be recorded, not an error."""
    FAILED = "failed"
    """No reply after all retries (see `error`). Unmeasured. Its token counts and cost are what the attempts billed,
    or may have billed (an attempt whose usage was lost counts at its upper bound)."""


@dataclass(frozen=True)
class Completion:
    text: str
    stop_reason: StopReason
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    wall_s: float = 0.0
    attempts: int = 1
    error: str = ""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Of the sampled tokens at the sampling temperature, before `top_p` cuts; where the model gives them."""
    estimated: bool = False
    """The token counts are our estimate: the endpoint reported none, or not for every attempt."""
    reasoning: str = ""
    """What the endpoint gave apart from the text as reasoning, if anything."""


class Model(Protocol):
    """`generate` is thread-safe, keeps order, and returns FAILED completions rather than raising for one request.

    It raises `ModelError` only when no request of this or any later call can succeed (bad key, no such model).
    """

    @property
    def name(self) -> str: ...

    @property
    def batch(self) -> int:
        """How many requests one `generate` call should carry: 1 for endpoints (the caller runs many at once)."""
        ...

    @property
    def billable(self) -> bool:
        """Whether a reply that was asked for and never recorded may have cost money."""
        ...

    @property
    def sampling(self) -> Sampling:
        """The settings its requests carry unless a caller has its own."""
        ...

    @property
    def context(self) -> int | None:
        """Tokens that prompt and reply may have together, where that is known."""
        ...

    @property
    def priced(self) -> bool:
        """Whether `cost` is known. A dollar budget cannot be kept with a model whose prices are not."""
        ...

    def count_tokens(self, text: str) -> int:
        """An upper estimate is fine; it is used to reserve budget."""
        ...

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Completion]: ...

    def close(self) -> None: ...
