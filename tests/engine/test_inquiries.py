"""Queries of the selection, compared with a reference that examines all machines at every event."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_strategies import simulations
from weft.engine import messages as cm
from weft.engine.reactions import machines
from weft.engine.state.state import InquiryAgenda

EVERY = st.sampled_from([None, 3.0, 4.0])


def due_queries(state, active):
    """Return the queries that are due and the time of the next one, by examining every machine."""
    requested, rules, found = state.inquiries, state.settings, []
    again_s = rules.discover_every_s or math.inf
    if _due(requested.discovered_s, rules.discover_every_s, state.now):
        found.append(cm.Discover())
        back_s = state.now + rules.discover_every_s
    else:
        back_s = _next_s(requested.discovered_s, rules.discover_every_s)
    for machine in state.machines:
        index, wanted = machine.index, machine.up
        wanted &= any(machine.index in run.compiled.machines for run in active)
        wanted &= rules.discover_every_s is None or index in (requested.listed or ())
        if wanted and rules.authorise:
            if _due(requested.access_asked_s.get(index), again_s, state.now):
                found.append(cm.Probe(of="access", machine=index))
            wanted = requested.access.get(index, False)
        if wanted and _due(requested.fetch_asked_s.get(index), rules.fetch_every_s, state.now):
            found.append(cm.Fetch(machine=index))
            back_s = min(back_s, state.now + rules.fetch_every_s)
        elif wanted:
            back_s = min(back_s, _next_s(requested.fetch_asked_s.get(index), rules.fetch_every_s))
    return found, back_s


def is_settling(state):
    """Return whether a first answer is outstanding, by examining every queried machine."""
    requested, rules = state.inquiries, state.settings
    if rules.discover_every_s is not None and requested.listed is None:
        return True
    patience_s = 30.0 if rules.fetch_every_s is None else rules.fetch_every_s
    return any(
        state.now < asked_s + patience_s
        and not (
            machine in requested.access
            if rules.authorise and not requested.access.get(machine, False)
            else rules.fetch_every_s is None or machine in requested.fetched_s
        )
        for machine, asked_s in requested.first_asked_s.items()
    )


def check(engine):
    """Assert that the indexes agree with the reference after an event."""
    state = engine.state
    assert state.inquiries.is_settling(state.now) == is_settling(state)
    for machine in state.machines:
        assert machine.usable == (not state.obstacle(machine.index))


def _due(asked_s, every_s, now):
    return every_s is not None and (asked_s is None or now >= asked_s + every_s)


def _next_s(asked_s, every_s):
    return math.inf if every_s is None or asked_s is None else asked_s + every_s


@pytest.fixture(scope="module")
def compared():
    """Compare the queries of every refresh with the reference; return the list of compared queries."""
    refresh, seen = machines.refresh_inquiries, []

    def watched(context):
        state, before = context.state, len(context.commands)
        if not state.inquiries.needed or not state.active:
            return refresh(context)
        questions, back_s = due_queries(state, list(state.active.values()))
        refresh(context)
        found = context.commands[before:]
        assert [each for each in found if not isinstance(each, cm.SetTimer)] == questions
        if back_s < math.inf:
            assert state.timers["select"] == back_s
        seen.extend(questions)
        return None

    patch = pytest.MonkeyPatch()
    patch.setattr(machines, "refresh_inquiries", watched)
    patch.setattr("weft.runtime.driver._PATIENCE_EVENTS", 300)
    yield seen
    patch.undo()


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(simulations(), EVERY, EVERY, st.booleans())
def test_queries_equal_those_of_the_reference(compared, simulation, discover, fetch, authorise):
    rules = {"discover_every_s": discover, "fetch_every_s": fetch, "authorise": authorise}
    simulation = replace(simulation, settings=replace(simulation.layers, overrides=rules))
    simulation.run(stop=lambda engine: engine.state.now > 60, check=check)


def test_simulations_of_the_comparison_contain_queries_of_every_kind(compared):
    assert len(compared) > 100
    assert {type(each) for each in compared} == {cm.Discover, cm.Probe, cm.Fetch}


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1.0, 2.0, 5.0, math.inf])), max_size=20))
def test_due_times_are_returned_in_order(steps):
    dues, at_s, now = InquiryAgenda(()).fetch, {}, 0.0
    for machine, after_s in steps:
        now += 0.75
        dues.put(machine, now + after_s)
        at_s[machine] = now + after_s
        assert dues.first() == min(at_s.values())
        passed = {each for each, when in at_s.items() if when <= now}
        assert set(dues.passed(now)) == passed
        at_s = {each: when for each, when in at_s.items() if each not in passed}


def test_machines_of_a_new_run_are_queried():
    first, second = frozenset({0, 1}), frozenset({1, 2})
    agenda = InquiryAgenda(range(3))
    agenda.set_wanted({0: first})
    assert agenda.pop_due(0.0) == [0, 1, 2]
    assert [agenda.is_wanted(machine) for machine in range(3)] == [True, True, False]
    agenda.set_wanted({0: first, 1: second})
    assert agenda.pop_due(0.0) == [2]
    assert agenda.is_wanted(2)
    agenda.set_wanted({1: second})
    assert agenda.pop_due(0.0) == [0]
    assert [agenda.is_wanted(machine) for machine in range(3)] == [False, True, True]
