"""Mirrors of a run's metrics in other tools: TensorBoard, Weights & Biases, trackio.

The run's own events are the truth; a sink is a courtesy. Each lives on a thread of its own behind a bounded queue: one that is slow loses
points, one that raises is dropped, one that hangs is left behind. None can fail a run or hold it up; what was lost is said.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from coevo.errors import pick

QUEUE = 256
"""Points that wait for a slow sink at most; newer ones are lost then."""
CLOSE_S = 5.0
"""How long the end of a run waits for all sinks together."""


class Sink(Protocol):
    """Where metrics go. Made, used and closed on one thread of its own."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


Opener = Callable[[Path, Mapping[str, Any]], Sink]
"""Makes a sink from the run's folder and its config."""


class Mirror:
    """One sink on its thread."""

    def __init__(self, name: str, opener: Opener, folder: Path, config: Mapping[str, Any]) -> None:
        self.name, self.trouble, self.lost = name, "", 0
        self._queue: queue.Queue[tuple[int, dict[str, float]] | None] = queue.Queue(QUEUE)
        self._thread = threading.Thread(
            target=self._run, args=(opener, folder, config), name=f"sink-{name}", daemon=True
        )
        self._thread.start()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Hand over a point; returns at once."""
        try:
            self._queue.put_nowait((step, dict(metrics)))
        except queue.Full:
            self.lost += 1

    def close(self, timeout_s: float) -> str:
        """Wait so long for what is queued; says what went wrong, or nothing."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            self.lost += 1
        self._thread.join(timeout_s)
        said = [self.trouble] if self.trouble else []
        if self._thread.is_alive():
            said.append(f"did not finish within {timeout_s:.3g} s and was left behind")
        if self.lost:
            said.append(f"was too slow and lost {self.lost} points")
        return f"sink {self.name}: {'; '.join(said)}" if said else ""

    def _run(self, opener: Opener, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            sink = opener(folder, config)
            while (item := self._queue.get()) is not None:
                sink.log(*item)
            sink.close()
        except BaseException as e:  # Foreign code on a thread of its own: even SystemExit ends nothing but itself.
            self.trouble = f"{type(e).__name__}: {e}"
            while self._queue.get() is not None:
                self.lost += 1


class Mirrors:
    """All sinks of a run; use it in a `with`. `notes` says, after the end, what went wrong."""

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        config: Mapping[str, Any],
        *,
        openers: Mapping[str, Opener] | None = None,
        patience_s: float = CLOSE_S,
    ) -> None:
        """`patience_s`: how long the end waits for all of them together."""
        self._patience_s = patience_s
        table = OPENERS if openers is None else openers
        chosen = [(name, pick(name, table, kind="sink")) for name in names]
        self._mirrors = [Mirror(name, opener, folder, config) for name, opener in chosen]
        self.notes: tuple[str, ...] = ()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for mirror in self._mirrors:
            mirror.log(step, metrics)

    def close(self) -> None:
        share = self._patience_s / max(1, len(self._mirrors))
        self.notes = tuple(said for mirror in self._mirrors if (said := mirror.close(share)))


class _TensorBoard:
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "artifacts" / "tensorboard"))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Tracker:
    """wandb and trackio have the same three calls."""

    def __init__(self, package: str, folder: Path, config: Mapping[str, Any]) -> None:
        import importlib

        self._package = importlib.import_module(package)
        self._package.init(project="coevo", name=folder.name, config=dict(config))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._package.log(dict(metrics), step=step)

    def close(self) -> None:
        self._package.finish()


OPENERS: Mapping[str, Opener] = {
    "tensorboard": _TensorBoard,
    "wandb": lambda folder, config: _Tracker("wandb", folder, config),
    "trackio": lambda folder, config: _Tracker("trackio", folder, config),
}
"""By the names of `Recipe.sinks`. Each needs its package (`pip install tensorboard`, `wandb`, `trackio`)."""
