"""Plain data to bytes and back, exactly. Read by both sides of the wall; imports nothing but the stdlib.

Plain data: None, bool, int of any length, float (every bit pattern a float can keep), complex, str (lone surrogates
included), bytes, list, tuple, dict, set, frozenset, and numpy scalars and arrays of bool, integer, float and complex
dtypes (arrays arrive in C order). Types are exact: 1, 1.0 and True stay apart.

`encode` runs beside code that may be hostile, so it never calls a method that a value's class could have overridden:
types are told by identity, contents are read through the base types. A subclass of a plain type (a
namedtuple, a Counter, an IntEnum, a str that claims to equal everything) leaves as the plain value it holds.

`decode` runs in the judge on bytes that may be forged. It executes nothing, allocates no more than
in proportion to the input, and raises `CodecError` for whatever is not a value.

Layout: a value is one tag byte and a body; counts and lengths are a byte below 255, or 255 and eight bytes; numbers are
little-endian. Lists and tuples of only floats, or only 64-bit ints, are packed arrays.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

MAX_BYTES = 1 << 30
MAX_DEPTH = 100
MAX_COLLISIONS = 64
"""How many keys of one dict or set may share a hash with another: forged keys that all collide take quadratic time."""


class CodecError(ValueError):
    """A value is not plain data, is too large or nested too deeply; or bytes are not an encoded value."""


MAX_DIMENSIONS = 32

_float = struct.Struct("<d")
_int = struct.Struct("<q")
_pair = struct.Struct("<dd")
_count = struct.Struct("<Q")
_DTYPES = frozenset(
    order + code
    for codes, orders in (
        (("b1", "i1", "u1"), "|"),
        (("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "f16", "c8", "c16", "c32"), "<>"),
    )
    for code in codes
    for order in orders
)
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__


def encode(value: Any, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, arrays: bool = True) -> bytes:
    """Bytes of `value`. Raises `CodecError` if it is not plain data, or past the caps, or (without `arrays`) numpy's."""
    out = bytearray()
    _Encoder(out, max_bytes, arrays).put(value, max_depth)
    if len(out) > max_bytes:
        raise TooLarge(max_bytes)
    return bytes(out)


def decode(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """The value that `data` encodes. Raises `CodecError` for anything else. Arrays are fresh and writable."""
    decoder = _Decoder(data)
    try:
        value = decoder.get(max_depth)
    except CodecError:
        raise
    except (ValueError, IndexError, struct.error, OverflowError, TypeError, UnicodeDecodeError) as e:
        raise CodecError(f"not an encoded value: {e}") from None
    if decoder.at != len(data):
        raise CodecError(f"{len(data) - decoder.at} bytes follow the encoded value")
    return value


class TooLarge(CodecError):
    """The encoded value passes its cap in bytes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the value takes more than {max_bytes:,} bytes")


def _put_count(out: bytearray, n: int) -> None:
    if n < 255:
        out.append(n)
    else:
        out.append(255)
        out += _count.pack(n)


class _Encoder:
    """Appends encoded values to `out`."""

    def __init__(self, out: bytearray, max_bytes: int, arrays: bool) -> None:
        self.out = out
        self.max_bytes = max_bytes
        self.arrays = arrays
        self.numpy = sys.modules.get("numpy")

    def put(self, value: Any, depth: int) -> None:
        kind = type(value)
        writer = _WRITERS.get(id(kind))
        if writer is None:
            self._put_other(value, kind, depth)
        else:
            writer(self, value, depth)

    def none(self, value: None, depth: int) -> None:
        self.out += b"N"

    def boolean(self, value: bool, depth: int) -> None:
        self.out += b"T" if value else b"F"

    def integer(self, value: int, depth: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self.out += b"i" + _int.pack(value)
        else:
            size = value.bit_length() // 8 + 1
            self._room(size)
            self._body(b"I", value.to_bytes(size, "little", signed=True))

    def floating(self, value: float, depth: int) -> None:
        self.out += b"f" + _float.pack(value)

    def complex_(self, value: complex, depth: int) -> None:
        self.out += b"c" + _pair.pack(value.real, value.imag)

    def text(self, value: str, depth: int) -> None:
        self._room(len(value))
        self._body(b"s", value.encode("utf-8", "surrogatepass"))

    def binary(self, value: bytes, depth: int) -> None:
        self._room(len(value))
        self._body(b"b", value)

    def sequence(self, value: list[Any] | tuple[Any, ...], depth: int, is_list: bool) -> None:
        out, n = self.out, len(value)
        if n > 3:
            self._room(n)
            kinds = set(map(id, map(type, value)))
            packed = b""
            if kinds == _ONLY_FLOAT:
                packed = struct.pack(f"<{n}d", *value)
                out += b"D" if is_list else b"E"
            elif kinds == _ONLY_INT:
                try:
                    packed = struct.pack(f"<{n}q", *value)
                    out += b"Q" if is_list else b"R"
                except struct.error:
                    pass  # some int needs more than 64 bits
            if packed:
                _put_count(out, n)
                out += packed
                return
        out += b"l" if is_list else b"t"
        _put_count(out, n)
        self._items(value, depth)

    def list_(self, value: list[Any], depth: int) -> None:
        self.sequence(value, depth, True)

    def tuple_(self, value: tuple[Any, ...], depth: int) -> None:
        self.sequence(value, depth, False)

    def set_(self, value: set[Any], depth: int) -> None:
        self.out += b"S"
        _put_count(self.out, len(value))
        self._items(list(value), depth)

    def frozenset_(self, value: frozenset[Any], depth: int) -> None:
        self.out += b"Z"
        _put_count(self.out, len(value))
        self._items(list(value), depth)

    def dict_(self, value: dict[Any, Any], depth: int) -> None:
        pairs = list(value.items())
        self.out += b"d"
        _put_count(self.out, len(pairs))
        self._items([k for k, _ in pairs], depth)
        self._items([v for _, v in pairs], depth)

    def _items(self, items: Any, depth: int) -> None:
        if depth <= 0:
            raise CodecError("the value is nested too deeply (or holds itself)")
        for item in items:
            self.put(item, depth - 1)
        self._room(0)

    def _body(self, tag: bytes, raw: bytes) -> None:
        self.out += tag
        _put_count(self.out, len(raw))
        self.out += raw

    def _room(self, size: int) -> None:
        if len(self.out) + size > self.max_bytes:
            raise TooLarge(self.max_bytes)

    def _put_other(self, value: Any, kind: type, depth: int) -> None:
        numpy = self.numpy
        if numpy is not None and (kind is numpy.ndarray or id(kind) in _numpy_scalars(numpy)):
            self._put_numpy(value, kind is numpy.ndarray)
            return
        bases = set(map(id, _mro_of(kind)))
        for base, plain in _PLAIN:
            if id(base) in bases:
                self.put(plain(value), depth)
                return
        raise CodecError(f"{_describe(kind)} is not plain data{_hint(kind)}")

    def _put_numpy(self, value: Any, is_array: bool) -> None:
        if not self.arrays:
            raise CodecError("a numpy value needs the numpy preload set")
        code = value.dtype.str
        if code not in _DTYPES:
            raise CodecError(
                f"a numpy value of dtype {value.dtype.name!r} is not plain data: only bool and numbers are"
            )
        self._room(value.nbytes)
        _check_shape(value.shape, value.nbytes)
        self.out += b"A" if is_array else b"n"
        self._body(b"", code.encode())
        if is_array:
            _put_count(self.out, value.ndim)
            for size in value.shape:
                _put_count(self.out, size)
        self._body(b"", value.tobytes())


def _check_shape(shape: tuple[int, ...], n_bytes: int) -> None:
    """Refuse an array that, as nested lists, would be far larger than its numbers: axes of length 0 or 1 are free here, not there."""
    if len(shape) > MAX_DIMENSIONS:
        raise CodecError(f"an array of {len(shape)} dimensions; at most {MAX_DIMENSIONS} are carried")
    lists = outer = 1
    for n in shape[:-1]:
        outer *= n
        lists += outer
    if lists > 4 * n_bytes + 1024:
        raise CodecError(f"an array of shape {shape} holds almost nothing but axes of length 0 or 1: leave them out")


def _describe(kind: type) -> str:
    name = _name_of(kind)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _hint(kind: type) -> str:
    name = _name_of(kind)
    if name in (
        "generator",
        "range",
        "map",
        "filter",
        "zip",
        "list_iterator",
        "dict_keys",
        "dict_values",
        "dict_items",
        "deque",
    ):
        return ": return list(...) of it"
    if name in ("coroutine", "async_generator"):
        return ": define the function without async"
    if name == "bytearray":
        return ": return bytes(...) of it"
    if name in ("function", "builtin_function_or_method", "type", "method"):
        return ": return values"
    return ": return numbers, strings, lists, tuples, dicts, sets or numpy arrays"


_ONLY_FLOAT = {id(float)}
_ONLY_INT = {id(int)}
_WRITERS: dict[int, Callable[[_Encoder, Any, int], None]] = {
    id(type(None)): _Encoder.none,
    id(bool): _Encoder.boolean,
    id(int): _Encoder.integer,
    id(float): _Encoder.floating,
    id(complex): _Encoder.complex_,
    id(str): _Encoder.text,
    id(bytes): _Encoder.binary,
    id(list): _Encoder.list_,
    id(tuple): _Encoder.tuple_,
    id(dict): _Encoder.dict_,
    id(set): _Encoder.set_,
    id(frozenset): _Encoder.frozenset_,
}
_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (complex, complex.__pos__),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (tuple, lambda value: tuple.__getitem__(value, slice(None))),
    (list, lambda value: list.__getitem__(value, slice(None))),
    (dict, lambda value: dict(dict.items(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
)
"""How the plain value inside an instance of a subclass is read, through the base type alone."""

_scalar_ids: dict[int, frozenset[int]] = {}


def _numpy_scalars(numpy: Any) -> frozenset[int]:
    found = _scalar_ids.get(id(numpy))
    if found is None:
        types = (numpy.dtype(code) for code in numpy.typecodes["AllInteger"] + numpy.typecodes["AllFloat"] + "?")
        found = frozenset(id(dtype.type) for dtype in types if dtype.str in _DTYPES)
        _scalar_ids[id(numpy)] = found
    return found


class _Decoder:
    """Reads encoded values from `data`, from offset `at` on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def get(self, depth: int) -> Any:
        data, at = self.data, self.at
        tag = data[at]
        self.at = at + 1
        if tag == 0x69:  # i
            self.at = at + 9
            return _int.unpack_from(data, at + 1)[0]
        if tag == 0x66:  # f
            self.at = at + 9
            return _float.unpack_from(data, at + 1)[0]
        if tag == 0x73:  # s
            return self._raw().decode("utf-8", "surrogatepass")
        reader = _READERS.get(tag)
        if reader is None:
            raise CodecError(f"unknown tag {tag:#x} at byte {at}")
        return reader(self, depth)

    def count(self, size: int) -> int:
        """A count of things that take at least `size` bytes each."""
        n = self.data[self.at]
        self.at += 1
        if n == 255:
            n = _count.unpack_from(self.data, self.at)[0]
            self.at += 8
        if n * size > len(self.data) - self.at:
            raise CodecError(f"a count of {n} at byte {self.at} is more than the bytes that follow")
        return n

    def _raw(self) -> bytes:
        n = self.count(1)
        at = self.at
        self.at = at + n
        return self.data[at : at + n]

    def items(self, n: int, depth: int) -> list[Any]:
        if depth <= 0:
            raise CodecError("the value is nested too deeply")
        get, inner = self.get, depth - 1
        return [get(inner) for _ in range(n)]

    def integer(self, depth: int) -> int:
        return int.from_bytes(self._raw(), "little", signed=True)

    def complex_(self, depth: int) -> complex:
        real, imag = _pair.unpack_from(self.data, self.at)
        self.at += 16
        return complex(real, imag)

    def list_(self, depth: int) -> list[Any]:
        return self.items(self.count(1), depth)

    def packed(self, code: str) -> tuple[Any, ...]:
        n = self.count(8)
        at = self.at
        self.at = at + 8 * n
        return struct.unpack_from(f"<{n}{code}", self.data, at)

    def distinct(self, depth: int) -> list[Any]:
        """Keys of a dict or members of a set: hashable, and not crafted to collide."""
        keys = self.items(self.count(1), depth)
        if len(set(map(hash, keys))) + MAX_COLLISIONS < len(keys):
            raise CodecError("the keys of a dict or set collide")
        return keys

    def set_(self, depth: int) -> set[Any]:
        members = self.distinct(depth)
        result = set(members)
        if len(result) != len(members):
            raise CodecError("a set holds a member twice")
        return result

    def dict_(self, depth: int) -> dict[Any, Any]:
        keys = self.distinct(depth)
        result = dict(zip(keys, self.items(len(keys), depth), strict=True))
        if len(result) != len(keys):
            raise CodecError("a dict holds a key twice")
        return result

    def _numpy(self) -> tuple[Any, Any]:
        try:
            import numpy
        except ImportError:
            raise CodecError("a numpy value arrived where numpy is not loaded") from None
        code = self._raw().decode("ascii")
        if code not in _DTYPES:
            raise CodecError(f"dtype {code!r} is not one that is carried")
        return numpy, numpy.dtype(code)

    def scalar(self, depth: int) -> Any:
        numpy, dtype = self._numpy()
        raw = self._raw()
        if len(raw) != dtype.itemsize:
            raise CodecError(f"a numpy scalar of {dtype} has {len(raw)} bytes")
        return _numbers(numpy, raw, dtype)[0]

    def array(self, depth: int) -> Any:
        numpy, dtype = self._numpy()
        dimensions = self.count(1)
        if dimensions > MAX_DIMENSIONS:
            raise CodecError(f"an array of {dimensions} dimensions; at most {MAX_DIMENSIONS} are carried")
        shape = tuple(self._size() for _ in range(dimensions))
        raw = self._raw()
        _check_shape(shape, len(raw))
        size = dtype.itemsize
        for n in shape:
            size *= n
        if size != len(raw):
            raise CodecError(f"an array of {dtype} and shape {shape} cannot have {len(raw)} bytes")
        return _numbers(numpy, raw, dtype).reshape(shape).copy()

    def _size(self) -> int:
        n = self.data[self.at]
        self.at += 1
        if n == 255:
            n = _count.unpack_from(self.data, self.at)[0]
            self.at += 8
        return n


def _numbers(numpy: Any, raw: bytes, dtype: Any) -> Any:
    """A flat array. Truth values are made of 0 and 1 again: a forged byte of 2 is True, but a 2 in a view of the array."""
    if dtype.kind == "b":
        return numpy.frombuffer(raw, numpy.uint8) != 0
    return numpy.frombuffer(raw, dtype)


_READERS: dict[int, Callable[[_Decoder, int], Any]] = {
    ord("N"): lambda d, depth: None,
    ord("T"): lambda d, depth: True,
    ord("F"): lambda d, depth: False,
    ord("I"): _Decoder.integer,
    ord("c"): _Decoder.complex_,
    ord("b"): lambda d, depth: d._raw(),
    ord("l"): _Decoder.list_,
    ord("t"): lambda d, depth: tuple(d.list_(depth)),
    ord("D"): lambda d, depth: list(d.packed("d")),
    ord("E"): lambda d, depth: d.packed("d"),
    ord("Q"): lambda d, depth: list(d.packed("q")),
    ord("R"): lambda d, depth: d.packed("q"),
    ord("S"): _Decoder.set_,
    ord("Z"): lambda d, depth: frozenset(d.set_(depth)),
    ord("d"): _Decoder.dict_,
    ord("A"): _Decoder.array,
    ord("n"): _Decoder.scalar,
}
