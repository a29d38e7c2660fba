"""The judge of OpenEvolve folders: evaluator and candidate together inside the sandbox.

Nothing here can tell an evaluator's score from a forged one: the result is marked "shared with the candidate". What still
holds are the sandbox's walls and limits, and that only a finite number is a score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from coevo.errors import TaskError
from coevo.evaluation.feedback import bounded, describe_fault
from coevo.evaluation.findings import FAILURES, Findings, failed
from coevo.evaluation.fitness import open_fitness
from coevo.evaluation.running import Meter, Runner
from coevo.evaluation.show import clip
from coevo.evaluation.tested import whole_answers
from coevo.evaluation.types import Failure, Outcome
from coevo.evaluation.weighing import weight
from coevo.programs import Program
from coevo.sandbox.types import Call, CallResult, Status
from coevo.streams import stream_seed
from coevo.tasks.types import Split, Task

SHARED = "shared with the candidate"
COMBINED = "combined_score"


class OpenEvolveJudge:
    """Runs a foreign evaluator on a program. The score is `combined_score`, or the mean of all numeric metrics."""

    def __init__(self, task: Task, runner: Runner) -> None:
        self.task, self.runner = task, runner
        self._probe()
        self.held_bytes = weight(self._files)
        """Memory that the folder's files take."""

    def judge(self, program: Program, *, split: Split, seed: int, meter: Meter) -> Findings:
        candidate = {name: text.encode("utf-8", "surrogatepass") for name, text in program.files}
        call = Call((self._files, candidate, program.main))
        answer = self._call("run", call, meter, stream_seed(seed, "run", split))
        if answer.status is not Status.OK:
            return self._failed(FAILURES[answer.status], describe_fault(answer, self.runner.limits), split)
        try:
            metrics, artifacts = read_result(answer.value)
            score = combined(metrics)
        except ValueError as e:
            return self._failed(Failure.INVALID, str(e), split)
        return Findings(
            Outcome.SCORED,
            open_fitness(score, "max", None),
            correctness=1.0,
            score=score,
            feedback=_feedback(score, metrics, artifacts) if split == "public" else "",
            judge=SHARED,
            extra=dict(metrics),
        )

    def _failed(self, failure: Failure, reason: str, split: Split) -> Findings:
        return failed(
            failure, bounded(reason), feedback=bounded(f"No score: {reason}") if split == "public" else "", judge=SHARED
        )

    def _probe(self) -> None:
        """The evaluator must load before any candidate is blamed."""
        answer = self._call("probe", Call((self._files,)), Meter(), 0)
        where = self.task.folder / "evaluator.py"
        if answer.status is not Status.OK:
            raise TaskError(f"{where} does not load in the sandbox: {describe_fault(answer, self.runner.limits)}")
        if missing := answer.value.get("missing"):
            raise TaskError(
                f"{where} imports {missing!r}, which the sandbox does not offer; it has the standard library, numpy, scipy "
                "and the folder's own files"
            )
        if error := answer.value.get("error"):
            raise TaskError(f"{where} does not load: {error}")

    def _call(self, entry: str, call: Call, meter: Meter, seed: int) -> CallResult:
        return whole_answers(self.runner.call(self._driver, entry, [call], meter, seed=seed), 1)[0]

    @cached_property
    def _driver(self) -> Program:
        return Program.of(Path(__file__).with_name("openevolve_driver.py").read_text(encoding="utf-8"), "program.py")

    @cached_property
    def _files(self) -> dict[str, bytes]:
        try:
            return {name: (self.task.folder / name).read_bytes() for name in self.task.source_files}
        except OSError as e:
            raise TaskError(f"cannot read {e.filename}: {e.strerror or e}") from None


def read_result(value: Any) -> tuple[dict[str, float], dict[str, str]]:
    """(metrics, artifacts) of what the driver returned; raises ValueError for anything else, or a number that is not finite."""
    if not isinstance(value, Mapping) or not isinstance(value.get("metrics"), Mapping):
        raise ValueError("the evaluator gave no metrics")
    metrics: dict[str, float] = {}
    for name, number in value["metrics"].items():
        if not isinstance(name, str) or not isinstance(number, float):
            raise ValueError("the evaluator's metrics are not numbers by name")
        if not math.isfinite(number):
            raise ValueError(f"the evaluator's metric {name!r} is {number}, which is not finite")
        metrics[name] = number
    artifacts = value.get("artifacts")
    texts = artifacts if isinstance(artifacts, Mapping) else {}
    return metrics, {k: v for k, v in texts.items() if isinstance(k, str) and isinstance(v, str)}


def combined(metrics: Mapping[str, float]) -> float:
    """`combined_score` if there is one, else the mean of all metrics."""
    if COMBINED in metrics:
        return metrics[COMBINED]
    if not metrics:
        raise ValueError("the evaluator returned no numeric metric, so there is no score")
    return math.fsum(metrics.values()) / len(metrics)


def _feedback(score: float, metrics: Mapping[str, float], artifacts: Mapping[str, str]) -> str:
    lines = [f"Score {score:.12g} (higher is better)."]
    lines += [f"- {clip(name, 60)}: {value:.6g}" for name, value in metrics.items() if name != COMBINED][:12]
    lines += [f"{clip(name, 60)}: {clip(text, 400)}" for name, text in artifacts.items()]
    return bounded("\n".join(lines))
