"""The steps of xDCP equal their slow reference, compiled and plain; docs/papers/parameter-sweeps.md,
section 3 and A4.3.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels.xdcp_reference import Times, arrays, random_case, reachable, xdcp_pass
from weft.kernels import compilation
from weft.kernels.problem import CLASSES, RELATED, TABLE, make_arrays
from weft.kernels.xdcp import SubtaskQueues, SubtaskScratch, SubtaskTimes, move_subtasks
from weft.randomness import generator


class State:
    """Queues in arrays, as the kernel changes them."""

    def __init__(self, case, layout=TABLE):
        self.case = case
        self.sweep, self.modes = arrays(case, layout)
        number = case.number
        self.mode = np.zeros(number, dtype=np.uint32)
        self.machine = np.zeros(number, dtype=np.uint32)
        for task, machine in case.virtual.items():
            self.machine[task] = machine
        self.previous = np.full(number, number, dtype=np.uint32)
        self.following = np.full(number, number, dtype=np.uint32)
        self.head = np.full(case.machines, number, dtype=np.uint32)
        for machine, queue in enumerate(case.queues):
            for place, task in enumerate(queue):
                first, end = self.modes.first[task : task + 2]
                self.mode[task] = first + self.modes.machine[first:end].tolist().index(machine)
                self.machine[task] = machine
                if place:
                    self.previous[task], self.following[queue[place - 1]] = queue[place - 1], task
                else:
                    self.head[machine] = task
        # The first queues are filled layer by layer.
        self.order = np.argsort(case.layer, kind="stable").astype(np.uint32)
        self.placed = np.array([task in case.virtual for task in range(number)], dtype=np.uint8)
        self.seconds, self.start, self.finish, self.latest = (np.zeros(number) for _ in range(4))

    def run(self, limit):
        scratch = make_arrays(SubtaskScratch, self.case.number)
        queues = SubtaskQueues(
            self.mode, self.machine, self.seconds, self.previous, self.following, self.head, self.order
        )
        outputs = (self.placed, queues, SubtaskTimes(self.start, self.finish, self.latest))
        inputs = (self.sweep, self.modes, limit, scratch)
        return compilation.run_kernel(move_subtasks, inputs, outputs, work_s=0.0)

    def queues(self):
        found = []
        for machine in range(self.case.machines):
            queue, task = [], int(self.head[machine])
            while task < self.case.number:
                queue.append(task)
                task = int(self.following[task])
            found.append(queue)
        return found


CASES = [(shared, ties, data) for shared in (False, True) for ties in (True, False) for data in (False, True)]
PARAMETERS = ("shared", "ties", "data")


@pytest.mark.parametrize("form", ["plain", "compiled"])
@pytest.mark.parametrize(PARAMETERS, CASES, ids=lambda flag: str(flag))
def test_xdcp_pass_equals_the_reference(form, shared, ties, data, monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", form)
    rng = generator(1, "xdcp", str(shared), str(ties))
    moved = 0
    for _ in range(80):
        case = random_case(rng, shared=shared, ties=ties, data=data)
        state = State(case)
        limit = int(rng.integers(0, case.number + 2))
        assert state.run(limit) == min(limit, case.number - len(case.virtual))
        queues, _ = xdcp_pass(case, case.queues, limit)
        times = Times(case, queues)
        assert state.queues() == queues
        found = (state.seconds, state.start, state.finish, state.latest)
        expected = (times.spent, times.start, times.aeft, times.alft)
        for column, values in zip(found, expected, strict=True):
            # The kernel adds up the seconds of an edge, in the last bits other than the reference.
            assert column.tolist() == (pytest.approx(values, rel=1e-12, abs=1e-12) if data else values)
        moved += queues != case.queues
    assert moved > 10  # the cases are not idle


@pytest.mark.parametrize("layout", [RELATED, CLASSES])
def test_all_layouts_of_seconds_give_the_same_xdcp_result(layout, monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", "plain")
    rng = generator(2, "xdcp", "layouts")
    for _ in range(20):
        # 6 / (6 / 1.5) is 1.5 again: these seconds are the same in every layout.
        case = random_case(rng, shared=True, ties=True)
        case.seconds = [{machine: 2.0**value for machine, value in row.items()} for row in case.seconds]
        state, table = State(case, layout), State(case)
        state.run(99)
        table.run(99)
        assert state.queues() == table.queues()
        assert state.finish.tolist() == table.finish.tolist()


@pytest.mark.parametrize(PARAMETERS, CASES, ids=lambda flag: str(flag))
def test_no_xdcp_step_makes_the_schedule_longer(shared, ties, data, monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", "plain")
    rng = generator(3, "xdcp", "invariants", str(shared), str(ties))
    for _ in range(25):
        case = random_case(rng, shared=shared, ties=ties, data=data)
        state = State(case)
        state.run(0)
        for _ in range(case.number - len(case.virtual)):
            before = state.finish.max()
            assert state.run(1) == 1
            assert state.finish.max() <= before * (1 + 1e-9)
            assert (state.latest - state.finish).min() >= -1e-9
            assert_possible(case, state)
        assert state.run(1) == 0
        assert state.placed.all()


def assert_possible(case, state):
    """Assert that every subtask is in one queue of an allowed machine and that there is no cycle."""
    queues = state.queues()
    assert sorted(task for queue in queues for task in queue) == sorted(
        set(range(case.number)) - set(case.virtual)
    )
    for machine, queue in enumerate(queues):
        assert all(machine in case.seconds[task] for task in queue)
        assert all(case.bound.get(task, machine) == machine for task in queue)
    assert not any(task in reachable(case, queues, task, backwards=False) for task in range(case.number))
    place = {task: index for index, task in enumerate(state.order.tolist())}
    assert len(place) == case.number
    for queue in queues:
        assert sorted(queue, key=place.get) == queue
    assert all(place[parent] < place[task] for task in place for parent in case.parents[task])
    assert (state.start >= np.array(case.earliest)).all()


def test_no_step_of_the_reference_makes_the_schedule_longer():
    rng = generator(4, "xdcp", "twin")
    gains = []
    for _ in range(20):
        case = random_case(rng, shared=False, ties=True)
        _, lengths = xdcp_pass(case, case.queues, case.number)
        assert lengths == sorted(lengths, reverse=True)
        gains.append(lengths[0] - lengths[-1])
    assert max(gains) > 0
