"""Runs one job in the process that was forked for it, all walls up. Whatever happens here is the candidate's own doing.

Answers leave on a descriptor as frames: one byte of kind, four bytes of length, an encoded value. A candidate can
write frames of its own there; they are worth what any answer of its is worth.
"""

from __future__ import annotations

import atexit
import marshal
import os
import random
import sys
import threading
import traceback
import types
from collections.abc import Callable
from typing import Any

from codec import CodecError, TooLarge, decode, encode
from wire import ANSWER, BEGUN, DONE, FAULT, FRAME

MAX_ERROR = 2000
MAIN_MODULE = "__main__"
_OUT_OF_MEMORY = encode(("memory", "out of memory", None, None))


class Answers:
    """Writes frames. `left` is what the results may still take, in bytes."""

    def __init__(self, fd: int, left: int) -> None:
        self.fd = fd
        self.left = left

    def send(self, kind: int, payload: bytes = b"") -> None:
        view = memoryview(FRAME.pack(kind, len(payload)) + payload)
        while view:
            view = view[os.write(self.fd, view) :]

    def fault(self, kind: int, error: BaseException, files: frozenset[str]) -> None:
        """Report what was raised: status, text, and where in the candidate's own source."""
        try:
            self.send(kind, encode(_explain(error, files)))
        except MemoryError:
            self.send(kind, _OUT_OF_MEMORY)

    def value(self, value: Any) -> None:
        try:
            payload = b"\1" + encode(value, max_bytes=self.left)
        except TooLarge as e:
            payload = encode(("output", str(e), None, None))
        except CodecError as e:
            payload = encode(("invalid", f"returned a value that cannot be judged: {e}", None, None))
        except MemoryError:
            payload = _OUT_OF_MEMORY
        except BaseException:  # a thread of the candidate changes the value meanwhile, or its type's name is not a name
            payload = encode(("invalid", "returned a value that cannot be read", None, None))
        else:
            self.left -= len(payload)
        self.send(ANSWER, payload)


class Job:
    """What to run, its files already laid out in the current folder."""

    def __init__(self, fields: dict[str, Any]) -> None:
        here = os.getcwd()
        self.path = f"{here}/{fields['main']}"
        self.files = frozenset(f"{here}/{name}" for name, _ in fields["files"])
        self.source: bytes = dict(fields["files"])[fields["main"]]
        self.entry: str | None = fields["entry"]
        # Decoded here, before the clock starts: reading the judge's inputs is not the candidate's work. Each call has
        # objects of its own.
        self.calls: list[tuple[Any, Any]] = [decode(raw) for raw in reversed(fields["calls"])]
        self.argv: list[str] = fields["argv"]
        self.seed: int = fields["seed"]


def unpack(payload: memoryview) -> Job:
    """Read a job and write its files. The payload is the judge's own: nothing of it was written by a candidate's process."""
    fields = marshal.loads(payload)
    for name, source in fields["files"]:
        if "/" in name:
            os.makedirs(os.path.dirname(name), exist_ok=True)
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        view = memoryview(source)
        while view:
            view = view[os.write(file, view) :]
        os.close(file)
    return Job(fields)


def run(job: Job, answers: Answers) -> int:
    """Do the job; the exit code to end with. What is buffered has been written by then."""
    _seed(job.seed)
    sys.path.insert(0, os.path.dirname(job.path))
    code = _run_script(job, answers) if job.entry is None else _run_calls(job, job.entry, answers)
    _flush()
    answers.send(DONE)
    return code


def _seed(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def _load(job: Job, name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = job.path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules[name] = module
    exec(compile(job.source, job.path, "exec", dont_inherit=True), module.__dict__)
    return module


def _run_calls(job: Job, entry: str, answers: Answers) -> int:
    sys.argv = [job.path]
    try:
        module = _load(job, os.path.basename(job.path).removesuffix(".py"))
        function = module.__dict__.get(entry)
        if function is None:
            raise NameError(f"the program defines no {entry!r}")
        if not callable(function):
            raise TypeError(f"{entry!r} is not a function")
    except BaseException as e:
        answers.fault(FAULT, e, job.files)
        return 1
    while job.calls:
        args, kwargs = job.calls.pop()
        answers.send(BEGUN)
        _answer(function, args, kwargs, answers, job.files)
    return 0


def _answer(function: Callable[..., Any], args: Any, kwargs: Any, answers: Answers, files: frozenset[str]) -> None:
    try:
        value = function(*args, **kwargs)
    except BaseException as e:
        answers.fault(ANSWER, e, files)
    else:
        answers.value(value)


def _run_script(job: Job, answers: Answers) -> int:
    sys.argv = [job.path, *job.argv]
    code = 0
    try:
        _load(job, MAIN_MODULE)
    except SystemExit as e:
        code = _exit_code(e)
    except BaseException as e:
        code = 1
        answers.fault(FAULT, e, job.files)
        _print_traceback(e)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException as e:
        _print_traceback(e)
    return code


def _exit_code(error: SystemExit) -> int:
    code = error.code
    if code is None:
        return 0
    if type(code) is int or type(code) is bool:
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    """As Python would, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, trace)
    except BaseException:
        os.write(2, b"the traceback could not be printed\n")


def _explain(error: BaseException, files: frozenset[str]) -> tuple[str, str, int | None, str | None]:
    """Status word, text, line and file of what was raised."""
    status = "error"
    if isinstance(error, MemoryError):
        status = "memory"
    elif isinstance(error, SystemExit):
        status = "exited"
    name = type.__dict__["__name__"].__get__(type(error))
    try:
        text = str.__str__(str(error))
    except BaseException:
        text = "(its message cannot be read)"
    line, file = _where(error, files)
    message = f"{name}: {text}" if text else name
    if len(message) > MAX_ERROR:
        message = message[:MAX_ERROR] + "..."
    return status, message, line, file


def _where(error: BaseException, files: frozenset[str]) -> tuple[int | None, str | None]:
    """The innermost line of the candidate's own files."""
    found: tuple[int | None, str | None] = (None, None)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in files:
            found = trace.tb_lineno, os.path.relpath(name)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename in files and type(error.lineno) is int:
        found = error.lineno, os.path.relpath(str(error.filename))
    return found


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except BaseException:
            pass


def open_streams() -> None:
    """Text streams on descriptors 0, 1, 2, made once per worker while those are pipes: so none is taken for seekable."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", newline="\n", closefd=False)  # type: ignore[misc]  # noqa: SIM115
