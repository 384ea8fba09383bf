"""Virtual shares of machines: run for real with at most their nodes, named as planned, reported and simulated."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import weft
from cli.projects import Project
from weft.backends.local.link import find_cores
from weft.engine import messages as ev
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines

SHARES = """\
machines:
  big: {{nodes: 4, backend: {{kind: local{more}}}}}
  other: {{backend: {{kind: local}}}}
virtual:
  - {{machine: big, service: fast, nodes: 2, name: quick}}
  - {{machine: big, service: slow, nodes: 1}}
"""
FLOW = """\
name: layered
tasks:
  fast:
    sweep: {i: 1..5}
    service: fast
    work: 0.2s
    outputs: ["f.{i}"]
    command: 'echo {machine.name} $WEFT_NODES > f.{i}; sleep 0.1'
  slow: {sweep: {i: 1..2}, service: slow, inputs: ["f.{i}"], work: 0.2s, outputs: ["s.{i}"], command: "cat f.{i} > s.{i}"}
  free: {sweep: {i: 1..4}, work: 0.2s, command: "sleep 0.1"}
"""


@pytest.fixture
def divided(real):
    real.write("machines.yaml", SHARES.format(more=""))
    real.write("flow.yaml", FLOW)
    return real


def most_at_once(history, machine):
    """Return the largest number of nodes that running attempts took on a machine at one time."""
    ran = [
        each for each in history.attempts.values() if each.machine == machine and each.started_s is not None
    ]
    return max(
        (
            sum(other.nodes for other in ran if other.started_s <= each.started_s < other.ended_s)
            for each in ran
        ),
        default=0,
    )


def test_programs_run_on_the_shares_of_their_service_with_at_most_their_nodes(divided):
    assert divided.run("flow.yaml").completed
    names = [machine.name for machine in planned_machines(weft.load_platform("machines.yaml"))]
    assert names == ["big", "quick", "big/slow", "other"]
    for history in (divided.history, divided.simulate("flow.yaml").history):
        used = {each.kind: set() for each in history.attempts.values()}
        for each in history.attempts.values():
            used[each.kind].add(names[each.machine])
        assert (used["fast"], used["slow"]) == ({"quick"}, {"big/slow"})
        assert used["free"] <= {"big", "other"}
        for machine, limit in ((0, 1), (1, 2), (2, 1)):
            assert 0 <= most_at_once(history, machine) <= limit
        assert most_at_once(history, 1) == 2
    assert {divided.text(f"f.{i}").split()[0] for i in (3, 4, 5)} == {"quick"}


def test_shares_use_the_sandbox_of_their_machine_and_no_data_are_moved_between_shares(divided):
    divided.run("flow.yaml")
    assert {path.name for path in (divided.folder / ".weft" / "sandbox").iterdir()} <= {"big", "other"}
    assert all(each.moved_bytes in (None, 0.0) for each in divided.attempts("slow[1]"))
    runners = {path.name for path in (divided.folder / ".weft" / "runners" / "1").iterdir()}
    assert {"quick"} < runners


def test_explanation_report_and_trace_name_the_share_and_its_machine(divided, capsys):
    divided.run("flow.yaml").write_reports()
    shell = Project(divided.folder, capsys)
    assert "submitted to quick (part of big)" in shell.weft("explain", "fast[1]").out
    report = json.loads(shell.weft("report", "--json").out)
    parts = {row["machine"]: row["part_of"] for row in report["machines"]}
    assert parts == {"big": None, "quick": "big", "big/slow": "big", "other": None}
    assert {row["machine"] for row in report["attempts"] if row["kind"] == "fast"} == {"quick"}
    reports = divided.folder / ".weft" / "reports" / "1"
    table = (reports / "report.html").read_text().partition("<h2>Machines</h2>")[2].partition("</table>")[0]
    assert "part of" in table
    simulated = json.loads(shell.weft("simulate", "flow.yaml", "--on", "machines.yaml", "--json").out)
    assert {row["machine"]: row["part_of"] for row in simulated["simulations"][0]["machines"]} == parts


def test_status_names_the_share_of_a_running_task_and_its_machine(divided, capsys):
    shell, shown = Project(divided.folder, capsys), []

    def look(entry, engine):
        if not shown and isinstance(entry.event, ev.Ended):
            shown.append(shell.weft("status"))

    weft.run("flow.yaml", on="machines.yaml", project=divided.folder, watch=lambda _: [look])
    assert " on quick (part of big) for " in shown[0].out


def test_resume_and_reuse_work_with_shares(divided):
    divided.write(
        "flow.yaml", FLOW.replace("sleep 0.1'", "test -e {WEFT}/go'".replace("{WEFT}", str(divided.folder)))
    )
    assert divided.run("flow.yaml").outcome == "failed"
    divided.write("go", "")
    ran = divided.run("flow.yaml")
    assert ran.completed
    again = divided.run("flow.yaml")
    assert again.report.executed.taken_over == 11


def test_node_limit_below_the_total_nodes_of_the_shares_is_refused(divided):
    with pytest.raises(InvalidInput, match="at most 2 nodes per machine: shares of 'big' take 3 nodes"):
        divided.run("flow.yaml", most_nodes=2)


def test_cores_are_divided_among_shares_in_the_order_of_the_platform(real):
    cores = sorted(os.sched_getaffinity(0))[:1] * 4
    real.write("machines.yaml", SHARES.format(more=", cores: [4, 5, 6, 7]"))
    machines = planned_machines(weft.load_platform("machines.yaml"))
    assert {each.name: find_cores(machines, each) for each in machines} == {
        "big": [4],
        "quick": [5, 6],
        "big/slow": [7],
        "other": None,
    }
    few = [
        Machine(name="a", nodes=2, backend={"cores": cores[:1]}),
        Machine(name="s", nodes=2, host="a", backend={"cores": cores[:1]}),
    ]
    assert find_cores(few, few[1]) == cores[:1]


def test_programs_of_a_share_run_on_the_cores_of_the_share(real):
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        pytest.skip("needs two cores")
    first, second = available[:2]
    real.write(
        "machines.yaml",
        f"machines: {{m: {{nodes: 2, backend: {{kind: local, cores: [{first}, {second}]}}}}}}\n"
        "virtual: [{machine: m, service: a}, {machine: m, service: b}]\n",
    )
    command = "grep Cpus_allowed_list /proc/self/status > {outputs}"
    real.write(
        "flow.yaml",
        f'tasks:\n  a: {{service: a, work: 1s, outputs: [pa], command: "{command}"}}\n'
        f'  b: {{service: b, work: 1s, outputs: [pb], command: "{command}"}}\n',
    )
    assert real.run("flow.yaml").completed
    assert [real.text(name).split()[1] for name in ("pa", "pb")] == [str(first), str(second)]


def test_the_example_of_layers_completes(tmp_path):
    from examples.test_running_examples import run_copy

    folder, history, _ = run_copy("layers", tmp_path)
    lines = (folder / "squares").read_text().splitlines()
    assert lines == [f"{i}^2 = {i * i} (cluster/simulate, cluster/analyse)" for i in range(1, 7)]
    names = Path(folder, "machines.yaml")
    machines = [machine.name for machine in planned_machines(weft.load_platform(names))]
    assert {machines[each.machine] for each in history.attempts.values() if each.kind == "simulate"} == {
        "cluster/simulate"
    }
