"""Random runs of the engine under every policy: invariants hold after every event and in whole journals.

Invariants I1 to I7 and I10 of docs/papers/unified.md, section 8. ``WEFT_PROPERTY_RUNS=5000`` sets more runs.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from engine_strategies import simulations
from journal_audit import audit_journal
from state_digest import digest_state
from weft.engine import messages as cm
from weft.engine.engine import Engine
from weft.engine.invariants import check_engine
from weft.engine.journal import JournalEntry
from weft.engine.states import TaskState

RUNS = int(os.environ.get("WEFT_PROPERTY_RUNS", "60"))
IDLE, MOST = 1_000, 6_000
"""Idle entries after which a run that waits for a lost machine is stuck, and the maximal number of entries."""


@pytest.fixture(autouse=True, scope="module")
def _little_patience():
    patched = pytest.MonkeyPatch()
    patched.setattr("weft.runtime.driver._PATIENCE_EVENTS", IDLE)
    yield
    patched.undo()


def simulated(simulation):
    """Simulate with all invariants checked after every event; return the engine and the journal."""
    entries = []

    def record(entry):
        entries.append(entry)
        assert len(entries) < MOST, "it does not end"

    return simulation.run(record=record, check=check_engine), entries


def fresh(simulation, like):
    """Return a new engine with the same plans."""
    first = simulation.library[simulation.arrivals[0].workflow]
    engine = Engine(simulation.library, first.instance, simulation.policy, simulation.settings)
    engine.state.plans = dict(like.state.plans)
    return engine


def assert_replays(simulation, engine, entries):
    """Assert that recorded events give the same commands, and parsed commands the same state (I10)."""
    deciding, applying = fresh(simulation, engine), fresh(simulation, engine)
    for entry in entries:
        assert tuple(deciding.handle(entry.event, entry.now)) == entry.commands
        read = JournalEntry.of_record(entry.as_record())
        assert read == entry
        applying.apply(read.event, read.now, read.commands)
    assert digest_state(deciding.state) == digest_state(engine.state)
    assert digest_state(applying.state) == digest_state(engine.state)


def assert_continues(simulation, engine, entries):
    """Assert that an engine rebuilt from half a journal makes the same remaining decisions."""
    rebuilt, middle = fresh(simulation, engine), len(entries) // 2
    for entry in entries[:middle]:
        rebuilt.apply(entry.event, entry.now, entry.commands)
    for entry in entries[middle:]:
        assert tuple(rebuilt.handle(entry.event, entry.now)) == entry.commands


def assert_ended(engine, entries):
    """Assert that every run ended with a reason, or that no ready task can be placed."""
    for run in engine.state.runs:
        if run.ending == "completed":
            assert set(run.state) <= {TaskState.COMPLETED, TaskState.SKIPPED}
        if run.ending in ("failed", "stopped", "cancelled"):
            assert any(_has_reason(command, run.index) for entry in entries for command in entry.commands)
    for index, run in engine.state.active.items():
        # Under a plan a task may wait on its machine for a task without a machine.
        attempts = [engine.state.attempts[number] for number in run.attempt_of.values()]
        assert all(engine.state.is_early(attempt) for attempt in attempts)
        assert len(run.ready) > 0
        view = engine._view
        assert all(not view.modes(view.run(index), task) for task in run.ready)


def _has_reason(command, run):
    return (
        (isinstance(command, cm.Settle | cm.FinishRun) or type(command) in cm.RECORDS)
        and getattr(command, "run", None) == run
        and bool(getattr(command, "reason", ""))
    )


LIMITS = (
    "weft.policies.forecast._MOST_PLACED",
    "weft.policies.shared_plans._MOST_WAITING",
    "weft.engine.state.indexes._MAX_COMPARED",
    "weft.engine.state.indexes._SHORTLIST",
    "weft.engine.state.ready._MAX_WAITING",
    "weft.engine.selection._MAX_HOLDERS",
    "weft.engine.state.compiled._MAX_KINDS",
    "weft.engine.state.machines._MAX_SERVED",
)
"""Limits of examined candidates; small platforms and workflows never reach them."""


@pytest.fixture
def _small_limits(monkeypatch):
    for limit in LIMITS:
        monkeypatch.setattr(limit, 1)


@settings(max_examples=RUNS, suppress_health_check=list(HealthCheck))
@given(simulations())
def test_random_runs_end_satisfy_the_invariants_and_can_be_replayed(simulation):
    assert_sound(simulation)


@settings(max_examples=RUNS // 3, suppress_health_check=list(HealthCheck))
@given(simulations())
@pytest.mark.usefixtures("_small_limits")
def test_invariants_hold_with_small_candidate_limits(simulation):
    assert_sound(simulation)


def assert_sound(simulation):
    """Simulate and check all properties."""
    engine, entries = simulated(simulation)
    audit_journal(entries, [run.compiled for run in engine.state.runs])
    assert_replays(simulation, engine, entries)
    assert_continues(simulation, engine, entries)
    assert_ended(engine, entries)
