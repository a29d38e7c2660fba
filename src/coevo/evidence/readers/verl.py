"""verl's dumps: `trainer.rollout_data_dir` (and `validation_data_dir`) get a file `STEP.jsonl` a step, one object a rollout, with `input`, `output`,
`gts` (the expected answer), `score` (the sum of token-level scores), `step`, and whatever the reward function returned beside its score
(`reward_extra_info`: `acc`, `pred`, named rewards; newer versions add `request_id`). Read from `RayPPOTrainer._dump_generations`.

`acc` is verl's own word for "the answer was right" by the reward function: our `meaning_ok`. It is no hidden truth. Numbers that come beside it are parts.
"""

from __future__ import annotations

from collections.abc import Collection

from coevo.evidence.layouts import Layout

NAMES = {
    "input": "prompt",
    "output": "response",
    "score": "reward",
    "acc": "meaning_ok",
    "data_source": "kind",
    "uid": "group",
}
_NO_PARTS = {
    *NAMES,
    "gts",
    "ground_truth",
    "step",
    "request_id",
    "index",
    "pred",
    "schema",
    "num_turns",
    "__num_turns__",
}


def recognises(columns: Collection[str]) -> bool:
    return {"input", "output", "score"} <= set(columns)


def is_part(name: str) -> bool:
    return name not in _NO_PARTS and not name.startswith(("__", "text."))


LAYOUT = Layout(
    name="verl",
    title="verl rollout dumps (trainer.rollout_data_dir)",
    recognises=recognises,
    names={**NAMES, "num_turns": "turns", "__num_turns__": "turns"},
    is_part=is_part,
    truth='in the reward function: return {"score": score, "truth": hidden(solution_str)}',
)
