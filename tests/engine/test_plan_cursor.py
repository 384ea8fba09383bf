"""Cursors over planned tasks, compared with a slow reference while tasks and machines change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_cursor_reference import ReferenceCursor
from planning_examples import instance, planned, platform
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.indexes import ChangeLog, PartitionedIndexSet
from weft.engine.state.plan import RunPlan, store_schedule
from weft.engine.state.ready import PlanCursor, PlannedTasks

MACHINES, TASKS = 4, 24
NODES = 2

ROOM = CompiledWorkflow(
    "w",
    instance(
        {"a": {"sweep": {"k": f"1..{TASKS}"}, "work": "1 + k % 3"}},
        platform(*({"speed": 1.0 + index % 2} for index in range(MACHINES))),
    ),
)
STORED = store_schedule(planned(ROOM.instance), ROOM, planner="heft", steps=0)


def accepts_machine(task, machine, count):
    """Return whether a task accepts a machine: every machine except the last."""
    return machine != MACHINES - 1


class Scene:
    """Tasks and machines with the index that is updated with every change."""

    def __init__(self, data, by_rank):
        self.data = data
        self.plan = RunPlan(STORED, ROOM, STORED.key)
        for task in data.draw(st.sets(st.integers(0, TASKS - 1), max_size=4)):
            del self.plan.planned_tasks[task]  # it was added after the plan
        self.tasks = PlannedTasks(self.plan, ROOM, accepts_machine, by_rank=by_rank)
        self.changes, self.kinds = ChangeLog(), {}
        self.down, self.known_down = set(), set()
        self.free = [0] * MACHINES

    def kind(self, task):
        """Draw the kind of a task: its group, original or changed requirements, its machine or -1."""
        group = self.data.draw(st.sampled_from([0, 0, 0, 1, -3, -4]))
        return group, self.data.draw(st.sampled_from([-1, -1, -1, 0, 1]))

    def add(self, task):
        self.kinds[task] = self.kind(task)
        self.tasks.add(task, self.kinds[task])

    def remove(self, task):
        del self.kinds[task]
        self.tasks.remove(task)

    def change(self):
        """Add or remove a task, or change the state of a machine, between two traversals."""
        what = self.data.draw(st.sampled_from(["add", "add", "remove", "down or up", "free"]))
        task, machine = (
            self.data.draw(st.integers(0, TASKS - 1)),
            self.data.draw(st.integers(0, MACHINES - 1)),
        )
        if what == "add":
            self.add(task)
        elif what == "remove" and task in self.kinds:
            self.remove(task)
        elif what == "down or up":
            self.fail_or_repair(machine)
        elif what == "free":
            self.free[machine] = min(NODES, self.free[machine] + 1)
            self.changes.note(machine)

    def fail_or_repair(self, machine):
        self.down ^= {machine}
        self.changes.note(machine)

    def turns(self, *, strict=False):
        """Refresh the index; return a new cursor and its reference."""
        self.known_down.clear()
        self.known_down.update(self.down)
        self.tasks.refresh(self.changes, lambda machine: machine not in self.down)
        twin = ReferenceCursor(
            self.plan,
            self.tasks.place,
            ROOM.seconds_kinds,
            self.kinds,
            self.known_down,
            accepts_machine,
            strict=strict,
        )
        return PlanCursor(self.tasks, strict=strict), twin

    def is_free(self, machine):
        return machine not in self.down and self.free[machine] > 0


@st.composite
def some(draw, number):
    """Draw a range of up to ``number`` repetitions."""
    return range(draw(st.integers(0, number)))


@given(st.data(), st.booleans(), st.booleans())
def test_plan_cursor_returns_the_same_tasks_as_its_reference(data, by_rank, strict):
    scene = Scene(data, by_rank)
    for _ in range(3):
        for _ in data.draw(some(20)):
            scene.change()
        pairs = [scene.turns(strict=strict) for _ in range(data.draw(st.integers(1, 2)))]
        for _ in data.draw(some(40)):
            turn, twin = data.draw(st.sampled_from(pairs))
            assert (turn.head(), turn.next(), turn.waiting) == (twin.head(), twin.next(), twin.waiting)
            task = turn.next()
            if data.draw(st.integers(0, 9)) == 9:
                scene.fail_or_repair(data.draw(st.integers(0, MACHINES - 1)))
                pairs.append(scene.turns(strict=strict))
            elif task is not None:
                step(scene, pairs, (turn, twin), task)


def step(scene, pairs, both, task):
    """Handle the next task of one cursor, and perhaps change others."""
    what = scene.data.draw(
        st.sampled_from(["pass_by", "let_wait", "leave_out", "leave_out_kind", "placed", "rebound", "again"])
    )
    if what in ("placed", "again"):
        for each in both:
            each.pass_by(task)
        scene.remove(task)
        for _, twin in pairs:
            twin.gone(task)
        if what == "again":
            scene.add(task)
    elif what == "rebound":
        for other in sorted(scene.kinds):
            line = scene.plan.planned_tasks.get(other)
            if line is not None and line.machine not in scene.down:
                scene.add(other)
    else:
        for each in both:
            getattr(each, what)(task)


def place_if_free(scene, task, *turns, hurried=True):
    """Place a task if its planned machine is free; return whether it was placed."""
    line = scene.plan.planned_tasks.get(task)
    machine = None if line is None or line.machine in scene.down else line.machine
    need = 2 if scene.kinds[task][0] == 1 else 1
    goes = machine is not None and need <= scene.free[machine]
    if goes:
        scene.free[machine] -= need
    for turn in turns:
        if goes:
            turn.pass_by(task)
        elif machine is None and hurried:
            turn.leave_out_kind(task)
        else:
            turn.leave_out(task)
    return goes


@given(st.data(), st.booleans())
def test_cursor_that_skips_busy_machines_yields_the_same_tasks(data, by_rank):
    scene = Scene(data, by_rank)
    for _ in range(4):
        for _ in data.draw(some(12)):
            scene.change()
        turn, twin = scene.turns()
        for _ in data.draw(some(3)):
            task = turn.next()
            if task is not None and place_if_free(scene, task, turn, twin, hurried=False):
                scene.remove(task)
        turn.hurry(scene.is_free)
        twin.hurry(scene.is_free)
        assert turn.hurried
        before, expected, gone = list(scene.free), [], []
        while (task := twin.next()) is not None:
            if place_if_free(scene, task, twin):
                expected.append(task)
                twin.gone(task)
        scene.free = before
        while (task := turn.next()) is not None:
            if place_if_free(scene, task, turn):
                gone.append(task)
                scene.remove(task)
        assert gone == expected


def everybody(plan):
    tasks = PlannedTasks(plan, ROOM)
    for task in range(TASKS):
        tasks.add(task, (0, -1))
    return tasks


def test_machine_without_a_fitting_task_is_skipped_until_it_changes():
    tasks, changes, requested = everybody(RunPlan(STORED, ROOM, STORED.key)), ChangeLog(), []

    def hurry(free):
        tasks.refresh(changes, lambda _: True)
        turn, found = PlanCursor(tasks), []
        requested.clear()
        turn.hurry(lambda machine: requested.append(machine) or machine in free)
        while (task := turn.next()) is not None:
            found.append(task)
            turn.leave_out(task)
        return found

    assert len(hurry({0})) > 0
    assert {0, 1, 2, 3} <= set(requested)
    assert hurry({0}) == []
    assert requested == []
    changes.note(1)
    assert hurry({0}) == []
    assert requested == [1]
    changes.note(0)
    assert len(hurry({0})) > 0


def test_machine_is_examined_again_when_other_tasks_are_planned_there():
    tasks, changes = PlannedTasks(RunPlan(STORED, ROOM, STORED.key), ROOM), ChangeLog()
    first, other, later = [task for task, line in tasks.plan.planned_tasks.items() if line.machine == 0][:3]

    def found():
        tasks.refresh(changes, lambda _: True)
        turn = PlanCursor(tasks)
        turn.hurry(lambda _: True)
        while (task := turn.next()) is not None:
            turn.leave_out(task)
            yield task

    tasks.add(first, (0, -1))
    tasks.add(other, (1, -1))
    assert list(found()) == sorted([first, other], key=tasks.place.__getitem__)
    assert list(found()) == []
    tasks.add(later, (2, -1))
    assert later in list(found())
    assert list(found()) == []
    tasks.remove(later)
    assert first in list(found())


def test_tasks_planned_on_an_unusable_machine_are_skipped():
    tasks, changes, up = everybody(RunPlan(STORED, ROOM, STORED.key)), ChangeLog(), set(range(MACHINES))

    def homes():
        tasks.refresh(changes, up.__contains__)
        turn, found = PlanCursor(tasks, strict=True), set()
        while (task := turn.next()) is not None:
            found.add(tasks.plan.planned_tasks[task].machine)
            turn.pass_by(task)
        return found

    assert homes() == {0, 1, 2, 3}
    up.discard(2)
    changes.note(2)
    assert homes() == {0, 1, 3}
    up.add(2)
    changes.note(2)
    assert homes() == {0, 1, 2, 3}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000)), max_size=40))
def test_partitioned_set_returns_the_first_position_of_each_part(steps):
    parts, twin = PartitionedIndexSet(), {}
    for part, place in steps:
        place = 4 * place + part  # a position belongs to one part only
        there = twin.setdefault(part, set())
        parts.change(part, *((place, None) if place in there else (None, place)))
        there ^= {place}
        firsts = sorted(min(places) for places in twin.values() if places)
        assert parts.firsts.first == (firsts[0] if firsts else None)
        found = []
        while (place := parts.firsts.next(found[-1] + 1 if found else 0)) is not None:
            found.append(place)
        assert found == firsts
        assert sorted(parts.of) == sorted(part for part, places in twin.items() if places)


@pytest.mark.parametrize(
    ("noted", "count", "expected"), [([], 0, []), ([3, 1, 3], 0, [3, 1]), ([3, 1, 3], 2, [3])]
)
def test_change_log_lists_each_machine_once_latest_first(noted, count, expected):
    changes = ChangeLog()
    for machine in noted:
        changes.note(machine)
    assert changes.since(count) == expected
    assert changes.since(changes.count) == []
