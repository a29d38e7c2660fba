"""What goes over the wire to a Tinker-compatible server and what comes back. Pure: values in, JSON-like values out.

The protocol is the REST one that `tinker` 0.24 speaks when the server asks for nothing newer (later SDKs expect protobuf replies): every
body is a JSON object, every sequence `{"chunks": [{"type": "encoded_text", "tokens": [...]}]}`, every tensor `{"data", "dtype", "shape"}`.
A datum is shifted by one: position i of `model_input` predicts `target_tokens[i]`, and all tensors of the loss have that length.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevo.engines.types import OptimConfig, Row
from coevo.errors import ModelError
from coevo.models.sampler import Prompt, Sampled
from coevo.models.types import StopReason

MAX_CHUNK_ROWS = 1024
MAX_CHUNK_BYTES = 5_000_000
"""Of one forward_backward request, estimated; larger batches are sent in several, which a server adds up."""
MAX_SEED = 0x7FFF_FFFF
_GRAD_NORM = re.compile(r"(^|[./:])(unclipped_)?grad_norm(:\w+)?$")
_STATE = re.compile(r"tinker://(?P<model>[\w.:-]+)/weights/(?P<name>[\w.-]+)")
_VERSION = re.compile(r"-v(\d+)-[0-9a-f]{8}$")


@dataclass(frozen=True)
class Traits:
    """What one server can do, as far as it says so."""

    name: str
    """Of its software, from `GET /`: "coevo", "Tinker API Mock" (SkyRL), or "" for one that does not say."""
    models: tuple[tuple[str, int | None], ...]
    """Base models and their context lengths."""
    losses: frozenset[str]
    repeats: bool
    """Recognises a request sent twice by its `seq_id`."""
    bare_load: bool
    """Can load weights without the optimizer's state."""
    clips: bool
    """Clips the gradient's norm."""
    full: bool
    """Trains all weights, without an adapter."""
    reduction: str = ""
    """sum or sequence_mean, where the server says so."""


SKYRL = "Tinker API Mock"
OURS = "coevo"
_LOSSES = frozenset({"cross_entropy", "importance_sampling", "ppo", "cispo"})


def traits(root: Any, capabilities: Any, schema: Any) -> Traits:
    """From `GET /`, `GET /api/v1/get_server_capabilities` and `GET /openapi.json`, each None where the server has none.

    Where a server publishes its schema, that says what it takes; the hosted service does not, and is as documented.
    """
    name = str(root.get("name", "")) if isinstance(root, dict) else ""
    listed = capabilities.get("supported_models") if isinstance(capabilities, dict) else None
    models = tuple(
        (str(item["model_name"]), context if isinstance(context := item.get("max_context_length"), int) else None)
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict) and item.get("model_name")
    )
    parts = _at(schema, "components", "schemas") or {}
    losses = _at(parts, "ForwardBackwardInput", "properties", "loss_fn", "enum")
    required = _at(parts, "CreateModelRequest", "required")
    return Traits(
        name=name,
        models=models,
        losses=_LOSSES & frozenset(losses) if isinstance(losses, list) else _LOSSES,
        repeats=name != SKYRL,
        bare_load=not parts or _at(parts, "LoadWeightsRequest", "properties", "optimizer") is not None,
        clips=not parts or _at(parts, "AdamParams", "properties", "grad_clip_norm") is not None,
        full=name == OURS or (isinstance(required, list) and "lora_config" not in required),
        reduction=str(root.get("reduction", "")) if isinstance(root, dict) else "",
    )


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def tokens(ids: Sequence[int]) -> dict[str, Any]:
    return {"chunks": [{"type": "encoded_text", "tokens": list(ids)}]}


def tensor(values: Sequence[float], dtype: str = "float32") -> dict[str, Any]:
    return {"data": list(values), "dtype": dtype, "shape": [len(values)]}


def datum(
    ids: Sequence[int],
    prompt_tokens: int,
    inputs: Mapping[str, Sequence[float]],
    *,
    whole: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """One sequence to learn from. `inputs` have one value per token after the prompt; before it they are 0.
    `whole` names inputs that have one value at every position."""
    head = prompt_tokens - 1
    fields: dict[str, Any] = {"target_tokens": tensor(list(ids[1:]), "int64")}
    for name, values in inputs.items():
        fields[name] = tensor([0.0] * head + [float(value) for value in values])
    for name, value in (whole or {}).items():
        fields[name] = tensor([float(value)] * (len(ids) - 1))
    return {"model_input": tokens(ids[:-1]), "loss_fn_inputs": fields}


def rl_datum(
    row: Row, advantages: Sequence[float], logprobs: Sequence[float], *, weighted: bool = False
) -> dict[str, Any]:
    """A row for a policy-gradient loss; `weighted`: for cross_entropy, whose weights the advantages are. Tokens that are not trained have
    advantage 0, which is what keeps them out of the gradient: the documented losses take no mask."""
    kept = [float(a) if t else 0.0 for a, t in zip(advantages, row.trained, strict=True)]
    if weighted:
        return datum(row.token_ids, row.prompt_tokens, {"weights": kept})
    known = [float(p) if t else 0.0 for p, t in zip(logprobs, row.trained, strict=True)]
    return datum(row.token_ids, row.prompt_tokens, {"logprobs": known, "advantages": kept})


def chunks(data: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Data in order, in pieces that one request may carry."""
    found: list[list[dict[str, Any]]] = []
    size = 0
    for one in data:
        length = len(one["model_input"]["chunks"][0]["tokens"])
        weight = length * (8 + 20 * len(one["loss_fn_inputs"]))
        if not found or len(found[-1]) >= MAX_CHUNK_ROWS or size + weight > MAX_CHUNK_BYTES:
            found.append([])
            size = 0
        found[-1].append(one)
        size += weight
    return found


def sampling(prompt: Prompt, ends: frozenset[int], *, wide: bool) -> dict[str, Any]:
    """`sampling_params`. A server takes stop tokens or stop strings, not both: with strings, end tokens are cut off here (`sampled`).
    `wide`: it takes seeds of any size; for others they are folded to 31 bits, which every server can hold."""
    seed = prompt.seed if wide else (prompt.seed ^ (prompt.seed >> 31) ^ (prompt.seed >> 62)) & MAX_SEED
    return {
        "max_tokens": max(1, prompt.max_new),
        "seed": seed,
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "stop": list(prompt.stop) or sorted(ends),
    }


def sampled(reply: Mapping[str, Any], prompt: Prompt, ends: frozenset[int]) -> Sampled:
    """The one sequence of a sample reply, up to and with the first end token. Raises `ModelError` for what is none."""
    sequences = reply.get("sequences")
    first = sequences[0] if isinstance(sequences, list) and sequences else None
    one = first if isinstance(first, dict) else {}
    ids = one.get("tokens")
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
        raise ModelError(f"the Tinker server gave a sample without tokens: {str(reply)[:200]!r}")
    logprobs = numbers(one.get("logprobs"), len(ids), "a sample's logprobs")
    cut = next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))
    stopped = cut < len(ids) or ids[cut - 1] in ends or one.get("stop_reason") == "stop"
    ids, logprobs = ids[:cut][: max(1, prompt.max_new)], logprobs[:cut][: max(1, prompt.max_new)]
    return Sampled(tuple(ids), tuple(logprobs), StopReason.STOP if stopped else StopReason.LENGTH)


def target_logprobs(reply: Mapping[str, Any], lengths: Sequence[int]) -> list[tuple[float, ...]]:
    """Per datum the log-probability of every target, from a forward or forward_backward reply."""
    outputs = reply.get("loss_fn_outputs")
    if not isinstance(outputs, list) or len(outputs) != len(lengths):
        count = len(outputs) if isinstance(outputs, list) else "no"
        raise ModelError(f"the Tinker server answered {count} loss outputs for {len(lengths)} sequences")
    return [
        tuple(numbers(_at(one, "logprobs", "data"), length, "the logprobs of a sequence"))
        for one, length in zip(outputs, lengths, strict=True)
    ]


def numbers(values: Any, count: int, what: str) -> list[float]:
    """`count` finite numbers, or a `ModelError`."""
    good = isinstance(values, list) and len(values) == count
    if not good or not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        shown = f"{len(values)} values" if isinstance(values, list) else repr(values)[:60]
        raise ModelError(f"the Tinker server gave {shown} for {what}; {count} finite numbers were expected")
    return [float(v) for v in values]


def adam(lr: float, config: OptimConfig) -> dict[str, Any]:
    """`adam_params`; a clip of 0 is none."""
    return {
        "learning_rate": lr,
        "beta1": config.beta1,
        "beta2": config.beta2,
        "eps": config.eps,
        "weight_decay": config.weight_decay,
        "grad_clip_norm": config.max_grad_norm or 0.0,
    }


def grad_norm(metrics: Any) -> float:
    """From the metrics of an optimizer step, whatever prefix the server gives it; NaN where it reports none."""
    for name, value in (metrics if isinstance(metrics, dict) else {}).items():
        if _GRAD_NORM.search(name) and isinstance(value, int | float):
            return float(value)
    return math.nan


def state_name(name: str, version: int) -> str:
    """A name for a saved state that no other has: servers refuse to overwrite, and keep no version of their own."""
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name).strip('-')[:180] or 'state'}-v{version}-{secrets.token_hex(4)}"


def state_version(path: str) -> int | None:
    """The optimizer steps behind a state that `state_name` named; None for one that it did not."""
    found = _VERSION.search(path)
    return int(found[1]) if found else None


def is_state(path: str) -> bool:
    """Whether a text is the address of a state on a server."""
    return _STATE.fullmatch(path) is not None
