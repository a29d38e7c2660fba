"""From a finished search's run folder to its record."""

from __future__ import annotations

from collections.abc import Mapping

from coevo.bench.types import SearchRecord, Step
from coevo.evaluation.types import Outcome
from coevo.evolution.features import distance
from coevo.evolution.records import Candidate, Summary, unpacked
from coevo.evolution.result import SearchResult
from coevo.evolution.settings import MODEL_EDITS
from coevo.evolution.types import Rejection
from coevo.runs import Run
from coevo.tasks.types import Task
from coevo.trajectories.splits import family_of


def record_of(
    run: Run, task: Task, result: SearchResult, *, arm: str, seed: int, suite: str, batch: int, where: str = ""
) -> SearchRecord:
    """All that a study keeps of a search. `batch` is the number of replies in a round."""
    hidden = result.verified.best_hidden if result.verified else None
    before = result.verified.start_hidden if result.verified else None
    if result.best is None and result.start is not None and result.start.outcome is Outcome.FAILED:
        # Not one program ran, the start included: nothing is left to verify, and that is worth 0, not unknown.
        hidden = before = Summary(Outcome.FAILED, 0.0)
    return SearchRecord(
        arm=arm,
        seed=seed,
        suite=suite,
        task=task.name,
        family=family_of(task),
        stop=result.stop.value,
        start=result.start.fitness if result.start else None,
        best=result.best.fitness if result.best else None,
        hidden_start=before.fitness if before else None,
        hidden_best=hidden.fitness if hidden else None,
        hidden_right=_right(hidden),
        hidden_speedup=hidden.speedup if hidden else None,
        evaluations=int(result.spent["evaluations"]),
        tokens=int(result.spent["tokens"]),
        cpu_s=60 * result.spent["cpu_minutes"],
        wall_s=60 * result.spent["minutes"],
        steps=steps_of(run, batch=batch),
        run=where,
        digest=run.digest(kinds=("candidate",)),
    )


def steps_of(run: Run, *, batch: int) -> tuple[Step, ...]:
    """The committed steps beyond the start, in order."""
    sketches: dict[str, tuple[int, ...]] = {}
    fitness: dict[str, float | None] = {}
    steps: list[Step] = []
    evaluations = 0
    for event in run.events(kinds=("candidate",)):
        candidate = Candidate.from_dict(event.step or 0, event.payload)
        evaluations += int(candidate.charged.get("evaluations", 0))
        if candidate.program is not None:
            fitness.setdefault(candidate.program, _fitness(candidate.evaluation))
            if candidate.traits is not None:
                sketches.setdefault(candidate.program, unpacked(candidate.traits.sketch))
        if candidate.step > 0:
            steps.append(_step(run, candidate, sketches, fitness, evaluations, batch))
    return tuple(steps)


def _step(
    run: Run,
    candidate: Candidate,
    sketches: Mapping[str, tuple[int, ...]],
    fitness: Mapping[str, float | None],
    evaluations: int,
    batch: int,
) -> Step:
    parent, child = candidate.decision.parent, candidate.program or ""
    copy = candidate.rejection is Rejection.UNCHANGED or (bool(child) and child == parent)
    known = child in sketches and parent in sketches
    reply = run.completion(f"step-{candidate.step}") if candidate.decision.edit in MODEL_EDITS else None
    logprobs = (reply or {}).get("logprobs")
    return Step(
        round=(candidate.step - 1) // batch + 1,
        edit=candidate.decision.edit.value,
        program=child,
        fitness=_fitness(candidate.evaluation),
        parent_fitness=fitness.get(parent),
        rejection=candidate.rejection.value if candidate.rejection else "",
        copy=copy,
        duplicate=candidate.duplicate or copy,
        distance=0.0 if copy else round(distance(sketches[child], sketches[parent]), 4) if known else None,
        evaluations=evaluations,
        tokens=int((reply or {}).get("completion_tokens", 0)),
        surprise=round(-sum(logprobs), 4) if logprobs else None,
    )


def _fitness(summary: Summary | None) -> float | None:
    return None if summary is None or summary.outcome is Outcome.UNMEASURED else summary.fitness


def _right(hidden: Summary | None) -> bool | None:
    if hidden is None or hidden.outcome is Outcome.UNMEASURED:
        return None
    return hidden.outcome is Outcome.SCORED and (hidden.correctness is None or hidden.correctness >= 1.0)
