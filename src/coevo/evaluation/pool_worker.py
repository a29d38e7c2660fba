"""The worker's side of a `LocalPool`: one process, one state, one job at a time.

Messages are pickles between a driver and the worker it started itself. What a candidate wrote reaches a worker only as
data inside the sandbox's own encoding, so nothing of a candidate is ever unpickled here or in the driver.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from coevo.errors import InfrastructureError

READY, DONE, FAILED, STOP = b"r", b"d", b"f", b"s"
"""First byte of a message; the rest is a pickle: of the result, or of (exception or None, its text, traceback)."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Entry of the process: argv is the descriptor of the connection, the driver's pid, and the driver's `sys.path`."""
    fd, driver = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != driver:
        os._exit(1)  # The driver was gone before the kernel knew whom to tell.
    os.set_inheritable(fd, False)
    faulthandler.enable()
    connection = Connection(fd)
    with ExitStack() as stack:
        try:
            state = enter(pickle.loads(connection.recv_bytes()), stack)
        except BaseException as e:
            connection.send_bytes(FAILED + describe(e))
            return
        connection.send_bytes(READY)
        _serve(connection, state)


def enter(setup: Callable[[], Any], stack: ExitStack) -> Any:
    """The state of `setup()`; a context manager is entered, anything with `close` is closed, when `stack` ends."""
    state = setup()
    if hasattr(state, "__enter__"):
        return stack.enter_context(state)
    if callable(getattr(state, "close", None)):
        stack.callback(state.close)
    return state


def _serve(connection: Connection, state: Any) -> None:
    """Answer jobs one by one. What a job forked and let return ends here: its answer would be taken for that of the next job."""
    own = os.getpid()
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        if message == STOP:
            return
        try:
            fn, args = pickle.loads(message)
            reply = DONE + pickle.dumps(fn(state, *args), pickle.HIGHEST_PROTOCOL)
        except BaseException as e:
            reply = FAILED + describe(e)
        if os.getpid() != own:
            os._exit(0)
        connection.send_bytes(reply)


def describe(error: BaseException) -> bytes:
    """An exception as (itself or None, "Type: text", traceback), pickled. None if it does not survive the journey."""
    text, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
    if not isinstance(error, Exception):  # An exit of the job's code must not become the driver's.
        error = InfrastructureError(f"the job ended with {text.rstrip(': ')}")
    try:
        plain = pickle.dumps((error, text, trace), pickle.HIGHEST_PROTOCOL)
        pickle.loads(plain)
    except Exception:
        return pickle.dumps((None, text, trace), pickle.HIGHEST_PROTOCOL)
    return plain
