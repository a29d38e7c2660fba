"""Low-rank adapters, by peft."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.engines.settings import LoraConfig
from coevo.errors import ConfigError, StoreError, UsageError
from coevo.models.weights import quiet
from coevo.streams import stream_seed

if TYPE_CHECKING:
    from torch import Tensor

_NAME = "default"
WEIGHTS = "adapter_model.safetensors"


class Adapter:
    """Adapters put into `lm`, whose own weights stay frozen. A new one changes nothing: its second matrix is zero."""

    def __init__(self, lm: Any, config: LoraConfig, *, seed: int) -> None:
        import torch

        if importlib.util.find_spec("peft") is None:
            raise UsageError("engine.lora needs the package peft. Install it with: pip install 'coevo[train]'")
        import peft

        targets: Any = config.targets
        if targets != "all-linear":
            targets = [name.strip() for name in targets.split(",")]
        settings = peft.LoraConfig(
            r=config.rank,
            lora_alpha=config.alpha,  # pyright: ignore[reportArgumentType]
            lora_dropout=config.dropout,
            target_modules=targets,
            task_type="CAUSAL_LM",
        )
        with torch.random.fork_rng(), quiet():
            torch.manual_seed(stream_seed(seed, "lora"))
            try:
                self.peft: Any = peft.get_peft_model(lm, settings)
            except ValueError as e:
                raise ConfigError(f"engine.lora.targets = {config.targets!r}: {e}") from None
        self.config = config
        self._lm = lm
        lm.eval()

    def off(self) -> AbstractContextManager[Any]:
        """While it lasts the model is the one the adapter was put into."""
        return self.peft.disable_adapter()

    def dropout(self, on: bool) -> None:
        """Switch the adapters' dropout; the rest of the model has none in eval mode."""
        for name, module in self._lm.named_modules():
            if name.endswith("lora_dropout"):
                module.train(on)

    def save(self, folder: Path) -> None:
        """Adapter weights and settings, as peft reads them."""
        self.peft.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Take over the weights of a saved adapter of the same shape."""
        from peft import get_peft_model_state_dict, set_peft_model_state_dict
        from safetensors.torch import load_file

        tensors = load_file(folder / WEIGHTS)
        own = get_peft_model_state_dict(self.peft)
        wrong = sorted(set(own) ^ set(tensors)) or sorted(k for k in own if own[k].shape != tensors[k].shape)
        if wrong:
            raise StoreError(
                f"{folder} holds an adapter of another shape ({wrong[0]} differs): open with its rank and targets"
            )
        set_peft_model_state_dict(self.peft, tensors)

    def merged(self) -> dict[str, Tensor]:
        """The model's weights with the adapter added, under the names of the plain model. The model itself is not touched:
        adding and taking away again would not give the same floats."""
        layers = {name: module for name, module in self._lm.named_modules() if hasattr(module, "get_delta_weight")}
        found: dict[str, Tensor] = {}
        for name, tensor in self._lm.state_dict().items():
            if ".lora_" in name:
                continue
            plain = name.replace(".base_layer.", ".")
            owner = name.removesuffix(".base_layer.weight")
            if owner != name and owner in layers:
                tensor = tensor + layers[owner].get_delta_weight(_NAME).to(tensor.dtype)
            found[plain] = tensor.detach()
        return found
