# ruff: noqa: F811 - a fixture of another module is a parameter here
"""A server that dies, restarts, hangs or has a full disk in the middle of a training step: said plainly, bounded, and the run goes on."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coevo.engines import tinker_http
from coevo.engines.settings import EngineConfig
from coevo.engines.tinker_server import TinkerServer, serve
from coevo.errors import ModelError
from coevo.runs import Run
from coevo.training.session import resume, train
from tests.engines.test_tinker_training import CHANGES, rollouts, stage  # noqa: F401 - a fixture
from tests.training.recipes import recipe


class Between(ThreadingHTTPServer):
    """Hands requests on to a server; from the `nth` request to `path` on, `trouble` is what the client meets."""

    daemon_threads = True

    def __init__(self, port: int, path: str, nth: int, trouble: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.path, self.left, self.trouble = port, path, nth, trouble
        self.released, self.lock = threading.Event(), threading.Lock()

    def meets_trouble(self, path: str) -> bool:
        with self.lock:
            self.left -= path.endswith(self.path)
            return self.left <= 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Between

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers["content-length"])))

    def _pass_on(self, body: bytes) -> None:
        if self.server.meets_trouble(self.path) and not self.server.trouble(self):
            self.close_connection = True
            return
        try:
            there = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
            there.request(self.command, self.path, body, {"content-type": "application/json"})
            reply = there.getresponse()
            status, content = reply.status, reply.read()
            there.close()
        except OSError:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def between(server: TinkerServer, path: str, nth: int, trouble: Any) -> Iterator[str]:
    proxy = Between(int(server.url.rpartition(":")[2]), path, nth, trouble)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.released.set()
        proxy.shutdown()
        proxy.server_close()


def hangs(handler: _Handler) -> bool:
    """Takes the request and never answers, nor anything after it."""
    handler.server.released.wait()
    return False


def dies(handler: _Handler) -> bool:
    """Breaks the connection."""
    return False


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    monkeypatch.setattr(tinker_http, "POLL_S", 2.0)
    monkeypatch.setattr(tinker_http, "BEAT_S", 0.2)


@pytest.mark.parametrize(
    ("path", "nth", "trouble", "said"),
    [
        ("forward_backward", 5, dies, r"forward_backward: .*tried for"),
        ("optim_step", 5, hangs, r"optim_step: no complete reply within .*tried for"),
        ("asample", 30, hangs, r"asample: no complete reply within .*tried for"),
    ],
)
def test_a_server_that_dies_or_hangs_in_the_middle_of_a_step(
    stage: Any,
    tmp_path: Path,
    path: str,
    nth: int,
    trouble: Any,
    said: str,
) -> None:
    with serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served") as server:
        with between(server, path, nth, trouble) as url:
            engine = {"name": "tinker", "url": url, "patience_s": 2.0}
            changes = {**CHANGES, "loss": {"name": "dapo"}}
            with pytest.raises(ModelError, match=rf"{said}.*Every step up to \d is kept; `coevo resume") as raised:
                train(recipe(stage, **changes, engine=engine), tmp_path / "run")
            assert url in str(raised.value)
        before = rollouts(tmp_path / "run")
        assert before
        _point_at(tmp_path / "run", server.url)
        with resume(tmp_path / "run") as session:
            made = session.go()
    assert made.steps == 4 and made.exit_code == 0 and rollouts(tmp_path / "run")[: len(before)] == before


def test_a_server_that_restarts_in_the_middle_of_a_step(stage: Any, tmp_path: Path) -> None:
    servers = [serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served")]
    port = int(servers[0].url.rpartition(":")[2])

    def restarts(handler: _Handler) -> bool:
        with handler.server.lock:
            if len(servers) == 1:
                servers[0].close()
                servers.append(serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served", port=port))
        return True

    try:
        with between(servers[0], "optim_step", 5, restarts) as url:
            engine = {"name": "tinker", "url": url, "patience_s": 5}
            plan = recipe(stage, **{**CHANGES, "loss": {"name": "dapo"}}, engine=engine)
            with pytest.raises(ModelError, match=r"this server was restarted.*last saved state is lost.*`coevo resume"):
                train(plan, tmp_path / "run")
            with resume(tmp_path / "run") as session:
                made = session.go()
    finally:
        servers[-1].close()
    assert made.steps == 4 and made.exit_code == 0


def _point_at(run: Path, url: str) -> None:
    """The same server at another address: what a tunnel that came back looks like."""
    with Run.open(run, write=True) as opened:
        config = json.loads(json.dumps(opened.config))
        config["recipe"]["engine"]["url"] = url
        opened.connection.execute("UPDATE meta SET value = ? WHERE key = 'config'", (json.dumps(config),))
    (run / "run.yaml").unlink()
