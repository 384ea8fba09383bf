"""Stored fronts: a chosen plan is exactly the one shown, and other fronts are not used."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from planning_examples import platform, workflow
from weft.api.pareto import choose, front_path, load_front, save_front
from weft.errors import Infeasible, InvalidInput

LAW = {"seconds": {1: 90, 2: 50, 4: 30}}
TASKS = {
    "wide": {"work": 90, "nodes": [1, 2, 4], "speedup": LAW, "sweep": {"k": "1..3"}},
    "last": {"work": 7, "after": "wide"},
}
GRID = platform({"nodes": 4, "price_per_node_hour": 5}, {"nodes": 2, "speed": 2, "price_per_node_hour": 20})


@pytest.fixture
def shown(tmp_path):
    front = weft.pareto(workflow(TASKS), on=GRID, plan_steps=600, points=6, seed=4)
    save_front(front, tmp_path)
    return front


def same(one, other) -> bool:
    columns = ("machine", "nodes", "start_s", "finish_s")
    return all(np.array_equal(getattr(one, column), getattr(other, column)) for column in columns)


def test_a_stored_front_is_restored_exactly(shown, tmp_path) -> None:
    again = load_front(workflow(TASKS), on=GRID, folder=tmp_path)
    assert again is not None
    assert again.as_record() == shown.as_record()
    assert len(shown) > 1
    for number, entry in enumerate(shown.entries, start=1):
        chosen = choose(workflow(TASKS), number, on=GRID, folder=tmp_path)
        assert same(chosen.schedule, entry.schedule)
        assert chosen.verify() == []


def test_stored_front_of_the_published_procedure_is_restored_exactly(tmp_path) -> None:
    one = platform({"nodes": 4, "queue": "fifo"})
    front = weft.pareto(workflow(TASKS), on=one, preset="s2", plan_steps=1_000)
    save_front(front, tmp_path)
    again = load_front(workflow(TASKS), on=one, folder=tmp_path)
    assert again is not None
    assert [entry.decoder for entry in again.entries] == ["queue"] * len(front)
    assert all(same(*pair) for pair in zip(
        (entry.schedule for entry in again.entries), (entry.schedule for entry in front.entries), strict=True
    ))  # fmt: skip


def test_stored_front_is_not_used_for_another_workflow_parameter_or_platform(shown, tmp_path) -> None:
    given = workflow(TASKS | {"last": {"work": 8, "after": "wide"}})
    assert load_front(given, on=GRID, folder=tmp_path) is None
    assert load_front(workflow(TASKS), on=platform({"nodes": 4}), folder=tmp_path) is None
    flow = weft.Builder("sized", params={"size": 3})
    flow.task("a", work="size")
    save_front(weft.pareto(flow.build(), on=GRID, plan_steps=20, params={"size": 5}), tmp_path)
    assert load_front(flow.build(), on=GRID, folder=tmp_path) is None
    assert load_front(flow.build(), on=GRID, params={"size": 5}, folder=tmp_path) is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"weft-front": 1', '"weft-front": 99'),
        lambda text: text.replace('"order": [', '"order": [0, '),
        lambda text: text.replace('"order"', '"ordre"'),
        lambda text: json.dumps(_slower(json.loads(text))),
    ],
    ids=["cut", "version", "order", "key", "time"],
)
def test_a_damaged_or_outdated_front_is_computed_again(shown, tmp_path, damage) -> None:
    path = front_path(workflow(TASKS), GRID, tmp_path)
    path.write_text(damage(path.read_text()))
    assert load_front(workflow(TASKS), on=GRID, folder=tmp_path) is None
    chosen = choose(workflow(TASKS), 1, on=GRID, folder=tmp_path, plan_steps=600, points=6, seed=4)
    assert same(chosen.schedule, shown.entries[0].schedule)
    assert load_front(workflow(TASKS), on=GRID, folder=tmp_path) is not None


def _slower(known):
    for point in known["points"]:
        point["makespan_s"] *= 1.01
    return known


def test_a_front_is_searched_if_none_is_stored(tmp_path) -> None:
    folder = tmp_path / "new" / "fronts"
    first = choose(workflow(TASKS), 2, on=GRID, folder=folder, plan_steps=300)
    assert front_path(workflow(TASKS), GRID, folder).is_file()
    assert same(first.schedule, choose(workflow(TASKS), 2, on=GRID, folder=folder, seed=9).schedule)


def test_missing_point_and_point_beyond_a_limit_are_rejected(shown, tmp_path) -> None:
    with pytest.raises(InvalidInput, match=rf"point 99 of the front; it has {len(shown)} points"):
        choose(workflow(TASKS), 99, on=GRID, folder=tmp_path)
    slowest = len(shown)
    deadline_s = shown.points[-1].makespan_s * 0.99
    with pytest.raises(Infeasible, match="longer than the deadline"):
        choose(workflow(TASKS), slowest, on=GRID, folder=tmp_path, deadline_s=deadline_s)
