"""AdamW over a model's trainable weights: clipping, the change it made, and its state as named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coevo.engines.types import OptimConfig, StepStats
from coevo.errors import StoreError

if TYPE_CHECKING:
    from torch import Tensor

BUCKET = 32_000_000
"""Weights stepped together: the change is measured against a copy of one bucket at a time."""
_STATE = ("exp_avg", "exp_avg_sq", "step")


class Optimizer:
    """Steps `parameters` (name to tensor) by the gradients they hold. Matrices decay, vectors (norms, biases) do not."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = dict(parameters)
        self._buckets = [_adamw(bucket) for bucket in _buckets(list(self._parameters.values()))]

    def clear(self) -> None:
        """Forget the gradient."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def step(self, lr: float, config: OptimConfig, *, version: int) -> StepStats:
        """Apply and clear the gradient. One that is not finite, or none at all, leaves weights and state untouched."""
        import torch

        grads = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(grads)) if grads else 0.0
        if not grads or not math.isfinite(norm):
            self.clear()
            return StepStats(version, lr, norm, update_ratio=0.0 if not grads else None, applied=False)
        if config.max_grad_norm is not None and norm > config.max_grad_norm:
            for grad in grads:
                grad.mul_(config.max_grad_norm / (norm + 1e-6))
        changed = held = 0.0
        for bucket in self._buckets:
            parameters = [p.detach() for p in _own(bucket)]
            before = [p.clone() for p in parameters]
            for group in bucket.param_groups:
                group.update(lr=lr, betas=(config.beta1, config.beta2), eps=config.eps)
                group["weight_decay"] = config.weight_decay if group["decays"] else 0.0
            bucket.step()
            held += _square(before)
            changed += _square([old.sub_(new) for old, new in zip(before, parameters, strict=True)])
        self.clear()
        return StepStats(version + 1, lr, norm, update_ratio=math.sqrt(changed / held) if held else None)

    def state(self) -> dict[str, Tensor]:
        """Moments and step counts by "<part>.<weight's name>", on the CPU. Empty before the first step."""
        names = {id(p): name for name, p in self._parameters.items()}
        found: dict[str, Tensor] = {}
        for bucket in self._buckets:
            for parameter, state in bucket.state.items():
                for part in _STATE:
                    found[f"{part}.{names[id(parameter)]}"] = state[part].detach().cpu().contiguous()
        return found

    def load(self, tensors: Mapping[str, Tensor], *, where: str) -> None:
        """Take over a state. Raises `StoreError` where it does not fit these weights."""
        known = {f"{part}.{name}" for part in _STATE for name in self._parameters}
        if strange := sorted(set(tensors) - known):
            raise StoreError(f"{where} belongs to other weights: {strange[0]} is not trained here")
        names = {id(p): name for name, p in self._parameters.items()}
        for bucket in self._buckets:
            bucket.state.clear()
            for parameter in _own(bucket):
                parts = {part: tensors.get(f"{part}.{names[id(parameter)]}") for part in _STATE}
                if any(value is not None for value in parts.values()):
                    bucket.state[parameter] = _fitting(parts, parameter, f"{where}: {names[id(parameter)]}")


def _fitting(parts: Mapping[str, Tensor | None], parameter: Tensor, what: str) -> dict[str, Tensor]:
    """The parts, each where its weight is."""
    found: dict[str, Tensor] = {}
    for part, value in parts.items():
        shape = () if part == "step" else tuple(parameter.shape)
        if value is None or tuple(value.shape) != shape:
            raise StoreError(f"{what}: {part} is {'missing' if value is None else tuple(value.shape)}, not {shape}")
        found[part] = value.to(parameter.device, copy=True)
    return found


def _own(bucket: Any) -> list[Tensor]:
    return [p for group in bucket.param_groups for p in group["params"]]


def _adamw(parameters: list[Tensor]) -> Any:
    import torch

    groups = [
        {"params": [p for p in parameters if (p.ndim >= 2) == decays], "decays": decays} for decays in (True, False)
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], fused=True)


def _buckets(parameters: list[Tensor]) -> list[list[Tensor]]:
    found: list[list[Tensor]] = []
    for parameter in parameters:
        if found and sum(p.numel() for p in found[-1]) + parameter.numel() <= BUCKET:
            found[-1].append(parameter)
        else:
            found.append([parameter])
    return found


def _square(tensors: list[Tensor]) -> float:
    """Sum of squares over all tensors."""
    import torch

    return float(torch.nn.utils.get_total_norm(tensors)) ** 2
