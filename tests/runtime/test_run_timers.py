"""Timers: one per name, the earliest first."""

from __future__ import annotations

import math

from weft.runtime.driver import Timers


def test_what_is_due_comes_in_the_order_of_its_time():
    timers = Timers()
    for name, at_s in (("late", 9.0), ("early", 1.0), ("middle", 5.0)):
        timers.set(name, at_s)
    assert timers.next_s() == 1.0
    assert timers.due(5.0) == ["early", "middle"]
    assert timers.due(5.0) == []
    assert timers.next_s() == 9.0


def test_a_timer_that_is_set_again_is_replaced():
    timers = Timers()
    timers.set("watch", 1.0)
    timers.set("watch", 7.0)
    assert timers.due(6.0) == []
    assert timers.due(7.0) == ["watch"]
    assert timers.next_s() == math.inf
