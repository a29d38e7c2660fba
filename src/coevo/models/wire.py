"""What goes over the wire to an OpenAI-compatible endpoint and what comes back. Pure: bytes in, values out.

Servers differ. Those measured or reported: hosted OpenAI wants `max_completion_tokens` and refuses sampling settings on reasoning
models; llama.cpp and older vLLM know only `max_tokens`; some refuse `seed` or `top_p`; some answer errors with status 200; some
give the content as a list of parts, or put a model's reasoning beside it. `Dialect` remembers what one server did not take.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from coevo.models.types import Request, StopReason

OPENAI_URL = "https://api.openai.com/v1"
MAX_BODY = 64 * 2**20
"""Bytes of a reply that are read at most."""
MAX_TOKENS = 2**40
"""More than this is no count of tokens: such a usage is not believed."""


class Fault(StrEnum):
    """Why an attempt gave no completion."""

    CONNECT = "no connection"
    TIMEOUT = "timeout"
    CUT = "connection cut"
    """Before any answer."""
    TRUNCATED = "reply cut off"
    """After the answer had begun."""
    BUSY = "busy"
    """429: slow down."""
    SERVER = "server error"
    GARBAGE = "unusable reply"
    """Status 200, and not a completion."""
    REQUEST = "request refused"
    """This request cannot succeed; others may."""
    DENIED = "request denied"
    """403, 404, 405 or a redirect: no request can succeed, unless others have."""
    FATAL = "endpoint refused"
    """No request can succeed: bad key, no credit."""


RETRYABLE = frozenset(Fault) - {Fault.REQUEST, Fault.DENIED, Fault.FATAL}
MAYBE_BILLED = frozenset({Fault.TIMEOUT, Fault.TRUNCATED, Fault.GARBAGE})
"""The endpoint may have done the work and billed it."""


@dataclass(frozen=True)
class Usage:
    prompt: int
    completion: int


@dataclass(frozen=True)
class Failure:
    """One attempt that gave no completion."""

    fault: Fault
    message: str
    usage: Usage | None = None
    """What the endpoint says it billed all the same."""
    retry_after: float | None = None
    """Seconds the endpoint asked to wait."""


@dataclass(frozen=True)
class Reply:
    """One attempt that gave a completion (or a refusal, which is one)."""

    text: str
    stop_reason: StopReason
    usage: Usage | None = None
    reasoning: str = ""
    note: str = ""


@dataclass(frozen=True)
class Dialect:
    """The parameters one endpoint takes."""

    length_name: str = "max_tokens"
    dropped: frozenset[str] = frozenset()
    swapped: bool = False


def endpoint(base_url: str) -> str:
    """The chat completions address under a base URL: with or without `/v1`, a trailing or doubled slash, or the full path
    already there. A host without a path gets `/v1`; any other path is kept as it is."""
    parts = urlsplit(base_url)
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    path = path.removesuffix("/completions").removesuffix("/chat") if path.endswith("/chat/completions") else path
    path = re.sub(r"(/v\d+)\1+$", r"\1", path) or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path + "/chat/completions", parts.query, ""))


def first_dialect(url: str) -> Dialect:
    """What to try first. Only hosted OpenAI is known to want the newer name."""
    hosted = (urlsplit(url).hostname or "").endswith("openai.com")
    return Dialect("max_completion_tokens" if hosted else "max_tokens")


def payload(model: str, request: Request, extra: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """The JSON body of one request. Sampling settings are always stated, since servers have defaults of their own.
    The seed is folded to 31 bits, which every server can hold."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": (request.seed ^ (request.seed >> 31) ^ (request.seed >> 62)) & 0x7FFFFFFF,
    }
    if request.stop:
        body["stop"] = list(request.stop)
    body[dialect.length_name] = request.max_tokens
    body = {name: value for name, value in body.items() if name not in dialect.dropped}
    return {**body, **extra}


def encode(body: dict[str, Any]) -> bytes:
    """JSON bytes; lone surrogates travel as escapes rather than failing to encode."""
    return json.dumps(body, separators=(",", ":")).encode("ascii")


_DROPPABLE = ("temperature", "top_p", "seed", "stop")
_LENGTHS = ("max_tokens", "max_completion_tokens")
_REFUSED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields)|not permitted|not allowed|"
    r"invalid (parameter|argument)|does not accept|only the default|deprecated|is not available",
    re.IGNORECASE,
)


def adapt(dialect: Dialect, status: int, body: bytes, extra: dict[str, Any]) -> tuple[Dialect, str] | None:
    """After a 400 or 422 that names a parameter the server does not take: the dialect without it, and the parameter.
    None when the refusal is about something else, or about what was adapted before."""
    if status not in (400, 422):
        return None
    text = body[:20_000].decode("utf-8", "replace")
    if not _REFUSED.search(text):
        return None
    error = _error_of(_json(body))
    named = error.get("param") if isinstance(error, dict) and isinstance(error.get("param"), str) else None
    for name in (named,) if named in (*_DROPPABLE, dialect.length_name) else (dialect.length_name, *_DROPPABLE):
        if name in dialect.dropped or name in extra or not re.search(rf"\b{name}\b", text):
            continue
        if name == dialect.length_name:
            if dialect.swapped:
                continue
            other = _LENGTHS[1 - _LENGTHS.index(name)]
            return replace(dialect, length_name=other, swapped=True), name
        return replace(dialect, dropped=dialect.dropped | {name}), name
    return None


def read_reply(status: int, content_type: str, body: bytes) -> Reply | Failure:
    """Read one whole response of any status."""
    data = _json(body)
    if status != 200:
        return _read_error(status, data, body)
    if not isinstance(data, dict):
        kind = content_type.partition(";")[0].strip() or "no content type"
        why = "not JSON" if data is None else f"a JSON {type(data).__name__}"
        # a page of HTML comes from a proxy or a login, never from the model
        fault = Fault.SERVER if kind == "text/html" else Fault.GARBAGE
        return Failure(fault, f"reply of {kind} is {why}: {_quote(body)}")
    if data.get("error"):
        code = _error_of(data)
        inner = code.get("code") if isinstance(code, dict) else None
        # some routers wrap the failure of the server behind them in a reply of status 200
        return _read_error(inner if isinstance(inner, int) and inner >= 400 else 502, data, body)
    usage = _usage(data)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Failure(Fault.GARBAGE, f"reply has no choices: {_quote(body)}", usage)
    message = choices[0].get("message")
    if not isinstance(message, dict):
        return Failure(Fault.GARBAGE, f"reply's first choice has no message: {_quote(body)}", usage)
    return _read_message(message, str(choices[0].get("finish_reason") or ""), usage)


def _read_message(message: dict[str, Any], finish: str, usage: Usage | None) -> Reply | Failure:
    text = _content(message.get("content"))
    reasoning = next((message[k] for k in ("reasoning_content", "reasoning") if isinstance(message.get(k), str)), "")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Reply(text or refusal, StopReason.REFUSAL, usage, reasoning, refusal)
    if finish in ("content_filter", "refusal", "safety"):
        return Reply(text or "", StopReason.REFUSAL, usage, reasoning, f"the endpoint ended it with {finish!r}")
    if finish in ("error", "abort", "cancelled"):
        return Failure(Fault.GARBAGE, f"the endpoint ended the reply with {finish!r}", usage)
    if finish in ("length", "max_tokens", "model_length", "max_output_tokens"):
        note = (
            "" if text else "every token went into reasoning; raise max_tokens" if reasoning else "cut before any text"
        )
        return Reply(text or "", StopReason.LENGTH, usage, reasoning, note)
    if text is None and not reasoning:
        return Failure(Fault.GARBAGE, f"reply has null content (finish_reason {finish or 'null'!r})", usage)
    return Reply(text or "", StopReason.STOP, usage, reasoning, "" if text else "empty text")


def _content(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return None


def _read_error(status: int, data: Any, body: bytes) -> Failure | Reply:
    error = _error_of(data)
    code = f"{error.get('code')} {error.get('type')}" if isinstance(error, dict) else ""
    message = _error_text(error) or _quote(body)
    text = f"HTTP {status}: {message}"
    if status in (400, 403) and re.search(
        r"content_filter|content_policy|moderation|flagged", f"{code} {message}", re.I
    ):
        return Reply("", StopReason.REFUSAL, None, "", text)
    if status == 429 and "insufficient_quota" in code:
        return Failure(Fault.FATAL, text)
    if status == 429:
        return Failure(Fault.BUSY, text)
    if status in (401, 402):
        return Failure(Fault.FATAL, text)
    if status in (403, 404, 405) or 300 <= status < 400:
        return Failure(Fault.DENIED, text)
    if status in (408, 409, 425) or status >= 500:
        return Failure(Fault.SERVER, text)
    return Failure(Fault.REQUEST, text)


def _error_of(data: Any) -> Any:
    if not isinstance(data, dict):
        return None
    return data.get("error") or data


def _error_text(error: Any) -> str:
    if isinstance(error, str):
        return error[:500]
    if isinstance(error, dict):
        for name in ("message", "detail", "error"):
            if error.get(name):
                value = error[name]
                return (value if isinstance(value, str) else json.dumps(value))[:500]
    return ""


def _usage(data: dict[str, Any]) -> Usage | None:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    if all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_TOKENS for n in counts):
        return Usage(*counts)  # type: ignore[arg-type]
    return None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _quote(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return repr(text[:200] + ("..." if len(text) > 200 else "")) if text else "an empty body"
