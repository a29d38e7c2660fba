"""Rows as trained, as plain data that a run can keep: what resume repeats updates from, bit by bit.

Token ids are kept as 32-bit integers, advantages as 64-bit floats, log-probabilities as 32-bit floats where they are such (they come
from float32 models), all rows end to end, compressed: rows of one group begin with the same prompt, which costs next to nothing.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from coevo.engines.types import Row
from coevo.errors import StoreError

FORMAT = 1


def pack(rows: Sequence[Row]) -> dict[str, Any]:
    """Plain data that `unpack` turns into equal rows."""
    logprobs = np.array([value for row in rows for value in row.logprobs], dtype="<f8")
    with np.errstate(over="ignore"):
        single = logprobs.astype("<f4")
    exact = bool(np.array_equal(single.astype("<f8"), logprobs))
    arrays = {
        "token_ids": np.array([token for row in rows for token in row.token_ids], dtype="<i4"),
        "advantages": np.array([value for row in rows for value in row.advantages], dtype="<f8"),
        "trained": np.array([flag for row in rows for flag in row.trained], dtype="u1"),
        "logprobs": single if exact else logprobs,
    }
    return {
        "format": FORMAT,
        "lengths": [len(row.token_ids) for row in rows],
        "prompts": [row.prompt_tokens for row in rows],
        "versions": [row.version for row in rows],
        "temperatures": [row.temperature for row in rows],
        "groups": [row.group for row in rows],
        "types": {name: array.dtype.str for name, array in arrays.items()},
        "arrays": {name: _text(array) for name, array in arrays.items()},
    }


def unpack(data: dict[str, Any]) -> list[Row]:
    """What `pack` was given. Raises `StoreError` for anything else."""
    if data.get("format") != FORMAT:
        raise StoreError(f"stored rows are of format {data.get('format')!r}; this coevo reads {FORMAT}. Upgrade coevo")
    try:
        arrays = {name: _array(text, data["types"][name]).tolist() for name, text in data["arrays"].items()}
        rows: list[Row] = []
        ids = after = 0
        per_row = (data["lengths"], data["prompts"], data["versions"], data["temperatures"], data["groups"])
        for length, prompt, version, temperature, group in zip(*per_row, strict=True):
            count = length - prompt
            part = slice(after, after + count)
            rows.append(
                Row(
                    token_ids=tuple(arrays["token_ids"][ids : ids + length]),
                    prompt_tokens=prompt,
                    advantages=tuple(arrays["advantages"][part]),
                    trained=tuple(map(bool, arrays["trained"][part])),
                    logprobs=tuple(arrays["logprobs"][part]),
                    version=version,
                    temperature=temperature,
                    group=group,
                )
            )
            ids, after = ids + length, after + count
        if ids != len(arrays["token_ids"]) or any(len(arrays[name]) != after for name in _PER_TOKEN):
            raise ValueError("the arrays are not as long as the lengths say")
        return rows
    except (KeyError, ValueError, TypeError, zlib.error) as e:
        raise StoreError(f"stored rows cannot be read ({type(e).__name__}: {e}); the run is damaged") from e


_PER_TOKEN = ("advantages", "trained", "logprobs")


def _text(array: np.ndarray) -> str:
    return base64.b85encode(zlib.compress(array.tobytes(), 6)).decode()


def _array(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=dtype)
