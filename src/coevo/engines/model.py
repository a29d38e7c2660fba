"""The policy as a `Model`: a search runs with the weights as they stand, between two steps of training."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from coevo.engines.types import Engine, Prompt, Sampled
from coevo.errors import ModelError
from coevo.models.sampler import completion_of
from coevo.models.types import Completion, Request, Sampling, StopReason


class EngineModel:
    """Answers as `local` would with the weights saved: the same prompts, batches, seeds and stop texts.

    Calls take turns, so many threads may ask; but nobody may train while a search runs. Closing it leaves the engine open.
    """

    billable = False
    priced = True

    def __init__(
        self, engine: Engine, sampling: Sampling | None = None, *, name: str = "policy", batch: int = 16
    ) -> None:
        self._engine = engine
        self._sampling = sampling or Sampling()
        self._name, self._batch = name, batch
        self._stops: tuple[str, ...] = getattr(engine.codec, "stops", ())
        self._context = engine.capabilities.max_tokens
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def batch(self) -> int:
        return self._batch

    @property
    def sampling(self) -> Sampling:
        return self._sampling

    @property
    def context(self) -> int | None:
        return self._context

    def count_tokens(self, text: str) -> int:
        """Exact for a text alone."""
        return len(self._engine.codec.encode(text))

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return 0.0

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order; longer lists are worked off `batch` at a time, prompts of like length together."""
        with self._lock:
            return self._generate(requests)

    def close(self) -> None:
        """Nothing to let go of: the engine is its owner's."""

    def _generate(self, requests: Sequence[Request]) -> list[Completion]:
        done: dict[int, Completion] = {}
        prompts: dict[int, Prompt] = {}
        for i, request in enumerate(requests):
            try:
                ids = self._engine.codec.encode_chat(request.messages)
            except ModelError as e:
                done[i] = self._failed(str(e))
                continue
            room = request.max_tokens if self._context is None else min(request.max_tokens, self._context - len(ids))
            if request.max_tokens < 1:
                done[i] = self._failed(f"max_tokens = {request.max_tokens} asks for nothing")
            elif room < 1:
                done[i] = self._failed(f"the prompt has {len(ids)} tokens and the context is {self._context}")
            else:
                stop = request.stop + self._stops
                prompts[i] = Prompt(ids, room, request.temperature, request.top_p, request.seed, stop)
        order = sorted(prompts, key=lambda i: (len(prompts[i].ids), i))
        for start in range(0, len(order), self._batch):
            part = order[start : start + self._batch]
            begun = time.monotonic()
            sampled = self._engine.sample([prompts[i] for i in part])
            wall = time.monotonic() - begun
            for i, one in zip(part, sampled, strict=True):
                done[i] = self._completion(prompts[i], one, wall)
        return [done[i] for i in range(len(requests))]

    def _completion(self, prompt: Prompt, sampled: Sampled, wall_s: float) -> Completion:
        text = self._engine.codec.decode(sampled.token_ids)
        return completion_of(prompt, sampled, text, model=self.name, wall_s=wall_s)

    def _failed(self, error: str) -> Completion:
        return Completion("", StopReason.FAILED, self.name, error=error)
