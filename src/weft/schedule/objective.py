"""Objectives are data: what a plan is judged by, and the limits it must keep to.

S1: R. Prodan, T. Fahringer, SAC 2005, its eight metrics (``metrics``). S2: M. Jaros, J. Jaros, its three
fitness functions (``fitness``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from weft.errors import InvalidInput, Problem, nearest
from weft.instance.instance import Instance
from weft.schedule import fitness
from weft.schedule.costs import cost_of
from weft.schedule.metrics import measure
from weft.schedule.schedule import Schedule

__all__ = ["DEFAULT_ALPHA", "OBJECTIVES", "Objective", "objective_named"]

DEFAULT_ALPHA = 0.5
"""Time and cost weigh the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A number of a schedule that is to be small (or large), and what no plan may exceed."""

    name: str
    title: str
    source: str
    """Paper and section."""
    measured_by: Callable[[Schedule, Instance, float], float] = field(repr=False, compare=False)
    """Gives the number of a schedule of an instance under an alpha."""
    sense: Literal["minimise", "maximise"] = "minimise"
    has_alpha: bool = False
    """Whether alpha weighs time against cost in it."""
    is_makespan: bool = False
    """Whether the shorter of two plans is the better one: whoever minimises the makespan serves it."""

    alpha: float = DEFAULT_ALPHA
    """Between 0 (cost alone) and 1 (time alone)."""
    deadline_s: float | None = None
    """The makespan may not exceed it; None: no deadline."""
    max_cost: float | None = None
    """The price of all node-seconds taken may not exceed it; None: no limit."""

    def value(self, schedule: Schedule, instance: Instance, alpha: float | None = None) -> float:
        """Give the number of a schedule; ``alpha`` replaces that of the objective."""
        return self.measured_by(schedule, instance, self.alpha if alpha is None else alpha)


def _makespan(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    return schedule.makespan_s


def _cost(schedule: Schedule, instance: Instance, alpha: float) -> float:  # noqa: ARG001
    return cost_of(schedule, instance)


def _metric(schedule: Schedule, instance: Instance, alpha: float, *, key: str) -> float:  # noqa: ARG001
    return float(getattr(measure(schedule, instance), key))


def _of_s1(
    name: str, title: str, number: int, key: str, sense: Literal["minimise", "maximise"] = "minimise"
) -> Objective:
    return Objective(
        name=name,
        title=title,
        source=f"S1 section 7, metric {number}",
        measured_by=partial(_metric, key=key),
        sense=sense,
        # The sequential time is the same for all plans, so the largest speed-up is the shortest plan's.
        is_makespan=key == "speedup",
    )


def _of_s2(
    name: str, title: str, variant: str, measured_by: Callable[[Schedule, Instance, float], float]
) -> Objective:
    return Objective(
        name=name, title=title, source=f"S2 section 4, {variant}", measured_by=measured_by, has_alpha=True
    )


_ALL = (
    Objective(
        name="makespan",
        title="time until the last task has ended",
        source="S1 section 7, metric 1",
        measured_by=_makespan,
        is_makespan=True,
    ),
    Objective(
        name="cost", title="price of all node-hours taken", source="design section 5", measured_by=_cost
    ),
    Objective(
        name="local",
        title="sum of the tasks' times, whatever waits",
        source="S2 section 4, fitness 1",
        measured_by=fitness.local,
    ),
    _of_s2("on-demand", "makespan and cost of nodes in use", "fitness 2", fitness.on_demand),
    _of_s2("static", "makespan and idle node-time", "fitness 3, variant idle", fitness.static_idle),
    _of_s2("static-literal", "makespan and unused node-time", "fitness 3 as printed", fitness.static_literal),
    _of_s2(
        "static-idle-fraction",
        "makespan and share of idle node-time",
        "fitness 3, variant idle fraction",
        fitness.static_idle_fraction,
    ),
    _of_s1("speedup", "sequential time over makespan", 2, "speedup", "maximise"),
    _of_s1("efficiency", "speed-up over machines used", 3, "efficiency", "maximise"),
    _of_s1("communication", "moving data on the critical path", 4, "communication_s"),
    _of_s1("synchronisation", "waiting on the critical path", 5, "synchronisation_s"),
    _of_s1("overhead", "makespan less the sequential time's share per machine", 6, "overhead_s"),
    _of_s1("lost-parallelism", "overhead less moving and waiting", 7, "lost_parallelism_s"),
    _of_s1("throughput", "efficiency and time together", 8, "throughput", "maximise"),
)
OBJECTIVES = {objective.name: objective for objective in _ALL}
"""By name, without limits and with the default alpha."""


def objective_named(
    name: str,
    alpha: float | None = None,
    *,
    deadline_s: float | None = None,
    max_cost: float | None = None,
) -> Objective:
    """Find an objective by its name, and give it alpha and limits. Raises InvalidInput."""
    if name not in OBJECTIVES:
        close = nearest(name, OBJECTIVES)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(OBJECTIVES)}"
        raise InvalidInput(Problem(what=f"unknown objective {name!r}", advice=advice))
    found = OBJECTIVES[name]
    _check_limit("deadline", deadline_s, "seconds")
    _check_limit("maximal cost", max_cost, "a price")
    if alpha is not None:
        _check_alpha(found, alpha)
        found = replace(found, alpha=float(alpha))
    return replace(found, deadline_s=deadline_s, max_cost=max_cost)


def _check_alpha(objective: Objective, alpha: float) -> None:
    if not objective.has_alpha:
        those = ", ".join(name for name, known in OBJECTIVES.items() if known.has_alpha)
        what = f"alpha {alpha:g} for the objective {objective.name!r}, which has no alpha"
        raise InvalidInput(Problem(what=what, advice=f"leave it out, or choose one of {those}"))
    if not 0.0 <= alpha <= 1.0:
        rule = "must be from 0 (cost alone) to 1 (time alone)"
        raise InvalidInput(Problem(what=f"alpha is {alpha:g}", rule=rule))


def _check_limit(noun: str, limit: float | None, unit: str) -> None:
    if limit is not None and not 0.0 <= limit < math.inf:
        raise InvalidInput(Problem(what=f"the {noun} is {limit:g}", rule=f"must be {unit}, at least 0"))
