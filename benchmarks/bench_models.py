"""Tokens a second of the embedded model, beside `transformers.generate` on the same weights and settings.

    python benchmarks/bench_models.py [--batches 1,8,16,32] [--tokens 64] [--prompt 400] [--tries 2] [--threads N] [--convert]

The two run turn about in one process, each token count from what was really sampled (end tokens are switched off, so that both
work off the same number). `same` samples one prompt in every row; `mixed` gives the rows prompts of different lengths.
`--convert` times the one-off conversion of the GGUF file into an empty cache.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

from coevo.models import Message, open_model
from coevo.models.local import LocalModel
from coevo.models.sampler import Prompt, sample


def main() -> None:
    args = _arguments()
    import torch

    if args.threads:
        torch.set_num_threads(args.threads)
    if args.convert:
        with tempfile.TemporaryDirectory() as cache:
            print(
                f"first conversion and load: {_timed(lambda: open_model('local', environ={'COEVO_CACHE': cache})):.1f} s"
            )
    started = time.perf_counter()
    model = open_model("local")
    assert isinstance(model, LocalModel)
    print(
        f"load: {time.perf_counter() - started:.1f} s, {torch.get_num_threads()} threads, prompt of about {args.prompt} tokens"
    )
    print(f"{'prompts':8}{'batch':>6}{'ours tok/s':>12}{'generate tok/s':>16}{'ratio':>7}")
    for kind in ("same", "mixed"):
        for batch in args.batches:
            prompts = _prompts(model, batch, args.prompt, kind)
            ours, theirs = [], []
            for _ in range(args.tries):
                ours.append(_timed(lambda p=prompts: _ours(model, p, args.tokens)))
                theirs.append(_timed(lambda p=prompts: _theirs(model, p, args.tokens)))
            a, b = (batch * args.tokens / min(times) for times in (ours, theirs))
            print(f"{kind:8}{batch:>6}{a:>12.1f}{b:>16.1f}{a / b:>7.2f}", flush=True)


def _prompts(model: LocalModel, batch: int, length: int, kind: str) -> list[tuple[int, ...]]:
    program = "def step(x, y):\n    total = x * 3 + y\n    return total % 17\n\n" * (length // 10)
    request = model.sampling.request((Message("user", "Improve this program.\n" + program),), seed=0, key="")
    ids = model._prompt(request).ids[:length]
    return [ids if kind == "same" else (*ids[: length - length // 2 * i // batch], i + 1000) for i in range(batch)]


def _ours(model: LocalModel, prompts: list[tuple[int, ...]], tokens: int) -> None:
    rows = [Prompt(ids, tokens, seed=i) for i, ids in enumerate(prompts)]
    found = sample(model._model, rows, ends=(), decode=model._decode)
    assert all(len(one.token_ids) == tokens for one in found)


def _theirs(model: LocalModel, prompts: list[tuple[int, ...]], tokens: int) -> None:
    import torch

    width = max(map(len, prompts))
    ids = torch.tensor([(0,) * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([(0,) * (width - len(p)) + (1,) * len(p) for p in prompts])
    settings: Any = {
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    with torch.inference_mode():
        out = model._model.generate(ids, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, **settings)
    assert out.shape[1] == width + tokens


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tokens a second of the embedded model.")
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 16, 32])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=400)
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--convert", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
