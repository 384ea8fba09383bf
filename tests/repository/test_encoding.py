"""The fast encoding of an entry equals the plain JSON encoding, and is read back equal."""

from __future__ import annotations

import dataclasses
import json
import math
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal_writer import journal
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.journal import JournalEntry
from weft.repository.journal import encode_entry, encode_json

ODD = ["", "\x00", "a\nb", '"', "\\", "é", "\u2028", "\x85", "\U0001f642", "\udc80", "</script>"]


VALUES = st.none() | st.booleans() | st.floats() | st.text() | st.integers()
RESULTS = st.dictionaries(st.text(), VALUES, max_size=3)


def drawn(kind: type) -> st.SearchStrategy[typing.Any]:
    """Draw a message with any valid field values."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: st.from_type(hints[field.name]) for field in dataclasses.fields(kind)}
    return st.builds(kind, **fields | ({"result": RESULTS} if "result" in fields else {}))


PARCELS = st.lists(drawn(cm.Parcel), max_size=3).map(tuple)
STAGING = st.builds(cm.StageIn, parcels=PARCELS)
EVENTS = st.one_of(*map(drawn, typing.get_args(ev.Event)))
COMMANDS = st.one_of(STAGING, *map(drawn, typing.get_args(cm.Command)))
ENTRIES = st.builds(
    JournalEntry,
    sequence=st.integers(0, 10**9),
    now=st.floats(0, 1e9),
    event=EVENTS,
    commands=st.lists(COMMANDS, max_size=4).map(tuple),
)


@given(ENTRIES)
def test_fast_encoding_equals_json_encoding(entry):
    assert encode_entry(entry) == encode_json(entry.as_record())


def test_entries_of_a_run_are_read_back():
    for entry in journal().entries:
        text = encode_entry(entry)
        assert text == json.dumps(entry.as_record(), separators=(",", ":"))
        assert JournalEntry.of_record(json.loads(text)) == entry


@pytest.mark.parametrize("text", ODD)
def test_unusual_texts_stay_on_one_line_and_are_read_back(text):
    entry = JournalEntry(
        sequence=0,
        now=0.0,
        event=ev.Ended(attempt=1, result={text: text}, exit_code=None),
        commands=(cm.Refuse(run=0, reason=text),),
    )
    written = encode_entry(entry)
    assert written.isascii()
    assert len(written.splitlines()) == 1
    assert JournalEntry.of_record(json.loads(written)) == entry


def test_infinite_numbers_are_read_back():
    entry = JournalEntry(
        sequence=0,
        now=1.0,
        event=ev.Ended(attempt=1, result={"a": math.inf, "b": True, "c": 1}, work_done=-math.inf),
        commands=(cm.SetTimer(timer="t", at_s=math.inf),),
    )
    assert JournalEntry.of_record(json.loads(encode_entry(entry))) == entry
