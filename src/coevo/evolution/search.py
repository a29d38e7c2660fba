"""The search: decide, propose, measure, commit.

One loop on one thread. Model requests run on threads, proposals and evaluations in a pool; whatever arrives is stored
at once, and steps commit in their order. State is a fold of committed steps, and decisions are functions of that state
and of streams named by their step: so workers, kills and resumes change when things happen, never what happens.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque

from coevo.errors import BudgetSpent, ConfigError, InfrastructureError, UsageError
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Outcome
from coevo.evolution.decide import decide, in_lane, weights_of
from coevo.evolution.flight import Flight
from coevo.evolution.interrupts import Interrupts
from coevo.evolution.records import Candidate
from coevo.evolution.result import Observer, Progress, SearchResult, Stop
from coevo.evolution.schedule import early_block, ready
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

GRACE_S = 15.0
"""How long a search that was asked to stop, or whose minutes are spent, waits for what is in flight. What comes later is
decided again when the run goes on."""

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
        self.early_at = 0
        """Commits at which model steps were last decided early."""
        self.leave_at = math.inf
        """When not to wait any longer for what is in flight (`time.monotonic`)."""
        self.waits_alone: int | None = None
        """A step that the budget did not allow beside what is in flight: decided when all before it have committed."""
        self.too_dear = ""
        """What the budget last did not allow."""
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
            self._look_at_clock(interrupts)
            with self.run.transaction():
                for handle in arrived:
                    handle()
                self._decide_due()
                self._commit_ready()
            self.workshop.dispatch()
            if not self.flights or self._over():
                return
            arrived = self.workshop.arrived(POLL_S)

    def _look_at_clock(self, interrupts: Interrupts) -> None:
        """Stop, with a grace for what is in flight, when asked to or when the minutes are spent."""
        if self.stop is not None:
            return
        if interrupts.requested():
            self.stop, self.cause = Stop.INTERRUPTED, interrupts.cause
        elif self.run.ledger.remaining()["minutes"] == 0:
            self.stop, self.cause = Stop.BUDGET, f"its {self.run.ledger.budget.minutes:g} minutes are over"
        if self.stop is not None:
            self.leave_at = time.monotonic() + GRACE_S

    def _over(self) -> bool:
        """Whether to leave what is still in flight: it cannot commit any more, or the grace is over."""
        if self.stop is None or (self.state.commits in self.flights and time.monotonic() < self.leave_at):
            return False
        with self.run.transaction():
            for flight in self.flights.values():
                # A reply that was asked for may have been charged. The steps themselves are decided again on resume.
                usd = flight.completion.cost_usd if flight.completion else flight.asked.get("usd", 0.0)
                self.run.ledger.settle(
                    flight.ticket, **(dict.fromkeys(flight.asked, 0.0) | ({"usd": usd} if usd else {}))
                )
        return True

    def _fold(self) -> None:
        """Bring the state up to the last commit; what had not committed is decided again, at the same moments as before."""
        ahead: deque[Candidate] = deque()
        for event in self.run.events(kinds=("candidate",)):
            candidate = Candidate.from_dict(event.step or 0, event.payload)
            self.state.purse.hold(candidate.step, candidate.asked)
            self.last_at, self.next = max(self.last_at, candidate.decision.at), candidate.step + 1
            ahead.append(candidate)
            if len(ahead) > self.state.batch + 2 * self.config.ahead:
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
        if self.stop is None and self.state.commits > self.early_at:
            self.early_at = self.state.commits
            self._decide_early()
        while self.stop is None and self._decide_next():
            pass
        self.workshop.desk.group()

    def _decide_next(self) -> bool:
        """Decide the next step, if its moment has come and the budget allows it."""
        if self.config.steps is not None and self.next > self.config.steps:
            if self.state.commits == self.next:
                self.stop = Stop.STEPS
            return False
        if self.next in self.flights:
            self.next += 1
            return True
        due = max(self.last_at, ready(self.next, self.config.schedule, self.state.batch))
        if self.waits_alone == self.next:
            due = self.next
        if self.state.commits < due:
            return False
        if not self._begin(self.next):
            self.waits_alone = self.next
            if self.state.commits == self.next:
                self.stop, self.cause = Stop.BUDGET, self.too_dear
            return False
        self.next, self.last_at = self.next + 1, self.state.commits
        return True

    def _decide_early(self) -> None:
        """Decide the model steps of a block that lies ahead, as far as the budget allows them and all steps before them."""
        everyone = weights_of(self.state, self.weights)
        for step in early_block(self.state.commits, self.config.ahead):
            if step < self.next or step in self.flights or (self.config.steps is not None and step > self.config.steps):
                continue
            lane = in_lane(self.state, step, everyone)
            if len(lane) == len(everyone) or not all(Edit(name) in MODEL_EDITS for name in lane):
                continue
            between = sum(1 for other in range(self.next, step) if other not in self.flights)
            if not self._begin(step, between=between):
                return

    def _begin(self, step: int, *, between: int = 0) -> bool:
        """Decide a step, reserve its budget, launch it. False when the budget does not allow it (`too_dear` says why), with as
        many operators' steps `between` that are still to be decided."""
        decision = decide(self.state, step, self.weights)
        plain: dict[str, float] = {"evaluations": 1, "cpu_minutes": self._cpu_bound()}
        if decision.edit is not Edit.START:
            plain["proposals"] = 1
        asked, request, refused = dict(plain), None, None
        if decision.edit in MODEL_EDITS:
            try:
                request, cost = self.workshop.ask(decision)
                asked |= cost
            except UsageError as e:
                if self._is_start(decision.parent):
                    raise
                refused = Made(Proposal(decision.edit, None, Rejection.TOO_LARGE, str(e)), None)
        try:
            self.state.purse.require(asked | {name: (between + 1) * amount for name, amount in plain.items()})
            ticket = self.run.ledger.reserve(decision.edit.value, step=step, **asked)
        except BudgetSpent as e:
            self.too_dear = str(e)
            return False
        self.state.purse.hold(step, asked)
        flight = self.flights[step] = Flight(decision, asked, ticket, request, made=refused)
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
