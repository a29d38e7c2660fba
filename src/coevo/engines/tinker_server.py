"""A Tinker-compatible server of ours: one machine trains and samples for another.

    with serve("models/base", folder="states", port=8000) as server:
        print(server.url)

or `python -m coevo.engines.tinker_server models/base --folder states --port 8000`. It serves one base model through engine `torch`, to our
own `tinker` engine and to the `tinker` SDK. It listens on the loopback address unless told otherwise, and on another only with a key
($TINKER_API_KEY, compared with the header X-API-Key). What travels is JSON and only JSON; there is no TLS: put a tunnel or a proxy in
front of it where the network is not yours.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import ipaddress
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig, LoraConfig
from coevo.engines.tinker_requests import Refusal
from coevo.engines.tinker_service import MakeEngine, Service
from coevo.engines.types import Engine
from coevo.errors import CoevoError, ConfigError

log = logging.getLogger("coevo.engines")

KEY_ENV = "TINKER_API_KEY"
MAX_BODY = 256 * 2**20
"""Bytes of a request that are read at most."""


class TinkerServer:
    """A `Service` behind HTTP, in threads of this process. Close it, or use it in a `with`."""

    def __init__(self, service: Service, *, host: str = "127.0.0.1", port: int = 0, key: str = "") -> None:
        """Port 0 is any that is free. Raises `ConfigError` for an address that is taken or would be open to others without a key."""
        if not key and not _is_loopback(host):
            raise ConfigError(
                f"serving on {host} would let anyone on the network run this model; set ${KEY_ENV}, or serve on 127.0.0.1"
            )
        self._service = service
        try:
            self._http = _Http((host, port), service, key)
        except OSError as e:
            raise ConfigError(f"cannot listen on {host}:{port}: {e.strerror or e}") from None
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name="coevo-tinker-http", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def close(self) -> None:
        """Take no more requests and let go of all models. Safe to call twice."""
        self._http.closing = True
        self._http.shutdown()
        self._http.server_close()
        self._service.close()

    def __enter__(self) -> TinkerServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    base: str | Path,
    config: EngineConfig | None = None,
    *,
    folder: str | Path,
    name: str = "",
    host: str = "127.0.0.1",
    port: int = 0,
    slots: int = 4,
    session_s: float = 300.0,
    environ: Mapping[str, str] = os.environ,
) -> TinkerServer:
    """Serve `base` under `name` (its own, if none is given); states go to `folder` and outlive the server. `config` says how engines compute;
    adapters are chosen by clients. `slots`: models at a time, each with a copy of the weights.

    Raises what `open_engine` does for a base that cannot be loaded: one engine is opened to learn the context, then closed.
    """
    config = (config or EngineConfig()).model_copy(update={"name": "torch", "lora": None})
    place = Path(folder)

    def make(lora: LoraConfig | None, seed: int, states: Path) -> Engine:
        return open_engine(base, config.model_copy(update={"lora": lora}), folder=states, seed=seed)

    probe = make(None, 0, place)
    context = probe.capabilities.max_tokens
    probe.close()
    return serving(
        make,
        base=name or str(base),
        folder=place,
        context=context,
        host=host,
        port=port,
        slots=slots,
        session_s=session_s,
        key=environ.get(KEY_ENV, "").strip(),
    )


def serving(
    make: MakeEngine,
    *,
    base: str,
    folder: Path,
    context: int | None,
    host: str = "127.0.0.1",
    port: int = 0,
    slots: int = 4,
    session_s: float = 300.0,
    key: str = "",
) -> TinkerServer:
    """As `serve`, with engines that `make` makes."""
    service = Service(make, base=base, folder=folder, context=context, slots=slots, session_s=session_s)
    try:
        return TinkerServer(service, host=host, port=port, key=key)
    except BaseException:
        service.close()
        raise


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], service: Service, key: str) -> None:
        super().__init__(address, _Handler)
        self.service, self.key, self.closing = service, key, False

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that hangs up is its own affair
            log.exception("a connection from %s failed", client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet, and no waiting for more
    disable_nagle_algorithm = True

    @property
    def http(self) -> _Http:
        assert isinstance(self.server, _Http)
        return self.server

    def do_GET(self) -> None:
        self._answer(lambda: self.http.service.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        try:
            body = self._body()
        except Refusal as e:
            self.close_connection = True  # what is left of the body would be taken for the next request
            self._send(e.status, {"detail": str(e)})
            return
        self._answer(lambda: self.http.service.post(self.path.partition("?")[0], body))

    def _answer(self, work: Any) -> None:
        if self.http.closing:  # a connection may outlive the listener
            self.close_connection = True
            return
        try:
            if not self._admitted():
                raise Refusal(401, "the header X-API-Key is missing or wrong")
            status, reply = 200, work()
        except Refusal as e:
            status, reply = e.status, {"detail": str(e)}
        except Exception as e:
            log.exception("a request to %s failed", self.path)
            status, reply = 500, {"detail": f"{type(e).__name__}: {e}"}
        self._send(status, reply)

    def _admitted(self) -> bool:
        given = self.headers.get("x-api-key", "")
        return not self.http.key or hmac.compare_digest(given.encode(), self.http.key.encode())

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("content-length", "")
        if not length.isdigit():
            raise Refusal(411, "Content-Length is missing")
        if int(length) > MAX_BODY:
            raise Refusal(413, f"a body of {int(length):,} bytes is over the limit of {MAX_BODY:,}")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise Refusal(400, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise Refusal(422, "the body is not a JSON object")
        return body

    def _send(self, status: int, reply: dict[str, Any]) -> None:
        content = json.dumps(reply).encode()
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main(argv: list[str] | None = None) -> int:
    """Serve until interrupted. The first line of output is `url: http://...`."""
    parser = argparse.ArgumentParser(
        prog="python -m coevo.engines.tinker_server", description="Serve a model to Tinker clients."
    )
    parser.add_argument("base", help="a Hugging Face folder, GGUF file, hub id, or local (the embedded model)")
    parser.add_argument("--folder", required=True, help="where states are kept")
    parser.add_argument("--name", default="", help="the model's name for clients (default: base)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--slots", type=int, default=4, help="models at a time, each with a copy of the weights")
    parser.add_argument(
        "--session", type=float, default=300.0, help="seconds after which a silent client loses its models"
    )
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args(argv)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        server = serve(
            given.base,
            EngineConfig(device=given.device, threads=given.threads),
            folder=given.folder,
            name=given.name,
            host=given.host,
            port=given.port,
            slots=given.slots,
            session_s=given.session,
        )
    except CoevoError as e:
        print(f"error: {e}", file=sys.stderr)
        return e.exit_code
    with server:
        print(f"url: {server.url}", flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
