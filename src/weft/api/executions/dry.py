"""A dry run: the plan that a run would begin with, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.api.executions.asked_for import Source, asked_for, machines_of
from weft.api.executions.project import project_at
from weft.api.planning import PlannedWorkflow, plan
from weft.platform.platform import Platform
from weft.runtime.execution import refuse_unreachable

__all__ = ["plans_of"]


def plans_of(
    workflows: Source | Sequence[Source],
    *,
    on: Platform | str | Path,
    project: str | Path | None,
    planner: str,
    plan_time_s: float | None,
    plan_steps: int | None,
    params: Mapping[str, Any],
    until: Sequence[str],
    most_nodes: int | None,
    seed: int,
    format_name: str | None,
) -> list[PlannedWorkflow]:
    """Plan each workflow as it would be planned when it is run, alone on the empty machines."""
    platform = machines_of(on, most_nodes)
    refuse_unreachable(platform)
    asked = asked_for(workflows, project_at(project), params, format_name, until)
    return [
        plan(flow, on=platform, planner=planner, plan_time_s=plan_time_s, plan_steps=plan_steps, seed=seed)
        for flow in asked.flows.values()
    ]
