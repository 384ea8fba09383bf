"""What a report may show of a simulation: the view, and how its attempts become the bars of a Gantt chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.engine.history.happenings import Tried
from weft.engine.history.history import History
from weft.engine.history.measures import Use
from weft.reports.report import PlanView
from weft.schedule.schedule import Schedule
from weft.studies.statistics import Summary

__all__ = ["SimulationView", "attempts_chart", "chart_of"]

_MARKS = {"migrated": "→", "failed": "✗", "cancelled": "✗", "": "…"}
"""Signs behind the names of attempts that did not complete."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulationView:
    """Everything a page about a simulation shows."""

    title: str
    history: History
    machines: tuple[tuple[str, int], ...]
    """Name and nodes of each machine."""
    sites: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    uses: tuple[Use, ...]
    slowdowns: tuple[tuple[str, Summary], ...]
    """By application."""
    lower_bound_s: float
    notes: tuple[str, ...] = ()


def chart_of(view: SimulationView) -> PlanView:
    """Show every attempt whose program ran as a bar; those that did not complete have kinds of their own."""
    history = view.history
    ran = [attempt for attempt in history.attempts.values() if attempt.started_s is not None]
    return replace(
        attempts_chart(view.title, ran, history, view.machines, several=len(history.runs) > 1),
        machine_sites=view.sites,
        facts=view.facts,
        lower_bound_s=view.lower_bound_s or None,
    )


def attempts_chart(
    title: str,
    ran: Sequence[Tried],
    history: History,
    machines: Sequence[tuple[str, int]],
    *,
    several: bool,
    origin_s: float = 0.0,
) -> PlanView:
    """Show attempts whose programs ran as bars, their times counted from ``origin_s``.

    ``machines`` are given by name and nodes; ``several``: the attempts are those of several runs.
    """
    looping = {run.index for run in history.runs if any(count > 1 for count in run.iterations.values())}
    schedule = Schedule(
        tasks=tuple(_label(attempt, several=several, looping=attempt.run in looping) for attempt in ran),
        machines=tuple(name for name, _ in machines),
        machine=np.array([attempt.machine for attempt in ran], dtype=np.uint32),
        nodes=np.array([attempt.nodes for attempt in ran], dtype=np.uint32),
        start_s=np.array([attempt.started_s for attempt in ran], dtype=np.float64) - origin_s,
        finish_s=np.array([_end_s(attempt, history) for attempt in ran], dtype=np.float64) - origin_s,
    )
    return PlanView(
        title=title,
        schedule=schedule,
        kinds=tuple(_kinds(ran, history, several=several)),
        machine_nodes=tuple(nodes for _, nodes in machines),
    )


def _end_s(attempt: Tried, history: History) -> float:
    return history.end_s if attempt.ended_s is None else attempt.ended_s


def _label(attempt: Tried, *, several: bool, looping: bool) -> str:
    """Name an attempt: its run if there are several, its iteration if loops repeat, how it ended if badly."""
    name = f"{attempt.run}:{attempt.task}" if several else attempt.task
    if looping:
        name += f"#{attempt.iteration}"
    return f"{name} {_MARKS[attempt.ending]}" if attempt.ending in _MARKS else name


def _kinds(ran: Sequence[Tried], history: History, *, several: bool) -> list[str]:
    """Colour by application where there are several runs, else by description; what failed by why."""
    return [
        _ending(attempt) or (history.runs[attempt.run].workflow if several else attempt.kind)
        for attempt in ran
    ]


def _ending(attempt: Tried) -> str:
    """Say how an attempt ended that did not complete; "": it did."""
    match attempt.ending:
        case "migrated":
            return f"left: {attempt.left_for}"
        case "failed":
            return f"failed: {attempt.cause}"
        case "cancelled":
            return "cancelled"
        case "":
            return "did not end"
        case _:
            return ""
