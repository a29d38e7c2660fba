"""A real HTTP server on the loopback address that does what endpoints do on their bad days."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            number = len(self.server.seen)
            self.server.seen.append((self.path, dict(self.headers), body))
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
        try:
            self.server.behaviours[min(number, len(self.server.behaviours) - 1)](self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.now -= 1

    def send(self, status: int, body: bytes, *, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Plays `behaviours` in the order of the requests; the last one goes on for ever."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *behaviours: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours = behaviours
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(*behaviours: Behaviour):
    server = Server(*behaviours)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def completion(
    text: str | None = "hello", *, finish: str | None = "stop", usage: bool = True, **message: Any
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}],
    }
    if usage:
        data["usage"] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return data


def ok(text: str | None = "hello", **options: Any) -> Behaviour:
    return says(completion(text, **options))


def says(data: Any, *, status: int = 200, kind: str = "application/json", **headers: str) -> Behaviour:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return lambda handler, _: handler.send(status, body, kind=kind, **headers)


def error(status: int, message: str = "broken", **fields: Any) -> Behaviour:
    headers = fields.pop("headers", {})
    return says({"error": {"message": message, **fields}}, status=status, **headers)


def hangs(handler: Handler, _: dict[str, Any]) -> None:
    """Says nothing until the test is over."""
    handler.server.released.wait(30)


def drips(handler: Handler, _: dict[str, Any]) -> None:
    """A byte now and then, so that no read ever waits long, and never an end."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "100000")
    handler.end_headers()
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def resets(handler: Handler, _: dict[str, Any]) -> None:
    """Resets the connection before answering."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def cuts(handler: Handler, _: dict[str, Any]) -> None:
    """Promises more bytes than it sends, and closes."""
    body = json.dumps(completion()).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def slow(seconds: float) -> Behaviour:
    def behave(handler: Handler, _: dict[str, Any]) -> None:
        time.sleep(seconds)
        handler.send(200, json.dumps(completion()).encode())

    return behave


def refuses(*names: str, message: str = "Unsupported parameter: '{}' is not supported with this model.") -> Behaviour:
    """A 400 for the first of `names` that is in the request, else a good reply."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        for name in names:
            if name in body:
                return error(400, message.format(name), param=name)(handler, body)
        return ok()(handler, body)

    return behave
