"""Is a task fit to judge programs? What `coevo tasks check` proves, by running the task's own programs and planted wrong ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from coevo.errors import CoevoError
from coevo.evaluation import suites
from coevo.evaluation.judge import Judge
from coevo.evaluation.opened import OpenJudge
from coevo.evaluation.running import Meter
from coevo.evaluation.show import clip, show
from coevo.evaluation.suites import SUITE_SEED
from coevo.evaluation.tested import TestedJudge
from coevo.evaluation.types import Evaluation, Outcome
from coevo.programs import Program
from coevo.sandbox.codec import encode
from coevo.sandbox.types import SandboxConfig, Status
from coevo.tasks.types import Kind, Split, Task, Test

MIN_REFERENCE_S = 0.010
"""CPU seconds below which a timed run of the reference measures the machine rather than the program. Authors should aim at
20 ms (`Timing.size`); half of that leaves room for a machine twice as fast."""

UNSTEADY = 1.25
"""A reference that is timed against itself and differs by more than this factor is not a yardstick. Far above the noise of a
busy machine: the check is about the task."""

SPLITS: tuple[Split, Split] = ("public", "hidden")


@dataclass(frozen=True)
class CheckResult:
    """One property of a task: whether it holds, and the evidence either way."""

    name: str
    ok: bool
    detail: str = ""


def check_task(task: Task, *, sandbox: SandboxConfig = SandboxConfig(), timing: bool = True) -> list[CheckResult]:  # noqa: B008 - frozen
    """Check everything that can be checked by running. Broken tasks give failed results, not exceptions.

    `timing=False` leaves out what needs timed runs. Raises `SandboxError` and `WallsError`: then no task can be checked.
    """
    results = [_secret(task)]
    with Judge(task, sandbox=sandbox) as judge:
        try:
            inner = judge.inner
        except CoevoError as e:
            return [*results, CheckResult("loads", False, str(e))]
        if isinstance(inner, TestedJudge):
            checks = _tested(judge, inner, timing)
        elif isinstance(inner, OpenJudge):
            checks = _open(judge, inner)
        else:
            checks = iter([_guarded("start", lambda: _start_scored(judge))])
        results += checks
    return results


# --- kinds function and stdio -------------------------------------------------------------------------------------------


def _tested(judge: Judge, inner: TestedJudge, timing: bool) -> Iterator[CheckResult]:
    task = judge.task
    yield (reference := _guarded("reference", lambda: _reference(inner)))
    if not reference.ok:
        return
    yield _guarded("deterministic", lambda: _same_tests(inner))
    yield _guarded("splits", lambda: _splits_differ(inner))
    yield _guarded("start", lambda: _start_right(judge, inner))
    for name, program in wrong_programs(task, inner.tests("public")):
        yield _guarded(f"refuses {name}", lambda program=program: _refused(inner, program))
    if task.reference is not None:
        yield _guarded("limits", lambda: _limits(inner))
    if task.config.timing is not None and timing:
        yield _guarded("timing", lambda: _timed(judge))


def wrong_programs(task: Task, public: list[Test]) -> Iterator[tuple[str, Program]]:
    """Programs that no task may accept: constants, echoes, early exits, and answers that claim to equal anything."""
    name = task.config.entry or ""
    if task.kind is Kind.STDIO:
        sources = {
            "empty output": "",
            "an echo of the input": "import sys\nsys.stdout.write(sys.stdin.read())\n",
            "a constant": f"print({str(public[0].expected)!r}, end='')\n",
            "an early exit": "import os\nos._exit(0)\n",
        }
    else:
        head = f"def {name}(*args, **kwargs):\n    "
        sources = {
            "None": f"{head}return None\n",
            "its first argument": f"{head}return args[0] if args else None\n",
            "an always-equal object": _ALWAYS_EQUAL + f"{head}return Equal()\n",
            "an early exit": f"import os\n{head}os._exit(0)\n",
        }
        if (constant := literal(public[0].expected)) is not None:
            sources["a constant"] = f"{head}return {constant}\n"
    for what, source in sources.items():
        yield what, Program.of(source)


_ALWAYS_EQUAL = """class Equal(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __sub__(self, other): return 0
    def __abs__(self): return 0

"""


def literal(value: Any) -> str | None:
    """Source text of a plain value that evaluates to it, or None where Python has none (arrays, non-finite floats)."""
    try:
        text = repr(value)
        return text if len(text) < 100_000 and eval(text, {"__builtins__": {}}) == value else None
    except Exception:
        return None


def _reference(inner: TestedJudge) -> CheckResult:
    counts = [len(inner.tests(split)) for split in SPLITS]
    if inner.task.reference is None:
        return CheckResult(
            "reference", True, f"none needed: {counts[0]} public and {counts[1]} hidden tests are written down"
        )
    return CheckResult("reference", True, f"answers all {counts[0]} public and {counts[1]} hidden tests")


def _same_tests(inner: TestedJudge) -> CheckResult:
    for split in SPLITS:
        again = suites.make_tests(inner.task, split, suites.load_generator(inner.task))
        for old, new in zip(inner.tests(split), again, strict=True):
            if _input(old) != _input(new):
                return CheckResult(
                    "deterministic",
                    False,
                    f"the {split} test {old.name!r} changes when it is made again; draw only from `rng`",
                )
    return CheckResult("deterministic", True)


def _splits_differ(inner: TestedJudge) -> CheckResult:
    public = {_input(t) for t in inner.tests("public")}
    hidden = [_input(t) for t in inner.tests("hidden")]
    fresh = sum(i not in public for i in hidden)
    detail = f"{fresh} of {len(hidden)} hidden inputs are not public ones"
    return CheckResult(
        "splits", 2 * fresh >= len(hidden), detail + ("" if 2 * fresh >= len(hidden) else "; add hidden tests")
    )


def _start_right(judge: Judge, inner: TestedJudge) -> CheckResult:
    start = judge.task.start
    for split in SPLITS:
        answers = inner.answers(start, inner.tests(split), Meter(), SUITE_SEED)
        if all(a.status is Status.ERROR and a.error.startswith("NotImplementedError") for a in answers):
            return CheckResult("start", True, "the start is a blank (NotImplementedError) for a search to fill in")
        for test, answer in zip(inner.tests(split), answers, strict=True):
            if answer.status is not Status.OK:
                return CheckResult(
                    "start", False, f"{split} test {test.name!r}: {answer.status}: {clip(answer.error, 200)}"
                )
            verdict = inner.check(test, answer.value, test.expected)
            if not verdict.ok:
                return CheckResult("start", False, f"{split} test {test.name!r}: {verdict.detail}")
    return CheckResult("start", True, "right on all tests")


def _refused(inner: TestedJudge, program: Program) -> CheckResult:
    for split in SPLITS:
        tests = inner.tests(split)
        answers = inner.answers(program, tests, Meter(), SUITE_SEED)
        right = [
            a.status is Status.OK and inner.check(t, a.value, t.expected).ok
            for t, a in zip(tests, answers, strict=True)
        ]
        if all(right):
            return CheckResult("", False, f"passes all {len(tests)} {split} tests; add tests with other answers")
    return CheckResult("", True)


def _limits(inner: TestedJudge) -> CheckResult:
    task, half = inner.task, inner.runner.limits.cpu_s / 2
    assert task.reference is not None
    tight = TestedJudge(
        task, inner.runner.with_limits(task.config.limits.model_copy(update={"cpu_s": half})), inner.config
    )
    for split in SPLITS:
        for test, answer in zip(
            inner.tests(split), tight.answers(task.reference, inner.tests(split), Meter(), 0), strict=True
        ):
            if answer.status is not Status.OK:
                return CheckResult(
                    "limits",
                    False,
                    f"with half the CPU limit ({half:g} s) the reference ends at {test.name!r}: {answer.status}",
                )
    return CheckResult("limits", True, f"the reference needs less than half of the {2 * half:g} s")


def _timed(judge: Judge) -> CheckResult:
    task = judge.task
    assert task.reference is not None and task.config.timing is not None
    evaluation = judge.evaluate(task.reference, split="public", seed=SUITE_SEED)
    times = evaluation.extra.get("timing")
    if times is None:
        return CheckResult(
            "timing", False, f"the reference cannot be timed: {evaluation.reason or evaluation.feedback}"
        )
    run_s = times["reference_s"] * task.config.timing.inputs
    if run_s < MIN_REFERENCE_S:
        return CheckResult(
            "timing",
            False,
            f"a timed run of the reference takes {run_s * 1000:.3g} ms; choose a timing size with 20 ms or more",
        )
    if not 1 / UNSTEADY < times["ratio"] < UNSTEADY:
        return CheckResult(
            "timing", False, f"the reference against itself is {times['ratio']:.3g} times as fast; is its time random?"
        )
    start = judge.evaluate(task.start, split="public", seed=SUITE_SEED)
    if start.efficiency == 0:
        return CheckResult(
            "timing", False, f"the start is over the limits at the timing size: {clip(start.feedback, 300)}"
        )
    seen = "is not timed" if start.speedup is None else f"runs at {start.speedup:.3g} times its speed"
    return CheckResult(
        "timing", True, f"the reference takes {run_s * 1000:.3g} ms at size {task.config.timing.size}; the start {seen}"
    )


# --- kind open ----------------------------------------------------------------------------------------------------------


def _open(judge: Judge, inner: OpenJudge) -> Iterator[CheckResult]:
    task = judge.task
    yield _guarded("deterministic", lambda: _same_instances(inner))
    yield (start := _guarded("start", lambda: _start_scored(judge)))
    if start.ok:
        yield _guarded("repeatable", lambda: _repeatable(judge))
    for name, program in wrong_answers(task):
        yield _guarded(f"refuses {name}", lambda program=program: _no_score(judge, program))
    if task.baseline is not None:
        yield _guarded("baseline", lambda: _scored("baseline", judge.baseline(1.0, split="public", seed=SUITE_SEED)))


def wrong_answers(task: Task) -> Iterator[tuple[str, Program]]:
    """Programs whose answers no scorer may accept, or trip over."""
    head = f"def {task.config.entry}(*args, **kwargs):\n    "
    sources = {
        "None": f"{head}return None\n",
        "an empty list": f"{head}return []\n",
        "text": f"{head}return 'inf'\n",
        "a NaN": f"{head}return float('nan')\n",
        "a list of NaN": f"{head}return [[float('nan')] * 3] * 26\n",
        "infinities": f"{head}return [float('inf')] * 100\n",
        "truth values": f"{head}return [[True, False, True]] * 26\n",
        "a nest of lists": f"{head}x = []\n    for _ in range(40):\n        x = [x]\n    return x\n",
        "a huge integer": f"{head}return 10 ** 5000\n",
        "a mapping": f"{head}return {{'score': 1e9, 'combined_score': 1e9}}\n",
        "an always-equal object": _ALWAYS_EQUAL + f"{head}return Equal()\n",
        "an early exit": f"import os\n{head}os._exit(0)\n",
    }
    for what, source in sources.items():
        yield what, Program.of(source)


def _same_instances(inner: OpenJudge) -> CheckResult:
    for split in SPLITS:
        if encode(inner.instances(split)) != encode(suites.make_instances(inner.task, split)):
            return CheckResult(
                "deterministic", False, f"the {split} instances change when they are made again; draw only from `rng`"
            )
    return CheckResult("deterministic", True)


def _start_scored(judge: Judge) -> CheckResult:
    said = []
    for split in SPLITS:
        evaluation = judge.evaluate(judge.task.start, split=split, seed=SUITE_SEED)
        if evaluation.outcome is not Outcome.SCORED:
            return CheckResult("start", False, f"{split}: {evaluation.outcome}: {evaluation.reason}")
        said.append(f"{split} score {evaluation.score:.6g}")
        if judge.task.config.best_known is not None and evaluation.fitness is not None and evaluation.fitness > 1:
            return CheckResult("start", False, f"{said[-1]} beats the best known value; one of them is wrong")
    return CheckResult("start", True, ", ".join(said))


def _repeatable(judge: Judge) -> CheckResult:
    first, second = (judge.evaluate(judge.task.start, split="public", seed=SUITE_SEED).score for _ in range(2))
    detail = f"scores {first} and {second}" + (
        "" if first == second else ": the start or the scorer draws from an unseeded source"
    )
    return CheckResult("repeatable", first == second, detail)


def _no_score(judge: Judge, program: Program) -> CheckResult:
    """No score, or (an answer may be small but lawful, as an empty set is) one that is below the start's."""
    evaluation = judge.evaluate(program, split="public", seed=SUITE_SEED)
    if evaluation.outcome is Outcome.FAILED:
        return CheckResult("", True, evaluation.reason)
    if evaluation.outcome is Outcome.UNMEASURED:
        return CheckResult("", False, f"the scorer fell over it: {evaluation.reason}")
    start = judge.evaluate(judge.task.start, split="public", seed=SUITE_SEED)
    worse = (evaluation.fitness or 0.0) < (start.fitness or 0.0)
    said = f"the scorer gave it {show(evaluation.score)}" + (
        "" if worse else ", no worse than the start; it must raise ValueError"
    )
    return CheckResult("", worse, said)


def _scored(name: str, evaluation: Evaluation) -> CheckResult:
    if evaluation.outcome is not Outcome.SCORED:
        return CheckResult(name, False, f"{evaluation.outcome}: {evaluation.reason}")
    return CheckResult(name, True, f"score {evaluation.score:.6g} in {evaluation.cpu_s:.3g} s of CPU time")


# --- all kinds ----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|\.\d)")


def _secret(task: Task) -> CheckResult:
    """The best known value must not be where a model or a candidate reads it: in the statement or the start program."""
    best = task.config.best_known
    if best is None:
        return CheckResult("secret", True, "no best known value")
    shown = {"statement": task.config.statement, **dict(task.start.files)}
    for where, text in shown.items():
        for match in _NUMBER.finditer(text):
            value = float(match.group())
            precise = len(match.group().replace(".", "").lstrip("-0")) >= 4 or value == best.value
            if precise and math.isclose(value, best.value, rel_tol=1e-4):
                return CheckResult(
                    "secret", False, f"{where} contains {match.group()}, which gives the best known value away"
                )
    return CheckResult("secret", True)


def _guarded(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    """A check's result under its name; a broken task becomes a failed check."""
    try:
        result = check()
    except CoevoError as e:
        return CheckResult(name, False, str(e))
    return CheckResult(name, result.ok, result.detail)


def _input(test: Test) -> bytes:
    return encode((tuple(test.args), dict(test.kwargs), test.stdin))
