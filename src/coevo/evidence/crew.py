"""Processes that read spans of a large source side by side: Python parses JSON and looks at texts on one core a process.

A worker is a Python process that calls `main`: it gets one JSON line a span on its standard input and answers with the piece's columns (numpy's
npz, nothing pickled). The plan of spans does not depend on the number of workers, so the joined frame does not either.
"""

from __future__ import annotations

import io
import json
import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np

from coevo.errors import InfrastructureError
from coevo.evidence.columns import Piece
from coevo.evidence.sources import Plan, Span
from coevo.evidence.types import Words

LARGE = 64 << 20
"""Bytes from which on a source is read by several processes."""
MOST = 8


def size_for(plan: Plan, texts: bool) -> int:
    """Processes that a source is worth: 0 for a small one."""
    if plan.size < LARGE or len(plan.spans) < 2 or (plan.kind == "parquet" and not texts):
        return 0
    return min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST, len(plan.spans)
    )


def read(spans: Sequence[Span], layout: str, *, texts: bool, share: float, workers: int) -> list[Piece]:
    """The pieces of all spans, in order. Raises what a worker raised as `InfrastructureError` that names the span."""
    command = [sys.executable, "-c", "from coevo.evidence.crew import main; main()"]
    with ExitAll() as crew:
        for _ in range(min(workers, len(spans))):
            crew.hire(command)
        with ThreadPoolExecutor(max_workers=len(crew.hands)) as threads:

            def one(span: Span) -> Piece:
                hand = crew.free.get()
                try:
                    return _ask(hand, {"span": list(span), "layout": layout, "texts": texts, "share": share})
                finally:
                    crew.free.put(hand)

            return list(threads.map(one, spans))


class ExitAll:
    """The workers; they end with it, whatever happens."""

    def __init__(self) -> None:
        self.hands: list[subprocess.Popen[bytes]] = []
        self.free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()

    def hire(self, command: list[str]) -> None:
        hand = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.hands.append(hand)
        self.free.put(hand)

    def __enter__(self) -> ExitAll:
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self.hands:
            hand.kill()
        for hand in self.hands:
            hand.communicate()


def _ask(hand: subprocess.Popen[bytes], work: dict[str, Any]) -> Piece:
    assert hand.stdin is not None and hand.stdout is not None
    where = f"{work['span'][1]} from {work['span'][2]:,}"
    try:
        hand.stdin.write(json.dumps(work).encode() + b"\n")
        hand.stdin.flush()
        head = json.loads(hand.stdout.readline() or b"{}")
    except (BrokenPipeError, ValueError) as e:
        raise InfrastructureError(
            f"a process that reads {where} ended early ({e}); is memory short? Try workers=1"
        ) from None
    if "error" in head:
        raise InfrastructureError(f"reading {where} failed: {head['error']}")
    body = hand.stdout.read(head["bytes"]) if "bytes" in head else b""
    if not head or len(body) != head["bytes"]:
        raise InfrastructureError(f"a process that reads {where} ended early; is memory short? Try workers=1")
    return unpacked(head, body)


def packed(piece: Piece) -> tuple[dict[str, Any], bytes]:
    """A piece as a JSON head and a body of arrays."""
    arrays = {"place": piece.place}
    arrays |= {f"n{i}": column for i, column in enumerate(piece.numbers.values())}
    arrays |= {f"w{i}": words.codes.astype(np.int32) for i, words in enumerate(piece.words.values())}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    body = buffer.getvalue()
    head = {
        "bytes": len(body),
        "rows": piece.rows,
        "numbers": list(piece.numbers),
        "words": {name: list(words.values) for name, words in piece.words.items()},
        "lines": piece.lines,
        "damaged": [list(d) for d in piece.damaged],
        "broken": piece.broken,
        "wrong": dict(piece.wrong),
        "left_out": sorted(piece.left_out),
        "grouped": piece.grouped,
    }
    return head, body


def unpacked(head: dict[str, Any], body: bytes) -> Piece:
    """What `packed` packed."""
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        return Piece(
            rows=head["rows"],
            numbers={name: arrays[f"n{i}"] for i, name in enumerate(head["numbers"])},
            words={
                name: Words(arrays[f"w{i}"], tuple(values)) for i, (name, values) in enumerate(head["words"].items())
            },
            place=arrays["place"],
            lines=head["lines"],
            damaged=tuple((number, why) for number, why in head["damaged"]),
            broken=head["broken"],
            wrong=head["wrong"],
            left_out=frozenset(head["left_out"]),
            grouped=head["grouped"],
        )


def serve(orders: IO[bytes], replies: IO[bytes]) -> None:
    """A worker's life: a span a line, a piece an answer, until there are no more lines."""
    from coevo.evidence.opening import SOURCES
    from coevo.evidence.readers import LAYOUTS

    for line in orders:
        work = json.loads(line)
        try:
            span = Span(*work["span"])
            piece = SOURCES[span.kind].read(span, LAYOUTS[work["layout"]], texts=work["texts"], share=work["share"])
            head, body = packed(piece)
        except Exception as e:  # The parent raises it, with the span's name.
            head, body = {"error": f"{type(e).__name__}: {e}"}, b""
        replies.write(json.dumps(head).encode() + b"\n" + body)
        replies.flush()


def main() -> None:
    """The whole of a worker process."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
