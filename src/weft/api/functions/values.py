"""Encoding of the arguments and results of task functions as bytes.

A value of the types below is stored without pickle: reading it creates only objects of these types, whatever
the file contains. Any other value is stored as a pickle. Reading a pickle can run code, so the reader decides
by the nonce in the first line whether to read it.

First line of a file, and what follows it:

- ``weft json 1``: JSON, for None, bool, int, finite float, str, list, and dict with str keys;
- ``weft value 2 LENGTH``: LENGTH bytes of JSON, in which ``{"$weft": [KIND, ...]}`` stands for a value of
  another type. After the JSON follow the bytes of binary values; the JSON states their lengths. Types: tuple,
  set, frozenset, dict with other keys, bytes, bytearray, complex, range, infinite and NaN float, large int,
  Decimal, Fraction, date, time, datetime, timedelta, paths, and NumPy arrays and scalars (format NPY) without
  objects;
- ``weft pickle 1``: a pickle written by the caller; ``weft pickle 2 NONCE``: one written by an attempt.

Every task process imports this module, so it imports only small modules.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

_JSON, _TYPED, _PICKLE, _SIGNED = b"weft json 1\n", b"weft value 2 ", b"weft pickle 1\n", b"weft pickle 2 "
_MARK = "$weft"
"""Key of a JSON object that represents a value of a type unknown to JSON, or a ValueReference."""
_LARGE_BITS = 10_000
"""Integers with more bits are written in hexadecimal, because Python limits the length of decimal texts."""
_FIRST_LINE = 200

_DAMAGE = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that decoding a damaged file may raise."""


class UnsupportedValue(Exception):
    """A value cannot be sent to another process, or its file is refused; the message says why."""


class ValueReference:
    """Reference to the result of another task, which is stored in a file."""

    __slots__ = ("file",)

    def __init__(self, file: str) -> None:
        self.file = file


PickleCheck = Callable[[str], str]
"""Function that returns why a pickle is refused, or "" if it may be read.

The argument is the nonce of the attempt that wrote the pickle, "" if the caller wrote it.
"""


def refuse_pickles(_: str) -> str:
    """Return the reason for refusing a pickle; as a ``PickleCheck``, this function refuses every pickle."""
    return "it is a pickle, and reading a pickle can run code"


def encode_value(value: Any, what: str = "the value", nonce: str = "") -> bytes:
    """Return a value as bytes for a file; ``what`` names the value in messages.

    ``nonce`` is the nonce of the attempt that writes the value; it is "" if the caller writes the value.
    """
    try:
        if _is_plain(value):
            return _JSON + json.dumps(_encode_references(value)).encode()
        encoder = _TypedEncoder()
        text = json.dumps(encoder.encode(value)).encode()
        return b"".join([_TYPED, b"%d\n" % len(text), text, *encoder.blobs])
    except (_NotTyped, RecursionError):
        return _encode_pickle(value, what, nonce)


def decode_value(
    content: bytes, resolve: Callable[[str], Any], check_pickle: PickleCheck = refuse_pickles
) -> Any:
    """Return the value that ``encode_value`` encoded.

    Raises UnsupportedValue if the content is damaged, unknown or a refused pickle.

    ``resolve`` returns the value in another file; ``check_pickle`` decides whether a pickle is read.
    """
    try:
        if content.startswith(_JSON):
            return _resolve_references(json.loads(content[len(_JSON) :]), resolve)
        if content.startswith(_TYPED):
            return _TypedDecoder(content, resolve).decode()
    except _DAMAGE as error:
        raise UnsupportedValue(f"the value file is damaged: {error}") from None
    if not content.startswith((_PICKLE, _SIGNED)):
        raise UnsupportedValue("the value file was not written by weft: its first line is unknown")
    line, _, rest = content.partition(b"\n")
    nonce = line[len(_SIGNED) : _FIRST_LINE].decode(errors="replace") if line.startswith(_SIGNED) else ""
    if problem := check_pickle(nonce):
        raise UnsupportedValue(problem)
    return _ValueUnpickler(io.BytesIO(rest), resolve).load()


# Plain values.


def _is_plain(value: Any) -> bool:
    """Return whether JSON preserves a value exactly; False for a tuple, which would become a list."""
    kind = type(value)
    if value is None or kind in (bool, str, ValueReference):
        return True
    if kind is int:
        return value.bit_length() <= _LARGE_BITS  # type: ignore[no-any-return]
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_is_plain, value))
    return (
        kind is dict
        and _MARK not in value
        and all(type(key) is str and _is_plain(value[key]) for key in value)
    )


def _encode_references(value: Any) -> Any:
    if type(value) is ValueReference:
        return {_MARK: value.file}
    if type(value) is list:
        return [_encode_references(item) for item in value]
    return {key: _encode_references(item) for key, item in value.items()} if type(value) is dict else value


def _resolve_references(value: Any, resolve: Callable[[str], Any]) -> Any:
    if type(value) is list:
        return [_resolve_references(item, resolve) for item in value]
    if type(value) is not dict:
        return value
    if _MARK in value:
        return resolve(value[_MARK])
    return {key: _resolve_references(item, resolve) for key, item in value.items()}


# Values of other known types.


class _NotTyped(Exception):
    """Raised for a value whose type only a pickle preserves."""


class _TypedEncoder:
    """Encodes values as JSON and collects binary data in ``blobs``; the JSON states their lengths."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []

    def encode(self, value: Any) -> Any:
        """Return a value as data for JSON; raise _NotTyped for an unknown type."""
        kind = type(value)
        if kind is ValueReference:
            return {_MARK: ["value", value.file]}
        if _is_scalar(value):
            return value
        if kind is list:
            return [self.encode(item) for item in value]
        if kind is dict:
            return self._encode_dict(value)
        if (encode := _ENCODERS.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
            return {_MARK: encode(self, value)}
        if "numpy" in sys.modules:
            return {_MARK: self._encode_numpy(value)}
        raise _NotTyped

    def _encode_dict(self, value: dict[Any, Any]) -> Any:
        if _MARK not in value and all(type(key) is str for key in value):
            return {key: self.encode(item) for key, item in value.items()}
        return {_MARK: ["dict", [[self.encode(key), self.encode(item)] for key, item in value.items()]]}

    def encode_items(self, value: Any) -> list[Any]:
        """Return the items of a sequence as data for JSON."""
        return [self.encode(item) for item in value]

    def encode_set(self, value: Any) -> list[Any]:
        """Return the items of a set, in an order that depends only on the set."""
        ordered = sorted(value, key=lambda item: (type(item).__qualname__, repr(item)))
        return self.encode_items(ordered)

    def add_blob(self, content: bytes) -> int:
        """Append bytes to ``blobs`` and return the number of these bytes."""
        self.blobs.append(content)
        return len(content)

    def _encode_numpy(self, value: Any) -> list[Any]:
        import numpy as np

        if type(value) is np.ndarray:
            kind, array = "array", value
        elif isinstance(value, np.generic) and type(value) is value.dtype.type:
            kind, array = "scalar", np.asarray(value)
        else:
            raise _NotTyped
        if not _is_stored_exactly(array.dtype):
            raise _NotTyped
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, allow_pickle=False)
        return [kind, self.add_blob(stream.getvalue())]


def _is_scalar(value: Any) -> bool:
    """Return whether JSON represents a value directly, without a mark for its type."""
    kind = type(value)
    if kind is int:
        return value.bit_length() <= _LARGE_BITS  # type: ignore[no-any-return]
    return value is None or kind in (bool, str) or (kind is float and math.isfinite(value))


def _is_stored_exactly(dtype: Any) -> bool:
    """Return whether the format NPY preserves an element type; False for objects, metadata and size 0."""
    from numpy.lib.format import descr_to_dtype, dtype_to_descr

    if dtype.hasobject or dtype.itemsize == 0 or dtype.metadata is not None:
        return False
    try:
        return bool(descr_to_dtype(dtype_to_descr(dtype)) == dtype)
    except (TypeError, ValueError):
        return False


def _encode_time(kind: str, value: Any) -> list[Any]:
    """Return the encoding of a time or datetime; raise _NotTyped if its zone is not a fixed offset."""
    from datetime import timezone

    zone = value.tzinfo
    if zone is not None and (type(zone) is not timezone or str(zone) != str(timezone(zone.utcoffset(None)))):
        raise _NotTyped
    return [kind, value.isoformat(), value.fold]


_Encoder = Callable[[_TypedEncoder, Any], list[Any]]
_ENCODERS: dict[str, _Encoder] = {
    "builtins.int": lambda _, value: ["int", hex(value)],
    "builtins.float": lambda _, value: ["float", repr(value)],
    "builtins.complex": lambda _, value: ["complex", repr(value.real), repr(value.imag)],
    "builtins.range": lambda _, value: ["range", hex(value.start), hex(value.stop), hex(value.step)],
    "builtins.tuple": lambda own, value: ["tuple", own.encode_items(value)],
    "builtins.set": lambda own, value: ["set", own.encode_set(value)],
    "builtins.frozenset": lambda own, value: ["frozenset", own.encode_set(value)],
    "builtins.bytes": lambda own, value: ["bytes", own.add_blob(value)],
    "builtins.bytearray": lambda own, value: ["bytearray", own.add_blob(bytes(value))],
    "decimal.Decimal": lambda _, value: ["Decimal", str(value)],
    "fractions.Fraction": lambda _, value: ["Fraction", hex(value.numerator), hex(value.denominator)],
    "datetime.date": lambda _, value: ["date", value.isoformat()],
    "datetime.time": lambda _, value: _encode_time("time", value),
    "datetime.datetime": lambda _, value: _encode_time("datetime", value),
    "datetime.timedelta": lambda _, value: ["timedelta", value.days, value.seconds, value.microseconds],
    "pathlib.PosixPath": lambda _, value: ["PosixPath", str(value)],
    "pathlib.PurePosixPath": lambda _, value: ["PurePosixPath", str(value)],
    "pathlib._local.PosixPath": lambda _, value: ["PosixPath", str(value)],
    "pathlib._local.PurePosixPath": lambda _, value: ["PurePosixPath", str(value)],
}
"""Functions that encode values, by ``module.name`` of the type.

Python versions differ in the names of pathlib's types.
"""


class _TypedDecoder:
    """Decodes a file written with ``_TypedEncoder``; the content is not trusted."""

    def __init__(self, content: bytes, resolve: Callable[[str], Any]) -> None:
        line, _, self._rest = content.partition(b"\n")
        self._length = int(line[len(_TYPED) : _FIRST_LINE])
        self._at = self._length
        self._resolve = resolve

    def decode(self) -> Any:
        """Return the value of the file."""
        if not 0 <= self._length <= len(self._rest):
            raise ValueError("it is shorter than its first line states")
        value = self._decode(json.loads(self._rest[: self._length]))
        if self._at != len(self._rest):
            raise ValueError("it has further bytes after its content")
        return value

    def _decode(self, value: Any) -> Any:
        if type(value) is list:
            return [self._decode(item) for item in value]
        if type(value) is not dict:
            return value
        if _MARK not in value:
            return {key: self._decode(item) for key, item in value.items()}
        kind, *parts = value[_MARK]
        return _DECODERS[kind](self, *parts)

    def resolve(self, file: str) -> Any:
        """Return the value of another file."""
        return self._resolve(file)

    def items(self, parts: list[Any]) -> list[Any]:
        """Return the decoded items of a list."""
        return [self._decode(item) for item in parts]

    def pairs(self, parts: list[Any]) -> dict[Any, Any]:
        """Return a decoded dictionary."""
        return {self._decode(key): self._decode(item) for key, item in parts}

    def blob(self, length: int) -> bytes:
        """Return the next ``length`` bytes after the JSON part of the file."""
        if not (type(length) is int and 0 <= length <= len(self._rest) - self._at):
            raise ValueError(f"it has fewer than {length} further bytes")
        self._at += length
        return self._rest[self._at - length : self._at]

    def array(self, length: int) -> Any:
        """Return a NumPy array; the header is compared with the data size before memory is allocated."""
        import numpy as np

        content = self.blob(length)
        shape, fortran, dtype, start = _read_array_header(content)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != length - start:
            raise ValueError("an array does not agree with its header")
        found = np.frombuffer(content[start:], dtype) if length > start else np.empty(0, dtype)
        return found.reshape(shape, order="F" if fortran else "C").copy(order="K")


def _read_array_header(content: bytes) -> tuple[tuple[int, ...], bool, Any, int]:
    """Return (shape, whether in Fortran order, element type, offset of the data) of an NPY array."""
    from numpy.lib import format as npy

    stream = io.BytesIO(content)
    try:
        major, _ = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
        return *read(stream), stream.tell()
    except Exception as error:  # NumPy evaluates the header with Python's parser, which raises many types
        raise ValueError(f"the header of an array is invalid: {type(error).__name__}") from None


def _decode_decimal(_: _TypedDecoder, text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _decode_timedelta(_: _TypedDecoder, days: int, seconds: int, microseconds: int) -> Any:
    from datetime import timedelta

    return timedelta(days, seconds, microseconds)


def _decode_path(kind: str, text: str) -> Any:
    import pathlib

    return pathlib.PosixPath(text) if kind == "PosixPath" else pathlib.PurePosixPath(text)


def _decode_time(name: str) -> Callable[..., Any]:
    def make(_: _TypedDecoder, text: str, fold: int) -> Any:
        import datetime

        return getattr(datetime, name).fromisoformat(text).replace(fold=fold)

    return make


def _integers(numbers: tuple[str, ...]) -> list[int]:
    return [int(number, 16) for number in numbers]


def _decode_fraction(_: _TypedDecoder, *numbers: str) -> Any:
    from fractions import Fraction

    return Fraction(*_integers(numbers))


def _decode_date(_: _TypedDecoder, text: str) -> Any:
    import datetime

    return datetime.date.fromisoformat(text)


_DECODERS: dict[str, Callable[..., Any]] = {
    "value": _TypedDecoder.resolve,
    "int": lambda _, number: int(number, 16),
    "float": lambda _, number: float(number),
    "complex": lambda _, real, imaginary: complex(float(real), float(imaginary)),
    "range": lambda _, *numbers: range(*_integers(numbers)),
    "tuple": lambda own, parts: tuple(own.items(parts)),
    "set": lambda own, parts: set(own.items(parts)),
    "frozenset": lambda own, parts: frozenset(own.items(parts)),
    "dict": _TypedDecoder.pairs,
    "bytes": _TypedDecoder.blob,
    "bytearray": lambda own, length: bytearray(own.blob(length)),
    "Decimal": _decode_decimal,
    "Fraction": _decode_fraction,
    "date": _decode_date,
    "time": _decode_time("time"),
    "datetime": _decode_time("datetime"),
    "timedelta": _decode_timedelta,
    "PosixPath": lambda _, text: _decode_path("PosixPath", text),
    "PurePosixPath": lambda _, text: _decode_path("PurePosixPath", text),
    "array": _TypedDecoder.array,
    "scalar": lambda own, length: own.array(length)[()],
}
"""Functions that decode values, by kind. A file that states any other kind is rejected."""


# Pickles.


def _encode_pickle(value: Any, what: str, nonce: str) -> bytes:
    stream = io.BytesIO()
    try:
        _ValuePickler(stream, what).dump(value)
    except UnsupportedValue:
        raise
    except Exception as error:
        raise UnsupportedValue(f"{what} ({type(value).__name__}) cannot be pickled: {error}") from None
    return (_SIGNED + nonce.encode() + b"\n" if nonce else _PICKLE) + stream.getvalue()


class _ValuePickler(pickle.Pickler):
    """Pickler that rejects classes and functions that another process cannot import."""

    def __init__(self, stream: io.BytesIO, what: str) -> None:
        super().__init__(stream, protocol=5)
        self._what = what

    def persistent_id(self, found: Any) -> str | None:
        return found.file if type(found) is ValueReference else None

    def reducer_override(self, found: Any) -> Any:
        module = getattr(found, "__module__", None) if callable(found) else None
        if module is None or not (isinstance(found, type) or hasattr(found, "__qualname__")):
            return NotImplemented
        home = sys.modules.get(module)
        if module == "__main__" or home is None or "<locals>" in found.__qualname__:
            raise UnsupportedValue(
                f"{self._what} holds {found.__qualname__!r} of {module!r}, which another process cannot "
                "import; define it in a module of its own"
            )
        return NotImplemented


class _ValueUnpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, resolve: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._resolve = resolve

    def persistent_load(self, file: str) -> Any:
        return self._resolve(file)
