"""One batched model behind many searches that run in threads.

A search asks for a few replies, judges them, asks again. Alone it would feed a batched model four requests at a time; a
hundred of them together fill it. Each takes a `Seat`, which is a `Model`; a batch goes out when every seat that is taken waits
for one, so what is in a batch follows from what the searches do and never from which thread was quicker. Within a batch,
requests stand in the order of the seats' `order` (the number of the task, say), not of their arrival.

    shared = SharedModel(model, participants=16)
    with shared.seat() as seat:          # in each of 16 threads
        seat.order = number_of_the_task
        search(..., models=Ensemble([seat], [1.0]))

A seat stays taken while its thread goes from one task to the next, so tasks that begin late meet the same batches in every
run, too. The barrier shrinks as seats are left; one that is dropped without a word is left when it is collected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong
from contextlib import suppress
from dataclasses import dataclass, field

from coevo.errors import ModelError, UsageError
from coevo.models.types import Completion, Model, Request, Sampling

WHOLE = 4096
"""Requests that one call of a seat may carry: a whole round of a search, so that a round is one wait."""


@dataclass(frozen=True)
class Traffic:
    """What went through a shared model."""

    batches: int = 0
    requests: int = 0
    hurried: int = 0
    """Batches that went out before every seat waited, since nothing moved for `patience_s`: their make-up followed the clock."""
    busy_s: float = 0.0
    """Seconds in which the model was generating."""


@dataclass(eq=False)
class _Call:
    order: tuple[int, int, int]
    requests: Sequence[Request]
    answer: Future[list[Completion]] = field(default_factory=Future)


class SharedModel:
    """`participants` seats at one model. Thread-safe. Does not own the model: whoever opened it closes it.

    `patience_s`: how long calls wait for seats that neither ask nor leave, before they go out without them (None: for ever).
    """

    def __init__(self, model: Model, participants: int, *, patience_s: float | None = None) -> None:
        if participants < 1:
            raise UsageError(f"a shared model needs 1 participant or more, not {participants}")
        self.model = model
        self._lock = threading.RLock()
        self._patience_s = patience_s
        self._free = self._live = participants
        """Seats nobody has taken yet, and seats the barrier waits for (those included)."""
        self._calls: dict[int, list[_Call]] = {}
        """Calls that wait, by seat."""
        self._flying: set[_Call] = set()
        self._next = self._arrivals = 0
        self._cancelled = ""
        self._traffic = Traffic()
        # One thread for all batches: torch keeps a team of its own for every thread that computes.
        self._runner = ThreadPoolExecutor(1, "coevo-shared-model")

    @property
    def traffic(self) -> Traffic:
        """What went through so far."""
        with self._lock:
            return self._traffic

    def seat(self) -> Seat:
        """Take the next free seat; leave it (or use it in a `with`), else the others wait for it."""
        with self._lock:
            if not self._free:
                raise UsageError("every seat of this shared model is taken; open it with more participants")
            self._free -= 1
            self._next += 1
            return Seat(self, self._next)

    def cancel(self, why: str = "cancelled") -> None:
        """Fail every call that waits or is under way, and all to come, with a `ModelError`. Safe to call from anywhere, twice."""
        with self._lock:
            self._cancelled = self._cancelled or why
            calls = [*(call for held in self._calls.values() for call in held), *self._flying]
            self._calls, self._flying = {}, set()
        for call in calls:
            _fail(call, self._stopped())

    def close(self) -> None:
        """Cancel what is left and let the thread go. A batch that the model is working on ends when the model is closed."""
        self.cancel("the shared model was closed")
        self._runner.shutdown(wait=False)

    def __enter__(self) -> SharedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For seats

    def ask(self, seat: int, order: int, requests: Sequence[Request]) -> list[Completion]:
        """Wait for a batch, then for the replies to `requests`."""
        if not requests:
            return []
        with self._lock:
            if self._cancelled:
                raise self._stopped()
            self._arrivals += 1
            held = self._calls.setdefault(seat, [])
            call = _Call((order, seat, len(held)), requests)
            held.append(call)
            self._launch_if_complete()
        return self._wait(call)

    def leave(self, seat: int) -> None:
        """A participant has ended, however it did: nobody waits for it any more."""
        with self._lock:
            self._live -= 1
            self._arrivals += 1
            dropped = self._calls.pop(seat, [])
            self._launch_if_complete()
        for call in dropped:
            _fail(call, ModelError(f"{self.model.name}: the seat was left while it waited"))

    def _wait(self, call: _Call) -> list[Completion]:
        while True:
            seen = self._arrivals
            try:
                return call.answer.result(self._patience_s)
            except WaitedTooLong:
                with self._lock:
                    still = any(call in held for held in self._calls.values())
                    if still and seen == self._arrivals:
                        self._launch(hurried=True)

    def _launch_if_complete(self) -> None:
        if self._calls and len(self._calls) >= self._live:
            self._launch(hurried=False)

    def _launch(self, *, hurried: bool) -> None:
        calls = sorted((call for held in self._calls.values() for call in held), key=lambda call: call.order)
        self._calls = {}
        self._flying.update(calls)
        was = self._traffic
        self._traffic = Traffic(
            was.batches + 1, was.requests + sum(len(c.requests) for c in calls), was.hurried + hurried, was.busy_s
        )
        self._runner.submit(self._run, calls)

    def _run(self, calls: Sequence[_Call]) -> None:
        """One batch, on the runner's thread. Whatever the model raises reaches every caller."""
        begun = time.monotonic()
        try:
            replies = self.model.generate([request for call in calls for request in call.requests])
            if len(replies) != sum(len(call.requests) for call in calls):
                raise ModelError(f"{self.model.name} gave {len(replies)} replies to a batch of another size")
        except Exception as e:
            error = (
                e
                if isinstance(e, ModelError | UsageError)
                else ModelError(f"{self.model.name}: {type(e).__name__}: {e}")
            )
            for call in calls:
                _fail(call, error)
            return
        finally:
            with self._lock:
                was = self._traffic
                self._traffic = Traffic(was.batches, was.requests, was.hurried, was.busy_s + time.monotonic() - begun)
                self._flying.difference_update(calls)
        at = 0
        for call in calls:
            part, at = replies[at : at + len(call.requests)], at + len(call.requests)
            with suppress(InvalidStateError):  # Cancelled meanwhile.
                call.answer.set_result(part)

    def _stopped(self) -> ModelError:
        return ModelError(f"{self.model.name}: {self._cancelled}")


class Seat:
    """A participant's place: a `Model` whose `generate` waits for the others."""

    billable = False

    def __init__(self, shared: SharedModel, number: int) -> None:
        self._shared, self._number = shared, number
        self._taken = True
        self.order = number
        """Where this participant's requests stand in a batch."""

    @property
    def name(self) -> str:
        return self._shared.model.name

    @property
    def batch(self) -> int:
        return WHOLE

    @property
    def sampling(self) -> Sampling:
        return self._shared.model.sampling

    @property
    def context(self) -> int | None:
        return self._shared.model.context

    @property
    def priced(self) -> bool:
        return self._shared.model.priced

    def count_tokens(self, text: str) -> int:
        return self._shared.model.count_tokens(text)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return self._shared.model.cost(prompt_tokens, completion_tokens)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Replies in order. Raises what the model raises, and `ModelError` once the seat is left or the model cancelled."""
        if not self._taken:
            raise ModelError(f"{self.name}: this seat was left")
        return self._shared.ask(self._number, self.order, requests)

    def leave(self) -> None:
        """Give the seat up. Safe to call twice."""
        if self._taken:
            self._taken = False
            self._shared.leave(self._number)

    def close(self) -> None:
        """As any model: does nothing to the shared one. The seat stays taken, since the next search may use it."""

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __del__(self) -> None:
        self.leave()


def _fail(call: _Call, error: Exception) -> None:
    with suppress(InvalidStateError):
        call.answer.set_exception(error)
