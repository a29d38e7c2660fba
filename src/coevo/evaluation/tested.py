"""The judge of kinds function and stdio: answers compared with expected ones, speed with the reference's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from coevo.errors import TaskError
from coevo.evaluation import suites
from coevo.evaluation.checkers import Verdict, check_custom, check_text, check_value
from coevo.evaluation.efficiency import EfficiencyConfig, Speed
from coevo.evaluation.feedback import bounded, describe_fault, describe_input, speed_line, suite_feedback
from coevo.evaluation.findings import FAILURES, Findings, failed, judge_bug
from coevo.evaluation.fitness import efficiency_of, fitness_of
from coevo.evaluation.running import Meter, Runner
from coevo.evaluation.timing import Problem, Sample, overloaded, time_pairs
from coevo.evaluation.trusted import JUDGE_ERRORS, judge_function, load_judge_file
from coevo.evaluation.types import Outcome, TestResult
from coevo.evaluation.weighing import weight
from coevo.programs import Program
from coevo.sandbox.types import CallResult, Execution, Status
from coevo.streams import stream_seed
from coevo.tasks.types import Kind, Split, Task, Test

WRONG = "wrong"
"""`TestResult.status` of an answer that is not accepted."""

_SLOW = (Status.CPU, Status.WALL)


class TestedJudge:
    """Judges programs by tests. Keeps each split's expected answers, in memory, outside the sandbox."""

    __test__ = False

    def __init__(self, task: Task, runner: Runner, efficiency: EfficiencyConfig) -> None:
        self.task, self.runner, self.config = task, runner, efficiency
        self._suites: dict[Split, list[Test]] = {}
        self.held_bytes = 0
        """Memory that the splits' tests take, about."""

    def judge(self, program: Program, *, split: Split, seed: int, meter: Meter) -> Findings:
        run_seed = stream_seed(seed, "run", split)
        tests = self.tests(split)
        answers = self.answers(program, tests, meter, run_seed)
        results = [self._result(test, answer) for test, answer in zip(tests, answers, strict=True)]
        if all(answer.status is not Status.OK for answer in answers):
            return self._no_answer(split, answers, results)
        speed = None
        if self.task.config.timing is not None and all(r.passed for r in results):
            speed = self._time(program, split=split, seed=seed, meter=meter)
            if isinstance(speed, Problem) and speed.answer.status not in _SLOW:
                results.append(self._timing_result(speed))
        return self._scored(split, results, speed)

    def tests(self, split: Split) -> list[Test]:
        """The tests of a split with their expected answers. Raises `TaskError` if the reference does not pass them."""
        if split not in self._suites:
            made = self._suites[split] = self._answered(suites.make_tests(self.task, split, self._generate))
            self.held_bytes += sum(weight(t.args, t.kwargs, t.stdin, t.expected) for t in made)
        return self._suites[split]

    def answers(self, program: Program, tests: Sequence[Test], meter: Meter, seed: int) -> list[CallResult]:
        """What the program answers to each test: a value, or the text it printed; or why there is none."""
        if self.task.kind is Kind.STDIO:
            executions = self.runner.script_each(program, [t.stdin for t in tests], meter, seed=seed)
            return [as_answer(e) for e in executions]
        return self.runner.call_each(program, self._entry, [suites.call_of(t) for t in tests], meter, seed=seed)

    def check(self, test: Test, got: Any, expected: Any) -> Verdict:
        """Whether an answer is accepted. A checker that fails by itself raises `JudgeBug`."""
        checker = self.task.config.checker
        if checker.name == "custom":
            arguments = test.stdin if self.task.kind is Kind.STDIO else tuple(test.args)
            try:
                return check_custom(self._custom, got, expected, arguments)
            except JUDGE_ERRORS as e:
                raise judge_bug(str(self.task.folder / "checker.py"), e) from e
        compare = check_text if self.task.kind is Kind.STDIO else check_value
        return compare(checker, got, expected)

    # --- the parts of an evaluation ---

    def _result(self, test: Test, answer: CallResult) -> TestResult:
        public = test.split == "public"
        if answer.status is not Status.OK:
            said = f"{describe_input(self.task, test)}: {describe_fault(answer, self.runner.limits)}"
            return TestResult(test.name, False, str(answer.status), bounded(said) if public else "")
        verdict = self.check(test, answer.value, test.expected)
        if verdict.ok:
            return TestResult(test.name, True, str(Status.OK))
        return TestResult(
            test.name, False, WRONG, bounded(f"{describe_input(self.task, test)}: {verdict.detail}") if public else ""
        )

    def _no_answer(self, split: Split, answers: Sequence[CallResult], results: Sequence[TestResult]) -> Findings:
        first = answers[0]
        reason, feedback = describe_fault(first, self.runner.limits, told=split == "public"), ""
        if split == "public":
            alike = len(answers) > 1 and all(answer == first for answer in answers)
            feedback = bounded(f"All {len(answers)} tests end alike: {reason}") if alike else suite_feedback(results)
        return failed(FAILURES[first.status], reason, feedback=feedback, tests=results)

    def _time(self, program: Program, *, split: Split, seed: int, meter: Meter) -> Speed | Problem:
        generate, reference = self._generate, self.task.reference
        if generate is None or reference is None:
            raise TaskError(f"task {self.task.name!r}: timing needs generate.py and reference.py")
        run_seed = stream_seed(seed, "run", split)
        return time_pairs(
            self._measure(reference, run_seed),
            self._measure(program, run_seed),
            lambda run: suites.timing_tests(self.task, generate, split=split, seed=seed, run=run),
            lambda test, got, expected: self.check(test, got.value, expected.value),
            self.config,
            meter,
        )

    def _measure(self, program: Program, seed: int) -> Callable[[Sequence[Test], Meter], Sample]:
        def run(tests: Sequence[Test], meter: Meter) -> Sample:
            if self.task.kind is Kind.STDIO:
                executions = [self.runner.script(program, t.stdin, meter, seed=seed) for t in tests]
                return Sample([as_answer(e) for e in executions], sum(e.cpu_s for e in executions))
            execution = self.runner.call(program, self._entry, [suites.call_of(t) for t in tests], meter, seed=seed)
            return Sample(whole_answers(execution, len(tests)), execution.cpu_s)

        return run

    def _timing_result(self, problem: Problem) -> TestResult:
        size = self.task.config.timing.size if self.task.config.timing else 0
        public, name = problem.test.split == "public", f"timing at size {size}"
        if problem.verdict is None:
            return TestResult(
                name,
                False,
                str(problem.answer.status),
                describe_fault(problem.answer, self.runner.limits) if public else "",
            )
        return TestResult(name, False, WRONG, bounded(problem.verdict.detail) if public else "")

    def _scored(self, split: Split, results: Sequence[TestResult], speed: Speed | Problem | None) -> Findings:
        config = self.task.config
        correctness = sum(r.passed for r in results) / len(results)
        efficiency = speedup = seconds = None
        line, extra = "", {}
        if isinstance(speed, Speed) and config.timing is not None:
            speedup = speed.speedup(self.config.tie)
            efficiency, seconds = efficiency_of(speedup), min(speed.candidate) / config.timing.inputs
            line = speed_line(speed, speedup, config.timing)
            extra["timing"] = {
                "candidate_s": seconds,
                "reference_s": min(speed.reference) / config.timing.inputs,
                "pairs": speed.pairs,
                "spread": speed.spread if speed.pairs > 1 else None,
                "ratio": speed.ratio,
            }
        elif isinstance(speed, Problem) and correctness == 1 and config.timing is not None:
            efficiency = 0.0
            line = f"Speed at size {config.timing.size}: {describe_fault(speed.answer, self.runner.limits)}."
        counted = efficiency if efficiency is not None else (0.0 if config.timing is not None else None)
        return Findings(
            Outcome.SCORED,
            fitness_of(config.fitness, correctness=correctness, efficiency=counted, seconds=seconds),
            correctness=correctness,
            efficiency=efficiency,
            speedup=speedup,
            feedback=suite_feedback(results, line) if split == "public" else "",
            tests=tuple(results),
            extra=extra,
        )

    # --- what the task brings ---

    def _answered(self, tests: list[Test]) -> list[Test]:
        """Fill in the reference's answers, and make sure it passes the written tests."""
        if self.task.reference is None:
            return tests
        answers = self.answers(self.task.reference, tests, Meter(), suites.SUITE_SEED)
        answered = []
        for test, answer in zip(tests, answers, strict=True):
            if answer.status is Status.WALL:
                raise overloaded(answer)
            if answer.status is not Status.OK:
                raise TaskError(self._reference_fails(test, describe_fault(answer, self.runner.limits)))
            if test.expected is suites.PENDING:
                answered.append(replace(test, expected=answer.value))
                continue
            verdict = self.check(test, answer.value, test.expected)
            if not verdict.ok:
                raise TaskError(self._reference_fails(test, verdict.detail))
            answered.append(test)
        return answered

    def _reference_fails(self, test: Test, why: str) -> str:
        return (
            f"task {self.task.name!r}: the reference fails the {test.split} test {test.name!r} "
            f"({describe_input(self.task, test)}): {why}. Mend reference.py or the test; if both are right, raise the limits"
        )

    @property
    def _entry(self) -> str:
        if self.task.config.entry is None:
            raise TaskError(f"task {self.task.name!r} names no `entry` function in task.yaml")
        return self.task.config.entry

    @cached_property
    def _generate(self) -> suites.Generator | None:
        return suites.load_generator(self.task)

    @cached_property
    def _custom(self) -> Callable[[Any, Any, Any], Any]:
        return judge_function(load_judge_file(self.task.folder / "checker.py"), "check")


def as_answer(execution: Execution) -> CallResult:
    """A script's standard output as its answer, or why it gave none."""
    if execution.status is Status.OK:
        return CallResult(Status.OK, execution.stdout.decode("utf-8", "replace"))
    if execution.status is Status.EXITED and not execution.line:
        said = execution.stderr.decode("utf-8", "replace").strip()
        return CallResult(Status.EXITED, error=f"{execution.error} {said[-300:]}".strip())
    return CallResult(execution.status, error=execution.error, line=execution.line, file=execution.file)


def whole_answers(execution: Execution, count: int) -> list[CallResult]:
    """One result per call of a single process; calls it never came to are faults too."""
    answers = list(execution.calls[:count])
    if execution.status is Status.OK and len(answers) == count:
        return answers
    status = Status.EXITED if execution.status is Status.OK else execution.status
    never = CallResult(status, error=execution.error, line=execution.line, file=execution.file)
    answers += [never] * (count - len(answers))
    return [never if a.status is Status.SKIPPED else a for a in answers]
