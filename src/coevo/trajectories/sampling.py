"""Answers to tasks: asked of a model or read from files, parsed, executed, stored.

One thread drives. Steps are numbered: every task's start program, then every sample, then every row of a file. Replies and
evaluations are stored when they arrive, programs in the order of their steps (so that of equal programs the first step's text
is the one kept), and steps commit in order. What a step does depends on its number and on stored values alone: a killed
synthesis goes on to the same rows.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from coevo.episodes.desk import read, trouble
from coevo.errors import BudgetSpent, CoevoError, InfrastructureError, ModelError, UsageError
from coevo.evaluation.judges import deadline_s, measure
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.desk import Answer as Answered
from coevo.evolution.desk import ModelDesk
from coevo.evolution.interrupts import Interrupts
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.shelf import Shelf, payload, restored
from coevo.evolution.types import Context, Edit, Proposal, Rejection
from coevo.evolution.worker import unmeasured
from coevo.models.ensemble import Ensemble
from coevo.models.record import from_payload, to_payload
from coevo.models.types import Completion, Message, Request, StopReason
from coevo.programs import Program
from coevo.runs import Run, Ticket
from coevo.runs.types import OverBudget
from coevo.streams import stream
from coevo.tasks.types import Task
from coevo.trajectories.found import EVENT, fold, task_seed
from coevo.trajectories.plans import Plan, Plans
from coevo.trajectories.settings import SynthConfig

POLL_S = 0.25
GRACE_S = 15.0
"""How long what is in flight is waited for when asked to stop."""

UNMEASURED_IN_A_ROW = 12

_NO_PROPOSAL = {StopReason.FAILED: Rejection.MODEL_FAILED, StopReason.REFUSAL: Rejection.REFUSAL}

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many are done, and how many there are (0 where that is not known)."""


@dataclass(eq=False)
class Judging:
    """One evaluation, shared by all steps in flight with the same program of the same task."""

    evaluation: Evaluation | None = None


@dataclass(eq=False)
class Item:
    """One step on its way."""

    plan: Plan
    asked: Mapping[str, float]
    ticket: Ticket
    origin: str = ""
    """Who answered."""
    completion: Completion | None = None
    proposal: Proposal | None = None
    judging: Judging | None = None
    trouble: str = ""

    @property
    def parsed(self) -> bool:
        return self.proposal is not None or bool(self.trouble)

    @property
    def done(self) -> bool:
        if self.trouble or (self.proposal is not None and self.proposal.program is None):
            return True
        return self.judging is not None and self.judging.evaluation is not None


class Sampler:
    """Brings a run's answers to their end, or to the end of the budget."""

    def __init__(
        self,
        run: Run,
        tasks: Sequence[Task],
        config: SynthConfig,
        *,
        pool: Pool,
        models: Ensemble | None = None,
        answers: Sequence[Path] = (),
        progress: Progress | None = None,
    ) -> None:
        self.run, self.tasks, self.config, self.pool = run, tasks, config, pool
        self.found = fold(run)
        self.budget_spent = ""
        """What the budget did not allow any more."""
        self.interrupted = ""
        self._progress = progress or (lambda *_: None)
        self._arrivals: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._desk = ModelDesk(models, seed=config.seed, at_once=2 * config.batch, sink=self._answered)
        self.plans = Plans(tasks, config, asks=bool(self._desk.weights), files=answers)
        self._items: deque[Item] = deque()
        self._waiting: dict[str, Item] = {}
        self._judging: dict[tuple[int, str], Judging] = {}
        self._outbox: list[tuple[Callable[[Future[Any]], None], Callable[..., Any], tuple[Any, ...], float]] = []
        self._turn = 0
        """How many of the items in flight have been admitted to judging."""
        self._model_error: CoevoError | None = None
        self._no_reply = self._lost = 0
        if run.ledger.budget.usd is not None:
            self._desk.require_prices()

    def go(self) -> None:
        """All steps. Raises `ModelError` when the models are down, `InfrastructureError` when the machine measures nothing;
        the run can be resumed after either."""
        try:
            with Interrupts(self.run.path) as interrupts:
                for name, plans, total in self.plans.phases():
                    self._work(name, plans, total, interrupts)
                    if self.interrupted or self.budget_spent:
                        return
        finally:
            self._desk.close()

    # The loop

    def _work(self, name: str, plans: Iterator[Plan], total: int, interrupts: Interrupts) -> None:
        blocks = (list(group) for _, group in groupby(plans, key=lambda plan: plan.step // self.config.batch))
        backlog: deque[Plan] = deque()
        done, leave_at = 0, float("inf")
        exhausted = False
        while True:
            if not self.interrupted and interrupts.requested():
                self.interrupted, leave_at = interrupts.cause, time.monotonic() + GRACE_S
            stopping = bool(self.interrupted or self.budget_spent)
            with self.run.transaction():
                while not stopping and not exhausted and not backlog and len(self._items) <= self.config.batch:
                    block = next(blocks, None)
                    exhausted = block is None
                    new = [plan for plan in block or () if plan.step > self.found.last]
                    done += len(block or ()) - len(new)
                    backlog.extend(new)
                while backlog and not stopping and self._begin(backlog[0]):
                    backlog.popleft()
                self._desk.group()
                self._admit()
                done += self._commit()
            self._dispatch()
            self._progress(name, done, total)
            if self._model_error is not None:
                raise ModelError(
                    f"{self._model_error}. What was answered is kept; `coevo resume {self.run.path}` goes on"
                )
            if not self._items and (stopping or (exhausted and not backlog)):
                return
            if time.monotonic() > leave_at:
                self._leave()
                return
            if self._items and not self._items[0].done:
                self._take(POLL_S)

    def _take(self, timeout: float) -> None:
        """Handle what has arrived, waiting for the first of it."""
        handlers: list[Callable[[], None]] = []
        try:
            handlers.append(self._arrivals.get(timeout=timeout))
            while True:
                handlers.append(self._arrivals.get_nowait())
        except queue.Empty:
            pass
        with self.run.transaction():
            for handle in handlers:
                handle()

    def _leave(self) -> None:
        """Drop what is in flight; what was asked of endpoints may have been charged."""
        with self.run.transaction():
            for item in self._items:
                usd = item.completion.cost_usd if item.completion else item.asked.get("usd", 0.0)
                self.run.ledger.settle(item.ticket, **(dict.fromkeys(item.asked, 0.0) | ({"usd": usd} if usd else {})))
        self._items.clear()

    # One step: begin, reply, parse, judge, commit

    def _begin(self, plan: Plan) -> bool:
        """Reserve a step's budget and take it up; False when the budget does not allow it (yet)."""
        asked: dict[str, float] = {"evaluations": 1}
        request, model, refused = None, "", plan.rejection
        if plan.ask is not None:
            asked["proposals"] = 1
            try:
                model, request, cost = self._request(plan)
                asked |= cost
            except UsageError:
                refused = Rejection.TOO_LARGE
        try:
            ticket = self.run.ledger.reserve("synth", step=plan.step, **asked)
        except BudgetSpent as e:
            if not self._items or (isinstance(e, OverBudget) and not e.held):
                self.budget_spent = str(e)
            return False
        item = Item(plan, asked, ticket, origin=model or plan.origin)
        self._items.append(item)
        if refused is not None:
            item.proposal = Proposal(plan.ask or Edit.WRITE, None, refused)
        elif request is None:
            self._parse(item, plan.response)
        elif (stored := self.run.completion(request.key)) is not None:
            self._replied(item, from_payload(stored))
        else:
            self._waiting[request.key] = item
            self._desk.queue(model, request)
        return True

    def _request(self, plan: Plan) -> tuple[str, Request, dict[str, float]]:
        task = self.tasks[plan.task]
        names = sorted(self._desk.weights)
        weights = [self._desk.weights[name] for name in names]
        model = stream(self.config.seed, "choose", plan.step).choices(names, weights)[0]
        shelf = Shelf(self.run, seed=task_seed(self.config.seed, task.name))
        view, context = TaskView.of(task.config), Context(shelf.attempt(task.start.id))
        ask = plan.ask or Edit.WRITE

        def build(max_chars: int) -> tuple[Message, ...]:
            return build_messages(view, context, style=ask, max_chars=max_chars)

        request, cost = self._desk.request(model, plan.step, build, self.config.prompt_chars)
        return model, request, cost

    def _answered(self, answers: Sequence[Answered], error: CoevoError | None) -> None:
        """Called on a thread of the desk."""
        self._arrivals.put(partial(self._store_answers, answers, error))

    def _store_answers(self, answers: Sequence[Answered], error: CoevoError | None) -> None:
        """A group is stored whole: a batched model must see the same group again. What got no reply is not stored, so that after
        a stop it is asked for again."""
        if error is not None:
            self._model_error = error
            return
        for request, completion in answers:
            item = self._waiting.pop(request.key, None)
            if item is None:
                continue
            if completion.stop_reason is not StopReason.FAILED:
                self.run.put_completion(request.key, to_payload(completion, request))
                self.run.append("reply", {"key": request.key}, step=item.plan.step)
            self._replied(item, completion)

    def _replied(self, item: Item, completion: Completion) -> None:
        item.completion = completion
        if rejection := _NO_PROPOSAL.get(completion.stop_reason):
            detail = completion.error if rejection is Rejection.MODEL_FAILED else ""
            item.proposal = Proposal(item.plan.ask or Edit.WRITE, None, rejection, detail)
        else:
            self._parse(item, completion.text)

    def _parse(self, item: Item, reply: str | None) -> None:
        plan = item.plan
        if reply is None:
            item.proposal = Proposal(Edit.WRITE, plan.program)
            return

        def parsed(done: Future[Any]) -> None:
            try:
                item.proposal = done.result()
            except Exception as e:
                item.trouble = trouble(e)

        task = self.tasks[plan.task]
        args = (task.start, reply, plan.ask or Edit.WRITE)
        self._outbox.append((parsed, read, args, deadline_s(task)))

    def _admit(self) -> None:
        """Give programs to the judges in the order of their steps."""
        while self._turn < len(self._items) and self._items[self._turn].parsed:
            item = self._items[self._turn]
            self._turn += 1
            program = item.proposal.program if item.proposal else None
            if program is not None:
                item.judging = self._judge(item.plan, program)

    def _judge(self, plan: Plan, program: Program) -> Judging:
        key = plan.task, program.id
        if (held := self._judging.get(key)) is not None:
            return held
        task = self.tasks[plan.task]
        seed = task_seed(self.config.seed, task.name)
        judging = self._judging[key] = Judging()
        row = self.run.evaluation(program.id, split="public", seed=seed)
        if row is not None and row["task"] == task.name:
            judging.evaluation = restored(row)
            return judging
        if self.run.put_program(program):
            self.run.append("program", {"program": program.id}, step=plan.step)

        def judged(done: Future[Any]) -> None:
            try:
                evaluation: Evaluation = done.result()
            except Exception as e:
                evaluation = unmeasured(task, program, "public", seed, trouble(e))
            judging.evaluation = evaluation
            self._store(evaluation)

        self._outbox.append((judged, measure, (task.name, program, "public", seed), deadline_s(task)))
        return judging

    def _store(self, evaluation: Evaluation) -> None:
        if evaluation.outcome is not Outcome.UNMEASURED:
            self.run.put_evaluation(
                evaluation.program_id, split="public", seed=evaluation.seed, payload=payload(evaluation)
            )
            self.run.append("evaluated", {"program": evaluation.program_id, "task": evaluation.task})

    def _dispatch(self) -> None:
        """Send off what was decided on, when its reservation is stored."""
        self._desk.send()
        outbox, self._outbox = self._outbox, []
        for handle, fn, args, deadline in outbox:
            future = self.pool.submit(fn, *args, deadline_s=deadline)
            future.add_done_callback(lambda done, handle=handle: self._arrivals.put(partial(handle, done)))

    def _commit(self) -> int:
        """Commit finished steps in order; returns how many."""
        count = 0
        while self._items and self._turn and self._items[0].done and self._model_error is None:
            item = self._items.popleft()
            self._turn -= 1
            count += 1
            row, charged = self._row(item)
            self.run.append(EVENT, row, step=item.plan.step)
            self.run.ledger.settle(item.ticket, **charged)
            self.found.apply(item.plan.step, row)
            self._watch(item, row)
        live = {id(item.judging) for item in self._items}
        self._judging = {key: judging for key, judging in self._judging.items() if id(judging) in live}
        return count

    def _row(self, item: Item) -> tuple[dict[str, Any], dict[str, float]]:
        plan, completion, proposal = item.plan, item.completion, item.proposal
        evaluation = item.judging.evaluation if item.judging else None
        row: dict[str, Any] = {"task": plan.task, "number": plan.number, "origin": item.origin}
        charged = dict.fromkeys(item.asked, 0.0)
        if "proposals" in charged:
            charged["proposals"] = 1
        if completion is not None:
            charged |= {
                "tokens": completion.prompt_tokens + completion.completion_tokens,
                "usd": completion.cost_usd,
            }
            if completion.stop_reason is not StopReason.FAILED:
                row["key"] = f"step-{plan.step}"
        if item.trouble or (evaluation is not None and evaluation.outcome is Outcome.UNMEASURED):
            row |= {"outcome": "unmeasured", "detail": item.trouble or (evaluation.reason if evaluation else "")}
        elif evaluation is not None:
            new = (plan.task, int(evaluation.program_id, 16)) not in self.found.judged
            charged["evaluations"] = 1 if new else 0
            if new and evaluation.cpu_s:
                charged["cpu_minutes"] = evaluation.cpu_s / 60
            row |= {
                "program": evaluation.program_id,
                "outcome": evaluation.outcome.value,
                "fitness": evaluation.fitness,
            }
        elif proposal is not None and proposal.rejection is not None:
            row |= {"outcome": proposal.rejection.value, "detail": proposal.detail[:300]}
        return row, charged

    def _watch(self, item: Item, row: Mapping[str, Any]) -> None:
        """End it when the models or the machine are down: those are errors, not results."""
        outcome = row["outcome"]
        if item.plan.ask is not None:
            self._no_reply = self._no_reply + 1 if outcome == Rejection.MODEL_FAILED.value else 0
        if outcome not in {rejection.value for rejection in Rejection}:
            self._lost = self._lost + 1 if outcome == "unmeasured" else 0
        if self._no_reply >= self.config.model_failures and self._model_error is None:
            self._model_error = ModelError(
                f"{self._no_reply} requests in a row got no reply; the last: {row['detail']}"
            )
        if self._lost >= UNMEASURED_IN_A_ROW:
            raise InfrastructureError(
                f"{self._lost} programs in a row could not be measured; the last: {row['detail']}. `coevo doctor` looks at "
                f"the machine; `coevo resume {self.run.path}` goes on"
            )
