"""Invariant checks: a valid state is corrupted in one place at a time, and the checks detect it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal_audit import audit_journal
from planning_examples import instance, platform
from weft.backends.simulation.scenario import Arrival, Cancellation, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.invariants import InvariantViolation, check_engine
from weft.engine.journal import JournalEntry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.states import Stage, TaskState
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings

TASKS = {
    "a": {"work": 4, "machine": "A", "memory": "1GB", "outputs": {"x": 1e6}},
    "b": {"work": 2, "machine": "A", "sweep": {"k": "1..3"}, "inputs": ["x"]},
    "c": {"work": 1, "after": "b", "checkpoint": {"files": ["r"], "every": 1}},
}
WHERE = platform({"nodes": 2, "memory": 4e9}, {"nodes": 1, "memory": 4e9})


@pytest.fixture
def engine():
    """Return an engine during a run: a has completed, two tasks of b run, one is ready."""
    made = instance(TASKS, WHERE)
    found = Engine(WorkflowLibrary({"w": made}), made, make_policy("fcfs"), RunSettings())
    found.handle(ev.Submitted(run=0, workflow="w"), 0.0)
    found.handle(ev.Ended(attempt=0), 4.0)
    check_engine(found)
    assert sorted(found.state.runs[0].state) == [0, 1, 4, 4, 7] or sorted(found.state.runs[0].state) == [
        0,
        1,
        5,
        5,
        7,
    ]
    return found


def _running(engine):
    return next(
        each for each in engine.state.attempts.values() if each.stage in (Stage.SUBMITTED, Stage.RUNNING)
    )


def _lose_a_node(engine):
    engine.state.machines[0].free_nodes += 1


def _lose_memory(engine):
    engine.state.machines[0].amounts["memory"] -= 5e8


def _forget_an_attempt(engine):
    engine.state.attempts.pop(_running(engine).number)


def _count_too_many(engine):
    engine.state.runs[0].unfinished += 1


def _miss_nothing(engine):
    engine.state.runs[0].missing[4] = 0


def _forget_who_is_ready(engine):
    run = engine.state.runs[0]
    run.ready.remove(next(iter(run.ready)))


def _run_twice(engine):
    engine.state.machines[0].queue.append((1.0, _running(engine).number))


def _move_without_telling(engine):
    run = engine.state.runs[0]
    run.state[_running(engine).task] = TaskState.PROLOG


def _begin_before_data(engine):
    _running(engine).staging = 1


def _start_in_the_future(engine):
    _running(engine).started_s = 99.0


def _be_replaced_by_nobody(engine):
    _running(engine).replaced_by = 77


def _run_where_nothing_is_up(engine):
    engine.state.machines.set_up(0, up=False)


def _forget_a_timer(engine):
    engine.state.timers["watch"] = 1.0


def _take_back_an_end(engine):
    engine.state.runs[0].state[0] = TaskState.WAITING


SPOILT = [
    value for name, value in sorted(globals().items()) if name.startswith("_") and hasattr(value, "__code__")
]
SPOILT.remove(_running)


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__.strip("_"))
def test_corrupted_state_is_detected(engine, spoil):
    spoil(engine)
    with pytest.raises(InvariantViolation):
        check_engine(engine)


def test_invariant_error_names_task_machine_and_attempt(engine):
    attempt = _running(engine)
    attempt.staging = 2
    with pytest.raises(
        InvariantViolation, match=rf"attempt {attempt.number} of 'b\[1\]' of run 0, on 'm0' with 1 nodes"
    ):
        check_engine(engine)


@pytest.fixture(scope="module")
def journal():
    """Return the journal of a run in which c is preempted once and continues from its restart files."""
    made = instance(TASKS | {"c": TASKS["c"] | {"work": 10}}, WHERE)
    entries = []
    simulation = Simulation(
        library=WorkflowLibrary({"w": made}),
        arrivals=[Arrival(workflow="w")],
        policy=make_policy("fcfs"),
        settings=RunSettings(),
        scenario=Scenario(cancellations=(Cancellation(task="c", at_s=12.5),)),
    )
    engine = simulation.run(record=entries.append)
    assert engine.state.runs[0].ending == "completed"
    return entries, [run.compiled for run in engine.state.runs]


def changed(entries, wanted, change):
    """Return the entries with the first matching command or event changed."""
    found, done = [], False
    for entry in entries:
        if not done and wanted(entry.event):
            entry, done = replace(entry, event=change(entry.event)), True
        commands = []
        for command in entry.commands:
            if not done and wanted(command):
                command, done = change(command), True
            if command is not None:
                commands.append(command)
        found.append(replace(entry, commands=tuple(commands)))
    assert done
    return found


def test_audit_reports_the_share_of_replicated_work_per_task(journal):
    entries, known = journal
    found = audit_journal(entries, known)
    (again,) = [share for share in found.replicated.values() if share]
    assert 0 < again < 1


CHANGES = {
    "a start before its predecessor": (
        lambda m: isinstance(m, cm.Settle) and m.state == TaskState.COMPLETED,
        lambda m: None,
    ),
    "a start from more than was saved": (
        lambda m: isinstance(m, cm.Start) and m.restart_from > 0,
        lambda m: replace(m, restart_from=0.9),
    ),
    "an end before all the work is done": (
        lambda m: isinstance(m, ev.Ended) and m.exit_code == 0,
        lambda m: replace(m, work_done=0.5),
    ),
    "an attempt without an assignment": (lambda m: isinstance(m, cm.Assign), lambda m: None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_journal_that_breaks_a_rule_is_detected(journal, name):
    entries, known = journal
    with pytest.raises(InvariantViolation):
        audit_journal(changed(entries, *CHANGES[name]), known)


def test_journal_with_decreasing_times_is_detected(journal):
    entries, known = journal
    first, second, *others = entries
    swapped = [replace(first, now=second.now + 1.0), second, *others]
    with pytest.raises(InvariantViolation, match="comes after"):
        audit_journal(swapped, known)


def test_second_completion_of_a_task_is_detected(journal):
    entries, known = journal
    last = entries[-1]
    again = JournalEntry(
        sequence=last.sequence + 1,
        now=last.now,
        event=ev.TimerFired(timer="x"),
        commands=(cm.Settle(run=0, task=0, state=TaskState.COMPLETED),),
    )
    with pytest.raises(InvariantViolation, match="completes once"):
        audit_journal([*entries, again], known)
