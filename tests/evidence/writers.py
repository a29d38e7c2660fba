"""The same rollouts as each trainer writes them: files in exactly its layout."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevo.streams import stream

Row = dict[str, Any]


def rollouts(*, steps: int = 3, tasks: int = 4, size: int = 4, seed: int = 0) -> list[Row]:
    """Rows of schema 1; tasks have prompts of their own, prompts a program and expected outputs."""
    rng = stream(seed, "rollouts")
    rows = []
    for step in range(1, steps + 1):
        for task in range(tasks):
            for sample in range(size):
                right = rng.random() < 0.5
                code = f"def solve(n):\n    return n * {rng.randrange(9)} + {task}"
                rows.append(
                    {
                        "schema": 1,
                        "run": "r",
                        "branch": "b0",
                        "step": step,
                        "split": "train",
                        "task": f"task-{task}",
                        "group": f"{step}.{task}",
                        "sample": sample,
                        "kind": "function",
                        "prompt": f"Write solve for task {task}.\nassert solve(3) == {1000 + task}\nassert solve(4) == {2000 + task}",
                        "response": f"I try {rng.randrange(1000)}.\n```python\n{code}\n```\n",
                        "reward": round(rng.random(), 6) if right else -0.5,
                        "parts": {"correct": float(right), "speed": round(rng.random(), 6)},
                        "truth": float(right),
                        "contract_ok": True,
                        "meaning_ok": right,
                        "tokens": rng.randrange(20, 90),
                        "stop_reason": "stop" if right else "length",
                        "turns": 1,
                        "tool_calls": 0,
                        "tool_errors": 0,
                        "advantage": round(rng.gauss(0, 1), 6),
                        "kept": None,
                        "unmeasured_reason": "",
                    }
                )
    return rows


def jsonl(path: Path, rows: Sequence[Row]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def parquet(path: Path, rows: Sequence[Row], *, row_group: int = 1_000_000) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=row_group)
    return path


def trl(folder: Path, rows: Sequence[Row], *, chat: bool = False) -> Path:
    """`OUTPUT_DIR/completions/completions_NNNNN.parquet`, written by pandas as `GRPOTrainer.log` does."""
    import pandas as pd

    (folder / "completions").mkdir(parents=True)

    def said(role: str, text: str) -> Any:
        return [{"role": role, "content": text}] if chat else text

    for step in dict.fromkeys(row["step"] for row in rows):
        some = [row for row in rows if row["step"] == step]
        table = {
            "step": [step] * len(some),
            "prompt": [said("user", row["prompt"]) for row in some],
            "completion": [said("assistant", row["response"]) for row in some],
            "correct_reward": [row["parts"]["correct"] for row in some],
            "speed_reward": [row["parts"]["speed"] for row in some],
            "advantage": [row["advantage"] for row in some],
        }
        pd.DataFrame(table).to_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
    return folder


def verl(folder: Path, rows: Sequence[Row]) -> Path:
    """`rollout_data_dir/STEP.jsonl`, as `_dump_generations` writes it."""
    folder.mkdir()
    for step in dict.fromkeys(row["step"] for row in rows):
        lines = [
            {
                "input": row["prompt"],
                "output": row["response"],
                "gts": "secret",
                "score": row["reward"],
                "step": row["step"],
                "acc": row["meaning_ok"],
                "speed": row["parts"]["speed"],
                "request_id": f"{row['group']}-{row['sample']}",
            }
            for row in rows
            if row["step"] == step
        ]
        text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
        (folder / f"{step}.jsonl").write_text(text)
    return folder


def roll(folder: Path, rows: Sequence[Row]) -> Path:
    """`rollout_dump_data.step_N.jsonl`, one line of columns, as `dump_rollout_to_specific_path` writes it."""
    folder.mkdir()
    for step in dict.fromkeys(row["step"] for row in rows):
        some = [row for row in rows if row["step"] == step]
        columns = {
            "id": [row["task"] for row in some],
            "source": ["made"] * len(some),
            "difficulty": ["1"] * len(some),
            "prompt": [row["prompt"] for row in some],
            "messages": [json.dumps([{"role": "user", "content": row["prompt"]}]) for row in some],
            "ground_truth": ["secret"] * len(some),
            "tag": ["t"] * len(some),
            "domain": ["code"] * len(some),
            "responses": [row["response"] for row in some],
            "scores": [row["reward"] for row in some],
            "sampling_params": ["{}"] * len(some),
            "global_step": [step] * len(some),
        }
        (folder / f"rollout_dump_data.step_{step}.jsonl").write_text(json.dumps(columns, ensure_ascii=False) + "\n")
    return folder


def roll_agentic(folder: Path, rows: Sequence[Row]) -> Path:
    """The agentic pipelines' columns: the transcript is JSON text in `save_content`."""
    folder.mkdir()
    for step in dict.fromkeys(row["step"] for row in rows):
        some = [row for row in rows if row["step"] == step]

        def saved(row: Row) -> str:
            return json.dumps(
                {
                    "history": [
                        {"role": "user", "content": row["prompt"]},
                        {"role": "assistant", "content": row["response"]},
                    ]
                }
            )

        columns = {
            "task_idx": [int(row["task"].split("-")[1]) for row in some],
            "model_name": ["policy"] * len(some),
            "stop_reason": ["finish"] * len(some),
            "episode_score": [row["reward"] for row in some],
            "mode": ["train"] * len(some),
            "save_content": [saved(row) for row in some],
            "global_step": [step] * len(some),
        }
        (folder / f"rollout_dump_data.step_{step}.jsonl").write_text(json.dumps(columns) + "\n")
    return folder
