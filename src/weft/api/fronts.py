"""A front: plans of which none is better than another both in time and in what is paid for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from weft.api.planning import PlannedWorkflow, measured
from weft.errors import InvalidInput, Problem, WeftError
from weft.instance.instance import Instance
from weft.planners.bounding import bounds_of
from weft.planners.pareto.fronts import Entry, filled
from weft.planners.pareto.ladder import Trial
from weft.planners.pareto.trades import Against, Unit
from weft.planners.planner import Plan
from weft.reports.pareto import FrontPoint, FrontView, NodeRange, TriedPlan
from weft.schedule.metrics import measure
from weft.schedule.objective import Objective, objective_named
from weft.schedule.schedule import Schedule
from weft.schedule.verification import verify
from weft.units import counted
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["Front"]

_ABOUT_ALPHA = {"cost": "on-demand", "idle": "static-literal"}
"""The objectives whose alpha led to a point."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """Plans from the fastest to the one that takes least, every one of them verified."""

    instance: Instance
    against: Against
    unit: Unit
    """What stands against time: price, node-seconds, or share (of idle node-time)."""
    limits: Objective
    """Deadline and maximal cost that every plan keeps."""
    entries: tuple[Entry, ...]
    trials: tuple[Trial, ...]
    preset: str | None
    seed: int
    steps: int
    bound_s: float
    """The best lower bound of the makespan that was proven on the way; 0: none."""
    cut: bool
    """Whether the clock or somebody ended the search, so that another may give other points."""
    planning_s: float
    plan_time_s: float | None
    plan_steps: int | None
    workers: int
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def points(self) -> tuple[FrontPoint, ...]:
        """Give the numbers behind each plan, and the node counts."""
        moldable = _moldable(self.instance)
        return tuple(
            self._point(number, entry, moldable) for number, entry in enumerate(self.entries, start=1)
        )

    def _point(self, number: int, entry: Entry, moldable: set[int]) -> FrontPoint:
        metrics = measure(entry.schedule, self.instance)
        return FrontPoint(
            number=number,
            makespan_s=entry.makespan_s,
            cost=metrics.cost,
            node_seconds=metrics.node_seconds,
            idle_share=metrics.idle_share,
            alpha=entry.alpha,
            by=entry.by,
            nodes=_node_ranges(entry.schedule, self.instance, moldable),
            machines=_tasks_by_machine(entry.schedule, self.instance),
        )

    def choose(self, number: int) -> PlannedWorkflow:
        """Take the plan of a point, counted from 1, the fastest, on."""
        if not 1 <= number <= len(self.entries):
            what = f"point {number} of the front"
            rule = (
                f"it has {counted(len(self.entries), 'point')}: from 1, the fastest, to {len(self.entries)}"
            )
            raise InvalidInput(Problem(what=what, rule=rule, advice="`weft pareto` shows them"))
        entry = self.entries[number - 1]
        told = f"point {number} of {len(self.entries)} of the front of time against {self.view.noun}"
        plan = Plan(
            schedule=entry.schedule,
            steps=self.steps,
            bound_s=self.bound_s,
            cut=self.cut,
            by=entry.by,
            notes=(told,),
        )
        return measured(
            self.instance,
            self._objective(entry),
            plan,
            planner="pareto",
            planning_s=self.planning_s,
            seed=self.seed,
            plan_time_s=self.plan_time_s,
            plan_steps=self.plan_steps,
            workers=self.workers,
        )

    def _objective(self, entry: Entry) -> Objective:
        """Give the objective under which a plan was found, with the limits of all."""
        if entry.alpha is None or entry.alpha == 1.0:
            return self.limits
        found = objective_named(_ABOUT_ALPHA[self.against], entry.alpha)
        return replace(found, deadline_s=self.limits.deadline_s, max_cost=self.limits.max_cost)

    @property
    def lower_bound_s(self) -> float:
        """Give a time below which no plan is."""
        return max(self.bound_s, bounds_of(self.instance).best_s)

    @property
    def notes(self) -> list[str]:
        """Say what a reader should know."""
        found = []
        if self.unit == "node-seconds":
            found.append("no machine has a price: cost is counted in node-seconds")
        if self.limits.max_cost is not None and not self.instance.price_per_node_s.any():
            found.append("no machine has a price: the maximal cost limits nothing")
        if self.instance.graph.loops:
            found.append("the plans are of one iteration, and so are deadline and maximal cost")
        return [*found, *self.remarks]

    @property
    def view(self) -> FrontView:
        """Collect what the reports need."""
        return FrontView(
            workflow=self.instance.graph.workflow.name,
            platform=self.instance.platform.name,
            against=self.against,
            unit=self.unit,
            priced=bool(self.instance.price_per_node_s.any()),
            tasks=len(self.instance),
            points=self.points,
            tried=tuple(TriedPlan(**asdict(trial)) for trial in self.trials),
            lower_bound_s=self.lower_bound_s,
            by_alpha=self.preset is not None,
        )

    def verify(self) -> None:
        """Check every schedule independently. Raises WeftError: an impossible one is a fault of ours."""
        for number, entry in enumerate(self.entries, start=1):
            violations = verify(entry.schedule, self.instance.graph, self.instance.platform)
            if violations:
                more = f" and {len(violations) - 1} more" if len(violations) > 1 else ""
                raise WeftError(
                    f"point {number} of the front, found by {entry.by}, is an impossible schedule, which is "
                    f"a fault of the planner: {violations[0]}{more}"
                )

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data: the object ``weft pareto --json`` prints."""
        return {
            "workflow": self.instance.graph.workflow.name,
            "platform": self.instance.platform.name,
            "against": self.against,
            "unit": self.unit,
            "preset": self.preset,
            "seed": self.seed,
            "deadline_s": self.limits.deadline_s,
            "max_cost": self.limits.max_cost,
            "tasks": len(self.instance),
            "edges": self.instance.graph.edge_count,
            "lower_bound_s": self.lower_bound_s,
            "filled": filled(self.entries),
            "planning_s": self.planning_s,
            "steps": self.steps,
            "cut": self.cut,
            "plan_time_s": self.plan_time_s,
            "plan_steps": self.plan_steps,
            "workers": self.workers,
            "notes": self.notes,
            "points": [
                point.as_record() | {"schedule": [asdict(line) for line in entry.schedule]}
                for point, entry in zip(self.points, self.entries, strict=True)
            ],
            "tried": [asdict(trial) for trial in self.trials],
        }

    def _repr_html_(self) -> str:
        """Show the chart in a notebook."""
        import html

        from weft.reports.pareto_html import front_html

        return f'<iframe srcdoc="{html.escape(front_html(self.view))}" width="100%" height="640"></iframe>'


def _moldable(instance: Instance) -> set[int]:
    """Give the tasks that have several node counts on some machine."""
    found: set[int] = set()
    for group in instance.groups:
        if len(np.unique(group.machine)) < len(group.machine):
            found.update(group.tasks.tolist())
    return found


def _node_ranges(schedule: Schedule, instance: Instance, moldable: set[int]) -> tuple[NodeRange, ...]:
    """Give the node counts by kind of task, in the order in which the kinds first occur."""
    graph = instance.graph
    by_kind: dict[str, list[int]] = {}
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        by_kind.setdefault(graph.description(task).program, []).append(task)
    return tuple(
        NodeRange(
            kind=kind,
            tasks=len(tasks),
            least=int(schedule.nodes[tasks].min()),
            most=int(schedule.nodes[tasks].max()),
            chosen=not moldable.isdisjoint(tasks),
        )
        for kind, tasks in by_kind.items()
    )


def _tasks_by_machine(schedule: Schedule, instance: Instance) -> tuple[tuple[str, int], ...]:
    compute = instance.graph.kind == COMPUTE
    number = np.bincount(schedule.machine[compute], minlength=len(schedule.machines)).tolist()
    return tuple((name, tasks) for name, tasks in zip(schedule.machines, number, strict=True) if tasks)
