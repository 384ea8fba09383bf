"""Indexes that are kept between events, compared with slow reference implementations."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, planned, platform
from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.indexes import IndexSet, to_seconds, to_units
from weft.engine.state.machines import MachineState
from weft.engine.state.plan import RunPlan, store_schedule
from weft.engine.state.ready import EarlyTasks, PlanCursor, PlannedTasks
from weft.engine.state.run import PromisedWork, RunState, RunTerms, UnfinishedTasks
from weft.engine.states import TaskState
from weft.policies.orders import ByRank
from weft.workflow.settings import SettingsLayers, WorkflowSettings

PLACES = st.integers(0, 5_000)


def settings_of(known):
    return WorkflowSettings(SettingsLayers(), known.graph.workflow)


@given(st.lists(st.tuples(st.booleans(), PLACES), max_size=60), PLACES)
def test_index_set_equals_a_sorted_set(steps, start):
    marks, twin = IndexSet(), set()
    for wanted, place in steps:
        if wanted:
            marks.add(place)
            twin.add(place)
        elif place in twin:
            marks.remove(place)
            twin.remove(place)
        assert bool(marks) == bool(twin)
    assert marks.next(start) == min((place for place in twin if place >= start), default=None)


@given(st.lists(st.floats(1e-3, 1e9), max_size=30), st.randoms(use_true_random=False))
def test_exact_sum_does_not_depend_on_the_order_of_changes(seconds, shuffler):
    others = [3.1, 1e-7, 2.5e8]
    steps = [to_units(each) for each in [*seconds, *others]] + [-to_units(each) for each in others]
    shuffler.shuffle(steps)
    exact = float(sum(Fraction(each) for each in seconds))
    assert to_seconds(sum(steps)) == pytest.approx(exact, rel=1e-15, abs=1e-15)
    assert sum(steps) == sum(to_units(each) for each in seconds)


def chain_and_sweep():
    """Return a compiled workflow in which many tasks have equal ranks, with a transfer and a virtual task."""
    return CompiledWorkflow(
        "w",
        instance(
            {
                "a": {"sweep": {"k": "1..8"}, "work": "1 + k % 3", "machine": "A"},
                "move": {
                    "kind": "transfer",
                    "from_": "A",
                    "to": "B",
                    "file": "x",
                    "size": "8MB",
                    "after": "a[1]",
                },
                "b": {"work": 3, "machine": "B", "after": "move"},
                "end": {"kind": "virtual", "after": "b"},
            },
            platform({}, {"speed": 2.0}),
        ),
    )


@given(st.lists(st.integers(0, 10), max_size=40), st.integers(0, 12))
def test_unfinished_tasks_are_ordered_by_rank(toggled, most):
    known = chain_and_sweep()
    left = set(range(len(known)))
    kept = UnfinishedTasks(known, left)
    for task in toggled:
        left ^= {task}
        kept.count(task, 1 if task in left else -1)
        expected = sorted(left, key=lambda task: (-known.ranks[task], task))[:most]
        assert list(kept.first(most)) == expected
        anew = UnfinishedTasks(known, left)
        assert (kept.seconds, kept.computing_s) == (anew.seconds, anew.computing_s)
    means = {task: known.mean_seconds[task] for task in left}
    assert kept.seconds == pytest.approx(sum(means.values()))
    computing = sum(mean for task, mean in means.items() if known.group[task] >= 0)
    assert kept.computing_s == pytest.approx(computing)


def planned_sweep():
    """Return a compiled workflow with a plan."""
    known = CompiledWorkflow(
        "w", instance({"a": {"sweep": {"k": "1..12"}, "work": "1 + k % 2"}}, platform({}, {"speed": 2.0}))
    )
    stored = store_schedule(planned(known.instance), known, planner="heft", steps=0)
    return known, RunPlan(stored, known, stored.key)


@given(st.data())
def test_plan_cursor_equals_a_sorted_list(data):
    known, plan = planned_sweep()
    by_rank = data.draw(st.booleans())
    tasks = PlannedTasks(plan, known, by_rank=by_rank)
    there = data.draw(st.lists(st.integers(0, len(known) - 1), unique=True))
    kinds = {task: (0, data.draw(st.integers(-1, 0))) for task in there}
    for task, kind in kinds.items():
        tasks.add(task, kind)

    def place(task):
        return (-known.ranks[task] if by_rank else 0.0, plan.planned_tasks[task].start_s, task)

    def alike(task):
        line = plan.planned_tasks[task]
        return (line.machine, line.count, known.seconds_kinds[task], kinds[task])

    turn, left, left_out, waiting = PlanCursor(tasks), sorted(there, key=place), set(), []
    for _ in range(len(there)):
        open_ = [task for task in left if alike(task) not in left_out]
        assert turn.head() == (left[0] if left else None)
        assert turn.next() == (open_[0] if open_ else None)
        if not open_:
            break
        task = open_[0]
        left = left[left.index(task) + 1 :]
        match data.draw(st.sampled_from(["placed", "wait", "leave out", "rebound"])):
            case "placed":
                tasks.remove(task)
                turn.pass_by(task)
            case "wait":
                turn.let_wait(task)
                waiting.append(alike(task))
                left_out |= {alike(task)} if waiting.count(alike(task)) == 16 else set()
            case "leave out":
                turn.leave_out(task)
                left_out.add(alike(task))
            case "rebound":
                turn.pass_by(task)
                for other in left:
                    kinds[other] = (0, 1)
                    tasks.add(other, kinds[other])


def test_plan_cursor_returns_at_most_sixteen_waiting_tasks_of_a_machine_class():
    known = CompiledWorkflow("w", instance({"a": {"sweep": {"k": "1..40"}, "work": 1}}, "identical:1"))
    stored = store_schedule(planned(known.instance), known, planner="heft", steps=0)
    tasks = PlannedTasks(RunPlan(stored, known, stored.key), known)
    for task in range(len(known)):
        tasks.add(task, (0, -1))
    turn, seen = PlanCursor(tasks), 0
    while (task := turn.next()) is not None:
        turn.let_wait(task)
        seen += 1
    assert seen == 16
    assert PlanCursor(tasks).next() is not None, "they are examined again by the next cursor"


def test_early_tasks_are_listed_in_plan_order_with_their_current_kind():
    known, plan = planned_sweep()
    bound = {}
    early = EarlyTasks(lambda task: (0, bound.get(task, -1)))
    for task in (5, 3, 4, 3):
        early.add(task)
    assert list(early) == [5, 3, 4]
    tasks = early.by_plan(plan, known)
    early.discard(5)
    early.discard(5)
    early.add(7)
    bound[3] = 1
    early.changed(3)
    early.changed(9)
    assert sorted(tasks.kind) == [3, 4, 7]
    assert {task: kind[-1] for task, kind in tasks.kind.items()} == {3: 1, 4: -1, 7: -1}
    assert early.by_plan(plan, known) is tasks


def test_binding_updates_the_kind_of_early_tasks():
    known = chain_and_sweep()
    stored = store_schedule(planned(known.instance), known, planner="heft", steps=0)
    plan = RunPlan(stored, known, stored.key)
    run = RunState(0, known, ByRank(), terms=RunTerms(), now=0.0, planned=True, settings=settings_of(known))
    move, b = known.graph.index("move"), known.graph.index("b")
    run.early.add(b)
    kinds = run.early.by_plan(plan, known).kind
    before = kinds[b]
    run.bind(move, 1)
    assert before[3:] == (known.group[b], -1)
    assert kinds[b][3:] == (known.group[b], 1)
    run.unbind(known.variable[b])
    assert kinds[b] == before


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([None, 0, 1])), max_size=40))
def test_promised_work_of_a_machine_counts_each_task_only_on_its_last_promised_machine(steps):
    known = chain_and_sweep()
    reported, last = {0: 0, 1: 0}, {}

    def handle(machine, units):
        reported[machine] += units

    promises = PromisedWork(known, handle)
    for task, machine in steps:
        promises.give(task, machine)
        last[task] = machine
    for machine, units in reported.items():
        seconds = sum(known.seconds(task, machine, 1) for task in last if last[task] == machine)
        assert to_seconds(units) == pytest.approx(seconds)
    promises.withdraw()
    assert reported == {0: 0, 1: 0}


def test_ready_task_or_task_with_started_transfer_is_promised_to_its_machine():
    known, reported = chain_and_sweep(), {0: 0, 1: 0}

    def handle(machine, units):
        reported[machine] += units

    run = RunState(
        0,
        known,
        ByRank(),
        terms=RunTerms(),
        now=0.0,
        planned=False,
        settings=settings_of(known),
        promise=handle,
    )
    first, move, last = (known.graph.index(name) for name in ("a[1]", "move", "b"))
    run.bind(first, 0)
    ready_s = sum(known.seconds(known.graph.index(f"a[{k}]"), 0, 1) for k in range(1, 9))
    assert to_seconds(reported[0]) == pytest.approx(ready_s)  # all share their machine
    run.move(first, TaskState.SCHEDULED)
    assert to_seconds(reported[0]) == pytest.approx(ready_s - known.seconds(first, 0, 1))
    run.bind(last, 1)
    assert reported[1] == 0  # no transfer has started
    run.missing[move] = 0
    run.move(move, TaskState.READY)
    run.move(move, TaskState.SCHEDULED)
    assert to_seconds(reported[1]) == pytest.approx(known.seconds(last, 1, 1))
    run.unbind(known.variable[last])
    assert reported[1] == 0


def waiting(number, nodes, seconds):
    return SimpleNamespace(number=number, nodes=nodes, seconds=seconds, turn=(0.0, number), queued=False)


def reference_free_at_s(capacity, holders, queue, nodes, now, speed):
    """Return when ``nodes`` nodes are free after the queued attempts, which start one after another."""
    taken = [(max(end, now), some) for end, some in holders]
    begin = now
    for some, seconds in [*queue, (nodes, 0.0)]:
        times = sorted({begin, *(end for end, _ in taken if end > begin)})
        begin = next(
            time for time in times if capacity - sum(used for end, used in taken if end > time) >= some
        )
        taken.append((begin + seconds / speed, some))
    return begin


@st.composite
def queues(draw, most):
    """Draw a machine with running attempts (``holders``) and queued ones."""
    capacity = draw(st.integers(1, 5))
    holders, free = [], capacity
    for _ in range(draw(st.integers(0, 4))):
        some = draw(st.integers(1, 5))
        if some <= free:
            free -= some
            holders.append((draw(st.integers(0, 30)) / 2, some))
    queue = draw(st.lists(st.tuples(st.integers(1, capacity), st.integers(1, 20)), max_size=most))
    return capacity, holders, [(nodes, float(seconds)) for nodes, seconds in queue]


def machine_with(capacity, holders, queue, speed):
    machine = MachineState(instance({"a": {"work": 1}}, platform({"nodes": capacity})), 0)
    machine.speed_factor = speed
    for number, (end, some) in enumerate(holders):
        machine.holders[-1 - number] = SimpleNamespace(expected_end_s=end, nodes=some)
        machine.free_nodes -= some
    attempts = {number: waiting(number, *each) for number, each in enumerate(queue)}
    for attempt in attempts.values():
        machine.enqueue(attempt)
    return machine, attempts


@given(queues(most=30), st.data(), st.sampled_from([0.5, 1.0, 2.0]))
def test_time_at_which_a_machine_becomes_free_considers_its_queue_in_order(scene, data, speed):
    capacity, holders, queue = scene
    nodes = data.draw(st.integers(1, capacity))
    machine, attempts = machine_with(capacity, holders, queue, speed)
    expected = reference_free_at_s(capacity, holders, queue, nodes, 5.0, speed)
    assert machine.free_at_s(nodes, attempts, 5.0) == pytest.approx(expected)


@given(queues(most=30), st.data())
def test_free_time_estimate_divides_work_behind_the_first_queued_attempts_by_all_nodes(scene, data):
    capacity, holders, queue = scene
    nodes = data.draw(st.integers(1, capacity))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.engine.state.machines._MAX_SERVED", 3)
        machine, attempts = machine_with(capacity, holders, queue, 1.0)
        found = machine.free_at_s(nodes, attempts, 5.0)
    if capacity == 1:
        assert found == pytest.approx(reference_free_at_s(capacity, holders, queue, nodes, 5.0, 1.0))
        return
    behind = sum(some * seconds for some, seconds in queue[3:]) / capacity
    first = reference_free_at_s(capacity, holders, queue[:3], nodes, 5.0, 1.0)
    assert found == pytest.approx(first + behind)


def test_dequeue_restores_the_queued_work():
    machine, attempts = machine_with(1, [(7.3, 1)], [(1, 0.1), (1, 0.2), (1, 1e8)], 1.0)
    machine.dequeue(attempts[2])
    machine.dequeue(attempts[0])
    assert machine.free_at_s(1, attempts, 0.0) == 7.3 + 0.2
