"""Explanations give the conditions and estimates at the time of a decision, and what a task waits for."""

from __future__ import annotations

import pytest

from driven_engine import DrivenEngine, one_task, platform_of
from weft.api.journal import explanation_lines
from weft.backends.simulation.scenario import Arrival, Failure, Scenario
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.explanation import describe_standstill, explain
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import InvalidInput
from weft.formats.profiles import preset_settings
from weft.instance.compilation import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings

MACHINES = (
    Machine(name="small", speed=4.0, memory=1e9, services=("run",)),
    Machine(name="slow", speed=1.0, memory=8e9, services=("run",)),
    Machine(name="quick", speed=2.0, memory=8e9, services=("run",)),
    Machine(name="other", speed=9.0, memory=8e9, services=("dock",)),
)


def flow():
    made = Builder("flow")
    made.task("first", work=10, service="run", requirements="memory >= 4*GB")
    made.task("beside", work=1, service="run", requirements="memory >= 4*GB")
    made.task("bound", work=4, service="run", after="first", machine="here", requirements="memory >= 4*GB")
    made.task("again", work=4, service="run", after="bound", machine="here")
    return made.build()


class Recorded:
    """A simulated run with the explanation of its tasks."""

    def __init__(self, policy="fcfs", scenario=Scenario(), how=RunSettings()):  # noqa: B008
        instance = compile_instance(check_and_unfold(flow()), Platform(name="grid", machines=MACHINES))
        arrivals = [Arrival(workflow="flow")]
        self.simulation = Simulation(
            WorkflowLibrary({"flow": instance}), arrivals, make_policy(policy), how, scenario
        )
        self.entries = []
        self.engine = self.simulation.run(record=self.entries.append)

    def fresh(self):
        simulation = self.simulation
        first = simulation.library["flow"]
        return Engine(simulation.library, first.instance, simulation.policy, simulation.settings)

    def explain(self, task, **when):
        return explain(self.fresh, self.entries, self.engine.state.plans, task, **when)


def by_name(candidates):
    return {candidate.machine: candidate for candidate in candidates}


def failing(candidate):
    return [condition.name for condition in candidate.refusals]


def test_explanation_of_a_placement_shows_the_state_at_the_time_of_the_decision():
    found = Recorded().explain("first", at_s=2.0)
    assert (found.state, found.waits_for, found.at_s) == ("running", (), 2.0)
    choice = found.choice
    assert (choice.machine, choice.now, choice.entry) == ("quick", 0.0, 0)
    assert choice.by.startswith("policy 'fcfs'")
    judged = by_name(choice.candidates)
    assert failing(judged["small"]) == ["demands"]
    assert judged["small"].refusals[0].text == "does not meet the requirements memory >= 4 * GB"
    assert judged["other"].refusals[0].text == "does not offer the service 'run'"
    assert failing(judged["slow"]) == failing(judged["quick"]) == []
    assert [option.finish_s for option in judged["slow"].options] == [10]
    assert [(option.seconds, option.data_ready_s, option.finish_s) for option in judged["quick"].options] == [
        (5, 0, 5)
    ]


def test_explanation_of_a_waiting_task_lists_unmet_conditions():
    found = Recorded().explain("bound", at_s=1.0)
    assert (found.state, found.choice) == ("waiting", None)
    assert found.waits_for == ("first, which is running",)
    assert found.story == ()


def test_binding_of_an_abstract_machine_is_a_condition():
    found = Recorded().explain("again", at_s=100.0)
    assert found.state == "completed"
    judged = by_name(found.choice.candidates)
    assert "bound" in failing(judged["small"])
    assert "'here' is bound to quick" in [condition.text for condition in judged["small"].refusals]
    assert failing(judged["quick"]) == []


def test_free_capacity_is_a_condition_of_a_placement():
    judged = by_name(Recorded().explain("beside").choice.candidates)
    assert failing(judged["quick"]) == ["capacity"]
    assert judged["quick"].refusals[0].text == "0 of 1 nodes are free, the task needs 1 (expected at 5 s)"
    (option,) = judged["quick"].options
    assert (option.free, option.finish_s) == (False, 5.5)
    assert judged["slow"].possible


def test_selection_steps_are_conditions_of_a_placement():
    recorded = Recorded(policy="rank", scenario=Scenario(denied=("quick",)), how=preset_settings("s3"))
    judged = by_name(recorded.explain("first", at_s=30.0).choice.candidates)
    assert failing(judged["quick"]) == ["access"]
    names = [condition.name for condition in judged["slow"].conditions if condition.name != "demands"]
    assert names[:4] == ["up", "listed", "access", "state"]


def test_explanation_lists_the_unmet_condition_up_for_a_machine_that_is_down():
    scenario = Scenario(failures=(Failure(machines=("quick", "slow"), at_s=3.0),))
    recorded = Recorded(scenario=scenario)
    found = recorded.explain("first")
    assert found.state == "ready"
    assert failing(by_name(found.candidates)["quick"]) == ["up"]
    assert "a machine: slow, quick: is down" in found.waits_for
    assert any("is lost" in step.text for step in found.story)
    lines = describe_standstill(recorded.engine.state)
    assert lines[0].startswith("run 0: first (ready) waits for a machine")
    assert lines[1] == "run 0: 2 more tasks not ended"


def test_history_of_a_task_is_in_order():
    story = Recorded().explain("first").story
    assert [step.now for step in story] == sorted(step.now for step in story)
    assert story[0].text.startswith("attempt 1: bound to quick")
    assert story[-1].text == "it became completed"


@pytest.mark.parametrize(
    ("task", "run", "words"),
    [("firts", 0, "did you mean 'first'?"), ("first", 4, "no run 4"), ("nothing-like-it", 0, "weft show")],
)
def test_unknown_task_is_refused(task, run, words):
    with pytest.raises(InvalidInput, match=words.replace("?", r"\?")):
        Recorded().explain(task, run=run)


def test_no_run_exists_before_the_first_arrival():
    with pytest.raises(InvalidInput, match="no run has arrived"):
        Recorded().explain("first", at_s=-1.0)


def handled(workflow, platform, *events, policy="fcfs"):
    """Return a function that explains a task after these events, each with its time."""
    instance = compile_instance(check_and_unfold(workflow), platform)

    def fresh():
        settings = RunSettings(begins_at_once=True)
        return Engine(WorkflowLibrary({"w": instance}), instance, make_policy(policy), settings)

    engine, entries = fresh(), []
    for number, (now, event) in enumerate([(0.0, ev.Submitted(run=0, workflow="w")), *events]):
        commands = tuple(engine.handle(event, now))
        entries.append(JournalEntry(sequence=number, now=now, event=event, commands=commands))
    return lambda task: explain(fresh, entries, {}, task)


def moved(task, machine):
    return ev.RequestReceived(what="migrate", run=0, task=task, machine=machine)


def jobs(number, **facets):
    flow = Builder("jobs")
    flow.task("job", sweep={"i": f"1..{number}"}, **{"work": 100, **facets})
    return flow.build()


def test_machine_that_a_task_leaves_is_named_and_is_no_candidate():
    found = handled(jobs(2), platform_of(1, 1), (1.0, moved(0, 1)), (50.0, ev.Ended(attempt=1)))("job[1]")
    judged = by_name(found.choice.candidates)
    assert (found.choice.machine, found.choice.entry) == ("m1", 2)
    assert judged["m1"].possible
    assert list(judged) == ["m1"]
    assert (found.choice.left, found.choice.by) == ("m0", "migration: user")
    lines = list(explanation_lines(found))
    assert [line for line in lines if "m0" in line] == [
        "  waits for its earlier attempt on m0 to end",
        "   the task migrates away from m0, which is therefore no candidate",
        "         0 s  attempt 1: bound to m0 (earliest finish of the free machines)",
        "         0 s  attempt 1: submitted to m0",
        "        50 s  attempt 2: migrates from m0 to m1 (user)",
    ]


def test_program_that_is_resumed_only_to_be_ended_is_not_said_to_be_resumed_by_its_machine():
    """A suspended program gets SIGTERM, and SIGCONT from weft so that it can end."""
    events = [(1.0, ev.Started(attempt=0)), (2.0, ev.Suspended(attempt=0)), (3.0, moved(0, 1))]
    found = handled(jobs(1), platform_of(1, 1), *events, (4.0, ev.Resumed(attempt=0)))("job[1]")
    lines = list(explanation_lines(found))
    assert "         2 s  it was suspended" in lines
    assert "         4 s  it was resumed" in lines
    assert not any("machine resumed" in line for line in lines)


def test_all_migrations_are_shown_without_verbose_output():
    events = []
    for number in range(6):
        at, target = 10.0 * number, (number + 1) % 2
        events += [(at + 1, moved(0, target)), (at + 2, ev.Ended(attempt=number, cause="cancelled"))]
        events.append((at + 3, ev.CleanedUp(attempt=number)))
    found = handled(jobs(1), platform_of(1, 1), *events)("job[1]")
    shown = list(explanation_lines(found))
    whole = list(explanation_lines(found, verbose=True))
    migrations = [line for line in whole if "migrates from" in line]
    assert len(migrations) == 6
    assert [line for line in shown if "migrates from" in line] == migrations
    hidden = [int(line.split()[1]) for line in shown if "earlier step" in line]
    assert sum(hidden) == len(whole) - (len(shown) - len(hidden)) > 0


def test_task_that_has_not_started_is_not_said_to_migrate():
    """Under policy lazy, job[2] waits in the queue of m0 until the user moves it."""
    slow = platform_of(1, 0.001)
    found = handled(jobs(2), slow, (1.0, moved(1, 1)), policy="lazy")("job[2]")
    assert (found.choice.machine, found.choice.left, found.choice.by) == ("m1", "m0", "reassignment: user")
    lines = list(explanation_lines(found))
    assert "   the task had not started on m0, which is therefore no candidate" in lines
    assert any(line.endswith("attempt 2: had not started on m0, assigned to m1 (user)") for line in lines)
    assert not any("migrat" in line for line in lines)


def test_old_binding_of_an_abstract_machine_does_not_exclude_the_target_of_its_migration():
    found = handled(jobs(2, machine="here"), platform_of(1, 1), (1.0, moved(0, 1)))("job[1]")
    assert by_name(found.choice.candidates)["m1"].possible


def test_task_that_starts_in_the_entry_of_its_placement_is_not_said_to_wait():
    explained = handled(jobs(3), platform_of(1), policy="lazy")
    choices = [explained(f"job[{number}]").choice for number in (1, 2, 3)]
    assert [(choice.queued, choice.ahead) for choice in choices] == [(False, 0), (True, 1), (True, 2)]


def test_nodes_kept_for_a_requested_migration_are_not_called_free():
    flow = Builder("wide")
    flow.task("wide", work=100, nodes=2, requirements='name == "m0" or name == "m1"')
    flow.task("narrow", sweep={"i": "1..3"}, work=100, after=[], requirements='name == "m1"')
    machines = tuple(Machine(name=f"m{number}", nodes=2) for number in range(2))
    build, platform = flow.build(), Platform(machines=machines)
    explained = handled(build, platform, (1.0, moved(0, 1)), (9.0, ev.Ended(attempt=1)))
    found = explained("narrow[3]")
    assert found.waits_for == (
        "a machine: m0: does not meet the requirements name == \"m1\"",
        "a machine: m1: its next free nodes are kept for wide, which the user moves there",
    )  # fmt: skip
    assert explained("wide").waits_for == ("2 free nodes of m1, to which the user moves it",)


def journal_of(fresh, *events):
    """Return the journal of a new engine that handles the submission of its run and (time, event) pairs."""
    engine, entries = fresh(), []
    for at_s, event in ((0.0, ev.Submitted(run=0, workflow="w")), *events):
        commands = tuple(engine.handle(event, at_s))
        entries.append(JournalEntry(sequence=len(entries), now=at_s, event=event, commands=commands))
    return entries


def test_choice_of_a_migration_names_the_order_of_the_selector_program():
    """Of three equal machines the selector accepts the first and, preferred, the last."""
    facets = {"checkpoint": {"files": ["restart"], "every": 5}, "progress": "steps", "selector": "./select"}
    settings = RunSettings(contract=0.5, migrate="always")

    def fresh():
        return DrivenEngine(one_task(**facets), platform_of(1, 1, 1, 1), settings, submit=False).engine

    entries = journal_of(
        fresh,
        (0.0, ev.MachinesSelected(run=0, task=0, machines=(0, 3, 1))),
        (0.0, ev.Started(attempt=0)),
        (20.0, ev.Progressed(attempt=0, work_done=0.05)),
    )
    choice = explain(fresh, entries, {}, "job").choice
    assert choice.machine == "m3"
    assert choice.by == "migration: performance; machines in the order of its selector ./select: m0, m3, m1"
    assert failing(by_name(choice.candidates)["m2"]) == ["selector"]


def test_explanation_of_a_held_task_says_since_when_why_and_how_it_is_released():
    chain = Builder("chain")
    chain.task("first", work=10)
    chain.task("next one", work=10, after="first")

    def fresh():
        return DrivenEngine(chain.build(), platform_of(1), submit=False).engine

    entries = journal_of(
        fresh,
        (2.0, ev.RequestReceived(what="hold", run=0, task=1)),
        (3.0, ev.RequestReceived(what="release", run=0, task=1)),
        (5.0, ev.RequestReceived(what="hold", run=0, task=1)),
        (7.0, ev.Started(attempt=0)),
    )
    found = explain(fresh, entries, {}, "next one")
    assert found.waits_for == (
        "a user to release it with `weft release 'next one'`: held by the user at 5 s",
        "first, which is running",
    )
