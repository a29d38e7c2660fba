"""Which engine computes, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coevo.config import Config


class LoraConfig(Config):
    """Low-rank adapters instead of all weights (package peft)."""

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Acts in training passes only, so sampler and trainer then disagree by it."""
    targets: str = "all-linear"
    """all-linear (every linear layer but the output), or names of modules, separated by commas."""


class EngineConfig(Config):
    """What computes."""

    name: Literal["torch", "tinker"] = "torch"
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "float32"
    """Of the weights. Keep float32 for training; bfloat16 weights lose small steps."""
    compute: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the products. auto: bfloat16 on CUDA (weights, sums and the loss stay as they are), float32 on a CPU."""
    lora: LoraConfig | None = None
    micro_tokens: int = Field(default=16_384, ge=1)
    """Tokens (padding counted) of one forward and backward pass; the memory knob."""
    pack: bool = True
    """Compute the prompt that rows share once, where the architecture allows it and it is cheaper."""
    sample_batch: int = Field(default=128, ge=1)
    """Sequences sampled together."""
    threads: int | None = Field(default=None, ge=1)
    """torch on a CPU. None: 1 for a model of under 5 million weights, else as torch chooses (one a core), which is right while the cores
    are free."""
    url: str = ""
    """tinker: the server's address. The key comes from the environment (TINKER_API_KEY)."""
    reduction: Literal["auto", "sum", "sequence_mean"] = "auto"
    """tinker: how the server adds up gradients: sum (as documented) or the mean over each sequence and over sequences (SkyRL on
    JAX). auto: as the server says, else measured."""
    patience_s: float = Field(default=60.0, gt=0)
    """tinker: how long a server that is down or failing is tried again."""
    deadline_s: float = Field(default=3600.0, gt=0)
    """tinker: the longest that one operation may take."""


__all__ = ["EngineConfig", "LoraConfig"]
