"""Runs and executions are numbered, described, looked up, and resumed if unfinished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal_writer import header
from weft.engine.replan.promise import Promise
from weft.errors import InvalidInput
from weft.repository.database import open_database
from weft.repository.journal_store import JournalStore
from weft.repository.runs import STATES, UNFINISHED, RunTable


@pytest.fixture
def database(tmp_path):
    with open_database(tmp_path / "weft.db", create=True) as opened:
        yield opened


def add(runs, execution, position, **facets):
    stated = {"workflow": "w", "owner": "ada", "tasks": 3, "at_s": 10.0}
    return runs.add(execution=execution, position=position, **stated | facets)


def test_runs_are_numbered_across_executions(database):
    runs = RunTable(database)
    assert [add(runs, 1, 0), add(runs, 1, 1)] == [1, 2], "numbers are returned before the commit"
    database.commit()
    assert add(RunTable(database), 2, 0, predicted_p50_s=5.0, predicted_p90_s=7.5) == 3
    database.commit()
    assert [(run.number, run.execution, run.position) for run in runs.all()] == [
        (1, 1, 0),
        (2, 1, 1),
        (3, 2, 0),
    ]
    assert runs.run() == runs.run(3) == runs.at(2, 0)
    assert runs.of(1) == [runs.run(1), runs.run(2)]
    assert runs.run(3).as_record() == {
        "number": 3,
        "execution": 2,
        "position": 0,
        "workflow": "w",
        "owner": "ada",
        "state": "running",
        "reason": "",
        "tasks": 3,
        "started_at_s": 10.0,
        "ended_at_s": None,
        "predicted_p50_s": 5.0,
        "predicted_p90_s": 7.5,
        "promise": None,
        "alone_s": None,
        "slowdown": None,
    }


def test_registering_an_existing_run_changes_nothing(database):
    runs = RunTable(database)
    add(runs, 1, 0)
    database.commit()
    runs.set_state(1, 0, "failed", at_s=20.0, reason="task a failed")
    printed = Promise(planned_s=2.5, p50_s=3.0, p90_s=4.0, cost_p50=7.0, tasks=3, exact=1)
    runs.promise(1, 0, printed)
    runs.grow(1, 0, 12)
    database.commit()
    assert add(runs, 1, 0, workflow="other") == 1
    database.commit()
    (run,) = runs.all()
    assert (run.workflow, run.state, run.reason, run.ended_at_s) == ("w", "failed", "task a failed", 20.0)
    assert (run.tasks, run.predicted_p50_s, run.predicted_p90_s) == (12, 3.0, 4.0)
    assert run.promise == printed == runs.at(1, 0).promise


def test_promise_is_stored_with_its_run(database):
    runs = RunTable(database)
    for execution, position in ((1, 0), (1, 1), (2, 1)):
        add(runs, execution, position)
    printed = Promise(
        planned_s=3.0,
        least_s=2.0,
        tasks=3,
        untimed=1,
        untimed_kinds=("b",),
        open_loops=("l",),
        growing=("g",),
    )
    runs.promise(1, 1, printed)
    database.commit()
    assert [run.promise for run in runs.all()] == [None, printed, None]
    (_, run) = runs.of(1)
    assert (run.predicted_p50_s, run.predicted_p90_s) == (None, None)
    assert run.as_record()["promise"] == {
        "planned_s": 3.0,
        "p50_s": None,
        "p90_s": None,
        "least_s": 2.0,
        "cost_p50": None,
        "cost_p90": None,
        "least_cost": None,
        "tasks": 3,
        "untimed": 1,
        "untimed_kinds": ["b"],
        "exact": 0,
        "open_loops": ["l"],
        "growing": ["g"],
    }


def test_run_may_start_and_end_in_one_commit(database):
    runs = RunTable(database)
    runs.set_state(1, 0, "completed")
    add(runs, 1, 0)
    runs.set_state(1, 0, "cancelled", at_s=11.0)
    database.commit()
    assert runs.run(1).state == "cancelled"


@pytest.mark.parametrize("state", STATES)
def test_unfinished_execution_can_be_resumed(database, state):
    store, runs = JournalStore(database), RunTable(database)
    first, other = header(), replace(header(), seed=9)
    assert runs.unfinished(first.fingerprint) is None
    assert [store.begin(first), store.begin(other)] == [1, 2]
    assert runs.unfinished(first.fingerprint) == runs.execution(1)
    assert runs.unfinished().number == 2
    runs.set_execution_state(1, state, at_s=None if state in UNFINISHED else 30.0)
    database.commit()
    found = runs.unfinished(first.fingerprint)
    assert (found is not None) is (state in UNFINISHED)
    assert [each.state for each in runs.executions()] == [state, "running"]


def test_only_the_last_execution_with_a_given_fingerprint_is_resumed(database):
    store, runs = JournalStore(database), RunTable(database)
    assert [store.begin(header()), store.begin(header())] == [1, 2]
    runs.set_execution_state(2, "completed", at_s=1.0)
    database.commit()
    assert runs.unfinished(header().fingerprint) is None


def test_execution_record_is_read_back(database):
    number = JournalStore(database).begin(header())
    found = RunTable(database).execution(number)
    assert found.as_record() == {
        "number": 1,
        "fingerprint": header().fingerprint,
        "state": "running",
        "owner": "ada",
        "command": ["weft", "run", "wien2k.yaml"],
        "version": header().version,
        "started_at_s": 1.5e9,
        "ended_at_s": None,
    }


def test_values_of_an_execution_are_stored_by_key(database):
    runs = RunTable(database)
    runs.store_value(1, "token", "a")
    runs.store_value(1, "token", "b")
    runs.store_value(2, "token", "c")
    assert runs.stored_value(1, "token") is None
    database.commit()
    assert [runs.stored_value(number, "token") for number in (1, 2, 3)] == ["b", "c", None]


def test_missing_runs_are_reported(database):
    runs = RunTable(database)
    with pytest.raises(InvalidInput, match="no run yet"):
        runs.run()
    with pytest.raises(InvalidInput, match="no run 4; `weft ls` lists"):
        runs.run(4)
    with pytest.raises(InvalidInput, match="no execution 4"):
        runs.execution(4)
    with pytest.raises(ValueError, match="'done' is not one of"):
        runs.set_state(1, 0, "done")
