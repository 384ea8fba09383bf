"""The speed of a host, compared with sums over short intervals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.backends.simulation.state import HostSpeed
from weft.errors import InvalidInput


def test_undisturbed_work_ends_at_the_exact_time():
    speed = HostSpeed()
    for now, work_s in ((0.1, 0.2), (1e6 / 3, 77.376), (12.7, 1 / 3)):
        assert speed.finish_s(work_s, now) == now + work_s


def test_three_competing_processes_leave_a_quarter_of_the_speed():
    # docs/papers/adaptive-jobs.md, section 9, scenario A: iterations of 4 s take 16 s.
    speed = HostSpeed()
    speed.load(3, 120.0)
    assert speed.share == 0.25
    assert speed.finish_s(4.0, 120.0) == 136.0
    speed.unload(3, 200.0)
    assert speed.finish_s(4.0, 200.0) == 204.0


def test_removing_a_slowdown_restores_the_exact_speed():
    speed = HostSpeed()
    for slowdown in (3.0, 7.0, 3.0):
        speed.slow(slowdown, 10.0)
    speed.load(1, 10.0)
    assert speed.share == pytest.approx(1 / 126)
    for slowdown in (7.0, 3.0, 3.0):
        speed.relieve(slowdown, 10.0)
    speed.unload(1, 10.0)
    assert speed.share == 1.0
    assert speed.finish_s(5.0, 10.0) == 15.0


def test_ending_a_slowdown_or_load_that_is_not_active_is_an_error():
    with pytest.raises(ValueError, match="not in list"):
        HostSpeed().relieve(2.0, 0.0)
    with pytest.raises(ValueError, match="2 competing processes end, but only 0 run"):
        HostSpeed().unload(2, 0.0)


CHANGES = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(["slow", "load"]), st.integers(1, 5), st.integers(0, 9)),
    max_size=8,
)


@given(CHANGES, st.integers(0, 10), st.integers(1, 30))
def test_work_ends_when_the_integral_of_the_speed_equals_the_amount_of_work(changes, start, work):
    """Reference: add up the available share of the speed second by second."""

    def share(second):
        product, processes = Fraction(1), 0
        for at, kind, value, lasting in changes:
            if at <= second < at + lasting:
                product /= value if kind == "slow" else 1
                processes += value if kind == "load" else 0
        return product / (processes + 1)

    left, second = Fraction(work), start
    while left > share(second):
        left -= share(second)
        second += 1
    expected = second + left / share(second)

    events = [(at, 1, kind, value) for at, kind, value, _ in changes]
    events += [(at + lasting, 2, kind, value) for at, kind, value, lasting in changes]
    speed, target, finish = HostSpeed(), None, None
    for at, order, kind, value in sorted([*events, (start, 3, "start", work)]):
        if target is not None and finish is None and speed.time_of(target) <= at:
            finish = speed.time_of(target)
        if kind == "start":
            target = speed.clock_s(float(at)) + value
        else:
            names = {("slow", 1): "slow", ("slow", 2): "relieve", ("load", 1): "load", ("load", 2): "unload"}
            getattr(speed, names[kind, order])(value, float(at))
    finish = speed.time_of(target) if finish is None else finish
    assert finish == pytest.approx(float(expected), rel=1e-9)


def test_overlapping_slowdowns_that_reduce_the_speed_to_0_are_refused() -> None:
    """Overlapping slowdowns multiplied to a share of 0, and a division by it ended the simulation."""
    speed = HostSpeed()
    for second in range(100):
        speed.slow(10.0, float(second))
    with pytest.raises(InvalidInput, match=r"leave it no speed.*shorten `lasting`"):
        speed.slow(10.0, 100.0)
    speed = HostSpeed()
    for second in range(1000):
        speed.slow(1.0000001, float(second))
    with pytest.raises(InvalidInput, match="at most 1000 slowdowns overlap"):
        speed.slow(1.0000001, 1000.0)
