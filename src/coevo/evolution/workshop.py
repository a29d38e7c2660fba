"""Takes a decided step to the point where it can commit: ask the model, make the proposal, measure the program.

Whatever arrives is stored at once, in the transaction of whoever handles it, so that nothing paid for is lost; after a
resume the stored replies and evaluations answer in place of models and judges.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from coevo.errors import CoevoError, InfrastructureError
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.desk import Answer, ModelDesk
from coevo.evolution.flight import Flight, Measuring
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.records import Decision
from coevo.evolution.shelf import Shelf, payload, restored
from coevo.evolution.state import State
from coevo.evolution.types import Attempt, Context, Edit, Proposal, Rejection
from coevo.evolution.worker import Made, Order, measure, propose, unmeasured
from coevo.models.ensemble import Ensemble
from coevo.models.record import from_payload, to_payload
from coevo.models.types import Completion, Message, Request, StopReason
from coevo.programs import Program
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.tasks.types import Task

Handler = Callable[[], None]

GATHER_S = 0.002
"""How long arrivals are gathered before they are handled, in one transaction: a commit costs as much as a step's rows."""

_NO_PROPOSAL = {StopReason.FAILED: Rejection.MODEL_FAILED, StopReason.REFUSAL: Rejection.REFUSAL}


class Workshop:
    """Everything around the pure core. Handlers of arrivals run on the driver's thread, when it takes them."""

    def __init__(self, task: Task, run: Run, pool: Pool, models: Ensemble | None, state: State, *, seed: int) -> None:
        self._task, self._run, self._pool, self._state = task, run, pool, state
        self._seed = seed
        self._view = TaskView.of(task.config)
        self._outbox: list[tuple[Callable[[Future[Any]], None], Callable[..., Any], tuple[Any, ...]]] = []
        self._arrivals: queue.SimpleQueue[Handler] = queue.SimpleQueue()
        self._measuring: dict[str, Measuring] = {}
        self.shelf = Shelf(run, seed=seed)
        self.desk = ModelDesk(
            models, seed=state.config.seed, at_once=max(state.batch, state.config.ahead), sink=self._answered
        )
        self._flights: dict[str, Flight] = {}
        """Those that wait for a model, by the key of their request."""
        self.model_error: CoevoError | None = None
        """Why no request to a model can succeed any more."""
        self.may_be_stored = False
        """After a resume: look for stored replies and evaluations first."""

    def arrived(self, timeout: float) -> list[Handler]:
        """Everything that has arrived, to be handled in this order; waits up to `timeout` seconds for the first, and a moment
        for more."""
        found: list[Handler] = []
        try:
            found.append(self._arrivals.get(timeout=timeout))
            time.sleep(GATHER_S)
            while True:
                found.append(self._arrivals.get_nowait())
        except queue.Empty:
            return found

    def dispatch(self) -> None:
        """Send off all work that was decided on. Called between transactions: work starts when its reservation is stored,
        and what is stored does not wait for work."""
        self.desk.send()
        outbox, self._outbox = self._outbox, []
        for handle, fn, args in outbox:
            future = self._pool.submit(fn, *args)
            future.add_done_callback(lambda done, handle=handle: self._arrivals.put(partial(handle, done)))

    def ask(self, decision: Decision) -> tuple[Request, dict[str, float]]:
        """The request of a model step, and what it may cost. Raises `UsageError` when its prompt cannot be short enough."""
        context = Context(
            parent=self.shelf.attempt(decision.parent),
            inspirations=self.shelf.attempts(decision.others),
            history=self.shelf.worst_first(decision.history),
            rejected=decision.rejected,
        )

        def build(max_chars: int) -> tuple[Message, ...]:
            return build_messages(self._view, context, style=decision.edit, max_chars=max_chars)

        return self.desk.request(decision.model, decision.step, build, self._state.config.prompt_chars)

    def launch(self, flight: Flight) -> None:
        """Take a decided step up. Its work starts with `dispatch`."""
        request = flight.request
        if request is None:
            if flight.made is None:
                self._propose(flight, "")
            return
        stored = self._run.completion(request.key) if self.may_be_stored else None
        if stored is not None:
            self._replied(flight, from_payload(stored))
        else:
            self._flights[request.key] = flight
            self.desk.queue(flight.decision.model, request)

    def committed(self, flight: Flight) -> None:
        """Forget a step; make the run hold the text that this step, the first, gave its program."""
        work = flight.measuring
        if work is None or work.evaluation is None:
            return
        if work.replace and flight.step == work.owner:
            self._run.put_program(work.program, replace=True)
            self._store_evaluation(work.evaluation, replace=True)
        elif work.evaluation.outcome is Outcome.UNMEASURED:
            self._run.put_program(work.program)
        work.waiting.remove(flight)
        if not work.waiting and self._measuring.get(work.program.id) is work:
            del self._measuring[work.program.id]

    # Replies

    def _answered(self, answers: Sequence[Answer], error: CoevoError | None) -> None:
        """Called on a thread of the desk."""
        self._arrivals.put(partial(self._store_answers, answers, error))

    def _store_answers(self, answers: Sequence[Answer], error: CoevoError | None) -> None:
        """Store a group's replies, all or none: a batched model must see the same group again."""
        self.model_error = error or self.model_error
        for request, completion in answers:
            flight = self._flights.pop(request.key)
            self._run.put_completion(request.key, to_payload(completion, request))
            self._run.append("reply", {"key": request.key}, step=flight.step)
            self._replied(flight, completion)

    def _replied(self, flight: Flight, completion: Completion) -> None:
        flight.completion = completion
        rejection = _NO_PROPOSAL.get(completion.stop_reason)
        if rejection is None:
            self._propose(flight, completion.text)
            return
        if rejection is Rejection.REFUSAL:
            detail = "The last reply declined the task. Answer with code."
        else:
            detail = completion.error or "the model gave no reply"
        flight.made = Made(Proposal(flight.decision.edit, None, rejection, detail), None)

    # Proposals

    def _propose(self, flight: Flight, reply: str) -> None:
        """Have the child made. A worker gets the parent, and for `splice` the second one: what a model saw it need not see."""
        decision = flight.decision
        if decision.edit is Edit.START:
            context = Context(Attempt(self._task.start, None))
        else:
            others = decision.others[:1] if decision.edit is Edit.SPLICE else ()
            context = Context(self.shelf.attempt(decision.parent), self.shelf.attempts(others))
        seed = stream_seed(self._state.config.seed, "operator", decision.step)
        order = Order(decision.edit, context, reply, decision.offsets, seed)
        self._submit(partial(self._proposed, flight), propose, order)

    def _proposed(self, flight: Flight, future: Future[Made]) -> None:
        try:
            flight.made = future.result()
        except InfrastructureError as e:
            flight.trouble = f"no proposal could be made: {e}"
            return
        program = flight.made.proposal.program
        if program is None:
            return
        if self._state.first_seen(program.id) is not None:
            flight.earlier = self.shelf.summary(program.id)
            if flight.earlier is not None:
                return
        self._measure(flight, program)

    # Evaluations

    def _measure(self, flight: Flight, program: Program) -> None:
        """Measure a program once for all steps in flight that made it, by the text of the first of them."""
        work = self._measuring.get(program.id)
        if work is None:
            work = self._begin(Measuring(program, flight.step))
        elif flight.step < work.owner and program.files != work.program.files:
            waiting, work = work.waiting, self._begin(Measuring(program, flight.step))
            for other in waiting:
                work.join(other)
        work.join(flight)

    def _begin(self, work: Measuring) -> Measuring:
        """Have a program measured, unless the run holds its evaluation already."""
        self._measuring[work.program.id] = work
        if self.may_be_stored:
            row = self._run.evaluation(work.program.id, split="public", seed=self._seed)
            if row is not None and self._run.program(work.program.id).files == work.program.files:
                work.evaluation = restored(row)
                self.shelf.remember(work.program, work.evaluation)
                return work
        self._submit(partial(self._measured, work), measure, work.program, "public", self._seed)
        return work

    def _measured(self, work: Measuring, future: Future[Evaluation]) -> None:
        try:
            evaluation = future.result()
        except InfrastructureError as e:
            evaluation = unmeasured(self._task, work.program, "public", self._seed, str(e))
        if self._measuring.get(work.program.id) is not work:
            return
        work.evaluation = evaluation
        if evaluation.outcome is Outcome.UNMEASURED:
            return
        self.shelf.remember(work.program, evaluation)
        if self._store_evaluation(evaluation):
            self._run.put_program(work.program)
            self._run.append("evaluated", {"program": work.program.id})
        else:
            work.replace = True

    def _store_evaluation(self, evaluation: Evaluation, *, replace: bool = False) -> bool:
        return self._run.put_evaluation(
            evaluation.program_id,
            split=evaluation.split,
            seed=evaluation.seed,
            payload=payload(evaluation),
            replace=replace,
        )

    def _submit(self, handle: Callable[[Future[Any]], None], fn: Callable[..., Any], *args: Any) -> None:
        self._outbox.append((handle, fn, args))
