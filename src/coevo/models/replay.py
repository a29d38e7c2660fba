"""The replies of a recorded run, by key: the same search again without a model, or with another evaluator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from coevo.errors import ModelError
from coevo.models.record import from_payload, request_digest
from coevo.models.spec import ModelSpec
from coevo.models.tokens import estimate_tokens
from coevo.models.types import Completion, Request, Sampling
from coevo.runs import Run


class ReplayModel:
    """Answers each request with what its run recorded under the same key; token counts and costs are the recorded ones.

    Raises `ModelError` for a key that the run lacks, and for a recorded reply to another prompt or seed: from there
    on it would be another search. (A run records failures too, and they fail again.)
    """

    batch = 1
    billable = False
    priced = True

    def __init__(self, folder: Path, name: str = "", max_tokens: int | None = None, context: int | None = None) -> None:
        """The rest is what the recorded model was called and what bounded its prompts, where a caller knows."""
        self._folder = folder
        self._name = name or f"replay:{folder.name}"
        self._max_tokens = max_tokens or Sampling().max_tokens
        self.context = context
        self._run = Run.open(folder, write=False)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, spec: ModelSpec) -> ReplayModel:
        return cls(Path(spec.target).expanduser())

    @property
    def name(self) -> str:
        return self._name

    @property
    def sampling(self) -> Sampling:
        return Sampling(max_tokens=self._max_tokens)

    def count_tokens(self, text: str) -> int:
        return estimate_tokens(text)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return 0.0

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        self._run.close()

    def _answer(self, request: Request) -> Completion:
        with self._lock:
            payload = self._run.completion(request.key)
        if payload is None:
            raise ModelError(
                f"the run {self._folder} recorded no reply for {request.key!r}; replay with the settings and the budget of "
                f"that run, or continue it with its own model"
            )
        recorded = payload.get("request")
        if recorded is not None and recorded != request_digest(request):
            raise ModelError(
                f"the run {self._folder} recorded its reply for {request.key!r} to another prompt or seed; the search has "
                f"left the recorded path (another seed, task or version of the prompt?)"
            )
        return from_payload(payload)
