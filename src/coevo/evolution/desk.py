"""Where model requests go out: threads of their own, in groups as large as the model likes, formed when steps are decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from coevo.errors import CoevoError, ConfigError
from coevo.models.budgeting import check_context
from coevo.models.ensemble import Ensemble
from coevo.models.tokens import chat_tokens
from coevo.models.types import Completion, Message, Model, Request, StopReason
from coevo.streams import stream_seed

Answer = tuple[Request, Completion]
Sink = Callable[[Sequence[Answer], CoevoError | None], None]


MAX_THREADS = 256
"""Requests under way at once, whatever the search would like."""


class ModelDesk:
    """Models by name. `send` returns at once; answers come to the sink, on a thread of the desk."""

    def __init__(self, models: Ensemble | None, *, seed: int, at_once: int, sink: Sink) -> None:
        self._models: dict[str, Model] = dict(zip(models.names, models.models, strict=True)) if models else {}
        self.weights: Mapping[str, float] = dict(zip(models.names, models.weights, strict=True)) if models else {}
        self._seed, self._sink = seed, sink
        self._waiting: dict[str, list[Request]] = {}
        self._groups: list[tuple[str, list[Request]]] = []
        many = any(model.batch == 1 for model in self._models.values())
        threads = max(len(self._models), min(at_once, MAX_THREADS) if many else 1)
        self._threads = ThreadPoolExecutor(threads, "coevo-model") if self._models else None

    def request(
        self, name: str, step: int, build: Callable[[int], Sequence[Message]], max_chars: int
    ) -> tuple[Request, dict[str, float]]:
        """The request of a step and what it may cost at most: `tokens` and `usd`.

        `build` makes the messages within a number of characters; they are asked for shorter until prompt and reply fit the
        model's context. Raises `UsageError` when they cannot.
        """
        model = self._models[name]
        longest = model.sampling.max_tokens
        messages = build(max_chars)
        prompt = chat_tokens(model.count_tokens, messages)
        while model.context is not None and prompt + longest > model.context:
            chars = sum(len(message.content) for message in messages)
            if model.context <= longest:
                check_context(name, prompt, longest, model.context)
            messages = build(int(0.95 * chars * (model.context - longest) / prompt))
            prompt = chat_tokens(model.count_tokens, messages)
        request = model.sampling.request(
            messages, seed=stream_seed(self._seed, "model", step) % 2**31, key=f"step-{step}"
        )
        return request, {"tokens": prompt + longest, "usd": model.cost(prompt, longest) if model.priced else 0.0}

    def require_prices(self) -> None:
        """Refuse models of unknown price under a budget in dollars."""
        for name, model in self._models.items():
            if not model.priced:
                raise ConfigError(
                    f"model {name} has no prices, so a budget in usd cannot be kept; give price_in and price_out"
                )

    def queue(self, name: str, request: Request) -> None:
        """Line a request up; `group` and `send` follow."""
        self._waiting.setdefault(name, []).append(request)

    def group(self) -> None:
        """Form groups of what was lined up since the last call: the steps decided together, in their order, so that a
        batched model sees the same groups again after a resume."""
        for name, requests in self._waiting.items():
            size = max(1, self._models[name].batch)
            self._groups += [(name, requests[start : start + size]) for start in range(0, len(requests), size)]
        self._waiting = {}

    def send(self) -> None:
        """Send the groups off."""
        groups, self._groups = self._groups, []
        for name, requests in groups:
            self._submit(name, requests)

    def _submit(self, name: str, group: Sequence[Request]) -> None:
        assert self._threads is not None
        future: Future[list[Completion]] = self._threads.submit(self._models[name].generate, group)

        def arrived(done: Future[list[Completion]]) -> None:
            if done.cancelled():
                return
            error = done.exception()
            if error is None:
                self._sink(list(zip(group, done.result(), strict=True)), None)
                return
            down = error if isinstance(error, CoevoError) else None
            text = str(error) if down else f"{type(error).__name__}: {error}"
            failed = Completion("", StopReason.FAILED, name, error=text)
            self._sink([(request, failed) for request in group], down)

        future.add_done_callback(arrived)

    def close(self) -> None:
        """Drop what was not sent; requests on the wire end by their own timeouts."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
