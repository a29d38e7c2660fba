"""The policies of a study as models: the untrained one by its spec, the trained ones as checkpoints asked with the same options."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coevo.errors import ConfigError
from coevo.models import ModelSpec, open_model, parse_spec
from coevo.models.types import Model

MINI = "mini"


def policy_spec(text: str, *, notify: Callable[[str], None] = lambda line: None) -> ModelSpec:
    """The spec that a study's `model` stands for. `mini[:SIZE][,option=value...]` is made first, if it is not there yet."""
    head, comma, options = text.partition(",")
    name, _, size = head.partition(":")
    if name.strip() != MINI:
        return parse_spec(text)
    from coevo.mini.pretrain import mini_folder

    return parse_spec(f"local:{mini_folder(size.strip() or MINI, notify=notify)}{comma}{options}")


def trained_spec(spec: ModelSpec, checkpoint: Path) -> ModelSpec:
    """A checkpoint, asked as `spec` is. Raises `ConfigError` where the untrained policy is not on this machine."""
    if spec.kind != "local":
        raise ConfigError(
            f"only a local model can be trained here, and the study's model is {spec}; write local:FOLDER or mini"
        )
    return spec.model_copy(update={"target": str(checkpoint)})


def fingerprint(spec: ModelSpec) -> str:
    """What is asked, as a digest: of the weights' bytes for a folder, else of the spec alone."""
    total = hashlib.sha256(str(spec.model_copy(update={"target": ""})).encode())
    folder = Path(spec.target)
    files = sorted(folder.glob("*.safetensors")) if spec.kind == "local" and folder.is_dir() else []
    for file in files:
        with file.open("rb") as handle:
            total.update(hashlib.file_digest(handle, "sha256").digest())
    if not files:
        total.update(spec.target.encode())
    return total.hexdigest()


@contextmanager
def opened(spec: ModelSpec, *, notify: Callable[[str], None] = lambda line: None) -> Iterator[Model]:
    """The model, closed at the end."""
    model = open_model(spec, notify=notify)
    try:
        yield model
    finally:
        model.close()
