"""Arrivals in real and simulated runs: folders, parameters, owners, priorities and results of each of them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import weft
from architecture.package import environment
from cli.projects import Project, wait_for
from weft.backends.simulation.scenario_reader import load_scenario

MACHINES = "machines: {m: {nodes: 2, backend: {kind: local}}}\n"
FLOW = """\
name: copying
params: {x: 1, factor: 2}
tasks:
  double: {inputs: [seed.txt], outputs: [mid], work: 0.1s, command: "echo $(( $(cat seed.txt) * {factor} )) > mid"}
  write: {inputs: [mid], outputs: {"out.txt": {to: "kept/value.txt"}, plain: 4}, work: 0.1s,
          command: "echo {x} $(cat mid) > out.txt; cp out.txt plain"}
"""


@pytest.fixture
def arriving(real):
    real.write("machines.yaml", MACHINES)
    real.write("sub/flow.yaml", FLOW)
    (real.folder / "sub" / "seed.txt").write_text("21\n")
    return real


def submitted(history):
    return [(run.workflow, run.owner, run.priority, run.results) for run in history.runs]


def test_inputs_are_sought_in_the_folder_of_the_workflow(arriving):
    arriving.write("list.yaml", "arrivals: [{workflow: sub/flow.yaml}]\n")
    assert arriving.run(arrivals=arriving.folder / "list.yaml").completed
    assert arriving.text("sub/kept/value.txt") == "1 42\n"
    assert arriving.text("sub/plain") == "1 42\n"


def test_every_arrival_has_its_own_parameters_owner_priority_and_results(arriving):
    arriving.write(
        "list.yaml",
        """\
arrivals:
  - {workflow: sub/flow.yaml, owner: ann, priority: 2, params: {x: 7}, results: ann/}
  - {workflow: sub/flow.yaml, at: 0.2s, owner: bob, params: {x: 8, factor: 3}, results: bob/deep}
""",
    )
    assert arriving.run(arrivals=arriving.folder / "list.yaml").completed
    assert arriving.text("ann/kept/value.txt") == arriving.text("ann/plain") == "7 42\n"
    assert arriving.text("bob/deep/kept/value.txt") == arriving.text("bob/deep/plain") == "8 63\n"
    assert not (arriving.folder / "sub" / "plain").exists()
    expected = [
        ("sub/flow.yaml (x=7)", "ann", 2.0, "ann/"),
        ("sub/flow.yaml (factor=3, x=8)", "bob", 1.0, "bob/deep"),
    ]
    simulated = weft.simulate(on="machines.yaml", scenario="list.yaml").first
    assert submitted(arriving.history) == submitted(simulated.history) == expected


def test_two_runs_of_one_workflow_do_not_overwrite_each_other(arriving, capsys):
    arriving.write(
        "list.yaml",
        """\
arrivals:
  - {workflow: sub/flow.yaml, params: {x: 7}}
  - {workflow: sub/flow.yaml, params: {x: 8}}
  - {workflow: sub/flow.yaml, params: {x: 9}, results: mine}
""",
    )
    done = Project(arriving.folder, capsys).weft("run", "--arrivals", "list.yaml", "--on", "machines.yaml")
    assert done.code == 0, done
    assert arriving.text("results/flow-1/plain") == "7 42\n"
    assert arriving.text("results/flow-2/plain") == "8 42\n"
    assert arriving.text("mine/plain") == "9 42\n"
    assert "outputs of run 1 (sub/flow.yaml (x=7)) are in results/flow-1" in done.out.replace("\n  ", " ")
    status = Project(arriving.folder, capsys).json("status")
    assert {name: found["number"] for name, found in status["slowdowns"].items()} == {"sub/flow.yaml": 3}
    simulated = weft.simulate(on="machines.yaml", scenario="list.yaml").first
    assert list(simulated.slowdown_of) == ["sub/flow.yaml"]


def test_scenario_without_arrivals_is_refused_before_anything_starts(arriving, capsys):
    arriving.write("list.yaml", "perturbations: [{machine: m1, slowdown: 3}]\n")
    for file in ("list.yaml", "sub/flow.yaml --arrivals list.yaml"):
        words = file.split() if " " in file else ["--arrivals", file]
        done = Project(arriving.folder, capsys).weft("run", *words, "--on", "machines.yaml")
        assert done.code == 2, done
        assert "'list.yaml' has no 'arrivals'" in done.err, done


def test_arrivals_that_differ_only_in_an_overridden_parameter_have_one_name(arriving):
    lines = (
        "[{workflow: sub/flow.yaml, params: {x: 7}}, {workflow: sub/flow.yaml, params: {x: 8}, results: r}]"
    )
    arriving.write("list.yaml", f"arrivals: {lines}\n")
    assert arriving.run(arrivals=arriving.folder / "list.yaml", params={"x": 9}).completed
    assert [run.workflow for run in arriving.history.runs] == ["sub/flow.yaml (x=9)"] * 2
    assert arriving.text("sub/plain") == arriving.text("r/plain") == "9 42\n"


def test_check_counts_the_files_that_arrive(arriving, capsys):
    lines = "[{workflow: sub/flow.yaml, params: {x: 7}}, {workflow: sub/flow.yaml, count: 2, every: 1s}]"
    arriving.write("list.yaml", f"arrivals: {lines}\n")
    checked = Project(arriving.folder, capsys).weft("check", "list.yaml")
    assert "a scenario of 3 arrivals of 1 workflow; no problems found" in checked.out


def test_a_workflow_named_twice_on_the_command_line_has_two_folders(arriving):
    (arriving.folder / "flow.yaml").write_text((arriving.folder / "sub" / "flow.yaml").read_text())
    (arriving.folder / "seed.txt").write_text("1\n")
    assert arriving.run("flow.yaml", "flow.yaml").completed
    assert arriving.text("results/flow-1/plain") == arriving.text("results/flow-2/plain") == "1 2\n"
    assert not (arriving.folder / "plain").exists()


def test_runs_of_a_series_of_arrivals_have_numbered_result_folders(arriving):
    arriving.write(
        "list.yaml", "arrivals: [{workflow: sub/flow.yaml, count: 3, every: 0.1s, results: all/}]\n"
    )
    assert arriving.run(arrivals=arriving.folder / "list.yaml").completed
    assert [arriving.text(f"all/flow-{number}/plain") for number in (1, 2, 3)] == ["1 42\n"] * 3


def test_parameters_of_the_command_apply_to_the_arrivals_that_have_them(arriving):
    arriving.write("other.yaml", 'tasks: {only: {work: 0.1s, outputs: [o], command: "echo 5 > o"}}\n')
    arriving.write(
        "list.yaml",
        "arrivals: [{workflow: sub/flow.yaml, params: {x: 3}, results: r}, {workflow: other.yaml}]\n",
    )
    assert arriving.run(arrivals=arriving.folder / "list.yaml", params={"x": 4, "factor": 10}).completed
    assert arriving.text("r/plain") == "4 210\n"
    simulated = weft.simulate(on="machines.yaml", scenario="list.yaml", params={"x": 4, "factor": 10}).first
    names = [run.workflow for run in arriving.history.runs]
    assert names == [run.workflow for run in simulated.history.runs]
    assert names == ["sub/flow.yaml (x=4)", "other.yaml"]  # the values that were used
    for refused in (
        lambda: arriving.run(arrivals=arriving.folder / "list.yaml", params={"fctor": 1}),
        lambda: weft.simulate(on="machines.yaml", scenario="list.yaml", params={"fctor": 1}),
    ):
        with pytest.raises(
            weft.InvalidInput, match=r"no workflow of this run has a parameter 'fctor'.*factor"
        ):
            refused()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{workflow: sub/flow.yaml, priority: 0}", "must be a number above 0"),
        ("{workflow: sub/flow.yaml, results: ../away}", "leads out of the project"),
        ("{workflow: sub/flow.yaml, results: /tmp/away}", "leads out of the project"),
        ("{workflow: sub/flow.yaml, results: .weft/x}", "is not a folder for results"),
        ("{workflow: sub/flow.yaml, params: {y: 2}}", "has no parameter 'y'"),
        ("{workflow: sub/flow.yaml, params: 3}", "mapping"),
        ("{workflow: sub/flow.yaml, prio: 3}", "did you mean 'priority'"),
    ],
)
def test_error_about_wrong_arrivals_names_file_and_line(arriving, capsys, entry, words):
    arriving.write("list.yaml", f"arrivals:\n  - {entry}\n")
    shell = Project(arriving.folder, capsys)
    for command in (
        ("run", "--arrivals", "list.yaml"),
        ("simulate", "--scenario", "list.yaml"),
        ("check", "list.yaml"),
    ):
        done = shell.weft(*command, "--on", "machines.yaml")
        assert done.code == 2
        assert words in done.err
        assert "list.yaml:3" in done.err
    assert not (arriving.folder / ".weft" / "weft.db").exists()


def test_trace_may_state_owners_priorities_and_result_folders(arriving):
    (arriving.folder / "trace.csv").write_text(
        "workflow,at,owner,priority,results\nsub/flow.yaml,0,ann,3,a\nsub/flow.yaml,1,,,\n"
    )
    arriving.write("list.yaml", "arrivals: [{trace: trace.csv, owner: joe, results: b}]\n")
    (trace,) = load_scenario("list.yaml").arrivals
    assert [(each.owner, each.priority, each.results) for each in trace.arrivals] == [
        ("ann", 3.0, "a"),
        ("joe", 1.0, "b"),
    ]
    (arriving.folder / "trace.csv").write_text("workflow,at,priority\nsub/flow.yaml,0,high\n")
    with pytest.raises(weft.InvalidInput, match=r"trace.csv:2.*priority"):
        load_scenario("list.yaml")


def test_task_of_a_run_with_higher_priority_starts_first(real):
    """One node, a busy machine, and two waiting runs: the later one of priority 9 starts first."""
    real.write("machines.yaml", "machines: {m: {backend: {kind: local}}}\n")
    command = 'command: "sleep 0.3"'
    real.write(
        "one.yaml", f"tasks: {{a: {{work: 0.3s, {command}}}, b: {{work: 0.3s, after: a, {command}}}}}\n"
    )
    for name in ("two", "three"):
        real.write(f"{name}.yaml", f"tasks: {{only: {{work: 0.3s, {command}}}}}\n")
    real.write(
        "list.yaml",
        """\
arrivals:
  - {workflow: one.yaml}
  - {workflow: two.yaml, at: 0.05s}
  - {workflow: three.yaml, at: 0.1s, priority: 90}
""",
    )
    simulated = weft.simulate(on="machines.yaml", scenario="list.yaml", policy="foft").first
    real.run(arrivals=real.folder / "list.yaml", policy="foft")
    for history in (simulated.history, real.history):
        ended = sorted(history.runs, key=lambda run: run.ended_s)
        names = [run.workflow for run in ended]
        assert names.index("three.yaml") < names.index("two.yaml")


def test_arrivals_keep_parameters_owner_and_priority_after_a_killed_engine(arriving):
    arriving.write(
        "list.yaml",
        """\
arrivals:
  - {workflow: sub/flow.yaml, params: {x: 5}, results: first}
  - {workflow: sub/flow.yaml, at: 2s, owner: eve, priority: 4, params: {x: 6}, results: second}
""",
    )
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "--arrivals", "list.yaml", "--on", "machines.yaml"],
        cwd=arriving.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(lambda: (arriving.folder / "first" / "plain").exists() or engine.poll() is not None)
    finally:
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    ran = weft.resume(project=arriving.folder)
    assert ran.completed
    assert arriving.text("second/plain") == "6 42\n"
    runs = ran.report.executed.as_record()["runs"]
    assert [(run["owner"], run["priority"], run["results"]) for run in runs][1] == ("eve", 4.0, "second")
