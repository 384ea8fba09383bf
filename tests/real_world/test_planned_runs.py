"""The plan that was chosen is the plan that runs: files, fronts, objectives, limits, on real machines."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from architecture.package import environment
from cli.projects import Project

GRID = """
weft: 1
machines:
  dear: {nodes: 2, speed: 2, price_per_node_hour: 40, backend: {kind: local}}
  cheap: {nodes: 4, speed: 1, price_per_node_hour: 1, backend: {kind: local}}
"""
FLOW = """
weft: 1
name: flow
tasks:
  part:
    sweep: {i: 1..3}
    command: "echo $WEFT_NODES {machine.name} > where.{i}; sleep 0.05"
    outputs: ["where.{i}"]
    nodes: [1, 2, 4]
  join: {command: "cat {inputs} > all", inputs: ["where.{1..3}"], outputs: [all], work: 1s}
"""
MEASURED = """kind,nodes,seconds
part,1,8
part,2,4.6
part,4,3
"""


@pytest.fixture
def flow(project: Project) -> Project:
    project.write("grid.yaml", GRID)
    project.write("flow.yaml", FLOW)
    project.write("measured.csv", MEASURED)
    return project


ON = ("flow.yaml", "--on", "grid.yaml", "--predictions", "measured.csv")


def placed(project: Project) -> list[list[str]]:
    """Return the nodes and machine of every part, as the programs have seen them."""
    return [line.split() for line in (project.folder / "all").read_text().splitlines()]


def stored_header(project: Project) -> dict[str, Any]:
    with sqlite3.connect(project.folder / ".weft" / "weft.db") as opened:
        (text,) = opened.execute("SELECT header FROM execution").fetchone()
    opened.close()
    found: dict[str, Any] = json.loads(text)
    return found


def planned(record: dict[str, object]) -> list[list[str]]:
    rows = record["schedule"]
    assert isinstance(rows, list)
    return [[str(row["nodes"]), row["machine"]] for row in rows if row["task"].startswith("part")]


@pytest.mark.parametrize("command", [("run", "--fresh"), ("simulate",), ("run", "--dry-run")])
def test_limits_apply_to_stored_plans_and_to_chosen_points_of_a_front(
    flow: Project, command: tuple[str, ...]
) -> None:
    flow.json("plan", *ON, "--planner", "heft", "--out", "plan.json")
    flow.json("pareto", *ON, "--plan-steps", "3000", "--seed", "1")
    for limit in (("--deadline", "0.1s"), ("--max-cost", "1e-9")):
        for named in (("--plan", "plan.json"), ("--choose", "1")):
            refused = flow.weft(*command, *ON, *named, *limit)
            assert refused.code == 3, refused
    assert not (flow.folder / "all").exists()


REFUSALS = {
    "a chosen point and a policy without plans": ("--choose", "1", "--policy", "fcfs"),
    "a plan file and a policy without plans": ("--plan", "plan.json", "--policy", "fcfs"),
    "a limit and a policy without plans": ("--deadline", "1h", "--policy", "fcfs"),
    "one plan for two workflows": ("flow.yaml", "--plan", "plan.json"),
    "arrivals that do not exist": ("--arrivals", "nothing.yaml"),
}


@pytest.mark.parametrize("options", REFUSALS.values(), ids=REFUSALS)
def test_a_dry_run_refuses_what_the_run_refuses(flow: Project, options: tuple[str, ...]) -> None:
    flow.json("plan", *ON, "--planner", "heft", "--out", "plan.json")
    flow.json("pareto", *ON, "--plan-steps", "3000", "--seed", "1")
    refused = flow.weft("run", *ON, *options)
    assert refused.code == 2, refused
    assert flow.weft("run", "--dry-run", *ON, *options) == refused


def test_a_dry_run_checks_the_programs_that_judge_tasks(flow: Project) -> None:
    text = (flow.folder / "flow.yaml").read_text()
    flow.write("flow.yaml", text.replace("nodes: [1, 2, 4]", "evaluator: ./nothing"))
    refused = flow.weft("run", *ON)
    assert (refused.code, "./nothing" in refused.err) == (2, True), refused
    assert flow.weft("run", "--dry-run", *ON) == refused


def test_a_dry_run_plans_the_workflows_of_arrivals_and_notes_policies_without_plans(flow: Project) -> None:
    flow.write("later.yaml", "weft: 1\narrivals: [{workflow: flow.yaml, at: 5s}]\n")
    shown = flow.weft("run", "--dry-run", "--arrivals", "later.yaml", *ON[1:], "--policy", "fcfs")
    assert shown.code == 0, shown
    assert shown.out.startswith("flow: ")
    assert "note: policy 'fcfs' follows no plan" in shown.out


def test_run_follows_the_chosen_point_of_a_front(flow: Project) -> None:
    front = flow.json("pareto", *ON, "--plan-steps", "3000", "--seed", "1")
    points = front["points"]
    assert len(points) >= 2
    for number in (1, len(points)):
        wanted = flow.json("plan", *ON, "--choose", str(number))
        done = flow.json("run", *ON, "--choose", str(number), "--fresh")
        assert done["outcome"] == "completed"
        assert placed(flow) == planned(wanted)
        assert done["promises"][0]["promised_s"] == pytest.approx(wanted["makespan_p50_s"])
    assert points[0]["makespan_s"] < points[-1]["makespan_s"]


def test_run_follows_a_stored_plan_and_keeps_its_objective(flow: Project) -> None:
    wanted = flow.json("plan", *ON, "--objective", "cost", "--out", "plan.json")
    done = flow.weft("run", *ON, "--plan", "plan.json")
    assert done.code == 0, done
    assert placed(flow) == planned(wanted) == [["1", "cheap"]] * 3
    header = stored_header(flow)
    assert header["overrides"] == {
        "objective": "cost",
        "alpha": "none",
        "deadline": "none",
        "max_cost": "none",
    }
    assert [row["kind"] for row in header["workflows"]["flow"]["predictions"]] == ["part"] * 3


def test_run_follows_the_plan_that_weft_plan_shows(flow: Project) -> None:
    budget = ("--plan-steps", "2000", "--seed", "3")
    wanted = flow.json("plan", *ON, *budget)
    assert flow.weft("run", *ON, *budget).code == 0
    assert placed(flow) == planned(wanted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--deadline", "2s"), "no plan can meet the deadline of 2 s"),
        (("--max-cost", "0.001"), "no plan can keep to a cost of 0.001"),
    ],
)
def test_run_whose_plan_exceeds_a_limit_is_not_started(flow: Project, options, words) -> None:
    done = flow.weft("run", *ON, *options)
    assert done.code == 3, done
    assert words in done.err
    assert not (flow.folder / ".weft" / "weft.db").exists()
    assert not (flow.folder / "all").exists()


def test_plan_for_another_workflow_platform_or_task_duration_is_refused(flow: Project) -> None:
    flow.json("plan", *ON, "--out", "plan.json")
    flow.write("other.yaml", "weft: 1\nname: other\ntasks: {a: {command: 'true', work: 1}}\n")
    cases = {
        ("other.yaml", "--on", "grid.yaml"): "for another workflow: it has no task 'a'",
        ("flow.yaml", "--on", "local", "--predictions", "measured.csv"): "for another platform",
        ("flow.yaml", "--on", "grid.yaml"): "is not valid",
    }
    for words, message in cases.items():
        done = flow.weft("run", *words, "--plan", "plan.json")
        assert (done.code, message in done.err) == (2, True), done
    flow.write("plan.json", json.dumps({"schedule": []}))
    done = flow.weft("run", *ON, "--plan", "plan.json")
    assert (done.code, "is not a plan: 'planner' is missing" in done.err) == (2, True), done
    assert not (flow.folder / ".weft" / "weft.db").exists()


def test_plan_for_fewer_nodes_or_machines_is_refused(flow: Project) -> None:
    """The plan still fits the machines, but it was not made for them."""
    one, two, more = (f"weft: 1\nmachines: {{c: {{nodes: {nodes}, backend: {{kind: local}}}}{rest}}}\n"
                      for nodes, rest in ((1, ""), (2, ""), (1, ", d: {backend: {kind: local}}")))  # fmt: skip
    flow.write("one.yaml", "weft: 1\ntasks: {a: {command: 'true', work: 1}}\n")
    flow.write("cluster.yaml", one)
    run = ("one.yaml", "--on", "cluster.yaml", "--plan", "plan.json")
    flow.json("plan", *run[:3], "--out", "plan.json")
    for text, words in ((two, "1 nodes of machine 'c', now 2"), (more, "no nodes of machine 'd', now 1")):
        flow.write("cluster.yaml", text)
        done = flow.weft("run", *run)
        assert (done.code, words in " ".join(done.err.split())) == (2, True), done
    flow.write("cluster.yaml", one)
    assert flow.weft("run", *run).code == 0


def test_predictions_that_apply_to_no_task_are_noted(flow: Project) -> None:
    flow.write("one.yaml", """\
weft: 1
tasks: {sim: {command: "true"}}
predictions: [{kind: sin, seconds: 1}, {kind: sim, machine: chep, seconds: 1}, {kind: sim, seconds: 1}]
""")  # fmt: skip
    words = ("one.yaml", "--on", "grid.yaml")
    kind = "predictions of task 'sin' have no effect: there is no such task; did you mean 'sim'?"
    machine = "predictions of machine 'chep' have no effect: there is no such machine; did you mean 'cheap'?"
    assert {kind, machine} <= set(flow.json("plan", *words)["notes"])
    assert flow.json("check", *words)["files"][0]["notes"] == [kind, machine]
    assert flow.json("check", "one.yaml")["files"][0]["notes"] == [kind]
    shown = " ".join(flow.weft("run", *words).out.split())
    assert f"note: {kind}" in shown
    assert f"note: {machine}" in shown


def test_resumed_run_follows_the_stored_plan(flow: Project) -> None:
    """The engine is killed before its first plan arrives; the resumed one has no files to read."""
    wanted = flow.json("plan", *ON, "--objective", "cost", "--out", "plan.json")
    command = [sys.executable, "-m", "weft", "run", *ON, "--plan", "plan.json"]
    fatal = {**environment(), "WEFT_FAILPOINT": "committed:2"}
    killed = subprocess.run(command, cwd=flow.folder, env=fatal, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    (flow.folder / "plan.json").unlink()
    (flow.folder / "measured.csv").unlink()
    assert flow.weft("resume").code == 0
    assert placed(flow) == planned(wanted)


def test_simulation_follows_the_given_plan(flow: Project) -> None:
    flow.json("plan", *ON, "--objective", "cost", "--out", "plan.json")
    simulated = flow.json("simulate", *ON, "--plan", "plan.json")
    used = {row["machine"] for row in simulated["simulations"][0]["machines"] if row["attempts"]}
    assert used == {"cheap"}
