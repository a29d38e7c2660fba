"""A model on this machine, by transformers: any Hugging Face folder, a GGUF file, a hub id, or the embedded default."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coevo.errors import ModelError
from coevo.models import chat, weights
from coevo.models.machine import free_memory, out_of_memory, threads, threads_for
from coevo.models.sampler import Cancelled, Prompt, Sampled, completion_of, sample
from coevo.models.spec import ModelSpec
from coevo.models.types import Completion, Request, Sampling, StopReason
from coevo.streams import stream_seed

log = logging.getLogger("coevo.models")

DEFAULT_BATCH = 16


class LocalModel:
    """Samples up to `batch` requests together; see `sampler` for what a seed fixes.

    A request whose prompt does not fit the context fails alone. Raises `ModelError` when memory does not suffice for one request,
    or the model's numbers are no numbers.
    """

    billable = False
    priced = True

    def __init__(self, model: Any, tokenizer: Any, spec: ModelSpec, *, name: str) -> None:
        self.spec = spec
        self._model: Any = model
        self._tokenizer = tokenizer
        self._name = name
        own = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._context = min(filter(None, (own, spec.context)), default=None)
        self._ends = chat.end_tokens(model, tokenizer)
        self._stop = () if getattr(tokenizer, "chat_template", None) else (chat.PLAIN_STOP,)
        self._threads = threads_for(model, spec.threads)
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @classmethod
    def open(
        cls,
        spec: ModelSpec,
        *,
        environ: Mapping[str, str] = os.environ,
        notify: Callable[[str], None] = log.warning,
    ) -> LocalModel:
        """Find and load the model of `spec`, converting a GGUF file on its first use. `notify` gets a line before slow work."""
        cache = weights.cache_folder(environ)
        folder = weights.find_folder(spec.target, cache=cache, environ=environ, notify=notify)
        model, tokenizer, _ = weights.load(folder, device=spec.device, dtype=spec.dtype)
        name = Path(spec.target).name if spec.target else weights.EMBEDDED
        return cls(model, tokenizer, spec, name=name)

    @property
    def name(self) -> str:
        return self._name

    @property
    def batch(self) -> int:
        return self.spec.batch or DEFAULT_BATCH

    @property
    def sampling(self) -> Sampling:
        asked = self.spec.sampling
        if self._context is None or "max_tokens" in self.spec.model_fields_set:
            return asked
        return replace(asked, max_tokens=min(asked.max_tokens, max(1, self._context // 2)))

    @property
    def context(self) -> int | None:
        return self._context

    def count_tokens(self, text: str) -> int:
        """Exact for a text alone."""
        return len(self._ids(text))

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return 0.0

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order; longer lists are worked off `batch` at a time, prompts of like length together."""
        with self._lock:
            if self._model is None:
                raise ModelError(f"{self.name}: this model is closed")
            prompts = [self._prompt(request) for request in requests]
            done: dict[int, Completion] = {
                i: self._too_long(prompt, requests[i]) for i, prompt in enumerate(prompts) if prompt.max_new < 1
            }
            order = sorted((i for i in range(len(prompts)) if i not in done), key=lambda i: (len(prompts[i].ids), i))
            for start in range(0, len(order), self.batch):
                part = order[start : start + self.batch]
                begun = time.monotonic()
                sampled = self._sample([prompts[i] for i in part])
                wall = time.monotonic() - begun
                for i, one in zip(part, sampled, strict=True):
                    done[i] = self._completion(prompts[i], one, wall)
            return [done[i] for i in range(len(requests))]

    def close(self) -> None:
        """Let go of the weights. Safe to call twice. A `generate` that is under way on another thread ends with `ModelError`."""
        self._closing.set()
        with self._lock:
            self._model = None

    def __enter__(self) -> LocalModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ids(self, text: str) -> list[int]:
        return chat.token_ids(self._tokenizer, text)

    def _prompt(self, request: Request) -> Prompt:
        text = chat.render(self._tokenizer, request.messages)
        ids = self._ids(text) or [min(self._ends, default=0)]
        room = request.max_tokens if self._context is None else min(request.max_tokens, self._context - len(ids))
        seed = request.seed if self.spec.seed == 0 else stream_seed(self.spec.seed, "local", request.seed)
        return Prompt(tuple(ids), room, request.temperature, request.top_p, seed, request.stop + self._stop)

    def _sample(self, prompts: Sequence[Prompt]) -> list[Sampled]:
        """Sample; where memory runs out, again in two halves, down to one."""
        try:
            with threads(self._threads):
                return sample(
                    self._model, prompts, ends=self._ends, decode=self._decode, cancelled=self._closing.is_set
                )
        except Cancelled:
            raise ModelError(f"{self.name}: this model was closed while it was generating") from None
        except ValueError as e:
            raise ModelError(f"{self.name}: {e}") from e
        except RuntimeError as e:
            if not out_of_memory(e):
                raise ModelError(f"{self.name}: {type(e).__name__}: {e}") from e
            if len(prompts) == 1:
                raise ModelError(
                    f"{self.name}: out of memory on {self._model.device} with one prompt of {len(prompts[0].ids)} tokens and a reply of up "
                    f"to {prompts[0].max_new}; lower max_tokens or context, take dtype=bfloat16, or a smaller model"
                ) from e
        free_memory(self._model.device)
        log.warning("%s: out of memory with %d sequences at once; halving", self.name, len(prompts))
        half = len(prompts) // 2
        return self._sample(prompts[:half]) + self._sample(prompts[half:])

    def _decode(self, ids: list[int]) -> str:
        return chat.text_of(self._tokenizer, ids)

    def _completion(self, prompt: Prompt, sampled: Sampled, wall_s: float) -> Completion:
        text = self._decode(list(sampled.token_ids))
        return completion_of(prompt, sampled, text, model=self.name, wall_s=wall_s)

    def _too_long(self, prompt: Prompt, request: Request) -> Completion:
        error = f"the prompt has {len(prompt.ids)} tokens and the context is {self._context}"
        if request.max_tokens < 1:
            error = f"max_tokens = {request.max_tokens} asks for nothing"
        return Completion("", StopReason.FAILED, self.name, error=error)
