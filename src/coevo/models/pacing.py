"""When to try an endpoint again, and when to stop believing in it. Pure, but for the breaker's count."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
LONGEST_ASKED_WAIT = 600.0


def backoff(attempt: int, rng: random.Random) -> float:
    """Seconds before attempt `attempt + 1` (attempts count from 1): doubling from 0.5 s to 60 s, with full jitter over the
    upper half, so that many clients do not come back together."""
    top = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(attempt - 1, 20))
    return top * (0.5 + 0.5 * rng.random())


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds a server asks to wait: `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date. At most ten minutes;
    None if absent or unreadable."""
    if (ms := _number(headers.get("retry-after-ms"))) is not None:
        return min(ms / 1000, LONGEST_ASKED_WAIT)
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _number(value)) is not None:
        return min(seconds, LONGEST_ASKED_WAIT)
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max(0.0, (when - (now or datetime.now(UTC))).total_seconds()), LONGEST_ASKED_WAIT)


class Breaker:
    """Counts requests that failed in a row after all their retries; any reply starts the count again."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.failures = 0
        self.last = ""

    def success(self) -> None:
        self.failures = 0

    def failure(self, cause: str) -> None:
        self.failures += 1
        self.last = cause

    @property
    def open(self) -> bool:
        return self.failures >= self.limit


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None
