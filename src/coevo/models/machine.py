"""What whoever computes with torch needs of the machine: threads, and what to do when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SMALL = 5_000_000
"""Weights under which one thread is faster on a CPU: a second one is mostly waited for, and for very long where cores are busy."""


def threads_for(model: Any, asked: int | None) -> int | None:
    """How many threads a model is to compute with: as asked; else 1 for a small one on a CPU, and as torch chooses for others (None)."""
    if asked is not None or model.device.type != "cpu":
        return asked
    return 1 if sum(parameter.numel() for parameter in model.parameters()) < SMALL else None


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use `count` threads (None: as it is), then as many as before."""
    import torch

    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def out_of_memory(e: RuntimeError) -> bool:
    """Whether torch raised this for lack of memory, of the device or of the host."""
    import torch

    return isinstance(e, torch.OutOfMemoryError) or "can't allocate memory" in str(e) or "not enough memory" in str(e)


def free_memory(device: Any) -> None:
    """Give cached memory of the device back, so that a smaller attempt can have it."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
