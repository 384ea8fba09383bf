"""The interface of the ``planners`` registry: ``Planner``, ``PlanRequest``, ``Budget`` and ``Plan``.

A planner turns an instance into a schedule. It uses estimates, never true durations. It reads no clock, but
asks the budget for the remaining time. Its random numbers come from the generator of the request. Ties are
broken by index.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, Protocol

import numpy as np

from weft.errors import InvalidInput
from weft.instance.instance import Instance
from weft.records import dataclass
from weft.registry import make_by_name
from weft.schedule.objective import OBJECTIVES, Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool

GAP_TOLERANCE = 1e-9
"""Relative difference up to which a makespan and a lower bound count as equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress:
    """An intermediate result of a search."""

    by: str
    """Name of the planner that reports the progress."""
    value: float
    """Objective value of the best schedule so far."""
    makespan_s: float
    bound_s: float
    """Best lower bound on the makespan so far; 0 if there is none."""
    steps: int

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        instance: Instance,
        objective: Objective,
        *,
        by: str,
        steps: int,
        bound_s: float = 0.0,
    ) -> PlanProgress:
        """Return the progress of a search whose best schedule is ``schedule``."""
        value = objective.value(schedule, instance)
        return cls(by=by, value=value, makespan_s=schedule.makespan_s, bound_s=bound_s, steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of a planner, checked between steps."""

    steps: int | None = None
    """Largest number of steps, usually built schedules; None: no limit."""
    left: Callable[[], float] | None = None
    """Returns the seconds left on a clock outside the planner; None: no limit."""
    on_progress: Callable[[PlanProgress], None] | None = None
    """Callback for every better schedule or bound found during a search."""

    def allows(self, steps_taken: int) -> bool:
        """Return whether another step may be taken after ``steps_taken`` steps."""
        if self.steps is not None and steps_taken >= self.steps:
            return False
        return self.left is None or self.left() > 0


@dataclass(slots=True, kw_only=True)
class ClockSlice:
    """A part of the planning time. It ends early when a schedule as short as the lower bound is found."""

    left: Callable[[], float] | None
    """Returns the seconds left of the whole planning time; None: no limit."""
    until_s: float = 0.0
    """The slice ends when this many seconds of the whole planning time are left."""
    goal_s: float = 0.0
    """Lower bound on the makespan; 0 if it is unknown or the objective is not the makespan."""
    listener: Callable[[PlanProgress], None] | None = None
    reached: bool = False
    """Whether a schedule as short as ``goal_s`` was found."""

    def remaining_s(self) -> float:
        """Return the seconds left in this slice; 0 once the goal is reached."""
        if self.reached:
            return 0.0
        return math.inf if self.left is None else self.left() - self.until_s

    def report(self, progress: PlanProgress) -> None:
        """Check whether the goal is reached, then forward the progress to the listener."""
        if self.goal_s > 0 and progress.makespan_s <= max(self.goal_s, progress.bound_s) * (
            1.0 + GAP_TOLERANCE
        ):
            self.reached = True
        if self.listener is not None:
            self.listener(progress)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanRequest:
    """The input of a planner: instance, objective, random generator, budget, pool and incumbent."""

    instance: Instance
    objective: Objective
    rng: np.random.Generator
    budget: Budget = field(default_factory=Budget)
    pool: Pool = INLINE_POOL
    """Runs independent parts of a search in parallel."""
    incumbent: Schedule | None = None
    """A schedule to improve. Planners that are not ``anytime`` ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChoice:
    """A task that was bound to a machine by its rank (``planners/rank_binding.py``)."""

    task: str
    machine: str
    rank: str
    """The rank expression of the task."""
    value: float | None
    """Predicted value of the expression for the machine; None if it gives no number for the machine."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The result of a planner: a schedule, a lower bound on the makespan, and how both were found."""

    schedule: Schedule
    steps: int
    """Number of steps taken, usually schedules built; 1 for most list planners."""
    bound_s: float = 0.0
    """Lower bound on the makespan proven by the planner; 0 if there is none."""
    cut: bool = False
    """Whether the clock or an interrupt ended the search; another run may then give another plan."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search."""
    by: str = ""
    """Name of the planner of a portfolio that found the schedule; "" if the planner is not a portfolio."""
    bound_by: str = ""
    """The planner of a portfolio, or the kind of lower bound, that proved ``bound_s``; "" otherwise."""
    notes: tuple[str, ...] = ()
    """Messages for the user, for example about planners that failed."""
    ranked: tuple[RankChoice, ...] = ()
    """Tasks with a rank expression, each with the machine that the expression is expected to choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """The reason why a planner cannot plan an instance or an objective."""

    reason: str


class Planner(Protocol):
    """Computes a schedule before a run, or for the rest of a run."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line for listings of planners, with the reference to the paper."""
    anytime: ClassVar[bool]
    """Whether the planner searches until its budget is spent and improves the incumbent of a request."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Return why this instance or objective cannot be planned; None if it can."""
        ...

    def plan(self, request: PlanRequest) -> Plan:
        """Return a plan; if the planner is ``anytime``, the plan is not worse than the incumbent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePlanner:
    """Base of the built-in planners: declares which objectives and instances they support."""

    name: ClassVar[str]
    title: ClassVar[str]
    label: ClassVar[str]
    """The name of the planner in messages."""
    anytime: ClassVar[bool] = False
    any_objective: ClassVar[bool] = False
    """Whether every objective is supported."""
    other_objectives: ClassVar[tuple[str, ...]] = ()
    """Names of the objectives supported in addition to the makespan."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Return why this instance or objective cannot be planned; None if it can."""
        served = self.any_objective or objective.is_makespan or objective.name in self.other_objectives
        if not served:
            reason = f"{self.label} does not support the objective {objective.name!r}"
            return Unsupported(reason=reason)
        return self.check(instance)

    def require_at_least(self, least: int, *options: str, note: str = "") -> None:
        """Raise InvalidInput if the value of one of the named options is below ``least``."""
        for option in options:
            if not (value := getattr(self, option)) >= least:
                what, rule = f"{self.name}:{option}={value}", f"must be at least {least}{note}"
                raise InvalidInput(what, rule=rule)

    def check(self, instance: Instance) -> Unsupported | None:
        """Return why this instance cannot be planned under any objective; None if it can."""
        return check_no_budgets(self.label, instance)


def check_no_budgets(label: str, instance: Instance) -> Unsupported | None:
    """Return a refusal if the instance has workflow budgets that a plan could exceed, else None."""
    if budgets := instance.binding_budgets():
        return Unsupported(reason=f"{label} does not support budgets: {', '.join(budgets)}")
    return None


def supported_objective(planner: Planner, instance: Instance, objective: Objective) -> Objective | None:
    """Return the objective if the planner supports it, else the makespan, else None."""
    if planner.supports(instance, objective) is None:
        return objective
    makespan = OBJECTIVES["makespan"]
    return makespan if planner.supports(instance, makespan) is None else None


def make_planner(text: str) -> Planner:
    """Return the planner for a name with options, such as ``heft:averaging=self-loops``."""
    from weft.planners import PLANNERS

    planner: Planner = make_by_name(PLANNERS, text)
    return planner
