"""Which machines may be used at all, as the selection pipeline has found out so far (S3 section 3).

A machine is used if it is up and, where the settings ask for it: the information service lists it, it has let
us in, and its dynamic state is known. A state counts until the machine has missed a second query: between a
query and its answer the old one is believed.
"""

from __future__ import annotations

from weft.engine.state.state import State

__all__ = ["STATE_UNKNOWN", "is_ruled_out", "is_selective", "is_settling", "is_usable", "obstacle"]

STATE_UNKNOWN = "its state is not known"
"""The obstacle of a machine that has not been heard of for too long."""

_QUERIES = 2
"""Intervals for which an answer is believed."""

_PATIENCE_S = 30.0
"""How long first answers are waited for where no interval says it."""


def is_selective(state: State) -> bool:
    """Say whether machines have to be found out about before they are used."""
    settings = state.settings
    return settings.authorise or settings.discover_every_s is not None or settings.fetch_every_s is not None


def is_settling(state: State) -> bool:
    """Say whether the first answer of some machine is still to come: a better machine may be among them.

    Who has not answered within an interval is not waited for.
    """
    settings = state.settings
    if settings.discover_every_s is not None and state.listed is None:
        return True
    patience_s = settings.fetch_every_s if settings.fetch_every_s is not None else _PATIENCE_S
    return any(
        state.now < asked_s + patience_s and not _has_answered(state, machine)
        for machine, asked_s in state.first_asked_s.items()
    )


def _has_answered(state: State, machine: int) -> bool:
    settings = state.settings
    if settings.authorise and not state.access.get(machine, False):
        return machine in state.access
    return settings.fetch_every_s is None or machine in state.fetched_s


def is_usable(state: State, machine: int) -> bool:
    """Say whether a machine may be used now."""
    return not obstacle(state, machine)


def is_ruled_out(state: State, machine: int) -> bool:
    """Say whether a machine is known to be of no use: down, not listed, or access is refused.

    A plan may count on one that has only not answered yet.
    """
    unlisted = state.listed is not None and machine not in state.listed
    return not state.machines[machine].up or unlisted or state.access.get(machine) is False


def obstacle(state: State, machine: int) -> str:
    """Say why a machine may not be used now; "": it may."""
    settings = state.settings
    if not state.machines[machine].up:
        return "it is down"
    if settings.discover_every_s is not None and (state.listed is None or machine not in state.listed):
        return "the information service has not answered yet" if state.listed is None else "it is not listed"
    if settings.authorise and not state.access.get(machine, False):
        return "access is refused" if machine in state.access else "access was not granted yet"
    if settings.fetch_every_s is not None:
        fetched_s = state.fetched_s.get(machine)
        if fetched_s is None or state.now >= fetched_s + _QUERIES * settings.fetch_every_s:
            return STATE_UNKNOWN
    return ""
