"""The policy of trainer `trl`: sampled like any other, updated by TRL alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from coevo.engines.torch_engine import TorchEngine
from coevo.engines.types import (
    Capabilities,
    Codec,
    Engine,
    LossConfig,
    LossStats,
    OptimConfig,
    Prompt,
    Row,
    Sampled,
    StepStats,
)
from coevo.errors import ConfigError
from coevo.models.types import StopReason


class TrlPolicy:
    """The policy that TRL trains, with the face of an engine: it samples, TRL updates. With `use_vllm`, vLLM samples."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.trainer: Any = None
        self.made = engine.version

    @classmethod
    def over(cls, engine: Engine) -> TrlPolicy:
        """Over an engine just opened, which TRL needs in this process."""
        if not isinstance(engine, TorchEngine):
            raise ConfigError(
                f"trainer 'trl' trains in this process, with engine torch, not {engine.capabilities.engine}"
            )
        return cls(engine)

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.engine.capabilities, engine="trl", exact_resume=False)

    @property
    def codec(self) -> Codec:
        return self.engine.codec

    @property
    def version(self) -> int:
        return self.made

    def sample(self, prompts: Sequence[Prompt], *, each: Callable[[int, Sampled], None] | None = None) -> list[Sampled]:
        if self.trainer is not None and self.trainer.use_vllm:
            return self._sample_vllm(prompts, each)
        return self.engine.sample(prompts, each=each)

    def logprobs(self, sequences: Sequence[Sequence[int]], **settings: Any) -> list[tuple[float, ...]]:
        return self.engine.logprobs(sequences, **settings)

    def forward_backward(self, rows: Sequence[Row], loss: LossConfig) -> LossStats:
        raise ConfigError("TRL makes the updates of this policy")

    def optim_step(self, lr: float, config: OptimConfig) -> StepStats:
        raise ConfigError("TRL makes the updates of this policy")

    def save(self, name: str, *, optimizer: bool = True) -> str:
        """The weights; the optimizer's state is TRL's, in its own checkpoint."""
        self.engine.adopt(self.made)
        return self.engine.save(name)

    def load(self, name: str, *, with_optimizer: bool) -> None:
        self.engine.load(name, with_optimizer=with_optimizer)
        self.made = self.engine.version

    def close(self) -> None:
        self.engine.close()

    def _sample_vllm(self, prompts: Sequence[Prompt], each: Callable[[int, Sampled], None] | None) -> list[Sampled]:
        """By TRL's vLLM client, which samples at the temperature and length of its config. Not run on a GPU by us yet."""
        trainer, ends = self.trainer, self.codec.ends
        if trainer.state.global_step != trainer._last_loaded_step:
            trainer.vllm_generation.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        _, ids, logprobs, _ = trainer.vllm_generation.generate(
            prompts=[list(prompt.ids) for prompt in prompts], images=None, num_generations=1, profiler=nullcontext()
        )
        found = []
        for i, (tokens, values) in enumerate(zip(ids, logprobs, strict=True)):
            stop = StopReason.STOP if tokens and tokens[-1] in ends else StopReason.LENGTH
            found.append(Sampled(tuple(tokens), tuple(float(one[0]) for one in values), stop))
            if each is not None:
                each(i, found[-1])
        return found
