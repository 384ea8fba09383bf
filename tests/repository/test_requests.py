"""User requests reach the process of the engine and are answered once."""

from __future__ import annotations

import pytest

from weft.repository.database import open_database
from weft.repository.requests import RequestReply, RequestTable


@pytest.fixture
def engine(tmp_path):
    with open_database(tmp_path / "weft.db", create=True) as opened:
        yield opened


@pytest.fixture
def shell(engine):
    with open_database(engine.path) as opened:
        yield opened


def test_request_is_delivered_and_answered(engine, shell):
    here, there = RequestTable(engine), RequestTable(shell)
    assert list(here.pending()) == []
    first = there.insert("cancel", execution=1, run=0, task="a[1]", owner="ada", at_s=5.0)
    second = there.insert("migrate", execution=1, run=0, task="b", machine="m\udc80")
    found = here.pending()
    assert [(each.number, each.what, each.task) for each in found] == [
        (first, "cancel", "a[1]"),
        (second, "migrate", "b"),
    ]
    assert (found[0].owner, found[0].asked_at_s, found[0].machine, found[1].machine) == (
        "ada",
        5.0,
        None,
        "m\udc80",
    )
    assert here.pending() == found, "it stays until it is answered"
    here.done(first, "cancelled")
    assert [each.number for each in here.pending()] == [second]
    assert there.reply(first) is None, "not before the commit"
    engine.commit()
    assert there.reply(first) == RequestReply(granted=True, text="cancelled")
    assert there.reply(second) is None
    here.done(second, "no such machine", granted=False)
    engine.commit()
    assert there.reply(second) == RequestReply(granted=False, text="no such machine")
    assert list(here.pending()) == []


def test_request_with_an_uncommitted_reply_stays_pending(engine, shell):
    """The engine was killed before the commit; the request stays unanswered for the next engine."""
    number = RequestTable(shell).insert("hold", execution=1)
    RequestTable(engine).done(number, "held")
    assert [each.number for each in RequestTable(shell).pending()] == [number]


def test_polling_without_new_requests_reads_no_rows(engine, shell):
    here, read = RequestTable(engine), []
    here.pending()
    engine._connection.set_trace_callback(read.append)
    for _ in range(3):
        here.pending()
    assert read == ["PRAGMA data_version"] * 3
    RequestTable(shell).insert("hold", execution=1)
    assert len(here.pending()) == 1


def test_request_can_be_withdrawn(engine, shell):
    here, there = RequestTable(engine), RequestTable(shell)
    first, second = (there.insert("hold", execution=1) for _ in range(2))
    assert there.withdraw(first)
    assert [each.number for each in here.pending()] == [second]
    here.done(second, "held")
    engine.commit()
    assert not there.withdraw(second)
    assert there.insert("hold", execution=1) > second, "a number is never given twice"
