"""Time-shared machines (`occupancy: shared`): any number of programs run at once, each slower."""

from __future__ import annotations

import pytest

import weft
from cli.projects import Project
from weft.backends.simulation.scenario import Failure, Perturbation, Scenario, Span, Suspension
from weft.errors import InvalidInput
from weft.schedule.bounds import lower_bounds

SHARED = "machines: {m: {nodes: 2, occupancy: shared, memory: 1GB, backend: {kind: local}}}\n"


def machine(real, text=SHARED):
    return real.write("machines.yaml", text)


def ends(history):
    return {each.task: each.ended_s for each in history.attempts.values() if each.ending == "completed"}


def test_simulated_programs_on_a_shared_machine_slow_down_in_proportion_to_their_number(real):
    """Four tasks of 2 s on two nodes: each gets half a node, so all end after 4 s."""
    machine(real)
    real.write("flow.yaml", "tasks: {a: {sweep: {k: 1..4}, work: 2s}}\n")
    for policy in ("plan", "foft", "fcfs", "srpt", "basic", "shared-plans"):
        found = real.simulate("flow.yaml", policy=policy)
        assert found.end_s == pytest.approx(4.0), policy
        assert found.lower_bound_s == pytest.approx(4.0)
        assert list(ends(found.history).values()) == [pytest.approx(4.0)] * 4
        assert found.utilisation == pytest.approx(1.0)


def test_the_speed_follows_the_number_of_programs(real):
    """Alone until 1 s, then two tasks on one node share it: 1 + 2 * 2 = 5 s, and the rest alone until 6 s."""
    machine(real, "machines: {m: {occupancy: shared}}\n")
    real.write("first.yaml", "tasks: {x: {work: 3s}}\n")
    real.write("second.yaml", "tasks: {y: {work: 3s}}\n")
    real.write("list.yaml", "arrivals: [{workflow: first.yaml}, {workflow: second.yaml, at: 1s}]\n")
    found = weft.simulate(on="machines.yaml", scenario="list.yaml").first
    assert ends(found.history) == {"x": pytest.approx(5.0), "y": pytest.approx(6.0)}


def test_program_on_two_nodes_counts_twice_when_the_speed_is_divided(real):
    machine(real)
    real.write("flow.yaml", "tasks: {wide: {work: 3s, nodes: 2}, small: {work: 3s}}\n")
    found = real.simulate("flow.yaml", policy="foft")
    assert ends(found.history) == {"wide": pytest.approx(4.5), "small": pytest.approx(4.5)}


def test_speed_share_of_a_suspended_program_is_divided_among_the_other_programs(real):
    machine(real, "machines: {m: {occupancy: shared}}\n")
    real.write("flow.yaml", "tasks: {x: {work: 2s}, y: {work: 2s}}\n")
    scenario = Scenario(suspensions=(Suspension(task="y", at_s=1.0, lasting_s=1.0),))
    found = real.simulate("flow.yaml", policy="foft", scenario=scenario)
    assert ends(found.history) == {"x": pytest.approx(3.0), "y": pytest.approx(4.0)}


def test_resources_limit_the_programs_on_a_shared_machine(real):
    machine(real)
    tasks = 'tasks: {a: {sweep: {k: 1..3}, work: 0.2s, memory: 400MB, command: "sleep 0.1"}}\n'
    real.write("flow.yaml", tasks)
    real.run("flow.yaml")
    for history in (real.history, real.simulate("flow.yaml").history):
        ran = list(history.attempts.values())
        together = [sum(one.started_s <= each.started_s < one.ended_s for one in ran) for each in ran]
        assert max(together) == 2


def test_a_real_machine_runs_more_programs_than_it_has_nodes(real):
    """Every program waits until all five have started, which is impossible with two nodes in turn."""
    machine(real)
    real.write(
        "flow.yaml",
        f"""\
tasks:
  meet:
    sweep: {{k: 1..5}}
    work: 0.1s
    command: "touch {real.folder}/here.{{k}}; until test $(ls {real.folder} | grep -c here) = 5; do sleep 0.02; done"
""",
    )
    assert real.run("flow.yaml").completed
    assert len({each.machine for each in real.history.attempts.values()}) == 1


def test_placement_counts_the_programs_that_share_a_machine(real):
    """A slower exclusive machine is taken once the shared one is so crowded that a task ends later there."""
    text = "machines: {shared: {occupancy: shared, speed: 2}, own: {}}\n"
    machine(real, text)
    real.write("flow.yaml", "tasks: {a: {sweep: {k: 1..3}, work: 4s}}\n")
    found = real.simulate("flow.yaml", policy="fcfs")
    places = [each.machine for each in found.history.attempts.values()]
    assert sorted(places) == [0, 0, 1]
    assert found.end_s == pytest.approx(4.0)


def test_programs_of_the_run_that_share_a_machine_violate_no_contract(real):
    machine(real, "machines: {m: {nodes: 1, occupancy: shared}, n: {nodes: 1, occupancy: shared}}\n")
    real.write(
        "flow.yaml",
        "defaults: {contract: {factor: 0.2, grace: 0s}}\n"
        "tasks: {a: {sweep: {k: 1..6}, work: 100s, progress: p}}\n",
    )
    found = real.simulate("flow.yaml", policy="foft", settings={"poll_every": "5s"})
    assert found.history.violations == 0
    assert found.migrations == 0
    slow = Scenario(
        perturbations=(
            Perturbation(
                machines=("m",), slowdown=Span(low=5, high=5), lasting_s=Span(low=1e6, high=1e6), at_s=20.0
            ),
        )
    )
    disturbed = real.simulate("flow.yaml", policy="foft", settings={"poll_every": "5s"}, scenario=slow)
    assert disturbed.history.violations > 0, "load of others is still noticed"


def test_plans_assume_one_task_at_a_time_per_node_of_a_shared_machine(real):
    machine(real)
    real.write("flow.yaml", "tasks: {a: {sweep: {k: 1..3}, work: 2s}}\n")
    planned = weft.plan("flow.yaml", on="machines.yaml", planner="heft")
    assert planned.makespan_s == pytest.approx(4.0)
    assert planned.verify() == []
    assert lower_bounds(planned.instance).best_s == pytest.approx(3.0), "in turn 4 s, sharing 3 s"
    assert real.simulate("flow.yaml").end_s == pytest.approx(3.0)


def test_run_on_a_shared_machine_completes_after_replanning(real):
    machine(real, "machines: {m: {nodes: 2, occupancy: shared}, n: {}}\n")
    real.write(
        "flow.yaml",
        'tasks: {a: {sweep: {k: 1..8}, work: k}, b: {sweep: {k: 1..8}, work: 3, after: "a[k]"}}\n',
    )
    scenario = Scenario(failures=(Failure(machines=("n",), at_s=3.0),))
    for preset in ("default", "s1"):
        found = real.simulate("flow.yaml", preset=preset, planner="heft", scenario=scenario)
        assert found.outcome == "completed"
        assert found.lower_bound_s <= found.end_s * (1 + 1e-9)


def test_check_notes_that_a_machine_is_time_shared(real, capsys):
    machine(real)
    done = Project(real.folder, capsys).weft("check", "machines.yaml")
    assert done.code == 0
    assert "note: machine 'm' is time-shared: no task waits for a node" in done.out
    assert "together use more than 2 nodes" in done.out


def test_a_share_of_a_shared_machine_is_refused(real):
    machine(
        real, "machines: {m: {nodes: 4, occupancy: shared}}\nvirtual: [{machine: m, service: s, nodes: 2}]\n"
    )
    with pytest.raises(InvalidInput, match="whose nodes are shared over time"):
        weft.load_platform("machines.yaml")
