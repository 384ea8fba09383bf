"""Inter-workflow priorities: whose turn it is when several workflows want the same machines; higher first.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (S5 section 3). With rank the upward rank of the task, age the time since the workflow arrived, mk
its makespan alone on the empty platform:

========= ====================================================================================
g-heft    rank
aging     rank (1 + age / mk)
aging-e   rank e^(1 + age / mk)
fcfs      first come, first served: minus the arrival
srpt      shortest remaining processing time: 1 / mean seconds of all that is unfinished
foft      fairness on finish times: the expected slowdown (C - arrival) / mk
========= ====================================================================================

Deviations: fcfs is printed as the arrival itself, which would serve the last first. In srpt a running task
counts with what is left of it. In foft C is the forward estimate (``foresight.py``) and the denominator the
makespan alone. ``aging-e`` is compared by its logarithm, which never overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from typing import Literal

from weft.policies.foresight import Foresight
from weft.policies.policy import RunView, View

__all__ = ["OF_WORKFLOWS", "PRIORITIES", "Inter", "Worth"]

Inter = Literal["g-heft", "aging", "aging-e", "fcfs", "srpt", "foft"]

Worth = Callable[[RunView, int], float]
"""Says how urgent a ready task of a run is, at one moment; higher first."""


def _g_heft(view: View) -> Worth:  # noqa: ARG001
    return lambda run, task: run.ranks[task]


def _aging(view: View) -> Worth:
    return lambda run, task: run.ranks[task] * (1.0 + _age(view, run))


def _aging_e(view: View) -> Worth:
    def worth(run: RunView, task: int) -> float:
        rank = run.ranks[task]
        return log(rank) + 1.0 + _age(view, run) if rank > 0.0 else -inf

    return worth


def _fcfs(view: View) -> Worth:  # noqa: ARG001
    return lambda run, task: -run.arrival_s  # noqa: ARG005


def _srpt(view: View) -> Worth:  # noqa: ARG001
    def worth(run: RunView, task: int) -> float:  # noqa: ARG001
        left = run.remaining_s
        return 1.0 / left if left > 0.0 else inf

    return worth


def _foft(view: View) -> Worth:
    ahead = Foresight(view)

    def worth(run: RunView, task: int) -> float:  # noqa: ARG001
        alone = run.alone_s
        flow = view.now + ahead.left_s(run) - run.arrival_s
        return flow / alone if alone > 0.0 else inf

    return worth


def _age(view: View, run: RunView) -> float:
    """Give a workflow's age in makespans; one that takes no time at all does not age."""
    alone = run.alone_s
    return (view.now - run.arrival_s) / alone if alone > 0.0 else 0.0


PRIORITIES: dict[str, Callable[[View], Worth]] = {
    "g-heft": _g_heft,
    "aging": _aging,
    "aging-e": _aging_e,
    "fcfs": _fcfs,
    "srpt": _srpt,
    "foft": _foft,
}
"""By name: what makes the priorities of one moment."""

OF_WORKFLOWS = frozenset({"fcfs", "srpt", "foft"})
"""Those under which all tasks of a workflow are equally urgent."""
