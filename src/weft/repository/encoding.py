"""The text of a journal entry, made without the steps between: the same as ``json.dumps`` of its record.

An engine writes several entries per task, and making a record first and its text after takes longer than all
else that is done about a task. So what does not change (names of types and fields) is written once per type,
and a field by what its value is; what is not as plain as most takes the long way. The text is ASCII: a
program may leave a name that is not UTF-8, or a line separator of Unicode, and neither may break a journal.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable
from itertools import takewhile
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any, NamedTuple

from weft.engine.journal import Entry, encoded
from weft.engine.messages.commands import Parcel

__all__ = ["entry_text", "json_text"]

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def json_text(record: object) -> str:
    """Give plain data as JSON without blanks."""
    return _dumps(record)


def entry_text(entry: Entry) -> str:
    """Give an entry as JSON: ``json_text(entry.as_record())``, only faster."""
    commands = ",".join([_message(command) for command in entry.commands])
    now = _written(float(entry.now))
    return f'{{"n":{entry.sequence},"now":{now},"event":{_message(entry.event)},"commands":[{commands}]}}'


def _message(message: Any) -> str:
    kind = type(message)
    return f'["{kind.__name__}",{_fields(message, kind)}]'


def _fields(message: Any, kind: type) -> str:
    """Write the fields that do not have their default value."""
    shape = _shape(kind)
    first = shape.first % shape.read_first(message)
    values = shape.read_rest(message)
    if values == shape.usual:
        return f"{{{first}}}"
    found = [first] if first else []
    for value, usual, key in zip(values, shape.usual, shape.keys, strict=True):
        if value is usual or value == usual:
            continue
        text = int.__repr__(value) if type(value) is int else _written(value)
        found.append(f'"{key}":{text or _dumps(encoded(message)[1][key])}')
    return f"{{{','.join(found)}}}"


class _Shape(NamedTuple):
    """What is known of a type's fields: first those that are always written, and are whole numbers."""

    first: str
    """Their text, with places for the numbers."""
    read_first: Callable[[Any], tuple[Any, ...]]
    keys: tuple[str, ...]
    """The names of the rest."""
    usual: tuple[Any, ...]
    """Their default values."""
    read_rest: Callable[[Any], tuple[Any, ...]]


@functools.cache
def _shape(kind: type) -> _Shape:
    fields = dataclasses.fields(kind)
    numbers = tuple(field.name for field in takewhile(_is_plain_number, fields))
    rest = fields[len(numbers) :]
    return _Shape(
        first=",".join(f'"{name}":%d' for name in numbers),
        read_first=_reader(numbers),
        keys=tuple(field.name for field in rest),
        usual=tuple(_default(field) for field in rest),
        read_rest=_reader(tuple(field.name for field in rest)),
    )


def _is_plain_number(field: dataclasses.Field[Any]) -> bool:
    return field.type == "int" and _default(field) is dataclasses.MISSING


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Give what reads these fields of a message at once."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple([getattr(message, name) for name in names])


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _written(value: Any) -> str:
    """Write a plain value; "": it is not that plain."""
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is float and math.isfinite(value):
        return float.__repr__(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is tuple and value and type(value[0]) is Parcel:
        return f"[{','.join([_fields(parcel, Parcel) for parcel in value])}]"
    return ""
