"""Episodes of a step: all of them sampled together, each reply judged while the others are still being sampled.

    rollouts = run_episodes(engine, starts, config, pool=pool, tasks=tasks, seed=0, step=17)

The tokens of an episode are only ever appended to: the prompt, a reply as it was sampled, the message that answers it, the next
reply. What was sampled is what is trained on; nothing is decoded and tokenised again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from coevo.episodes.desk import Desk
from coevo.episodes.known import Known
from coevo.episodes.prompting import Opening, Openings
from coevo.episodes.standing import advanced, best_turn, first, is_perfect, outcome_of
from coevo.episodes.types import EpisodeConfig, Judged, Policy, Rollout, Start, Turn
from coevo.errors import UsageError
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation
from coevo.evolution.prompt import build_next
from coevo.evolution.types import Attempt
from coevo.models.sampler import Prompt, Sampled
from coevo.streams import stream, stream_seed
from coevo.tasks.types import Task


def run_episodes(
    policy: Policy,
    starts: Sequence[Start],
    config: EpisodeConfig,
    *,
    pool: Pool,
    tasks: Mapping[str, Task],
    seed: int,
    step: int,
    known: Known | None = None,
) -> list[Rollout]:
    """One rollout per start, in order. The pool's workers hold `Judges` of all `tasks` (`evaluation.judges.open_judges`).

    A reply's random numbers follow from (seed, step, group, sample, turn) alone. All programs of a call that are on one task are judged under
    one seed, equal ones once, and where `known` is given and holds them, not at all. A start whose prompt does not fit, and an episode the machine could not judge, give an unmeasured
    rollout with its reason. Raises `UsageError` for starts that contradict each other or name no task, and what the
    policy raises.
    """
    desk = Desk(pool, tasks, seed=seed, step=step, by_text=_turns(config) > 1, known=known)
    return _Step(policy, config, desk, tasks, seed, step).run(starts)


def _turns(config: EpisodeConfig) -> int:
    return config.rounds if config.name == "refine" else 1


@dataclass(eq=False)
class _Episode:
    """One episode under way. `ids` is all that was said so far; `current` the best program so far."""

    start: Start
    opening: Opening
    current: Attempt | None
    ids: tuple[int, ...]
    seed: int = 0
    hidden: bool = False
    turns: list[Turn] = field(default_factory=list)
    message: str = ""
    """What was said to it last."""
    sampled: Sampled | None = None
    text: str = ""
    """Of what was sampled last."""
    judging: Future[Judged] | None = None
    unmeasured: str = ""
    wall_s: float = 0.0


class _Step:
    def __init__(
        self, policy: Policy, config: EpisodeConfig, desk: Desk, tasks: Mapping[str, Task], seed: int, step: int
    ) -> None:
        self._policy, self._config, self._tasks, self._desk = policy, config, tasks, desk
        self._seed, self._step = seed, step
        self._rounds = _turns(config)
        self._stop: tuple[str, ...] = getattr(policy.codec, "stops", ())
        self._begun = time.monotonic()

    def run(self, starts: Sequence[Start]) -> list[Rollout]:
        _check(starts)
        openings = Openings(self._policy, self._tasks, self._config)
        episodes = [self._open(start, openings.of(start.state)) for start in starts]
        alive = [episode for episode in episodes if not episode.unmeasured]
        for turn in range(self._rounds):
            if not alive:
                break
            self._sample(alive, turn)
            for episode in alive:
                self._finish_turn(episode)
            alive = [episode for episode in alive if self._goes_on(episode, turn)]
        if self._rounds > 1:
            self._add_truth(episodes)
        version = self._policy.version
        return [self._rollout(episode, version) for episode in episodes]

    def _open(self, start: Start, opening: Opening) -> _Episode:
        name = (self._step, start.group, start.sample)
        return _Episode(
            start,
            opening,
            first(start.state),
            opening.ids,
            seed=self._seed_of(start, 0),
            hidden=stream(self._seed, "truth", *name).random() < self._config.truth,
            unmeasured=opening.unfit,
        )

    def _seed_of(self, start: Start, turn: int) -> int:
        return stream_seed(self._seed, "sample", self._step, start.group, start.sample, turn)

    def _sample(self, alive: Sequence[_Episode], turn: int) -> None:
        """Sample the next reply of all; each goes to be judged as soon as it has ended."""
        c = self._config
        prompts = [
            Prompt(e.ids, c.max_tokens, c.temperature, seed=self._seed_of(e.start, turn), stop=self._stop)
            for e in alive
        ]

        def ended(index: int, sampled: Sampled) -> None:
            episode = alive[index]
            state = episode.start.state
            parent = (episode.current or state.context.parent).program
            episode.sampled = sampled
            # Of several turns only the best program is judged on hidden tests, once it is known which one that is.
            hidden = episode.hidden and self._rounds == 1
            episode.text = self._text(sampled)
            episode.judging = self._desk.submit(state.task, parent, episode.text, state.style, hidden=hidden)

        for index, sampled in enumerate(self._policy.sample(prompts, each=ended)):
            if alive[index].judging is None:
                ended(index, sampled)

    def _text(self, sampled: Sampled) -> str:
        """The reply as text, up to a string that ended it."""
        text = self._policy.codec.decode(sampled.token_ids)
        cuts = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        return text[: min(cuts)] if cuts else text

    def _finish_turn(self, episode: _Episode) -> None:
        """Wait for the judgement of the reply that was sampled last."""
        sampled, judging = episode.sampled, episode.judging
        assert sampled is not None and judging is not None
        episode.sampled = episode.judging = None
        judged = judging.result()
        episode.wall_s = time.monotonic() - self._begun
        start = len(episode.ids)
        episode.ids += sampled.token_ids
        episode.turns.append(Turn(start, *sampled, episode.text, judged, episode.message))
        episode.unmeasured = judged.unmeasured

    def _goes_on(self, episode: _Episode, turn: int) -> bool:
        """Whether there is another turn; then the message that opens it is appended."""
        if turn + 1 >= self._rounds or episode.unmeasured:
            return False
        state, last = episode.start.state, episode.turns[-1]
        before, judged = episode.current, last.judged
        episode.current = advanced(before, judged)
        if is_perfect(self._tasks[state.task].config, episode.current):
            return False
        message = build_next(before, outcome_of(judged), style=state.style, rejected=judged.proposal.detail)
        codec, context = self._policy.codec, self._policy.capabilities.max_tokens
        added = codec.encode_next(message, ended=bool(last.token_ids) and last.token_ids[-1] in codec.ends)
        if context is not None and len(episode.ids) + len(added) + self._config.max_tokens > context:
            return False
        episode.ids += added
        episode.message = message.content
        return True

    def _add_truth(self, episodes: Sequence[_Episode]) -> None:
        """Have the best programs of episodes with several turns judged on hidden tests."""
        asked: list[tuple[_Episode, Turn, Future[Evaluation]]] = []
        for episode in episodes:
            turn = best_turn(episode.turns) if episode.hidden and not episode.unmeasured else None
            program = turn.judged.proposal.program if turn is not None else None
            if turn is not None and program is not None:
                asked.append((episode, turn, self._desk.evaluate(episode.start.state.task, program, "hidden")))
        for episode, best, future in asked:
            told = replace(best, judged=replace(best.judged, hidden=future.result()))
            episode.turns = [told if turn is best else turn for turn in episode.turns]

    def _rollout(self, episode: _Episode, version: int) -> Rollout:
        return Rollout(
            state=episode.start.state,
            group=episode.start.group,
            sample=episode.start.sample,
            seed=episode.seed,
            token_ids=episode.ids,
            prompt_tokens=len(episode.opening.ids),
            turns=tuple(episode.turns),
            version=version,
            temperature=self._config.temperature,
            unmeasured=episode.unmeasured,
            wall_s=episode.wall_s,
            prompt=episode.opening.text,
            truth=episode.hidden,
        )


def _check(starts: Sequence[Start]) -> None:
    """One prompt per group, and one random stream per rollout."""
    prompts: dict[str, str] = {}
    seen: set[tuple[str, int]] = set()
    for start in starts:
        if prompts.setdefault(start.group, start.state.id) != start.state.id:
            raise UsageError(
                f"group {start.group!r} has two start states ({prompts[start.group]}, {start.state.id}); a group has one"
            )
        if (start.group, start.sample) in seen:
            raise UsageError(f"sample {start.sample} of group {start.group!r} is asked for twice; number them apart")
        seen.add((start.group, start.sample))
