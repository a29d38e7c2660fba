"""ROLL's dumps: `rollout_dump_data.step_N.jsonl`, one line a step, an object of columns: each a list with one value a rollout. Read from
`roll/pipeline/rlvr/utils.py` and `roll/pipeline/agentic/utils.py` (alibaba/ROLL).

RLVR pipelines write `global_step`, `id`, `source`, `difficulty`, `prompt`, `messages`, `ground_truth`, `case_type`, `test_case_function`, `test_cases`,
`tag`, `domain`, `responses`, `scores`, `sampling_params`. Agentic ones write what their environment manager names in its column list:
`traj_id`, `env_ids`, `task_idx`, `model_name`, `stop_reason`, `episode_score` (or `episode_scores`), `mode`, and the transcript in `save_content` (JSON text
with a `history` of messages or turns).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from coevo.evidence.layouts import Layout, Record, plain_text

NAMES = {
    "global_step": "step",
    "id": "task",
    "task_idx": "task",
    "responses": "response",
    "scores": "reward",
    "episode_score": "reward",
    "episode_scores": "reward",
    "domain": "kind",
    "mode": "split",
    "model_name": "branch",
}
_SCORES = {"scores", "episode_score", "episode_scores"}
_HIDDEN = ("test_cases", "ground_truth", "sampling_params", "messages", "test_case_function")
"""Long, or the answers themselves: of no use to a diagnosis."""


def recognises(columns: Collection[str]) -> bool:
    found = set(columns)
    return "global_step" in found and bool(found & _SCORES)


def unfold(record: Record) -> list[Record] | None:
    """The rows of a line of columns; a line that is one row already (of a converted dump) as it is."""
    lists = {name: value for name, value in record.items() if isinstance(value, list)}
    step = record.get("global_step")
    if not isinstance(step, list):
        return [_opened(dict(record))]
    if any(len(value) != len(step) for value in lists.values()):
        return None
    if "prompt" not in lists and "messages" in lists:
        lists["prompt"] = lists["messages"]
    names = [name for name in lists if name not in _HIDDEN]
    return [_opened(dict(zip(names, values, strict=True))) for values in zip(*(lists[n] for n in names), strict=True)]


def _opened(row: Record) -> Record:
    """With the transcript of an agentic rollout as its response."""
    content = row.pop("save_content", None)
    if "responses" in row or not isinstance(content, str):
        return row
    try:
        saved: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {**row, "responses": content}
    history = saved.get("history") if isinstance(saved, dict) else None
    if isinstance(history, list):
        row["turns"] = sum(
            1 for turn in history if isinstance(turn, dict) and turn.get("role", "assistant") == "assistant"
        )
        row["responses"] = "\n".join(_turn(turn) for turn in history)
    else:
        row["responses"] = plain_text(saved) if isinstance(saved, str | dict | list) else content
    return row


def _turn(turn: Any) -> str:
    if not isinstance(turn, dict):
        return str(turn)
    said = [
        str(turn[key])
        for key in ("state", "observation", "llm_response", "response", "action_content")
        if isinstance(turn.get(key), str)
    ]
    return "\n".join(said) if said and "content" not in turn else f"{turn.get('role', '')}: {plain_text(turn)}"


LAYOUT = Layout(
    name="roll",
    title="ROLL dumps (rollout_dump_data.step_N.jsonl)",
    recognises=recognises,
    names=NAMES,
    unfold=unfold,
    truth='beside "scores" in each line of the dump: columns["truth"] = [hidden(r) for r in columns["responses"]]',
)
