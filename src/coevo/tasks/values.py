"""Plain values as JSON: what tests.jsonl can say that JSON alone cannot.

An object with one tag as its first key stands for a value that JSON has no word for:

    {"$tuple": [1, 2]}                    (1, 2)
    {"$set": [1, 2]}, {"$frozenset": []}  {1, 2}, frozenset()
    {"$dict": [[1, "one"], [2, "two"]]}   {1: "one", 2: "two"}: keys that are not strings, or that begin with "$"
    {"$bytes": "00ff"}                    bytes, as hexadecimal
    {"$float": "nan"}                     nan, inf, -inf
    {"$int": "0x1f"}                      an integer of any length, decimal or 0x hexadecimal
    {"$complex": [1.0, -2.0]}             1 - 2j
    {"$array": [[1, 2]], "dtype": "float64", "shape": [1, 2]}   a numpy array; shape only matters for empty ones

Everything else is JSON as it stands. `from_json(to_json(value))` is `value` again, with the same types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 200
"""Nesting beyond this is refused, so that no value can exhaust the interpreter's stack."""

MAX_DIGITS = 4000
"""Longer integers are written in hexadecimal: Python refuses decimal text of more than 4,300 digits."""


def to_json(value: Any, depth: int = 0) -> Any:
    """Return what `json.dumps` can write for a plain value. Raises ValueError for a value that is not plain."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if value.bit_length() < MAX_DIGITS * 3 else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if kind is complex:
        return {"$complex": [to_json(value.real), to_json(value.imag)]}
    if kind in (bytes, bytearray):
        return {"$bytes": bytes(value).hex()}
    inner = depth + 1
    if kind is list:
        return [to_json(item, inner) for item in value]
    if kind is tuple:
        return {"$tuple": [to_json(item, inner) for item in value]}
    if kind in (set, frozenset):
        # Sorted by type and text: sets have no order of their own, and files should not differ between runs.
        items = sorted(value, key=lambda item: (type(item).__name__, repr(item)))
        return {f"${kind.__name__}": [to_json(item, inner) for item in items]}
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: to_json(item, inner) for key, item in value.items()}
        return {"$dict": [[to_json(key, inner), to_json(item, inner)] for key, item in value.items()]}
    if kind.__module__ == "numpy":
        return _array_to_json(value, inner)
    raise ValueError(f"a {kind.__name__} is not plain data")


def from_json(data: Any, depth: int = 0) -> Any:
    """Return the plain value that parsed JSON stands for. Raises ValueError that names a wrong tag or its content."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    inner = depth + 1
    if isinstance(data, list):
        return [from_json(item, inner) for item in data]
    if not isinstance(data, dict):
        return data
    tag = next(iter(data), "")
    if not tag.startswith("$"):
        return {key: from_json(item, inner) for key, item in data.items()}
    if tag == "$array":
        return _array_from_json(data, inner)
    if tag not in _TAGS:
        raise ValueError(f"unknown tag {tag!r}; known: {', '.join(sorted([*_TAGS, '$array']))}")
    if len(data) > 1:
        raise ValueError(f"an object with the tag {tag!r} takes no further key, but has {list(data)[1]!r}")
    try:
        return _TAGS[tag](data[tag], inner)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{tag}: {e}") from None


def _items(content: Any, depth: int) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError(f"takes a list, not {content!r:.60}")
    return [from_json(item, depth) for item in content]


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError(f"takes a string, not {content!r:.60}")
    return content


def _dict(content: Any, depth: int) -> dict[Any, Any]:
    pairs = _items(content, depth)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("takes a list of [key, value] pairs")
    return dict(pairs)


def _float(content: Any, depth: int) -> float:
    known = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    if not isinstance(content, str) or content not in known:
        raise ValueError(f"takes one of {', '.join(known)}, not {content!r:.60}")
    return known[content]


def _int(content: Any, depth: int) -> int:
    text = _text(content)
    return int(text, 16) if text.lower().lstrip("+-").startswith("0x") else int(text)


def _complex(content: Any, depth: int) -> complex:
    parts = _items(content, depth)
    if len(parts) != 2 or not all(isinstance(part, (int, float)) for part in parts):
        raise ValueError(f"takes [real, imaginary], not {content!r:.60}")
    return complex(*parts)


_TAGS: dict[str, Callable[[Any, int], Any]] = {
    "$tuple": lambda content, depth: tuple(_items(content, depth)),
    "$set": lambda content, depth: set(_items(content, depth)),
    "$frozenset": lambda content, depth: frozenset(_items(content, depth)),
    "$dict": _dict,
    "$bytes": lambda content, depth: bytes.fromhex(_text(content)),
    "$float": _float,
    "$int": _int,
    "$complex": _complex,
}

_ARRAY_KINDS = "biufc"
"""Array types that hold numbers only: booleans, integers, floats, complex."""


def _array_to_json(value: Any, depth: int) -> Any:
    import numpy as np

    if isinstance(value, np.generic):
        return {"$array": to_json(value.item(), depth), "dtype": str(value.dtype), "shape": []}
    if not isinstance(value, np.ndarray) or value.dtype.kind not in _ARRAY_KINDS:
        raise ValueError(f"a {type(value).__name__} of {getattr(value, 'dtype', 'no dtype')} is not plain data")
    return {"$array": to_json(value.tolist(), depth), "dtype": str(value.dtype), "shape": list(value.shape)}


def _array_from_json(data: dict[str, Any], depth: int) -> Any:
    import numpy as np

    extra = set(data) - {"$array", "dtype", "shape"}
    if extra:
        raise ValueError(f"$array takes dtype and shape, not {sorted(extra)[0]!r}")
    try:
        dtype = np.dtype(data.get("dtype", "float64"))
        if dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"dtype {dtype} does not hold numbers")
        array = np.array(from_json(data["$array"], depth), dtype=dtype)
        shaped = array.reshape(data["shape"]) if "shape" in data else array
    except (TypeError, ValueError, OverflowError) as e:
        raise ValueError(f"$array: {e}") from None
    return shaped[()] if data.get("shape") == [] else shaped
