"""PEFT beyond the paper: lookahead over several steps, and refusal of a table that is too large."""

from __future__ import annotations

from planning_examples import MAKESPAN, instance, lines, planned, platform
from weft.planners import peft
from weft.planners.peft import Peft, optimistic_table

FAR = {
    "a": {"seconds": {"m0": 3, "m1": 4}, "outputs": {"x": {"seconds": 2}}},
    "b": {"seconds": {"m0": 3, "m1": 4}, "inputs": ["x"], "outputs": {"y": {"seconds": 9}}},
    "c": {"seconds": {"m1": 2}, "inputs": ["y"]},
}
TWO = platform({}, {})


def test_task_is_placed_where_its_successors_finish_early():
    found = lines(planned(instance(FAR, TWO), "peft"))
    assert {task: machine for task, (machine, *_) in found.items()} == {"a": "m1", "b": "m1", "c": "m1"}
    assert found["c"][3] == 10


def test_cost_table_uses_the_best_machine_of_each_successor():
    made = instance(FAR, TWO)
    costs, ranks = optimistic_table(made)
    # From a on m0: b there takes 3 + 9 + 2, b on m1 takes 4 + 2, and 2 for its data.
    assert costs.tolist() == [[8, 6], [11, 2], [0, 0]]
    assert ranks.tolist() == [7, 6.5, 0]


def test_cost_table_uses_the_common_machine_of_an_abstract_machine():
    tasks = {name: keys | {"machine": "A"} for name, keys in FAR.items() if name != "c"}
    assert optimistic_table(instance(tasks, TWO))[0][0].tolist() == [3, 4]


def test_cost_table_that_is_too_large_is_refused(monkeypatch):
    made = instance(FAR, TWO)
    monkeypatch.setattr(peft, "_MAX_CELLS", 6)
    assert Peft().supports(made, MAKESPAN) is None
    monkeypatch.setattr(peft, "_MAX_CELLS", 5)
    assert "3 tasks x 2 machines" in Peft().supports(made, MAKESPAN).reason
