"""An instant OpenAI-compatible server on loopback, and what the adapters in peers_*.py share. Standard library only: they run
with the Python of another environment (`make peers`), as subprocesses of bench_search.py.

The server runs in a process of its own and notes when each request came, so that a peer's rate is measured the same way for
all: model calls per second after a warm-up, one call a candidate.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

START = "# EVOLVE-BLOCK-START\nA = 1.5\nB = 2.5\n\n\ndef solve():\n    return A + B\n# EVOLVE-BLOCK-END\n"


def reply(number: int) -> str:
    """A new program for every request, in the forms that the peers ask for."""
    rng = random.Random(number)
    code = START.replace("1.5", repr(rng.random())).replace("2.5", repr(rng.random()))
    return f"<NAME>\nstep_{number}\n</NAME>\n<DESCRIPTION>\nOther numbers.\n</DESCRIPTION>\n<CODE>\n```python\n{code}```\n</CODE>\n"


def serve(control: Connection) -> None:
    """Answer at once until told to end; then send the time of every request."""
    times: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            times.append(time.perf_counter())
            message = {"role": "assistant", "content": reply(len(times))}
            usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = {"id": "x", "object": "chat.completion", "created": 0, "model": "fake", "choices": [choice]}
            body = json.dumps({**answer, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    control.send(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    control.recv()
    control.send(times)


def rate(times: list[float]) -> float:
    return round((len(times) - 1) / (times[-1] - times[0]), 2)


def measured(drive: Callable[[str, Path, int], None], package: str) -> None:
    """Run `drive(url, folder, steps)` against the server, and print one JSON line."""
    folder, steps, warm = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    drive(f"http://127.0.0.1:{port}/v1", folder, steps)
    here.send("end")
    times = here.recv()[warm:]
    if len(times) < 2:
        raise SystemExit(f"{package} made {len(times) + warm} model calls; {warm + 2} are needed for a rate")
    found = {
        "system": f"{package} {version(package)}",
        "candidates_per_s": rate(times),
        "in_the_last_fifth": rate(times[-max(2, len(times) // 5) :]),
        "counted": len(times) - 1,
        "driver_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1),
    }
    print("\n" + json.dumps(found))
