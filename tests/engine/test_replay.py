"""Applying a journal gives its states; deciding its events again gives its commands (invariant I10)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from engine_strategies import simulations
from state_digest import digest_state
from weft.backends.simulation.scenario import Arrival
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import Assign
from weft.engine.replay import rebuild, replay
from weft.engine.state.compiled import WorkflowLibrary
from weft.instance.compilation import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failing run is not shrunk: that takes minutes, and its journal shows what happened."""

MOST_ENTRIES = 300
"""Maximum number of journal entries of a random run."""


def recorded(simulation):
    """Return the entries of a simulation, a digest of the state after each, its history and its engine."""
    entries, digests, history = [], [], History()

    def check(engine):
        digests.append(digest_state(engine.state))
        history.take(entries[-1], engine.state)

    engine = simulation.run(record=entries.append, check=check, stop=lambda _: len(entries) >= MOST_ENTRIES)
    return entries, digests, history.finish(), engine


def fresh(simulation):
    first = simulation.library[simulation.arrivals[0].workflow]
    return Engine(simulation.library, first.instance, simulation.policy, simulation.settings)


def through_json(entries):
    return [JournalEntry.of_record(json.loads(json.dumps(entry.as_record()))) for entry in entries]


@settings(max_examples=20, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(simulations())
def test_applied_entries_give_the_state_and_history_of_every_prefix(simulation):
    entries, digests, history, engine = recorded(simulation)
    rebuilt, again = fresh(simulation), History()
    rebuilt.state.plans.update(engine.state.plans)
    for entry, expected in zip(through_json(entries), digests, strict=True):
        rebuilt.apply(entry.event, entry.now, entry.commands)
        assert digest_state(rebuilt.state) == expected
        again.take(entry, rebuilt.state)
    again.finish()
    assert again.attempts == history.attempts
    assert (again.runs, again.moves, again.failures) == (history.runs, history.moves, history.failures)
    assert (again.active, again.ready, again.down) == (history.active, history.ready, history.down)


@settings(max_examples=20, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(simulations())
def test_deciding_again_gives_the_same_commands(simulation):
    entries, _, _, engine = recorded(simulation)
    found = replay(fresh(simulation), through_json(entries), engine.state.plans)
    assert found.differences == ()
    assert (found.entries, found.total) == (len(entries), len(entries))


@settings(max_examples=15, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(simulations())
def test_engine_rebuilt_from_the_first_half_of_a_journal_gives_the_second_half(simulation):
    """Recovery after a crash relies on this: events and commands contain the complete state."""
    entries, _, _, engine = recorded(simulation)
    half = len(entries) // 2
    resumed = rebuild(fresh(simulation), entries[:half], engine.state.plans)
    for entry in entries[half:]:
        assert tuple(resumed.handle(entry.event, entry.now)) == entry.commands


@pytest.fixture
def chain_on_two():
    """Return four independent tasks on a fast and a slow machine."""
    flow = Builder("four")
    flow.task("work", work=10, sweep={"k": "1..4"})
    machines = (Machine(name="fast", speed=2.0), Machine(name="slow", speed=1.0))
    instance = compile_instance(check_and_unfold(flow.build()), Platform(name="two", machines=machines))
    return Simulation(
        WorkflowLibrary({"four": instance}), [Arrival(workflow="four")], make_policy("fcfs"), RunSettings()
    )


def test_replay_detects_a_changed_command(chain_on_two):
    entries, _, _, engine = recorded(chain_on_two)
    at = next(
        index for index, entry in enumerate(entries) if any(isinstance(one, Assign) for one in entry.commands)
    )
    position = next(index for index, one in enumerate(entries[at].commands) if isinstance(one, Assign))
    commands = list(entries[at].commands)
    commands[position] = replace(commands[position], machine=1 - commands[position].machine)
    entries[at] = replace(entries[at], commands=tuple(commands))
    found = replay(fresh(chain_on_two), entries, engine.state.plans)
    assert not found.same
    assert [(each.sequence, each.position) for each in found.differences] == [(at, position)]
    assert found.differences[0].expected == commands[position]
    assert (found.entries, found.total) == (at + 1, len(entries))


def test_replay_detects_a_missing_command(chain_on_two):
    entries, _, _, engine = recorded(chain_on_two)
    entries[0] = replace(entries[0], commands=entries[0].commands[:-1])
    (difference,) = replay(fresh(chain_on_two), entries, engine.state.plans).differences
    assert difference.expected is None
    assert difference.got is not None


def test_replay_with_another_policy_returns_the_first_difference(chain_on_two):
    entries, _, _, engine = recorded(chain_on_two)
    first = chain_on_two.library["four"]
    other = Engine(chain_on_two.library, first.instance, make_policy("plan"), RunSettings())
    found = replay(other, entries, engine.state.plans)
    assert found.entries == 1, "it requests a plan where the other placed tasks"
    assert type(found.differences[0].got).__name__ == "Replan"
