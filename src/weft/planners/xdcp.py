"""xDCP: the dynamic critical path, extended to layers of parameter sweeps on heterogeneous machines."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InvalidInput
from weft.instance.instance import Instance
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.planners.sweeps import InitialQueues, Sharing, SweepQueues, check_sweep_support
from weft.schedule.objective import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Xdcp(BasePlanner):
    """Starts from the schedule of Shuffle and shortens its critical path in several passes.

    In a pass every subtask, the most urgent first, moves once to the position of a queue where it ends first
    without making the schedule longer. Passes are repeated while they improve the makespan enough. T. Ma, R.
    Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep Tasks on
    Global Grids, section on xDCP, after Y.-K. Kwok, I. Ahmad, Dynamic Critical-Path Scheduling, IEEE TPDS
    7(5), 1996.

    Deviations: the deviations of a single move are listed in ``weft.kernels.xdcp``. The makespan after the
    first pass is compared with that of the start (the paper prints 0). Layers may share machines; in that
    case no subtask is queued before an ancestor or after a descendant. A step of the budget is a pass.
    Complexity O(v (v + e)) per pass for v tasks and e edges; there are a few passes.
    """

    name = "xdcp"
    title = "xDCP, shortens the critical path of layered sweeps (Ma and Buyya)"
    label = "xDCP"

    threshold: float = 0.95
    """Another pass follows if the last pass reduced the makespan to less than this share (paper: 0.95)."""
    pool: Sharing = "auto"
    """``own``: every layer has its own machines; ``shared``: layers share them; ``auto``: own if possible."""
    start: InitialQueues = "shuffle"
    """Initial queues: ``shuffle`` as in the paper, or ``sequential`` as in DCP (all tasks on one machine)."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise InvalidInput(f"xdcp:threshold={self.threshold}", rule="must be from 0 to 1")

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse objectives other than the makespan, and instances that layers of sweeps cannot model."""
        return check_sweep_support(instance, objective, self.pool)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the plan after the passes (steps 1 to 7 of the paper; steps 2 to 6 are one pass)."""
        budget = request.budget
        queues = SweepQueues(request.instance, self.pool, start=self.start)
        steps, cut = 1, False
        gaining = True
        while gaining and budget.allows(steps):
            before_s = queues.length_s
            cut = not queues.improve(budget)
            steps += 1
            gaining = not cut and queues.length_s < self.threshold * before_s
        cut = cut or (gaining and (budget.steps is None or steps < budget.steps))
        return Plan(schedule=queues.schedule(), steps=steps, cut=cut)
