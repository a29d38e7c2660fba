"""The engine of this process: torch and transformers, on a CPU or one GPU.

One copy of the weights samples and learns. The sampler's log-probabilities are the old ones of the loss, so a step is one sampling pass and one
forward and backward pass, nothing twice. On one CPU with one number of threads, equal calls give equal bits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from coevo.engines import state
from coevo.engines.codec import ChatCodec
from coevo.engines.learning import Batch, Tally, batch_of, micro_step
from coevo.engines.network import Network
from coevo.engines.optim import Optimizer
from coevo.engines.packing import Item, Micro, Pack, arrange, plan
from coevo.engines.policy import Policy
from coevo.engines.settings import EngineConfig
from coevo.engines.types import (
    Capabilities,
    Diverged,
    LossConfig,
    LossName,
    LossStats,
    OptimConfig,
    Prompt,
    Row,
    Sampled,
    StepStats,
)
from coevo.errors import CoevoError, ConfigError, ModelError, StoreError
from coevo.models import chat
from coevo.models.machine import free_memory, out_of_memory, threads
from coevo.models.sampler import NotNumbers, sample

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("coevo.engines")


class TorchEngine:
    """See `Engine` for the contract. Made by `open_engine`.

    A gradient held between `forward_backward` and `optim_step` is no part of a saved state, so `save` then refuses.
    """

    def __init__(
        self, lm: Any, tokenizer: Any, config: EngineConfig, *, base: Path, folder: Path, seed: int, context: int | None
    ) -> None:
        self.folder = folder
        self._config, self._seed, self._context = config, seed, context
        self._policy = Policy(lm, tokenizer, config, base=base, folder=folder, seed=seed)
        self._micro_tokens = config.micro_tokens
        self._version = self._passes = 0
        self._settings: dict[str, Any] = {}
        self._optimizer = Optimizer(self._policy.trained())
        self._codec = ChatCodec(tokenizer, chat.end_tokens(lm, tokenizer))

    @property
    def capabilities(self) -> Capabilities:
        import torch
        import transformers

        lm, network = self._policy.lm, self._policy.network
        return Capabilities(
            engine="torch",
            losses=frozenset(get_args(LossName)),
            kl=True,
            entropy=True,
            exact_resume=lm.device.type == "cpu",
            export=True,
            lora=True,
            max_tokens=self._context,
            details={
                "device": str(lm.device),
                "dtype": str(lm.dtype).removeprefix("torch."),
                "compute": str(self._policy.compute).removeprefix("torch."),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "packs": network.pack_note or "on",
                "shared_prompts": "on" if network.shares else "off",
                "head": "fused" if network.plain_head else "the model's own",
                "weights": f"{sum(p.numel() for p in lm.parameters()):,}",
                "trained": f"{sum(p.numel() for p in lm.parameters() if p.requires_grad):,}",
            },
        )

    @property
    def codec(self) -> ChatCodec:
        return self._codec

    @property
    def version(self) -> int:
        return self._version

    @property
    def module(self) -> Any:
        """The transformers model itself, for an optimizer that is not ours (see `adopt`)."""
        return self._policy.lm

    def adopt(self, version: int) -> None:
        """The weights were changed from outside, by so many optimizer steps in all."""
        self._version = version

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        prompts = [self._fitting(i, prompt) for i, prompt in enumerate(prompts)]
        done: dict[int, Sampled] = {}
        with self._computing("sample"):
            for part in sample_batches([prompt.ids for prompt in prompts], self._config.sample_batch):
                self._sample(prompts, part, done, each)
        return [done[i] for i in range(len(prompts))]

    def logprobs(
        self,
        sequences: Sequence[Sequence[int]],
        *,
        prompt_tokens: Sequence[int],
        temperature: float = 1.0,
        of: str = "policy",
    ) -> list[tuple[float, ...]]:
        import torch

        items = [
            Item(np.asarray(ids, np.int64), prompt, np.arange(max(0, len(ids) - prompt)), temperature)
            for ids, prompt in zip(sequences, prompt_tokens, strict=True)
        ]
        for index, item in enumerate(items):
            self._check_ids(f"sequence {index}", item.ids, item.prompt)
        found = [np.zeros(len(item.wanted)) for item in items]
        with self._computing("logprobs"), torch.no_grad(), self._policy.network_of(of) as network:
            for packs in self._plan(items, network):
                micro = arrange(items, packs)
                values = network.stats(micro)[0].double().cpu().numpy()
                for row, index in enumerate(micro.items):
                    at = micro.row == row
                    found[index][micro.column[at]] = values[at]
        return [tuple(values.tolist()) for values in found]

    def forward_backward(self, rows: Sequence[Row], loss: LossConfig) -> LossStats:
        batch = batch_of(rows, loss)
        for index, item in enumerate(batch.items):
            self._check_ids(f"row {index}", item.ids, item.prompt)
        fresh = not self._passes
        with self._computing("forward_backward"):
            while True:
                try:
                    stats = self._accumulate(batch, loss)
                except RuntimeError as e:
                    if not out_of_memory(e):
                        raise
                    self._smaller(batch, fresh, e)
                    continue
                self._passes += 1
                return stats

    def optim_step(self, lr: float, config: OptimConfig) -> StepStats:
        with self._computing("optim_step"):
            stats = self._optimizer.step(lr, config, version=self._version)
        self._version, self._passes = stats.version, 0
        if stats.applied:
            self._settings = {"lr": lr, **config.model_dump()}
        return stats

    def save(self, name: str, *, optimizer: bool = True) -> str:
        if self._passes:
            raise ConfigError(f"save {name!r}: a gradient is held that no state would keep; call optim_step first")
        target = state.place(self.folder, name)
        record = state.Record(
            version=self._version,
            optimizer=optimizer,
            lora=self._config.lora.model_dump() if self._config.lora else None,
            base_digest=self._policy.base_digest() if self._config.lora else "",
            settings=self._settings,
            seed=self._seed,
            software={key: self.capabilities.details[key] for key in ("torch", "transformers", "device", "dtype")},
        )
        state.write(target, record, lambda part: self._policy.fill(part, self._optimizer if optimizer else None))
        self._policy.forget(name, str(target))
        return str(target)

    def load(self, name: str, *, with_optimizer: bool) -> None:
        path = state.find(self.folder, name)
        record = state.read(path, with_optimizer=with_optimizer)
        tensors: dict[str, Tensor] = {}
        if with_optimizer:
            from safetensors.torch import load_file

            try:
                tensors = load_file(path / state.OPTIMIZER)
            except Exception as e:
                raise StoreError(f"{path / state.OPTIMIZER} cannot be read: {e}") from e
        self._policy.load(path, record, with_optimizer=with_optimizer)
        self._optimizer.clear()
        self._optimizer.load(tensors, where=str(path / state.OPTIMIZER))
        self._version, self._passes = record.version, 0
        self._settings = dict(record.settings)

    def close(self) -> None:
        """Let go of the weights. Safe to call twice."""
        self._policy.lm = None
        self._policy.forget()

    def _accumulate(self, batch: Batch, loss: LossConfig) -> LossStats:
        """The passes of one `forward_backward`. Rows that push nowhere are computed for the numbers only."""
        pulls = bool(loss.kl or loss.entropy)
        idle = [not pulls and batch.idle(i) for i in range(len(batch.items))]
        tally = Tally()
        with self._policy.dropout(self._version, self._passes):
            for learn in (True, False):
                chosen = [i for i, still in enumerate(idle) if still != learn]
                for packs in self._plan(batch.items, self._policy.network, chosen):
                    if not self._pass(batch, packs, loss, tally, learn=learn):
                        for pack in packs:
                            for i in pack.members:
                                alone = Pack((i,), pack.prompt, pack.prompt + batch.items[i].reply)
                                self._pass(batch, [alone], loss, tally, learn=learn)
        return tally.stats(loss)

    def _pass(self, batch: Batch, packs: Sequence[Pack], loss: LossConfig, tally: Tally, *, learn: bool) -> bool:
        micro = arrange(batch.items, packs)
        reference = self._reference(micro, loss.reference) if loss.kl else None
        return micro_step(self._policy.network, micro, batch, loss, tally, reference=reference, learn=learn)

    def _reference(self, micro: Micro, name: str) -> Tensor:
        import torch

        with torch.no_grad(), self._policy.network_of(name) as network:
            return network.stats(micro)[0]

    def _plan(self, items: Sequence[Item], network: Network, chosen: Sequence[int] | None = None) -> list[list[Pack]]:
        """Micro-batches over the chosen items (None: all), with indices into `items`."""
        chosen = range(len(items)) if chosen is None else chosen
        found = plan(
            [items[i] for i in chosen],
            micro_tokens=self._micro_tokens,
            pair_cost=network.pair_cost,
            pack=network.packs,
        )
        return [[Pack(tuple(chosen[i] for i in p.members), p.prompt, p.length) for p in packs] for packs in found]

    def _smaller(self, batch: Batch, fresh: bool, e: RuntimeError) -> None:
        """Prepare another try of a `forward_backward` that ran out of memory, or raise."""
        used = max(len(packs) * packs[0].length for packs in self._plan(batch.items, self._policy.network))
        longest = max(item.prompt + item.reply for item in batch.items)
        where = f"out of memory on {self._policy.lm.device}"
        if not fresh:
            raise ModelError(
                f"{where} while a gradient was held, which is spoilt now; lower engine.micro_tokens"
            ) from e
        self._optimizer.clear()
        free_memory(self._policy.lm.device)
        if used <= longest:
            raise ModelError(
                f"{where} with one row of {longest} tokens; shorten prompts or replies, use engine.lora, or a smaller model"
            ) from e
        self._micro_tokens = max(longest, min(self._micro_tokens, used) // 2)
        log.warning("%s: going on with micro_tokens = %d", where, self._micro_tokens)

    def _sample(
        self,
        prompts: Sequence[Prompt],
        part: Sequence[int],
        done: dict[int, Sampled],
        each: Callable[[int, Sampled], None] | None,
    ) -> None:
        """Sample the prompts numbered in `part` into `done`; where memory runs out, what is left of it in two halves."""

        def ended(i: int, sampled: Sampled) -> None:
            done[part[i]] = sampled
            if each is not None:
                each(part[i], sampled)

        try:
            with self._policy.network.autocast():
                sample(
                    self._policy.lm,
                    [prompts[i] for i in part],
                    ends=self._codec.ends,
                    decode=self._codec.decode,
                    each=ended,
                    share=self._policy.network.shares,
                )
            return
        except RuntimeError as e:
            if not out_of_memory(e):
                raise
            left = [i for i in part if i not in done]
            if len(left) <= 1:
                raise ModelError(
                    f"out of memory on {self._policy.lm.device} with one prompt of {len(prompts[part[0]].ids)} tokens and a reply of up to "
                    f"{prompts[part[0]].max_new}"
                ) from e
        free_memory(self._policy.lm.device)
        log.warning("out of memory with %d sequences at once; halving", len(part))
        half = (len(left) + 1) // 2
        self._sample(prompts, left[:half], done, each)
        self._sample(prompts, left[half:], done, each)

    def _fitting(self, index: int, prompt: Prompt) -> Prompt:
        """The prompt with its reply bounded by the context."""
        self._check_ids(f"prompt {index}", np.asarray(prompt.ids, np.int64), 1)
        if prompt.max_new < 1:
            raise ConfigError(f"prompt {index}: max_new = {prompt.max_new} asks for nothing")
        if self._context is None or len(prompt.ids) + prompt.max_new <= self._context:
            return prompt
        if len(prompt.ids) >= self._context:
            raise ConfigError(
                f"prompt {index} has {len(prompt.ids)} tokens and the context is {self._context}: no reply fits; shorten the prompt"
            )
        return replace(prompt, max_new=self._context - len(prompt.ids))

    def _check_ids(self, what: str, ids: np.ndarray, prompt: int) -> None:
        size = self._policy.lm.get_input_embeddings().weight.shape[0] if self._policy.lm is not None else 0
        if not 1 <= prompt <= len(ids):
            raise ConfigError(f"{what}: {prompt} prompt tokens of {len(ids)} in all; at least 1 is needed")
        if self._policy.lm is not None and (ids.min() < 0 or ids.max() >= size):
            raise ConfigError(
                f"{what} holds the token {ids.min() if ids.min() < 0 else ids.max()}; the model knows 0 to {size - 1}"
            )
        if self._context is not None and len(ids) > self._context:
            raise ConfigError(f"{what} has {len(ids)} tokens and the context is {self._context}")

    @contextmanager
    def _computing(self, what: str) -> Iterator[None]:
        if self._policy.lm is None:
            raise ModelError(f"{what}: this engine is closed")
        try:
            with threads(self._policy.threads):
                yield
        except CoevoError:
            raise
        except NotNumbers as e:
            raise Diverged(f"{what}: {e}") from e
        except (RuntimeError, ValueError) as e:
            raise ModelError(f"{what}: {type(e).__name__}: {e}") from e


def sample_batches(prompts: Sequence[tuple[int, ...]], size: int) -> list[list[int]]:
    """Indices to sample together: all if they fit, else at most `size` at a time, groups of equal prompts unparted where they
    fit, groups of like length together."""
    if len(prompts) <= size:
        return [list(range(len(prompts)))] if prompts else []
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, ids in enumerate(prompts):
        groups.setdefault(ids, []).append(index)
    found: list[list[int]] = [[]]
    for ids in sorted(groups, key=len):
        group = groups[ids]
        if found[-1] and len(found[-1]) + len(group) > size:
            found.append([])
        for index in group:
            if len(found[-1]) == size:
                found.append([])
            found[-1].append(index)
    return found
