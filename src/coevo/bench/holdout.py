"""The holdout is touched once. Every access is a line in an append-only file, before the first search starts.

Looking at a test split and then changing something makes its numbers worth less each time. So a study opens a split once per
arm and seed, closes it when the records are in, and is refused a second look; `force` gives one all the same, and the results
carry the count. An access that a kill left open goes on, if the very same thing is measured.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from coevo.errors import GateBlocked, StoreError

FILE = "holdout.jsonl"


@dataclass(frozen=True)
class Access:
    """One line of the ledger."""

    ts: float
    """Seconds since 1970."""
    suite: str
    """Name of the suite and split, for a person."""
    digest: str
    """Of the split's judges: what it really is."""
    study: str
    """Digest of the study's settings: the same study under another name is the same."""
    arm: str
    seed: int
    what: str
    """Digest of what is measured: weights, search settings, budget."""
    event: Literal["open", "closed"]
    forced: bool = False
    run: str = ""
    """Folder of the study."""


@dataclass(frozen=True)
class Touches:
    """How often a split was opened, this time included."""

    ever: int
    """By anyone."""
    study: int
    """By this study, for this arm and seed."""
    forced: bool = False

    def __str__(self) -> str:
        times = "once" if self.study == 1 else f"{self.study} times"
        mark = ", FORCED" if self.forced else ""
        return f"opened {times} by this study, {self.ever} times in all{mark}"


class Holdout:
    """The ledger at `path`. One line is one write under a lock, so studies that share it do not mix theirs."""

    def __init__(self, path: Path, *, study: str, run: str = "") -> None:
        self.path, self._study, self._run = path, study, run

    def open(self, suite: str, digest: str, *, arm: str, seed: int, what: str, force: bool = False) -> Touches:
        """Take note that a split is about to be measured. Raises `GateBlocked` at a second look without `force`."""
        mine = [a for a in self.accesses() if (a.digest, a.study, a.arm, a.seed) == (digest, self._study, arm, seed)]
        pending = mine[-1] if mine and mine[-1].event == "open" else None
        if pending is not None and pending.what == what:
            return self.touches(digest, arm=arm, seed=seed)  # A kill came between: the same look goes on.
        if mine and not force:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(mine[0].ts))
            raise GateBlocked(
                f"this study has opened test split {suite} for arm {arm!r}, seed {seed}, before ({when}, in "
                f"{mine[0].run or 'an unknown folder'}; ledger {self.path}). A second look is not a test any more: take other tasks or "
                "another seed; or force it (--force-holdout), and the results will say so"
            )
        self._append(suite, digest, arm, seed, what, "open", forced=bool(mine))
        return self.touches(digest, arm=arm, seed=seed)

    def close(self, suite: str, digest: str, *, arm: str, seed: int, what: str) -> None:
        """The records of an access are stored."""
        self._append(suite, digest, arm, seed, what, "closed", forced=False)

    def settle(self, suite: str, digest: str, *, arm: str, seed: int, what: str) -> None:
        """Close an access that was left open although its records are stored."""
        mine = [a for a in self.accesses() if (a.digest, a.study, a.arm, a.seed) == (digest, self._study, arm, seed)]
        if mine and mine[-1].event == "open" and mine[-1].what == what:
            self.close(suite, digest, arm=arm, seed=seed, what=what)

    def touches(self, digest: str, *, arm: str, seed: int) -> Touches:
        """How often a split was opened so far."""
        opened = [a for a in self.accesses() if a.digest == digest and a.event == "open"]
        mine = [a for a in opened if (a.study, a.arm, a.seed) == (self._study, arm, seed)]
        return Touches(len(opened), len(mine), any(a.forced for a in mine))

    def accesses(self) -> list[Access]:
        """All lines, oldest first. A line that a full disk or a kill cut short is passed over. Raises `StoreError` for a file
        that is no ledger."""
        return list(self._read())

    def _read(self) -> Iterator[Access]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as e:
            raise StoreError(f"cannot read the holdout ledger {self.path}: {e}") from e
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                yield Access(**json.loads(line))
            except (ValueError, TypeError) as e:
                if number == len(lines):  # No newline after it: the write did not finish.
                    return
                raise StoreError(
                    f"{self.path}, line {number} is no line of a holdout ledger ({e}). Restore the file; it is what shows that "
                    "test splits were measured once"
                ) from None

    def _append(
        self, suite: str, digest: str, arm: str, seed: int, what: str, event: Literal["open", "closed"], *, forced: bool
    ) -> None:
        access = Access(time.time(), suite, digest, self._study, arm, seed, what, event, forced, self._run)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                _mend(handle)
                os.write(handle, (json.dumps(asdict(access)) + "\n").encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as e:
            raise StoreError(
                f"cannot write the holdout ledger {self.path}: {e.strerror or e}. Nothing was measured; free some space or name "
                "another place (ledger: PATH in the study)"
            ) from e


def _mend(handle: int) -> None:
    """Cut off a last line without an end, so that the next one is whole. Called under the file's lock."""
    text = os.pread(handle, os.fstat(handle).st_size, 0)
    if text and not text.endswith(b"\n"):
        os.ftruncate(handle, text.rfind(b"\n") + 1)
