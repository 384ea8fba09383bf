"""Objectives are data: what a plan is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InvalidInput, Problem, nearest

__all__ = ["OBJECTIVES", "Objective", "objective_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A number of a schedule that is to be small."""

    name: str
    title: str


OBJECTIVES = {
    "makespan": Objective(name="makespan", title="time until the last task has ended"),
    "cost": Objective(name="cost", title="price of all node-hours taken"),
}


def objective_named(name: str) -> Objective:
    """Find an objective by its name."""
    if name not in OBJECTIVES:
        close = nearest(name, OBJECTIVES)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(OBJECTIVES)}"
        raise InvalidInput(Problem(what=f"unknown objective {name!r}", advice=advice))
    return OBJECTIVES[name]
