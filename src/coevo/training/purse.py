"""What sampling and judging cost: reserved at the most before, settled at what it was after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coevo.engines.types import Engine
from coevo.episodes.types import EpisodeConfig, Rollout, StartState
from coevo.runs import Run
from coevo.runs.types import Ticket


@dataclass(frozen=True)
class Purse:
    """The budget of a run, for rollouts."""

    run: Run
    engine: Engine
    episode: EpisodeConfig

    def reserve(self, purpose: str, states: Sequence[StartState], *, samples: int, step: int) -> Ticket:
        """Hold what rollouts from these states may take at most. Raises `BudgetSpent`; nothing was started then."""
        rollouts = len(states) * samples
        turns = self.episode.rounds if self.episode.name == "refine" else 1
        splits = 1 + (self.episode.truth > 0)
        amounts: dict[str, float] = {"evaluations": rollouts * turns * splits}
        if "tokens" in self.run.ledger.budget.limits():
            amounts["tokens"] = rollouts * self.longest
        return self.run.ledger.reserve(purpose, step=step, **amounts)

    @property
    def longest(self) -> int:
        """Tokens of one rollout at most, its prompts counted: the context, or what characters and replies can come to."""
        turns = self.episode.rounds if self.episode.name == "refine" else 1
        written = turns * (self.episode.max_tokens + self.episode.prompt_chars)
        context = self.engine.capabilities.max_tokens
        return written if context is None else min(written, context)


def spent_on(rollouts: Iterable[Rollout]) -> Mapping[str, float]:
    """What rollouts took: programs judged (per split; what one step judged twice is counted twice), tokens, CPU in candidates."""
    evaluations = tokens = 0
    cpu = 0.0
    for rollout in rollouts:
        tokens += len(rollout.token_ids)
        for turn in rollout.turns:
            for judged in (turn.judged.evaluation, turn.judged.hidden):
                if judged is not None:
                    evaluations += 1
                    cpu += judged.cpu_s
    return {"evaluations": evaluations, "tokens": tokens, "cpu_minutes": cpu / 60}
