"""Machine variables of the tasks in a window, and which of them are pinned."""

from __future__ import annotations

from weft.engine.replan.window import RunSituation, TaskStanding, build_graph, build_window

Q, R, C, F = TaskStanding.QUEUED, TaskStanding.RUNNING, TaskStanding.COMPLETED, TaskStanding.FAILED


def bound(tasks, edges, *, violating=(), declared=()):
    """Return the bindings of tasks given as (standing, machine, source, iteration) in program order."""
    standing, machine, source, iteration = zip(*tasks, strict=True)
    graph = build_graph(machine=machine, source=source, edges=edges, declared=declared)
    situation = RunSituation(
        graph=graph, standing=standing, iteration=iteration, violating=frozenset(violating)
    )
    return build_window(situation).bindings


def test_both_ends_of_a_running_transfer_are_pinned():
    found = bound([(C, 5, None, 1), (R, 6, 5, 1), (Q, 6, None, 1)], [(0, 1), (1, 2)])
    assert found.pinned == ((5, 1), (6, 1))
    assert found.machine == {2: (6, 1)}


def test_waiting_task_is_pinned_to_the_machine_of_a_completed_task_of_the_same_variable():
    tasks = [(C, 5, None, 1), (Q, 5, None, 1), (Q, 6, None, 1)]
    assert bound(tasks, [(0, 1), (1, 2)]).pinned == ((5, 1),)


def test_variable_of_a_migrating_task_is_not_pinned_by_another_completed_task():
    # 0 has completed on the machine of 1, which is too slow, but is no predecessor of it; 2 waits for both
    # there.
    tasks = [(C, 5, None, 1), (R, 5, None, 1), (Q, 5, None, 1)]
    assert bound(tasks, [(0, 2), (1, 2)], violating=[1]).pinned == ()
    assert bound(tasks, [(0, 2), (1, 2)]).pinned == ((5, 1),)


def test_running_task_pins_its_variable_although_another_task_moves():
    tasks = [(R, 5, None, 1), (R, 5, None, 1)]
    assert bound(tasks, [], violating=[0]).pinned == ((5, 1),)


def test_failed_transfer_repeats_its_producer_or_reads_the_file_where_it_is_stored():
    produced = bound([(C, 5, None, 1), (F, 6, 5, 1)], [(0, 1)])
    assert produced.machine == {0: (5, 1), 1: (6, 1)}
    assert produced.pinned == ()
    given = bound([(C, 7, None, 1), (F, 6, 5, 1)], [(0, 1)])
    assert given.source == {1: (5, 1)}
    assert given.pinned == ((5, 1),)


def test_transfer_into_a_loop_reads_from_the_machine_of_the_task_outside_the_loop():
    # 0 is outside; 1 copies from it in every iteration to 2, which runs in iteration 4.
    tasks = [(C, 5, None, 1), (C, 6, 5, 4), (R, 6, None, 4)]
    found = bound(tasks, [(0, 1), (1, 2)], declared=[(2, 1)])
    assert found.machine == {1: (6, 5)}
    assert found.source == {1: (5, 1)}
    assert found.pinned == ((5, 1), (6, 4))


def test_transfer_at_the_start_of_a_loop_reads_from_the_machine_of_the_previous_iteration():
    # The loop 0 -> 1 -> 0: 0 copies from the machine of 1 of the iteration before.
    found = bound([(C, 6, 5, 2), (Q, 5, None, 2)], [(0, 1)], declared=[(1, 0)])
    assert found.machine == {0: (6, 3), 1: (5, 2)}
    assert found.source == {0: (5, 2)}
    assert found.pinned == ()
