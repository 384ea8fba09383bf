"""Snapshots: a restored engine gives the same commands as the original."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from driven_engine import DrivenEngine, one_task, platform_of
from engine_strategies import simulations
from state_digest import digest_state
from weft.engine import messages as ev
from weft.engine.engine import Engine
from weft.engine.invariants import check_engine
from weft.engine.state.snapshot import restore_snapshot, take_snapshot

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
MOST_ENTRIES = 300


def recorded(simulation):
    """Return the entries of a simulation, a snapshot and a digest after each, and the engine."""
    entries, kept, digests = [], [], []

    def look(engine):
        kept.append(json.dumps(take_snapshot(engine.state)))
        digests.append(digest_state(engine.state))

    engine = simulation.run(record=entries.append, check=look, stop=lambda _: len(entries) >= MOST_ENTRIES)
    return entries, kept, digests, engine


def restored(simulation, engine, kept):
    first = simulation.library[simulation.arrivals[0].workflow]
    found = Engine(simulation.library, first.instance, simulation.policy, simulation.settings)
    found.state.plans.update(engine.state.plans)
    restore_snapshot(found.state, json.loads(kept))
    return found


@settings(max_examples=25, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(simulations(), st.floats(0.0, 1.0))
def test_restored_state_equals_the_snapshot_and_gives_the_same_commands(simulation, share):
    entries, kept, digests, engine = recorded(simulation)
    at = min(len(entries) - 1, int(share * len(entries)))
    found = restored(simulation, engine, kept[at])
    check_engine(found)
    assert digest_state(found.state) == digests[at]
    assert json.dumps(take_snapshot(found.state)) == kept[at]
    for entry in entries[at + 1 :]:
        assert tuple(found.handle(entry.event, entry.now)) == entry.commands
    assert digest_state(found.state) == digests[-1]


@settings(max_examples=15, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(simulations(), st.floats(0.0, 1.0))
def test_entries_are_applied_to_a_restored_state(simulation, share):
    entries, kept, digests, engine = recorded(simulation)
    at = min(len(entries) - 1, int(share * len(entries)))
    found = restored(simulation, engine, kept[at])
    for entry in entries[at + 1 :]:
        found.apply(entry.event, entry.now, entry.commands)
    assert digest_state(found.state) == digests[-1]


def test_silence_of_a_host_is_restored():
    driven = DrivenEngine(one_task(), platform_of(2, 1))
    driven.handle(ev.Started(attempt=0))
    driven.handle(ev.ContactChanged(machine=0, answers=False, silent_s=5.0, lost_in_s=55.0), at=10)
    driven.handle(ev.ContactChanged(machine=0, answers=True), at=20)
    driven.handle(ev.ContactChanged(machine=0, answers=False, silent_s=2.0, reason="refused"), at=30)
    kept = json.dumps(take_snapshot(driven.engine.state))
    fresh = DrivenEngine(one_task(), platform_of(2, 1)).engine
    found = Engine(fresh.state.library, fresh.instance, fresh.policy, fresh.settings)
    restore_snapshot(found.state, json.loads(kept))
    assert found.state.machines[0].silence == (28.0, None, "refused")
    assert found.state.attempts[0].silent_s == 15.0
    assert json.dumps(take_snapshot(found.state)) == kept
