"""Journals in the database can be written, read back, followed, rebuilt and continued."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from journal_writer import COMMIT_EVERY, header, journal, write
from state_digest import digest_state
from weft.engine.messages import Assign
from weft.engine.replay import rebuild
from weft.errors import InvalidInput
from weft.repository import journal_store
from weft.repository.database import open_database
from weft.repository.journal_store import JournalStore, read_nonces
from weft.workflow.workflow import set_params


@pytest.fixture
def store(tmp_path):
    with open_database(tmp_path / ".weft" / "weft.db", create=True) as database:
        yield JournalStore(database)


@pytest.fixture
def written(tmp_path):
    write(tmp_path)
    with open_database(tmp_path / ".weft" / "weft.db") as database:
        yield JournalStore(database)


def fed(store, engine, entries):
    """Apply entries to the engine and append them to the store."""
    for entry in entries:
        engine.apply(entry.event, entry.now, entry.commands)
        store.append(entry, engine.state)


def test_journal_is_read_back(written):
    read, expected = written.read(1), journal()
    assert read.entries == expected.entries
    assert read.plans == expected.plans
    assert read.header.as_record() == header().as_record()
    assert (read.header.folders, read.header.command) == ({"wien2k": "."}, ("weft", "run", "wien2k.yaml"))
    rebuilt = written.rebuilt(1)
    assert rebuilt.entries == len(expected.entries)
    assert rebuilt.engine.state.runs[0].ending == "completed"


def test_follower_reads_new_entries(tmp_path):
    seen = []

    def follow(store):
        with open_database(store.database.path) as other:
            after = seen[-1].sequence if seen else -1
            new = JournalStore(other).entries_after(1, after)
            assert 0 < len(new) <= COMMIT_EVERY
            seen.extend(new)

    write(tmp_path, watch=follow)
    assert tuple(seen) == journal().entries


def test_entries_are_read_in_batches(written, monkeypatch):
    monkeypatch.setattr(journal_store, "_AT_ONCE", 7)
    assert [entry.sequence for entry in written.entries_after(1, 10, most=3)] == [11, 12, 13]
    assert written.entries_after(1, 10_000) == []
    assert tuple(written.all_after(1)) == journal().entries


def test_execution_is_resumed_at_any_entry(tmp_path, monkeypatch):
    """Several engines that each write a few entries produce the same journal and state as one."""
    monkeypatch.setattr(journal_store, "SNAPSHOT_EVERY", 10)
    expected, path, step = journal(), tmp_path / "weft.db", 13
    for first in range(0, len(expected.entries), step):
        with open_database(path, create=True) as database:
            store = JournalStore(database)
            if first == 0:
                store.begin(expected.header)
                engine = expected.engine()
            else:
                rebuilt = store.resume(1)
                engine = rebuilt.engine
                assert rebuilt.entries == first
                slowly = rebuild(expected.engine(), expected.entries[:first], expected.plans)
                named = {key: plan for key, plan in slowly.state.plans.items() if key in engine.state.plans}
                assert engine.state.plans == named
                assert digest_state(engine.state) == digest_state(slowly.state)
            engine.state.plans.update(expected.plans)
            fed(store, engine, expected.entries[first : first + step])
            store.commit()
    with open_database(path) as database:
        assert JournalStore(database).read(1).entries == expected.entries
        ((count, last),) = database.rows("SELECT count(*), max(entry) FROM snapshot")
        assert (count, last > 60) == (1, True), "only the last is kept"


def test_snapshots_of_large_executions_are_infrequent(store, monkeypatch):
    """The cost per entry is bounded: there are as many entries as tasks between two snapshots."""
    monkeypatch.setattr(journal_store, "SNAPSHOT_EVERY", 5)
    expected = journal()
    store.begin(expected.header)
    engine = expected.engine()
    engine.state.plans.update(expected.plans)
    taken = []
    for entry in expected.entries:
        fed(store, engine, [entry])
        store.commit()
        ((after,),) = store.database.rows("SELECT max(entry) FROM snapshot")
        if after is not None and after not in taken:
            taken.append(after)
    tasks = len(engine.state.runs[0].state)
    assert tasks > 5
    assert taken == list(range(4, len(expected.entries), tasks))


def test_journals_of_executions_are_separate(store):
    expected = journal()
    for number in (1, 2):
        assert store.begin(replace(header(), seed=number)) == number
        engine = expected.engine()
        engine.state.plans.update(expected.plans)
        fed(store, engine, expected.entries[: 10 * number])
    store.commit()
    assert [len(store.read(number).entries) for number in (1, 2)] == [10, 20]
    assert [store.header(number).seed for number in (1, 2)] == [1, 2]


def test_entry_cannot_be_written_twice(store):
    expected = journal()
    store.begin(header())
    engine = expected.engine()
    engine.state.plans.update(expected.plans)
    fed(store, engine, expected.entries[:2])
    store.append(expected.entries[1], engine.state)
    with pytest.raises(Exception, match="UNIQUE constraint failed"):
        store.commit()


def test_error_about_a_damaged_record_names_the_database_file(written):
    with pytest.raises(InvalidInput, match="no execution 9; `weft ls` lists"):
        written.read(9)
    database = written.database
    database.execute_now("UPDATE entry SET record = '{\"n\":3}' WHERE number = 3")
    with pytest.raises(InvalidInput, match=r"weft\.db: entry 3: journal damaged: 'now' is missing"):
        written.read(1)
    database.execute_now("UPDATE entry SET record = 'x' WHERE number = 3")
    with pytest.raises(
        InvalidInput, match=r"weft\.db: journal damaged at entry 3: not valid JSON.*restore the journal"
    ):
        written.read(1)
    database.execute_now("UPDATE execution SET header = replace(header, '\"schema\":2', '\"schema\":9')")
    with pytest.raises(InvalidInput, match="a journal of schema 9"):
        written.header(1)


def test_fingerprint_of_an_execution_depends_only_on_the_request():
    first = header()
    assert replace(first, command=("x",), owner="bob", started_at_s=9.0, version="9").fingerprint == (
        first.fingerprint
    )
    (flow,) = first.workflows.values()
    parameter = next(iter(flow.params))
    others = [
        replace(first, policy="fcfs"),
        replace(first, seed=1),
        replace(first, folders={"wien2k": "elsewhere"}),
        replace(first, workflows={"w": flow}),
        replace(first, workflows={"wien2k": set_params(flow, {parameter: 3})}),
        replace(first, platform=replace(first.platform, machines=first.platform.machines[:1])),
        replace(first, settings=replace(first.settings, gain=0.77)),
    ]
    assert len({each.fingerprint for each in [first, *others]}) == len(others) + 1


def test_every_assigned_attempt_has_a_unique_nonce(tmp_path):
    write(tmp_path)
    with open_database(tmp_path / ".weft" / "weft.db") as database:
        nonces = read_nonces(database, 1)
        commands = [command for entry in JournalStore(database).all_after(1) for command in entry.commands]
        assert (
            set(nonces) == {command.attempt for command in commands if isinstance(command, Assign)} != set()
        )
        assert len(set(nonces.values())) == len(nonces)
        assert all(re.fullmatch("[0-9a-f]{32}", nonce) for nonce in nonces.values())
        store = JournalStore(database)
        attempt, nonce = next(iter(nonces.items()))
        assert store.is_known(1, attempt, nonce)
        assert not store.is_known(2, attempt, nonce)
        assert not store.is_known(1, attempt, "")
        assert not store.is_known(1, max(nonces) + 1, "")


def test_nonce_is_committed_with_the_entry_that_assigns_the_attempt(tmp_path):
    seen = []

    def compare(store):
        with open_database(store.database.path) as other:
            commands = [command for entry in JournalStore(other).all_after(1) for command in entry.commands]
            assigned = {command.attempt for command in commands if isinstance(command, Assign)}
            assert set(read_nonces(other, 1)) == assigned
            assert all(store.attempt_nonce(attempt) for attempt in assigned)
            seen.append(len(assigned))

    write(tmp_path, watch=compare)
    assert max(seen) > 0


def test_nonces_are_kept_when_resuming_and_only_few_nonces_of_ended_attempts_are_stored(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(journal_store, "_SPARE_NONCES", 0)
    drawn = {}
    write(tmp_path, watch=lambda store: drawn.update(store._nonces))
    with open_database(tmp_path / ".weft" / "weft.db", create=True) as database:
        store = JournalStore(database)
        store.resume(1)
        nonces = read_nonces(database, 1)
        assert {attempt: store.attempt_nonce(attempt) for attempt in nonces} == nonces
        assert drawn.items() <= nonces.items()


def test_projects_have_different_identities(tmp_path):
    found = set()
    for name in ("a", "b"):
        for _ in range(2):
            with open_database(tmp_path / name / ".weft" / "weft.db", create=True) as database:
                found.add(database.identity)
    assert len(found) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in found)
