"""The clock of an execution is monotonic, and its scheduled events are due in order of time."""

from __future__ import annotations

import math
import time

import pytest

from weft.engine.messages import RequestReceived, TimerFired
from weft.runtime.driver import ExecutionClock


def test_time_counts_from_the_start_of_the_execution():
    clock = ExecutionClock(time.time() - 100.0)
    assert 100.0 <= clock.now() < 110.0
    assert clock.wall(5.0) == clock.began_at + 5.0


def test_setting_the_wall_clock_during_a_run_has_no_effect(monkeypatch):
    clock = ExecutionClock(time.time())
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert before <= clock.now() < before + 60.0


def test_time_continues_at_the_end_of_the_journal_after_the_wall_clock_was_set_back():
    in_the_future = time.time() + 3_600.0
    clock = ExecutionClock(in_the_future, last_s=12.5)
    assert 12.5 <= clock.now() < 60.0


def test_time_between_two_engine_processes_is_counted():
    clock = ExecutionClock(time.time() - 500.0, last_s=12.5)
    assert clock.now() >= 500.0


@pytest.fixture
def clock(monkeypatch):
    """Return a clock whose time the test sets."""
    made = ExecutionClock(time.time())
    made.now_s = 0.0
    monkeypatch.setattr(made, "now", lambda: made.now_s)
    return made


def fired(clock, now_s):
    clock.now_s = now_s
    return [event.timer if isinstance(event, TimerFired) else event for event in clock.due()]


def test_timers_are_due_in_order_of_time(clock):
    for name, at_s in (("late", 9.0), ("early", 1.0), ("middle", 5.0)):
        clock.set_timer(name, at_s)
    assert clock.next_s() == 1.0
    assert fired(clock, 5.0) == ["early", "middle"]
    assert fired(clock, 5.0) == []
    assert clock.next_s() == 9.0


@pytest.mark.parametrize("second_s", [1.0, 7.0])
def test_timer_that_is_set_again_replaces_the_first(clock, second_s):
    clock.set_timer("watch", 1.0)
    clock.set_timer("watch", second_s)
    assert fired(clock, second_s - 0.5) == []
    assert fired(clock, second_s) == ["watch"]
    assert clock.next_s() == math.inf


def test_scheduled_events_and_timers_are_ordered_by_time_together(clock):
    event = RequestReceived(what="resume", run=0)
    clock.set_timer("after", 3.0)
    clock.schedule(event, 2.0)
    clock.set_timer("at the same time", 2.0)
    assert fired(clock, 4.0) == [event, "at the same time", "after"]
