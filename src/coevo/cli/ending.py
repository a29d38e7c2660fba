"""The end of a search: the files it leaves and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.evolution.records import Candidate
    from coevo.evolution.result import SearchResult
    from coevo.runs import Run
    from coevo.tasks.types import Task


def finish(run: Run, task: Task, result: SearchResult) -> dict[str, Any]:
    """Write the best program, the picture and result.json into the run's artifacts; return the facts to print."""
    facts = facts_of(run, task, result)
    if result.best_program is not None:
        one = len(result.best_program.files) == 1
        facts["program"] = str(result.best_program.write(run.artifacts / ("best.py" if one else "best")))
    path, why = draw(run, task, result)
    facts["picture"] = str(path) if path else why
    facts["made"] = shares(run)
    facts["run"] = str(run.path)
    (run.artifacts / "result.json").write_text(json.dumps(output.plain(facts), indent=2) + "\n", encoding="utf-8")
    return facts


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
        "best": getattr(result.best, name) if result.best else None,
        "best_step": result.best_step,
    }
    verified = result.verified
    if verified is not None:
        facts["verified_start"] = getattr(verified.start_hidden, name)
        facts["verified_best"] = getattr(verified.best_hidden, name)
        facts["verified_speedup"] = verified.best_hidden.speedup
        facts["verified_fitness_gain"] = verified.gain
    if task.config.best_known is not None:
        facts["best_known"] = task.config.best_known.value
    facts["spent"] = {k: v for k, v in result.spent.items() if v}
    return facts


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
        path = pictures.picture(
            run.artifacts / "picture.png",
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
        headers = ("proposer", "asked", "scored", "rejected", "duplicates", "new best", "fitness gained", "tokens")
        output.print_table(headers, [(name, *(round(v, 6) for v in row.values())) for name, row in made.items()])
    facts = dict(facts)
    facts["spent"] = ", ".join(f"{k} {output.show(round(v, 4))}" for k, v in facts.pop("spent", {}).items())
    output.print_facts({k: v for k, v in facts.items() if v != ""})
