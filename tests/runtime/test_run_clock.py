"""The clock of an execution never runs backwards, whatever happens to the clock on the wall."""

from __future__ import annotations

import time

from weft.runtime.driver import ExecutionClock


def test_it_counts_from_the_beginning():
    clock = ExecutionClock(time.time() - 100.0)
    assert 100.0 <= clock.now() < 110.0
    assert clock.wall(5.0) == clock.began_at + 5.0


def test_setting_the_clock_during_a_run_changes_nothing(monkeypatch):
    clock = ExecutionClock(time.time())
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock.now() < before + 60.0


def test_a_clock_that_was_set_back_between_two_processes_goes_on_where_the_journal_ended():
    in_the_future = time.time() + 3_600.0
    clock = ExecutionClock(in_the_future, last_s=12.5)
    assert 12.5 <= clock.now() < 60.0


def test_time_that_passed_while_no_engine_ran_has_passed():
    clock = ExecutionClock(time.time() - 500.0, last_s=12.5)
    assert clock.now() >= 500.0
