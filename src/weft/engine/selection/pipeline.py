"""The selection pipeline of S3 section 3: discover, filter, authorise, fetch; then the policy ranks.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids. The
list of machines and the state of each machine are asked for at their own intervals and believed meanwhile:
two caches, independent of each other. Each step waits for the answer to the one before it, and nothing is
placed on a machine that has not passed all of them (``usability``).

Deviations: access is probed again with every new list. Machines on which no task of an active run can run by
what the workflow states (step 2) are asked nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from weft.engine.desk import Desk
from weft.engine.messages import commands as cm
from weft.engine.selection.usability import is_selective

__all__ = ["SELECT", "refresh"]

SELECT = "select"
"""Name of the timer that refreshes the caches."""


def refresh(desk: Desk) -> None:
    """Ask for what is out of date and can be asked for by now; come back when the next thing will be."""
    state, settings = desk.state, desk.settings
    if not is_selective(state) or not state.active:
        return
    if _is_due(state.discovered_s, settings.discover_every_s, state.now):
        desk.emit(cm.Discover())
    due_s = _due_s(state.discovered_s, settings.discover_every_s)
    for machine in _wanted(desk):
        if settings.authorise:
            if _is_due(state.access_asked_s.get(machine), settings.discover_every_s or math.inf, state.now):
                desk.emit(cm.Probe(of="access", machine=machine))
            if not state.access.get(machine, False):
                continue
        if _is_due(state.fetch_asked_s.get(machine), settings.fetch_every_s, state.now):
            desk.emit(cm.Fetch(machine=machine))
        due_s = min(due_s, _due_s(state.fetch_asked_s.get(machine), settings.fetch_every_s))
    if due_s < math.inf and state.timers.get(SELECT) != due_s:
        desk.emit(cm.SetTimer(timer=SELECT, at_s=due_s))


def _wanted(desk: Desk) -> Iterable[int]:
    """List the machines that are listed, up, and possible for some task of an active run, by index."""
    state = desk.state
    possible = set().union(*(run.known.machines for run in state.active.values()))
    if desk.settings.discover_every_s is not None:
        possible &= state.listed or frozenset()
    return [machine for machine in sorted(possible) if state.machines[machine].up]


def _is_due(asked_s: float | None, every_s: float | None, now: float) -> bool:
    # The same sum as that of the timer: rounding must not make it come too early.
    return every_s is not None and (asked_s is None or now >= asked_s + every_s)


def _due_s(asked_s: float | None, every_s: float | None) -> float:
    return math.inf if every_s is None or asked_s is None else asked_s + every_s
