"""Pre-training: from random weights to a model that speaks the puzzles' language and edits carelessly, in minutes on two cores.

The result is an ordinary Hugging Face folder (a Llama of a million parameters, a fast tokenizer with a chat template, no code
of its own): `local:FOLDER`, the training engines and any other tool load it. It lies in the cache, under the hash of all that
determines it: the settings, the tokenizer, and the examples themselves.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from coevo.config import Config
from coevo.errors import ModelError, UsageError, pick
from coevo.mini.corpus import CorpusConfig, Example, draw_example
from coevo.mini.tokens import CONTEXT, END, PAD, encode, make_tokenizer, parts_of, pieces
from coevo.models.chat import render
from coevo.models.weights import cache_folder, quiet, require
from coevo.streams import array_stream, stream_seed

VERSION = 2
"""Of the loop below: raised when equal settings and examples give other weights."""
FINGERPRINT = 64
"""Examples of each part that stand for the corpus in its hash."""
_WINDOW = 32
"""Batches drawn together and sorted by length, which saves padding."""


class PretrainConfig(Config):
    """Everything that determines the weights, but for the last bits of floats on another machine."""

    seed: int = Field(default=0, ge=0, lt=1 << 62)
    hidden: int = Field(default=96, ge=16)
    layers: int = Field(default=3, ge=1)
    heads: int = Field(default=3, ge=1)
    rope_theta: float = Field(default=1e6, gt=1)
    """Base of the rotary positions. Large, so that most dimensions of a narrow head hardly turn and can match by content: at
    10,000 the model takes several times the steps to connect a failing test with the line of its case."""
    init: float = Field(default=0.08, gt=0)
    """Standard deviation of the first weights: of a narrow model's, larger than the library's 0.02, from which it hardly starts."""
    steps: int = Field(default=2400, ge=1)
    exercises: int = Field(default=2200, ge=0)
    """So many of the steps, the first ones, show worked exercises; the others the habits of careless programmers. Below some 700 the
    model does not begin to look things up."""
    batch: int = Field(default=32, ge=1)
    """Prompts of a step, each with its replies; none is ever seen twice."""
    lr: float = Field(default=4e-3, gt=0)
    """Highest learning rate of embeddings and norms (AdamW): reached linearly, left by half a cosine."""
    lr_matrices: float = Field(default=0.02, gt=0)
    """The same of all other matrices (Muon: orthogonalised momentum), which learn to copy in half the steps of AdamW."""
    habits: float = Field(default=0.1, gt=0, le=1)
    """Share of the highest rates at which habits are learnt after exercises. At 0.3 they overwrite what the exercises taught."""
    warmup: int = Field(default=40, ge=0)
    prompt: float = Field(default=0.5, ge=0, lt=1)
    """Weight of the prompt's tokens in the loss, where a reply's have 1: feedback teaches what expressions are worth."""
    corpus: CorpusConfig = CorpusConfig()


SIZES: dict[str, PretrainConfig] = {
    "mini": PretrainConfig(),
    "tiny": PretrainConfig(hidden=64, heads=2, layers=2, steps=300, exercises=0, batch=16),
}
"""mini: for studies, minutes. tiny: for tests, seconds."""

Size = Literal["mini", "tiny"]


def mini_folder(size: Size | str = "mini", *, seed: int = 0, notify: Callable[[str], None] = lambda _: None) -> Path:
    """The model's folder; pre-trains it at the first use."""
    config = pick(size, SIZES, kind="mini model")
    return pretrain(config=config.model_copy(update={"seed": seed}), notify=notify)


def pretrain(
    out: Path | None = None,
    *,
    config: PretrainConfig = SIZES["mini"],
    notify: Callable[[str], None] = lambda _: None,
) -> Path:
    """Pre-train, or find it done, and return the folder: in the cache, and with `out` also copied there.

    Two processes train once; a killed one leaves nothing that could be mistaken for a model. Raises `UsageError` for missing
    packages or an `out` that is not empty, `ModelError` for a disk that refuses.
    """
    require("torch", "transformers", "tokenizers", "safetensors")
    if config.hidden % (2 * config.heads):
        raise UsageError(f"hidden = {config.hidden} must be a multiple of twice heads = {config.heads}")
    if out is not None and out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; give a new folder")
    tokenizer = make_tokenizer()
    digest = _digest(config, tokenizer)
    models = cache_folder() / "models"
    folder = models / f"mini-{digest[:16]}"
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _locked(models / f".{folder.name}.lock"):
            if not folder.is_dir():
                notify(f"pre-training the mini model, once, into {folder}")
                _make(config, tokenizer, digest, folder, notify)
        if out is not None:
            shutil.copytree(folder, out, dirs_exist_ok=True)
    except OSError as e:
        raise ModelError(
            f"cannot write the mini model to {out or folder}: {e.strerror or e}. Free space there, or set COEVO_CACHE to another folder"
        ) from e
    return out if out is not None else folder


Row = tuple[list[int], list[list[int]]]
"""Ids of a prompt, and of each of its replies."""


def batches(config: PretrainConfig, tokenizer: Any) -> Iterator[list[Row]]:
    """The batches, in order; those of a window are filled by length and then mixed."""
    begins = [*range(0, config.exercises, _WINDOW), *range(config.exercises, config.steps, _WINDOW)]
    for start, end in pairwise([*(begin for begin in begins if begin < config.steps), config.steps]):
        size = end - start
        first = start * config.batch
        examples = [_example(config, first + i) for i in range(size * config.batch)]
        rows = sorted(_rows(tokenizer, examples), key=lambda row: len(row[0]) + sum(map(len, row[1])))
        groups = [rows[i : i + config.batch] for i in range(0, len(rows), config.batch)]
        for i in array_stream(config.seed, "mini", "order", start).permutation(len(groups)):
            yield groups[int(i)]


def _example(config: PretrainConfig, index: int) -> Example:
    return draw_example(config.corpus, config.seed, index, exercise=index < config.exercises * config.batch)


def _rows(tokenizer: Any, examples: list[Example]) -> list[Row]:
    prompts = encode(tokenizer, [render(tokenizer, example.messages) for example in examples])
    replies = iter(encode(tokenizer, [reply + END for example in examples for reply in example.replies]))
    return [
        (prompt, [next(replies) for _ in example.replies]) for prompt, example in zip(prompts, examples, strict=True)
    ]


def _make(config: PretrainConfig, tokenizer: Any, digest: str, folder: Path, notify: Callable[[str], None]) -> None:
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # Of a process that was killed: we hold the lock.
    started = time.monotonic()
    try:
        model = _trained(config, tokenizer, notify)
        with quiet():
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
        card = {
            "digest": digest,
            "config": config.model_dump(mode="json"),
            "seconds": round(time.monotonic() - started, 1),
        }
        (part / "mini.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def new_model(config: PretrainConfig, tokenizer: Any) -> Any:
    """The untrained model: a small Llama with tied embeddings, its weights drawn from the seed.

    Tokens that share a part (a case, a number, an expression) begin with embeddings that share a summand, so that what is learned
    of one line holds for the others: with independent ones, copying alone takes many times the steps.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=3 * config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=config.init,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
        pad_token_id=tokenizer.convert_tokens_to_ids(PAD),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(config.seed, "mini", "weights") % (1 << 63))
        model = LlamaForCausalLM(shape)
    with torch.no_grad():
        for text in pieces():
            vectors = [
                array_stream(config.seed, "mini", "part", part).normal(0, config.init, config.hidden)
                for part in parts_of(text)
            ]
            row = torch.tensor(sum(vectors) / len(vectors) ** 0.5, dtype=torch.float32)
            model.model.embed_tokens.weight[tokenizer.convert_tokens_to_ids(text)] = row
    return model


def _trained(config: PretrainConfig, tokenizer: Any, notify: Callable[[str], None]) -> Any:
    """Each part has optimizers of its own: what is remembered of the exercises' gradients is no guide to habits."""
    import torch

    model = new_model(config, tokenizer).train()
    optimizers: tuple[tuple[Any, float], ...] = ()
    seen: list[tuple[float, float]] = []
    for step, rows in enumerate(batches(config, tokenizer), 1):
        if step in (1, config.exercises + 1):
            optimizers = _optimizers(config, model)
        loss, reply = packed_loss(model, rows, config.prompt)
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * rate(config, step)
            optimizer.step()
        seen.append((float(loss.detach()), float(reply)))
        if step % max(1, config.steps // 10) == 0:
            last = seen[-100:]
            notify(
                f"step {step} of {config.steps}: loss {sum(a for a, _ in last) / len(last):.3f}, "
                f"of replies {sum(b for _, b in last) / len(last):.3f} nats a token"
            )
    return model.eval()


def _optimizers(config: PretrainConfig, model: Any) -> tuple[tuple[Any, float], ...]:
    """Each with its highest rate."""
    import torch

    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in named if p.ndim != 2 or "embed" in name]
    return (
        (torch.optim.AdamW(others, lr=config.lr, betas=(0.9, 0.98), weight_decay=0.0), config.lr),
        (torch.optim.Muon(matrices, lr=config.lr_matrices, weight_decay=0.0), config.lr_matrices),
    )


def rate(config: PretrainConfig, step: int) -> float:
    """Share of the highest rates at step 1..steps. In each part a linear rise, then half a cosine down to a twentieth of its top, which is 1,
    and `habits` for the part after the exercises."""
    exercises = min(config.exercises, config.steps)
    if step <= exercises:
        return _warmed(step, exercises, config.warmup)
    return (config.habits if exercises else 1.0) * _warmed(step - exercises, config.steps - exercises, config.warmup)


def _warmed(step: int, steps: int, warmup: int) -> float:
    if step <= warmup:
        return step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


def packed_loss(model: Any, rows: list[Row], prompt_weight: float) -> tuple[Any, Any]:
    """Weighted mean cross-entropy of the batch, and the replies' own mean."""
    import torch

    ids, places, blocks, sources, targets, weights = _packed(rows, prompt_weight)
    later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    seen = (blocks[:, None, :] == 0) | (blocks[:, None, :] == blocks[:, :, None])
    hidden = model.model(input_ids=ids, attention_mask=(seen & later)[:, None], position_ids=places, use_cache=False)
    logits = model.lm_head(hidden.last_hidden_state.flatten(0, 1)[sources])
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    return (losses * weights).sum() / weights.sum(), losses[weights == 1].detach().mean()


def _packed(rows: list[Row], prompt_weight: float) -> tuple[Any, ...]:
    """Each prompt with its replies side by side in one sequence: a reply sees the prompt (block 0) and itself (its block), and
    its positions follow the prompt's. Padding is a last block of its own.

    Returns ids, positions and blocks, each (rows, width); then of every token to predict: where in the flattened batch it is
    predicted, its id, and its weight.
    """
    import torch

    width = max(len(prompt) + sum(map(len, replies)) for prompt, replies in rows)
    ids, places, blocks, sources, targets, weights = [], [], [], [], [], []
    for number, (prompt, replies) in enumerate(rows):
        base, length = number * width, len(prompt)
        sequence, place, block = list(prompt), list(range(length)), [0] * length
        sources += range(base, base + length - 1)
        targets += prompt[1:]
        weights += [prompt_weight] * (length - 1)
        for index, reply in enumerate(replies, 1):
            at = base + len(sequence)
            sources += [base + length - 1, *range(at, at + len(reply) - 1)]
            targets += reply
            weights += [1.0] * len(reply)
            sequence += reply
            place += range(length, length + len(reply))
            block += [index] * len(reply)
        rest = width - len(sequence)
        ids.append(sequence + [0] * rest)
        places.append(place + [0] * rest)
        blocks.append(block + [len(replies) + 1] * rest)
    return (*map(torch.tensor, (ids, places, blocks, sources, targets)), torch.tensor(weights))


def _digest(config: PretrainConfig, tokenizer: Any) -> str:
    """SHA-256 over all that determines the weights; the first examples stand for the generator and the prompt builder."""
    total, exercises = config.steps * config.batch, config.exercises * config.batch
    starts = [0, exercises] if exercises < total else [0]
    examples = [_example(config, i) for start in starts for i in range(start, min(start + FINGERPRINT, total))]
    text = [[[(m.role, m.content) for m in e.messages], e.replies] for e in examples]
    parts = [
        VERSION,
        config.model_dump(mode="json"),
        tokenizer.backend_tokenizer.to_str(),
        tokenizer.chat_template,
        text,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


__all__ = ["SIZES", "PretrainConfig", "Size", "batches", "mini_folder", "new_model", "packed_loss", "pretrain"]
