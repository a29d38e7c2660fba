"""The end of a search: the files it leaves and what is said of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.cli import output
from coevo.errors import StoreError

if TYPE_CHECKING:
    from coevo.evolution.records import Candidate, Summary
    from coevo.evolution.result import SearchResult
    from coevo.runs import Run
    from coevo.tasks.types import Task


def finish(run: Run, task: Task, result: SearchResult) -> dict[str, Any]:
    """Write the best program, the picture and result.json into the run's artifacts; return the facts to print."""
    facts = facts_of(run, task, result)
    if result.best_program is not None:
        target = run.artifacts / ("best.py" if len(result.best_program.files) == 1 else "best")
        with whole(run, target) as part:
            result.best_program.write(part)
        facts["program"] = str(target)
    path, why = draw(run, task, result)
    facts["picture"] = str(path) if path else why
    facts["made"] = shares(run)
    facts["run"] = str(run.path)
    with whole(run, run.artifacts / "result.json") as part:
        part.write_text(json.dumps(output.plain(facts), indent=2) + "\n", encoding="utf-8")
    return facts


@contextmanager
def whole(run: Run, path: Path) -> Iterator[Path]:
    """A name to write a file or folder to, which takes `path`'s place when the block ends: a full disk leaves what was there.

    Raises `StoreError` where the disk refuses.
    """
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        if part.is_dir() and path.is_dir():
            shutil.rmtree(path)  # A folder does not replace one that holds files.
        part.replace(path)
    except OSError as e:
        raise StoreError(
            f"cannot write {path}: {e.strerror or e}. The run itself is kept; free some space or make the folder writable, "
            f"then `coevo resume {run.path}` writes its files again"
        ) from e
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def facts_of(run: Run, task: Task, result: SearchResult) -> dict[str, Any]:
    """Search value beside verified value, for the best program and for the start."""
    from coevo.tasks.types import Kind

    name = "score" if task.kind in (Kind.OPEN, Kind.OPENEVOLVE) else "fitness"
    facts: dict[str, Any] = {
        "task": task.name,
        "stop": result.message,
        "steps": result.steps,
        "evaluated": result.evaluated,
        "measure": f"{name}, {'lower' if name == 'score' and task.config.direction == 'min' else 'higher'} is better",
        "start": getattr(result.start, name) if result.start else None,
        "start_failed": failed(result.start),
        "best": getattr(result.best, name) if result.best else None,
        "best_step": result.best_step,
    }
    verified = result.verified
    if verified is not None:
        facts["verified_start"] = getattr(verified.start_hidden, name)
        facts["verified_best"] = getattr(verified.best_hidden, name)
        facts["verified_speedup"] = verified.best_hidden.speedup
        facts["verified_fitness_gain"] = verified.gain
        facts["verdict"] = verdict(task, result)
    elif result.best is not None:
        facts["verdict"] = "not verified on hidden tests: the search was stopped before its end, or verify is off"
    if task.config.best_known is not None:
        facts["best_known"] = task.config.best_known.value
    facts["spent"] = {k: v for k, v in result.spent.items() if v}
    return facts


def failed(summary: Summary | None) -> str | None:
    """Why the program of an evaluation has no value, in a line; None if it has one."""
    if summary is None or (summary.fitness is not None and summary.failure is None):
        return None
    return f"{summary.failure.value if summary.failure else summary.outcome.value}: {' '.join(summary.reason.split())}"


def verdict(task: Task, result: SearchResult) -> str:
    """In words, what the hidden tests say of the best program against the start."""
    from coevo.evaluation.efficiency import EfficiencyConfig, is_tie

    verified = result.verified
    if verified is None or verified.gain is None:
        return "not verified: the best program or the start could not be measured on hidden tests"
    if verified.program == verified.start:
        return "no gain: nothing that was found beats the start program"
    best, start = verified.best_hidden, verified.start_hidden
    if task.config.timing is not None and best.speedup and start.speedup and best.correctness == start.correctness:
        times = best.speedup / start.speedup
        tie = is_tie(times, EfficiencyConfig().tie)
        return f"{'a tie' if tie else 'a gain' if times > 1 else 'no gain'} on hidden tests: {times:.2f} times as fast as the start"
    return "a gain on hidden tests" if verified.gain > 0 else "no gain on hidden tests"


def candidates(run: Run) -> Iterator[Candidate]:
    """The committed steps of a search, in order."""
    from coevo.evolution.records import Candidate

    for event in run.events(kinds=("candidate",)):
        yield Candidate.from_dict(event.step or 0, event.payload)


def family(candidate: Candidate) -> str:
    """start, model or operator."""
    from coevo.evolution.settings import MODEL_EDITS
    from coevo.evolution.types import Edit

    edit = candidate.decision.edit
    return "start" if edit is Edit.START else "model" if edit in MODEL_EDITS else "operator"


def shares(run: Run) -> dict[str, dict[str, Any]]:
    """Who made what: per proposer the children asked for, made, scored, rejected, and the steps that set a new best."""
    table: dict[str, dict[str, Any]] = {}
    best: float | None = None
    for candidate in candidates(run):
        row = table.setdefault(
            candidate.decision.edit.value,
            {
                "asked": 0,
                "scored": 0,
                "rejected": 0,
                "duplicates": 0,
                "new_best": 0,
                "fitness_gained": 0.0,
                "tokens": 0,
            },
        )
        row["asked"] += 1
        row["scored"] += candidate.scored
        row["rejected"] += candidate.rejection is not None
        row["duplicates"] += candidate.duplicate
        row["tokens"] += candidate.tokens
        fitness = candidate.evaluation.fitness if candidate.scored and candidate.evaluation else None
        if fitness is not None and (best is None or fitness > best):
            row["new_best"] += 1
            row["fitness_gained"] += fitness - best if best is not None else 0.0
            best = fitness
    return table


def draw(run: Run, task: Task, result: SearchResult) -> tuple[Path | None, str]:
    """The picture of a run, or None and why there is none. Never raises for a picture's sake."""
    from coevo import pictures
    from coevo.tasks.types import Kind

    if why := pictures.can_draw():
        return None, why
    by_score = task.kind in (Kind.OPEN, Kind.OPENEVOLVE)
    points = []
    for c in candidates(run):
        value = (c.evaluation.score if by_score else c.evaluation.fitness) if c.evaluation and c.scored else None
        if value is not None:
            points.append(pictures.Point(c.step, value, family(c)))
    if not points:
        return None, "no picture: nothing was scored"
    drawn = (
        [
            item
            for title, program in (("start", result.verified.start), ("best", result.verified.program))
            if (item := _answer(run, task, program, title)) is not None
        ]
        if result.verified
        else []
    )
    try:
        path = run.artifacts / "picture.png"
        with whole(run, path) as part:
            pictures.picture(
                part,
                task,
                points,
                label="score" if by_score else "fitness",
                better=task.config.direction if by_score else "max",
                drawn=drawn,
                title=task.config.title or task.name,
            )
    except (Exception, SystemExit) as e:  # draw.py is the task author's code, and may leave.
        return None, f"no picture: {type(e).__name__}: {e}"
    return path, ""


def _answer(run: Run, task: Task, program: str, title: str) -> Any:
    """What a program answered to the first instance, if the run kept it."""
    from coevo.pictures import Drawn

    for _, split, _, row in run.evaluations(program):
        kept = (row.get("extra") or {}).get("output")
        if split == "public" and kept is not None:
            instances = task.config.instances.get("public") or [{}]
            score = row.get("score")
            return Drawn(kept, instances[0], f"{title}: {output.show(score)}" if score is not None else title)
    return None


def print_ending(facts: dict[str, Any]) -> None:
    """For a person: who contributed, then the facts as `key: value`."""
    made = facts.pop("made", {})
    if made:
        headers = ("proposer", "asked", "scored", "rejected", "duplicates", "new best", "gained", "tokens")
        output.print_table(headers, [(name, *(round(v, 4) for v in row.values())) for name, row in made.items()])
    facts = dict(facts)
    facts["spent"] = ", ".join(f"{k} {output.show(round(v, 4))}" for k, v in facts.pop("spent", {}).items())
    output.print_facts({k: v for k, v in facts.items() if v != ""})
