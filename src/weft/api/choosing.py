"""Choose a plan of a front: the call behind ``weft plan --choose``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.api.front_files import FRONTS, keep_front, kept_front
from weft.api.pareto import pareto
from weft.api.planning import PlannedWorkflow
from weft.platform.platform import Platform
from weft.schedule.objective import objective_named
from weft.workflow.records.workflow import Workflow

__all__ = ["choose"]


def choose(
    workflow: Workflow | str | Path,
    number: int,
    *,
    on: Platform | str | Path = "local",
    params: Mapping[str, Any] | None = None,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    folder: Path = FRONTS,
    **search: Any,
) -> PlannedWorkflow:
    """Give the plan of a point of the front that was shown last for a workflow, parameters and platform.

    Where none was, it is searched for (``search``: as ``pareto`` takes it) and kept. Raises Infeasible where
    the plan exceeds deadline or cost.
    """
    front = kept_front(workflow, on=on, params=params, folder=folder)
    if front is None:
        front = pareto(workflow, on=on, params=params, deadline_s=deadline_s, max_cost=max_cost, **search)
        # The plan was asked for; where nothing can be written, the front is searched for again next time.
        with suppress(OSError):
            keep_front(front, folder)
    elif (deadline_s, max_cost) != (None, None):
        goal = objective_named("makespan", deadline_s=deadline_s, max_cost=max_cost)
        front = replace(front, limits=goal)
    return front.choose(number)
