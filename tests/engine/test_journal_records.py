"""Messages in a journal: stored names, equality after a round trip, and the conversion of older journals."""

from __future__ import annotations

import enum
import json
import math
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_digest import digest_state
from weft.engine import messages
from weft.engine.journal import (
    SCHEMA,
    TYPE_NAMES,
    JournalEntry,
    decode_message,
    encode_fields,
    encode_message,
    note_fields,
)
from weft.engine.messages import Ended, KeepAttempt, Parcel, SelectionCandidate, SetTimer, TimerFired
from weft.engine.replay import rebuild, replay
from weft.errors import InvalidInput
from weft.repository.journal_store import read_journal_file
from weft.workflow.task import CAUSES

OLD_JOURNALS = sorted((Path(__file__).parent / "journals").glob("*.jsonl"))
"""Journals of schema 1, written before ``Note`` was split into commands; some hold a snapshot."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FLOATS = st.floats(allow_nan=False)
VALUES = st.none() | st.booleans() | FLOATS | TEXTS | st.integers(-9, 9)


def _field(hint: object) -> st.SearchStrategy[typing.Any]:
    """Draw values of a field by its type."""
    simple = {
        int: st.integers(-1, 10**9),
        float: FLOATS,
        str: TEXTS,
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return st.lists(_field(arguments[0]), max_size=3).map(tuple)
    if hint in (Parcel, SelectionCandidate):
        return _message(hint)
    if isinstance(origin, type) and issubclass(origin, typing.Mapping):
        inner = (
            VALUES if arguments[1] not in simple and typing.get_origin(arguments[1]) is not tuple else None
        )
        return st.dictionaries(TEXTS, inner if inner is not None else _field(arguments[1]), max_size=3)
    return st.one_of(*(_field(each) for each in arguments))


def _message(kind: type) -> st.SearchStrategy[typing.Any]:
    return st.builds(kind, **{name: _field(hint) for name, hint in typing.get_type_hints(kind).items()})


@pytest.mark.parametrize("kind", TYPE_NAMES, ids=lambda kind: kind.__name__)
def test_message_is_equal_after_round_trip(kind: type) -> None:
    @given(_message(kind))
    def check(message: typing.Any) -> None:
        text = json.dumps(encode_message(message), allow_nan=False)
        assert decode_message(json.loads(text)) == message

    check()


def test_every_event_and_command_has_a_stored_name() -> None:
    kinds = (*typing.get_args(messages.Event), *typing.get_args(messages.Command))
    assert set(kinds) == set(TYPE_NAMES)
    assert len(set(TYPE_NAMES.values())) == len(TYPE_NAMES)


def test_stored_names_never_change() -> None:
    """A renamed class keeps its stored name; a removed or changed one needs a conversion."""
    names = (
        "Submitted Started Ended StagedIn StagedOut CleanedUp Progressed Checkpointed JobQueued StartDelayed Suspended "
        "Resumed RequirementsChanged MachineChanged ContactChanged Answered Discovered Fetched Selected PlanReady TimerFired TasksAdded "
        "Stalled Asked Assign StageIn Start Signal Cancel StageOut CleanUp Probe Discover Fetch Select Replan SetTimer "
        "Drop Return "
        "Settle Repeat Leave Finish StopRun EstimateSpeed MarkMachine AbandonAttempt LoseAttempt CountRequeue "
        "MarkViolating Unbind AdoptPlan Refuse ReportCondition ReportViolation AwaitMachine KeepAttempt "
        "PostponeStaging PostponeReplan IgnoreRequirement ReportModule ReattachJob ReportTargetLoss ReportLateCancel"
    )
    assert " ".join(TYPE_NAMES.values()) == names


def test_failure_causes_are_those_of_the_workflow_file() -> None:
    assert {cause.value for cause in messages.Cause if cause} == set(CAUSES)


def test_numbers_and_booleans_keep_their_types() -> None:
    result = {"count": 1, "done": True, "delta": math.inf, "float": "inf"}
    back = decode_message(json.loads(json.dumps(encode_message(Ended(attempt=0, result=result)))))
    assert [type(value) for value in back.result.values()] == [int, bool, float, str]
    assert back.result == result


def test_fields_with_default_values_are_omitted() -> None:
    kept = KeepAttempt(run=0, task=3, attempt=1)
    assert encode_message(kept) == ["KeepAttempt", {"run": 0, "task": 3, "attempt": 1}]
    assert encode_message(Ended(attempt=1, exit_code=None)) == ["Ended", {"attempt": 1, "exit_code": None}]
    assert encode_fields(Parcel(source=1)) == {"source": 1}


def test_entry_is_equal_after_round_trip() -> None:
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
        {"n": 0, "now": 0.0},
        {"n": 0, "now": 0.0, "event": ["Started", {"attempt": 0, "zzz": 1}], "commands": []},
        {"n": "x", "now": 0.0, "event": ["Started", {"attempt": 0}], "commands": []},
        {"n": 0, "now": 0.0, "event": ["Zzz", {}], "commands": []},
        {"n": 0, "now": 0.0, "event": ["Started", {"attempt": 0}], "commands": [["Note", {"kind": "zzz"}]]},
        {
            "n": 0,
            "now": 0.0,
            "event": ["Started", {"attempt": 0}],
            "commands": [["Settle", {"state": "ZZZ"}]],
        },
    ],
)
def test_unreadable_entry_is_refused(record: dict[str, typing.Any]) -> None:
    with pytest.raises(InvalidInput):
        JournalEntry.of_record(record)


NOTES = [
    ({"kind": "stopping", "run": 1, "text": "x"}, messages.StopRun(run=1, reason="x")),
    (
        {"kind": "believed", "machine": 2, "value": 0.5, "attempt": 3},
        messages.EstimateSpeed(machine=2, speed_factor=0.5, attempt=3),
    ),
    (
        {"kind": "believed", "machine": 2, "value": 1.0, "text": "forgotten"},
        messages.EstimateSpeed(machine=2, speed_factor=1.0, reason="forgotten"),
    ),
    ({"kind": "up", "machine": 2, "text": "x"}, messages.MarkMachine(machine=2, up=True, reason="x")),
    ({"kind": "down", "machine": 2, "text": "x"}, messages.MarkMachine(machine=2, up=False, reason="x")),
    ({"kind": "unknown", "machine": 2, "attempt": 3}, messages.AbandonAttempt(attempt=3, machine=2)),
    ({"kind": "lost", "machine": 2, "attempt": 3}, messages.LoseAttempt(attempt=3, machine=2)),
    (
        {"kind": "requeued", "run": 0, "task": 1, "attempt": 3, "value": 2.0},
        messages.CountRequeue(run=0, task=1, attempt=3, times=2),
    ),
    (
        {"kind": "violating", "run": 0, "task": 1, "attempt": 3},
        messages.MarkViolating(run=0, task=1, attempt=3),
    ),
    (
        {"kind": "recovered", "run": 0, "task": 1, "attempt": 3, "value": 0.1},
        messages.MarkViolating(run=0, task=1, attempt=3, violating=False, ratio=0.1),
    ),
    (
        {"kind": "rebound", "run": 0, "task": 1, "machine": 2, "text": "x"},
        messages.Unbind(run=0, task=1, machine=2, reason="x"),
    ),
    (
        {"kind": "adopted", "run": 0, "value": 9.5, "text": "abc"},
        messages.AdoptPlan(run=0, plan="abc", finish_s=9.5),
    ),
    (
        {"kind": "refused", "run": 0, "task": 1, "machine": 2, "text": "x"},
        messages.Refuse(run=0, task=1, machine=2, reason="x"),
    ),
    ({"kind": "condition", "run": 0, "text": "x"}, messages.ReportCondition(run=0, reason="x")),
    (
        {"kind": "violation", "run": 0, "task": 1, "attempt": 3, "machine": 2, "value": 0.7},
        messages.ReportViolation(run=0, task=1, attempt=3, machine=2, ratio=0.7),
    ),
    (
        {"kind": "stay", "run": 0, "task": 1, "attempt": 3, "text": "x"},
        messages.KeepAttempt(run=0, task=1, attempt=3, reason="x"),
    ),
    (
        {"kind": "requirement", "run": 0, "task": 1, "text": "x"},
        messages.IgnoreRequirement(run=0, task=1, reason="x"),
    ),
    ({"kind": "reattached", "attempt": 3, "machine": 2}, messages.ReattachJob(attempt=3, machine=2)),
    (
        {"kind": "target-lost", "run": 0, "task": 1, "attempt": 3, "machine": 2, "text": "x"},
        messages.ReportTargetLoss(run=0, task=1, attempt=3, machine=2, reason="x"),
    ),
    (
        {"kind": "too-late", "run": 0, "task": 1, "attempt": 3, "text": "x"},
        messages.ReportLateCancel(run=0, task=1, attempt=3, reason="x"),
    ),
]


@pytest.mark.parametrize(("fields", "command"), NOTES, ids=[fields["kind"] for fields, _ in NOTES])
def test_note_of_schema_1_is_read_as_a_command(
    fields: dict[str, typing.Any], command: messages.Command
) -> None:
    assert decode_message(["Note", fields]) == command
    note = note_fields(command)
    assert note == (fields["kind"], fields.get("value"), fields.get("text", ""))


def test_every_recording_command_replaces_a_note_of_schema_1() -> None:
    later = {
        messages.PostponeStaging,
        messages.PostponeReplan,
        messages.AwaitMachine,
        messages.ReportModule,
    }
    assert {type(command) for _, command in NOTES} == messages.RECORDS - later
    assert note_fields(messages.CloseAttempt(attempt=0)) is None


CORRECTED = {
    "contract": {16: "the text says that another machine is tried next, not that it was tried"},
    "liveness": {6: "commands state the iterations of all nested loops"},
    "plan": {8: "a rank decides between the machines that are free"},
    "replanning": {26: "a plan is void on a machine where the task failed"},
    "requeue": {15: "exit code 99 discards the restart files"},
}
"""By journal: the entry at which a rule has been corrected since it was written; the replay ends there."""


@pytest.mark.parametrize("file", OLD_JOURNALS, ids=lambda file: file.stem)
def test_old_journal_gives_the_same_commands_when_replayed(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["schema"] == 1 < SCHEMA
    journal = read_journal_file(file)
    found = replay(journal.engine(), journal.entries, journal.plans)
    differing = {each.sequence for each in found.differences}
    assert differing == CORRECTED.get(file.stem, {}).keys()
    last = next(iter(differing), found.total - 1)
    assert found.entries == last + 1 <= found.total == text.count('\n{"n":')


@pytest.mark.parametrize("file", OLD_JOURNALS, ids=lambda file: file.stem)
def test_snapshot_of_an_old_journal_gives_the_state_of_its_entries(file: Path) -> None:
    journal = read_journal_file(file)
    whole = rebuild(journal.engine(), journal.entries, journal.plans)
    restored = digest_state(journal.rebuilt(len(journal.entries)).state)
    assert _without_later_facts(restored) == _without_later_facts(digest_state(whole.state))


def _without_later_facts(digest: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Return a digest without what snapshots of that time did not contain."""
    for attempt in digest["attempts"].values():
        attempt.pop("counters")
    for run in digest["runs"]:
        run.pop("spent")
        for facts in run["facts"].values():
            facts.pop("failed_on", None)
    return digest


def test_stored_old_journals_contain_snapshots_and_most_kinds_of_notes() -> None:
    journals = [read_journal_file(file) for file in OLD_JOURNALS]
    assert sum(bool(journal.snapshots) for journal in journals) >= 3
    commands = {type(each) for journal in journals for entry in journal.entries for each in entry.commands}
    assert len(commands & messages.RECORDS) >= 12
