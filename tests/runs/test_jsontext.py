"""Text that keeps every plain value and is strict JSON all the same."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import StoreError
from coevo.runs import Budget
from coevo.runs.jsontext import dumps, loads

keys = st.text() | st.sampled_from(["$number", "$$number", "x$number", "$number "])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["$number", "nan"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=25,
)


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is not strict JSON")


def same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


@given(value=values, canonical=st.booleans())
def test_every_plain_value_comes_back(value: object, canonical: bool) -> None:
    text = dumps(value, canonical=canonical)
    json.loads(text, parse_constant=refuse)
    assert text.isascii() and same(loads(text), value)


@given(value=st.dictionaries(keys, st.floats(), max_size=6))
def test_canonical_text_does_not_depend_on_order(value: dict[str, float]) -> None:
    assert dumps(dict(reversed(value.items())), canonical=True) == dumps(value, canonical=True)


@pytest.mark.parametrize("digits", [4299, 4301, 50_000])
def test_integers_of_any_length(digits: int) -> None:
    value = [10**digits + 1, -(10**digits)]
    assert loads(dumps(value)) == value


def test_a_mapping_that_looks_like_a_tag_is_not_one() -> None:
    for value in ({"$number": "nan"}, {"$number": "0x10"}, {"$$number": [math.nan]}, {"$number": {"$number": "inf"}}):
        assert same(loads(dumps(value)), value)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple[Colour, ...]


def test_values_of_ours_become_plain() -> None:
    assert loads(dumps(Point(1.5, (Colour.RED,)))) == {"x": 1.5, "tags": ["red"]}
    assert loads(dumps([np.float32(0.5), np.int64(3), np.arange(3), np.bool_(True)])) == [0.5, 3, [0, 1, 2], True]
    assert loads(dumps({"a": np.array([1.0, np.inf])})) == {"a": [1.0, math.inf]}
    assert loads(dumps(Budget(usd=0.5)))["usd"] == 0.5


@pytest.mark.parametrize("value", [{1, 2}, b"raw", object(), {"a": [Point]}, {(1, 2): 3}])
def test_what_is_not_plain_data_is_named(value: object) -> None:
    with pytest.raises(StoreError, match="cannot store"):
        dumps(value)


def test_what_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(StoreError, match="cannot store"):
            dumps(value)
