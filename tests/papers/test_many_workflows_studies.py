"""The many-workflows experiments: applications and orders equal the reference data; the measures are correct."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from weft.papers.many_workflows import (
    ALONE_S,
    POLICY_LABELS,
    REFERENCES,
    SERIES,
    SERVERS,
    TIMES_S,
    WORK_S,
    box_measure,
    compare_policies,
    compile_applications,
    draw_order,
    reference_arrivals,
    run_policy,
    sample_measure,
    starvation_arrivals,
)
from weft.papers.many_workflows_online import CASES, OnlineStudy
from weft.papers.reproduction import Results
from weft.randomness import generator


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s5_expected.json").read_text())


def test_the_applications_equal_the_reference_data(figures):
    for name, instance in compile_applications(SERVERS).items():
        app = figures["apps"][name]
        seconds = [float(instance.modes(task).seconds[0]) for task in range(len(instance))]
        assert sorted(seconds) == sorted(app["w"])
        edges = {
            (seconds[task], seconds[other])
            for task in range(len(instance))
            for other in instance.graph.successors(task).tolist()
        }
        expected = {
            (app["w"][int(task)], app["w"][other]) for task, of in app["succ"].items() for other in of
        }
        assert edges == expected
        assert (ALONE_S[name], WORK_S[name]) == pytest.approx((app["alone_4"], app["sum_w"]))


def test_the_first_reference_order_equals_the_fixture(figures):
    found = [[arrival.at_s, arrival.workflow] for arrival in reference_arrivals(0)]
    assert found == figures["scenario_seed0"]


@pytest.mark.parametrize(
    "arrivals",
    [*(reference_arrivals(number) for number in range(REFERENCES)), draw_order(generator(3, "orders"))],
    ids=str,
)
def test_workflow_orders_are_two_series_of_51(arrivals):
    assert [arrival.at_s for arrival in arrivals] == [*np.arange(51) * 12.0, *np.arange(51) * 12.0 + 1200.0]
    for series in (arrivals[:51], arrivals[51:]):
        assert Counter(arrival.workflow for arrival in series) == SERIES


def test_workflow_orders_depend_only_on_the_random_generator():
    first, again, other = (draw_order(generator(seed, "orders")) for seed in (1, 1, 2))
    assert first == again != other


def test_arrival_rate_of_the_starvation_experiment_exceeds_the_capacity():
    arrivals = starvation_arrivals()
    load = WORK_S["GEE"] * len(arrivals) / SERVERS / (arrivals[-1].at_s + 45.0)
    assert (len(arrivals), load) == (100, pytest.approx(1.11, abs=0.005))


def test_compare_policies_returns_the_documented_measures():
    arrivals = reference_arrivals(0)[:6]
    found = compare_policies(arrivals, servers=40)
    assert found == compare_policies(arrivals, servers=40)
    flow_s = sum(ALONE_S[arrival.workflow] for arrival in arrivals)
    # No task waits; two MAXDo, three PipeAlign, and one GEE, whose 14 families run in parallel.
    gee_s = (45.0 + 7.7 + 27.2 + 20.0) - ALONE_S["GEE"]
    for policy in POLICY_LABELS:
        assert found[f"{policy}.completed"] == 6
        assert found[f"{policy}.flow_s"] == pytest.approx(flow_s + gee_s)
        assert found[f"{policy}.{box_measure('MAXDo', 'mean')}"] == pytest.approx(1.0)
        assert found[f"{policy}.range"] == pytest.approx(0.0, abs=1e-9)
        assert [found[f"{policy}.{sample_measure('active', time_s)}"] for time_s in TIMES_S[:5]] == [
            1,
            3,
            4,
            1,
            0,
        ]
        assert found[f"{policy}.most_ready"] <= 14


def test_tasks_in_server_queues_count_as_ready():
    found = compare_policies(starvation_arrivals()[:1], servers=SERVERS)
    # After 45 s, when the map of the only GEE has ended, 4 of its 14 families run and 10 wait.
    assert {found[f"{policy}.{sample_measure('ready', 50.0)}"] for policy in POLICY_LABELS} == {10.0}


def test_overhead_per_task_is_added_to_the_duration_of_every_task():
    plain, delayed = (
        run_policy(reference_arrivals(0)[:1], "foft", servers=SERVERS, overhead_s=overhead_s)
        for overhead_s in (0.0, 0.25)
    )
    assert delayed.history.end_s - plain.history.end_s == pytest.approx(3 * 0.25)


def results(**changed):
    """Return measures within tolerance, with the given changes."""
    fine = {"over_bound_percent": 1.0, "wave_tasks": 1.0, "last_tenth_percent": 10.0}
    found = {}
    for cell in OnlineStudy().cells(full=False):
        measures = {}
        for place, policy in enumerate(POLICY_LABELS):
            of = fine | {box_measure("all", "mean"): place + 1.0, "deviation": place + 1.0}
            of |= {"deviation": 0.5} if policy in ("foft", "aging-e") else {}
            of |= {"wave_tasks": 3.0, "last_tenth_percent": 90.0} if policy == "g-heft" else {}
            of |= changed.get(policy, {})
            measures |= {f"{policy}.{name}": value for name, value in of.items()}
        found[cell.name] = [Fine(measures)]
    return Results(found)


class Fine(dict):
    def __missing__(self, key):
        return 1.0


def wrong(found, accepts):
    rows = [row for row in OnlineStudy().rows(found, full=False) if row.table.startswith(f"{CASES.orders}:")]
    return [row.figure for row in rows if row.accepts == accepts and not row.within]


@pytest.mark.parametrize(
    ("changed", "accepts", "figure"),
    [
        ({"srpt": {box_measure("all", "mean"): 2.0}}, "A5.3", "SRPT < FOFT"),
        ({"foft": {"deviation": 1.0}}, "A5.4", "deviation of AGING e and FOFT"),
        ({"basic": {"over_bound_percent": 2.1}}, "A5.5", "BASIC"),
        ({"fcfs": {"wave_tasks": 1.5}}, "A5.6", "G-HEFT against FCFS"),
        ({"g-heft": {"last_tenth_percent": 60.0}}, "A5.6", "G-HEFT"),
        ({"srpt": {"last_tenth_percent": 26.0}}, "A5.6", "SRPT"),
    ],
)
def test_policy_rankings_that_contradict_the_paper_are_out_of_tolerance(changed, accepts, figure):
    assert wrong(results(), accepts) == []
    (found,) = wrong(results(**changed), accepts)
    assert found.startswith(figure)


def test_charts_show_means_over_the_workflow_orders():
    name = f"foft.{sample_measure('active', 0.0)}"
    of_orders = [Fine({name: 1.0}), Fine({name: 3.0})]
    cells = {cell.name: of_orders for cell in OnlineStudy().cells(full=False)}
    charts = OnlineStudy().charts(Results(cells), full=False)
    assert [chart.title.partition(",")[0] for chart in charts] == [
        "active workflows over time", "ready tasks over time", *["slowdown"] * 4,
    ]  # fmt: skip
    assert charts[0].values["FOFT"][:2] == [2.0, 1.0]
    assert all(set(chart.as_record()) >= {"chart", "title"} for chart in charts)
