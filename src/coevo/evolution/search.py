"""The search: decide, propose, measure, commit.

One loop on one thread. Model requests run on threads, proposals and evaluations in a pool; whatever arrives is stored
at once, and steps commit in their order. State is a fold of committed steps, and decisions are functions of that state
and of streams named by their step: so workers, kills and resumes change when things happen, never what happens.
"""

from __future__ import annotations

import warnings
from collections import deque

from coevo.errors import BudgetSpent, ConfigError, InfrastructureError, UsageError
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Outcome
from coevo.evolution.decide import decide, weights_of
from coevo.evolution.flight import Flight
from coevo.evolution.interrupts import Interrupts
from coevo.evolution.records import Candidate
from coevo.evolution.result import Observer, Progress, SearchResult, Stop
from coevo.evolution.schedule import ready
from coevo.evolution.settings import MODEL_EDITS, SearchConfig
from coevo.evolution.state import State
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.evolution.verify import finish
from coevo.evolution.worker import Made
from coevo.evolution.workshop import Handler, Workshop
from coevo.models.ensemble import Ensemble
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.tasks.types import Task

POLL_S = 0.25
"""How often a waiting search looks whether it was asked to stop."""

UNMEASURED_IN_A_ROW = 12
"""Steps that the machine may fail to measure, one after another, before the search ends with an error."""


def search(
    task: Task,
    run: Run,
    *,
    pool: Pool,
    config: SearchConfig,
    models: Ensemble | None = None,
    observer: Observer | None = None,
) -> SearchResult:
    """Evolve `task`'s start program in `run` (new or resumed; open for writing) until something stops it.

    `pool` has a `Judge` of the task as each worker's state. Raises `ConfigError` for settings that cannot work with these
    models, `StoreError` when the run cannot be written, `TaskError` when the task's own judge fails.
    """
    driver = _Driver(task, run, pool, config, models, observer)
    with Interrupts(run.path) as interrupts:
        try:
            driver.loop(interrupts)
        finally:
            driver.workshop.desk.close()
        return finish(
            task, run, pool, driver.state, driver.workshop.shelf, stop=driver.stop or Stop.STEPS, cause=driver.cause
        )


class _Driver:
    def __init__(
        self, task: Task, run: Run, pool: Pool, config: SearchConfig, models: Ensemble | None, observer: Observer | None
    ) -> None:
        self.task, self.run, self.config, self.observer = task, run, config, observer
        self.state = State(config, run.ledger.budget.limits())
        seed = stream_seed(config.seed, "evaluation") % 2**31  # One for all candidates: they meet the same inputs.
        self.workshop = Workshop(task, run, pool, models, self.state, seed=seed)
        self.weights = self.workshop.desk.weights
        self.flights: dict[int, Flight] = {}
        self.next = self.last_at = 0
        self.waits_alone: int | None = None
        """A step that the budget did not allow beside what is in flight: decided when all before it have committed."""
        self.stop: Stop | None = None
        self.cause = ""
        self.unmeasured = 0
        if not weights_of(self.state, self.weights):
            raise ConfigError(
                f"the proposers of strategy {config.strategy!r} ({', '.join(config.proposers or {})}) all need a model; "
                "give one (--model SPEC), or set proposers to some of tune, mutate, splice"
            )
        if "usd" in self.state.purse.limits:
            self.workshop.desk.require_prices()

    def loop(self, interrupts: Interrupts) -> None:
        """Until nothing more is to be decided and nothing is in flight."""
        self._fold()
        arrived: list[Handler] = []
        while True:
            if self.stop is None and interrupts.requested():
                self.stop, self.cause = Stop.INTERRUPTED, interrupts.cause
            with self.run.transaction():
                for handle in arrived:
                    handle()
                self._decide_due()
                self._commit_ready()
            self.workshop.dispatch()
            if not self.flights:
                return
            arrived = self.workshop.arrived(POLL_S)

    def _fold(self) -> None:
        """Bring the state up to the last commit; what had not committed is decided again, at the same moments as before."""
        ahead: deque[Candidate] = deque()
        for event in self.run.events(kinds=("candidate",)):
            candidate = Candidate.from_dict(event.step or 0, event.payload)
            self.state.purse.hold(candidate.step, candidate.asked)
            self.last_at, self.next = candidate.decision.at, candidate.step + 1
            ahead.append(candidate)
            if len(ahead) > self.state.batch:
                self._apply(ahead.popleft())
        held = self.run.counts()
        self.workshop.may_be_stored = held["evaluations"] + held["completions"] > 0
        while ahead:
            with self.run.transaction():
                self._decide_due()
            self.workshop.dispatch()
            self._apply(ahead.popleft())

    def _apply(self, candidate: Candidate) -> None:
        """Fold one step in, and see whether that ends the search. What is in flight still commits then."""
        self.state.apply(candidate)
        if self.stop is None and self._on_target():
            self.stop = Stop.TARGET
        elif self.stop is None and self.config.stall is not None and self.state.stalled >= self.config.stall:
            self.stop = Stop.STALL

    def _on_target(self) -> bool:
        best, target = self.state.archive.best, self.config.target
        if best is None or target is None:
            return False
        if best.score is None:
            return best.fitness >= target
        return best.score >= target if self.task.config.direction == "max" else best.score <= target

    def _decide_due(self) -> None:
        """Decide every step whose moment has come; their model requests form groups."""
        while self.stop is None:
            if self.config.steps is not None and self.next > self.config.steps:
                if self.state.commits == self.next:
                    self.stop = Stop.STEPS
                break
            due = max(self.last_at, ready(self.next, self.config.schedule, self.state.batch))
            if self.waits_alone == self.next:
                due = self.next
            if self.state.commits < due or not self._begin(self.next):
                break
        self.workshop.desk.group()

    def _begin(self, step: int) -> bool:
        """Decide a step, reserve its budget, launch it. False when the budget does not allow it now, or at all."""
        decision = decide(self.state, step, self.weights)
        asked: dict[str, float] = {"evaluations": 1, "cpu_minutes": self._cpu_bound()}
        request = refused = None
        if decision.edit is not Edit.START:
            asked["proposals"] = 1
        if decision.edit in MODEL_EDITS:
            try:
                request, cost = self.workshop.ask(decision)
                asked |= cost
            except UsageError as e:
                if self._is_start(decision.parent):
                    raise
                refused = Made(Proposal(decision.edit, None, Rejection.TOO_LARGE, str(e)), None)
        try:
            self.state.purse.require(asked)
            ticket = self.run.ledger.reserve(decision.edit.value, step=step, **asked)
        except BudgetSpent as e:
            self.waits_alone = step
            if self.state.commits == step:
                self.stop, self.cause = Stop.BUDGET, str(e)
            return False
        self.state.purse.hold(step, asked)
        flight = self.flights[step] = Flight(decision, asked, ticket, request, made=refused)
        self.next, self.last_at = step + 1, decision.at
        self.workshop.launch(flight)
        return True

    def _is_start(self, program: str) -> bool:
        start = self.state.archive.start
        return start is not None and start.program == program

    def _cpu_bound(self) -> float:
        """CPU minutes that one evaluation may take by the task's limits."""
        executions = max(1, len(self.task.config.instances.get("public", ())))
        return self.task.config.limits.cpu_s * executions / 60

    def _commit_ready(self) -> None:
        """Commit in step order; after each, decide what was waiting for exactly that."""
        while (flight := self.flights.get(self.state.commits)) is not None and flight.done:
            self._commit(flight)
            self._decide_due()

    def _commit(self, flight: Flight) -> None:
        """One step becomes part of the run: event, rows and ledger in one transaction."""
        candidate = flight.candidate(self.state)
        best = self.state.archive.best
        with self.run.transaction():
            self.run.append("candidate", candidate.to_dict(), step=flight.step)
            self.run.ledger.settle(flight.ticket, **candidate.charged)
            self.workshop.committed(flight)
        del self.flights[flight.step]
        self._apply(candidate)
        self._watch(candidate)
        self._report(candidate, improved=self.state.archive.best is not best)

    def _watch(self, candidate: Candidate) -> None:
        """End the search when the model is down or the machine cannot measure: those are errors, not results."""
        summary = candidate.evaluation
        lost = summary is None and candidate.rejection is None
        if lost or (summary is not None and summary.outcome is Outcome.UNMEASURED):
            self.unmeasured += 1
            reason = candidate.detail if summary is None else summary.reason
            if candidate.step == 0:
                raise InfrastructureError(f"the start program could not be measured: {reason}")
            if self.unmeasured >= UNMEASURED_IN_A_ROW and self.stop is None:
                self.stop = Stop.MACHINE
                self.cause = f"{self.unmeasured} steps in a row could not be measured; the last: {reason}"
        elif summary is not None:
            self.unmeasured = 0
        if self.stop is None and self.workshop.model_error is not None:
            self.stop, self.cause = Stop.MODEL_DOWN, str(self.workshop.model_error)
        elif self.stop is None and self.state.failed_replies >= self.config.model_failures:
            self.stop = Stop.MODEL_DOWN
            self.cause = f"{self.state.failed_replies} requests in a row got no reply; the last: {candidate.detail}"

    def _report(self, candidate: Candidate, *, improved: bool) -> None:
        if self.observer is None:
            return
        best = self.state.archive.best
        progress = Progress(
            candidate=candidate,
            improved=improved,
            best_fitness=best.fitness if best else None,
            best_score=best.score if best else None,
            commits=self.state.commits,
            in_flight=len(self.flights),
            population=len(self.state.archive),
            ledger=self.run.ledger,
        )
        try:
            self.observer(progress)
        except Exception as e:
            warnings.warn(f"progress is no longer shown: {type(e).__name__}: {e}", stacklevel=2)
            self.observer = None
