"""Seconds and memory of a training step: the torch engine beside `trl.GRPOTrainer`, on the same model, prompts, sizes and reward.

    python benchmarks/bench_train.py [--quick] [--cases tiny,smollm2] [--steps N] [--threads N] [--json FILE]

Each side has a process of its own; both are told in turn to make one step, so that whatever else the machine does meets both.
A step is everything between two updates: sampling (replies have a fixed length: end tokens are switched off), the reward, the
loss, the gradient, AdamW. Medians over the steps after the first two; `cpu` is processor time, which says more on a busy machine;
`peak` is the process's largest resident set.

    tiny      a random Llama of 1.05 M weights, 4 prompts x 16, prompts of about 20 tokens, 12 new
    smollm2   SmolLM2-135M-Instruct, all weights in float32, 2 prompts x 8, prompts of about 62 tokens, 48 new
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYMBOLS = "abcdefghijklmnopqrstuvwxyz "


@dataclass(frozen=True)
class Case:
    prompts: tuple[str, ...]
    size: int
    new: int
    lr: float
    steps: int


CASES = {
    "tiny": Case(
        tuple(f"add up {a} and {b} now" for a, b in (("ab", "cd"), ("ef", "gh"), ("ij", "kl"), ("mn", "op"))),
        16,
        12,
        1e-3,
        30,
    ),
    "smollm2": Case(
        (
            "Write a Python function add_three(x) that returns its argument plus three. Give only the code, and nothing else.",
            "Write a Python function is_even(x) that tells whether its argument is even. Give only the code, and nothing else.",
        ),
        8,
        48,
        2e-5,
        7,
    ),
}


def reward(ids: list[int]) -> float:
    """Anything cheap that differs between replies."""
    return sum(i % 7 for i in ids) / len(ids)


def main() -> None:
    args = _arguments()
    if args.side:
        (ours if args.side == "ours" else trl)(CASES[args.case], Path(args.base), args.steps)
        return
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.cases.split(","):
            base = make_tiny(Path(scratch) / "tiny") if name == "tiny" else find_smollm2()
            steps = args.steps or (max(4, CASES[name].steps // 2) if args.quick else CASES[name].steps)
            results[name] = compare(name, base, steps, args.threads)
            report(name, results[name])
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


def compare(name: str, base: Path, steps: int, threads: int | None) -> dict[str, Any]:
    """Both sides, step by step in turn; who goes first changes each time."""
    sides = {side: Side(side, name, base, steps, threads) for side in ("ours", "trl")}
    times: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    parts: list[dict[str, float]] = []
    for step in range(steps):
        for side in sorted(sides, reverse=bool(step % 2)):
            told = sides[side].step()
            times[side].append(told["seconds"])
            cpu[side].append(told["cpu"])
            if side == "ours":
                parts.append(told["parts"])
    peaks = {side: process.end() for side, process in sides.items()}
    first = min(2, steps - 1)
    used, busy = ({side: values[first:] for side, values in kind.items()} for kind in (times, cpu))
    return {
        "steps": steps,
        "seconds": {side: statistics.median(values) for side, values in used.items()},
        "ratio": statistics.median(a / b for a, b in zip(used["ours"], used["trl"], strict=True)),
        "cpu_seconds": {side: statistics.median(values) for side, values in busy.items()},
        "cpu_ratio": statistics.median(a / b for a, b in zip(busy["ours"], busy["trl"], strict=True)),
        "all": times,
        "peak_gb": peaks,
        "parts": {key: statistics.median(p[key] for p in parts[first:]) for key in parts[0]},
    }


def report(name: str, result: dict[str, Any]) -> None:
    for side in ("ours", "trl"):
        print(
            f"{name:9}{side:6}{result['seconds'][side]:8.3f} s/step   cpu {result['cpu_seconds'][side]:8.3f} s   "
            f"peak {result['peak_gb'][side]:.2f} GB"
        )
    parts = ", ".join(f"{key} {value:.3f}" for key, value in result["parts"].items())
    print(
        f"{name:9}ours / trl, median of pairs: {result['ratio']:.2f}, cpu {result['cpu_ratio']:.2f}   ours: {parts}",
        flush=True,
    )


class Side:
    """A process that makes one step for each line it is sent, and answers with a line of JSON."""

    def __init__(self, side: str, case: str, base: Path, steps: int, threads: int | None) -> None:
        command = [sys.executable, __file__, "--side", side, "--case", case, "--base", str(base), "--steps", str(steps)]
        if threads:
            command += ["--threads", str(threads)]
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._read("ready")

    def step(self) -> dict[str, Any]:
        self._send("step")
        return self._read("seconds")

    def end(self) -> float:
        """Close it; its peak memory in GB."""
        self._send("end")
        peak = self._read("peak_gb")["peak_gb"]
        self._process.wait(timeout=60)
        return peak

    def _send(self, word: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _read(self, key: str) -> dict[str, Any]:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith('{"') and key in (told := json.loads(line)):
                return told
        self._log.seek(0)
        raise SystemExit(f"a side ended early:\n{self._log.read()[-3000:]}")


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def wait() -> bool:
    """Whether another step is wanted."""
    return sys.stdin.readline().strip() == "step"


def tell_peak() -> None:
    tell(peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)


def ours(case: Case, base: Path, steps: int) -> None:
    from coevo.engines.opening import open_engine
    from coevo.engines.settings import EngineConfig
    from coevo.engines.types import LossConfig, OptimConfig, Row
    from coevo.models.sampler import Prompt
    from coevo.models.types import Message

    engine: Any = open_engine(base, EngineConfig(device="cpu"), folder=Path(tempfile.gettempdir()))
    engine.codec._ends = frozenset()
    encoded = [engine.codec.encode_chat([Message("user", text)]) for text in case.prompts]
    tell(ready=True)
    for step in range(steps):
        if not wait():
            break
        marks, busy = [time.perf_counter()], time.process_time()
        prompts = [
            Prompt(ids, case.new, seed=(step * 64 + g) * 64 + i)
            for g, ids in enumerate(encoded)
            for i in range(case.size)
        ]
        sampled = engine.sample(prompts)
        marks.append(time.perf_counter())
        rows = []
        for start in range(0, len(prompts), case.size):
            rewards = [reward(list(s.token_ids)) for s in sampled[start : start + case.size]]
            mean, spread = statistics.mean(rewards), statistics.stdev(rewards)
            for prompt, s, r in zip(prompts[start:], sampled[start:], rewards, strict=False):
                n = len(s.token_ids)
                ids, advantage = prompt.ids + s.token_ids, (r - mean) / (spread + 1e-4)
                rows.append(Row(ids, len(prompt.ids), (advantage,) * n, (True,) * n, s.logprobs))
        engine.forward_backward(rows, LossConfig(name="dapo"))
        marks.append(time.perf_counter())
        engine.optim_step(case.lr, OptimConfig(beta2=0.999))
        marks.append(time.perf_counter())
        names = ("sample", "gradient", "update")
        parts = {name: b - a for name, a, b in zip(names, marks, marks[1:], strict=False)}
        tell(seconds=marks[-1] - marks[0], cpu=time.process_time() - busy, parts=parts)
    wait()
    tell_peak()


def trl(case: Case, base: Path, steps: int) -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Steps(TrainerCallback):
        begun = busy = 0.0

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            wait()
            self.begun, self.busy = time.perf_counter(), time.process_time()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            tell(seconds=time.perf_counter() - self.begun, cpu=time.process_time() - self.busy)

    with tempfile.TemporaryDirectory() as scratch:
        settings = GRPOConfig(
            output_dir=scratch,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            per_device_train_batch_size=len(case.prompts) * case.size,
            num_generations=case.size,
            max_completion_length=case.new,
            max_steps=steps,
            learning_rate=case.lr,
            lr_scheduler_type="constant",
            loss_type="dapo",
            beta=0.0,
            max_grad_norm=1.0,
            generation_kwargs={"min_new_tokens": case.new},
        )
        data = Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in case.prompts])
        rewards: Callable[..., Any] = lambda completion_ids, **_: [reward(ids) for ids in completion_ids]  # noqa: E731
        trainer = GRPOTrainer(str(base), rewards, args=settings, train_dataset=data, callbacks=[Steps()])
        tell(ready=True)
        trainer.train()
    wait()
    tell_peak()


def make_tiny(folder: Path) -> Path:
    """A random Llama of 1.05 M weights with a tokenizer of letters."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {s: i for i, s in enumerate(["<pad>", "<end>", *SYMBOLS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<end>", unk_token="<pad>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        eos_token_id=1,
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def find_smollm2() -> Path:
    import os

    from coevo.models import weights

    return weights.find_folder("", cache=weights.cache_folder(), environ=os.environ, notify=print)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about half the steps")
    parser.add_argument("--cases", default="tiny,smollm2")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", help="also write the numbers here")
    for hidden in ("--side", "--case", "--base"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads and args.side:
        import torch

        torch.set_num_threads(args.threads)
    if args.steps and args.steps < 2:
        parser.error("--steps: at least 2, since the first is not counted")
    return args


if __name__ == "__main__":
    main()
