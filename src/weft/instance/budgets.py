"""Budgets: what the tasks of an instance consume at least and at most, whatever modes they run in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.modes import ModeGroup
from weft.workflow.unfolding.task_graph import Floats, TaskGraph

__all__ = ["check_budgets", "exceeded", "largest_consumption"]

_ROUNDING = 1e-9
"""By which share sums of amounts may exceed a budget."""


def exceeded(graph: TaskGraph, consumed: Floats) -> NDArray[np.bool_]:
    """Say of which budgets more is consumed than there is, beyond the rounding of a sum."""
    return np.asarray(consumed > graph.budgets * (1 + _ROUNDING))


def largest_consumption(graph: TaskGraph, groups: Iterable[ModeGroup]) -> Floats:
    """Give what is consumed of each budget if every task takes the mode that consumes most of it."""
    return _consumption(graph, groups, lambda modes: modes.max(axis=0))


def check_budgets(graph: TaskGraph, groups: Iterable[ModeGroup]) -> None:
    """Raise Infeasible if a budget is exceeded even by the modes that consume least of it."""
    least = _consumption(graph, groups, lambda modes: modes.min(axis=0))
    over = [
        f"{least[budget]:g} {graph.budget_names[budget]}, but the budget is {graph.budgets[budget]:g}"
        for budget in np.flatnonzero(exceeded(graph, least)).tolist()
    ]
    if over:
        raise Infeasible(f"the tasks consume at least {'; '.join(over)}")


def _consumption(graph: TaskGraph, groups: Iterable[ModeGroup], chosen: Callable[[Floats], Floats]) -> Floats:
    """Add up what tasks consume, in one chosen mode where it depends on the mode."""
    consumed = graph.consumption.copy()
    for group in groups if len(graph.consumption_by_count.rows) else ():
        if group.consumption is not None:
            consumed[group.tasks] = chosen(group.consumption)
    total: Floats = consumed.sum(axis=0)
    return total
