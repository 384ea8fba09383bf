"""Weave on shared machines: published and enumerated optima, limits, budgets, reproducible plans."""

from __future__ import annotations

import csv
import itertools
import json
import math
import zipfile

import numpy as np
import pytest

from kernels.decoder_reference import decode_by_reference
from kernels.random_graphs import faceted, forest
from planning_examples import MAKESPAN, instance, lines, planned, platform
from weft.errors import Infeasible
from weft.formats.files import load_platform, read_workflow_file
from weft.instance import BusyInterval, compile_instance
from weft.planners.evaluation import evaluate_loss, linearise_objective
from weft.planners.planner import Budget
from weft.planners.weave_search import search_shared
from weft.platform.short_forms import parse_short_form
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.checks import check_and_unfold


@pytest.fixture
def compiled(monkeypatch):
    """Return a search function that compiles the search kernels only, because list planners run once."""

    def search(made, start="heft", **options):
        schedule = planned(made, start)
        with monkeypatch.context() as patch:
            patch.setenv("WEFT_KERNELS", "compiled")
            return searched(made, schedule, **options)

    return search


def searched(made, start="heft", *, objective=MAKESPAN, budget=None, seed=0):
    """Return the plan of a search that starts from the plan of a list planner, or without one."""
    schedule = planned(made, start) if isinstance(start, str) else start
    limit = budget or Budget(steps=2000)
    return search_shared(made, linearise_objective(made, objective), schedule, limit, generator(seed, "test"))


def cluster(seed, *, nodes=8, tasks=14):
    """Return moldable tasks on one cluster."""
    rng = np.random.default_rng(seed)
    described = {}
    for index in range(tasks):
        before = sorted(set(rng.integers(0, index, size=2).tolist())) if index > 3 else []
        keys = {"nodes": [1, 2, 3, 4, 6, 8], "speedup": {"amdahl": 0.1}, "work": float(rng.integers(2, 30))}
        described[f"t{index}"] = keys | {"after": [f"t{other}" for other in before]}
    return instance(described, platform({"nodes": nodes, "price_per_node_hour": 36.0}))


def projects(bench_data, tmp_path, names):
    with zipfile.ZipFile(bench_data / "psplib" / "rcpsp" / "j30.sm.zip") as archive:
        inside = {name.rpartition("/")[2]: name for name in archive.namelist()}
        for name in names:
            path = archive.extract(inside[name], tmp_path)
            yield name, compile_instance(check_and_unfold(read_workflow_file(path)), load_platform(path))


def test_psplib_projects_are_solved_to_the_optimum(bench_data, tmp_path, compiled):
    with (bench_data / "psplib" / "best_known_j30.csv").open() as file:
        optima = {row["instance"]: float(row["opt"]) for row in csv.DictReader(file)}
    names = ("j301_1.sm", "j305_4.sm", "j3013_2.sm", "j3021_7.sm", "j3029_6.sm", "j3045_3.sm")
    heft = []
    for name, made in projects(bench_data, tmp_path, names):
        plan = compiled(made, budget=Budget(steps=60_000))
        assert plan.schedule.makespan_s == optima[name], name
        assert not verify(plan.schedule, made.graph, made.platform)
        heft.append(planned(made).makespan_s == optima[name])
    assert not all(heft)


def cores_and_gpu(facts):
    """Return moldable tasks that use cores of one machine or all of another."""
    cores, times = facts["meta"]["m"], facts["cpudata"]
    tasks = {
        f"t{index}": {
            "nodes": list(range(1, cores + 1)),
            "speedup": {"seconds": dict(enumerate(times[f"t{index}"], start=1))},
            "seconds": {"m0": times[f"t{index}"][0], "m1": facts["gpudata"][f"t{index}"]},
        }
        for index in range(1, facts["meta"]["n"] + 1)
    }
    return instance(tasks, platform({"nodes": cores}, {}))


@pytest.mark.parametrize("number", [0, 3, 4, 7])
def test_cores_and_a_gpu_are_shared_optimally(bench_data, number, compiled):
    folder = bench_data / "moldable" / "hunold_tpds2017"
    name = f"problem_n10_m4_k1_i{number}.json"
    with (folder / "optimum_cpsat_ours.csv").open() as file:
        optima = {row["file"]: float(row["best"]) for row in csv.DictReader(file) if row["with_gpu"] == "1"}
    made = cores_and_gpu(json.loads((folder / name).read_text()))
    plan = compiled(made, "heft-moldable", budget=Budget(steps=600_000))
    # The table is rounded to thousandths.
    assert plan.schedule.makespan_s <= optima[name] + 0.0005
    assert not verify(plan.schedule, made.graph, made.platform)


def test_plan_of_a_cluster_benchmark_is_better_than_all_published_results(bench_data, compiled):
    path = str(bench_data / "peers" / "moldable_64_barrier.json")
    made = compile_instance(check_and_unfold(read_workflow_file(path)), load_platform(path))
    plan = compiled(made, "heft-moldable", budget=Budget(steps=100_000))
    assert plan.schedule.makespan_s < min(8600.0, planned(made, "heft-moldable").makespan_s)
    assert not verify(plan.schedule, made.graph, made.platform)


@pytest.mark.parametrize("name", ["rand0003", "rand0010"])
def test_plan_on_identical_processors_with_one_queue_is_optimal(bench_data, tmp_path, name, compiled):
    with (bench_data / "stg" / "reference.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["file"] == f"50/{name}.stg"]
    with zipfile.ZipFile(bench_data / "stg" / "stg50.zip") as archive:
        inside = next(found for found in archive.namelist() if found.endswith(f"{name}.stg"))
        graph = check_and_unfold(read_workflow_file(archive.extract(inside, tmp_path)))
    for row in rows:
        if row["pub_lb"] == row["pub_ub"]:
            made = compile_instance(graph, parse_short_form(f"cluster:{row['procs']}"))
            plan = compiled(made, budget=Budget(steps=20_000))
            assert plan.schedule.makespan_s == float(row["pub_ub"])


def different_prices(budgets=None):
    """Return four tasks on two machines of different prices, few enough for enumeration."""
    law = {"nodes": [1, 2], "speedup": {"amdahl": 0.3}}
    tasks = {
        "a": {"work": 6.0, "outputs": {"x": 2e6}, **law},
        "b": {"work": 9.0, "inputs": ["x"], "outputs": {"y": 1e6}, **law},
        "c": {"work": 7.0, **law},
        "d": {"work": 4.0, "inputs": ["y"], "after": ["c"], "resources": {"gpu": 1}},
    }
    if budgets:
        tasks = {name: keys | {"consumes": {"core_h": "nodes"}} for name, keys in tasks.items()}
    where = platform(
        {"nodes": 2, "price_per_node_hour": 3600.0, "resources": {"gpu": 1.0}},
        {"nodes": 3, "speed": 2.0, "site": "s", "price_per_node_hour": 14400.0, "resources": {"gpu": 1.0}},
    )
    return instance(tasks, where, budgets=budgets)


def every_schedule(made):
    """Yield makespan, node-seconds, cost and modes of every order and choice of modes."""
    orders = [
        order
        for order in itertools.permutations(range(len(made)))
        if all(
            order.index(before) < order.index(task)
            for task in order
            for before in made.graph.predecessors(task).tolist()
        )
    ]
    for chosen in itertools.product(*(range(len(made.modes(task))) for task in range(len(made)))):
        bound = [0] * len(made)
        for task, mode in enumerate(chosen):
            bound[made.graph.variable[task]] = int(made.modes(task).machine[mode])
        for order in orders:
            _, finish, node_s, cost = decode_by_reference(made, order, bound, list(chosen), "insertion")
            yield max(finish), node_s, cost, chosen


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("makespan", {}),
        ("makespan", {"max_cost": 60.0}),
        ("cost", {"deadline_s": 16.0}),
        ("on-demand", {}),
        ("static", {}),
    ],
)
def test_plan_is_optimal_for_its_objective(name, limits):
    made, objective = different_prices(), make_objective(name, **limits)
    linear = linearise_objective(made, objective)
    kept = [
        linear.value(makespan, node_s, cost)
        for makespan, node_s, cost, _ in every_schedule(made)
        if makespan <= linear.deadline_s and cost <= linear.max_cost
    ]
    plan = searched(made, objective=objective, budget=Budget(steps=3000))
    assert evaluate_loss(made, objective, plan.schedule) == pytest.approx((0.0, min(kept)), rel=1e-9)


def test_budgets_are_met_from_any_start_schedule():
    made = different_prices(budgets={"core_h": 5.0})
    assert made.binding_budgets() == ("core_h",)
    free = planned(different_prices(), "heft-moldable")
    least = min(
        makespan
        for makespan, _, _, chosen in every_schedule(made)
        if sum(int(made.modes(task).count[mode]) for task, mode in enumerate(chosen)) <= 5
    )
    assert sum(free.nodes) > 5
    for start in (free, None):
        plan = searched(made, start, budget=Budget(steps=3000))
        assert sum(plan.schedule.nodes) <= 5
        assert plan.schedule.makespan_s == pytest.approx(least)
        assert not verify(plan.schedule, made.graph, made.platform)


def test_error_is_raised_if_no_plan_within_all_budgets_is_found():
    consumes = {"x": {1: 2, 2: 0}, "y": {1: 0, 2: 2}}
    tasks = {"a": {"work": 1.0, "nodes": [1, 2], "consumes": consumes}}
    made = instance(tasks, platform({"nodes": 2}), budgets={"x": 1.0, "y": 1.0})
    with pytest.raises(Infeasible, match=r"no plan within the budgets \(x, y\) was found"):
        searched(made, None, budget=Budget(steps=50))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["makespan", "cost", "on-demand"])
def test_plans_are_valid_and_not_worse_than_the_start_schedule(seed, name):
    objective = make_objective(name, deadline_s=30.0)
    rng = np.random.default_rng(seed)
    made = faceted(rng, integers=seed % 2 == 0) if seed < 3 else forest(rng)
    if seed == 2:
        held = (BusyInterval(machine=0, start_s=1.0, finish_s=9.0, nodes=3),)
        made = compile_instance(made.graph, made.platform, busy=held)
    start = planned(made, "mct")
    plan = searched(made, start, objective=objective, budget=Budget(steps=400))
    assert not verify(plan.schedule, made.graph, made.platform)
    assert evaluate_loss(made, objective, plan.schedule) <= evaluate_loss(made, objective, start)
    assert plan.steps >= 400
    for variable, machine in made.pinned.items():
        assert (plan.schedule.machine[made.graph.variable == variable] == machine).all()


@pytest.mark.parametrize("seed", range(3))
def test_moldable_plans_become_five_percent_shorter_than_those_of_heft(seed):
    made = cluster(seed)
    start = planned(made, "heft")
    plan = searched(made, start, budget=Budget(steps=4000))
    assert not verify(plan.schedule, made.graph, made.platform)
    assert plan.schedule.makespan_s < 0.95 * start.makespan_s


def test_compiled_and_plain_kernels_and_a_progress_callback_give_the_same_plan(monkeypatch):
    made, reports = cluster(1), []
    plans = []
    for form, callback in (("plain", None), ("plain", reports.append), ("compiled", None)):
        monkeypatch.setenv("WEFT_KERNELS", form)
        plans.append(searched(made, budget=Budget(steps=1500, on_progress=callback), seed=3))
    assert lines(plans[0].schedule) == lines(plans[1].schedule) == lines(plans[2].schedule)
    assert len({plan.steps for plan in plans}) == 1
    assert not any(plan.cut for plan in plans)
    values = [progress.value for progress in reports]
    assert values == sorted(values, reverse=True)
    assert values[-1] == reports[-1].makespan_s == plans[0].schedule.makespan_s
    assert lines(searched(made, budget=Budget(steps=1500), seed=4).schedule) != lines(plans[0].schedule)


def test_clock_ends_the_search_on_shared_machines():
    looks = itertools.count()
    plan = searched(cluster(2), budget=Budget(left=lambda: 1.0 - 0.05 * next(looks)))
    assert plan.cut
    assert 1 < plan.steps < math.inf


def test_an_interrupt_returns_the_best_plan_so_far():
    made, start = cluster(0), planned(cluster(0))

    def interrupt(progress):
        raise KeyboardInterrupt

    plan = searched(made, start, budget=Budget(steps=5000, on_progress=interrupt))
    assert plan.cut
    assert plan.steps < 5000
    assert plan.schedule.makespan_s < start.makespan_s


def test_search_without_choices_ends_after_one_step():
    made = instance({"a": {"work": 1.0}, "b": {"work": 2.0, "after": ["a"]}}, platform({"nodes": 2}))
    plan = searched(made, budget=Budget(steps=100))
    assert (plan.steps, plan.cut, plan.schedule.makespan_s) == (1, False, 3.0)
