"""What a running search shows: one live panel on a terminal, plain lines elsewhere, nothing with `--json`."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coevo.cli.ending import failed
from coevo.cli.output import show

if TYPE_CHECKING:
    from coevo.evolution.result import Observer, Progress

BARS = "▁▂▃▄▅▆▇█"
LINE_EVERY_S = 10.0
SHOWN = ("evaluations", "tokens", "usd", "cpu_minutes")


@dataclass
class Tally:
    """What one proposer did."""

    made: int = 0
    scored: int = 0
    improved: int = 0
    rejected: int = 0
    tokens: int = 0


@dataclass
class Board:
    """The figures of a running search; a plain fold of its progress."""

    title: str
    by_score: bool
    begun: float = field(default_factory=time.monotonic)
    curve: list[float] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    last: Progress | None = None

    def best(self) -> float | None:
        if self.last is None:
            return None
        return self.last.best_score if self.by_score else self.last.best_fitness

    def tell(self, progress: Progress) -> None:
        self.last = progress
        candidate = progress.candidate
        tally = self.tallies[candidate.decision.edit.value]
        tally.made += 1
        tally.scored += candidate.scored
        tally.improved += progress.improved
        tally.rejected += candidate.rejection is not None
        tally.tokens += candidate.tokens
        best = self.best()
        if best is not None:
            self.curve.append(best)

    def spent(self) -> str:
        return spending(self.last.spent if self.last else {})


def spending(spent: Mapping[str, float]) -> str:
    """The parts of a budget that were used, in short."""
    parts = [
        f"{name} {show(round(value, 4)) if isinstance(value, float) else f'{value:,}'}"
        for name in SHOWN
        if (value := spent.get(name))
    ]
    return ", ".join(parts) or "nothing"


def sparkline(values: list[float], width: int) -> str:
    """`values` in `width` block characters, last value last."""
    if not values:
        return ""
    count = min(width, len(values))
    picked = [values[(i + 1) * len(values) // count - 1] for i in range(count)]
    low, high = min(picked), max(picked)
    if high == low:
        return BARS[0] * count
    return "".join(BARS[min(7, int(8 * (v - low) / (high - low)))] for v in picked)


@contextmanager
def watching(title: str, *, by_score: bool, quiet: bool) -> Iterator[Observer | None]:
    """An observer for a search, drawn until the block ends."""
    if quiet:
        yield None
    elif sys.stdout.isatty():
        with _live(Board(title, by_score)) as observer:
            yield observer
    else:
        with _lines(Board(title, by_score)) as observer:
            yield observer


@contextmanager
def _lines(board: Board, every_s: float = LINE_EVERY_S) -> Iterator[Observer]:
    """A line for each new best, and one every `every_s` seconds; also while no step commits, since a model may take minutes."""
    said = [time.monotonic()]
    over = threading.Event()

    def observe(progress: Progress) -> None:
        board.tell(progress)
        if progress.candidate.step == 0 and not progress.candidate.scored and progress.candidate.evaluation:
            print(
                f"the start program itself has no value ({failed(progress.candidate.evaluation)}); going on from it",
                flush=True,
            )
        now = time.monotonic()
        if progress.improved or now - said[0] >= every_s:
            said[0] = now
            best = board.best()
            how = f"by {progress.candidate.decision.edit.value}" if progress.improved else "so far"
            print(
                f"step {progress.candidate.step}: best {show(best) if best is not None else '-'} {how} (spent: {board.spent()})",
                flush=True,
            )

    def wait() -> None:
        while not over.wait(max(0.1 * every_s, said[0] + every_s - time.monotonic())):
            if time.monotonic() - said[0] >= every_s:
                said[0] = time.monotonic()
                flying = board.last.in_flight if board.last else None
                what = "starting" if flying is None else f"{flying} in flight" if flying else "hidden tests"
                with suppress(OSError):  # A reader that left is the search's own affair.
                    print(f"{said[0] - board.begun:.0f} s: waiting, {what}", flush=True)

    waiter = threading.Thread(target=wait, name="progress", daemon=True)
    waiter.start()
    try:
        yield observe
    finally:
        over.set()
        waiter.join()


@contextmanager
def _live(board: Board) -> Iterator[Observer]:
    from rich.live import Live

    with Live(get_renderable=lambda: _panel(board), refresh_per_second=4, transient=True):
        yield board.tell


def _panel(board: Board) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    progress = board.last
    best = board.best()
    head = Text.assemble(
        (board.title, "bold"),
        f"   best {show(best) if best is not None else '-'}   {time.monotonic() - board.begun:.0f} s",
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("proposer", "made", "scored", "improved", "rejected", "tokens"):
        table.add_column(name, justify="left" if name == "proposer" else "right")
    for name, t in board.tallies.items():
        table.add_row(name, *(f"{n:,}" for n in (t.made, t.scored, t.improved, t.rejected, t.tokens)))
    flight = (
        f"{progress.commits:,} steps, {progress.in_flight} in flight, {progress.population:,} kept"
        if progress
        else "starting"
    )
    return Group(
        head, Text(sparkline(board.curve, 60), "cyan"), table, Text(f"{flight}; spent: {board.spent()}", "dim")
    )
