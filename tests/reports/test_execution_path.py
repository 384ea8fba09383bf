"""The critical path of a run: known chains, comparison with a reference, and times that add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from driven_engine import platform_of
from reports.executed_journals import example_journal, journal_of
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine.messages import Ended
from weft.reports.critical_path import find_critical_path


def chain_of(executed):
    return [(step.attempt.task, step.link) for step in executed.path.steps]


def test_critical_path_follows_data_and_occupied_nodes():
    flow = weft.Builder("flow")
    flow.task("a", work=10)
    flow.task("b", work=5)
    flow.task("c", work=10, after=["a"])
    executed = journal_of(flow.build(), platform_of(1.0), policy="fcfs").executed()
    assert chain_of(executed) == [("a", "arrival"), ("c", "data"), ("b", "nodes")]
    assert (executed.path.ran_s, executed.path.waited_s, executed.path.staged_s) == (25, 0, 0)


def test_critical_path_contains_no_wait_for_a_machine_that_has_free_nodes():
    flow = weft.Builder("flow")
    flow.task("short", work=3)
    flow.task("long", work=10)
    flow.task("after", work=4, after=["long"])
    executed = journal_of(flow.build(), platform_of(1.0, nodes=8), policy="fcfs").executed()
    assert chain_of(executed) == [("long", "arrival"), ("after", "data")]


def test_critical_path_includes_retries():
    flow = weft.Builder("flow")
    flow.task("job", work=10, retries=1)
    scenario = Scenario(exit_codes={"job": (1, 0)})
    executed = journal_of(
        flow.build(), platform_of(1.0, nodes=2), scenario=scenario, policy="fcfs"
    ).executed()
    assert chain_of(executed) == [("job", "arrival"), ("job", "retry")]
    assert executed.path.ran_s == executed.took_s == 20


def test_critical_path_includes_iterations():
    flow = weft.Builder("flow")
    flow.task("begin", work=2)
    flow.task("check", work=3, after=["begin"])
    flow.task("report", work=1, after=["check"])
    flow.loop("again", last="check", first="begin", max_iterations=3, on_exhausted="continue")
    executed = journal_of(flow.build(), platform_of(1.0, nodes=4), policy="fcfs").executed()
    assert [link for _, link in chain_of(executed)] == [
        "arrival",
        "data",
        "iteration",
        "data",
        "iteration",
        "data",
        "data",
    ]
    assert executed.path.ran_s == executed.took_s == 16


def test_critical_path_skips_virtual_and_skipped_tasks():
    flow = weft.Builder("flow")
    flow.task("a", work=10)
    flow.task("gate", kind="virtual", after=["a"])
    flow.task("b", work=5, after=["gate"])
    executed = journal_of(flow.build(), platform_of(1.0, nodes=4), policy="fcfs").executed()
    assert chain_of(executed) == [("a", "arrival"), ("b", "data")]


@st.composite
def journals(draw):
    number = draw(st.integers(2, 9))
    flow = weft.Builder("random")
    for task in range(number):
        above = [f"t{other}" for other in range(task) if draw(st.integers(0, 3)) == 0]
        flow.task(f"t{task}", work=draw(st.integers(1, 4)), after=above, retries=5)
    nodes = draw(st.integers(1, 3))
    platform = platform_of(*draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=1, max_size=3)), nodes=nodes)
    failures = ()
    if draw(st.booleans()):
        failures = (Failure(machines=("m0",), at_s=draw(st.integers(1, 6)), repair_s=2),)
    policy = draw(st.sampled_from(["fcfs", "plan"]))
    return journal_of(flow.build(), platform, scenario=Scenario(failures=failures), policy=policy)


def reference_path(executed):
    """Return the path by examining all attempts at every step."""
    story = executed.run_summaries[0]
    graph = executed.state.runs[0].compiled.graph
    ran, met, found = list(executed.ran), set(), []
    current = min(ran, key=lambda each: (-each.ended_s, each.number))
    while current is not None:
        met.add(current.number)
        by_s = current.started_s if current.submitted_s is None else current.submitted_s
        before = {graph.names[task] for task in graph.predecessors(graph.index(current.task)).tolist()}
        reasons = []
        for other in ran:
            if other.number in met or not story.arrival_s < other.ended_s <= by_s:
                continue
            links = []
            if other.task in before:
                links.append(0)
            if other.task == current.task:
                links.append(2)
            if other.machine == current.machine:
                taken = sum(
                    each.nodes
                    for each in ran
                    if each.machine == current.machine and each.started_s < other.ended_s <= each.ended_s
                )
                if executed.machines[current.machine].nodes - taken < current.nodes:
                    links.append(3)
            reasons += [(-other.ended_s, link, other.number, other) for link in links]
        best = min(reasons, key=lambda each: each[:3], default=None)
        found.append((current.number, "arrival" if best is None else ("data", "", "retry", "nodes")[best[1]]))
        current = None if best is None else best[3]
    return found[::-1]


@given(journals())
def test_critical_path_equals_the_reference_and_its_times_add_up(written):
    executed = written.executed()
    if executed.outcome != "completed":
        return
    path = executed.path
    assert path.ran_s + path.staged_s + path.waited_s == pytest.approx(executed.took_s)
    assert [(step.attempt.number, step.link) for step in path.steps] == reference_path(executed)
    for step in path.steps:
        assert min(step.ran_s, step.waited_s, step.staged_s) >= 0


@st.composite
def late_reports(draw):
    """Return journals in which some ends were reported late."""
    written = draw(journals())

    def late(event):
        if not isinstance(event, Ended) or draw(st.booleans()):
            return event
        return replace(event, ran_s=draw(st.integers(0, 12)) / 4, late_s=draw(st.integers(0, 12)) / 4)

    entries = tuple(replace(entry, event=late(entry.event)) for entry in written.entries)
    return written, replace(written, entries=entries)


@given(late_reports())
def test_critical_path_equals_the_reference_for_late_reports(pair):
    """No decision is made while no engine runs; this time counts as waiting on the path."""
    reported, written = pair
    executed = written.executed()
    if executed.outcome != "completed":
        return
    path = executed.path
    assert path.ran_s + path.staged_s + path.waited_s == pytest.approx(executed.took_s)
    assert [(step.attempt.number, step.link) for step in path.steps] == reference_path(executed)
    received = reported.executed().history.attempts
    for number, attempt in executed.history.attempts.items():
        if attempt.started_s is not None:
            assert attempt.submitted_s <= attempt.started_s <= attempt.ended_s <= received[number].ended_s


def test_path_times_add_up_for_every_disturbed_run():
    executed = example_journal().executed()
    nodes = [machine.nodes for machine in executed.machines]
    for story in executed.run_summaries:
        path = find_critical_path(executed.history, executed.state.runs, nodes, story.index)
        assert path.ran_s + path.staged_s + path.waited_s == pytest.approx(story.ended_s - story.arrival_s)
        for before, after in zip(path.steps, path.steps[1:], strict=False):
            assert after.after is before.attempt
            assert before.end_s == pytest.approx(after.from_s)
