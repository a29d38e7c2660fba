"""Any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, hosted services.

One HTTP client on one event loop in one thread serves every caller: `concurrency` requests are in flight, each attempt has a
deadline over all of it, and what time may mend is tried again. What the wire means is decided in `wire`, when to wait in `pacing`;
this file touches the network.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ipaddress
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from pydantic import SecretStr

from coevo import __version__
from coevo.errors import ConfigError, ModelError
from coevo.models import pacing, wire
from coevo.models.spec import ModelSpec, check_url
from coevo.models.tokens import chat_tokens, estimate_tokens
from coevo.models.types import Completion, Request, Sampling, StopReason
from coevo.models.wire import Failure, Fault, Reply
from coevo.streams import stream

log = logging.getLogger("coevo.models")

MAX_BLIND_ATTEMPTS = 2
"""Attempts of one request that may have been billed without saying so, on an endpoint that costs money."""
_SHORTEST_SECRET = 8
"""Keys shorter than this ("EMPTY", "none") are placeholders, not secrets, and are not searched for in replies."""


@dataclass
class _Bill:
    """What the attempts of one request have used."""

    prompt: int = 0
    completion: int = 0
    blind: int = 0
    estimated: bool = False


class OpenAIModel:
    """A model behind `spec.base_url`. Close it, or use it as a context manager.

    `environ` is where the key is read from. Raises `ConfigError` if a key is named and not set.
    """

    batch = 1

    def __init__(self, spec: ModelSpec, *, environ: Mapping[str, str] = os.environ) -> None:
        base = spec.base_url or environ.get("OPENAI_BASE_URL", "").strip() or wire.OPENAI_URL
        check_url(base)
        self.spec = spec.model_copy(update={"base_url": base})
        self._url = wire.endpoint(base)
        self._key = _read_key(self.spec, self._url, environ)
        self._dialect = wire.first_dialect(self._url)
        self._breaker = pacing.Breaker(spec.give_up)
        self._replies = 0
        self._down = ""
        self._closed = False
        self._resume_at = 0.0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: httpx.AsyncClient | None = None
        self._slots: asyncio.Semaphore | None = None

    @property
    def name(self) -> str:
        return self.spec.target

    @property
    def sampling(self) -> Sampling:
        return self.spec.sampling

    @property
    def context(self) -> int | None:
        return self.spec.context

    @property
    def priced(self) -> bool:
        return self.spec.price_in is not None or _is_private(self._url)

    @property
    def billable(self) -> bool:
        if self.spec.price_in is None:
            return not _is_private(self._url)
        return self.spec.price_in > 0 or (self.spec.price_out or 0) > 0

    @property
    def dropped(self) -> tuple[str, ...]:
        """Parameters the endpoint refused and that are no longer sent: the model samples by its own setting there."""
        return tuple(sorted(self._dialect.dropped))

    def count_tokens(self, text: str) -> int:
        return estimate_tokens(text)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * (self.spec.price_in or 0.0) + completion_tokens * (self.spec.price_out or 0.0)) / 1e6

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order. Blocks; any number of threads may call it.

        Raises `ModelError` when the endpoint refuses every request, or `give_up` requests in a row have failed.
        """
        work = self._all(list(requests))
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._started())
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ModelError(f"{self.name}: closed while a request was in flight") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what is in flight and leave no thread or connection. Safe to call twice."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut(), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=30)
        loop.close()

    def __enter__(self) -> OpenAIModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenAIModel({str(self.spec)!r})"

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise ModelError(f"{self.name}: this model is closed")
            if self._loop is None:
                self._slots = asyncio.Semaphore(self.spec.concurrency)
                self._client = _client(self.spec, self._url, self._key)
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="coevo-openai", daemon=True)
                self._thread.start()
            return self._loop

    async def _shut(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _all(self, requests: list[Request]) -> list[Completion]:
        tasks = [asyncio.ensure_future(self._complete(request)) for request in requests]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _complete(self, request: Request) -> Completion:
        """Try until there is a completion, a refusal, or a failure that time will not mend."""
        started = time.monotonic()
        rng = stream(request.seed, "backoff", request.key)
        bill, attempt = _Bill(), 0
        while True:
            attempt += 1
            outcome = await self._attempt(request)
            self._charge(bill, request, outcome)
            if isinstance(outcome, Reply):
                self._replies += 1
                self._breaker.success()
                return self._completion(request, outcome, bill, attempt, started)
            if outcome.fault is Fault.FATAL or (outcome.fault is Fault.DENIED and not self._replies):
                self._down = f"{self.name} at {self.spec.base_url}: {outcome.message}. {_advice(outcome, self.spec)}"
                raise ModelError(self._down)
            blind = self.billable and bill.blind >= MAX_BLIND_ATTEMPTS
            if outcome.fault not in wire.RETRYABLE or attempt > self.spec.retries or blind:
                return self._failed(request, outcome, bill, attempt, started)
            wait = max(pacing.backoff(attempt, rng), outcome.retry_after or 0.0)
            if outcome.fault is Fault.BUSY:  # one told to slow down tells the others
                self._resume_at = max(self._resume_at, time.monotonic() + wait)
            await asyncio.sleep(wait)

    async def _attempt(self, request: Request) -> Reply | Failure:
        """One attempt, in a slot; repeated at once while the endpoint's refusal teaches its dialect."""
        assert self._slots is not None
        async with self._slots:
            while True:
                if self._down:
                    raise ModelError(self._down)
                if (wait := self._resume_at - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                    continue
                dialect = self._dialect
                answer = await self._post(
                    wire.encode(wire.payload(self.spec.target, request, self.spec.extra, dialect))
                )
                if isinstance(answer, Failure):
                    return self._clean(answer)
                if dialect != self._dialect and answer.status in (400, 422):
                    continue  # another request has learnt meanwhile what this one was refused for
                learnt = wire.adapt(dialect, answer.status, answer.body, self.spec.extra)
                if learnt is None:
                    return self._clean(answer.outcome())
                self._dialect = learnt[0]
                log.warning("%s does not take %s: it is left out or renamed from now on", self.name, learnt[1])

    async def _post(self, body: bytes) -> _Answer | Failure:
        """Send one body and read the whole answer within the deadline."""
        assert self._client is not None
        begun = False
        try:
            async with asyncio.timeout(self.spec.timeout):
                async with self._client.stream("POST", self._url, content=body) as response:
                    begun = response.status_code == 200
                    chunks, size = [], 0
                    async for chunk in response.aiter_bytes():
                        chunks.append(chunk)
                        size += len(chunk)
                        if size > wire.MAX_BODY:
                            return Failure(Fault.GARBAGE, f"the reply is larger than {wire.MAX_BODY >> 20} MiB")
                    return _Answer(response.status_code, response.headers, b"".join(chunks))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as e:
            return Failure(Fault.CONNECT, f"cannot connect to {self.spec.base_url}: {e or type(e).__name__}")
        except (TimeoutError, httpx.TimeoutException):
            return Failure(Fault.TIMEOUT, f"no complete reply within {self.spec.timeout:g} s")
        except httpx.DecodingError as e:
            return Failure(Fault.GARBAGE, f"the reply cannot be decompressed: {e}")
        except httpx.TransportError as e:
            fault = Fault.TRUNCATED if begun else Fault.CUT
            return Failure(
                fault, f"the connection broke {'inside' if begun else 'before'} the reply: {e or type(e).__name__}"
            )

    def _charge(self, bill: _Bill, request: Request, outcome: Reply | Failure) -> None:
        if outcome.usage is not None:
            bill.prompt += outcome.usage.prompt
            bill.completion += outcome.usage.completion
        elif isinstance(outcome, Failure) and outcome.fault in wire.MAYBE_BILLED:
            bill.prompt += chat_tokens(estimate_tokens, request.messages)
            bill.completion += request.max_tokens
            bill.blind += 1
            bill.estimated = True
        elif isinstance(outcome, Reply) and (outcome.text or outcome.reasoning):
            bill.prompt += chat_tokens(estimate_tokens, request.messages)
            bill.completion += min(
                request.max_tokens, estimate_tokens(outcome.text) + estimate_tokens(outcome.reasoning)
            )
            bill.estimated = True

    def _completion(self, request: Request, reply: Reply, bill: _Bill, attempts: int, started: float) -> Completion:
        return Completion(
            text=reply.text,
            stop_reason=reply.stop_reason,
            model=self.name,
            prompt_tokens=bill.prompt,
            completion_tokens=bill.completion,
            cost_usd=self.cost(bill.prompt, bill.completion),
            wall_s=time.monotonic() - started,
            attempts=attempts,
            error=reply.note,
            estimated=bill.estimated,
            reasoning=reply.reasoning,
        )

    def _failed(self, request: Request, failure: Failure, bill: _Bill, attempts: int, started: float) -> Completion:
        message = f"{failure.fault.value} after {attempts} attempt{'s' if attempts > 1 else ''}: {failure.message}"
        self._breaker.failure(message)
        if self._breaker.open:
            self._down = (
                f"{self.name} at {self.spec.base_url}: {self._breaker.failures} requests in a row failed, the last one so: "
                f"{message}. Check that the endpoint is up; give_up=N sets how many are waited for"
            )
            raise ModelError(self._down)
        return self._completion(request, Reply("", StopReason.FAILED, note=message), bill, attempts, started)

    def _clean(self, outcome: Reply | Failure) -> Reply | Failure:
        """The same without the key, should the endpoint echo it."""
        if isinstance(outcome, Failure):
            return replace(outcome, message=_redact(outcome.message, self._key))
        texts = {name: _redact(getattr(outcome, name), self._key) for name in ("text", "reasoning", "note")}
        return replace(outcome, **texts)


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def outcome(self) -> Reply | Failure:
        outcome = wire.read_reply(self.status, self.headers.get("content-type", ""), self.body)
        if isinstance(outcome, Failure) and (wait := pacing.retry_after(self.headers)) is not None:
            outcome = replace(outcome, retry_after=wait)
        if isinstance(outcome, Failure) and 300 <= self.status < 400:
            return replace(outcome, message=f"HTTP {self.status}: moved to {self.headers.get('location', 'nowhere')}")
        return outcome


def _client(spec: ModelSpec, url: str, key: SecretStr | None) -> httpx.AsyncClient:
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": f"coevo/{__version__}"}
    if key is not None:
        headers["authorization"] = f"Bearer {key.get_secret_value()}"
    return httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(None, connect=spec.connect_timeout),
        limits=httpx.Limits(max_connections=spec.concurrency, max_keepalive_connections=spec.concurrency),
        trust_env=not _is_loopback(url),  # a proxy's loopback is not ours
        follow_redirects=False,
    )


def _read_key(spec: ModelSpec, url: str, environ: Mapping[str, str]) -> SecretStr | None:
    name = spec.key_env or "OPENAI_API_KEY"
    key = environ.get(name, "").strip()
    if not key:
        if spec.key_env or url.startswith(wire.OPENAI_URL):
            raise ConfigError(
                f"environment variable {name} is not set; export {name}=... (it is read from there and stored nowhere)"
            )
        return None
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"environment variable {name} holds characters that no HTTP header can carry; set it again")
    return SecretStr(key)


def _redact(text: str, key: SecretStr | None) -> str:
    secret = key.get_secret_value() if key is not None else ""
    if len(secret) < _SHORTEST_SECRET:
        return text
    for form in {secret, quote(secret, safe="")}:
        text = text.replace(form, "[key]")
    return text


def _advice(failure: Failure, spec: ModelSpec) -> str:
    if failure.message.startswith("HTTP 401"):
        return f"Check the key in ${spec.key_env or 'OPENAI_API_KEY'}"
    if failure.message.startswith(("HTTP 402", "HTTP 429")):
        return "The account has no credit left"
    if failure.message.startswith(("HTTP 404", "HTTP 405", "HTTP 3")):
        return f"Check the model's name ({spec.target!r}) and the base URL (most servers end in /v1)"
    return f"Check that the key in ${spec.key_env or 'OPENAI_API_KEY'} may use {spec.target!r}"


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or _address_is(host, "is_loopback")


def _is_private(url: str) -> bool:
    """Whether the endpoint is a machine of one's own, where tokens cost nothing unless prices say so."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or ("." not in host.strip("[]") and ":" not in host) or _address_is(host, "is_private")


def _address_is(host: str, what: str) -> bool:
    try:
        address: Any = ipaddress.ip_address(host)
    except ValueError:
        return False
    return bool(getattr(address, what))
