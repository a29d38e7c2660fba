"""The weights of an engine: the policy's, the base's it began with, those it is compared with; on disk and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevo.engines import state
from coevo.engines.lora import Adapter
from coevo.engines.network import Network
from coevo.engines.optim import Optimizer
from coevo.engines.settings import EngineConfig
from coevo.errors import StoreError
from coevo.models import weights
from coevo.models.machine import threads, threads_for
from coevo.streams import stream_seed

BASE = "base"


class Policy:
    """A model of transformers that learns (all of it, or an adapter), and its frozen relatives."""

    def __init__(self, lm: Any, tokenizer: Any, config: EngineConfig, *, base: Path, folder: Path, seed: int) -> None:
        import torch

        self.lm: Any = lm
        self.adapter = Adapter(lm, config.lora, seed=seed) if config.lora else None
        self.compute = getattr(torch, _compute(config, lm.device.type))
        self._tokenizer, self._config, self._seed = tokenizer, config, seed
        self._base, self._base_files, self._digest = base, fingerprint(base), ""
        self._folder = folder
        self._frozen: dict[str, Network] = {}
        own_memory(lm)
        for name, parameter in lm.named_parameters():
            parameter.requires_grad_(self.adapter is None or ".lora_" in name)
        self.threads = threads_for(lm, config.threads)
        with threads(self.threads):
            self.network = Network(lm, pack=config.pack, compute=self.compute)

    def trained(self) -> dict[str, Any]:
        """Weights that learn, by name."""
        return {name: p for name, p in self.lm.named_parameters() if p.requires_grad}

    def forget(self, *names: str) -> None:
        """Let go of frozen weights by these names (none: all of them)."""
        for name in names or tuple(self._frozen):
            self._frozen.pop(name, None)

    @contextmanager
    def dropout(self, *name: int) -> Iterator[None]:
        """The adapters' dropout during a training pass, on random numbers of its own: by seed and name."""
        import torch

        if self.adapter is None or not self.adapter.config.dropout:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed(stream_seed(self._seed, "dropout", *name))
            self.adapter.dropout(True)
            try:
                yield
            finally:
                self.adapter.dropout(False)

    @contextmanager
    def network_of(self, name: str) -> Iterator[Network]:
        """The policy's network, the base's, or a saved state's; the last frozen ones are kept."""
        if name == "policy":
            yield self.network
        elif name == BASE and self.adapter is not None:
            with self.adapter.off():
                yield self.network
        else:
            if name not in self._frozen:
                self._frozen = {key: value for key, value in self._frozen.items() if key == BASE}
                self._frozen[name] = self._load_frozen(name)
            yield self._frozen[name]

    def _load_frozen(self, name: str) -> Network:
        if name == BASE:
            self._unchanged_base()
            path = self._base
        else:
            path = state.find(self._folder, name)
            state.read(path, with_optimizer=False)
        lm, _, _ = weights.load(path, device=str(self.lm.device), dtype=self._config.dtype)
        own_memory(lm)  # so that equal weights give equal bits, and KL is exactly 0 at the start
        return Network(lm, pack=self._config.pack, compute=self.compute)

    def _unchanged_base(self) -> None:
        if fingerprint(self._base) != self._base_files:
            raise StoreError(
                f"{self._base} changed or went away since the engine began with it: it is no reference any more"
            )

    def fill(self, part: Path, optimizer: Optimizer | None) -> None:
        """Write all files of a state but its record."""
        merged = self.adapter.merged() if self.adapter else None
        with weights.quiet():
            self.lm.save_pretrained(part, state_dict=merged)
            self._tokenizer.save_pretrained(part)
        if self.adapter:
            self.adapter.save(part / state.ADAPTER)
        if optimizer is not None:
            from safetensors.torch import save_file

            save_file(optimizer.state(), part / state.OPTIMIZER)

    def load(self, path: Path, record: state.Record, *, with_optimizer: bool) -> None:
        """Take over a state's weights. Raises `StoreError` where they are not of this model, or an adapter for another base."""
        if self.adapter is None:
            if record.lora and with_optimizer:
                raise StoreError(
                    f"{path} has the optimizer of an adapter; load it with with_optimizer=False, or open with lora"
                )
            lm, _, _ = weights.load(path, device="cpu", dtype=str(self.lm.dtype).removeprefix("torch."))
            copy_weights(lm, self.lm, path)
            return
        if record.lora is None:
            raise StoreError(f"{path} has all weights trained; to put an adapter on it, open an engine with it as base")
        own = self.adapter.config.model_dump()
        if any(record.lora.get(key) != own[key] for key in ("rank", "alpha", "targets")):
            raise StoreError(f"{path} has an adapter with {record.lora}, the engine's is {own}")
        if record.base_digest != self.base_digest():
            raise StoreError(f"{path} has an adapter for other weights than those of {self._base}")
        self.adapter.load(path / state.ADAPTER)

    def base_digest(self) -> str:
        """SHA-256 over the weights of the base, worked out once."""
        if not self._digest:
            self._unchanged_base()
            self._digest = state.weights_digest(self._base)
        return self._digest


def _compute(config: EngineConfig, device: str) -> str:
    if config.compute != "auto":
        return config.compute
    return "bfloat16" if device == "cuda" or config.dtype == "bfloat16" else "float32"


def copy_weights(source: Any, target: Any, path: Path) -> None:
    """In place, so that the optimizer goes on with the same tensors."""
    import torch

    new, old = (dict([*lm.named_parameters(), *lm.named_buffers()]) for lm in (source, target))
    wrong = sorted(set(new) ^ set(old)) or sorted(k for k in old if old[k].shape != new[k].shape)
    if wrong:
        raise StoreError(f"{path} holds another model: {wrong[0]} differs")
    with torch.no_grad():
        for name, tensor in old.items():
            tensor.copy_(new[name])


def own_memory(lm: Any) -> None:
    """Move CPU weights out of the mapped file: products differ in their last bits with the alignment of what they read, and how a file
    lays its tensors out must not decide what training gives."""
    for parameter in lm.parameters():
        if parameter.device.type == "cpu":
            parameter.data = parameter.data.clone()


def fingerprint(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of the files that make a model what it is."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("config.json")])
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
