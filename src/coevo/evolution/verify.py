"""The end of a search: which program is best, and what it is worth on tests that the search never saw.

Selection and reporting do not share data. The best program and the start are judged on the hidden split with one seed
drawn for this purpose, so the verified gain is paired. Where fitness is timed, and so noisy, the leaders are first
measured again on a fresh seed, and the best of those counts: the luckiest of many noisy values would not be the best.
These evaluations are not charged to the budget, which bounds the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from concurrent.futures import Future

from coevo.errors import InfrastructureError
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation
from coevo.evolution.archive import Member
from coevo.evolution.bandit import table
from coevo.evolution.records import Summary
from coevo.evolution.result import SearchResult, Stop, Verified
from coevo.evolution.shelf import Shelf, payload
from coevo.evolution.state import State
from coevo.evolution.worker import measure, unmeasured
from coevo.programs import Program
from coevo.runs import Run
from coevo.runs import State as RunState
from coevo.streams import stream_seed
from coevo.tasks.types import Split, Task

_ENDED = {
    Stop.STEPS: "all steps were made",
    Stop.BUDGET: "the budget is spent",
    Stop.TARGET: "the target was reached",
    Stop.STALL: "nothing new to evaluate was found for too long",
    Stop.INTERRUPTED: "stopped by request",
    Stop.MODEL_DOWN: "the model gives no replies",
    Stop.MACHINE: "programs cannot be measured",
}


def verification_seed(seed: int) -> int:
    """The seed of the final judgement, for a search of this seed: drawn for nothing else."""
    return stream_seed(seed, "verify") % 2**31


def finish(task: Task, run: Run, pool: Pool, state: State, shelf: Shelf, *, stop: Stop, cause: str) -> SearchResult:
    """Verify (unless the search was interrupted, or may not), mark the run, and say what was found.

    A run that had ended in the same state before is only read.
    """
    verified, fresh = None, False
    if state.config.verify and state.archive.best is not None and stop is not Stop.INTERRUPTED:
        verified = _recorded(run, state)
        if verified is None:
            verified, fresh = _verify(task, run, pool, state, shelf), True
    chosen = verified.program if verified else state.archive.best.id if state.archive.best else None
    message = f"{_ENDED[stop]} ({cause})" if cause else _ENDED[stop]
    finished = stop in (Stop.STEPS, Stop.TARGET)
    if fresh or run.state() is RunState.RUNNING:
        run.mark(RunState.FINISHED if finished else RunState.STOPPED, by=message)
    start = state.archive.start
    return SearchResult(
        stop=stop,
        message=message,
        steps=state.commits,
        evaluated=len(state.seen),
        start=start.evaluation if start else None,
        best_program=shelf.attempt(chosen).program if chosen else None,
        best_step=state.first_seen(chosen) if chosen else None,
        best=shelf.summary(chosen) if chosen else None,
        verified=verified,
        spent=run.ledger.spent(),
        proposers=table(state.bandit, sorted(state.bandit.arms)),
    )


def _recorded(run: Run, state: State) -> Verified | None:
    """The verification of exactly this state, if the run holds one."""
    found = None
    for event in run.events(kinds=("verified",)):
        found = Verified.from_dict(event.payload) if event.payload["commits"] == state.commits else None
    return found


def _verify(task: Task, run: Run, pool: Pool, state: State, shelf: Shelf) -> Verified:
    best, start = state.archive.best, state.archive.start
    assert best is not None and start is not None and start.program is not None
    seed = verification_seed(state.config.seed)
    remeasured: dict[str, float | None] = {}
    chosen = best.id
    if task.config.timing is not None:
        leaders = _leaders(state, state.config.verify_top)
        fresh = _measure(task, pool, [shelf.attempt(m.id).program for m in leaders], "public", seed)
        remeasured = {e.program_id: e.fitness for e in fresh}
        known = [e for e in fresh if e.fitness is not None]
        chosen = max(known, key=lambda e: e.fitness or 0.0).program_id if known else best.id
    programs = [shelf.attempt(name).program for name in dict.fromkeys((chosen, start.program))]
    hidden = {e.program_id: e for e in _measure(task, pool, programs, "hidden", seed)}
    search = shelf.summary(chosen)
    assert search is not None
    found = Verified(
        chosen, start.program, seed, Summary.of(hidden[chosen]), Summary.of(hidden[start.program]), search, remeasured
    )
    with run.transaction():
        run.append("verified", {**found.to_dict(), "commits": state.commits})
        for evaluation in hidden.values():
            run.put_evaluation(
                evaluation.program_id, split="hidden", seed=seed, payload=payload(evaluation), replace=True
            )
    return found


def _leaders(state: State, count: int) -> Sequence[Member]:
    """The best `count` different programs over all islands."""
    top = {m.id: m for island in state.archive.islands for m in map(island.at, range(min(count, len(island))))}
    return heapq.nsmallest(count, top.values(), key=lambda m: m.rank_key)


def _measure(task: Task, pool: Pool, programs: Sequence[Program], split: Split, seed: int) -> list[Evaluation]:
    """Evaluations in the order of `programs`; unmeasured where the machine fails."""
    futures: list[Future[Evaluation]] = [pool.submit(measure, program, split, seed) for program in programs]
    found: list[Evaluation] = []
    for program, future in zip(programs, futures, strict=True):
        try:
            found.append(future.result())
        except InfrastructureError as e:
            found.append(unmeasured(task, program, split, seed, str(e)))
    return found
