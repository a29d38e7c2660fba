"""What an exported reward function calls: a reply is parsed and judged in the sandbox, and rewarded by the recipe's own parts.

    with Scorer("exported/") as scorer:
        score = scorer.score(state_text, reply)

The numbers are those of coevo's own trainer: the same prompt, parser, judge, `Sample` and reward. A machine in trouble is no zero: such a reply
has no reward, and its score says why.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from coevo.episodes.desk import Desk
from coevo.episodes.samples import samples_of
from coevo.episodes.types import Judged, Rollout, StartState, Turn
from coevo.errors import InfrastructureError, UsageError
from coevo.evaluation.judges import Judges
from coevo.evaluation.pool import open_pool
from coevo.models.types import StopReason
from coevo.sandbox.types import SandboxConfig
from coevo.training.exports import record as records
from coevo.training.rewards import reward_of
from coevo.training.settings import RewardConfig


@dataclass(frozen=True)
class Score:
    """Of one reply."""

    reward: float | None
    """None where there is none: `reason` says why."""
    parts: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    fitness: float | None = None
    parent_fitness: float = 0.0
    correctness: float | None = None
    contract_ok: bool = False
    """The reply could be read as a program."""

    def required(self) -> float:
        """The reward. Raises `InfrastructureError` where there is none, since no number would be true."""
        if self.reward is None:
            raise InfrastructureError(f"this reply has no reward: {self.reason}")
        return self.reward

    def numbers(self) -> dict[str, float]:
        """For a trainer's log, always the same keys. A reply without a program passes nothing: 0."""
        return {
            "fitness": self.fitness or 0.0,
            "parent_fitness": self.parent_fitness,
            "correctness": self.correctness or 0.0,
            "contract_ok": float(self.contract_ok),
        }


class Scorer:
    """Judges replies to the start states of one export. Thread-safe; owns a pool of workers; close it, or use it in a `with`."""

    def __init__(self, folder: str | Path, *, pool: str = "local") -> None:
        """`pool`: as in a recipe. Raises what `records.read` and `records.load_tasks_of` do."""
        self.record = records.read(folder)
        self._tasks = records.load_tasks_of(self.record)
        setup = partial(
            Judges,
            {name: known["ref"] for name, known in self.record.tasks.items()},
            sandbox=SandboxConfig.model_validate(self.record.sandbox),
        )
        self._pool = open_pool(pool, setup)
        self._lock = threading.Lock()
        try:
            self._reward = reward_of(RewardConfig.model_validate(self.record.reward))
        except BaseException:
            self._pool.close()
            raise

    def score(self, state: str, reply: str, *, tokens: int = 0) -> Score:
        """One reply to one start state (its text, as the rows of the export hold it)."""
        return self.scores([state], [reply], tokens=[tokens])[0]

    def scores(
        self, states: Sequence[str], replies: Sequence[str], *, tokens: Sequence[int] | None = None
    ) -> list[Score]:
        """Many replies at once. Those that stand next to each other and answer the same state are one group, which the reward part
        `novelty` looks at. `tokens`: lengths of the replies, for the part `length`."""
        desk = Desk(self._pool, self._tasks, seed=self.record.seed, by_text=False)
        read = [records.state_of(text) for text in states]
        waiting: list[Future[Judged]] = []
        for state, reply in zip(read, replies, strict=True):
            if state.task not in self._tasks:
                raise UsageError(
                    f"start state {state.id} is about task {state.task!r}, which this export does not have"
                )
            waiting.append(desk.submit(state.task, state.context.parent.program, reply, state.style, hidden=False))
        judged = [future.result() for future in waiting]
        lengths = list(tokens) if tokens is not None else [0] * len(read)
        found: list[Score] = []
        for start, end in _groups(states):
            found += self._grouped(read[start:end], replies[start:end], judged[start:end], lengths[start:end])
        return found

    def close(self) -> None:
        self._reward.close()
        self._pool.close()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _grouped(
        self, states: Sequence[StartState], replies: Sequence[str], judged: Sequence[Judged], lengths: Sequence[int]
    ) -> list[Score]:
        """Scores of the replies to one state."""
        bound = self.record.max_tokens
        rollouts = [_rollout(*one, bound) for one in zip(states, replies, judged, lengths, strict=True)]
        measured = [i for i, rollout in enumerate(rollouts) if not rollout.unmeasured]
        samples = [samples_of(rollouts[i], max_tokens=bound if lengths[i] else 0)[0] for i in measured]
        with self._lock:
            scored = dict(zip(measured, zip(samples, self._reward(samples), strict=True), strict=True))
        found = []
        for i, rollout in enumerate(rollouts):
            if i not in scored:
                found.append(Score(None, reason=f"unmeasured: {rollout.unmeasured}"))
                continue
            sample, one = scored[i]
            found.append(
                Score(
                    one.reward,
                    dict(one.parts),
                    one.reason,
                    sample.fitness,
                    sample.parent_fitness,
                    sample.correctness,
                    sample.contract_ok,
                )
            )
        return found


def _rollout(state: StartState, reply: str, judged: Judged, length: int, bound: int) -> Rollout:
    """The reply as the one turn of an episode."""
    stop = StopReason.LENGTH if length >= bound else StopReason.STOP
    turn = Turn(0, (0,) * length, (0.0,) * length, stop, reply, judged)
    return Rollout(state, state.id, 0, 0, (0,) * length, 0, (turn,), unmeasured=judged.unmeasured)


def _groups(states: Sequence[str]) -> list[tuple[int, int]]:
    """Bounds of the runs of equal texts."""
    starts = [i for i, text in enumerate(states) if i == 0 or text != states[i - 1]]
    return list(zip(starts, [*starts[1:], len(states)], strict=True))
