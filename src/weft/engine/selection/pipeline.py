"""The selection pipeline of S3 section 3: discover, filter, authorise, fetch; then the policy ranks.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids. The
list of machines and the state of each machine are asked for at their own intervals and believed meanwhile:
two caches, independent of each other. Each step waits for the answer to the one before it, and nothing is
placed on a machine that has not passed all of them (``inquiries``).

Deviations: access is probed again with every new list. Machines on which no task of an active run can run by
what the workflow states (step 2) are asked nothing.
"""

from __future__ import annotations

import math

from weft.engine.desk import Desk
from weft.engine.messages import commands as cm

__all__ = ["SELECT", "refresh"]

SELECT = "select"
"""Name of the timer that refreshes the caches."""


def refresh(desk: Desk) -> None:
    """Ask for what is out of date and can be asked for by now; come back when the next thing will be.

    O(active workflows + machines that something has happened to or whose time has come).
    """
    state, settings, asked = desk.state, desk.settings, desk.state.inquiries
    if not asked.needed or not state.active:
        return
    if _is_due(asked.discovered_s, settings.discover_every_s, state.now):
        desk.emit(cm.Discover())
    asked.agenda.meet({index: run.known.machines for index, run in state.active.items()})
    for machine in asked.agenda.taken(state.now):
        _ask(desk, machine)
    due_s = min(_due_s(asked.discovered_s, settings.discover_every_s), asked.agenda.fetch.first())
    if due_s < math.inf and state.timers.get(SELECT) != due_s:
        desk.emit(cm.SetTimer(timer=SELECT, at_s=due_s))


def _ask(desk: Desk, machine: int) -> None:
    """Ask a machine what is due, and note when that will be again."""
    now, settings, asked = desk.state.now, desk.settings, desk.state.inquiries
    may_ask, probed_s, fetched_s = _is_wanted(desk, machine), math.inf, math.inf
    if may_ask and settings.authorise:
        # Without a list that is asked for again and again, access is asked for once.
        every_s = settings.discover_every_s or math.inf
        if _is_due(asked.access_asked_s.get(machine), every_s, now):
            desk.emit(cm.Probe(of="access", machine=machine))
        probed_s = _due_s(asked.access_asked_s.get(machine), every_s)
        may_ask = asked.access.get(machine, False)
    if may_ask:
        if _is_due(asked.fetch_asked_s.get(machine), settings.fetch_every_s, now):
            desk.emit(cm.Fetch(machine=machine))
        fetched_s = _due_s(asked.fetch_asked_s.get(machine), settings.fetch_every_s)
    asked.agenda.access.put(machine, probed_s)
    asked.agenda.fetch.put(machine, fetched_s)


def _is_wanted(desk: Desk, machine: int) -> bool:
    """Say whether a machine is listed, up, and possible for some task of an active run."""
    state, asked = desk.state, desk.state.inquiries
    listed = desk.settings.discover_every_s is None or machine in (asked.listed or ())
    return listed and asked.agenda.is_wanted(machine) and state.machines[machine].up


def _is_due(asked_s: float | None, every_s: float | None, now: float) -> bool:
    # The same sum as that of the timer: rounding must not make it come too early.
    return every_s is not None and (asked_s is None or now >= asked_s + every_s)


def _due_s(asked_s: float | None, every_s: float | None) -> float:
    return math.inf if every_s is None or asked_s is None else asked_s + every_s
