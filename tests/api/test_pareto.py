"""``weft.pareto``: the front of small instances equals the one found by enumeration."""

from __future__ import annotations

import _thread
import json
import threading
from itertools import pairwise, permutations, product

import numpy as np
import pytest

import weft
from planning_examples import platform, workflow
from weft.errors import Infeasible, InvalidInput
from weft.planners import pareto_search
from weft.planners.pareto_search import ALPHAS, RUNS
from weft.schedule.verification import verify

NODES = 4
TIMES = {
    "a": {1: 12, 2: 7, 3: 6, 4: 5},
    "b": {1: 9, 2: 5, 4: 4},
    "c": {1: 6, 2: 4},
    "d": {1: 8, 2: 6, 3: 3},
}
AFTER = {"a": [], "b": [], "c": ["a"], "d": ["a", "b"]}
TASKS = {
    name: {"nodes": list(times), "work": times[1], "speedup": {"seconds": times}, "after": AFTER[name]}
    for name, times in TIMES.items()
}
CLUSTER = platform({"nodes": NODES})
STEPS = 2_000


def serial(counts, order) -> float:
    """Return the makespan if the tasks start in this order, each at its earliest feasible time."""
    placed: dict[str, tuple[float, float, int]] = {}
    for name in order:
        ready = max((placed[before][1] for before in AFTER[name]), default=0.0)
        length, wide = TIMES[name][counts[name]], counts[name]
        for start in sorted({ready, *(end for _, end, _ in placed.values() if end > ready)}):
            moments = [start, *(begin for begin, _, _ in placed.values() if start < begin < start + length)]
            used = [sum(n for begin, end, n in placed.values() if begin <= at < end) for at in moments]
            if max(used) + wide <= NODES:
                placed[name] = (start, start + length, wide)
                break
    return max(end for _, end, _ in placed.values())


def brute_force() -> set[tuple[float, float]]:
    """Return (shortest makespan, node-seconds) for every vector of node counts."""
    orders = [
        order
        for order in permutations(TIMES)
        if all(order.index(before) < order.index(name) for name in AFTER for before in AFTER[name])
    ]
    found = set()
    for vector in product(*(TIMES[name] for name in TIMES)):
        counts = dict(zip(TIMES, vector, strict=True))
        paid = sum(counts[name] * TIMES[name][counts[name]] for name in TIMES)
        found.add((min(serial(counts, order) for order in orders), float(paid)))
    return found


def undominated(pairs) -> list[tuple[float, float]]:
    return sorted(
        (time, paid)
        for time, paid in pairs
        if not any(t <= time and p <= paid and (t, p) != (time, paid) for t, p in pairs)
    )


def tiny(**options):
    return weft.pareto(workflow(TASKS), on=CLUSTER, **{"plan_steps": STEPS, "points": 16} | options)


@pytest.fixture(scope="module")
def front():
    return tiny()


def rows(front) -> list[tuple[float, ...]]:
    return [(p.makespan_s, p.node_seconds, p.idle_share, p.alpha) for p in front.points]


def test_front_of_time_and_cost_equals_the_enumerated_front(front) -> None:
    best = undominated(brute_force())
    found = [(point.makespan_s, point.node_seconds) for point in front.points]
    assert len(best) >= 4, "an instance in which there is something to choose"
    assert found == [(pytest.approx(time), pytest.approx(paid)) for time, paid in best]


def test_front_of_time_and_idle_share_equals_the_enumerated_front() -> None:
    pairs = {(time, round(1 - paid / (NODES * time), 12)) for time, paid in brute_force()}
    best = undominated(pairs)
    found = [(point.makespan_s, point.idle_share) for point in tiny(against="idle").points]
    assert len(best) >= 2
    # Every point is feasible and not dominated.
    for time, idle in found:
        assert any(time == pytest.approx(t) and idle == pytest.approx(i, abs=1e-9) for t, i in pairs)
    assert [time for time, _ in found] == [pytest.approx(time) for time, _ in best]
    assert [idle for _, idle in found] == [pytest.approx(idle, abs=1e-9) for _, idle in best]


@pytest.mark.parametrize("against", ["cost", "idle"])
def test_the_same_step_budget_gives_the_same_front_on_any_number_of_workers(against) -> None:
    first, second = (tiny(against=against, plan_steps=300, points=6) for _ in range(2))
    apart = tiny(against=against, plan_steps=300, points=6, pool="threads:2")
    assert rows(first) == rows(second) == rows(apart)
    for one, other in zip(first.entries, apart.entries, strict=True):
        assert np.array_equal(one.schedule.start_s, other.schedule.start_s)


def test_front_has_at_most_the_requested_number_of_points(front) -> None:
    few = tiny(points=3)
    assert len(few) <= 3 < len(front)
    assert few.points[-1].node_seconds == pytest.approx(front.points[-1].node_seconds)


def test_points_of_a_front_are_numbered_verified_and_list_node_counts(front) -> None:
    assert [point.number for point in front.points] == list(range(1, len(front) + 1))
    for point, entry in zip(front.points, front.entries, strict=True):
        assert verify(entry.schedule, front.instance.graph, front.instance.platform) == []
        taken = dict(zip(entry.schedule.tasks, entry.schedule.nodes.tolist(), strict=True))
        assert {found.kind: (found.least, found.most) for found in point.nodes} == {
            name: (taken[name], taken[name]) for name in TIMES
        }
        assert point.machines == (("m0", 4),)
    assert any("node-seconds" in note for note in front.notes)


def test_choose_returns_exactly_the_schedule_of_a_point(front) -> None:
    for point, entry in zip(front.points, front.entries, strict=True):
        chosen = front.choose(point.number)
        assert chosen.schedule is entry.schedule
        assert chosen.makespan_s == point.makespan_s
        assert chosen.verify() == []
        assert f"point {point.number} of {len(front)}" in " ".join(chosen.notes)
    for wrong in (0, len(front) + 1):
        with pytest.raises(InvalidInput, match=rf"point {wrong} .* it has {len(front)} points"):
            front.choose(wrong)


def test_points_beyond_the_limits_are_left_out_of_the_front() -> None:
    best = undominated(brute_force())
    middle_s = (best[0][0] + best[-1][0]) / 2
    found = [point.makespan_s for point in tiny(deadline_s=middle_s).points]
    assert found == [pytest.approx(time) for time, _ in best if time <= middle_s]
    priced = platform({"nodes": NODES, "price_per_node_hour": 3600.0})
    most = best[1][1]
    kept = weft.pareto(workflow(TASKS), on=priced, max_cost=most, plan_steps=2 * STEPS, points=24)
    assert kept.unit == "price"
    assert [point.cost for point in kept.points] == [pytest.approx(paid) for _, paid in best if paid <= most]
    assert not any("price" in note for note in kept.notes)


def test_front_is_infeasible_when_no_point_meets_the_limits() -> None:
    with pytest.raises(Infeasible, match="no plan can meet the deadline of 5 s"):
        tiny(deadline_s=5.0)
    priced = platform({"nodes": NODES, "price_per_node_hour": 3600.0})
    with pytest.raises(Infeasible, match="no plan can keep to a cost of 30"):
        weft.pareto(workflow(TASKS), on=priced, max_cost=30, plan_steps=50)


def test_front_on_heterogeneous_machines_contains_faster_and_cheaper_plans() -> None:
    tasks = {f"t{index}": {"work": 10 + index} for index in range(6)}
    grid = platform({"speed": 4, "price_per_node_hour": 90.0}, {"speed": 1, "price_per_node_hour": 3.0})
    front = weft.pareto(workflow(tasks), on=grid, plan_steps=1_000)
    # The cheapest plan runs everything on the slow machine.
    assert front.points[-1].cost == pytest.approx(sum(range(10, 16)) * 3.0 / 3600)
    assert front.points[-1].machines == (("m1", 6),)
    assert len(front) > 3
    for fast, slow in pairwise(front.points):
        assert fast.makespan_s < slow.makespan_s
        assert fast.cost > slow.cost
    assert "on m0" in front.points[0].choice_text


def test_ctrl_c_between_searches_returns_the_front_so_far() -> None:
    received: list[pareto_search.FrontProgress] = []

    def interrupt(progress) -> None:
        received.append(progress)
        if len(received) == 3:
            raise KeyboardInterrupt

    front = tiny(progress=interrupt)
    assert len(received) == 3
    assert front.cut
    assert len(front) >= 1
    assert any("interrupted" in note for note in front.notes)


def test_ctrl_c_during_a_search_returns_the_front_so_far() -> None:
    received: list[pareto_search.FrontProgress] = []

    def watch(progress) -> None:
        received.append(progress)
        if len(received) == 1:
            threading.Timer(0.2, _thread.interrupt_main).start()

    front = tiny(progress=watch, plan_steps=None, plan_time_s=120.0, points=10)
    assert front.cut
    assert any("interrupted" in note for note in front.notes)
    assert len(received) < 10


def test_progress_of_a_front_never_decreases() -> None:
    received: list[pareto_search.FrontProgress] = []
    tiny(progress=received.append, points=5, plan_steps=500)
    assert [one.done for one in received] == list(range(1, len(received) + 1))
    assert all(one.of >= one.done for one in received)
    assert all(0 <= one.filled <= 1 for one in received)
    assert received[-1].points > 1


def test_published_procedure_gives_a_verified_front() -> None:
    front = tiny(preset="s2", plan_steps=len(ALPHAS) * RUNS * 20)
    assert len(front.trials) == len(ALPHAS) * RUNS
    assert {trial.alpha for trial in front.trials} == set(ALPHAS)
    assert {point.alpha for point in front.points} <= set(ALPHAS)
    assert {point.by for point in front.points} == {"moldable-genetic"}
    assert front.view.by_alpha
    for alpha in ALPHAS:
        own = [point for point in front.points if point.alpha == alpha]
        tried = [(trial.makespan_s, trial.amount) for trial in front.trials if trial.alpha == alpha]
        # Every alpha has its own front: all its runs that no other run of the alpha covers.
        assert len(own) >= 1
        for point in own:
            better = [
                (time, cost)
                for time, cost in tried
                if time < point.makespan_s * (1 - 1e-9) and cost <= point.node_seconds * (1 + 1e-9)
            ]
            assert better == []
        for time, cost in tried:
            assert any(
                point.makespan_s <= time * (1 + 1e-9) and point.node_seconds <= cost * (1 + 1e-9)
                for point in own
            )
        weighed = [_on_demand(time, cost, alpha) for time, cost in tried]
        kept = [_on_demand(point.makespan_s, point.node_seconds, alpha) for point in own]
        assert min(kept) == pytest.approx(min(weighed))
    free = [point for point in front.points if not point.covered]
    assert [point.node_seconds for point in free] == sorted((p.node_seconds for p in free), reverse=True)
    assert front.choose(len(front.points)).makespan_s == front.points[-1].makespan_s


def test_amount_of_each_point_is_the_value_of_the_formula_given_as_second_objective() -> None:
    front = tiny(against="node_seconds + 100*nodes_used", points=4, plan_steps=800)
    assert (front.unit, front.view.noun) == ("formula", "node_seconds + 100 * nodes_used")
    assert len(front) > 1
    amounts = [point.amount for point in front.points]
    assert amounts == sorted(amounts, reverse=True)
    for number, point in enumerate(front.points, start=1):
        metrics = front.choose(number).metrics
        assert point.amount == pytest.approx(metrics.node_seconds + 100 * metrics.nodes_used)
    fewest = tiny(against="1 - efficiency", points=3, plan_steps=400)
    assert [point.amount for point in fewest.points] == sorted(
        (point.amount for point in fewest.points), reverse=True
    )


def _on_demand(makespan_s: float, node_s: float, alpha: float) -> float:
    whole = sum(times[1] for times in TIMES.values())
    return alpha * makespan_s / whole + (1 - alpha) * node_s / whole


def test_published_procedure_rejects_unsupported_workflows() -> None:
    with pytest.raises(InvalidInput, match=r"preset 's2' cannot plan this.*one machine"):
        weft.pareto(workflow(TASKS), on="identical:2", preset="s2")
    with pytest.raises(InvalidInput, match="neither deadline nor maximal cost"):
        tiny(preset="s2", deadline_s=100.0)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"against": "time"}, "traded against 'time'; must be cost, idle, or a formula over makespan"),
        ({"against": "efficiency"}, "which is maximised; write a formula to minimise"),
        ({"against": "makespan"}, "which is the time itself"),
        ({"against": "on-demand"}, "must be cost, idle, or a formula over makespan"),
        ({"against": "cost*2", "preset": "s2"}, "cost or idle nodes only"),
        ({"preset": "s3"}, "preset 's3'; must be one of s2"),
        ({"points": 1}, "a front of 1 points; must be at least 2"),
        ({"seed": -1}, "seed -1"),
        ({"plan_time_s": 3.0}, "only one of them"),
    ],
)
def test_wrong_pareto_options_are_rejected(options, reported) -> None:
    with pytest.raises(InvalidInput, match=reported):
        tiny(**options)


def test_record_of_a_front_is_complete_plain_data(front) -> None:
    import jsonschema

    number, text = {"type": "number"}, {"type": "string"}
    point = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "point": {"type": "integer"}, "makespan_s": number, "cost": number, "node_seconds": number,
            "idle_share": number, "alpha": {"type": ["number", "null"]}, "found_by": text,
            "amount": {"type": "null"}, "covered": {"type": "boolean"},
            "machines": {"type": "object", "additionalProperties": {"type": "integer"}},
            "nodes": {"type": "array", "items": {"required": ["kind", "tasks", "least", "most"]}},
            "schedule": {"items": {"required": ["task", "machine", "nodes", "start_s", "finish_s"]}},
        },
    }  # fmt: skip
    point["required"] = list(point["properties"])
    schema = {
        "required": [
            "workflow", "platform", "against", "unit", "preset", "seed", "deadline_s", "max_cost", "tasks",
            "edges", "lower_bound_s", "filled", "planning_s", "steps", "cut", "plan_time_s", "plan_steps",
            "workers", "notes", "points", "tried",
        ],
        "properties": {"points": {"type": "array", "minItems": 2, "items": point}},
    }  # fmt: skip
    record = json.loads(json.dumps(front.as_record(), allow_nan=False))
    jsonschema.validate(record, schema)
    assert record["unit"] == "node-seconds"
    assert record["lower_bound_s"] <= record["points"][0]["makespan_s"] * (1 + 1e-9)


def test_front_is_shown_as_a_chart_in_a_notebook(front) -> None:
    shown = front._repr_html_()
    assert shown.startswith("<iframe")
    assert "point-1" in shown
