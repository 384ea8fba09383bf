"""Plain values as YAML text that looks written by hand.

Block style for the upper levels, flow style (``inputs: [a, b]``) for small leaves, quotes only where reading
the text again would give something else. A list or mapping is written in flow style if it fits into the line
and is not higher than it is deep: the nearer to the root, the more it is spread over lines.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from weft.errors import InvalidInput, Problem, shorten
from weft.formats.yaml_scalars import resolve

__all__ = ["Container", "write_document"]

Container = Mapping[object, object] | Sequence[object]

_WIDTH = 100
_DEEPEST = 100
_LONGEST_KEY = 1000
_BAD_START = re.compile(r"-(?:\s|$)|[?:,\[\]{}#&*!|>'\"%@`]|---|\.\.\.")
_BAD_INSIDE = re.compile(r":(?:\s|$)|\s#")
_FLOW_SIGNS = re.compile(r"[,\[\]{}?]")
_SPECIAL = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Control characters, line breaks of every sort, byte order marks, halves of characters."""


def write_document(value: object, *, comment: str = "") -> str:
    """Write mappings, lists and scalars as YAML that ``parse_document`` reads back as the same values."""
    lines = [f"# {_SPECIAL.sub(' ', line)}".rstrip() for line in comment.splitlines()]
    if isinstance(value, Mapping | list | tuple) and value:
        _block(lines, value, 0, 0)
    else:
        _entry(lines, "", value, 2, 0)
    return "\n".join(lines) + "\n"


def _block(lines: list[str], value: Container, indent: int, level: int) -> None:
    """Write a container that is not empty, one entry after the other."""
    if level >= _DEEPEST:
        raise InvalidInput(f"nested deeper than {_DEEPEST} levels")
    margin = " " * indent
    if isinstance(value, Mapping):
        for key, item in value.items():
            _entry(lines, f"{margin}{_key(key, in_flow=False)}:", item, indent + 2, level + 1)
    else:
        for item in value:
            _entry(lines, f"{margin}-", item, indent + 2, level + 1)


def _entry(lines: list[str], head: str, item: object, indent: int, level: int) -> None:
    """Write what follows a ``key:`` or a ``-``: in the same line if it fits, else below."""
    if isinstance(item, str) and _is_literal(item):
        lines.append(_joined(head, "|" if item.endswith("\n") else "|-"))
        lines.extend(" " * indent + line if line else "" for line in item.removesuffix("\n").split("\n"))
    elif not isinstance(item, Mapping | list | tuple):
        lines.append(_joined(head, _scalar(item, in_flow=False)))
    elif (flow := _flow(item, _WIDTH - len(head), level)) is not None:
        lines.append(_joined(head, flow))
    elif head.endswith("-"):
        first = len(lines)
        _block(lines, item, indent, level)
        lines[first] = f"{head} {lines[first][indent:]}"
    else:
        lines.append(head)
        _block(lines, item, indent, level)


def _joined(head: str, value: str) -> str:
    return f"{head} {value}" if head else value


def _flow(value: object, room: int, height: int) -> str | None:
    """Write a value within one line; None if it is longer than the room or higher than the height."""
    if not isinstance(value, Mapping | list | tuple):
        if isinstance(value, str) and (len(value) > room or _is_literal(value)):
            return None
        text = _scalar(value, in_flow=True)
        return text if len(text) <= room else None
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    if not value:
        return opening + closing
    if height == 0:
        return None
    parts: list[str] = []
    for entry in value.items() if isinstance(value, Mapping) else value:
        key, item = entry if isinstance(value, Mapping) else ("", entry)
        head = f"{_key(key, in_flow=True)}: " if isinstance(value, Mapping) else ""
        part = _flow(item, room - len(head) - 2, height - 1)
        if part is None:
            return None
        parts.append(head + part)
        room -= len(parts[-1]) + 2
    return opening + ", ".join(parts) + closing


def _key(key: object, *, in_flow: bool) -> str:
    text = key if isinstance(key, str) else _scalar(key, in_flow=in_flow)
    if len(text) > _LONGEST_KEY:
        what = f"the key {shorten(repr(text))} is too long"
        raise InvalidInput(Problem(what=what, rule=f"at most {_LONGEST_KEY:,} characters"))
    return text if text != "<<" and _is_plain(text, in_flow=in_flow) else _quoted(text)


def _scalar(value: object, *, in_flow: bool) -> str:
    if hasattr(value, "item"):
        value = value.item()  # NumPy scalars
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return ".nan" if math.isnan(value) else repr(float(value)).replace("inf", ".inf")
        case str():
            plain = _is_plain(value, in_flow=in_flow) and isinstance(resolve(value), str)
            return value if plain else _quoted(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written: {shorten(value)}")


def _is_plain(text: str, *, in_flow: bool) -> bool:
    """Say whether the text can stand without quotes, whatever it means then."""
    return (
        text != ""
        and text == text.strip()
        and not _BAD_START.match(text)
        and not _BAD_INSIDE.search(text)
        and not _SPECIAL.search(text)
        and not (in_flow and _FLOW_SIGNS.search(text))
    )


def _is_literal(text: str) -> bool:
    """Say whether a text of several lines can be written as it is, below a ``|``."""
    lines = text.removesuffix("\n").split("\n")
    return (
        "\n" in text
        and lines[0] != ""
        and lines[-1] != ""
        and not lines[0].startswith(" ")
        and not any(line.isspace() or _SPECIAL.search(line) for line in lines)
    )


def _quoted(text: str) -> str:
    if _SPECIAL.search(text) is None and ("\\" in text or '"' in text):
        return "'" + text.replace("'", "''") + "'"
    return _SPECIAL.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":
        what = f"half a character (U+{ord(found[0]):04X}) in a text"
        raise InvalidInput(Problem(what=what, rule="texts are Unicode"))
    return f"\\u{ord(found[0]):04x}"
