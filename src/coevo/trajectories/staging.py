"""From answers and searches to light rows: one `row` event for each, which names programs instead of holding them.

A *pass* begins with a `plan` event that says how many answers it goes by. When more are sampled later (a resumed run with a
larger budget), another pass begins and the rows of the one before do not count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from coevo.evaluation.pool import Pool
from coevo.evolution.prompt import TaskView
from coevo.evolution.session import Setup as Search
from coevo.evolution.shelf import Shelf
from coevo.runs import Event, Run
from coevo.tasks.types import Task
from coevo.trajectories.arrange import Answer, Arranged, Job, arrange, reference_fitness
from coevo.trajectories.found import Found, Measured, task_seed
from coevo.trajectories.lineage import Outline, Traced, outline, trace
from coevo.trajectories.sampling import Progress
from coevo.trajectories.settings import SynthConfig

PLAN, ROW, ARRANGED, TRACED = "plan", "row", "arranged", "traced"
GROUP = 200
"""Rows of a search that are stored together."""


@dataclass(frozen=True)
class Source:
    """A recorded search, opened for reading."""

    run: Run
    setup: Search
    task: int
    """Of the table of tasks."""


@dataclass
class Pass:
    """What is known of the current pass."""

    after: int
    """Id of its plan event: its rows come later."""
    arranged: set[int] = field(default_factory=set)
    traced: set[int] = field(default_factory=set)
    rows: Counter[int] = field(default_factory=Counter)
    """Rows stored, by search."""


def stage(
    run: Run,
    tasks: Sequence[Task],
    found: Found,
    sources: Sequence[Source],
    config: SynthConfig,
    *,
    pool: Pool,
    progress: Progress,
) -> Pass:
    """Arrange every task's answers and trace every search, as far as that is not done; returns the pass."""
    current = _current(run, {"last": found.last, "answers": found.counts["answers"]})
    _arrange_all(run, tasks, found, config, current, pool, progress)
    for index, source in enumerate(sources):
        if index not in current.traced:
            task = tasks[source.task]
            _trace(run, index, source, task, config, have=current.rows[index], progress=progress)
    return current


def _current(run: Run, plan: Mapping[str, Any]) -> Pass:
    """The pass under way, or a new one."""
    last = None
    for event in run.events(kinds=(PLAN,)):
        last = event
    if last is None or last.payload != plan:
        return Pass(run.append(PLAN, plan))
    current = Pass(last.id)
    for event in run.events(after=last.id, kinds=(ARRANGED, TRACED, ROW)):
        if event.kind == ARRANGED:
            current.arranged.add(event.payload["task"])
        elif event.kind == TRACED:
            current.traced.add(event.payload["run"])
        elif "run" in event.payload:
            current.rows[event.payload["run"]] += 1
    return current


# Samples


def _arrange_all(
    run: Run,
    tasks: Sequence[Task],
    found: Found,
    config: SynthConfig,
    current: Pass,
    pool: Pool,
    progress: Progress,
) -> None:
    """Tasks are arranged in workers, a few ahead, and stored in order."""
    todo = [index for index in sorted(found.answers) if index not in current.arranged]
    flying: deque[tuple[int, Future[Arranged]]] = deque()
    done = 0

    def take() -> None:
        nonlocal done
        task, future = flying.popleft()
        _store(run, task, future.result(), found.answers[task])
        done += 1
        progress("arranging", done, len(todo))

    for index in todo:
        flying.append((index, pool.submit(in_worker, _job(run, tasks[index], found.answers[index], config))))
        if len(flying) > 2 * pool.workers + 2:
            take()
    while flying:
        take()


def in_worker(state: object, job: Job) -> Arranged:
    """A pool's job: arrange one task. The worker's judges are not used."""
    return arrange(job)


def _job(run: Run, task: Task, answers: Iterable[Measured], config: SynthConfig) -> Job:
    seed = task_seed(config.seed, task.name)
    shelf = Shelf(run, seed=seed)
    found: list[Answer] = []
    for measured in answers:
        row = run.evaluation(measured.program, split="public", seed=seed) or {}
        tests = tuple("passed" if test["passed"] else test["status"] for test in row.get("tests", ()))
        found.append(Answer(measured.number, shelf.attempt(measured.program), tests))
    best = reference_fitness(task.config, has_reference=task.reference is not None)
    return Job(task.name, TaskView.of(task.config), tuple(found), best, config)


def _store(run: Run, task: int, arranged: Arranged, answers: Iterable[Measured]) -> None:
    origins = {measured.number: measured.origin for measured in answers}
    with run.transaction():
        for row in arranged.rows:
            payload = {
                "task": task,
                "style": row.style.value,
                "current": row.current,
                "history": list(row.history),
                "right": row.right,
                "headroom": row.headroom,
                "origin": origins[row.number],
            }
            run.append(ROW, payload)
        summary = {"task": task, "measure": arranged.measure, "rows": len(arranged.rows), "counts": arranged.counts}
        run.append(ARRANGED, summary)


# Searches


def _trace(
    run: Run, index: int, source: Source, task: Task, config: SynthConfig, *, have: int, progress: Progress
) -> None:
    """Store the rows of a search; the first `have` are stored already."""
    outlined = outline(source.run, config.lineage)
    best = _best(task, outlined)
    counts = Counter(outlined.dropped)
    made = 0
    group: list[dict[str, Any]] = []
    for row in _distinct(trace(source.run, source.setup, outlined, config.lineage), counts):
        made += 1
        if made <= have:
            continue
        group.append(_payload(index, source.task, row, best))
        if len(group) >= GROUP:
            _append(run, group)
            group = []
        progress(f"tracing {source.run.path.name}", made, len(outlined.steps))
    with run.transaction():
        _append(run, group)
        run.append(TRACED, {"run": index, "rows": made, "counts": dict(counts), "best": best})


def _append(run: Run, group: Iterable[Mapping[str, Any]]) -> None:
    with run.transaction():
        for payload in group:
            run.append(ROW, payload)


def _best(task: Task, outlined: Outline) -> float | None:
    known = [reference_fitness(task.config, has_reference=task.reference is not None), outlined.best]
    return max((value for value in known if value is not None), default=None)


def _distinct(rows: Iterable[Traced], counts: Counter[str]) -> Iterator[Traced]:
    """Steps that repeat a state and what followed are counted, not kept."""
    seen: set[int] = set()
    for row in rows:
        key = hash((row.style, row.parent, row.history, row.others, row.rejected, row.next, row.outcome))
        if key in seen:
            counts["same_row"] += 1
            continue
        seen.add(key)
        yield row


def _payload(index: int, task: int, row: Traced, best: float | None) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "task": task,
        "run": index,
        "step": row.step,
        "style": row.style.value,
        "current": row.parent,
        "right": row.right,
        "headroom": max(0.0, best - row.fitness) if best is not None else None,
        "depth": row.depth,
        "outcome": row.outcome,
    }
    for name in ("history", "others", "known"):
        if values := getattr(row, name):
            payload[name] = list(values)
    for name in ("rejected", "next"):
        if value := getattr(row, name):
            payload[name] = value
    return payload


def rows(run: Run, current: Pass) -> Iterator[Event]:
    """The light rows of a pass, in order."""
    return run.events(after=current.after, kinds=(ROW,))


def counts(run: Run, current: Pass) -> dict[str, Counter[str]]:
    """What arranging and tracing dropped, by reason."""
    found: dict[str, Counter[str]] = {"samples": Counter(), "searches": Counter()}
    for event in run.events(after=current.after, kinds=(ARRANGED, TRACED)):
        kind = "samples" if event.kind == ARRANGED else "searches"
        found[kind].update(event.payload["counts"])
        found[kind]["rows"] += event.payload["rows"]
        if kind == "samples":
            found[kind]["tasks"] += 1
            found[kind]["tasks_dropped"] += not event.payload["rows"]
    return found
