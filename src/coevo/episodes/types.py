"""Where a policy is put, what it did there, and how that was judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from coevo.config import Config
from coevo.evaluation.types import Evaluation
from coevo.evolution.types import Context, Edit, Proposal
from coevo.models.sampler import Prompt, Sampled
from coevo.models.types import Message, StopReason


class Source(StrEnum):
    """Where a start state comes from."""

    STATEMENT = "statement"
    """The statement alone: plain RL on the task, no current program."""
    SYNTH = "synth"
    """Independent samples arranged as a history (MetaEvolve's way)."""
    SEARCH = "search"
    """The lineage of a recorded search."""
    POLICY = "policy"
    """The policy's own searches, refreshed as it learns."""


@dataclass(frozen=True)
class StartState:
    """What a policy is put before: a task, its current program with fitness and feedback, and earlier attempts."""

    id: str
    """Content hash of task, style, current program and history: equal states have equal ids."""
    task: str
    """The task's name."""
    context: Context
    """Parent and history, as the search shows them. For `STATEMENT` the parent is the start program, which is not shown."""
    style: Edit = Edit.REWRITE
    """rewrite, diff, or write (from the statement alone)."""
    source: Source = Source.SYNTH
    depth: int = 0
    """Steps from the start program in its lineage."""
    headroom: float | None = None
    """Best fitness known for the task (where it came from: in the data card) less the current one."""
    known: frozenset[str] = frozenset()
    """Ids of programs that exist already beside parent and history (the archive): a copy of one is nothing new."""


class EpisodeConfig(Config):
    """How an episode runs and is sampled."""

    name: Literal["one_shot", "refine"] = "one_shot"
    """one_shot: one evolution step (the paper's). refine: several rounds in one conversation, feedback between them."""
    rounds: int = Field(default=3, ge=1, le=64)
    """refine: replies at most. It ends early when fitness cannot rise any more or the context is full."""
    max_tokens: int = Field(default=1024, ge=1)
    """Of one reply. Unless given, at most half of the model's context."""
    temperature: float = Field(default=1.0, gt=0, le=10)
    """Training samples are drawn without top-p, so that sampler and trainer compare the same distribution."""
    prompt_chars: int = Field(default=32_000, ge=1000)
    """Longest prompt, as in a search."""
    truth: float = Field(default=1.0, ge=0, le=1)
    """Share of rollouts whose program is also judged on hidden tests: the evidence's `truth`, which no reward sees."""


@dataclass(frozen=True)
class Judged:
    """One reply, parsed and executed in a worker. `evaluation` is None where there was no program to judge."""

    proposal: Proposal
    program_hash: str = ""
    evaluation: Evaluation | None = None
    """On public tests: what reward and feedback come from."""
    hidden: Evaluation | None = None
    unmeasured: str = ""
    """Why the machine could not judge it. Never the program's fault."""


@dataclass(frozen=True)
class Turn:
    """One reply of an episode."""

    start: int
    """Where its tokens begin in the rollout's `token_ids`."""
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    text: str
    judged: Judged
    message: str = ""
    """What the policy was told before this reply; empty for the first one, whose prompt says it all."""


@dataclass(frozen=True)
class Rollout:
    """One finished episode: all its tokens, and every turn judged."""

    state: StartState
    group: str
    sample: int
    seed: int
    token_ids: tuple[int, ...]
    prompt_tokens: int
    turns: tuple[Turn, ...]
    version: int = 0
    temperature: float = 1.0
    unmeasured: str = ""
    """Why it says nothing (infrastructure; a prompt that does not fit): masked, counted, never rewarded."""
    wall_s: float = 0.0
    prompt: str = ""
    """The first prompt as text, without special tokens."""
    truth: bool = False
    """Whether it was drawn to be judged on hidden tests, too (`EpisodeConfig.truth`)."""
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None


@dataclass(frozen=True)
class Sample:
    """What a reward may look at of one reply (of one turn, where an episode has several). Never anything hidden.

    Fitness lies in [0, 1] for tested tasks. `fitness` is None where the reply held no program (`contract_ok` is False then).
    An unmeasured reply never becomes a Sample.
    """

    parent_fitness: float
    fitness: float | None
    correctness: float | None = None
    efficiency: float | None = None
    parent_correctness: float | None = None
    parent_efficiency: float | None = None
    contract_ok: bool = True
    """The reply could be parsed into a program."""
    rejection: str = ""
    """Value of `evolution.types.Rejection` where it could not."""
    program_hash: str = ""
    """By normal form: names of comments, spacing and such do not matter."""
    parent_hash: str = ""
    history: frozenset[str] = frozenset()
    """Program hashes of the attempts shown."""
    known: frozenset[str] = frozenset()
    """Program hashes of the archive."""
    text: str = ""
    source: str = ""
    """Of the program's main file; empty without one."""
    tokens: int = 0
    max_tokens: int = 0
    truncated: bool = False
    turn: int = 0
    outcomes: tuple[bool, ...] = ()
    """Public tests passed, in order."""
    extra: Mapping[str, float] = field(default_factory=dict)


class Start(NamedTuple):
    """One rollout to make."""

    state: StartState
    group: str
    """Rollouts of one group begin with the same prompt."""
    sample: int
    """Which of its group: with the group it names the rollout's random numbers."""


class Codec(Protocol):
    """Between messages and the policy's tokens: the part of an engine's codec that episodes use. A codec whose template has no token that
    ends a turn may have `stops: tuple[str, ...]`, texts that end a reply."""

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Ids of the prompt up to where the reply begins."""
        ...

    def encode_next(self, message: Message, *, ended: bool) -> tuple[int, ...]:
        """Ids to append to a reply so that the conversation goes on; `ended`: the reply's last token was one of `ends`."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without special tokens."""
        ...

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a reply."""
        ...


class Bounds(Protocol):
    """The part of an engine's capabilities that episodes use."""

    @property
    def max_tokens(self) -> int | None:
        """Of prompt and completion together; None is unbounded."""
        ...


class Policy(Protocol):
    """What acts: the part of an engine that episodes use. An engine is one as it stands."""

    @property
    def codec(self) -> Codec: ...

    @property
    def capabilities(self) -> Bounds: ...

    @property
    def version(self) -> int:
        """Optimizer steps behind the weights."""
        ...

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        """Continue all prompts; `each(index, sampled)` is called as soon as that one has ended."""
        ...
