"""Timelines against a slow twin that tries every moment at which something changes."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from planning_examples import instance, platform
from weft.instance import Busy
from weft.planners.lists.timeline import Gaps, Open, Skyline, timelines

TIMES = st.integers(0, 20).map(float)
LENGTHS = st.integers(0, 6).map(float)


class Twin:
    """Keeps what was taken as a list and looks at every moment where something starts or ends."""

    def __init__(self, nodes, amounts=()):
        self.nodes, self.amounts, self.taken = nodes, amounts, []

    def fits(self, start, seconds, nodes, amounts):
        finish = start + seconds
        moments = {start} | {s for s, _, _, _ in self.taken if start < s < finish}
        for moment in moments:
            running = [entry for entry in self.taken if entry[0] <= moment < entry[1]]
            if sum(entry[2] for entry in running) + nodes > self.nodes:
                return False
            for index, total in enumerate(self.amounts):
                if sum(entry[3][index] for entry in running) + amounts[index] > total + 1e-9 * total:
                    return False
        return True

    def earliest(self, ready, seconds, nodes, amounts):
        if seconds == 0:
            return ready
        starts = [ready, *sorted(finish for _, finish, _, _ in self.taken if finish > ready)]
        return next(start for start in starts if self.fits(start, seconds, nodes, amounts))

    def take(self, start, seconds, nodes, amounts):
        if seconds > 0:
            self.taken.append((start, start + seconds, nodes, amounts))


def assert_like_its_twin(timeline, twin, jobs):
    for ready, seconds, nodes, amounts in jobs:
        start = twin.earliest(ready, seconds, nodes, amounts)
        assert timeline.earliest(ready, seconds, nodes, amounts) == start
        timeline.take(start, seconds, nodes, amounts)
        twin.take(start, seconds, nodes, amounts)


@given(st.lists(st.tuples(TIMES, LENGTHS, st.just(1), st.just(())), max_size=25))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gaps_find_the_first_gap_that_is_long_enough(jobs):
    assert_like_its_twin(Gaps(), Twin(1), jobs)


@given(st.lists(st.tuples(TIMES, LENGTHS, st.integers(1, 4), st.just(())), max_size=25))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_skyline_finds_the_first_moment_with_enough_nodes(jobs):
    assert_like_its_twin(Skyline(4, ()), Twin(4), jobs)


AMOUNTS = st.tuples(st.sampled_from([0.0, 0.1, 0.7, 1.0]), st.sampled_from([0.0, 5.0]))


@given(st.lists(st.tuples(TIMES, LENGTHS, st.integers(1, 4), AMOUNTS), max_size=20))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_skyline_finds_the_first_moment_with_enough_of_everything(jobs):
    totals = (1.0, math.inf)
    assert_like_its_twin(Skyline(4, totals), Twin(4, totals), jobs)


@given(st.lists(st.tuples(TIMES, LENGTHS, st.integers(1, 4), st.just(())), max_size=25))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_a_skyline_has_no_two_steps_alike(jobs):
    line, twin = Skyline(4, ()), Twin(4)
    assert_like_its_twin(line, twin, jobs)
    assert line.times == sorted(set(line.times))
    assert all(line.nodes[index] != line.nodes[index + 1] for index in range(len(line.nodes) - 1))
    assert line.nodes[-1] == 4


def test_a_full_machine_stays_one_step_however_many_tasks_fill_it():
    line = Skyline(2, ())
    for index in range(100):
        line.take(line.earliest(0.0, 1.0 + index % 2, 1, ()), 1.0 + index % 2, 1, ())
    assert len(line.times) <= 4


def test_what_never_fits_starts_never():
    line = Skyline(2, (1.0,))
    line.take(0.0, math.inf, 1, (0.0,))
    assert line.earliest(0.0, 1.0, 2, (0.0,)) == math.inf
    assert line.earliest(0.0, 1.0, 1, (0.5,)) == 0.0
    assert line.earliest(0.0, 1.0, 1, (2.0,)) == math.inf


def test_on_an_open_machine_nothing_is_in_the_way():
    line = Open()
    line.take(0.0, 10.0, 5, ())
    assert line.earliest(3.0, 10.0, 5, ()) == 3.0


def test_every_machine_gets_the_timeline_that_serves_it():
    where = platform({}, {"nodes": 3}, {"occupancy": "unlimited"}, {})
    held = (Busy(machine=3, start_s=-2.0, finish_s=4.0, nodes=1),)
    found = timelines(instance({"a": {"work": 1}}, where, busy=held))
    assert [type(line) for line in found] == [Gaps, Skyline, Open, Skyline]
    assert found[3].earliest(0.0, 1.0, 1, ()) == 4.0
    assert found[0].earliest(0.0, 1.0, 1, ()) == 0.0


def test_what_was_held_before_the_plan_begins_holds_nothing():
    held = (Busy(machine=0, start_s=-5.0, finish_s=-1.0, nodes=1),)
    found = timelines(instance({"a": {"work": 1}}, platform({}), busy=held))
    assert found[0].earliest(0.0, 1.0, 1, ()) == 0.0
