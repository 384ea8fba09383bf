"""Arguments and results of task functions: exact types without pickle, and files that cannot run code."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.api.functions.values import UnsupportedValue, ValueReference, decode_value, encode_value

_ZONES = st.none() | st.just(UTC) | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.fractions()
    | st.dates()
    | st.times(timezones=_ZONES)
    | st.datetimes(timezones=_ZONES)
    | st.timedeltas()
    | st.sampled_from([range(-3, 10**40, 7), Path("a/b"), PurePosixPath("/"), bytearray(b"x")])
)
_KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.none()
VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(_KEYS, inner)
        | st.sets(_KEYS)
        | st.frozensets(st.text())
    ),
    max_leaves=8,
)
ARRAYS = [
    np.arange(6).astype(dtype).reshape(2, 3)
    for dtype in ("i1", "u8", "f2", "f8", "c16", ">f4", "M8[s]", "m8[ns]")
] + [
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(7.5),
    np.zeros((0, 4)),
    np.array(["a", "wörter"]),
    np.array([(1, 2.5, b"x")], dtype=[("a", "i4"), ("b", "f8"), ("c", "S3")]),
    np.array([True, False]),
]
NUMBERS = [
    np.float64(2.5),
    np.int8(-3),
    np.bool_(True),
    np.str_("x"),
    np.datetime64("2026-11-17"),
    np.complex64(1j),
]


def encode_safely(value: object) -> bytes:
    content = encode_value(value)
    assert not content.startswith(b"weft pickle")
    return content


def decode(content: bytes) -> object:
    return decode_value(content, lambda file: f"value of {file}")


@given(VALUES)
def test_values_of_known_types_are_encoded_without_pickle_and_read_back_exactly(value: object) -> None:
    assert repr(_ordered(decode(encode_safely(value)))) == repr(_ordered(value))


def _ordered(value: object) -> object:
    """Return a value whose text does not depend on the order of sets."""
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_ordered, value))
    if isinstance(value, dict):
        return [(_ordered(key), _ordered(item)) for key, item in value.items()]
    return value


@pytest.mark.parametrize("value", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_arrays_are_encoded_without_pickle_and_read_back_exactly(value: np.ndarray) -> None:
    content = encode_safely({"one": [value], (2, 3): (value, b"bytes", value)})
    found = decode(content)
    assert isinstance(found, dict)
    for back in (found["one"][0], found[2, 3][0], found[2, 3][2]):
        assert type(back) is np.ndarray
        assert (back.dtype, back.shape, back.flags.f_contiguous) == (
            value.dtype, value.shape, value.flags.f_contiguous,
        )  # fmt: skip
        np.testing.assert_array_equal(back, value)
        assert back.flags.writeable
    assert found[2, 3][1] == b"bytes"


@pytest.mark.parametrize("value", NUMBERS, ids=lambda number: type(number).__name__)
def test_numpy_scalars_are_encoded_without_pickle_and_read_back_exactly(value: np.generic) -> None:
    back = decode(encode_safely(value))
    assert type(back) is type(value)
    assert back == value


def test_references_are_resolved_in_typed_values() -> None:
    content = encode_safely(({"deep": [ValueReference("f")]}, b"x", ValueReference("g")))
    assert decode(content) == ({"deep": ["value of f"]}, b"x", "value of g")


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(a=1),
        np.array([object()]),
        np.ma.array([1]),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(0), "X")),
    ],
    ids=["class", "objects", "subclass", "zone"],
)
def test_values_of_other_types_are_pickled_and_read_only_with_consent(value: object) -> None:
    content = encode_value(value, nonce="0123")
    assert content.startswith(b"weft pickle 2 0123\n")
    with pytest.raises(UnsupportedValue, match="can run code"):
        decode(content)
    asked: list[str] = []
    back = decode_value(content, lambda _: None, lambda nonce: asked.append(nonce) or "")
    assert asked == ["0123"]
    assert type(back) is type(value)


class Marker:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_pickle_is_refused_where_a_safe_encoding_is_expected(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    evil = pickle.dumps(Marker(marker))
    objects = np.empty(1, dtype=object)
    objects[0] = Marker(marker)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    array = (tmp_path / "objects.npy").read_bytes()
    for kind, blob in (("array", array), ("scalar", array), ("bytes", evil)):
        text = json.dumps([{"$weft": [kind, len(blob)]}]).encode()
        try:
            found = decode(b"weft value 2 %d\n" % len(text) + text + blob)
        except UnsupportedValue:
            continue
        assert found == [evil]
    for head in (b"", b"weft pickle 1\n", b"weft pickle 2 \n", b"weft json 1\n", b"weft value 2 9\n"):
        with pytest.raises(UnsupportedValue):
            decode(head + evil)
    assert not marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        '{"$weft": ["os.system", "touch marker"]}', '{"$weft": ["Path", "x"]}', '{"$weft": []}', '{"$weft": 3}',
        '{"$weft": ["bytes", 10]}', '{"$weft": ["bytes", -1]}', '{"$weft": ["tuple", 3]}', '{"$weft": ["set", [[]]]}',
        '{"$weft": ["int", "zz"]}', '{"$weft": ["Decimal", "x"]}', '{"$weft": ["range", "0x1", "0x2", "0x0"]}',
        '{"$weft": ["dict", [[1]]]}', '{"$weft": ["array", 0]}', "[" * 100_000, '{"$weft": ["Fraction", "0x1", "0x0"]}',
    ],
)  # fmt: skip
def test_damaged_files_are_refused(text: str) -> None:
    content = text.encode()
    with pytest.raises(UnsupportedValue, match="damaged"):
        decode(b"weft value 2 %d\n" % len(content) + content)


def test_mutated_files_are_read_or_refused() -> None:
    rng = random.Random(7)
    value = {
        "a": (1, 2.5, b"bytes"),
        3: {Decimal(1), Fraction(1, 3)},
        "t": [time(1), date(2026, 1, 2), np.arange(9)],
    }
    content = encode_safely(value)
    refused = 0
    for _ in range(3000):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(15, len(changed))] = rng.randrange(256)
        try:
            decode(bytes(changed))
        except UnsupportedValue:
            refused += 1
    assert 0 < refused < 3000


def test_array_header_with_a_larger_shape_than_its_data_is_refused() -> None:
    content = encode_safely([np.arange(4)])
    assert b"'shape': (4,)" in content
    with pytest.raises(UnsupportedValue, match="header"):
        decode(content.replace(b"'shape': (4,)", b"'shape':10**9"[:13]).replace(b"10**9", b"(9,) "))


def test_cyclic_lists_huge_integers_and_nan_are_read_back() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    back = decode_value(encode_value(cycle), lambda _: None, lambda _: "")
    assert isinstance(back, list)
    assert back[0] is back
    assert decode(encode_safely([-(10**9000)])) == [-(10**9000)]
    assert math.isnan(decode(encode_safely(float("nan"))))
