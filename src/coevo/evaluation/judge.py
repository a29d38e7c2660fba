"""The judge: a program and a task in, an `Evaluation` out.

    with Judge(load_task("circle_packing")) as judge:
        evaluation = judge.evaluate(program, split="public", seed=1)

The candidate runs in the sandbox and hands out plain data. Expected answers, checkers and scorers stay in this process, which
it never shares. Whatever a candidate does becomes a scored or failed evaluation; what the machine does wrong is tried again
and then *unmeasured*; only a broken task or a machine without walls raises.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from coevo.errors import CoevoError, InfrastructureError, SandboxError, TaskError
from coevo.evaluation.checkers import RIGHT, check_value
from coevo.evaluation.efficiency import EfficiencyConfig
from coevo.evaluation.feedback import describe_fault
from coevo.evaluation.findings import Findings, judge_bug
from coevo.evaluation.opened import OpenJudge
from coevo.evaluation.openevolve import OpenEvolveJudge
from coevo.evaluation.running import Meter, Runner
from coevo.evaluation.tested import TestedJudge, whole_answers
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.programs import Program
from coevo.sandbox.types import Call, Level, Preload, Sandbox, SandboxConfig
from coevo.tasks.types import Checker, Kind, Split, Task

_OR_THE_MACHINE = (Failure.CRASH, Failure.TIMEOUT, Failure.MEMORY)
"""Failures that a machine in trouble would give to any program."""

Inner = TestedJudge | OpenJudge | OpenEvolveJudge


class Judge:
    """Judges programs on one task, one at a time. Owns a sandbox with one worker; close it, or use it in a `with`.

    The sandbox starts at the first use (or `open`), and has to run a known-good program before any candidate. Given an open
    sandbox in place of a config, the judge works in that one and leaves it open (`coevo.evaluation.judges` shares it so).
    """

    def __init__(
        self,
        task: Task,
        *,
        sandbox: SandboxConfig | Sandbox = SandboxConfig(),  # noqa: B008 - frozen
        efficiency: EfficiencyConfig = EfficiencyConfig(),  # noqa: B008 - frozen
    ) -> None:
        self.task = task
        self._given, self._efficiency = sandbox, efficiency
        self._sandbox: Sandbox | None = None
        self._inner: Inner | None = None

    def open(self) -> Judge:
        """Start the sandbox and prove it with a canary. Raises `SandboxError` if that fails, `WallsError` without walls."""
        self._opened()
        return self

    def close(self) -> None:
        """End the sandbox, if it is the judge's own. The judge can be opened again."""
        sandbox, self._sandbox, self._inner = self._sandbox, None, None
        if sandbox is not None and sandbox is not self._given:
            sandbox.close()

    def __enter__(self) -> Judge:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def inner(self) -> Inner:
        """The judge of the task's kind: its tests or instances."""
        return self._opened()

    @property
    def level(self) -> Level:
        """Which rung of the sandbox's ladder judges here."""
        self._opened()
        assert self._sandbox is not None
        return self._sandbox.level

    @property
    def held_bytes(self) -> int:
        """Memory that the task's tests take here, about; 0 before the first program is judged."""
        return self._inner.held_bytes if self._inner is not None else 0

    def evaluate(self, program: Program, *, split: Split, seed: int) -> Evaluation:
        """Judge a program. Equal arguments give equal evaluations, but for times and what follows from them.

        `seed` draws the timing inputs and seeds the candidate's random generators. Raises only for what is wrong with
        the task (`TaskError`), the config or the machine's walls; never for what the candidate does.
        """
        return self._judged(program, self._opened(), split=split, seed=seed)

    def baseline(self, seconds: float, *, split: Split, seed: int) -> Evaluation:
        """Judge the task's no-model optimiser, given `seconds` of CPU in all (shared evenly by the split's instances)."""
        inner = self._opened()
        if self.task.baseline is None or not isinstance(inner, OpenJudge):
            raise TaskError(f"task {self.task.name!r} has no baseline.py")
        share = seconds / len(inner.instances(split))
        total = share if self.task.config.fresh_process else seconds
        limits = self.task.config.limits.model_copy(update={"cpu_s": 1.25 * total + 10, "wall_s": 10 * total + 60})
        roomy = OpenJudge(self.task, inner.runner.with_limits(limits))
        return self._judged(self.task.baseline, roomy, split=split, seed=seed, more={"seconds": share})

    def _judged(self, program: Program, inner: Inner, *, split: Split, seed: int, **more: Any) -> Evaluation:
        """A program is blamed only if the canary still sings after it failed; a judge that stumbles measures nothing."""
        meter = Meter()
        try:
            findings = inner.judge(program, split=split, seed=seed, meter=meter, **more)
            if findings.failure in _OR_THE_MACHINE:
                canary(inner.runner)
        except InfrastructureError as e:
            findings = unmeasured(e)
        except CoevoError:
            raise
        except Exception as e:
            findings = unmeasured(judge_bug("the judge", e))
        return self._evaluation(program, findings, meter, split=split, seed=seed)

    def _evaluation(self, program: Program, findings: Findings, meter: Meter, *, split: Split, seed: int) -> Evaluation:
        return Evaluation(
            program_id=program.id,
            task=self.task.name,
            split=split,
            seed=seed,
            **vars(findings),
            cpu_s=meter.cpu_s,
            wall_s=meter.wall_s,
            peak_mb=meter.peak_mb,
            executions=meter.executions,
        )

    def _opened(self) -> Inner:
        if self._inner is None:
            preload = self.task.config.preload
            sandbox = self._sandbox = opened(self._given, preload)
            runner = Runner(sandbox, preload, self.task.config.limits)
            try:
                canary(runner)
                self._inner = judge_of(self.task, runner, self._efficiency)
            except BaseException:
                self.close()
                raise
        return self._inner


def opened(given: SandboxConfig | Sandbox, preload: Preload) -> Sandbox:
    """A sandbox with one worker by its config; one that is open already, as it is."""
    if not isinstance(given, SandboxConfig):
        return given
    from coevo.sandbox import open_sandbox

    return open_sandbox(given, preload=preload, workers=1)


def unmeasured(error: InfrastructureError) -> Findings:
    """Nothing is known about the program."""
    return Findings(Outcome.UNMEASURED, None, failure=Failure.INFRASTRUCTURE, reason=str(error))


def judge_of(task: Task, runner: Runner, efficiency: EfficiencyConfig) -> Inner:
    """The judge for the task's kind."""
    if task.kind in (Kind.FUNCTION, Kind.STDIO):
        return TestedJudge(task, runner, efficiency)
    if task.kind is Kind.OPEN:
        return OpenJudge(task, runner)
    if task.kind is Kind.OPENEVOLVE:
        return OpenEvolveJudge(task, runner)
    raise TaskError(f"task {task.name!r} is of kind {task.kind}, which cannot be judged yet")


_CANARY = {
    Preload.STDLIB: "import math, json, collections\n",
    Preload.NUMPY: "import numpy\nassert float(numpy.arange(5.0) @ numpy.ones(5)) == 10\n",
    Preload.NUMPY_SCIPY: "import numpy, scipy.optimize\nassert float(numpy.arange(5.0) @ numpy.ones(5)) == 10\n",
}


def canary(runner: Runner) -> None:
    """Run a program known to be good under the task's own preload and limits. Raises `SandboxError` if it does not behave."""
    program = Program.of(_CANARY[runner.preload] + "def canary(items, k):\n    return sorted(items), k ** 100, 'é'\n")
    expected = ([1, 2, 3], 7**100, "é")
    answer = whole_answers(runner.call(program, "canary", [Call(([3, 1, 2], 7))], Meter(), seed=0), 1)[0]
    if check_value(Checker(), answer.value, expected) != RIGHT:
        why = show_fault(answer, runner)
        raise SandboxError(
            f"this machine cannot run even a known-good program under the task's limits ({why}), so no candidate would be "
            "judged fairly. `coevo doctor` says which wall is at fault; if the limits in task.yaml are very small, raise them"
        )


def show_fault(answer: Any, runner: Runner) -> str:
    return f"{answer.status}: {describe_fault(answer, runner.limits)}"
