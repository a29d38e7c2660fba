"""The queue of our Tinker-compatible server: requests become futures, and one thread carries them out in order.

Jobs that can share a batch stand next to each other: while one is at the head, those behind it with the same `batch` are taken with it, and for
a moment those that are just arriving.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from coevo.errors import CoevoError, UsageError

log = logging.getLogger("coevo.engines")

Body = dict[str, Any]

HOLD_S = 20.0
"""The longest that one retrieval of a future is held."""
GATHER_S = 0.02
"""Jobs of one batch that follow each other within this time are carried out together."""
KEPT_S = 60.0
"""A future is forgotten so long after its result was fetched (a reply may get lost and be asked for again) ..."""
UNFETCHED_S = 3600.0
"""... or had nobody who came for it."""
NUMBERS = 4096
"""Numbered requests whose repetition is recognised."""


@dataclass
class Job:
    """A future and the work behind it: `work`, or the batch it belongs to."""

    body: Body
    work: Callable[[], Body] | None = None
    batch: Hashable = None
    id: str = field(default_factory=lambda: f"future-{secrets.token_hex(8)}")
    result: Body | None = None
    done: threading.Event = field(default_factory=threading.Event)
    until: float = float("inf")
    """When it may be forgotten."""

    def finish(self, result: Body) -> None:
        self.result, self.work, self.body = result, None, {}
        self.until = time.monotonic() + UNFETCHED_S
        self.done.set()


class Jobs:
    """`together` carries out jobs of one batch and finishes each; `idle` is called now and then by the working thread."""

    def __init__(self, together: Callable[[list[Job]], None], idle: Callable[[], None]) -> None:
        self._together, self._idle = together, idle
        self._jobs: dict[str, Job] = {}
        self._numbered: OrderedDict[Hashable, Body] = OrderedDict()
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="coevo-tinker-jobs", daemon=True)
        self._worker.start()

    def put(self, job: Job, key: Hashable = None) -> Body:
        """Queue a job, unless one with this key was queued before; what the request is answered with at once."""
        with self._changed:
            if key is not None and (known := self._numbered.get(key)) is not None:
                return known
            answer = {"request_id": job.id, "future_id": job.id, "status": "pending"}
            if key is not None:
                self._numbered[key] = answer
                while len(self._numbered) > NUMBERS:
                    self._numbered.popitem(last=False)
            now = time.monotonic()
            for name in [name for name, old in self._jobs.items() if old.until < now]:
                del self._jobs[name]
            self._jobs[job.id] = job
            self._queue.append(job)
            self._changed.notify_all()
        return answer

    def result(self, name: str) -> Body | None:
        """The result of a future, waited for for a while; `try_again` while there is none; None for a future that nobody knows."""
        job = self._jobs.get(name)
        if job is None:
            return None
        if not job.done.wait(HOLD_S) or job.result is None:
            return {"type": "try_again", "request_id": job.id, "queue_state": "active"}
        job.until = time.monotonic() + KEPT_S
        return job.result

    def close(self) -> None:
        """End after the work in hand; what is still queued fails. Safe to call twice."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._worker.join(timeout=60)
        for job in self._queue:
            job.finish({"error": "the server is being stopped", "category": "server"})
        self._queue.clear()

    def _work(self) -> None:
        while (jobs := self._next()) is not None:
            try:
                if jobs[0].work is not None:
                    jobs[0].finish(jobs[0].work())
                else:
                    self._together(jobs)
            except Exception as e:
                if not isinstance(e, CoevoError):
                    log.exception("a request failed")
                said = str(e) if isinstance(e, CoevoError) else f"{type(e).__name__}: {e}"
                for job in jobs:
                    if not job.done.is_set():
                        job.finish({"error": said, "category": "user" if isinstance(e, UsageError) else "server"})

    def _next(self) -> list[Job] | None:
        """The next job, or the next batch; None at the end."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait(1.0)
                self._idle()
            if self._closing:
                return None
            jobs = [self._queue.popleft()]
            last = time.monotonic()
            while jobs[0].batch is not None and not self._closing:
                while self._queue and self._queue[0].batch == jobs[0].batch:
                    jobs.append(self._queue.popleft())
                    last = time.monotonic()
                left = GATHER_S - (time.monotonic() - last)
                if self._queue or left <= 0:
                    break
                self._changed.wait(left)
            return jobs


__all__ = ["Body", "Job", "Jobs"]
