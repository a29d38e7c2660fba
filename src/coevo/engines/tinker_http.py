"""The way to a Tinker-compatible server: JSON over HTTP, futures, deadlines, retries, heartbeat.

A request that computes is answered at once with the id of a future, whose result is then asked for (`retrieve_future`) until it is
there. One HTTP client on one event loop in one thread carries all of it, so that many futures are waited for together.

What may be sent twice decides what is tried again. Sampling, forward passes and the retrieval of results may. A gradient or an optimizer
step may only where the server recognises a repeated `seq_id`; elsewhere a reply that got lost leaves the weights in doubt, and
the error says so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from coevo import __version__
from coevo.errors import ModelError
from coevo.models import pacing
from coevo.streams import stream

log = logging.getLogger("coevo.engines")

POLL_S = 45.0
"""The longest that one retrieval is held; servers that hold longer are asked again."""
CONNECT_S = 10.0
BEAT_S = 10.0
LEAVE_S = 5.0
"""What a server gets to answer a client that is leaving."""
"""Between heartbeats."""
MAX_BODY = 256 * 2**20
"""Bytes of a reply that are read at most."""
CONNECTIONS = 256
_GARBAGE_TRIES = 3
_PENDING = {"type": "try_again"}


class Fault(StrEnum):
    """What went wrong with a request."""

    UNREACHED = "no connection"
    """It was never sent."""
    BUSY = "busy"
    LOST = "no reply"
    """It was sent, and no whole reply came back: it may have been carried out."""
    SERVER = "server error"
    GARBAGE = "unusable reply"
    DENIED = "access denied"
    GONE = "not known to the server"
    TOO_LARGE = "too large"
    REFUSED = "refused"
    """The server says that it cannot do this."""
    DEADLINE = "deadline"


class TinkerError(ModelError):
    """A request that failed for good, with its kind."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Call(NamedTuple):
    """One request. `again`: whether it may be sent twice."""

    path: str
    body: Mapping[str, Any]
    again: bool = True


class _Trouble(Exception):
    def __init__(self, fault: Fault, message: str, wait: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.fault, self.wait, self.status = fault, wait, status


class Connection:
    """To one server. Thread-safe but for `close`. Raises `TinkerError`."""

    def __init__(self, url: str, *, key: SecretStr | None, patience_s: float, deadline_s: float) -> None:
        """`patience_s`: how long an unreachable or failing server is tried again; `deadline_s`: of one operation."""
        self.url = url.rstrip("/")
        self._key = key
        self._patience_s, self._deadline_s = patience_s, deadline_s
        self._poll_s = POLL_S
        self._heard = time.monotonic()
        self._requests = 0
        self._session = ""
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._client = _http_client(url, key)
        self._beat: concurrent.futures.Future[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="coevo-tinker", daemon=True)
        self._thread.start()

    def get(self, path: str) -> Any:
        """The JSON at a path, or None where the server has none."""
        try:
            return self._wait(self._asked("GET", path, None, again=True))
        except TinkerError as e:
            if e.fault in (Fault.GONE, Fault.GARBAGE, Fault.REFUSED):
                return None
            raise

    def post(self, call: Call) -> dict[str, Any]:
        """The reply to one request that is answered at once."""
        return self._wait(self._asked("POST", call.path, call.body, again=call.again))

    def result(self, call: Call) -> dict[str, Any]:
        """The result of one request that computes."""
        return self._wait(self._computed(call))

    def results(
        self, calls: Sequence[Call], each: Callable[[int, dict[str, Any]], None] | None = None
    ) -> list[dict[str, Any]]:
        """The results of many requests that may be under way together; `each` is called, in this thread, as they arrive.

        They are sent in order. After the first that fails the others are given up.
        """
        arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
        futures = [self._submit(self._computed(call)) for call in calls]
        for i, future in enumerate(futures):
            future.add_done_callback(lambda _, i=i: arrived.put(i))
        try:
            for _ in futures:
                i = arrived.get()
                reply = futures[i].result()
                if each is not None:
                    each(i, reply)
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]

    def keep_alive(self, session: str) -> None:
        """Send heartbeats for this session from now on."""
        self._session = session
        if self._beat is None:
            self._beat = self._submit(self._beating())

    def leave(self) -> None:
        """From now on wait for nothing longer than a moment: whoever says good-bye to a server that hangs must not hang with it."""
        self._patience_s = self._deadline_s = self._poll_s = min(LEAVE_S, self._patience_s)

    def close(self) -> None:
        """Give up what is under way and leave no thread. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        if self._closed:
            work.close()
            raise TinkerError(Fault.LOST, f"the connection to {self.url} is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _shut(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    async def _computed(self, call: Call) -> dict[str, Any]:
        """Send it, then ask for its result until it is there."""
        reply = await self._asked("POST", call.path, call.body, again=call.again)
        number = reply.get("request_id")
        if not isinstance(number, str) or not number:
            raise TinkerError(Fault.GARBAGE, self._said(call.path, f"a reply without request_id: {_short(reply)}"))
        end, trouble = time.monotonic() + self._deadline_s, None
        while time.monotonic() < end:
            asked = time.monotonic()
            try:
                found = await self._once("POST", "/api/v1/retrieve_future", {"request_id": number}, self._poll_s)
            except _Trouble as e:
                if e.fault not in (Fault.LOST, Fault.SERVER, Fault.BUSY, Fault.UNREACHED, Fault.GARBAGE):
                    raise self._final(call.path, e) from None
                held = e.status == 408 or (
                    e.fault is Fault.LOST and time.monotonic() - asked >= self._poll_s and self._alive()
                )
                if not held:
                    trouble = await self._paused(call.path, e, trouble)
                    continue
                found = _PENDING
            trouble = None
            if found.get("type") == "try_again":
                await asyncio.sleep(max(0.0, 0.05 - (time.monotonic() - asked)))
                continue
            if isinstance(found.get("error"), str):
                raise self._final(call.path, _Trouble(Fault.REFUSED, found["error"]))
            return found
        raise TinkerError(
            Fault.DEADLINE,
            self._said(
                call.path, f"no result within {self._deadline_s:g} s (engine.deadline_s); the server still answers"
            ),
        )

    async def _asked(self, method: str, path: str, body: Mapping[str, Any] | None, *, again: bool) -> Any:
        """One exchange, tried again for as long as that can help."""
        trouble: tuple[float, int] | None = None
        while True:
            try:
                return await self._once(method, path, body, max(self._poll_s, self._patience_s))
            except _Trouble as e:
                safe = e.fault in (Fault.UNREACHED, Fault.BUSY) or (
                    again and e.fault in (Fault.LOST, Fault.SERVER, Fault.GARBAGE)
                )
                if not safe:
                    raise self._final(path, e, doubtful=not again) from None
                trouble = await self._paused(path, e, trouble)

    async def _paused(self, path: str, e: _Trouble, trouble: tuple[float, int] | None) -> tuple[float, int]:
        """Wait before the next try; (when the trouble began, tries). Raises when patience is at its end."""
        since, tries = trouble or (time.monotonic(), 0)
        tries += 1
        out = time.monotonic() - since > self._patience_s
        if out or (e.fault is Fault.GARBAGE and tries >= _GARBAGE_TRIES):
            raise self._final(path, e)
        self._requests += 1
        wait = max(min(pacing.backoff(tries, stream(0, "tinker", path, self._requests)), 10.0), e.wait or 0.0)
        await asyncio.sleep(min(wait, max(0.05, self._patience_s)))
        return since, tries

    async def _once(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float) -> Any:
        """One exchange: the parsed reply. Raises `_Trouble`."""
        try:
            async with asyncio.timeout(timeout):
                content = None if body is None else json.dumps(body).encode()
                async with self._client.stream(method, self.url + path, content=content) as response:
                    chunks, size = [], 0
                    async for chunk in response.aiter_bytes():
                        chunks.append(chunk)
                        if (size := size + len(chunk)) > MAX_BODY:
                            raise _Trouble(Fault.GARBAGE, f"a reply of more than {MAX_BODY >> 20} MiB")
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as e:
            raise _Trouble(Fault.UNREACHED, f"cannot connect ({e or type(e).__name__})") from None
        except (TimeoutError, httpx.TimeoutException):
            raise _Trouble(Fault.LOST, f"no complete reply within {timeout:g} s") from None
        except httpx.DecodingError as e:
            raise _Trouble(Fault.GARBAGE, f"a reply that cannot be decompressed ({e})") from None
        except httpx.TransportError as e:
            raise _Trouble(Fault.LOST, f"the connection broke ({e or type(e).__name__})") from None
        self._heard = time.monotonic()
        return _read(response.status_code, response.headers, b"".join(chunks))

    async def _beating(self) -> None:
        """Tell the server that we are still here, and learn that it is."""
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(_Trouble):
                await self._once("POST", "/api/v1/session_heartbeat", {"session_id": self._session}, CONNECT_S)

    def _alive(self) -> bool:
        """Whether the server has said anything lately."""
        return time.monotonic() - self._heard < max(self._patience_s, 2 * BEAT_S)

    def _final(self, path: str, e: _Trouble, *, doubtful: bool = False) -> TinkerError:
        text = self._said(path, str(e))
        match e.fault:
            case Fault.UNREACHED:
                text += ". Check that the server runs and that engine.url is right"
            case Fault.DENIED:
                text += ". Check the key in $TINKER_API_KEY"
            case Fault.LOST | Fault.SERVER | Fault.GARBAGE if doubtful:
                text += ". It may have been carried out all the same, so the weights are in doubt: resume from the last state"
            case Fault.LOST | Fault.SERVER | Fault.BUSY:
                text += f" (tried for {self._patience_s:g} s: engine.patience_s)"
            case Fault.TOO_LARGE:
                text += ". Train on fewer or shorter rows a step, or raise the server's limit"
            case _:
                pass
        return TinkerError(e.fault, text)

    def _said(self, path: str, what: str) -> str:
        text = f"Tinker server {self.url}, {path.rpartition('/')[2]}: {what}"
        secret = self._key.get_secret_value() if self._key is not None else ""
        return text.replace(secret, "[key]") if len(secret) >= 8 else text


def _http_client(url: str, key: SecretStr | None) -> httpx.AsyncClient:
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": f"coevo/{__version__}"}
    if key is not None:
        headers["x-api-key"] = key.get_secret_value()
    return httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        trust_env=urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"),  # a proxy's loopback is not ours
        follow_redirects=False,
    )


def _read(status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """The parsed JSON of a good reply. Raises `_Trouble`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if status == 200:
        if not isinstance(value, dict):
            raise _Trouble(Fault.GARBAGE, f"a reply that is no JSON object: {_short(body)}")
        return value
    message = f"HTTP {status}: {_detail(value, body)}"
    wait = pacing.retry_after(headers)
    if status in (401, 403):
        raise _Trouble(Fault.DENIED, message)
    if status in (404, 410):
        raise _Trouble(Fault.GONE, message)
    if status == 413:
        raise _Trouble(Fault.TOO_LARGE, message)
    if status in (425, 429, 503):
        raise _Trouble(Fault.BUSY, message, wait)
    if status == 408:
        raise _Trouble(Fault.BUSY, message, wait, status)
    if status >= 500:
        raise _Trouble(Fault.SERVER, message, wait)
    raise _Trouble(Fault.REFUSED, message)


def _detail(value: Any, body: bytes) -> str:
    """What an error reply says: FastAPI's `detail` (a text, or a list of complaints), or the body."""
    found = value.get("detail", value.get("error")) if isinstance(value, dict) else None
    if isinstance(found, list):
        parts = [
            f"{'.'.join(map(str, item.get('loc', ())))}: {item.get('msg', item)}"
            for item in found
            if isinstance(item, dict)
        ]
        return "; ".join(parts)[:1000] or _short(body)
    return found[:1000] if isinstance(found, str) else _short(body)


def _short(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return repr(text if len(text) <= 200 else text[:200] + "...")


__all__ = ["Call", "Connection", "Fault", "TinkerError"]
