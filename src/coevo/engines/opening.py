"""From a name of weights and a config to an engine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from coevo.engines.settings import EngineConfig
from coevo.engines.types import Engine
from coevo.errors import ConfigError

log = logging.getLogger("coevo.engines")


def open_engine(
    base: str | Path,
    config: EngineConfig | None = None,
    *,
    folder: Path,
    seed: int = 0,
    context: int | None = None,
    environ: Mapping[str, str] = os.environ,
    notify: Callable[[str], None] = log.warning,
) -> Engine:
    """An engine whose policy begins as `base`: a Hugging Face folder (a saved state is one), a GGUF file, a hub id, or "local" (the
    embedded model). Its states go to `folder`. `context` bounds prompt and reply together below what the model allows.

    Raises `ConfigError` for a base that is none, `UsageError` for missing packages, `ModelError` where loading fails.
    """
    from coevo.models import weights

    config = config or EngineConfig()
    if context is not None and context < 2:
        raise ConfigError(f"context = {context}: a prompt and a reply need at least 2 tokens")
    name = "" if str(base) == "local" else str(base).removeprefix("local:")
    path = weights.find_folder(name, cache=weights.cache_folder(environ), environ=environ, notify=notify)
    if config.name == "tinker":
        from coevo.engines.codec import load_codec
        from coevo.engines.tinker import TinkerEngine

        served = name or weights.EMBEDDED
        return TinkerEngine(served, config, folder=Path(folder), codec=load_codec(path), seed=seed, environ=environ)
    from coevo.engines.torch_engine import TorchEngine

    lm, tokenizer, _ = weights.load(path, device=config.device, dtype=config.dtype)
    own = getattr(lm.config.get_text_config(), "max_position_embeddings", None)
    bound = min(filter(None, (own, context)), default=None)
    return TorchEngine(lm, tokenizer, config, base=path, folder=Path(folder), seed=seed, context=bound)
