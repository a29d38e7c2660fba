"""A policy small enough for tests and real in every part: a two-layer Llama, taught in seconds to write programs of a tiny grammar.

The tasks are families of one: `f(k, x)` has three cases, and each case is `x + a` with a digit of its own. Taught uniformly, a reply is right in a
case one time in ten, so fitness is graded and there is much to learn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig
from coevo.engines.types import LossConfig, OptimConfig, Row
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.streams import stream
from coevo.tasks.loader import load_task
from tests.models.tiny import TEMPLATE

CASES = 3
STATEMENT = "Write f(k, x): k picks a case, and each case adds a number of its own to x."


def program(digits: Iterable[int]) -> str:
    first, second, third = digits
    return f"def f(k, x):\n    if k == 0:\n        return x + {first}\n    if k == 1:\n        return x + {second}\n    return x + {third}\n"


def write_task(folder: Path, digits: tuple[int, int, int], *, hidden: tuple[int, int, int] | None = None) -> Path:
    """A task whose answer is `digits`; two public tests a case, and three hidden ones (of `hidden`, if given)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "name": folder.name,
        "kind": "function",
        "statement": STATEMENT,
        "entry": "f",
        "limits": {"cpu_s": 2, "memory_mb": 128},
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(config))
    (folder / "program.py").write_text(program((0, 0, 0)))
    rows = []
    for split, numbers, inputs in (("public", digits, (2, 30)), ("hidden", hidden or digits, (5, 17, 400))):
        rows += [
            {"split": split, "args": [k, x], "expected": x + number} for k, number in enumerate(numbers) for x in inputs
        ]
    (folder / "tests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def make_tokenizer(texts: list[str]):
    """BPE learnt on the very texts, across words, digits apart: prompts come to some dozens of tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_policy(folder: Path, *, context: int = 512, steps: int = 60, seed: int = 0) -> Path:
    """A Hugging Face folder: random weights, taught by cross-entropy to answer every prompt with a program of random digits."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    task = load_task(write_task(folder / "taught", (1, 2, 3)))
    view = TaskView.of(task.config)
    rng = stream(seed, "taught")
    prompts = [_prompts(task, view, rng) for _ in range(8)]
    replies = [f"```python\n{program(rng.choices(range(10), k=CASES))}```" for _ in range(400)]
    tokenizer = make_tokenizer([message.content for pair in prompts for p in pair for message in p] * 4 + replies)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    raw = folder / "raw"
    model.save_pretrained(raw)
    tokenizer.save_pretrained(raw)
    engine = open_engine(str(raw), EngineConfig(device="cpu"), folder=folder / "states")
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert isinstance(end, int)
    for step in range(steps):
        rows = []
        ids = engine.codec.encode_chat(rng.choice(rng.choice(prompts)))
        for _ in range(32):
            reply = (*engine.codec.encode(rng.choice(replies)), end)
            n = len(reply)
            rows.append(Row((*ids, *reply), len(ids), (1.0,) * n, (True,) * n, (0.0,) * n, group="g"))
        engine.forward_backward(rows, LossConfig(name="cross_entropy"))
        engine.optim_step(1e-2 * min(1.0, 2 * (1 - step / steps)), OptimConfig())
    path = engine.save("taught", optimizer=False)
    engine.close()
    return Path(path)


def _prompts(task, view: TaskView, rng) -> list:
    """From the statement alone, and from a current program."""
    start = Attempt(task.start.with_source(program(rng.choices(range(10), k=CASES))), rng.random(), rng.random())
    return [
        build_messages(view, Context(Attempt(task.start, None)), style=Edit.WRITE),
        build_messages(view, Context(start), style=Edit.REWRITE),
    ]
