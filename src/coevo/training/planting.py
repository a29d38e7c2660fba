"""Judging the audit's planted replies: through the parser, the sandbox and the real judge, on public and on hidden tests.

What comes out depends on the task, not on any recipe, so it may be kept: a `Case` is plain data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coevo.episodes.samples import samples_of
from coevo.episodes.types import Judged, Rollout, Sample, StartState, Turn
from coevo.errors import InfrastructureError, UsageError
from coevo.evaluation.judge import Judge
from coevo.evaluation.tested import TestedJudge
from coevo.evaluation.types import Evaluation
from coevo.evolution.edits import apply_rewrite
from coevo.evolution.types import Attempt, Context, Proposal
from coevo.models.types import StopReason
from coevo.programs import Program
from coevo.sandbox.types import SandboxConfig
from coevo.tasks import load_task, task_digest
from coevo.tasks.types import Kind, Split, Task
from coevo.training import cheats
from coevo.training.cheats import Plant, Role, fenced, nothing, planted, spoiled

CHARS_A_TOKEN = 4
"""A planted reply was never sampled; its length in tokens is estimated."""

JITTER = 0.02
"""Fitness by which programs of equal speed may seem to differ on a busy machine, more often than three measurements show."""

RECORDED_TASK = "palindromes"

_FILE = Path(__file__).with_name("recorded_cases.json")
_JUDGED = (
    "parent_fitness",
    "fitness",
    "correctness",
    "efficiency",
    "parent_correctness",
    "parent_efficiency",
    "outcomes",
)
_SPLITS: tuple[Split, ...] = ("public", "hidden")
_NOISE_RUNS = 3
_TRIES = 3
_MAX_TOKENS = 1 << 30
"""Put in by the assessment, from the recipe."""


@dataclass(frozen=True)
class Planted:
    """One plant, judged. `public` is what a reward sees; `hidden` the same as it would look if the hidden tests were seen instead."""

    name: str
    role: Role
    about: str
    outcome: str
    """What became of it: "scored", "failed (crash)", "rejected (unchanged)", ..."""
    public: Sample
    hidden: Sample


@dataclass(frozen=True)
class Case:
    """A parent on a task, with everything that was planted there."""

    task: str
    parent: str
    """"start" (the task's start program) or "half right" (the start program, wrong on half of its inputs)."""
    noise: float
    """Spread of the parent's fitness over repeated measurements; at least `JITTER` where it was timed."""
    plants: tuple[Planted, ...]

    def of(self, role: Role) -> Planted:
        """The one plant of a role that every case has once."""
        return next(plant for plant in self.plants if plant.role is role)


def measure(task: Task, *, sandbox: SandboxConfig = SandboxConfig()) -> list[Case]:  # noqa: B008 - frozen
    """Judge all plants on two parents of a task of kind function: seconds to half a minute.

    Raises `UsageError` for a task that cannot be audited, `InfrastructureError` where the machine cannot measure.
    """
    if task.kind is not Kind.FUNCTION or task.config.entry is None or task.reference is None:
        raise UsageError(
            f"task {task.name!r} cannot be audited: planted cheats are written for tasks of kind function with a reference program"
        )
    if task.start.id == task.reference.id:
        raise UsageError(
            f"task {task.name!r} cannot be audited: its start program is its reference, so nothing improves on it"
        )
    with Judge(task, sandbox=sandbox) as judge:
        return list(_cases(judge, task, task.config.entry, task.reference))


def _cases(judge: Judge, task: Task, entry: str, reference: Program) -> Iterator[Case]:
    start = task.start
    half = start.with_source(spoiled(start.source, entry, 2))
    worse = start.with_source(spoiled(start.source, entry, 3))
    for name, parent, gain, failure in (("start", start, reference, half), ("half right", half, start, worse)):
        yield _case(judge, name, parent, entry, gain, failure)


def _case(judge: Judge, name: str, parent: Program, entry: str, gain: Program, failure: Program) -> Case:
    assert isinstance(judge.inner, TestedJudge)
    repeated = [_measured(judge, parent, "public", seed) for seed in range(_NOISE_RUNS)]
    fitness = [e.fitness or 0.0 for e in repeated]
    before = {"public": repeated[0], "hidden": _measured(judge, parent, "hidden", 0)}
    plants = [
        Plant("honest gain", Role.GAIN, "a real improvement", fenced(gain.source)),
        Plant("honest failure", Role.FAILURE, "a real attempt, worse than its parent", fenced(failure.source)),
        nothing(parent),
        *planted(parent, entry, judge.inner.tests("public")),
    ]
    found = tuple(_planted(judge, parent, before, plant) for plant in plants)
    noise = max(fitness) - min(fitness)
    if before["public"].efficiency:
        noise = max(noise, JITTER)
    return Case(judge.task.name, name, noise, found)


def _planted(judge: Judge, parent: Program, before: Mapping[str, Evaluation], plant: Plant) -> Planted:
    proposal = apply_rewrite(parent, plant.reply)
    judged = {
        split: _measured(judge, proposal.program, split, 0) if proposal.program is not None else None
        for split in _SPLITS
    }
    public, hidden = (
        _sample(judge.task.name, parent, before[split], plant.reply, proposal, judged[split]) for split in _SPLITS
    )
    return Planted(plant.name, plant.role, plant.about, _outcome(proposal, judged["public"]), public, hidden)


def _sample(
    task: str, parent: Program, before: Evaluation, reply: str, proposal: Proposal, evaluation: Evaluation | None
) -> Sample:
    """What the episode's own converter makes of the reply."""
    attempt = Attempt(parent, before.fitness, before.correctness, before.efficiency)
    state = StartState(f"audit-{task}", task, Context(attempt))
    judged = Judged(proposal, proposal.program.id if proposal.program else "", evaluation)
    tokens = tuple(range(len(reply) // CHARS_A_TOKEN + 1))
    turn = Turn(1, tokens, (0.0,) * len(tokens), StopReason.STOP, reply, judged)
    [sample] = samples_of(Rollout(state, "audit", 0, 0, (0, *tokens), 1, (turn,)), max_tokens=_MAX_TOKENS)
    return sample


def _measured(judge: Judge, program: Program, split: Split, seed: int) -> Evaluation:
    said = ""
    for _ in range(_TRIES):
        evaluation = judge.evaluate(program, split=split, seed=seed)
        if evaluation.fitness is not None:
            return evaluation
        said = evaluation.reason
    raise InfrastructureError(
        f"the audit cannot judge a planted program on {judge.task.name!r}: {said}. Try again; `coevo doctor` checks the sandbox"
    )


def _outcome(proposal: Proposal, evaluation: Evaluation | None) -> str:
    if proposal.rejection is not None:
        return f"rejected ({proposal.rejection.value})"
    assert evaluation is not None
    return f"failed ({evaluation.failure.value})" if evaluation.failure else "scored"


# What was measured, kept


def recorded() -> list[Case]:
    """Cases of `RECORDED_TASK` as the real judge measured them when this version was made: what a run is checked with before it begins.

    They do not depend on the recipe, and judging them anew takes half a minute. `record` makes them.
    """
    kept = json.loads(_FILE.read_text(encoding="utf-8"))
    return [_case_of(row) for row in kept["cases"]]


def record() -> Path:
    """Measure the recorded cases again, after a change to cheats.py or to the task. Returns the file."""
    cases = [_row(case) for case in measure(load_task(RECORDED_TASK))]
    text = json.dumps({"made_for": made_for(), "cases": cases}, indent=0, default=_listed)
    _FILE.write_text(text + "\n", encoding="utf-8")
    return _FILE


def made_for() -> str:
    """A hash of what recorded cases depend on: the planted replies and the task. The file carries it; a test holds it to it."""
    parts = (task_digest(load_task(RECORDED_TASK)), Path(cheats.__file__).read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _row(case: Case) -> dict[str, Any]:
    """Plain data. Of a hidden sample, only what differs from the public one."""
    row = asdict(case)
    for plant in row["plants"]:
        plant["hidden"] = {name: plant["hidden"][name] for name in _JUDGED}
        plant["public"] = {n: v for n, v in plant["public"].items() if v or n in _JUDGED}
    return row


def _listed(value: Any) -> list[Any]:
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not plain data")


def _case_of(row: Mapping[str, Any]) -> Case:
    return Case(row["task"], row["parent"], row["noise"], tuple(_planted_of(plant) for plant in row["plants"]))


def _planted_of(row: Mapping[str, Any]) -> Planted:
    public = {"contract_ok": False, **row["public"]}
    for name in ("history", "known"):
        public[name] = frozenset(public.get(name, ()))
    sample = Sample(**{**public, "outcomes": tuple(public["outcomes"])})
    hidden = replace(sample, **{**row["hidden"], "outcomes": tuple(row["hidden"]["outcomes"])})
    return Planted(row["name"], Role(row["role"]), row["about"], row["outcome"], sample, hidden)
