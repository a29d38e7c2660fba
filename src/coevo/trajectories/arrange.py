"""Independent answers to one task, arranged as a program with a past (MetaEvolve, arXiv 2607.21971): which answers, which of them
as current programs, with which earlier attempts. A pure function of the answers, the settings and the seed; runs in a worker."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from coevo.errors import UsageError
from coevo.evaluation.fitness import fitness_of
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.streams import stream
from coevo.tasks.types import Kind, TaskConfig
from coevo.trajectories.distances import Profile, profile
from coevo.trajectories.rows import state_id
from coevo.trajectories.selection import problem_measure, select, worth_keeping
from coevo.trajectories.settings import SynthConfig

START = -1
"""Number of the start program among a task's answers."""


@dataclass(frozen=True)
class Answer:
    """A measured program of a task."""

    number: int
    """Of the sample, from 0; the task's start program is `START`."""
    attempt: Attempt
    behaviour: tuple[str, ...] = ()
    """Per public test: "passed", or how it failed."""


@dataclass(frozen=True)
class Job:
    """One task to arrange."""

    task: str
    view: TaskView
    answers: tuple[Answer, ...]
    best: float | None
    """Fitness of the reference, where it follows from the formula."""
    config: SynthConfig


@dataclass(frozen=True)
class Placed:
    """A row to be: program ids and what describes them."""

    state: str
    style: Edit
    current: str
    history: tuple[str, ...]
    right: bool
    headroom: float | None
    number: int


@dataclass(frozen=True)
class Arranged:
    """What became of a task's answers."""

    rows: tuple[Placed, ...]
    measure: float
    counts: dict[str, int] = field(default_factory=dict)
    """Answers dropped, by reason; programs that made no row; rows that are copies."""


def reference_fitness(config: TaskConfig, *, has_reference: bool) -> float | None:
    """Fitness that the task's reference has by definition: right, and as fast as itself. Kind open: 1, the best published.
    None where it is not known without measuring."""
    if config.kind is Kind.OPEN:
        return 1.0 if config.best_known is not None and config.best_known.value > 0 else None
    if not has_reference or config.kind not in (Kind.FUNCTION, Kind.STDIO) or config.fitness.name == "metaevolve":
        return None
    return fitness_of(config.fitness, correctness=1.0, efficiency=0.5 if config.timing else None)


def arrange(job: Job) -> Arranged:
    """Filter a task's answers and place them. `counts` says what was dropped: `copy` (of an earlier answer's program), `alike`
    (the whole task), `too_near`, `too_far`, `too_many`, `no_history`, `prompt_too_long`, `same_state`."""
    config, counts = job.config, Counter[str]()
    distinct = _distinct(job.answers, counts)
    answers = [answer for answer in distinct if answer.number != START]
    given = sum(1 for answer in job.answers if answer.number != START)
    profiles = [_profile(answer) for answer in answers]
    measure = problem_measure(config.diversity, profiles, given) if config.diversity.measure != "none" else 0.0
    if not answers or not worth_keeping(config.diversity, profiles, given):
        counts["alike"] = len(answers)
        return Arranged((), measure, _positive(counts))
    chosen = select(config.diversity, profiles)
    counts.update(too_near=chosen.too_near, too_far=chosen.too_far, too_many=chosen.too_many)
    pool = [answers[index] for index in chosen.kept]
    if config.arrange.start:
        pool += [answer for answer in distinct if answer.number == START]
    best = max([_fitness(a) for a in distinct] + ([job.best] if job.best is not None else []))
    rows: dict[str, Placed] = {}
    for answer in pool:
        for turn in range(config.arrange.histories):
            placed = _place(job, answer, pool, best, turn, counts)
            if placed is not None and placed.state in rows:
                counts["same_state"] += 1
            elif placed is not None:
                rows[placed.state] = placed
    return Arranged(tuple(rows.values()), measure, _positive(counts))


def _positive(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _distinct(answers: tuple[Answer, ...], counts: Counter[str]) -> list[Answer]:
    """The first answer of every program; copies are counted. A sample that repeats the start program is a copy of it."""
    seen: set[str] = set()
    found: list[Answer] = []
    for answer in sorted(answers, key=lambda a: a.number):
        if answer.attempt.program.id in seen:
            counts["copy"] += 1
        else:
            seen.add(answer.attempt.program.id)
            found.append(answer)
    return found


def _profile(answer: Answer) -> Profile:
    return profile(answer.attempt.program, behaviour=answer.behaviour, fitness=_fitness(answer))


def _place(job: Job, answer: Answer, pool: list[Answer], best: float, turn: int, counts: Counter[str]) -> Placed | None:
    """One row with `answer` as the current program, or None with the reason counted."""
    config = job.config.arrange
    program = answer.attempt.program.id
    rng = stream(job.config.seed, "history", job.task, program, turn)
    history = _history(answer, pool, rng, job.config)
    if history is None:
        counts["no_history"] += 1
        return None
    styles = sorted(config.styles)
    style = Edit(rng.choices(styles, [config.styles[name] for name in styles])[0])
    context = Context(answer.attempt, history=tuple(a.attempt for a in history))
    try:
        build_messages(job.view, context, style=style, max_chars=job.config.prompt_chars)
    except UsageError:
        counts["prompt_too_long"] += 1
        return None
    return Placed(
        state_id(job.task, style, context),
        style,
        program,
        tuple(a.attempt.program.id for a in history),
        right=answer.attempt.correctness == 1,
        headroom=max(0.0, best - _fitness(answer)),
        number=answer.number,
    )


def _history(answer: Answer, pool: list[Answer], rng: random.Random, config: SynthConfig) -> list[Answer] | None:
    """Earlier attempts drawn from the pool, worst first; None where there are too few."""
    rule = config.arrange
    fitness = _fitness(answer)
    others = [a for a in pool if a is not answer and (rule.earlier == "any" or _fitness(a) <= fitness)]
    if len(others) < rule.earlier_min:
        return None
    count = min(len(others), rng.randint(rule.earlier_min, rule.earlier_max))
    return sorted(rng.sample(others, count), key=lambda a: (_fitness(a), a.number))


def _fitness(answer: Answer) -> float:
    """Of a measured answer."""
    fitness = answer.attempt.fitness
    assert fitness is not None
    return fitness
