"""Show a plan: as a chart in the terminal, as a page, as facts."""

from __future__ import annotations

from weft.api.planning import PlannedWorkflow
from weft.reports import REPORTS
from weft.reports.promise_text import time_text
from weft.reports.report import PlanView
from weft.schedule.metrics import critical_path
from weft.units import format_seconds

__all__ = ["facts_of", "html_of", "view_of"]

_ROUNDING = 1e-9
"""A gap that sums of doubles make by themselves."""


def facts_of(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    """List what a reader wants to know first, as labels and texts."""
    metrics = planned.metrics
    return [
        ("makespan", _makespan_text(planned)),
        *_loop_facts(planned),
        ("lower bound", f"{format_seconds(planned.lower_bound_s)} ({planned.lower_bound_by})"),
        ("gap", _gap_text(planned)),
        ("cost", _cost_text(planned)),
        *_goal_facts(planned),
        ("machines", f"{metrics.machines_used} of {len(planned.instance.machines)} used"),
        ("nodes busy", f"{metrics.used_share:.0%}"),
    ]


def _makespan_text(planned: PlannedWorkflow) -> str:
    if planned.promise.untimed:
        # A promise is of all iterations, and stands in the line about them.
        known = "unknown" if planned.graph.loops else time_text(planned.promise)
        return f"{known}; {format_seconds(planned.makespan_s)} with placeholders"
    late = planned.outlook.makespan_p90_s
    spread = f" (P90 {format_seconds(late)})" if late != planned.makespan_s else ""
    return format_seconds(planned.makespan_s) + spread


def _loop_facts(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    total = planned.total_s
    text = "unknown" if total is None else format_seconds(total)
    if planned.promise.untimed and total is not None:
        text = f"{time_text(planned.promise)}; {text} with placeholders"
    return [("all iterations", text)] if planned.graph.loops else []


def _cost_text(planned: PlannedWorkflow) -> str:
    cost, dear = planned.metrics.cost, planned.outlook.cost_p90
    if not planned.instance.price_per_node_s.any():
        return "0 (no prices)"
    if planned.promise.untimed:
        return f"unknown; {cost:.4g} with placeholders"
    return f"{cost:.4g} (P90 {dear:.4g})" if dear != cost else f"{cost:.4g}"


def _goal_facts(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    """Say what was asked for beyond time and cost, and how much is left of the limits."""
    goal, facts = planned.objective, []
    if goal.name not in ("makespan", "cost"):
        alpha = f", alpha {goal.alpha:g}" if goal.has_alpha else ""
        better = "lower" if goal.sense == "minimise" else "higher"
        facts.append((goal.name, f"{planned.objective_value:.4g} ({better} is better{alpha})"))
    if goal.deadline_s is not None and planned.deadline_slack_s is not None:
        left = format_seconds(planned.deadline_slack_s)
        facts.append(("deadline", f"{format_seconds(goal.deadline_s)}, {left} to spare"))
    if goal.max_cost is not None and planned.cost_slack is not None:
        facts.append(("maximal cost", f"{goal.max_cost:.4g}, {planned.cost_slack:.4g} to spare"))
    return facts


def _gap_text(planned: PlannedWorkflow) -> str:
    gap = planned.gap
    # A plan that was not to be short is compared with the shortest all the same, and that is said.
    best = "the optimum" if planned.objective.is_makespan else "the shortest makespan"
    if gap is None:
        return "unknown"
    if gap <= _ROUNDING:
        return "0 (optimal)" if planned.objective.is_makespan else "0 (no plan is shorter)"
    return f"less than 0.1% above {best}" if gap < 0.001 else f"at most {gap:.1%} above {best}"


def view_of(planned: PlannedWorkflow) -> PlanView:
    """Collect what the charts need."""
    graph = planned.graph
    return PlanView(
        title=f"{planned.workflow.name} on {planned.instance.platform.name}, {planned.planner}",
        schedule=planned.schedule,
        kinds=tuple(graph.description(task).program for task in range(len(graph))),
        machine_nodes=tuple(machine.nodes for machine in planned.instance.machines),
        machine_sites=tuple(machine.site or "" for machine in planned.instance.machines),
        facts=tuple(facts_of(planned)),
        critical=tuple(critical_path(planned.schedule, planned.instance)),
        lower_bound_s=planned.lower_bound_s,
    )


def html_of(planned: PlannedWorkflow) -> str:
    """Render the plan as one self-contained page."""
    page: str = REPORTS.load("gantt-html")().render(view_of(planned))
    return page
