"""Deadline and maximal cost: who misses them, by how much, and whether any plan could do better.

A limit is missed only by more than rounding makes of sums of seconds. A bound that exceeds it proves that no
plan keeps it; a plan that exceeds it proves nothing about others, and the message says so.
"""

from __future__ import annotations

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.schedule.costs import cheapest_cost
from weft.schedule.objective import Objective
from weft.units import format_seconds

__all__ = ["refuse_impossible", "refuse_missed"]

_ROUNDING = 1e-9
"""Share by which a sum of doubles may exceed a limit that it equals."""


def refuse_impossible(objective: Objective, instance: Instance, bound_s: float) -> None:
    """Raise Infeasible where the bounds alone exceed the limits, whatever planner is asked."""
    found = []
    deadline, most = objective.deadline_s, objective.max_cost
    if deadline is not None and _exceeds(bound_s, deadline):
        found.append(
            f"no plan can meet the deadline of {format_seconds(deadline)}: every one takes at least "
            f"{format_seconds(bound_s)} (lower bound), {format_seconds(bound_s - deadline)} too long"
        )
    least = 0.0 if most is None else cheapest_cost(instance)
    if most is not None and _exceeds(least, most):
        found.append(
            f"no plan can keep to a cost of {most:.6g}: every one costs at least {least:.6g} "
            f"(cheapest machines and node counts), {least - most:.3g} too much"
        )
    if found:
        raise Infeasible("; ".join(found))


def refuse_missed(
    objective: Objective, planner: str, *, makespan_s: float, cost: float, bound_s: float
) -> None:
    """Raise Infeasible where a plan exceeds the limits, though no bound rules out a better one."""
    found = []
    deadline, most = objective.deadline_s, objective.max_cost
    if deadline is not None and _exceeds(makespan_s, deadline):
        found.append(
            f"takes {format_seconds(makespan_s)}, {format_seconds(makespan_s - deadline)} longer than the "
            f"deadline of {format_seconds(deadline)} (lower bound {format_seconds(bound_s)})"
        )
    if most is not None and _exceeds(cost, most):
        found.append(f"costs {cost:.6g}, {cost - most:.3g} more than the maximal cost of {most:.6g}")
    if found:
        advice = "this is no proof that none can do better: try another planner (`weft planners` lists them)"
        raise Infeasible(f"the plan of {planner} {' and '.join(found)}; {advice}")


def _exceeds(amount: float, limit: float) -> bool:
    return amount > limit * (1.0 + _ROUNDING)
