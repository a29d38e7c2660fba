"""The bodies of Tinker requests, as our server reads and writes them. Pure; what is not as it should be raises `Refusal`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from coevo.engines.settings import LoraConfig
from coevo.engines.types import OptimConfig, Row
from coevo.models.sampler import Prompt, Sampled
from coevo.models.types import StopReason
from coevo.streams import stream_seed

Body = dict[str, Any]
Array = np.ndarray

LOSSES = ("cross_entropy", "importance_sampling", "ppo", "cispo")
_CLIPS = {"ppo": (0.8, 1.2), "cispo": (0.8, 1.2)}
"""Bounds of the ratio where a request gives none."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")


class Refusal(Exception):
    """A request that is answered with an HTTP error."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class Datum:
    """A sequence, and one value per target (its tokens but the first) of every tensor given."""

    ids: tuple[int, ...]
    inputs: Mapping[str, Array]

    def of(self, name: str, default: float | None = None) -> Array:
        if name in self.inputs:
            return self.inputs[name]
        if default is None:
            raise Refusal(422, f"this loss needs loss_fn_inputs.{name}")
        return np.full(len(self.ids) - 1, default)


def data_of(given: Body) -> list[Datum]:
    """The data of a forward or forward_backward input."""
    data = [_datum(i, one) for i, one in enumerate(given["data"])]
    if not data:
        raise Refusal(422, "data is empty")
    return data


def _datum(index: int, one: Body) -> Datum:
    ids = ids_of(one["model_input"])
    tensors = one["loss_fn_inputs"]
    targets = [int(x) for x in tensors["target_tokens"]["data"]]
    if len(targets) != len(ids) or targets[:-1] != list(ids[1:]):
        raise Refusal(
            400,
            f"datum {index}: target_tokens must be model_input shifted by one; other targets cannot be computed here",
        )
    inputs = {
        name: np.array(tensor["data"], dtype=float) for name, tensor in tensors.items() if name != "target_tokens"
    }
    for name, values in inputs.items():
        if values.shape != (len(targets),):
            raise Refusal(422, f"datum {index}: {len(values)} {name} for {len(targets)} targets")
        if not np.isfinite(values).all():
            raise Refusal(422, f"datum {index}: {name} holds values that are not finite")
    return Datum((*ids, targets[-1]), inputs)


def ids_of(given: Body) -> tuple[int, ...]:
    """The tokens of a model input."""
    ids: list[int] = []
    for chunk in given["chunks"]:
        if chunk.get("type", "encoded_text") != "encoded_text":
            raise Refusal(400, f"chunks of type {chunk['type']!r} are not understood here; give encoded_text")
        ids += [int(token) for token in chunk["tokens"]]
    if not ids:
        raise Refusal(422, "a sequence without tokens")
    return tuple(ids)


def loss_of(name: str, settings: Mapping[str, float], datum: Datum, q: Array) -> tuple[Array, Array]:
    """(value, derivative by q) of each target at its log-probability q, before they are summed."""
    if name == "cross_entropy":
        weight = datum.of("weights")
        return -weight * q, -weight
    mask, advantage = datum.of("weights", 1.0), datum.of("advantages")
    ratio = np.exp(np.clip(q - datum.of("logprobs"), -20.0, 20.0))
    if name == "importance_sampling":
        return -ratio * advantage * mask, -ratio * advantage * mask
    low, high = _CLIPS[name]
    low, high = settings.get("clip_low_threshold", low), settings.get("clip_high_threshold", high)
    bounded = np.clip(ratio, low, high)
    if name == "cispo":
        return -bounded * advantage * q * mask, -bounded * advantage * mask
    free = ratio * advantage <= bounded * advantage
    flat = ~free & ((ratio < low) | (ratio > high))
    return -np.minimum(ratio * advantage, bounded * advantage) * mask, np.where(flat, 0.0, -ratio * advantage) * mask


def pulled(datum: Datum, q: Array, slope: Array, version: int) -> Row:
    """The row whose `importance_sampling` loss has the gradient sum slope_t grad q_t.

    It begins at the first target that pulls.
    """
    moving = np.flatnonzero(slope)
    start = int(moving[0]) if len(moving) else len(slope) - 1
    trained = slope[start:] != 0
    return Row(
        token_ids=datum.ids,
        prompt_tokens=start + 1,
        advantages=tuple((-slope[start:]).tolist()),
        trained=tuple(trained.tolist()),
        logprobs=tuple(q[start:].tolist()),
        version=version,
    )


def moved(slopes: list[Array]) -> list[Array]:
    """The slopes, at least one of which is not 0. An engine leaves out what pulls nowhere, while by the protocol a pass whose gradient is 0
    (all tokens clipped, say) is a gradient too, and the optimizer's momentum goes on: 1e-30 is the least that says so."""
    if not any(slope.any() for slope in slopes):
        slopes[0] = np.append(slopes[0][:-1], 1e-30)
    return slopes


def outputs(found: Sequence[Array], values: Sequence[Array]) -> Body:
    """The reply to a pass: the log-probability and the loss of every target."""
    each = [
        {"logprobs": _tensor(q), "elementwise_loss": _tensor(value)} for q, value in zip(found, values, strict=True)
    ]
    total = float(sum(value.sum() for value in values))
    return {"loss_fn_output_type": "ArrayRecord", "loss_fn_outputs": each, "metrics": {"loss:sum": total}}


def _tensor(values: Array) -> Body:
    return {"data": values.tolist(), "dtype": "float32", "shape": [len(values)]}


def prompts_of(body: Body, context: int | None) -> list[Prompt]:
    """The prompts of a sample request: one for each of `num_samples`, on streams of their own from the second on."""
    ids, given = ids_of(body["prompt"]), body["sampling_params"]
    room = context - len(ids) if context is not None else 1 << 20
    if room < 1:
        raise Refusal(400, f"a prompt of {len(ids)} tokens leaves no room in the context of {context}")
    seed = int(given.get("seed") or 0)
    stop = given.get("stop") or ()
    stop = (stop,) if isinstance(stop, str) else tuple(s for s in stop if isinstance(s, str))
    return [
        Prompt(
            ids=ids,
            max_new=min(int(given.get("max_tokens") or room), room),
            temperature=float(given.get("temperature", 1.0)),
            top_p=float(given.get("top_p", 1.0)),
            seed=seed if i == 0 else stream_seed(seed, "sample", i),
            stop=stop,
        )
        for i in range(int(body.get("num_samples", 1)))
    ]


def sampled_reply(found: Sequence[Sampled], prompt_logprobs: Sequence[float] | None) -> Body:
    sequences = [
        {
            "stop_reason": "stop" if one.stop_reason is StopReason.STOP else "length",
            "tokens": list(one.token_ids),
            "logprobs": list(one.logprobs),
        }
        for one in found
    ]
    known = None if prompt_logprobs is None else [None, *prompt_logprobs]
    return {"type": "sample", "sequences": sequences, "prompt_logprobs": known}


def optim_of(adam: Body) -> tuple[float, OptimConfig]:
    """(learning rate, settings) of an optimizer step; what is not given is as the SDK's defaults."""
    try:
        config = OptimConfig(
            beta1=adam.get("beta1", 0.9),
            beta2=adam.get("beta2", 0.95),
            eps=adam.get("eps", 1e-12),
            weight_decay=adam.get("weight_decay", 0.0),
            max_grad_norm=adam.get("grad_clip_norm") or None,
        )
    except ValidationError as e:
        raise Refusal(
            422, f"adam_params: {e.errors()[0]['msg']} ({'.'.join(map(str, e.errors()[0]['loc']))})"
        ) from None
    lr = float(adam.get("learning_rate", 1e-4))
    if not (math.isfinite(lr) and lr >= 0):
        raise Refusal(422, f"learning_rate = {lr} is no learning rate")
    return lr, config


def lora_of(given: Body | None) -> LoraConfig | None:
    """The adapter asked for: none for no config or rank 0. `alpha`, `dropout` and `targets` are ours; elsewhere they are fixed."""
    if not given or not given.get("rank"):
        return None
    known = {name: given[name] for name in ("rank", "alpha", "dropout", "targets") if given.get(name) is not None}
    try:
        return LoraConfig(**known)
    except ValidationError as e:
        raise Refusal(
            422, f"lora_config: {e.errors()[0]['msg']} ({'.'.join(map(str, e.errors()[0]['loc']))})"
        ) from None


def named(name: Any) -> str:
    """A name that may become one of a folder."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refusal(422, f"path {str(name)[:60]!r}: letters, digits, '_' and '-', at most 255")
    return name


__all__ = [
    "LOSSES",
    "Body",
    "Datum",
    "Refusal",
    "data_of",
    "ids_of",
    "lora_of",
    "loss_of",
    "moved",
    "named",
    "optim_of",
    "outputs",
    "prompts_of",
    "pulled",
    "sampled_reply",
]
