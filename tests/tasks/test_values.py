"""Plain values survive JSON with their types; what is not plain is refused by name."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.tasks.values import MAX_DEPTH, from_json, to_json

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
HASHABLE = st.recursive(LEAVES, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=6)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(st.text(alphabet="$ab", max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def through(value):
    return from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_values_survive_with_their_types(value):
    # repr tells -0.0 from 0.0, True from 1 and nan from all else; sets and dicts may list their items in another order.
    assert shape(through(value)) == shape(value)


def shape(value):
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(map(str, map(shape, value)))
    if isinstance(value, dict):
        return "dict", [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shape(item) for item in value]
    return type(value).__name__, repr(value)


def test_equal_sets_are_written_alike():
    assert to_json({3, 1, 2}) == to_json({2, 3, 1}) == {"$set": [1, 2, 3]}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "complex128"])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (0, 4), (1, 0), ()])
def test_arrays_keep_dtype_and_shape(dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    again = through(array)
    assert again.dtype == array.dtype and again.shape == array.shape and np.array_equal(again, array)


def test_numpy_scalars_and_special_floats_in_arrays():
    assert through(np.float32(1.5)) == np.float32(1.5) and type(through(np.float32(1.5))) is np.float32
    again = through(np.array([math.nan, -math.inf, -0.0]))
    assert np.isnan(again[0]) and again[1] == -math.inf and math.copysign(1, again[2]) == -1


def test_integers_of_any_length():
    for value in (10**5000, -(10**5000), 1 << 20_000):
        assert through(value) == value
    assert from_json({"$int": "12345678901234567890"}) == 12345678901234567890
    assert from_json({"$int": "-0xff"}) == -255


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"$tupel": []}, "unknown tag '$tupel'"),
        ({"$tuple": 3}, "$tuple: takes a list, not 3"),
        ({"$tuple": [], "more": 1}, "takes no further key"),
        ({"$set": [[1]]}, "$set: unhashable"),
        ({"$dict": [[1, 2, 3]]}, "[key, value] pairs"),
        ({"$bytes": "0g"}, "$bytes:"),
        ({"$bytes": 7}, "takes a string"),
        ({"$float": 1.5}, "takes one of nan, inf, -inf"),
        ({"$float": ["nan"]}, "takes one of nan, inf, -inf"),
        ({"$int": "twelve"}, "$int:"),
        ({"$int": 12}, "takes a string"),
        ({"$complex": [1]}, "[real, imaginary]"),
        ({"$array": [1], "dtype": "object"}, "does not hold numbers"),
        ({"$array": [1], "dtype": "nothing"}, "$array:"),
        ({"$array": [[1], [1, 2]]}, "$array:"),
        ({"$array": [1], "shape": [2, 2]}, "$array:"),
        ({"$array": [1], "colour": "red"}, "'colour'"),
        ({"$array": [-1], "dtype": "uint8"}, "$array:"),
    ],
)
def test_wrong_tags_are_named(data, words):
    with pytest.raises(ValueError) as error:
        from_json([1, data])
    assert words in str(error.value)


@pytest.mark.parametrize("value", [object(), lambda: 0, range(3), iter([]), np.array(["a"]), np.array([None]), type])
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(ValueError, match="not plain data"):
        to_json([value])


def test_depth_is_bounded_both_ways():
    deep: list = []
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    for convert in (to_json, from_json):
        with pytest.raises(ValueError, match="deep"):
            convert(deep)
