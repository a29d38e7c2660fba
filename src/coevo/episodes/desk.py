"""From a reply to its judgement, in the worker pool: parsed there, then judged, while the policy goes on sampling.

Programs that are equal are judged once per desk, and on steady tasks once per run (`known`). What a reply or a program does is data; what the machine does wrong becomes
an unmeasured evaluation with its reason; what is wrong with the configuration raises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any

from coevo.episodes.known import Known, is_steady, judge_seed
from coevo.episodes.types import Judged
from coevo.errors import CoevoError, InfrastructureError, TaskError
from coevo.evaluation.judges import Judges, deadline_s, measure
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.edits import apply_reply
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.evolution.worker import unmeasured
from coevo.programs import Program
from coevo.tasks.types import Split, Task

PARSE_S = 60.0
"""Wall seconds for reading one reply before its worker counts as hung; it takes milliseconds."""


class Desk:
    """One step's judging. Seeds follow from (seed, step) alone (`known.judge_seed`), so that equal programs get equal evaluations.
    `known`: what earlier steps have found.

    `by_text`: only programs of equal text are taken for equal, not those of equal normal form. Feedback quotes line numbers, so
    whose text is judged shows in it; where feedback is read, it must not depend on whose reply came first.
    """

    def __init__(
        self,
        pool: Pool,
        tasks: Mapping[str, Task],
        *,
        seed: int,
        by_text: bool,
        step: int = 0,
        known: Known | None = None,
    ) -> None:
        self._pool, self._tasks, self._known = pool, tasks, known
        self._seed, self._step, self._by_text = seed, step, by_text
        self._lock = threading.Lock()
        self._evaluations: dict[tuple[Any, ...], Future[Evaluation]] = {}
        self._read: dict[tuple[Any, ...], Future[Proposal]] = {}
        self.evaluations = 0
        """Jobs of judging so far, duplicates and what was known not counted."""

    def submit(self, task: str, parent: Program, reply: str, style: Edit, *, hidden: bool) -> Future[Judged]:
        """Parse a reply to a prompt about `parent` and judge what it gives on public tests, and on hidden ones if asked.

        The future's exceptions are the caller's own faults (`UsageError`) and a closed pool.
        """
        outcome: Future[Judged] = Future()
        self._parsed(parent, reply, style).add_done_callback(
            partial(_guarded, outcome, partial(self._judge, outcome, task, style, hidden))
        )
        return outcome

    def _parsed(self, parent: Program, reply: str, style: Edit) -> Future[Proposal]:
        """The reply read; equal replies to equal prompts once."""
        key = (parent.files, reply, style)
        if key not in self._read:
            self._read[key] = self._pool.submit(read, parent, reply, style, deadline_s=PARSE_S)
        return self._read[key]

    def evaluate(self, task: str, program: Program, split: Split) -> Future[Evaluation]:
        """Judge a program; an equal one that was judged or is being judged on this split is not judged again.

        Of a failure of the machine the future gives an unmeasured evaluation.
        """
        key = (task, split, program.files if self._by_text else program.id)
        with self._lock:
            if key in self._evaluations:
                return self._evaluations[key]
            found = self._evaluations[key] = Future()
            steady = self._known is not None and is_steady(self._tasks[task].config)
            before = self._known.find(key) if self._known is not None and steady else None
            self.evaluations += before is None
        if before is not None:
            found.set_result(before)
            return found
        seed = self._seed_of(task)
        try:
            job = self._pool.submit(measure, task, program, split, seed, deadline_s=deadline_s(self._tasks[task]))
            job.add_done_callback(
                partial(_guarded, found, partial(self._measured, found, key if steady else None, task, program, split))
            )
        except BaseException as e:
            found.set_exception(e)
        return found

    # Callbacks: they run in the pool's own thread, or at once.

    def _judge(self, outcome: Future[Judged], task: str, style: Edit, hidden: bool, parsed: Future[Proposal]) -> None:
        try:
            proposal = parsed.result()
        except Exception as e:
            reason = trouble(e)
            outcome.set_result(Judged(Proposal(style, None, Rejection.MODEL_FAILED, reason), unmeasured=reason))
            return
        program = proposal.program
        if program is None:
            outcome.set_result(Judged(proposal))
            return
        public = self.evaluate(task, program, "public")
        secret = self.evaluate(task, program, "hidden") if hidden else None

        def done(_: object) -> None:
            evaluation = public.result()
            outcome.set_result(
                Judged(
                    proposal,
                    program.id,
                    evaluation,
                    secret.result() if secret is not None else None,
                    unmeasured=(evaluation.reason or "no reason given")
                    if evaluation.outcome is Outcome.UNMEASURED
                    else "",
                )
            )

        def then(_: object) -> None:
            (secret or public).add_done_callback(partial(_guarded, outcome, done))

        public.add_done_callback(partial(_guarded, outcome, then))

    def _measured(
        self,
        found: Future[Evaluation],
        key: Hashable | None,
        task: str,
        program: Program,
        split: Split,
        job: Future[Evaluation],
    ) -> None:
        try:
            evaluation = job.result()
        except Exception as e:
            evaluation = unmeasured(self._tasks[task], program, split, self._seed_of(task), trouble(e))
        if self._known is not None and key is not None:
            self._known.keep(key, evaluation)
        found.set_result(evaluation)

    def _seed_of(self, task: str) -> int:
        return judge_seed(self._tasks[task].config, seed=self._seed, step=self._step)


def read(judges: Judges, parent: Program, reply: str, style: Edit) -> Proposal:
    """A pool's job: the program that a reply describes. `judges` is the worker's state and is not used."""
    proposal = apply_reply(parent, reply, style)
    if proposal.program is not None:
        _ = proposal.program.id  # Hashed here, so that the driver need not.
    return proposal


def trouble(error: Exception) -> str:
    """Why something is unmeasured, in a line. Raises `error` again where it is no trouble of the machine or of one task."""
    if isinstance(error, CancelledError):
        raise InfrastructureError("the pool was closed while replies were being judged") from error
    if isinstance(error, CoevoError) and not isinstance(error, InfrastructureError | TaskError):
        raise error
    said = str(error) if isinstance(error, CoevoError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:600]


def _guarded(target: Future[Any], callback: Callable[[Any], None], source: Future[Any]) -> None:
    """Whatever a callback raises belongs to whoever waits for `target`: a future would only log it."""
    try:
        callback(source)
    except BaseException as e:
        if not target.done():
            target.set_exception(e)
