"""The instance as the search on shared machines reads it: see ``weft.kernels.searches.shared``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import problem as kernel
from weft.kernels.searches.shared import Layout, Links, Shop, Ways
from weft.kernels.searches.shared_annealing import Goal, Scratch
from weft.kernels.searches.shared_moves import Moves
from weft.planners.aims import Aim
from weft.planners.problem import problem_of
from weft.planners.weaving.shared_packing import pack
from weft.planners.weaving.shared_ways import Listed, list_ways
from weft.workflow.unfolding.task_graph import Floats, Indices, TaskGraph

__all__ = ["Workshop", "workshop_of"]

_DRAG = 0.3
"""How much node-seconds, spread over all nodes, weigh against the makespan where tasks are moldable."""
_JUSTIFIED, _MOLDED, _TAKEN, _BOTH = 0.02, 0.5, 0.3, 0.5
"""Shares of the moves (``Moves``), where they are possible."""
_MOST_RELATED = 3000
"""Tasks up to which it is worked out who descends from whom."""
_ROUNDING = 1e-9


class Workshop(NamedTuple):
    """Everything the kernel reads, and where it works."""

    shop: Shop
    links: Links
    ways: Ways
    mode: Indices
    """Per way: its position among the modes of the task's group."""
    goal: Goal
    moves: Moves
    layout: Layout
    scratch: Scratch


def workshop_of(instance: Instance, aim: Aim) -> Workshop | None:
    """Lay the instance out; None: it has too many ways."""
    listed = list_ways(instance, efficient=aim.per_node_s >= 0 and aim.per_price >= 0)
    if listed is None:
        return None
    problem = problem_of(instance)
    descends = _descendants(instance.graph)
    ways, shop = _ways_and_shop(instance, aim, listed, descends)
    links = _links(problem)
    tasks = problem.tasks.number
    return Workshop(
        shop=shop,
        links=links,
        ways=ways,
        mode=listed.mode,
        goal=_goal(aim, ways),
        moves=_moves(instance, listed, descends, backwards=links.far == 0 and not instance.busy),
        layout=_layout(shop),
        scratch=Scratch(
            changed=np.zeros(tasks, dtype=np.uint32),
            old_way=np.zeros(tasks, dtype=np.uint32),
            order=np.zeros(tasks, dtype=np.uint32),
            used=np.zeros(ways.budgets),
        ),
    )


def _ways_and_shop(
    instance: Instance, aim: Aim, listed: Listed, descends: NDArray[np.bool_] | None
) -> tuple[Ways, Shop]:
    problem = problem_of(instance)
    tasks, machines = problem.tasks, problem.machines
    packing = pack(instance, listed.task, listed.machine, [listed.nodes, *listed.amounts.T])
    node_s = listed.nodes * listed.seconds
    price = node_s * machines.price[listed.machine]
    moldable = len(_moldable(listed)) > 0
    ways = Ways(
        first=listed.first,
        machine=listed.machine,
        seconds=listed.seconds,
        need=packing.need,
        charge=node_s * aim.per_node_s + price * aim.per_price,
        drag=node_s * (_DRAG * aim.per_second / float(instance.capacity.sum()) if moldable else 0.0),
        price=price,
        budgets=listed.use.shape[1],
        use=listed.use.reshape(-1),
    )
    shop = Shop(
        tasks=tasks.number,
        machines=machines.number,
        variables=tasks.variables,
        guard=packing.guard,
        variable=tasks.variable,
        earliest=tasks.earliest,
        tail=_tails(instance, listed, descends),
        pointer=tasks.pointer,
        before=tasks.before,
        after_pointer=tasks.after_pointer,
        after=tasks.after,
        open=(machines.form == kernel.OPEN).astype(np.uint8),
        step_pointer=packing.pointer,
        step_time=packing.time_s,
        step_free=packing.free,
    )
    return ways, shop


def _links(problem: kernel.Problem) -> Links:
    tasks, machines = problem.tasks, problem.machines
    return Links(
        far=int(machines.hosts > 1),
        locations=machines.locations,
        source=tasks.source,
        moved=tasks.moved,
        size=tasks.size,
        files=tasks.files,
        fixed=tasks.fixed,
        host=machines.host,
        location=machines.location,
        latency=machines.latency,
        inverse=machines.inverse,
    )


def _goal(aim: Aim, ways: Ways) -> Goal:
    counted = ways.charge.any() or ways.drag.any() or math.isfinite(aim.max_cost) or ways.budgets > 0
    return Goal(
        base=aim.base,
        per_second=aim.per_second,
        deadline=aim.deadline_s,
        max_cost=aim.max_cost,
        penalty=0.0,
        drag=1.0,
        counted=int(counted),
    )


def _descendants(graph: TaskGraph) -> NDArray[np.bool_] | None:
    """Give tasks x tasks which descend from which; None: there are too many."""
    if len(graph) > _MOST_RELATED:
        return None
    descends = np.zeros((len(graph), len(graph)), dtype=np.bool_)
    for task in range(len(graph) - 1, -1, -1):
        for after in graph.successors(task).tolist():
            descends[task] |= descends[after]
            descends[task, after] = True
    return descends


def _tails(instance: Instance, listed: Listed, descends: NDArray[np.bool_] | None) -> Floats:
    """Give per task what passes at least after its end: a path of fastest ways, or all that must still run.

    What descends from a task takes node-seconds, and as much of every resource for a time; on a single
    machine, so much takes so long.
    """
    graph, shortest = instance.graph, instance.shortest_s()
    tail = np.zeros(len(graph))
    for task in range(len(graph) - 1, -1, -1):
        after = graph.successors(task)
        if len(after):
            tail[task] = (shortest[after] + tail[after]).max()
    if descends is not None and len(instance.machines) == 1 and not instance.unlimited.any():
        totals = [float(instance.capacity[0]), *instance.amounts[0].tolist()]
        for need, total in zip([listed.nodes, *listed.amounts.T], totals, strict=True):
            if 0 < total < math.inf:
                least = np.full(len(graph), np.inf)
                np.minimum.at(least, listed.task, need * listed.seconds)
                least[np.isinf(least)] = 0.0
                tail = np.maximum(tail, descends @ least / total)
    # Rounding must not make it too large.
    return tail * (1 - _ROUNDING)


def _moldable(listed: Listed) -> NDArray[np.intp]:
    """Give the tasks that have several ways on some machine."""
    again = (listed.task[1:] == listed.task[:-1]) & (listed.machine[1:] == listed.machine[:-1])
    return np.unique(listed.task[1:][again])


def _moves(
    instance: Instance, listed: Listed, descends: NDArray[np.bool_] | None, *, backwards: bool
) -> Moves:
    tasks, number = problem_of(instance).tasks, len(instance)
    shifted = np.arange(number)
    if descends is not None:
        related = descends.sum(axis=0) + descends.sum(axis=1)
        shifted = np.flatnonzero(related < number - 1)
    molded = _moldable(listed)
    taken = [
        variable
        for variable in range(tasks.variables)
        if variable not in instance.pinned and len(instance.candidates_of(variable)) > 1
    ]
    members = np.bincount(tasks.variable, minlength=tasks.variables)
    return Moves(
        shifts=len(shifted),
        shifted=shifted.astype(np.uint32),
        molds=len(molded),
        molded=molded.astype(np.uint32),
        takes=len(taken),
        taken=np.array(taken, dtype=np.uint32),
        candidate_pointer=tasks.candidate_pointer,
        candidate=tasks.candidate,
        candidate_set=tasks.candidate_set,
        member_pointer=np.concatenate([[0], np.cumsum(members)]).astype(np.uint32),
        member=np.argsort(tasks.variable, kind="stable").astype(np.uint32),
        **_shares(len(shifted), len(molded), len(taken), backwards=backwards),
    )


def _shares(shifts: int, molds: int, takes: int, *, backwards: bool) -> dict[str, float]:
    """Give the shares of the moves; what is not possible leaves its share to the others."""
    justify = _JUSTIFIED if backwards and shifts else 0.0
    mold = (_MOLDED if shifts or takes else 1.0) if molds else 0.0
    take = (_TAKEN if shifts else 1.0) if takes else 0.0
    rest = 1.0 - justify
    mold, take = mold * rest, min(take, 1.0 - mold) * rest
    return {
        "justify_share": justify,
        "mold_share": mold,
        "take_share": take,
        "both_share": _BOTH if shifts else 0.0,
    }


def _layout(shop: Shop) -> Layout:
    steps = len(shop.step_time) + 2 * shop.tasks
    return Layout(
        start=np.zeros(shop.tasks),
        finish=np.zeros(shop.tasks),
        first=np.zeros(shop.machines, dtype=np.int64),
        last=np.zeros(shop.machines, dtype=np.int64),
        time=np.zeros(steps),
        free=np.zeros(steps, dtype=np.int64),
    )
