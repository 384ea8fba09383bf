"""Every event and command survives the journal: written as JSON and read back, it is equal."""

from __future__ import annotations

import dataclasses
import json
import math
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.engine import messages
from weft.engine.journal import JournalEntry, decode_message, encode_message
from weft.engine.messages import Ended, Note, Parcel, SetTimer, TimerFired
from weft.errors import InvalidInput

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FLOATS = st.floats(allow_nan=False)
VALUES = st.none() | st.booleans() | FLOATS | TEXTS | st.integers(-9, 9)


def _field(hint: object) -> st.SearchStrategy[typing.Any]:
    """Give values of a field by its type."""
    simple = {
        int: st.integers(-1, 10**9),
        float: FLOATS,
        str: TEXTS,
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return st.lists(_field(arguments[0]), max_size=3).map(tuple)
    if hint is Parcel:
        return _message(Parcel)
    if isinstance(origin, type) and issubclass(origin, typing.Mapping):
        inner = (
            VALUES if arguments[1] not in simple and typing.get_origin(arguments[1]) is not tuple else None
        )
        return st.dictionaries(TEXTS, inner if inner is not None else _field(arguments[1]), max_size=3)
    return st.one_of(*(_field(each) for each in arguments))


def _message(kind: type) -> st.SearchStrategy[typing.Any]:
    return st.builds(kind, **{name: _field(hint) for name, hint in typing.get_type_hints(kind).items()})


KINDS = [
    found
    for module in (messages, messages)
    for name in module.__all__
    if isinstance(found := getattr(module, name), type) and dataclasses.is_dataclass(found)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_reads_back_as_it_was(kind: type) -> None:
    @given(_message(kind))
    def check(message: typing.Any) -> None:
        text = json.dumps(encode_message(message), allow_nan=False)
        assert decode_message(json.loads(text)) == message

    check()


def test_every_event_and_command_is_among_them() -> None:
    unions = (*typing.get_args(messages.Event), *typing.get_args(messages.Command))
    assert set(unions) <= set(KINDS)


def test_types_are_kept_apart() -> None:
    """A whole number, a truth and an endless number stay what they are."""
    result = {"count": 1, "done": True, "delta": math.inf, "float": "inf"}
    back = decode_message(json.loads(json.dumps(encode_message(Ended(attempt=0, result=result)))))
    assert [type(value) for value in back.result.values()] == [int, bool, float, str]
    assert back.result == result


def test_what_has_its_default_is_left_out() -> None:
    assert encode_message(Note(kind="stay", task=3)) == ["Note", {"kind": "stay", "task": 3}]
    assert encode_message(Ended(attempt=1, exit_code=None)) == ["Ended", {"attempt": 1, "exit_code": None}]


def test_an_entry_reads_back_as_it_was() -> None:
    entry = JournalEntry(
        sequence=3,
        now=0.1 + 0.2,
        event=TimerFired(timer="watch"),
        commands=(SetTimer(timer="watch", at_s=1 / 3),),
    )
    assert JournalEntry.of_record(json.loads(json.dumps(entry.as_record()))) == entry


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"n": 0, "now": 0, "event": ["Nothing", {}], "commands": []},
        {"n": 0, "now": 0, "event": ["TimerFired", {"clock": 1}], "commands": []},
        {"n": 0, "now": "soon", "event": ["TimerFired", {"timer": "x"}], "commands": []},
    ],
)
def test_what_is_no_entry_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        JournalEntry.of_record(record)
