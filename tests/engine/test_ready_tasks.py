"""Heaps of ready tasks: the first task of every kind after changes."""

from __future__ import annotations

from weft.engine.state.ready import ReadyTasks


def test_task_that_returns_with_another_kind_leaves_its_old_heap() -> None:
    """A lost task is ready again with its old priority, but must avoid a machine."""
    kinds: dict[int, tuple[int, ...]] = {1: (0, -1), 2: (0, -1)}
    ready = ReadyTasks(lambda task: 5.0, kinds.__getitem__)
    ready.add(1)
    ready.add(2)
    ready.remove(1)  # placed, and the heads were not read since
    kinds[1] = (0, -1, 7)
    ready.add(1)
    assert sorted(ready.heads()) == [1, 2]


def test_task_whose_kind_changes_while_it_is_ready_is_found_once() -> None:
    kinds: dict[int, tuple[int, ...]] = {1: (0, -1), 2: (0, -1)}
    ready = ReadyTasks(lambda task: float(task), kinds.__getitem__)
    ready.add_all([1, 2])
    kinds[1] = (0, 3)
    ready.changed(1)
    assert ready.heads() == [1, 2]
    ready.remove(1)
    assert ready.heads() == [2]
