"""The judge of kind open: there is no right answer, only better ones; the scorer sees data, never the program."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from coevo.errors import TaskError
from coevo.evaluation import suites
from coevo.evaluation.checkers import DATA_ERRORS, data_error
from coevo.evaluation.feedback import bounded, describe_fault
from coevo.evaluation.findings import FAILURES, Findings, failed, judge_bug
from coevo.evaluation.fitness import open_fitness
from coevo.evaluation.running import Meter, Runner
from coevo.evaluation.show import show
from coevo.evaluation.tested import whole_answers
from coevo.evaluation.trusted import JUDGE_ERRORS, judge_function, load_judge_file
from coevo.evaluation.types import Failure, Outcome
from coevo.evaluation.weighing import weight
from coevo.programs import Program
from coevo.sandbox.types import Call, CallResult, Status
from coevo.streams import stream_seed
from coevo.tasks.types import Split, Task

KEPT_ITEMS = 20_000
"""An answer with at most so many numbers and characters is kept in `Evaluation.extra["output"]`."""


class Unscorable(ValueError):
    """The scorer gave something that is not a finite score."""


class OpenJudge:
    """Judges programs by a task's scorer."""

    def __init__(self, task: Task, runner: Runner) -> None:
        self.task, self.runner = task, runner
        self._instances: dict[Split, list[dict[str, Any]]] = {}
        self.held_bytes = 0
        """Memory that the splits' instances take, about."""

    def judge(
        self, program: Program, *, split: Split, seed: int, meter: Meter, more: Mapping[str, Any] | None = None
    ) -> Findings:
        """`more`: keyword arguments that every call gets beside the instance's own."""
        instances = self.instances(split)
        calls = [Call(kwargs={**kwargs, **(more or {})}) for kwargs in instances]
        answers = self._run(program, calls, meter, stream_seed(seed, "run", split))
        for i, answer in enumerate(answers):
            if answer.status is not Status.OK:
                why = describe_fault(answer, self.runner.limits, told=split == "public")
                return self._failed(FAILURES[answer.status], split, i, why)
        outputs = [a.value for a in answers]
        try:
            score, said, extra = self._score(outputs, instances)
        except Unscorable as e:
            why = str(e) if split == "public" else "the answer to a hidden instance is not valid"
            return self._failed(Failure.INVALID, split, None, why)
        if (kept := keepable(outputs[0])) is not None:
            extra["output"] = kept
        better = "higher" if self.task.config.direction == "max" else "lower"
        return Findings(
            Outcome.SCORED,
            open_fitness(score, self.task.config.direction, self.task.config.best_known),
            correctness=1.0,
            score=score,
            feedback=bounded(f"Score {score:.12g} ({better} is better)." + (f"\n{said}" if said else ""))
            if split == "public"
            else "",
            extra=extra,
        )

    def instances(self, split: Split) -> list[dict[str, Any]]:
        """Keyword arguments of the calls of a split."""
        if split not in self._instances:
            self._instances[split] = suites.make_instances(self.task, split)
            self.held_bytes += weight(self._instances[split])
        return self._instances[split]

    def _run(self, program: Program, calls: Sequence[Call], meter: Meter, seed: int) -> list[CallResult]:
        """Answers up to the first fault: one instance without an answer leaves the program without a score."""
        entry = self.task.config.entry
        if entry is None:
            raise TaskError(f"task {self.task.name!r} names no `entry` function in task.yaml")
        groups = [[call] for call in calls] if self.task.config.fresh_process else [list(calls)]
        answers: list[CallResult] = []
        for group in groups:
            answers += whole_answers(self.runner.call(program, entry, group, meter, seed=seed), len(group))
            if answers[-1].status is not Status.OK:
                break
        return answers

    def _score(self, outputs: list[Any], instances: list[dict[str, Any]]) -> tuple[float, str, dict[str, Any]]:
        """Score, feedback and named numbers of a split; raises `Unscorable` for an answer that has no score."""
        name, score = self._scorer
        if name == "score_all":
            return read_score(self._ask(lambda: score(outputs, instances), ""))
        rows = []
        for i, (output, instance) in enumerate(zip(outputs, instances, strict=True)):
            where = f"instance {i + 1} of {len(instances)}: " if len(instances) > 1 else ""
            rows.append(read_score(self._ask(lambda o=output, k=instance: score(o, k), where), where))
        said = next((text for _, text, _ in rows if text), "")
        return (
            _mean([value for value, _, _ in rows]),
            said,
            rows[0][2] if len(rows) == 1 else _mean_extra([extra for _, _, extra in rows]),
        )

    def _ask(self, score: Any, where: str) -> Any:
        try:
            return score()
        except DATA_ERRORS as e:
            raise Unscorable(where + data_error(e)) from e
        except JUDGE_ERRORS as e:
            raise judge_bug(str(self.task.folder / "score.py"), e) from e

    def _failed(self, failure: Failure, split: Split, index: int | None, why: str) -> Findings:
        count = len(self.instances(split))
        where = f"instance {index + 1} of {count}: " if index is not None and count > 1 else ""
        reason = bounded(where + why)
        return failed(failure, reason, feedback=f"No score: {reason}" if split == "public" else "")

    @cached_property
    def _scorer(self) -> tuple[str, Any]:
        module = load_judge_file(self.task.folder / "score.py")
        function = judge_function(module, "score_all", "score")
        return ("score_all" if hasattr(module, "score_all") else "score"), function


def read_score(result: Any, where: str = "") -> tuple[float, str, dict[str, Any]]:
    """(score, feedback, other entries) of what a scorer returned. Raises `Unscorable` for anything but a finite number."""
    said, extra = "", {}
    if isinstance(result, Mapping):
        if "score" not in result:
            raise Unscorable(f"{where}the scorer returned {show(dict(result))}, which has no 'score'")
        said = str(result.get("feedback", "") or "")
        extra = {
            k: kept for k, v in result.items() if k not in ("score", "feedback") and (kept := keepable(v)) is not None
        }
        result = result["score"]
    if isinstance(result, bool | np.bool_) or not isinstance(result, int | float | Fraction | np.integer | np.floating):
        raise Unscorable(f"{where}the score is {show(result)}, which is not a number")
    try:
        value = float(result)
    except OverflowError:
        raise Unscorable(f"{where}the score is too large for a float") from None
    if not math.isfinite(value):
        raise Unscorable(f"{where}the score is {value}, which is not finite")
    return value, said, extra


def keepable(value: Any) -> Any | None:
    """`value` as plain JSON data (arrays and tuples as lists), or None if it is large or JSON cannot say it."""
    left = KEPT_ITEMS

    def convert(item: Any) -> Any:
        nonlocal left
        if isinstance(item, np.ndarray | np.generic):
            if item.size > left:
                raise ValueError
            item = item.tolist()
        left -= len(item) if isinstance(item, str) else 1
        if left < 0 or (isinstance(item, int) and item.bit_length() > 4096):
            raise ValueError
        if isinstance(item, list | tuple):
            return [convert(x) for x in item]
        if isinstance(item, dict) and all(isinstance(key, str) for key in item):
            return {key: convert(x) for key, x in item.items()}
        if item is None or isinstance(item, bool | int | str) or (isinstance(item, float) and math.isfinite(item)):
            return item
        raise ValueError

    try:
        return convert(value)
    except ValueError:
        return None


def _mean(values: Sequence[float]) -> float:
    """Of finite numbers: also where their sum is not one."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def _mean_extra(extras: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of the numbers that every instance has."""
    shared = [k for k in extras[0] if all(_is_number(e.get(k)) for e in extras)]
    return {k: _mean([float(e[k]) for e in extras]) for k in shared}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
