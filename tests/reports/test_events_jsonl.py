"""``events.jsonl``: every event once, in order, with the same keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import weft
from driven_engine import platform_of
from reports.executed_journals import example_journal, journal_of
from weft.backends.simulation.scenario import Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.history import History
from weft.engine.journal import TYPE_NAMES, JournalEntry, NoteFields
from weft.reports.events_jsonl import EVENT_KINDS, EventLines

PROJECT = Path(__file__).parents[2]
FIRST = ["n", "at_s", "at", "what", "run", "workflow", "task", "iteration", "attempt", "machine"]


def event_lines(written, zero_at_s=None):
    history = History()
    writer = EventLines(history, zero_at_s)
    lines = []
    for entry, state in written.replay():
        history.take(entry, state)
        lines += writer.lines(entry, state)
    assert all("\n" not in line for line in lines)
    return [json.loads(line) for line in lines]


def test_task_that_failed_once_has_the_expected_events():
    flow = weft.Builder("flow")
    flow.task("job", work=10, retries=1)
    scenario = Scenario(exit_codes={"job": (7, 0)})
    written = journal_of(flow.build(), platform_of(1.0), scenario=scenario, policy="fcfs")
    events = event_lines(written, zero_at_s=1_000_000_000.5)
    assert [(each["at_s"], each["what"], each["attempt"]) for each in events] == [
        (0, "run-submitted", None),
        (0, "attempt-assigned", 0),
        (0, "attempt-submitted", 0),
        (10, "attempt-ended", 0),
        (10, "task-settled", None),
        (10, "attempt-assigned", 1),
        (10, "attempt-submitted", 1),
        (20, "attempt-ended", 1),
        (20, "task-settled", None),
        (20, "run-ended", None),
    ]
    assert events[3] == {
        "n": 1,
        "at_s": 10.0,
        "at": "2001-09-09T01:46:50.500+00:00",
        "what": "attempt-ended",
        "run": 0,
        "workflow": "flow",
        "task": "job",
        "iteration": 1,
        "attempt": 0,
        "machine": "m0",
        "exit_code": 7,
        "cause": "",
        "story": "",
        "result": {},
        "work_done": events[3]["work_done"],
        "taken_over": None,
        "ran_s": None,
        "late_s": 0.0,
        "strays": 0,
    }
    assert (events[4]["task"], events[4]["state"], events[4]["cause"]) == ("job", "READY", "error")
    assert [each["tries"] for each in events if each["what"] == "attempt-submitted"] == [1, 2]
    assert events[-1]["outcome"] == "completed"


def test_event_keys_are_stable_and_complete():
    written = example_journal()
    events = event_lines(written)
    keys = {word: [*FIRST, *own] for word, own in EVENT_KINDS.values()}
    assert all(list(each) == keys[each["what"]] for each in events)
    assert [each["n"] for each in events] == sorted(each["n"] for each in events)
    messages = [
        message
        for entry in written.entries
        for message in (entry.event, *entry.commands)
        if type(message) in EVENT_KINDS
    ]
    expected = Counter(EVENT_KINDS[type(message)][0] for message in messages)
    assert Counter(each["what"] for each in events) == expected
    assert all(each["at"] is None for each in events)
    attempts = [each for each in events if each["what"].startswith("attempt-")]
    assert all(each["task"] and each["machine"] and each["workflow"] for each in attempts)


def test_every_message_is_written_as_an_event_or_listed_as_excluded():
    silent = {
        "ProbeAnswered",
        "Discover",
        "Discovered",
        "Fetch",
        "Probe",
        "SetTimer",
        "TimerFired",
    }
    named = {kind.__name__ for kind in EVENT_KINDS}
    assert named | silent == {kind.__name__ for kind in TYPE_NAMES}
    assert not named & silent
    # A run that was given up ends like any other.
    words = [
        word for kind, (word, _) in EVENT_KINDS.items() if kind not in cm.RECORDS and kind != ev.RunStalled
    ]
    assert len(set(words)) == len(words)


def test_reference_page_lists_every_event_with_its_keys():
    page = (PROJECT / "docs" / "reference" / "reports.md").read_text(encoding="utf-8")
    for word, keys in EVENT_KINDS.values():
        shown = ", ".join(f"`{key}`" for key in keys) or "-"
        assert f"| `{word}` | {shown} |" in page


@pytest.mark.parametrize("message", sorted(EVENT_KINDS, key=lambda kind: kind.__name__))
def test_event_keys_are_fields_of_the_message(message):
    renamed = {"asked": "what", "signal": "what", "bytes": "parcels"}
    fields = set(NoteFields._fields if message in cm.RECORDS else message.__dataclass_fields__)
    assert {renamed.get(key, key) for key in EVENT_KINDS[message][1]} <= fields


def test_infinite_numbers_are_strings():
    written = journal_of(_one(), platform_of(1.0), policy="fcfs")
    engine, history = written.engine(), History()
    for entry in written.entries[:1]:
        engine.apply(entry.event, entry.now, entry.commands)
        history.take(entry, engine.state)
    note = cm.ReportViolation(
        run=0, task=0, attempt=0, machine=0, ratio=float("inf"), reason='"quoted"\nline'
    )
    entry = JournalEntry(sequence=1, now=1.0, event=ev.TimerFired(timer="x"), commands=(note,))
    history.take(entry, engine.state)
    (line,) = EventLines(history).lines(entry, engine.state)
    assert json.loads(line)["value"] == "inf"
    assert "\n" not in line


def _one():
    flow = weft.Builder("one")
    flow.task("job", work=1)
    return flow.build()
