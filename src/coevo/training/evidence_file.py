"""Reading evidence rows (schema 1) that somebody else's trainer wrote, one JSON object a line. Bad rows are named by their line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from coevo.episodes.evidence import COLUMNS, SCHEMA
from coevo.errors import UsageError

REQUIRED = ("step", "split", "task", "group", "sample", "reward")
"""Columns every row must have; `reward` may be null where `unmeasured_reason` says why. All others may be left out."""

TOLD = 10
"""Bad lines that are told at most."""


def read_evidence(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a checked file, every column filled in, one at a time. Raises `UsageError` as `check_evidence` does."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                yield {**_EMPTY, **json.loads(line)}


def check_evidence(file: Path) -> int:
    """The number of rows. Raises `UsageError` that names the first bad lines and what is wrong with each."""
    found, count, last = [], 0, 0
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                row, wrong = _parsed(line)
                if row is not None and not wrong:
                    wrong = _wrong(row) or (f"step {row['step']} after step {last}" if row["step"] < last else "")
                if wrong:
                    found.append(f"line {number}: {wrong}")
                    if len(found) > TOLD:
                        break
                else:
                    count, last = count + 1, row["step"] if row else last
    except OSError as e:
        raise UsageError(f"cannot read evidence {file}: {e.strerror or e}") from None
    if found:
        more = " (and more)" if len(found) > TOLD else ""
        raise UsageError(f"evidence {file} is not schema {SCHEMA}: {'; '.join(found[:TOLD])}{more}")
    if not count:
        raise UsageError(f"evidence {file} holds no rows; write one JSON object per rollout (docs/rewards.md)")
    return count


def _parsed(line: str) -> tuple[dict[str, Any] | None, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        return None, f"not JSON ({str(e)[:120]})"
    return (row, "") if isinstance(row, dict) else (None, f"not an object but {type(row).__name__}")


def _wrong(row: Mapping[str, Any]) -> str:
    """What keeps a row from being evidence; empty for a good one."""
    for name in row:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1)
            return f"unknown column {name!r}." + (f" Did you mean {near[0]!r}?" if near else "")
    if missing := [name for name in REQUIRED if name not in row]:
        return f"without {', '.join(missing)}"
    for name, value in row.items():
        if value is None and name not in _NEVER_NULL:
            continue
        test, said = _KINDS[name]
        if not test(value):
            return f"{name} = {json.dumps(value)[:80]} is not {said}"
    if row["reward"] is None and not row.get("unmeasured_reason"):
        return "reward is null without an unmeasured_reason; a rollout that failed has a reward, one that could not be judged has a reason"
    return ""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_number, value.values()))


_TEXT = (lambda value: isinstance(value, str), "a text")
_NUMBER = (_number, "a finite number")
_COUNT = (_count, "a whole number of 0 or more")
_FLAG = (lambda value: isinstance(value, bool), "true or false")

_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "schema": (lambda value: value == SCHEMA, f"{SCHEMA}, the schema this version reads"),
    **dict.fromkeys(("run", "branch", "kind", "prompt", "response", "stop_reason"), _TEXT),
    **dict.fromkeys(("unmeasured_reason", "edit_kind", "program_hash", "state_source"), _TEXT),
    **dict.fromkeys(("split", "task"), (lambda value: isinstance(value, str) and bool(value), "a name")),
    "step": (lambda value: _count(value) and value >= 1, "a whole number of 1 or more"),
    "group": (lambda value: isinstance(value, str | int) and not isinstance(value, bool), "a text or a whole number"),
    **dict.fromkeys(("sample", "tokens", "turns", "tool_calls", "tool_errors", "depth"), _COUNT),
    **dict.fromkeys(("reward", "truth", "advantage", "logprob_mean", "entropy_mean", "wall_s", "cost_usd"), _NUMBER),
    **dict.fromkeys(("parent_fitness", "fitness", "correctness", "efficiency"), _NUMBER),
    **dict.fromkeys(("contract_ok", "copy", "meaning_ok", "kept"), _FLAG),
    "parts": (_parts, "an object of finite numbers"),
}
_NEVER_NULL = ("step", "split", "task", "group", "sample")
_EMPTY: Mapping[str, Any] = {**dict.fromkeys(COLUMNS), "schema": SCHEMA, "parts": {}, "unmeasured_reason": ""}
