"""TRL's completion logs: `GRPOConfig(log_completions=True)` writes `OUTPUT_DIR/completions/completions_NNNNN.parquet` at every log event, with
the columns `step`, `prompt`, `completion`, one per reward function (by its name), what reward functions logged beside (`log_extra`), and
`advantage` (read from `GRPOTrainer.log` of TRL 1.16). Prompts and completions are texts, or chats: lists of messages.

Two things the log does not say. The weights of the reward functions: `reward` is their plain sum. And which numbers are rewards and which are
extras: all are taken as parts. Where the advantages contradict that sum, a note says so.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from coevo.evidence.layouts import Layout, Numbers

NAMES = {"completion": "response", "advantages": "advantage"}
_NO_PARTS = {"step", "prompt", "completion", "advantage", "advantages", "image", "images", "schema"}


def recognises(columns: Collection[str]) -> bool:
    found = set(columns)
    return {"prompt", "completion"} <= found and ("advantage" in found or "step" in found)


def is_part(name: str) -> bool:
    return name not in _NO_PARTS and not name.startswith(("__", "text."))


def derive(numbers: Numbers) -> list[str]:
    """`reward`, as the sum of its parts; rows in which a reward function abstained (null) sum the others, as TRL does (nansum)."""
    parts = {name: column for name, column in numbers.items() if name.startswith("parts.")}
    if "reward" in numbers or not parts:
        return []
    table = np.stack(list(parts.values()))
    known = np.isfinite(table).any(axis=0)
    numbers["reward"] = np.where(known, np.nansum(table, axis=0), np.nan)
    names = ", ".join(name.removeprefix("parts.") for name in parts)
    notes = [f"reward is the plain sum of {names}: the log does not say their weights"] if len(parts) > 1 else []
    advantage = numbers.get("advantage")
    if advantage is not None and (odd := _contradicted(numbers["reward"], advantage, numbers.get("step"))):
        notes.append(
            f"in {odd:.0%} of neighbouring rows the higher advantage has the lower sum of {names}: weights differ, or some are no rewards"
        )
    return notes


def _contradicted(reward: np.ndarray, advantage: np.ndarray, step: np.ndarray | None) -> float:
    """Share of neighbours (mostly of one group) whose order by advantage is against their order by reward, where over a tenth."""
    up, gain = np.diff(advantage), np.diff(reward)
    fine = np.isfinite(up) & np.isfinite(gain) & (up != 0)
    if step is not None:
        fine &= np.diff(step) == 0
    if fine.sum() < 20:
        return 0.0
    share = float((up[fine] * gain[fine] < 0).mean())
    return share if share > 0.1 else 0.0


LAYOUT = Layout(
    name="trl",
    title="TRL completion logs (log_completions=True)",
    recognises=recognises,
    names=NAMES,
    is_part=is_part,
    derive=derive,
    summed=True,
    truth='in a reward function, which TRL gives log_extra: log_extra("truth", [hidden(c) for c in completions])',
    note="TRL logs the last generation batch of each logging interval only; logging_steps=1 logs all",
)
