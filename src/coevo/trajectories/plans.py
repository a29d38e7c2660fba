"""What there is to answer, step by step: start programs, samples, rows of files. A function of the settings and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevo.errors import UsageError
from coevo.evolution.syntax import bad_text
from coevo.evolution.types import Edit, Rejection
from coevo.programs import Program
from coevo.streams import stream
from coevo.tasks.types import Task
from coevo.trajectories.answers import read_answers
from coevo.trajectories.arrange import START
from coevo.trajectories.settings import SynthConfig


@dataclass(frozen=True)
class Plan:
    """What one step is about."""

    step: int
    task: int
    number: int
    """Of the answer among its task's; `START` for the start program."""
    origin: str = ""
    """Who answered, where no model is asked."""
    ask: Edit | None = None
    """How a model is asked."""
    program: Program | None = None
    response: str | None = None
    rejection: Rejection | None = None
    """Why there is nothing to judge, where that is known at once."""


class Plans:
    """Phases of a synthesis, each a stream of plans with rising steps. `other_tasks` counts the rows read of files that
    are about no task given."""

    def __init__(self, tasks: Sequence[Task], config: SynthConfig, *, asks: bool, files: Sequence[Path]) -> None:
        """`asks`: whether there is a model to ask."""
        self._tasks, self._config, self._asks, self._files = tasks, config, asks, files
        self._index = {task.name: i for i, task in enumerate(tasks)}
        self._row = 0
        self.other_tasks: Counter[str] = Counter()

    def phases(self) -> Iterator[tuple[str, Iterator[Plan], int]]:
        """Name, plans and number (0 where it is not known) of each phase; a phase is gone through before the next is asked for."""
        count, samples = len(self._tasks), self._config.samples
        yield "start programs", self._starts(), count
        if self._asks:
            yield "answers", self._samples(), count * samples
        first = count * (1 + samples)
        for path in self._files:
            yield f"answers of {path.name}", self._rows(path, first), 0
            first += self._row

    def _starts(self) -> Iterator[Plan]:
        for index, task in enumerate(self._tasks):
            yield Plan(index, index, START, "start program", program=task.start)

    def _samples(self) -> Iterator[Plan]:
        names = sorted(self._config.ask)
        weights = [self._config.ask[name] for name in names]
        first, samples = len(self._tasks), self._config.samples
        for number in range(len(self._tasks) * samples):
            ask = stream(self._config.seed, "ask", first + number).choices(names, weights)[0]
            yield Plan(first + number, number // samples, number % samples, ask=Edit(ask))

    def _rows(self, path: Path, first: int) -> Iterator[Plan]:
        self._row = 0
        for given in read_answers(path):
            self._row = given.row
            if given.task not in self._index:
                self.other_tasks[given.task] += 1
                continue
            step, task = first + given.row - 1, self._index[given.task]
            if given.program is None:
                yield Plan(step, task, step, path.name, response=given.response)
            else:
                program, rejection = handed_in(given.program, self._tasks[task].start.main)
                yield Plan(step, task, step, path.name, program=program, rejection=rejection)


def handed_in(text: str | Mapping[str, str], main: str) -> tuple[Program | None, Rejection | None]:
    """A program that was handed in, or why it is none."""
    texts = {main: text} if isinstance(text, str) else dict(text)
    if any(bad_text(value) for value in texts.values()):
        return None, Rejection.BAD_TEXT
    if not any(value.strip() for value in texts.values()):
        return None, Rejection.EMPTY
    if main not in texts:
        return None, Rejection.UNKNOWN_FILE
    try:
        return Program.of(texts, main), None
    except UsageError:
        return None, Rejection.TOO_LARGE
