"""Models: prompts in, completions out, each with its cost. `open_model` reads a one-line spec (see `coevo.models.spec`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from coevo.models.spec import ModelSpec, checked, parse_spec
from coevo.models.types import Completion, Message, Model, Request, Sampling, StopReason

if TYPE_CHECKING:
    from coevo.models.ensemble import Ensemble

__all__ = [
    "Completion",
    "Message",
    "Model",
    "ModelSpec",
    "Request",
    "Sampling",
    "StopReason",
    "open_model",
    "open_models",
    "parse_spec",
]

_warn = logging.getLogger("coevo.models").warning


def open_model(
    spec: str | ModelSpec, *, environ: Mapping[str, str] = os.environ, notify: Callable[[str], None] = _warn
) -> Model:
    """Open the model that `spec` names. A local model is loaded here; an endpoint is first spoken to by `generate`.
    `notify` gets a line before slow work (a first conversion, a download); by default it goes to the log.

    Raises `ConfigError` for a spec that cannot be meant, `UsageError` for a missing package, `ModelError` for a model that
    cannot be loaded.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else checked(spec)
    if spec.kind == "openai":
        from coevo.models.openai import OpenAIModel

        return OpenAIModel(spec, environ=environ)
    if spec.kind == "local":
        from coevo.models.local import LocalModel

        return LocalModel.open(spec, environ=environ, notify=notify)
    if spec.kind == "scripted":
        from coevo.models.scripted import ScriptedModel

        return ScriptedModel.open(spec)
    from coevo.models.replay import ReplayModel

    return ReplayModel.open(spec)


def open_models(
    specs: Sequence[str | ModelSpec], *, environ: Mapping[str, str] = os.environ, notify: Callable[[str], None] = _warn
) -> Ensemble:
    """Open several models, weighted by their `weight`. If one cannot be opened, those already open are closed."""
    from coevo.models.ensemble import Ensemble

    parsed = [parse_spec(spec) if isinstance(spec, str) else checked(spec) for spec in specs]
    models: list[Model] = []
    try:
        for spec in parsed:
            models.append(open_model(spec, environ=environ, notify=notify))
        return Ensemble(models, [spec.weight for spec in parsed])
    except BaseException:
        for model in models:
            model.close()
        raise
