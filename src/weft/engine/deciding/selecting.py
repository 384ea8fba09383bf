"""The selection pipeline of S3 section 3: discover, filter, authorise, fetch, rank.

The list of machines and the state of each machine are asked for at their own intervals, and believed
meanwhile: two caches, independent of each other. A machine to which access is refused is used no more.
"""

from __future__ import annotations

from weft.engine.desk import Desk
from weft.engine.messages import commands as cm

__all__ = ["SELECT", "refresh"]

SELECT = "select"
"""Name of the timer that refreshes the caches."""


def refresh(desk: Desk) -> None:
    """Ask again for what is out of date, and come back when the next thing will be."""
    state, settings = desk.state, desk.settings
    if settings.discover_every_s is None and settings.fetch_every_s is None:
        return
    if _is_due(state.discovered_s, settings.discover_every_s, state.now):
        desk.emit(cm.Discover())
    for machine in state.machines:
        if state.listed is not None and machine.index not in state.listed:
            continue
        if settings.authorise and machine.index not in state.access:
            desk.emit(cm.Probe(of="access", machine=machine.index))
        if machine.up and _is_due(state.fetched_s.get(machine.index), settings.fetch_every_s, state.now):
            desk.emit(cm.Fetch(machine=machine.index))
    if state.active:
        intervals = [
            every for every in (settings.discover_every_s, settings.fetch_every_s) if every is not None
        ]
        desk.emit(cm.SetTimer(timer=SELECT, at_s=state.now + min(intervals)))


def _is_due(last_s: float | None, every_s: float | None, now: float) -> bool:
    return every_s is not None and (last_s is None or now - last_s >= every_s)
