"""The one-line name of a model and its settings.

    openai:NAME[@BASE_URL][,option=value...]    any OpenAI-compatible endpoint
    local[:FOLDER | FILE.gguf | HUB_ID][,...]   transformers on this machine; bare `local` is the embedded default
    scripted:FILE[,...]                         replies from a JSONL file
    replay:RUN_FOLDER                           the replies recorded in a run

A comma opens an option only where `name=` follows it, so paths may hold commas; JSON in `extra={...}` may too.
A spec never holds a secret: the key is named by its environment variable, and the text can be stored and shown.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from coevo.config import Config, parse
from coevo.errors import ConfigError
from coevo.models.types import Sampling

Kind = Literal["openai", "local", "scripted", "replay"]


class ModelSpec(Config):
    """A model and how it is asked."""

    kind: Kind
    """Who answers: openai, local, scripted, replay."""
    target: str = ""
    """The model's name at its endpoint; a folder, file or hub id; a JSONL file; a run folder."""
    base_url: str = ""
    """Where the endpoint is. Empty: $OPENAI_BASE_URL, else https://api.openai.com/v1."""
    temperature: float = Field(default=1.0, ge=0, le=5)
    """Sampling temperature; 0 takes the likeliest token."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of tokens with this much probability."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest reply in tokens. local: unless given, at most half of the context."""
    context: int | None = Field(default=None, ge=1)
    """Tokens of prompt and reply together. None: what the model's config says (local), unknown (openai)."""
    concurrency: int = Field(default=8, ge=1, le=4096)
    """Requests in flight at one endpoint."""
    timeout: float = Field(default=300.0, gt=0)
    """Seconds for one attempt, from sending to the last byte."""
    connect_timeout: float = Field(default=10.0, gt=0)
    """Seconds to connect."""
    retries: int = Field(default=4, ge=0, le=100)
    """Attempts after the first, for failures that time may mend."""
    give_up: int = Field(default=8, ge=1)
    """Requests failing in a row after all retries before the endpoint counts as down."""
    price_in: float | None = Field(default=None, ge=0)
    """US dollars per million prompt tokens. None: unknown."""
    price_out: float | None = Field(default=None, ge=0)
    """US dollars per million reply tokens. None: unknown."""
    key_env: str = ""
    """NAME of the environment variable that holds the API key. Empty: OPENAI_API_KEY, if it is set."""
    weight: float = Field(default=1.0, gt=0)
    """Its share among several models."""
    seed: int = 0
    """Mixed into every request's seed by a local model, and into the choice of a scripted reply."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """JSON object added to the body of every request ({"reasoning_effort": "low"}, say)."""
    device: str = "cpu"
    """cpu, cuda, cuda:N, mps, or auto (cuda if there is one)."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights. auto: float32 on a CPU, bfloat16 elsewhere."""
    batch: int | None = Field(default=None, ge=1, le=4096)
    """Requests that one call carries. None: 16 for a local model, which samples them together, 1 for a scripted one."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads of a local model. None: 1 for one of under 5 million weights, else as torch chooses (one a core), which is right only while
    the cores are free: beside busy workers one thread is faster than two that wait for each other."""
    order: Literal["hash", "number"] = "hash"
    """How a scripted model picks among replies without a key: by a hash of the request's key, or by the last number in it."""

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.max_tokens, self.temperature, self.top_p)

    def __str__(self) -> str:
        """The canonical text: `parse_spec(str(spec)) == spec`."""
        head = f"{self.kind}:{self.target}" if self.target else self.kind
        if self.base_url:
            head += f"@{self.base_url}"
        options = [
            f"{name}={_text(value)}"
            for name in OPTIONS[self.kind]
            if (value := getattr(self, name)) != type(self).model_fields[name].get_default(call_default_factory=True)
        ]
        return ",".join([head, *options])


_SAMPLING = ("temperature", "top_p", "max_tokens", "context")
_PRICES = ("price_in", "price_out")
OPTIONS: dict[str, tuple[str, ...]] = {
    "openai": (
        *_SAMPLING,
        "concurrency",
        "timeout",
        "connect_timeout",
        "retries",
        "give_up",
        *_PRICES,
        "key_env",
        "weight",
        "extra",
    ),
    "local": (*_SAMPLING, "weight", "seed", "device", "dtype", "batch", "threads"),
    "scripted": (*_SAMPLING, *_PRICES, "weight", "seed", "batch", "order"),
    "replay": ("weight",),
}
"""The options each kind takes."""

_ALIASES = {"max_completion_tokens": "max_tokens", "temp": "temperature", "key": "key_env", "api_key": "key_env"}
_DEVICE = re.compile(r"cpu|auto|mps|cuda(:\d+)?")
_HOSTLIKE = re.compile(r"@(localhost|[\w.-]+:\d+|\d+\.\d+\.\d+\.\d+|[\w-]+(\.[\w-]+)+/)")


def parse_spec(text: str) -> ModelSpec:
    """Read a model spec, or raise a `ConfigError` that names the part at fault and what would do."""
    kind, _, rest = text.strip().partition(":")
    if "," in kind:  # "local,device=cuda": options without a target
        kind, _, options = kind.partition(",")
        rest = "," + options + (":" + rest if rest else "")
    if kind not in OPTIONS:
        near = get_close_matches(kind, OPTIONS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"unknown kind of model {_shown(kind)}.{hint} Write openai:NAME[@BASE_URL], local[:FOLDER], scripted:FILE "
            "or replay:RUN_FOLDER"
        )
    head, *options = _split(rest)
    data: dict[str, Any] = {"kind": kind, "target": head.strip()}
    if kind == "openai":
        data["target"], data["base_url"] = _split_url(head.strip())
    if not data["target"] and kind != "local":
        want = {"openai": "a model name", "scripted": "a JSONL file", "replay": "a run folder"}[kind]
        raise ConfigError(f"{kind}: {want} is missing; write {kind}:{want.split()[-1].upper()}")
    for option in options:
        name, _, raw = option.partition("=")
        if name not in OPTIONS[kind]:
            raise ConfigError(_unknown(name, kind))
        if name in data:
            raise ConfigError(f"{kind}: option {name!r} is given twice")
        data[name] = _value(name, raw)
    return checked(parse(ModelSpec, data, where=f"model {kind}:{data['target']}"))


def checked(spec: ModelSpec) -> ModelSpec:
    """Refuse what the fields' own bounds cannot see. Returns `spec`."""
    if spec.key_env:
        _check_key_env(spec.key_env)
    if spec.base_url:
        check_url(spec.base_url)
    if spec.context is not None and spec.max_tokens >= spec.context:
        raise ConfigError(
            f"max_tokens = {spec.max_tokens} leaves no room for a prompt in a context of {spec.context} tokens; lower max_tokens"
        )
    if (spec.price_in is None) != (spec.price_out is None):
        raise ConfigError("price_in and price_out (US dollars per million tokens) go together; give both")
    if not _DEVICE.fullmatch(spec.device):
        raise ConfigError(f"unknown device {spec.device!r}. Known: auto, cpu, cuda, cuda:N, mps")
    reserved = sorted({"model", "messages", "stream", "n"} & spec.extra.keys())
    if reserved:
        raise ConfigError(f"extra cannot set {', '.join(reserved)}: the client depends on it")
    return spec


def check_url(url: str) -> None:
    """Refuse a base URL that is not plain http(s), or that carries a secret. Never shows the secret."""
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError("the base URL cannot be read; write @http://HOST:PORT/v1") from None
    if parts.username or parts.password:
        raise ConfigError(
            "the base URL holds a user name or password; take it out and name a variable with key_env=NAME"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise ConfigError(f"base URL {url!r} is not http://HOST[:PORT][/PATH] or https://...")
    if re.search(r"(?i)(^|[&;])(key|api[-_]?key|token|access_token)=", parts.query):
        raise ConfigError("the base URL holds a key in its query; take it out and name a variable with key_env=NAME")


def _split(rest: str) -> list[str]:
    """Cut at commas that open an option (`name=`), outside brackets and JSON strings."""
    parts, start, depth, quoted, i = [], 0, 0, False, 0
    while i < len(rest):
        c = rest[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"' and depth:
            quoted = True
        elif c in "{[":
            depth += 1
        elif c in "}]":
            depth = max(0, depth - 1)
        elif c == "," and not depth and re.match(r"\s*[A-Za-z_]\w*=", rest[i + 1 :]):
            parts.append(rest[start:i])
            start = i + 1
        i += 1
    parts.append(rest[start:])
    return [parts[0], *(part.strip() for part in parts[1:])]


def _split_url(head: str) -> tuple[str, str]:
    at = re.search(r"@(?=https?://)", head)
    if at:
        return head[: at.start()], head[at.end() :]
    if hostlike := _HOSTLIKE.search(head):
        raise ConfigError(
            f"base URL {head[hostlike.start() + 1 :]!r} has no scheme; write @http://{head[hostlike.start() + 1 :]}"
        )
    if "," in head:
        raise ConfigError(f"{_shown(head.partition(',')[2])} is not an option; options are name=value")
    return head, ""


def _value(name: str, raw: str) -> Any:
    raw = raw.strip()
    if name == "key_env":
        _check_key_env(raw)
    if name != "extra":
        return raw
    try:
        value = json.loads(raw)
    except ValueError as e:
        raise ConfigError(f'extra is not JSON ({e}); write extra={{"name": value}}') from None
    if not isinstance(value, dict):
        raise ConfigError('extra must be a JSON object: extra={"name": value}')
    return value


def _check_key_env(name: str) -> None:
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", name):
        raise ConfigError(
            "key_env takes the NAME of an environment variable (capitals, digits, _), never the key itself; "
            "put the key in the environment: export MY_KEY=... and write key_env=MY_KEY"
        )


def _unknown(name: str, kind: str) -> str:
    known = OPTIONS[kind]
    elsewhere = [other for other, names in OPTIONS.items() if name in names]
    near = [_ALIASES[name]] if _ALIASES.get(name) in known else get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" It belongs to {', '.join(elsewhere)}." if elsewhere else ""
    return f"unknown option {name!r} of a model of kind {kind!r}.{hint} Known: {', '.join(sorted(known))}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else str(value)
