"""Timelines equal a slow reference that tries every time at which the occupancy changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, platform
from weft.instance import BusyInterval
from weft.kernels import compilation
from weft.kernels.placement import reset_schedule
from weft.kernels.timelines import earliest_append, earliest_start, occupy, reset_timelines
from weft.planners.list_planner import make_workspace
from weft.planners.problem import compile_problem

TIMES = st.integers(0, 20).map(float)
LENGTHS = st.integers(0, 6).map(float)
JOBS = 30


class ReferenceTimeline:
    """Stores busy intervals as a list and tries every start and finish."""

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

    def after_all(self, ready, seconds, nodes, amounts):
        """Return the earliest start after which enough of the machine stays free."""
        return self.earliest(ready, math.inf if seconds else 0.0, nodes, amounts)

    def take(self, start, seconds, nodes, amounts):
        if seconds > 0:
            self.taken.append((start, start + seconds, nodes, amounts))


class Line:
    """The kernel's timeline of one machine, compiled or plain."""

    def __init__(self, form, nodes, amounts=(), unlimited=False):
        resources = {f"r{index}": total for index, total in enumerate(amounts) if math.isfinite(total)}
        needs = dict.fromkeys(resources, 0.1)
        memory = {"memory": 1.0} if len(resources) < len(amounts) else {}
        keys = {
            "nodes": nodes,
            "resources": resources,
            "occupancy": "unlimited" if unlimited else "exclusive",
        }
        tasks = {"a": {"sweep": {"k": f"1..{JOBS}"}, "work": 1, "resources": needs, **memory}}
        self.problem = compile_problem(instance(tasks, platform(keys)))
        self.lines = make_workspace(self.problem).timelines
        if form == "plain":
            self.problem, self.lines = compilation._to_lists(self.problem), compilation._to_lists(self.lines)
        self.form = form
        self.call(reset_timelines)

    def call(self, function, *arguments):
        chosen = function if self.form == "plain" else compilation.compile_kernel(function)
        return chosen(self.problem.machines, self.lines, *arguments)

    def _load(self, nodes, amounts):
        flat = [float(amount) for amount in amounts] or [0.0]
        return 0, nodes, 0, flat if self.form == "plain" else np.array(flat)

    def earliest(self, ready, seconds, nodes, amounts):
        return self.call(earliest_start, self._load(nodes, amounts), ready, seconds, math.inf)

    def after_all(self, ready, seconds, nodes, amounts):
        return self.call(earliest_append, self._load(nodes, amounts), ready, seconds)

    def take(self, start, seconds, nodes, amounts):
        self.call(occupy, self._load(nodes, amounts), start, seconds)

    def steps(self):
        """Return (time, free nodes) of every step."""
        lines, found = self.lines, []
        step = lines.last_step[0]
        while step != lines.no_step:
            found.append((float(lines.step_time[step]), int(lines.step_nodes[step])))
            step = lines.step_before[step]
        return found[::-1]


@pytest.fixture(params=["plain", "compiled"], scope="module")
def form(request):
    return request.param


def assert_like_its_reference(line, reference, jobs):
    for ready, seconds, nodes, amounts in jobs:
        start = reference.earliest(ready, seconds, nodes, amounts)
        assert line.after_all(ready, seconds, nodes, amounts) == reference.after_all(
            ready, seconds, nodes, amounts
        )
        assert line.earliest(ready, seconds, nodes, amounts) == start
        line.take(start, seconds, nodes, amounts)
        reference.take(start, seconds, nodes, amounts)


@given(jobs=st.lists(st.tuples(TIMES, LENGTHS, st.just(1), st.just(())), max_size=JOBS))
def test_earliest_start_is_in_the_first_gap_that_is_long_enough(form, jobs):
    assert_like_its_reference(Line(form, 1), ReferenceTimeline(1), jobs)


@given(jobs=st.lists(st.tuples(TIMES, LENGTHS, st.integers(1, 4), st.just(())), max_size=JOBS))
def test_earliest_start_is_the_first_time_with_enough_nodes(form, jobs):
    line = Line(form, 4)
    assert_like_its_reference(line, ReferenceTimeline(4), jobs)
    times, nodes = zip(*line.steps(), strict=True)
    assert list(times) == sorted(set(times))
    assert all(nodes[index] != nodes[index + 1] for index in range(len(nodes) - 1))
    assert nodes[-1] == 4


AMOUNTS = st.tuples(st.sampled_from([0.0, 0.1, 0.7, 1.0]), st.sampled_from([0.0, 5.0]))


@given(jobs=st.lists(st.tuples(TIMES, LENGTHS, st.integers(1, 4), AMOUNTS), max_size=20))
def test_earliest_start_is_the_first_time_with_enough_nodes_and_amounts(form, jobs):
    totals = (1.0, math.inf)
    # Resources are ordered by name: memory (without a total) first.
    swapped = [(ready, seconds, nodes, amounts[::-1]) for ready, seconds, nodes, amounts in jobs]
    assert_like_its_reference(Line(form, 4, totals), ReferenceTimeline(4, totals[::-1]), swapped)


def test_timeline_of_a_machine_without_gaps_has_few_steps(form):
    line = Line(form, 2)
    for index in range(JOBS):
        line.take(line.earliest(0.0, 1.0 + index % 2, 1, ()), 1.0 + index % 2, 1, ())
    assert len(line.steps()) <= 4


def test_a_task_that_never_fits_starts_at_infinity(form):
    line = Line(form, 2, (1.0,))
    line.take(0.0, math.inf, 1, (0.0,))
    assert line.earliest(0.0, 1.0, 2, (0.0,)) == math.inf
    assert line.earliest(0.0, 1.0, 1, (0.5,)) == 0.0
    assert line.earliest(0.0, 1.0, 1, (2.0,)) == math.inf


def test_an_unlimited_machine_delays_no_task(form):
    line = Line(form, 1, unlimited=True)
    line.take(0.0, 10.0, 1, ())
    assert line.earliest(3.0, 10.0, 1, ()) == line.after_all(3.0, 10.0, 1, ()) == 3.0


@pytest.mark.parametrize(("start", "finish", "free"), [(-2.0, 4.0, 4.0), (-5.0, -1.0, 0.0)])
def test_a_busy_interval_delays_tasks(form, start, finish, free):
    held = (BusyInterval(machine=0, start_s=start, finish_s=finish, nodes=1),)
    problem = compile_problem(instance({"a": {"work": 1}}, platform({}, {}), busy=held))
    board = make_workspace(problem)
    function, find = reset_schedule, earliest_start
    if form == "plain":
        problem, board = compilation._to_lists(problem), compilation._to_lists(board)
    else:
        function, find = (
            compilation.compile_kernel(reset_schedule),
            compilation.compile_kernel(earliest_start),
        )
    function(problem, board)
    amount = problem.tasks.amount
    assert find(problem.machines, board.timelines, (0, 1, 0, amount), 0.0, 1.0, math.inf) == free
    assert find(problem.machines, board.timelines, (1, 1, 0, amount), 0.0, 1.0, math.inf) == 0.0
