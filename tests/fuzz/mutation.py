"""Mutations of inputs: bytes, tokens, lines and values of JSON documents."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

MOST_BYTES = 20_000
"""Longer inputs are cut."""

_TOKENS = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]*|[0-9][0-9.eE+-]*|\"[^\"\n]{0,40}\"|[^\sA-Za-z0-9_]")

_NUMBERS = (0, -0.0, -1, 1, 2, 7, 1.5, 1e-300, 5e-324, 1e20, 1e299, 1e300, 1.7e308, -1e308, 2**31, 2**53 + 1, 2**63, 10**40,
            1_000_000, 10**9, float("inf"), float("nan"))  # fmt: skip
_TEXTS = ("", " ", "a", "\ud800", "\udfff\ud800", "\x00", "\x1b[2J\x1b]0;x\x07", "\u202e", "\u2028", "\ufeff", "é",
          "{", "}", "{{x}}", "{a}", "../..", "/", "file:/x", "a" * 300, "1e20", "inf", "nan", "1..9", "0:1:2",
          "sum(range(1, 999999))", "x" * 5000, "%s", "\\", "'", '"', "`", "$(a)", "\n", "\t", "\r", "*", "?", "[", "~")  # fmt: skip
_WORDS = tuple(text.encode("utf-8", "surrogatepass") for text in _TEXTS) + tuple(
    repr(number).encode() for number in _NUMBERS
)
_JSON_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"": None},
    {"float": "inf"},
    {"float": "x"},
    [1, [2, "a"]],
)
_DEEP = 3_000


class Mutator:
    """Draws variants of inputs; tokens of all seeds are inserted into any of them."""

    def __init__(self, rng: Random, seeds: Sequence[bytes]) -> None:
        self._rng = rng
        tokens = {token for seed in seeds for token in _TOKENS.findall(seed)}
        self._tokens = sorted(tokens)[:5_000] or [b"a"]

    def mutate(self, data: bytes, others: Sequence[bytes]) -> bytes:
        """Return ``data`` with one to eight changes; ``others`` are inputs to take parts from."""
        rng = self._rng
        if data[:1] in (b"{", b"[") and rng.random() < 0.6:
            data = self._change_json(data)
            if rng.random() < 0.7:
                return data[:MOST_BYTES]
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            data = rng.choice(_CHANGES)(self, data, others)
        return data[:MOST_BYTES]

    def _change_byte(self, data: bytes, _: Sequence[bytes]) -> bytes:
        at = self._position(data)
        return data[:at] + bytes((self._rng.randrange(256),)) + data[at + 1 :]

    def _remove_part(self, data: bytes, _: Sequence[bytes]) -> bytes:
        at = self._position(data)
        return data[:at] + data[at + self._rng.choice((1, 2, 4, 16, 64)) :]

    def _insert_word(self, data: bytes, _: Sequence[bytes]) -> bytes:
        at = self._position(data)
        return data[:at] + self._word() + data[at:]

    def _replace_token(self, data: bytes, _: Sequence[bytes]) -> bytes:
        found = list(_TOKENS.finditer(data))
        if not found:
            return data + self._word()
        token = self._rng.choice(found)
        return data[: token.start()] + self._word() + data[token.end() :]

    def _repeat_part(self, data: bytes, _: Sequence[bytes]) -> bytes:
        at, length = self._position(data), self._rng.choice((1, 3, 10, 50))
        return data[:at] + data[at : at + length] * self._rng.choice((2, 3, 30, 400)) + data[at + length :]

    def _take_part(self, data: bytes, others: Sequence[bytes]) -> bytes:
        other = self._rng.choice(others) if others else data
        at, there = self._position(data), self._position(other)
        return data[:at] + other[there : there + self._rng.choice((5, 40, 400, MOST_BYTES))]

    def _change_line(self, data: bytes, _: Sequence[bytes]) -> bytes:
        lines = data.split(b"\n")
        at, other = self._rng.randrange(len(lines)), self._rng.randrange(len(lines))
        match self._rng.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = self._rng.choice((b" ", b"  ", b"    ", b"- ", b"\t")) + lines[at]
            case _:
                lines[at] = self._change_json(lines[at])
        return b"\n".join(lines)

    def _cut(self, data: bytes, _: Sequence[bytes]) -> bytes:
        return data[: self._position(data)]

    def _position(self, data: bytes) -> int:
        return self._rng.randrange(len(data) + 1)

    def _word(self) -> bytes:
        return self._rng.choice(self._tokens if self._rng.random() < 0.6 else _WORDS)

    def _change_json(self, data: bytes) -> bytes:
        """Return the document with one value replaced, removed, repeated or nested; other data unchanged."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return data
        places = list(_find_places(document))
        if not places:
            return data
        holder, key = self._rng.choice(places)
        old = holder[key]
        match self._rng.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(old)
            case 1:
                holder[self._text()] = old
            case 2:
                other_holder, other_key = self._rng.choice(places)
                holder[key] = other_holder[other_key]
            case 3:
                return _encode(document, holder, key, self._rng.choice((b"[", b'{"a":')))
            case _:
                holder[key] = self._value()
        try:
            return json.dumps(document, separators=(",", ":")).encode()
        except (RecursionError, ValueError):  # a value inside itself
            return data

    def _value(self) -> Any:
        match self._rng.randrange(3):
            case 0:
                return self._rng.choice(_NUMBERS)
            case 1:
                return self._text()
            case _:
                return self._rng.choice(_JSON_VALUES)

    def _text(self) -> str:
        known = self._rng.choice(self._tokens).decode("utf-8", "replace").strip('"')
        return self._rng.choice(_TEXTS) if self._rng.random() < 0.5 else known


def _encode(document: Any, holder: Any, key: Any, bracket: bytes) -> bytes:
    """Return the document with a very deep value at a key."""
    holder[key] = "@deep@"
    closing = b"]" if bracket == b"[" else b"}"
    deep = bracket * _DEEP + b"1" + closing * _DEEP
    return json.dumps(document, separators=(",", ":")).encode().replace(b'"@deep@"', deep)


def _find_places(value: Any) -> list[tuple[Any, Any]]:
    """Return (holder, key) of the values inside a document, at most 3,000."""
    found: list[tuple[Any, Any]] = []
    queue = [value]
    for each in queue:
        keys = (
            list(each) if isinstance(each, dict) else list(range(len(each))) if isinstance(each, list) else []
        )
        for key in keys:
            found.append((each, key))
            queue.append(each[key])
        if len(found) > 3_000:
            break
    return found


_CHANGES = (
    Mutator._change_byte, Mutator._remove_part, Mutator._insert_word, Mutator._insert_word, Mutator._replace_token,
    Mutator._replace_token, Mutator._replace_token, Mutator._repeat_part, Mutator._take_part, Mutator._change_line,
    Mutator._change_line, Mutator._cut,
)  # fmt: skip
