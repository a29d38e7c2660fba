"""Replies from a script: for tests, demos and runs without a model. Equal requests get equal replies, whatever the concurrency.

A script is a JSONL file, one reply a line:

    {"text": "...", "key": "step-3"}                   answers the request of that key
    {"text": "..."}                                    one of the pool that answers the others
    {"stop_reason": "refusal", "text": "I cannot"}     a refusal; "length" for a reply that was cut
    {"error": "endpoint is down"}                      a failed request
    {"text": "...", "delay_s": 0.2}                    takes that long

From the pool, `order="hash"` picks by a hash of the request's key (and the model's seed), `order="number"` by the last number in
the key: "step-0" gets the first line, "step-1" the second, and round again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError, ModelError
from coevo.models.spec import ModelSpec
from coevo.models.tokens import chat_tokens, estimate_tokens
from coevo.models.types import Completion, Request, Sampling, StopReason
from coevo.streams import stream_seed


@dataclass(frozen=True)
class Scripted:
    """One line of a script."""

    text: str = ""
    key: str | None = None
    stop_reason: StopReason = StopReason.STOP
    error: str = ""
    delay_s: float = 0.0
    prompt_tokens: int | None = None
    """None: an estimate from the request."""
    completion_tokens: int | None = None
    """None: an estimate from the text."""


Script = Sequence[str | Scripted] | Callable[[Request], str | Scripted]
_TYPES = {
    "text": str,
    "key": str,
    "stop_reason": str,
    "error": str,
    "delay_s": (int, float),
    "prompt_tokens": int,
    "completion_tokens": int,
}


class ScriptedModel:
    """Answers from a list of replies or from a function of the request (which must be pure and thread-safe).

    Tokens are estimated where the script gives none; prices in the spec make them cost money, on paper.
    Raises `ModelError` for a request that the script has no reply for.
    """

    billable = False
    priced = True

    def __init__(self, script: Script, *, spec: ModelSpec | None = None, name: str = "scripted") -> None:
        self.spec = spec or ModelSpec(kind="scripted")
        self._name = name
        self._function = script if callable(script) else None
        lines = [_as_scripted(line) for line in script] if not callable(script) else []
        self._keyed = {line.key: line for line in lines if line.key is not None}
        self._pool = [line for line in lines if line.key is None]
        if not callable(script) and not lines:
            raise ConfigError(f"{name}: the script is empty; write at least one reply")
        if len(self._keyed) + len(self._pool) < len(lines):
            raise ConfigError(f"{name}: two replies have the same key; keys name one request each")

    @classmethod
    def open(cls, spec: ModelSpec) -> ScriptedModel:
        """From the JSONL file in `spec.target`. Raises `ConfigError` naming file and line."""
        return cls(read_script(Path(spec.target).expanduser()), spec=spec, name=f"scripted:{Path(spec.target).name}")

    @property
    def name(self) -> str:
        return self._name

    @property
    def batch(self) -> int:
        return self.spec.batch or 1

    @property
    def sampling(self) -> Sampling:
        return self.spec.sampling

    @property
    def context(self) -> int | None:
        return self.spec.context

    def count_tokens(self, text: str) -> int:
        return estimate_tokens(text)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * (self.spec.price_in or 0.0) + completion_tokens * (self.spec.price_out or 0.0)) / 1e6

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        pass

    def _answer(self, request: Request) -> Completion:
        line = self._line(request)
        if line.delay_s:
            time.sleep(line.delay_s)
        failed = line.stop_reason is StopReason.FAILED
        prompt = line.prompt_tokens
        if prompt is None:
            prompt = 0 if failed else chat_tokens(estimate_tokens, request.messages)
        reply = line.completion_tokens if line.completion_tokens is not None else estimate_tokens(line.text)
        return Completion(
            text=line.text,
            stop_reason=line.stop_reason,
            model=self.name,
            prompt_tokens=prompt,
            completion_tokens=reply,
            cost_usd=self.cost(prompt, reply),
            wall_s=line.delay_s,
            error=line.error,
            estimated=line.prompt_tokens is None or line.completion_tokens is None,
        )

    def _line(self, request: Request) -> Scripted:
        if self._function is not None:
            return _as_scripted(self._function(request))
        if request.key in self._keyed:
            return self._keyed[request.key]
        if not self._pool:
            raise ModelError(
                f"{self.name} has no reply for the key {request.key!r} and no reply without a key; add a line to the script"
            )
        numbers = re.findall(r"\d+", request.key) if self.spec.order == "number" else []
        index = int(numbers[-1]) if numbers else stream_seed(self.spec.seed, "scripted", request.key)
        return self._pool[index % len(self._pool)]


def read_script(path: Path) -> list[Scripted]:
    """The replies of a JSONL file. Raises `ConfigError` naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as e:
        raise ConfigError(f"cannot read the script {path}: {e.strerror or e}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the script {path} is not UTF-8 text") from None
    return [_read_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def write_script(path: Path, replies: Iterable[Scripted]) -> None:
    """Write a script that `read_script` reads back."""
    rows = [{name: v for name, v in vars(r).items() if v not in (None, "", 0.0)} | {"text": r.text} for r in replies]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _read_line(text: str, where: str) -> Scripted:
    try:
        row: Any = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"{where} is not JSON: {e}") from None
    if isinstance(row, str):
        return Scripted(row)
    if not isinstance(row, dict):
        raise ConfigError(f"{where} must be a JSON object or string, not a {type(row).__name__}")
    for name, value in row.items():
        if name not in _TYPES:
            raise ConfigError(f"{where}: unknown field {name!r}. Known: {', '.join(_TYPES)}")
        if not isinstance(value, _TYPES[name]) or isinstance(value, bool):
            raise ConfigError(f"{where}: {name} = {value!r} has the wrong type")
    if not row.keys() & {"text", "error", "stop_reason"}:
        raise ConfigError(f"{where} has neither text nor error nor stop_reason")
    if row.get("delay_s", 0) < 0:
        raise ConfigError(f"{where}: delay_s = {row['delay_s']} is negative")
    if "stop_reason" in row:
        try:
            row["stop_reason"] = StopReason(row["stop_reason"])
        except ValueError:
            raise ConfigError(
                f"{where}: unknown stop_reason {row['stop_reason']!r}. Known: {', '.join(StopReason)}"
            ) from None
    return _as_scripted(Scripted(**row))


def _as_scripted(line: str | Scripted) -> Scripted:
    if isinstance(line, str):
        return Scripted(line)
    if line.error and line.stop_reason is StopReason.STOP and not line.text:
        return replace(line, stop_reason=StopReason.FAILED)
    return line
