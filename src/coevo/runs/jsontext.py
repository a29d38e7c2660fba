"""JSON text that keeps every plain value: non-finite floats and integers of any length survive, and the text is strict JSON.

NaN, the infinities, and integers too long for Python's decimal conversion are written as `{"$number": "nan"}`,
`"inf"`, `"-inf"` or a hexadecimal text. A key that looks like the tag itself gets one more `$`, so nothing a
candidate returned can be mistaken for it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import numpy as np
from pydantic import BaseModel

from coevo.errors import StoreError

_TAG = "$number"
_TAG_END = '$number"'
_LOOKS_LIKE_TAG = re.compile(r"\$+number\Z")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LONG = 1 << 4096
"""Integers from here on are written in hexadecimal (Python refuses to convert 4300 digits or more)."""


def dumps(value: Any, *, canonical: bool = False) -> str:
    """ASCII text of plain data; dataclasses, pydantic models and numpy values become plain. Tuples become lists.

    `canonical` sorts keys. Raises `StoreError` that names the type for what is not plain data.
    """
    encoder = _SORTED if canonical else _FAST
    try:
        try:
            text = encoder.encode(value)
            if _TAG_END not in text:
                return text
        except ValueError:
            pass
        return encoder.encode(_tagged(value))
    except (TypeError, ValueError) as e:
        raise StoreError(f"cannot store this as JSON: {e}; give plain data (numbers, text, lists, mappings)") from None
    except RecursionError:
        raise StoreError("cannot store this as JSON: it is nested too deep, or contains itself") from None


def loads(text: str) -> Any:
    """What `dumps` wrote."""
    return json.loads(text, object_hook=_untag if _TAG_END in text else None)


def _plain(value: Any) -> Any:
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} is not plain data")
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} is not plain data")


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        return {_escape(key): _tagged(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_tagged(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: str(float(value))}
    if isinstance(value, int):
        return value if -_LONG < value < _LONG else {_TAG: hex(value)}
    if value is None or isinstance(value, str):
        return value
    return _tagged(_plain(value))


def _escape(key: Any) -> Any:
    return "$" + key if isinstance(key, str) and _LOOKS_LIKE_TAG.match(key) else key


def _untag(found: dict[str, Any]) -> Any:
    if len(found) == 1 and isinstance(number := found.get(_TAG), str):
        return _FLOATS[number] if number in _FLOATS else int(number, 16)
    return {(key[1:] if _LOOKS_LIKE_TAG.match(key) else key): item for key, item in found.items()}


_FAST = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)
_SORTED = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain, sort_keys=True)
