"""What a job may ask for, and what its execution says."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from coevo.errors import ConfigError, SandboxError, UsageError, WallsError
from coevo.programs import MAX_FILES, Program
from coevo.sandbox import Call, Execution, Job, Level, Limits, Preload, SandboxConfig, Status, open_sandbox, probe
from coevo.sandbox.pool import LocalSandbox

from .conftest import job


def _calls(source: str, *arguments: tuple[object, ...], **more: object) -> Job:
    return Job((("program.py", source),), "program.py", "f", tuple(Call(args) for args in arguments), **more)  # type: ignore[arg-type]


def _script(source: str, stdin: bytes = b"", *argv: str) -> Job:
    return Job((("program.py", source),), "program.py", stdin=stdin, argv=argv, limits=Limits(cpu_s=5))


def _values(execution: Execution) -> list[object]:
    assert execution.status is Status.OK, execution
    return [call.value for call in execution.calls]


def test_every_call_is_answered_in_one_process(best: LocalSandbox) -> None:
    source = "import os\nseen = []\ndef f(x):\n    seen.append(x)\n    return os.getpid(), list(seen)"
    (pid, first), (again, second) = _values(best.run(_calls(source, (1,), (2,))))  # type: ignore[misc]
    assert (first, second) == ([1], [1, 2]) and pid == again


def test_changing_an_argument_does_not_reach_later_calls(best: LocalSandbox) -> None:
    shared = [3, 1, 2]
    assert (
        _values(best.run(_calls("def f(x):\n    x.sort()\n    x.append(9)\n    return x", (shared,), (shared,))))
        == [[1, 2, 3, 9]] * 2
    )
    assert shared == [3, 1, 2]


def test_keyword_arguments(best: LocalSandbox) -> None:
    asked = Job((("program.py", "def f(a, *, b): return a - b"),), "program.py", "f", (Call((7,), {"b": 2}),))
    assert _values(best.run(asked)) == [5]


def test_one_call_that_fails_does_not_take_the_others(best: LocalSandbox) -> None:
    source = "import sys\ndef g(x): return 6 // x\ndef f(x):\n    if x == 9: sys.exit(3)\n    if x == 8: return iter([])\n    return g(x)"
    execution = best.run(_calls(source, (2,), (0,), (9,), (8,), (3,)))
    assert [c.status for c in execution.calls] == [Status.OK, Status.ERROR, Status.EXITED, Status.INVALID, Status.OK]
    assert [c.value for c in execution.calls] == [3, None, None, None, 2]
    assert execution.calls[1].error == "ZeroDivisionError: integer division or modulo by zero"
    assert (execution.calls[1].file, execution.calls[1].line) == ("program.py", 2)
    assert "list_iterator" in execution.calls[3].error
    assert execution.status is Status.ERROR and execution.error == execution.calls[1].error


def test_a_death_in_one_call_keeps_the_answers_before_it(best: LocalSandbox) -> None:
    source = "import os\ndef f(x):\n    if x == 1: os._exit(0)\n    return x"
    execution = best.run(_calls(source, (0,), (1,), (2,)))
    assert [c.status for c in execution.calls] == [Status.OK, Status.EXITED, Status.SKIPPED]
    assert execution.status is Status.EXITED and execution.exit_code == 0


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ("def f(:\n", "SyntaxError", 1),
        ("x = 1\ny = x / 0\ndef f(x): return 1", "ZeroDivisionError", 2),
        ("def g(x): return 1", "NameError: the program defines no 'f'", None),
        ("f = 3", "TypeError: 'f' is not a function", None),
        ("import nosuch\ndef f(x): return 1", "No module named 'nosuch'", 1),
        ("def f(x): return 1\n\0", "null bytes", None),
    ],
)
def test_a_program_that_does_not_load(best: LocalSandbox, source: str, words: str, line: int | None) -> None:
    execution = best.run(job(source, 1))
    assert execution.status is Status.ERROR
    assert words in execution.error
    assert execution.line == line
    assert [c.status for c in execution.calls] == [Status.SKIPPED]


def test_several_files(best: LocalSandbox) -> None:
    files = (
        (
            "program.py",
            "from lib.inner import twice\nimport helper\ndef f(x): return twice(x) + helper.ONE + int(open('data/n.txt').read())",
        ),
        ("helper.py", "import program\nONE = 1"),
        ("lib/__init__.py", ""),
        ("lib/inner.py", "from . import base\ndef twice(x): return 2 * x + base.ZERO"),
        ("lib/base.py", "ZERO = 0"),
        ("data/n.txt", "10"),
    )
    assert _values(best.run(Job(files, "program.py", "f", (Call((4,)),)))) == [19]


def test_an_error_in_another_file_names_it(best: LocalSandbox) -> None:
    files = (
        ("program.py", "import helper\ndef f(x): return helper.g(x)"),
        ("helper.py", "\n\ndef g(x):\n    return x.nope"),
    )
    result = best.run(Job(files, "program.py", "f", (Call((4,)),))).calls[0]
    assert (result.file, result.line) == ("helper.py", 4)


def test_a_script_has_real_streams(best: LocalSandbox) -> None:
    source = (
        "import sys, os, stat\n"
        "first = sys.stdin.buffer.readline().decode().strip()\nrest = sys.stdin.buffer.read()\n"
        "print(first, len(rest), sys.argv[1:], __name__, stat.S_ISFIFO(os.fstat(0).st_mode))\n"
        "sys.stdout.flush()\nsys.stdout.buffer.write(bytes(range(256)))\nprint('e', file=sys.stderr)\n"
    )
    execution = best.run(_script(source, b"one\nt\xffwo\n", "a", "b"))
    assert execution.status is Status.OK, execution
    assert execution.stdout == b"one 5 ['a', 'b'] __main__ True\n" + bytes(range(256))
    assert execution.stderr == b"e\n"


def test_a_script_reads_more_than_a_pipe_holds(best: LocalSandbox) -> None:
    text = b"".join(b"%d\n" % i for i in range(100_000))
    execution = best.run(_script("import sys\nprint(sum(int(line) for line in sys.stdin))", text))
    assert execution.stdout == b"4999950000\n", execution


@pytest.mark.parametrize(
    ("source", "status", "code", "error"),
    [
        ("print(1)", Status.OK, 0, ""),
        ("import sys; sys.exit()", Status.OK, 0, ""),
        ("exit()", Status.OK, 0, ""),
        ("import sys; sys.exit(3)", Status.EXITED, 3, "exit code 3"),
        ("import sys; sys.exit('no')", Status.EXITED, 1, "exit code 1"),
        ("import os; os._exit(4)", Status.EXITED, 4, "exit code 4"),
        ("1 / 0", Status.ERROR, 1, "ZeroDivisionError: division by zero"),
        ("x = bytearray(1 << 40)", Status.MEMORY, 1, "MemoryError"),
        ("import signal; signal.raise_signal(11)", Status.CRASHED, None, "killed by SIGSEGV"),
    ],
)
def test_how_a_script_ends(best: LocalSandbox, source: str, status: Status, code: int | None, error: str) -> None:
    if "raise_signal" in source:  # a signal with a default action does not reach process 1 of a namespace; a fault does
        source = "import ctypes; ctypes.string_at(8)"
    execution = best.run(_script(source))
    assert (execution.status, execution.exit_code, execution.error) == (status, code, error)


def test_a_script_that_raises_prints_its_own_traceback(best: LocalSandbox) -> None:
    execution = best.run(_script("def g():\n    raise ValueError('no')\nprint('before')\ng()"))
    assert execution.stdout == b"before\n"
    assert (
        b"ValueError: no" in execution.stderr
        and b"line 2, in g" in execution.stderr
        and b"runner" not in execution.stderr
    )


def test_a_script_waits_for_its_threads_and_exit_functions(best: LocalSandbox) -> None:
    source = (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')"
    )
    assert best.run(_script(source)).stdout == b"main\nthread\nlast\n"


def test_print_in_a_call_is_kept(best: LocalSandbox) -> None:
    execution = best.run(
        job("import sys\ndef f(x):\n    print('out')\n    print('err', file=sys.stderr)\n    return x", 1)
    )
    assert (execution.stdout, execution.stderr) == (b"out\n", b"err\n")


def test_output_at_the_cap_is_whole(best: LocalSandbox) -> None:
    limits = Limits(cpu_s=5, output_bytes=200_000)
    whole = best.run(job("def f(x):\n    print('x' * 199_999)\n    return 'y' * 199_000", 1, limits=limits))
    assert whole.status is Status.OK and len(whole.stdout) == 200_000 and len(whole.calls[0].value) == 199_000
    over = best.run(job("def f(x):\n    print('x' * 200_000)", 1, limits=limits))
    assert over.status is Status.OUTPUT and len(over.stdout) == 200_000


def test_seeds(best: LocalSandbox) -> None:
    source = "import random\nfirst = random.random()\ndef f(x): return first, random.random(), hash('a'), list({'x', 'y', 'z'})"
    one, two, other = (_values(best.run(_calls(source, (1,), seed=seed)))[0] for seed in (5, 5, 6))
    assert one == two != other


def test_kernel_figures(best: LocalSandbox) -> None:
    burn = "import time\ndef f(x):\n    end = time.process_time() + 0.2\n    while time.process_time() < end: pass"
    execution = best.run(job(burn, 1))
    assert 0.19 < execution.cpu_s < 0.3
    assert execution.wall_s >= execution.cpu_s
    held = best.run(job("def f(x):\n    data = b'1' * (50 << 20)\n    return len(data)", 1))
    assert 49 < held.peak_mb < 56
    idle = best.run(job("def f(x): return 1", 1))
    assert idle.cpu_s < 0.05 and idle.peak_mb < 4


def test_a_killed_loop_is_charged_what_it_used(best: LocalSandbox) -> None:
    execution = best.run(job("def f(x):\n    while True: pass", 1, limits=Limits(cpu_s=0.3, wall_s=60)))
    assert execution.status is Status.CPU and 0.29 < execution.cpu_s < 0.45


def test_memory_budget_is_on_top_of_the_worker(best: LocalSandbox) -> None:
    source = "def f(x):\n    data = b'1' * (40 << 20)\n    return len(data)"
    assert best.run(job(source, 1, limits=Limits(memory_mb=64))).status is Status.OK
    assert best.run(job(source, 1, limits=Limits(memory_mb=32))).status is Status.MEMORY


def test_the_input_is_not_charged_but_copies_of_it_are(best: LocalSandbox) -> None:
    data = bytes(40 << 20)
    assert _values(best.run(job("def f(x): return len(x)", data, limits=Limits(cpu_s=20, memory_mb=64)))) == [40 << 20]
    assert _values(best.run(job("def f(x): return len(x)", data, limits=Limits(cpu_s=20, memory_mb=32)))) == [40 << 20]
    copying = "def f(x): return len(bytearray(x))"
    assert best.run(job(copying, data, limits=Limits(cpu_s=20, memory_mb=32))).status is Status.MEMORY
    assert _values(best.run(job(copying, data, limits=Limits(cpu_s=20, memory_mb=64)))) == [40 << 20]


def test_nothing_tells_which_machine_it_is(best: LocalSandbox) -> None:
    source = "import os, platform, getpass\ndef f(x): return platform.node(), os.getuid(), os.environ.get('USER'), os.getcwd(), os.getpid()"
    assert _values(best.run(job(source, 1))) == [("sandbox", 1000, None, "/tmp", 1)]


def test_numpy_in_and_out() -> None:
    with open_sandbox(preload=Preload.NUMPY) as sandbox:
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        source = "import numpy as np\ndef f(a):\n    a += 1\n    return a, a.sum(), a.dtype.name, np.random.rand()"
        value, total, name, draw = _values(sandbox.run(job(source, array, preload=Preload.NUMPY)))[0]  # type: ignore[misc]
        assert np.array_equal(value, array + 1) and value.dtype == np.float32
        assert type(total) is np.float32 and name == "float32"
        assert draw == _values(sandbox.run(job(source, array, preload=Preload.NUMPY)))[0][3]  # type: ignore[index]
        over = sandbox.run(job("import numpy as np\ndef f(a): return np.ones(10 ** 9)", 1, preload=Preload.NUMPY))
        assert over.status is Status.MEMORY
        assert sandbox.run(job("import scipy\ndef f(a): return 1", 1, preload=Preload.NUMPY)).status is Status.ERROR
        # Another preload set is another worker of the same sandbox.
        assert _values(
            sandbox.run(
                job(
                    "from scipy.optimize import brentq\ndef f(a): return brentq(lambda x: x - a, 0, 9)",
                    4,
                    preload=Preload.NUMPY_SCIPY,
                )
            )
        ) == [4.0]
        assert sandbox.run(job("import numpy\ndef f(a): return 1", 1)).status is Status.ERROR


def test_child_processes_are_allowed_when_asked_for(best: LocalSandbox) -> None:
    source = (
        "import os, subprocess, sys, multiprocessing\n"
        "def work(q): q.put(os.getpid())\n"
        "def f(x):\n"
        "    out = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout\n"
        "    pool = multiprocessing.get_context('fork').Pool(2)\n"
        "    return out, pool.map(abs, [-1, -2])\n"
    )
    execution = best.run(job(source, 1, limits=Limits(cpu_s=10, processes=8)))
    assert _values(execution) == [("42\n", [1, 2])]


def test_child_processes_die_with_the_execution(best: LocalSandbox) -> None:
    source = (
        "import os, time\ndef f(x):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0: time.sleep(300)\n        os._exit(0)\n"
        "    return 1"
    )
    execution = best.run(job(source, 1, limits=Limits(cpu_s=5, wall_s=30, processes=8)))
    assert execution.status is Status.OK and execution.wall_s < 20


def test_child_processes_are_counted(best: LocalSandbox) -> None:
    bomb = "import os\ndef f(x):\n    n = 0\n    try:\n        while True:\n            if os.fork() == 0: os._exit(0) if x else __import__('time').sleep(60)\n            n += 1\n    except OSError: return n"
    execution = best.run(job(bomb, 0, limits=Limits(cpu_s=5, wall_s=30, processes=4)))
    assert execution.status is Status.OK and execution.calls[0].value <= 4 + 64


HIDES = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def f(seconds):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < seconds: pass
        os._exit(0)
    try:
        while True:
            os.kill(pid, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return 1
"""


def test_cpu_hidden_in_children_that_nobody_waits_for_is_counted(best: LocalSandbox) -> None:
    account = next(wall for wall in probe() if wall.name == "cpu account of processes")
    if not account.stands:
        pytest.skip(f"no CPU account of child processes: {account.detail}")
    execution = best.run(job(HIDES, 0.3, limits=Limits(cpu_s=5, wall_s=60, processes=2)))
    assert execution.status is Status.OK and 0.29 < execution.cpu_s < 0.6
    execution = best.run(job(HIDES, 60.0, limits=Limits(cpu_s=0.3, wall_s=60, processes=2)))
    assert execution.status is Status.CPU and 0.29 < execution.cpu_s < 0.6


def test_bad_jobs_are_refused(best: LocalSandbox) -> None:
    with pytest.raises(UsageError, match=r"'main.py' is not among its files: a.py"):
        best.run(Job((("a.py", ""),), "main.py"))
    with pytest.raises(UsageError, match=r"'\.\./a\.py'"):
        best.run(Job((("../a.py", ""),), "../a.py"))
    with pytest.raises(UsageError, match=r"arguments of call 1: a builtin_function_or_method is not plain data"):
        best.run(_calls("", (1,), (print,)))
    with pytest.raises(UsageError, match=r"numpy"):
        best.run(_calls("", (np.zeros(2),)))
    with pytest.raises(UsageError, match="at least one worker"):
        open_sandbox(workers=0)


def test_a_level_below_the_minimum_is_refused() -> None:
    with pytest.raises(WallsError, match=r"'bubblewrap' is below the minimum 'namespaces'"):
        open_sandbox(SandboxConfig(level=Level.BUBBLEWRAP, minimum=Level.NAMESPACES))
    with pytest.raises((ConfigError, ValueError)):
        SandboxConfig(level="walls")  # type: ignore[arg-type]


def test_landlock_cannot_have_child_processes(sandboxes: object) -> None:
    sandbox = sandboxes(Level.LANDLOCK)  # type: ignore[operator]
    with pytest.raises(WallsError, match=r"limits\.processes"):
        sandbox.run(job("", 1, limits=Limits(processes=1)))


def test_many_threads_share_the_workers() -> None:
    with open_sandbox(workers=2) as sandbox:
        found: list[object] = []

        def work(i: int) -> None:
            found.append(_values(sandbox.run(_calls("def f(x): return x * x", (i,))))[0])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [i * i for i in range(24)]  # type: ignore[type-var]


def test_closing_ends_what_runs() -> None:
    sandbox = open_sandbox()
    raised: list[BaseException] = []

    def loop() -> None:
        try:
            sandbox.run(job("import time\ndef f(x): time.sleep(600)", 1, limits=Limits(cpu_s=600)))
        except SandboxError as e:
            raised.append(e)

    thread = threading.Thread(target=loop)
    thread.start()
    while not sandbox._all or sandbox._idle[Preload.STDLIB]:
        threading.Event().wait(0.01)
    sandbox.close()
    thread.join(60)
    assert not thread.is_alive() and "closed" in str(raised[0])
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run(job("def f(x): return x", 1))


def test_reading_large_inputs_is_not_the_candidates_time() -> None:
    """Nested lists are dear to decode: that happens before the candidate's clock starts."""
    pairs = [[i, i + 1] for i in range(150_000)]
    with open_sandbox() as best:
        execution = best.run(job("def f(x): return len(x)", pairs, limits=Limits(cpu_s=20)))
        looping = best.run(job("def f(x): return sum(a + b for a, b in x)", pairs, limits=Limits(cpu_s=20)))
    assert _values(execution) == [150_000]
    assert execution.cpu_s < looping.cpu_s


def test_as_many_files_and_folders_as_a_program_may_have(best: LocalSandbox) -> None:
    names = [f"d{n}/x.py" for n in range(MAX_FILES // 2 - 1)]
    program = Program.of({"program.py": "import d1.x\ndef f(): return d1.x.y", **dict.fromkeys(names, "y = 1")})
    execution = best.run(Job(program.files, program.main, "f", (Call(),)))
    assert execution.status is Status.OK and execution.calls[0].value == 1
