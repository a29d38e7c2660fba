"""From light rows to the data set: what is held out, what is written in which order, and the rows themselves."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from coevo.episodes.types import Source as Origin
from coevo.episodes.types import StartState
from coevo.errors import GateBlocked, UsageError
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.shelf import Shelf
from coevo.evolution.types import Context, Edit
from coevo.programs import Program
from coevo.runs import Run
from coevo.runs.jsontext import loads
from coevo.tasks.types import Task
from coevo.trajectories.contamination import Held, Hit
from coevo.trajectories.found import task_seed
from coevo.trajectories.lineage import evaluation_seed
from coevo.trajectories.mixing import Light, choose
from coevo.trajectories.rows import SPLITS, Trajectory, state_id
from coevo.trajectories.settings import SynthConfig
from coevo.trajectories.staging import Pass, Source, rows

HITS_KEPT = 4096
"""Programs whose check is remembered."""


@dataclass
class _Columns:
    """Light rows of one split, as they come."""

    event: array[int] = field(default_factory=lambda: array("q"))
    task: array[int] = field(default_factory=lambda: array("q"))
    right: array[int] = field(default_factory=lambda: array("b"))
    headroom: array[float] = field(default_factory=lambda: array("d"))
    sampled: array[int] = field(default_factory=lambda: array("b"))

    def add(self, event: int, row: Mapping[str, Any]) -> None:
        self.event.append(event)
        self.task.append(row["task"])
        self.right.append(row["right"])
        self.headroom.append(float("nan") if row["headroom"] is None else row["headroom"])
        self.sampled.append("run" not in row)

    def light(self) -> Light:
        return Light(
            np.array(self.task, dtype=np.int64),
            np.array(self.right, dtype=bool),
            np.array(self.headroom, dtype=np.float64),
            np.array(self.sampled, dtype=bool),
        )


@dataclass(frozen=True)
class Chosen:
    """Ids of the row events to write, per split and in order; what was dropped; what was found in held-out tasks."""

    events: dict[str, Sequence[int]]
    dropped: dict[str, int]
    removed: list[dict[str, Any]]


class Assembler:
    """One pass of a run, read back. `tasks`, `digests` and `splits` are the table of tasks."""

    def __init__(
        self,
        run: Run,
        tasks: Sequence[Task],
        digests: Sequence[str],
        splits: Sequence[str],
        sources: Sequence[Source],
        config: SynthConfig,
        current: Pass,
    ) -> None:
        self.run, self.tasks, self.digests, self.splits = run, tasks, digests, splits
        self.sources, self.config, self.current = sources, config, current
        self.views = [TaskView.of(task.config) for task in tasks]
        self.shelves = [Shelf(source.run, seed=evaluation_seed(source.setup)) for source in sources]
        self.too_long = 0
        """Rows of searches left out since their prompt cannot be short enough."""

    # Choosing

    def choose(self, held: Held, *, strict: bool) -> Chosen:
        """Which rows are written. `held` is what was held out elsewhere; the validation and test tasks are added to it here.

        Raises `GateBlocked` with `strict` where anything was found, `UsageError` where no row is left.
        """
        self._hold_out(held)
        removed = _Removed()
        columns = {split: _Columns() for split in SPLITS}
        hits = _Hits(self, held)
        for event in rows(self.run, self.current):
            row, split = event.payload, self.split(event.payload)
            hit = hits.of(row) if split == "train" and held else None
            if hit is None:
                columns[split].add(event.id, row)
            else:
                removed.add(self.tasks[row["task"]].name, hit)
        if removed.items and strict:
            raise GateBlocked(_blocked(removed.listed()))
        dropped: Counter[str] = Counter({"contaminated": removed.rows} if removed.rows else {})
        events: dict[str, Sequence[int]] = {}
        for split, found in columns.items():
            mixed = choose(self.config.mix, found.light(), seed=self.config.seed, split=split)
            dropped.update(mixed.dropped)
            events[split] = np.array(found.event, dtype=np.int64)[mixed.rows].tolist() if len(mixed.rows) else []
        return Chosen(events, dict(dropped), removed.listed())

    def _hold_out(self, held: Held) -> None:
        for task, split in zip(self.tasks, self.splits, strict=True):
            if split != "train":
                held.add(f"{task.name} ({split})", task.config.statement, [task.reference] if task.reference else [])
        if all(split == "train" for split in self.splits):
            return
        for event in rows(self.run, self.current):
            row, split = event.payload, self.split(event.payload)
            if split != "train" and row["right"]:
                name = f"{self.tasks[row['task']].name} ({split})"
                held.add(name, self.tasks[row["task"]].config.statement, [self.program(row, row["current"])])

    def split(self, row: Mapping[str, Any]) -> str:
        """Of a row's task."""
        index: int = row["task"]
        return self.splits[index]

    def program(self, row: Mapping[str, Any], program: str) -> Program:
        """A program that a row names."""
        return (self.sources[row["run"]].run if "run" in row else self.run).program(program)

    # Writing

    def trajectories(self, split: str, events: Sequence[int]) -> Iterator[Trajectory]:
        """The rows of these events, whole, one at a time."""
        for event in events:
            found = self.run.connection.execute("SELECT payload FROM events WHERE id = ?", (int(event),)).fetchone()
            trajectory = self._trajectory(split, loads(found[0]))
            if trajectory is not None:
                yield trajectory

    def _trajectory(self, split: str, row: Mapping[str, Any]) -> Trajectory | None:
        index: int = row["task"]
        task, style = self.tasks[index], Edit(row["style"])
        searched = "run" in row
        if searched:
            source = self.sources[row["run"]]
            shelf, seed, origin = self.shelves[row["run"]], evaluation_seed(source.setup), source.run.path.name
        else:
            seed = task_seed(self.config.seed, task.name)
            shelf, origin = Shelf(self.run, seed=seed), row["origin"]
        context = Context(
            parent=shelf.attempt(row["current"]),
            inspirations=shelf.attempts(row.get("others", ())),
            history=shelf.worst_first(row.get("history", ())),
            rejected=row.get("rejected", ""),
        )
        try:
            messages = build_messages(self.views[index], context, style=style, max_chars=self.config.prompt_chars)
        except UsageError:
            self.too_long += 1
            return None
        state = StartState(
            id=state_id(task.name, style, context),
            task=task.name,
            context=context,
            style=style,
            source=Origin.SEARCH if searched else Origin.SYNTH,
            depth=row.get("depth", 0),
            headroom=row["headroom"],
            known=frozenset(row.get("known", ())),
        )
        return Trajectory(
            state,
            split,
            task_digest=self.digests[index],
            statement=task.config.statement,
            messages=messages,
            next=shelf.attempt(row["next"]) if "next" in row else None,
            outcome=row.get("outcome", ""),
            origin=origin,
            step=row.get("step"),
            seed=seed,
        )


class _Hits:
    """Checks of rows against what is held out, remembered by task and program."""

    def __init__(self, assembler: Assembler, held: Held) -> None:
        self._assembler, self._held = assembler, held
        self._tasks: dict[int, Hit | None] = {}
        self._programs: OrderedDict[str, Hit | None] = OrderedDict()

    def of(self, row: Mapping[str, Any]) -> Hit | None:
        index = row["task"]
        if index not in self._tasks:
            task = self._assembler.tasks[index]
            hit = self._held.in_statement(task.config.statement)
            if hit is None and task.reference is not None and (found := self._held.in_program(task.reference)):
                hit = replace(found, what="reference")
            self._tasks[index] = hit
        if (hit := self._tasks[index]) is not None:
            return hit
        for program in filter(None, (row["current"], row.get("next"))):
            if program not in self._programs:
                self._programs[program] = self._held.in_program(self._assembler.program(row, program))
                if len(self._programs) > HITS_KEPT:
                    self._programs.popitem(last=False)
            if (hit := self._programs[program]) is not None:
                return hit
        return None


class _Removed:
    """What was found, with the number of rows of each."""

    def __init__(self) -> None:
        self.items: Counter[tuple[str, Hit]] = Counter()

    @property
    def rows(self) -> int:
        return self.items.total()

    def add(self, task: str, hit: Hit) -> None:
        self.items[task, hit] += 1

    def listed(self) -> list[dict[str, Any]]:
        return [{"task": task, **asdict(hit), "rows": count} for (task, hit), count in self.items.items()]


def _blocked(removed: Sequence[Mapping[str, Any]]) -> str:
    first = removed[0]
    more = f" (and {len(removed) - 1} more)" if len(removed) > 1 else ""
    return (
        f"contamination: {first['what']} of task {first['task']!r} against {first['against']!r}: {first['why']}{more}. Nothing was "
        "written. Leave these tasks out, or drop --strict to have the rows removed and listed"
    )
