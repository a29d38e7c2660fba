"""Kind stdio, end to end in the real sandbox: real pipes, real text, no credit for anything but the whole right output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.programs import Program
from tests.evaluation.folders import lines, make_task

DIGITS = "7" * 5000
RIGHT = "import sys\nfor line in sys.stdin:\n    a, b = line.split()\n    print(b, a)\n"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    task = make_task(
        tmp_path_factory.mktemp("tasks") / "swap",
        {"kind": "stdio", "limits": {"cpu_s": 0.5, "wall_s": 60.0, "memory_mb": 128, "output_bytes": 100_000}},
        program_py=RIGHT,
        tests_jsonl=lines(
            {"split": "public", "stdin": "1 2\n3 4\n", "stdout": "2 1\n4 3\n", "name": "numbers"},
            {"split": "public", "stdin": "é ü\n", "stdout": "ü é\n", "name": "letters"},
            {"split": "public", "stdin": "x " + DIGITS + "\n", "stdout": DIGITS + " x", "name": "digits"},
            {"split": "hidden", "stdin": "hush quiet\n", "stdout": "quiet hush\n", "name": "h"},
        ),
    )
    with Judge(task) as judge:
        yield judge


def run(judge: Judge, source: str | dict[str, str], split="public") -> Evaluation:
    return judge.evaluate(Program.of(source), split=split, seed=0)


@pytest.mark.parametrize(
    "source",
    [
        RIGHT,
        "import sys\nfor line in sys.stdin.buffer:\n    a, b = line.split()\n    sys.stdout.buffer.write(b + b' ' + a + b'\\n')\n",
        "import sys\nprint('\\n'.join(' '.join(l.split()[::-1]) for l in sys.stdin.read().splitlines()))\n",
        "try:\n    while True:\n        a, b = input().split()\n        print(b, a)\nexcept EOFError:\n    pass\n",
        "import os\ndata = os.read(0, 1 << 20).decode()\nfor l in data.splitlines():\n    print(*l.split()[::-1], end='  \\n')\nprint()\n",
        "import fileinput\nfor l in fileinput.input():\n    print(*l.split()[::-1])\n",
        "open_ = open(0)\nprint(*(' '.join(l.split()[::-1]) for l in open_), sep='\\n', end='')\n",
        RIGHT + "import sys\nsys.exit()\n",
        RIGHT + "if __name__ != '__main__':\n    raise SystemExit(3)\n",
        RIGHT + "import sys\nprint('done', file=sys.stderr)\n",
        RIGHT + "sys.stdin.close()\nsys.stdout.close()\n",
    ],
)
def test_every_honest_way_to_read_and_write(judge: Judge, source: str) -> None:
    result = run(judge, source)
    assert result.correctness == 1.0, result.feedback
    assert result.executions == 3


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("import os\nos._exit(0)\n", None),
        ("import sys\nsys.exit(0)\n", None),
        (RIGHT + "sys.exit(1)\n", Failure.CRASH),
        (RIGHT + "raise ValueError\n", Failure.CRASH),
        (RIGHT + "sys.stdout.flush()\nimport os\nos._exit(7)\n", Failure.CRASH),
        (RIGHT + "while True:\n    pass\n", Failure.TIMEOUT),
        ("while True:\n    print('x' * 1000)\n", Failure.OUTPUT),
        ("x = bytearray(10**9)\n", Failure.MEMORY),
        ("print(", Failure.CRASH),
        ("import sys\nsys.stdout.buffer.write(bytes(range(128, 256)))\n", None),
        ("import sys\nprint(sys.stdin.read())\n", None),
        ("", None),
        ("print('ok\\n' * 3)\nprint('PASSED')\n", None),
    ],
)
def test_nothing_else_earns_anything(judge: Judge, source: str, failure: Failure | None) -> None:
    result = run(judge, source)
    assert result.correctness == 0.0 and result.fitness == 0.0 and result.failure is failure
    assert result.outcome is (Outcome.SCORED if failure is None else Outcome.FAILED)


def test_feedback_says_where(judge: Judge) -> None:
    assert (
        "line 2: got '3 4', expected '4 3'"
        in run(judge, RIGHT.replace("print(b, a)", "print(*((b, a) if a != '3' else (a, b)))")).feedback
    )
    crash = run(judge, "import sys\n\ndef main():\n    return {}[5]\nmain()\n").feedback
    assert "KeyError: 5" in crash and "line 4" in crash
    assert "the output ends before" in run(judge, "print('2 1')").feedback


def test_hidden_inputs_stay_hidden(judge: Judge) -> None:
    for source in ("import sys\nraise ValueError(sys.stdin.read())\n", "import sys\nprint(sys.stdin.read())\n"):
        result = run(judge, source, "hidden")
        assert "hush" not in result.feedback + "".join(t.detail for t in result.tests)


def test_several_files(judge: Judge) -> None:
    files = {
        "program.py": "import swap\nswap.main()\n",
        "swap/__init__.py": "def main():\n    exec(open(__file__[:-11] + 'body.py').read())\n",
    }
    assert run(judge, {**files, "swap/body.py": RIGHT}).correctness == 1.0
    assert (
        run(
            judge,
            {
                "program.py": "from helper import go\ngo()\n",
                "helper.py": "def go():\n    " + RIGHT.replace("\n", "\n    "),
            },
        ).correctness
        == 1.0
    )


def test_custom_checker_sees_input_and_output(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "divisor",
        {"kind": "stdio", "checker": {"name": "custom"}},
        program_py="print(int(input()))\n",
        tests_jsonl=lines(
            {"split": "public", "stdin": "91\n", "stdout": ""},
            {"split": "hidden", "stdin": "77\n", "stdout": ""},
        ),
        checker_py=(
            "def check(output, expected, arguments):\n"
            "    n, d = int(arguments), int(output)\n"
            "    return {'ok': 1 < d < n and n % d == 0, 'feedback': f'{d} is no proper divisor of {n}'}\n"
        ),
    )
    with Judge(task) as judge:
        assert run(judge, "print(7)").correctness == 1.0
        wrong = run(judge, task.start.source)
        assert wrong.correctness == 0.0 and "91 is no proper divisor of 91" in wrong.feedback
        assert run(judge, "print('seven')").correctness == 0.0
