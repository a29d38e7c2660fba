"""The forms of what passes between maker, worker and child. Read by both sides of the wall."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<QddQQQQI")
"""Maker to worker: a `Header`; then the job."""


class Header(NamedTuple):
    """The limits of a job: bytes of its payload; seconds; bytes; how many child processes."""

    size: int
    cpu_s: float
    wall_s: float
    memory: int
    stream_cap: int
    answer_cap: int
    scratch: int
    processes: int


CHUNK = struct.Struct("<II")
"""Worker to maker: stream, length; then the bytes."""
STDOUT, STDERR, ANSWERS, REPORT = 1, 2, 3, 9
REPORT_BODY = struct.Struct("<IiddQ")
"""Worker to maker, in the last chunk: reason, wait status, CPU s, wall s, peak KiB."""
RAN, OVER_CPU, OVER_WALL, OVER_OUTPUT = range(4)

FRAME = struct.Struct("<BI")
"""Child to maker, among the answers: kind, length; then the bytes."""
READY, BEGUN, ANSWER, FAULT, DONE = range(5)
"""Kinds of frame: before any code of the candidate; a call begins; its result; the program itself failed; the end."""
READY_BODY = struct.Struct("<dQ")
"""In READY: CPU s so far, resident KiB so far."""
SETUP_FAILED = 99
"""Exit code of a child whose walls could not be raised."""
