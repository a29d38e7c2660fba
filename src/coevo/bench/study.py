"""A study: a run folder whose events are its finished units. Killed anywhere, the same command goes on after the last of them.

runs/meta/
  run.db        the study's settings, and one `unit` event per finished unit with all that was measured
  training/     a run folder per training run
  searches/     run folders of searches that are kept
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from coevo.bench import policies
from coevo.bench.comparing import Detectable, detectable
from coevo.bench.holdout import FILE as LEDGER
from coevo.bench.holdout import Holdout
from coevo.bench.phases import PHASE, Bench
from coevo.bench.plan import Unit, changed, check_recipes, plan, study_digest
from coevo.bench.settings import StudyConfig
from coevo.bench.suites import load_suite
from coevo.bench.types import SearchRecord
from coevo.config import parse
from coevo.errors import ConfigError, StoreError
from coevo.evaluation.judges import open_judges
from coevo.runs import Run
from coevo.runs import State as RunState
from coevo.tasks.sets import task_ref

KIND = "bench"


class Ended(StrEnum):
    """Why a study ended."""

    FINISHED = "finished"
    MINUTES = "minutes"
    """The minutes allowed are over; the same command goes on."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """How one sitting at a study ended."""

    ended: Ended
    done: int
    units: int
    folder: Path

    @property
    def exit_code(self) -> int:
        """For the command line: 0 when all is there, 3 when the minutes did not suffice, 1 when interrupted."""
        return {Ended.FINISHED: 0, Ended.MINUTES: 3, Ended.INTERRUPTED: 1}[self.ended]


def run_study(
    config: StudyConfig,
    out: Path,
    *,
    minutes: float | None = None,
    force: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Begin a study at `out`, or go on with the one there, until it is finished, `minutes` are over or someone interrupts.

    `force` opens test splits that this study has opened before; its results then say so. Raises `ConfigError` for settings that
    cannot work or that are not those of the study at `out`, `GateBlocked` where splits overlap or a test split was opened before,
    and what training and searching raise.
    """
    units = plan(config)
    with _opened(config, out) as run:
        sitting = _Sitting(config, run, units, notify, force, time.monotonic(), minutes)
        return sitting.go()


def resume_study(
    path: Path, *, minutes: float | None = None, force: bool = False, notify: Callable[[str], None] = lambda line: None
) -> Outcome:
    """Go on with the study at `path`, by the settings it was begun with. See `run_study`."""
    with Run.open(path, write=False) as run:
        config = config_of(run)
    return run_study(config, path, minutes=minutes, force=force, notify=notify)


@contextmanager
def _opened(config: StudyConfig, out: Path) -> Iterator[Run]:
    data = config.model_dump(mode="json")
    if not (out / "run.db").exists():
        with Run.create(out, kind=KIND, config=data) as run:
            yield run
        return
    with Run.open(out, write=False) as run:
        if run.kind != KIND:
            raise StoreError(f"{out} is a run of kind {run.kind!r}, not a study; give another --out")
        if differ := changed(run.config, data):
            raise ConfigError(
                f"{out} holds a study with other settings ({', '.join(differ[:6])}{', ...' if len(differ) > 6 else ''}); results of both "
                "would not compare. Give another --out, or the settings that it began with"
            )
    with Run.open(out, write=True) as run:
        yield run


@dataclass
class _Sitting:
    config: StudyConfig
    run: Run
    units: list[Unit]
    notify: Callable[[str], None]
    force: bool
    begun: float
    minutes: float | None

    def go(self) -> Outcome:
        results = results_of(self.run)
        todo = [unit for unit in self.units if unit.key not in results]
        if not todo:
            return self._outcome(Ended.FINISHED, results)
        with ExitStack() as stack:
            bench = self._bench(stack, results)
            self._settle(bench, results)
            timer = self._timer(bench)
            try:
                for unit in todo:
                    if bench.cancelled.is_set():
                        raise KeyboardInterrupt
                    self._make(bench, unit, results)
            except KeyboardInterrupt:
                over = timer is not None and self._left() <= 0
                return self._outcome(Ended.MINUTES if over else Ended.INTERRUPTED, results)
            finally:
                if timer is not None:
                    timer.cancel()
        return self._outcome(Ended.FINISHED, results)

    def _bench(self, stack: ExitStack, results: Mapping[str, Mapping[str, Any]]) -> Bench:
        config, run = self.config, self.run
        suite = load_suite(config.suite)
        untrained = policies.policy_spec(config.model, notify=self.notify)
        if any(arm.trained for arm in config.arms.values()):
            tasks = [task_ref(task) for task in suite.splits["train"]]
            policies.trained_spec(untrained, Path())
            check_recipes(config, config.arms, {"states.tasks": tasks, "states.runs": ["searches"]})
        facts = {
            "suite": suite.facts(),
            "dropped": list(suite.dropped),
            "units": len(self.units),
            "policy": {"spec": str(untrained), "fingerprint": policies.fingerprint(untrained)},
        }
        self._keep_facts(facts)
        for line in suite.dropped:
            self.notify(f"left out of the earlier split: {line}")
        ledger = Path(config.ledger).expanduser() if config.ledger else run.path.resolve().parent / LEDGER
        holdout = Holdout(ledger, study=study_digest(config.model_dump(mode="json")), run=str(run.path))
        pool = stack.enter_context(open_judges(config.pool, suite.tasks, sandbox=config.sandbox))
        return Bench(config, run.path, suite, pool, holdout, untrained, results, notify=self.notify, force=self.force)

    def _keep_facts(self, facts: Mapping[str, Any]) -> None:
        """What the study is about must not change between sittings: tasks and weights."""
        before = facts_of(self.run)
        if not before:
            self.run.append("study", facts)
        elif before != facts:
            names = [name for name in facts if facts[name] != before.get(name)]
            raise ConfigError(
                f"{self.run.path} was begun with another {' and '.join(names)} (tasks or weights have changed since); restore them, or "
                "begin a new study"
            )

    def _settle(self, bench: Bench, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Close accesses whose records are stored: a kill may have come in between."""
        for unit in self.units:
            data = results.get(unit.key)
            if unit.phase == "test" and data is not None:
                bench.holdout.settle(
                    f"{bench.suite.name}/{unit.split}",
                    bench.suite.digest(unit.split),
                    arm=unit.arm,
                    seed=unit.seed,
                    what=data["what"],
                )

    def _make(self, bench: Bench, unit: Unit, results: dict[str, Mapping[str, Any]]) -> None:
        begun = time.monotonic()
        data = PHASE[unit.phase](bench, unit)
        seconds = time.monotonic() - begun
        event = {"key": unit.key, "phase": unit.phase, "arm": unit.arm, "seed": unit.seed, "split": unit.split}
        self.run.append("unit", {**event, "seconds": round(seconds, 3), "data": data})
        results[unit.key] = {**data, "seconds": seconds}
        left = remaining_s(self.units, results)
        about = "" if left is None else f"; about {clock(left)} to go"
        self.notify(f"[{self._done(results)}/{len(self.units)}] {unit}: {clock(seconds)}{about}")
        if unit.phase == "pilot" and self._last_pilot(results):
            for line in noise_lines(self.config, bench.suite.facts(), results):
                self.notify(line)

    def _last_pilot(self, results: Mapping[str, Any]) -> bool:
        return all(unit.key in results for unit in self.units if unit.phase == "pilot")

    def _timer(self, bench: Bench) -> threading.Timer | None:
        if self.minutes is None:
            return None
        timer = threading.Timer(max(0.0, self._left()), bench.stop)
        timer.daemon = True
        timer.start()
        return timer

    def _left(self) -> float:
        """Seconds."""
        return 60 * (self.minutes or 0.0) - (time.monotonic() - self.begun)

    def _done(self, results: Mapping[str, Any]) -> int:
        return sum(unit.key in results for unit in self.units)

    def _outcome(self, ended: Ended, results: Mapping[str, Any]) -> Outcome:
        if ended is Ended.FINISHED:
            if self.run.state() is RunState.RUNNING:
                self.run.mark(RunState.FINISHED, by="all units were made")
        else:
            why = "the minutes allowed are over" if ended is Ended.MINUTES else "the user"
            self.run.mark(RunState.STOPPED, by=why)
        return Outcome(ended, self._done(results), len(self.units), self.run.path)


def results_of(run: Run) -> dict[str, Mapping[str, Any]]:
    """Data of every finished unit, by key, with `seconds`."""
    return {
        event.payload["key"]: {**event.payload["data"], "seconds": event.payload["seconds"]}
        for event in run.events(kinds=("unit",))
    }


def facts_of(run: Run) -> dict[str, Any]:
    """What the study is about, as written at its beginning; empty before that."""
    return next((dict(event.payload) for event in run.events(kinds=("study",))), {})


def config_of(run: Run) -> StudyConfig:
    """The settings of a study's run."""
    if run.kind != KIND:
        raise StoreError(f"{run.path} is a run of kind {run.kind!r}, not a study")
    return parse(StudyConfig, run.config, where=f"config of run {run.path}")


def records_of(results: Mapping[str, Mapping[str, Any]], units: list[Unit], phase: str) -> list[SearchRecord]:
    """All search records of a phase."""
    return [
        SearchRecord.from_dict(row)
        for unit in units
        if unit.phase == phase and unit.key in results
        for row in results[unit.key]["records"]
    ]


def noise(
    config: StudyConfig, facts: Mapping[str, Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Detectable]:
    """Per test split: what difference it can show, from the pilot."""
    pilot = records_of(results, [u for u in plan(config) if u.phase == "pilot"], "pilot")
    found = {
        split: detectable(pilot, tasks=int(facts[split]["tasks"]), seeds=config.seeds) for split in config.suite.test
    }
    return {split: value for split, value in found.items() if value is not None}


def noise_lines(
    config: StudyConfig, facts: Mapping[str, Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """For a person, before anything is trained."""
    found = noise(config, facts, results)
    if not found:
        return ["minimum detectable effect: unknown (the pilot measured too little)"]
    return [
        f"minimum detectable effect on {split}: {d.effect:.3f} in verified fitness ({d.tasks} tasks, {d.seeds} seeds, 80 % power, 5 % level; two "
        f"searches of one task differ by {d.sd_one:.3f}; training seeds come on top)"
        for split, d in found.items()
    ]


def remaining_s(units: list[Unit], results: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Seconds that the units to come will take, by the mean of their phase; None while a phase to come is not known yet."""
    seconds: dict[str, list[float]] = {}
    for unit in units:
        if unit.key in results:
            seconds.setdefault(unit.phase, []).append(float(results[unit.key]["seconds"]))
    total = 0.0
    for unit in units:
        if unit.key not in results:
            known = seconds.get(unit.phase)
            if not known:
                return None
            total += sum(known) / len(known)
    return total


def clock(seconds: float) -> str:
    """A duration as a person reads it."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min"
