"""Short text of any plain value: bounded, printable, never an error."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation.show import clip, printable, show

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=30)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner)
        | st.sets(st.integers(), max_size=5)
    ),
    max_leaves=40,
)


@settings(max_examples=300, deadline=None)
@given(PLAIN, st.integers(20, 300))
def test_bounded_and_encodable(value, limit: int) -> None:
    text = show(value, limit)
    assert len(text) <= limit
    text.encode("utf-8")


@given(st.text(alphabet=st.characters()), st.integers(0, 50))
def test_clip_and_printable(text: str, limit: int) -> None:
    assert len(clip(text, limit)) <= limit
    assert clip(text, len(text)) == text
    assert "\0" not in printable(text)
    printable(text).encode("utf-8")


def test_short_values_read_like_python() -> None:
    for value in (1, -2.5, "a'b", [1, (2,), {"k": None}], {1, 2}, set(), b"x", True, (), 1j):
        assert show(value) == repr(value)


def test_long_values_say_how_long() -> None:
    assert "1000 items" in show(list(range(1000)))
    assert show(10**100).endswith("(101 digits)")
    assert "about 10001 digits" in show(10**10000 + 7) and "0000000007" in show(10**10000 + 7)
    assert show(-(10**10000)).startswith("-(an integer")
    assert show(np.zeros((100, 100))).startswith("array(100x100) [0.0, ")
    assert show("x" * 10_000_000, 80).startswith("'xxx")


def test_numbers_that_python_has_no_type_for() -> None:
    """Taken out of numpy, a long double is a long double again."""
    wide = np.longdouble(1) / 3
    assert show(wide).startswith("0.333333333")
    assert show([wide, np.clongdouble(1j)]).startswith("[0.333333333")
    assert show(np.ones(3, np.longdouble)) == "array(3) [1.0, 1.0, 1.0]"
