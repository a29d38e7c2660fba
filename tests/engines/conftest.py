"""A tiny Llama in a folder, engines on it, and rows that it sampled itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevo.engines.settings import EngineConfig
from coevo.engines.types import Row
from coevo.models.sampler import Prompt
from coevo.models.types import Message
from tests.models import tiny


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """So small a model is fastest on one thread, and its sums come out the same however busy the machine is."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def base(tmp_path_factory) -> Path:
    pytest.importorskip("transformers", reason="transformers is not installed (extra: local)")
    return tiny.make_folder(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture
def opened(base, tmp_path) -> Callable[..., Any]:
    """Opens an engine on the tiny model, its states in this test's folder."""
    from coevo.engines.opening import open_engine

    def open_(*, folder: Path = tmp_path / "states", seed: int = 0, at: Path = base, context=None, **settings) -> Any:
        return open_engine(at, EngineConfig(device="cpu", **settings), folder=folder, seed=seed, context=context)

    return open_


TEXTS = ("def f(x):", "print the first ten numbers", "for i in range(10):\n    print(i)\n" * 2)


def prompts_of(
    engine, *, groups: int = 3, size: int = 4, new: int = 12, temperature: float = 1.0, seed: int = 0
) -> list[Prompt]:
    found = []
    for g in range(groups):
        ids = engine.codec.encode_chat([Message("user", TEXTS[g % len(TEXTS)] + "!" * (g // len(TEXTS)))])
        found += [Prompt(ids, new, temperature, seed=seed + 1000 * g + i) for i in range(size)]
    return found


def rows_of(engine, **options) -> list[Row]:
    """Rows sampled by the engine, with advantages that differ by row and are not all of one sign."""
    prompts = prompts_of(engine, **options)
    rows = []
    for i, (prompt, sampled) in enumerate(zip(prompts, engine.sample(prompts), strict=True)):
        n = len(sampled.token_ids)
        rows.append(
            Row(
                token_ids=prompt.ids + sampled.token_ids,
                prompt_tokens=len(prompt.ids),
                advantages=(((i * 7) % 5 - 2) / 2 + 0.1,) * n,
                trained=(True,) * n,
                logprobs=sampled.logprobs,
                version=engine.version,
                temperature=prompt.temperature,
                group=str(prompt.seed // 1000),
            )
        )
    return rows


def shifted(rows: Sequence[Row], by: float = 0.5) -> list[Row]:
    """Off policy: the sampler's log-probabilities moved up and down, so that ratios leave the clip range on both sides."""
    return [
        replace(row, logprobs=tuple(x + by * ((i + j) % 3 - 1) for j, x in enumerate(row.logprobs)))
        for i, row in enumerate(rows)
    ]


def gradients(engine) -> dict[str, Any]:
    return {name: p.grad.clone() for name, p in engine.module.named_parameters() if p.grad is not None}


def weights_of(engine) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in engine.module.state_dict().items()}


def spread(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Greatest difference between two sets of tensors, relative to the largest value of each tensor."""
    assert one.keys() == other.keys() and one
    return max(float((one[k] - other[k]).abs().max() / other[k].abs().max().clamp(min=1e-12)) for k in one)
