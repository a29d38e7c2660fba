"""Where an episode stands after some turns: pure functions of a start state and what was judged.

The current program of an episode is the best so far, and the one a reply is asked to improve: a search keeps its parent when a
child is worse, so a policy that is to act in a search learns to build on what is best, and a turn that went wrong costs
nothing but itself. Summed over turns, the gains over it are the gain of the whole episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coevo.episodes.types import Judged, Rollout, StartState, Turn
from coevo.evaluation.types import Evaluation
from coevo.evolution.prompt import better
from coevo.evolution.types import Attempt, Edit
from coevo.programs import Program
from coevo.tasks.types import Kind, TaskConfig


def attempt_of(program: Program, evaluation: Evaluation) -> Attempt:
    """What a prompt shows of a judged program."""
    e = evaluation
    return Attempt(program, e.fitness, e.correctness, e.efficiency, e.speedup, e.score, e.feedback)


def outcome_of(judged: Judged) -> Attempt | None:
    """The reply's program as it was judged; None without a program or a measurement."""
    program, evaluation = judged.proposal.program, judged.evaluation
    if program is None or evaluation is None or evaluation.fitness is None:
        return None
    return attempt_of(program, evaluation)


def first(state: StartState) -> Attempt | None:
    """The current program at the start; None where none is shown (`Edit.WRITE`)."""
    return None if state.style is Edit.WRITE else state.context.parent


def advanced(current: Attempt | None, judged: Judged) -> Attempt | None:
    """The current program after a turn: the reply's, if it is strictly fitter."""
    outcome = outcome_of(judged)
    return outcome if outcome is not None and better(outcome, current) else current


def befores(state: StartState, turns: Iterable[Turn]) -> Iterator[Attempt | None]:
    """The current program before each turn."""
    current = first(state)
    for turn in turns:
        yield current
        current = advanced(current, turn.judged)


def best_turn(turns: Sequence[Turn]) -> Turn | None:
    """The turn an episode is known by: the fittest, the earlier of equals; the last one where none has a fitness."""
    best: Turn | None = None
    for turn in turns:
        outcome = outcome_of(turn.judged)
        if outcome is not None and better(outcome, outcome_of(best.judged) if best else None):
            best = turn
    return best or (turns[-1] if turns else None)


def truth_of(rollout: Rollout) -> float | None:
    """Fitness on hidden tests of the program that an episode is known by; 0 without a program. None where the rollout says nothing, where
    it was not asked for (`EpisodeConfig.truth`; a reply without a program is then no 0 either, or a mean would lean to 0), or not measured."""
    turn = best_turn(rollout.turns)
    if turn is None or rollout.unmeasured or not rollout.truth:
        return None
    if turn.judged.proposal.program is None:
        return 0.0
    return turn.judged.hidden.fitness if turn.judged.hidden is not None else None


def is_perfect(config: TaskConfig, attempt: Attempt | None) -> bool:
    """Whether no program of this task can have a higher fitness (see `coevo.evaluation.fitness`)."""
    return (
        attempt is not None
        and attempt.fitness is not None
        and config.kind in (Kind.FUNCTION, Kind.STDIO)
        and attempt.fitness >= 1.0
    )
