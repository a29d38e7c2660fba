"""Being asked to stop: by SIGINT, SIGTERM, or a file named `stop` in the run folder."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

FILE = "stop"


class Interrupts:
    """While entered (on the main thread), the first signal asks for an orderly stop; a second one, of either kind, stops at once."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._before: dict[int, Any] = {}
        self.cause = ""
        """What asked to stop; empty until something did."""

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        """Whether to stop. Takes the stop file away, so that a resumed run goes on."""
        if not self.cause and self._file.exists():
            self._file.unlink(missing_ok=True)
            self.cause = f"the file {self._file}"
        return bool(self.cause)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.cause:
            raise KeyboardInterrupt  # Of SIGTERM, too: everything on the way out knows it and cleans up.
        self.cause = signal.Signals(number).name
        with suppress(OSError):  # Not print: a signal may come in the midst of one.
            os.write(
                2,
                b"\nstopping: what is in flight is finished first; a second signal (Ctrl-C, SIGTERM) stops at once, and loses only that\n",
            )
