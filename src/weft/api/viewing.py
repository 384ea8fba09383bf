"""Show a plan: as a chart in the terminal, as a page, as facts."""

from __future__ import annotations

from weft.api.planning import PlannedWorkflow
from weft.reports import REPORTS
from weft.reports.report import PlanView
from weft.schedule.metrics import critical_path
from weft.units import format_seconds

__all__ = ["facts_of", "html_of", "view_of"]

_ROUNDING = 1e-9
"""A gap that sums of doubles make by themselves."""


def facts_of(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    """List what a reader wants to know first, as labels and texts."""
    metrics = planned.metrics
    facts = [
        ("makespan", format_seconds(planned.makespan_s)),
        ("lower bound", format_seconds(planned.lower_bound_s)),
        ("gap", _gap_text(planned.gap)),
        ("cost", f"{metrics.cost:.4g}" if metrics.cost else "0 (no prices)"),
        ("machines", f"{metrics.machines_used} of {len(planned.instance.machines)} used"),
        ("nodes busy", f"{metrics.used_share:.0%}"),
    ]
    if planned.graph.loops:
        total = planned.total_s
        facts.insert(1, ("all iterations", "unknown" if total is None else format_seconds(total)))
    return facts


def _gap_text(gap: float | None) -> str:
    if gap is None:
        return "unknown"
    if gap <= _ROUNDING:
        return "0 (optimal)"
    return "less than 0.1% above the optimum" if gap < 0.001 else f"at most {gap:.1%} above the optimum"


def view_of(planned: PlannedWorkflow) -> PlanView:
    """Collect what the charts need."""
    graph = planned.graph
    return PlanView(
        title=f"{planned.workflow.name} on {planned.instance.platform.name}, {planned.planner}",
        schedule=planned.schedule,
        kinds=tuple(graph.description(task).program for task in range(len(graph))),
        machine_nodes=tuple(machine.nodes for machine in planned.instance.machines),
        facts=tuple(facts_of(planned)),
        critical=tuple(critical_path(planned.schedule, planned.instance)),
        lower_bound_s=planned.lower_bound_s,
    )


def html_of(planned: PlannedWorkflow) -> str:
    """Render the plan as one self-contained page."""
    page: str = REPORTS.load("gantt-html")().render(view_of(planned))
    return page
