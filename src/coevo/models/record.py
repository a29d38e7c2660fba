"""How a completion lies in a run: plain data with everything a replay and a report need."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from coevo.errors import StoreError
from coevo.models.types import Completion, Request, StopReason

_SPARSE = ("error", "token_ids", "logprobs", "estimated", "reasoning")
"""Left out where they say nothing."""
_FIELDS = {field.name for field in fields(Completion)}


def request_digest(request: Request) -> str:
    """SHA-256 of the messages and the seed: two requests of one key and one digest belong to the same search."""
    data = [[[m.role, m.content] for m in request.messages], request.seed]
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def to_payload(completion: Completion, request: Request | None = None) -> dict[str, Any]:
    """Plain data for `run.put_completion`. With `request`, a replay can tell when the prompt is another one."""
    data = dict(vars(completion))
    for name in _SPARSE:
        if not data[name]:
            del data[name]
    data["stop_reason"] = completion.stop_reason.value
    for name in ("token_ids", "logprobs"):
        if getattr(completion, name) is not None:
            data[name] = list(getattr(completion, name))
    if request is not None:
        data["request"] = request_digest(request)
    return data


def from_payload(payload: Mapping[str, Any]) -> Completion:
    """The completion that `to_payload` wrote. Fields of newer versions are ignored. Raises `StoreError`."""
    data = {name: value for name, value in payload.items() if name in _FIELDS}
    try:
        data["stop_reason"] = StopReason(data["stop_reason"])
        for name in ("token_ids", "logprobs"):
            if data.get(name) is not None:
                data[name] = tuple(data[name])
        return Completion(**data)
    except (KeyError, TypeError, ValueError) as e:
        raise StoreError(
            f"not a stored completion ({type(e).__name__}: {e}); its fields are {sorted(payload)}"
        ) from None
