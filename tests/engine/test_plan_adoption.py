"""Re-planning: when plans are requested, and which tasks a new plan moves, repeats or keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from driven_engine import DrivenEngine, platform_of
from journal_audit import audit_journal
from planning_examples import instance, platform
from weft.backends.simulation.scenario import (
    UNDISTURBED,
    Arrival,
    CompetingLoad,
    Durations,
    Failure,
    Perturbation,
    Scenario,
    Span,
)
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.invariants import check_engine
from weft.engine.replan.remainder import prepare_replan
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.plan import PlanLine, RunPlan, StoredPlan
from weft.engine.states import Admission, Stage, TaskState
from weft.formats.profiles import preset_settings
from weft.instance.compilation import compile_instance
from weft.papers.dynamic_grid import grid_testbed, wien2k
from weft.planners.planner import Budget, make_planner
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.runtime.budget import PlanningBudget
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings
from weft.workflow.unfold import unfold

S1 = replace(preset_settings("s1"), poll_every_s=5.0, replan_every_s=None, replan_planner="heft")


class Done:
    """A finished simulation with its journal."""

    def __init__(self, made, settings, scenario=UNDISTURBED):
        self.entries = []
        simulation = Simulation(
            library=WorkflowLibrary({"w": made}),
            arrivals=[Arrival(workflow="w")],
            policy=make_policy("plan"),
            settings=settings,
            scenario=scenario,
        )
        self.engine = simulation.run(record=self.entries.append, check=check_engine)
        self.run = self.engine.state.runs[0]
        self.names = self.run.compiled.names
        audit_journal(self.entries, [self.run.compiled])

    def commands(self, kind):
        return [
            (entry.now, command)
            for entry in self.entries
            for command in entry.commands
            if isinstance(command, kind)
        ]

    def starts(self):
        """Return the number of starts by task."""
        return Counter(self.names[command.task] for _, command in self.commands(cm.Start))

    def machines(self):
        """Return, by task, the machines on which it was started, in order."""
        found = {}
        for _, command in self.commands(cm.Start):
            found.setdefault(self.names[command.task], []).append(command.machine)
        return found


def slowed(machine, at_s=0.0, processes=9):
    return replace(UNDISTURBED, loads=(CompetingLoad(machines=(machine,), processes=processes, at_s=at_s),))


WATCHED = {"progress": "p"}
PAIR = {
    "make": {"work": 20, "machine": "here", "outputs": {"x": 1e6}, **WATCHED},
    "use": {"work": 20, "machine": "here", "inputs": ["x"], **WATCHED},
    "end": {"work": 1, "after": "use"},
}


def test_ancestors_bound_with_a_migrated_task_run_again_only_under_the_rule_always():
    """docs/papers/dynamic-grid.md, section 10: task ``use`` violates its contract and migrates.

    Task ``make``, on the same abstract machine, runs again on the new machine.
    """
    made = instance(PAIR, platform({"speed": 2}, {}))
    always = Done(made, S1, slowed("m0", at_s=11.0))
    assert always.run.ending == "completed"
    assert always.starts() == {"make": 2, "use": 2, "end": 1}
    assert always.machines()["make"] == [0, 1]
    assert always.machines()["use"] == [0, 1]
    again = [
        command
        for _, command in always.commands(cm.Settle)
        if always.names[command.task] == "make" and command.state != TaskState.COMPLETED
    ]
    assert [command.reason for command in again] == ["its abstract machine moves with use"]
    lost = Done(made, replace(S1, bound_ancestors="lost"), slowed("m0", at_s=11.0))
    assert lost.starts() == {"make": 1, "use": 2, "end": 1}
    assert lost.machines()["use"] == [0, 1]
    assert lost.run.ended_s < always.run.ended_s


def test_task_within_its_contract_is_never_moved():
    tasks = {f"t{number}": {"work": 40, **WATCHED} for number in range(4)}
    made = instance(tasks, platform({}, {}, {}, {}, {}))
    done = Done(made, S1, slowed("m2"))
    moved = {
        done.names[command.task] for _, command in done.commands(cm.Assign) if command.replaces is not None
    }
    (slow,) = moved
    assert done.machines()[slow] == [2, 4]
    assert all(len(machines) == 1 for name, machines in done.machines().items() if name != slow)


def test_simultaneous_violations_cause_one_new_plan():
    tasks = {f"t{number}": {"work": 40, **WATCHED} for number in range(3)}
    made = instance(tasks, platform(*({},) * 6))
    load = CompetingLoad(machines=("m0", "m1", "m2"), processes=9)
    done = Done(made, S1, replace(UNDISTURBED, loads=(load,)))
    requested = [(now, command.reason) for now, command in done.commands(cm.Replan)]
    assert requested[0] == (0.0, "submitted")
    assert requested[1][1] == "3 running tasks violate their contracts"
    moves = [now for now, command in done.commands(cm.Assign) if command.replaces is not None]
    assert moves == [requested[1][0]] * 3


@pytest.mark.parametrize(("every_s", "seconds_per_point", "expected"), [
    (7.0, 0.0, [7.0, 14.0, 21.0, 28.0]),
    (0.0, 0.0, [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]),
    (0.0, 4.0, [4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0]),
])  # fmt: skip
def test_new_plans_start_at_the_replan_interval_or_immediately_if_the_interval_is_0(
    every_s, seconds_per_point, expected
):
    """An interval of 0 starts planning when the last plan is ready, or at the poll interval if planning
    takes no time.
    """
    tasks = {"a": {"work": 20}, "b": {"work": 10, "after": "a"}, "c": {"work": 2, "after": "b"}}
    made = instance(tasks, platform({}))
    settings = RunSettings(poll_every_s=5.0, replan_every_s=every_s)
    done = Done(made, settings, replace(UNDISTURBED, replanning_s_per_point=seconds_per_point))
    requested = [now for now, command in done.commands(cm.Replan) if command.reason == "interval"]
    assert requested == [at for at in expected if at < done.run.ended_s]
    assert done.run.ended_s == 32.0 + seconds_per_point


@pytest.mark.parametrize("settings", [RunSettings(), RunSettings(replan_when=("machines",))])
def test_waiting_attempts_follow_the_plan_made_when_a_machine_returns(settings):
    """Task a failed on m1 and was queued on m0; it moves back when m1 returns.

    Task d stays on m0, because c, on the same abstract machine, ran there.
    """
    tasks = {
        "a": {"work": 10},
        "b": {"work": 10},
        "c": {"work": 10, "machine": "pair"},
        "d": {"work": 10, "machine": "pair", "after": "c"},
    }
    made = instance(tasks, platform({}, {}))
    down = Failure(machines=("m1",), at_s=1.0, repair_s=4.0)
    done = Done(made, settings, replace(UNDISTURBED, failures=(down,)))
    assert done.run.ending == "completed"
    assert done.machines() == {"a": [1, 1], "b": [0], "c": [0], "d": [0]}
    assert done.run.ended_s == pytest.approx(30.0)


def test_abstract_machine_is_bound_to_another_machine_after_a_loss():
    made = instance(PAIR, platform({"speed": 2}, {}))
    lost = replace(UNDISTURBED, failures=(Failure(machines=("m0",), at_s=12.0),))
    done = Done(made, RunSettings(), lost)
    assert done.run.ending == "completed"
    assert done.machines()["use"] == [0, 1]
    # Its output was lost with the machine; nothing else makes it run twice.
    assert done.starts()["make"] == 2
    reasons = [command.reason for _, command in done.commands(cm.Settle) if command.again]
    assert "its outputs were on m0, which is lost" in reasons


def test_migration_that_saves_too_little_does_not_happen():
    tasks = {"a": {"work": 20, **WATCHED}, "b": {"work": 1, "after": "a"}}
    made = instance(tasks, platform({"speed": 10}, {"speed": 0.1}))
    done = Done(made, replace(S1, migrate="pays", poll_every_s=1.0), slowed("m0", processes=1))
    assert not [command for _, command in done.commands(cm.Assign) if command.replaces is not None]


def test_plan_line_of_a_task_belongs_to_its_latest_planned_iteration():
    made = instance({"a": {"work": 1}, "b": {"work": 1, "after": "a"}}, "identical:1")
    known = WorkflowLibrary({"w": made})["w"]
    lines = {
        label: PlanLine(machine=0, count=1, start_s=start_s, finish_s=start_s + 1)
        for label, start_s in (("a", 0.0), ("b#1", 1.0), ("a#2", 2.0), ("b#3", 5.0))
    }
    stored = StoredPlan(planner="x", lines=lines, moving=("b#1",), again=("a",), running_until_s=9.0)
    assert StoredPlan.of_record(stored.as_record()) == stored
    assert stored.finish_s == 9.0

    def starts(iteration):
        plan = RunPlan(stored, known, "key", lambda _: iteration)
        return [plan.planned_tasks[task].start_s for task in (0, 1)]

    assert [starts(iteration) for iteration in (1, 2, 3, 4)] == [
        [0.0, 1.0],
        [2.0, 1.0],
        [2.0, 5.0],
        [2.0, 5.0],
    ]


def test_next_iteration_of_a_loop_causes_a_new_plan():
    tasks = {"first": {"work": 5, **WATCHED}, "last": {"work": 5, "after": "first", **WATCHED}}
    loops = {"again": {"last": "last", "first": "first", "until": "last.exit_code == 0", "max_iterations": 9}}
    made = instance(tasks, platform({}, {}), loops=loops)
    settings = replace(S1, replan_when=(*S1.replan_when, "iteration"))
    done = Done(made, settings, replace(UNDISTURBED, iterations={"again": 4}))
    reasons = [command.reason for _, command in done.commands(cm.Replan)]
    assert reasons == ["submitted", "next iteration", "next iteration", "next iteration"]
    assert done.starts() == {"first": 4, "last": 4}


def test_run_that_can_never_be_planned_ends_with_the_reason():
    tasks = {name: {"nodes": [1, 2], "work": 4, "consumes": {"disk": {1: 1, 2: 9}}} for name in "ab"}
    made = instance(tasks, platform({"nodes": 2}), budgets={"disk": 12})
    simulation = Simulation(
        library=WorkflowLibrary({"w": made}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy("plan"),
        settings=RunSettings(),
        planner="heft",
    )
    engine = simulation.run()
    run = engine.state.runs[0]
    assert run.ending == "cancelled"
    assert "no plan to follow" in run.stopping


PATH = (None, *"abcdefgh")


def test_new_plans_count_what_ended_and_running_tasks_have_taken_from_budgets():
    task = {"nodes": [1, 2], "work": 10, "speedup": {"amdahl": 0.0}, "consumes": {"credits": {1: 1, 2: 3}}}
    chain = {name: task if before is None else {**task, "after": before} for before, name in pairwise(PATH)}
    made = instance(chain, platform({"nodes": 2}), budgets={"credits": 14})
    entries = []
    simulation = Simulation(
        library=WorkflowLibrary({"w": made}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy("plan"),
        settings=RunSettings(replan_every_s=3.0, replan_planner="weave"),
        planner="weave",
        budget=PlanningBudget(steps=300),
    )
    engine = simulation.run(record=entries.append, check=check_engine)
    assert engine.state.runs[0].ending == "completed"
    commands = [command for entry in entries for command in entry.commands]
    assert sum(isinstance(command, cm.Replan) for command in commands) > 3
    counts = [command.count for command in commands if isinstance(command, cm.Assign)]
    assert len(counts) == 8
    assert sum(1 if count == 1 else 3 for count in counts) <= 14


@pytest.mark.parametrize("settings", ["always", "lost", "pays"])
@pytest.mark.parametrize("seed", range(2))
def test_wien2k_completes_under_random_disturbances(settings, seed):
    """Machines are slow or fail, tasks are bound, there is a loop; all invariants are checked after every
    event.
    """
    flow = wien2k(shared=True, watched=True, points=4, loop=True)
    few = replace(grid_testbed(), machines=grid_testbed().machines[:8], sites={})
    made = compile_instance(unfold(flow), few)
    scenario = Scenario(
        perturbations=(
            Perturbation(
                machines=("A*",),
                slowdown=Span(low=3, high=10),
                lasting_s=Span(low=50, high=200),
                every_s=40.0,
            ),
        ),
        failures=(Failure(machines=("A*",), mtbf_s=1500.0, repair_s=100.0),),
        iterations={"scf": 2},
    )
    chosen = replace(S1, poll_every_s=30.0, replan_every_s=30.0)
    chosen = (
        replace(chosen, migrate="pays") if settings == "pays" else replace(chosen, bound_ancestors=settings)
    )
    entries = []
    simulation = Simulation(
        library=WorkflowLibrary({"w": made}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy("plan"),
        settings=chosen,
        scenario=scenario,
        seed=seed,
    )
    engine = simulation.run(record=entries.append, check=check_engine)
    assert engine.state.runs[0].ending == "completed"
    assert sum(isinstance(entry.event, ev.PlanReady) for entry in entries) > 3


def returning(*repairs):
    """Return a scenario in which the machines m1, m2, ... fail after 1 s and return after their repairs."""
    failures = tuple(
        Failure(machines=(f"m{number}",), at_s=1.0, repair_s=repair_s)
        for number, repair_s in enumerate(repairs, 1)
    )
    return replace(UNDISTURBED, failures=failures, replanning_s_per_point=4.0)


def test_machine_that_returns_while_a_plan_is_made_is_in_the_next_plan():
    """The plan requested when m1 is back arrives 4 s later and does not contain m2, which returned meanwhile."""
    tasks = {f"t{number}": {"work": 30} for number in range(4)}
    made = instance(tasks, platform({}, {}, {}))
    done = Done(made, RunSettings(), returning(6.0, 8.0))
    requested = [(now, command.reason) for now, command in done.commands(cm.Replan)]
    assert requested == [(0.0, "submitted"), (7.0, "machines changed"), (11.0, "machines changed")]
    assert [(now, command.reason) for now, command in done.commands(cm.PostponeReplan)] == [
        (9.0, "machines changed")
    ]
    later = [now for now, command in done.commands(cm.Start) if command.machine == 2 and now > 9.0]
    assert later == [15.0], "a waiting task starts on m2 when the plan that contains m2 has arrived"
    assert done.run.next_plan == ""


@pytest.mark.parametrize("progress", [{}, WATCHED])
def test_new_plan_places_no_task_behind_an_overdue_one_while_a_machine_is_free(progress):
    """Machine m0 returns after ``long`` should have ended on m1, where ``wait`` is planned next."""
    tasks = {"long": {"work": 10, **progress}, "other": {"work": 11}, "wait": {"work": 10}}
    made = instance(tasks, platform({}, {}))
    down = Failure(machines=("m0",), at_s=12.0, repair_s=8.0)
    durations = Durations(tasks={"long": Durations(bias=20.0)})
    done = Done(made, RunSettings(), replace(UNDISTURBED, failures=(down,), durations=durations))
    starts = {done.names[each.task]: (now, each.machine) for now, each in done.commands(cm.Start)}
    assert starts == {"long": (0.0, 1), "other": (0.0, 0), "wait": (20.0, 0)}


def test_periodic_plan_moves_a_task_that_waits_behind_an_overdue_one_to_a_free_machine():
    tasks = {"long": {"work": 10}, "other": {"work": 11}, "wait": {"work": 10}}
    made = instance(tasks, platform({}, {}))
    durations = Durations(tasks={"long": Durations(bias=20.0)})
    done = Done(made, RunSettings(replan_every_s=15.0), replace(UNDISTURBED, durations=durations))
    starts = {done.names[each.task]: (now, each.machine) for now, each in done.commands(cm.Start)}
    assert starts == {"long": (0.0, 1), "other": (0.0, 0), "wait": (15.0, 0)}


class PlannedJobs(DrivenEngine):
    """An engine that follows plans of equal tasks of 100 s on two machines; every plan is made at once."""

    def __init__(self, number, **settings):
        jobs = Builder("jobs")
        jobs.task("job", work=100, sweep={"i": f"1..{number}"})
        real = RunSettings(begins_at_once=True, brings_results=True, pushes_state=True)
        super().__init__(jobs.build(), platform_of(1, 1), replace(real, **settings), "plan")
        self.first += self.plan()

    def handle(self, *events, at=None):
        return super().handle(*events, at=at) + self.plan()

    def plan(self):
        words = []
        while self.run.plan_wanted:
            state = self.engine.state
            stored = prepare_replan(state, 0).answered(make_planner("heft"), Budget(steps=20), generator(0))
            state.plans[stored.key] = stored
            ready = ev.PlanReady(plan=stored.key, run=0, version=self.run.version)
            words += super().handle(ready)
        return words

    def where(self, stage):
        """Return the machines of the attempts in a stage."""
        return [each.machine for each in self.engine.state.attempts.values() if each.stage == stage]


def answers(*machines):
    return [ev.Fetched(machine=machine, speed_factor=1.0, load=0.0) for machine in machines]


def test_queued_task_starts_on_a_returned_machine_as_soon_as_its_state_is_measured():
    engine = PlannedJobs(3, fetch_every_s=10.0)
    engine.handle(*answers(0, 1))
    engine.handle(ev.MachineChanged(machine=1, up=False), at=10)
    assert engine.where(Stage.ASSIGNED) == [0, 0]
    engine.handle(ev.MachineChanged(machine=1, up=True), at=40)
    assert engine.where(Stage.RUNNING) == [0]  # the state of the other machine is not known yet
    engine.handle(*answers(1), at=41)
    assert engine.where(Stage.RUNNING) == [0, 1]


def test_queued_task_starts_on_a_machine_that_is_listed_again():
    engine = PlannedJobs(3, discover_every_s=10.0)
    engine.handle(ev.Discovered(machines=(0,)))
    assert engine.where(Stage.RUNNING) == [0]
    assert engine.where(Stage.ASSIGNED) == [0, 0]
    engine.handle(ev.Discovered(machines=(0, 1)), at=10)
    assert engine.where(Stage.RUNNING) == [0, 1]


def test_queued_task_starts_on_a_reopened_machine_after_the_files_of_its_earlier_attempt_are_removed():
    engine = PlannedJobs(3)
    engine.handle(ev.MachineChanged(machine=1, admission=Admission.REMOVED), at=10)
    (cancelled,) = [each.number for each in engine.engine.state.attempts.values() if each.cancelled]
    engine.handle(ev.Ended(attempt=cancelled, exit_code=None, cause="cancelled"), at=11)
    engine.handle(ev.MachineChanged(machine=1, admission=Admission.OPEN), at=40)
    assert engine.where(Stage.RUNNING) == [0]
    engine.handle(ev.CleanedUp(attempt=cancelled), at=41)
    assert engine.where(Stage.RUNNING) == [0, 1]
