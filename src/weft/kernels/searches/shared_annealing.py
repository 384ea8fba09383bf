"""Annealing on shared machines: moves, laying and acceptance in one loop.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220(4598), 1983. A state is an order of the tasks, a way
for each and a machine per binding variable. A move puts a task somewhere else between its predecessors and
its successors, gives it another way on its machine, or takes all tasks of a variable to another machine; or
the schedule is justified: laid backwards, then forwards again, in the order that comes of it (V. Valls,
F. Ballestin, S. Quintanilla, EJOR 165(2), 2005).

Deviations: a candidate is judged against a limit that is drawn before it is laid, the present energy plus
heat times an exponential variate, which gives the same probabilities and lets laying stop early. Limits of
the objective and budgets are penalties. Ways may have a *drag*, which counts for the energy and not for what
a state is worth: without it moldable tasks drift to ways that waste nodes wherever that costs no time yet.
Random numbers are drawn outside.

Complexity: that of laying per step.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.searches.shared import Layout, Links, Shop, Ways, lay
from weft.kernels.searches.shared_moves import Moves, State, by_ends, copy, mold, move_to, shift, take
from weft.kernels.types import Doubles, Indices

__all__ = ["DRAWS", "Goal", "Score", "Scratch", "anneal"]

DRAWS = 5
"""Uniform numbers per step: which move, of what, where to, whether a shift goes with it, where to."""
_INFINITE = float("inf")
_ROUNDING = 1e-9
"""Share by which a limit may be exceeded by rounding."""
_JUSTIFYING = 3
"""Layings of a justification."""


class Goal(NamedTuple):
    """What is to be small: ``base + makespan * per_second + charges``; first of all, no limit is missed."""

    base: float
    per_second: float
    deadline: float
    max_cost: float
    """Infinite: no limit."""
    penalty: float
    """What it adds to the energy to miss a limit by the whole of it."""
    drag: float
    """By what the drags of ways are multiplied."""
    counted: int
    """Whether charges, prices, uses or drags of ways have to be added up."""


class Score(NamedTuple):
    """What the present state and the best one are worth (misses, then the objective), in one element each."""

    missed: Doubles
    value: Doubles
    best_missed: Doubles
    best_value: Doubles


class Scratch(NamedTuple):
    """What a move changed, the order of a justification, and what is used of every budget."""

    changed: Indices
    old_way: Indices
    order: Indices
    used: Doubles


@kernel
def anneal(
    shop: Shop,
    links: Links,
    ways: Ways,
    goal: Goal,
    moves: Moves,
    fresh: int,
    heat: float,
    allowed: int,
    uniform: Doubles,
    exponential: Doubles,
    scratch: Scratch,
    layout: Layout,
    state: State,
    best: State,
    score: Score,
) -> int:
    """Go on from a state and keep the best one; give how often all tasks were laid.

    That is at most twice more than allowed. ``fresh``: nothing is known of the state, the first step only
    lays it.
    """
    order, way = state.order, state.way
    changed_task, old_way = scratch.changed, scratch.old_way
    missed, value = score.missed[0], score.value[0]
    owed, charge, drag = _owed(shop.tasks, ways, goal, way, scratch.used)
    energy = value + goal.penalty * missed + drag
    if fresh != 0:
        energy = _INFINITE
    step = 0
    spent = 0
    while spent < allowed:
        draw = DRAWS * step
        limit = energy + heat * exponential[step]
        pick = uniform[draw]
        new_owed, new_charge, new_drag = owed, charge, drag
        task, origin, changed, layings = 0, 0, 0, 1
        variable, machine = shop.variables, 0
        moved = False
        if step >= fresh:
            if pick < moves.justify_share:
                layings = _JUSTIFYING
            else:
                moved = True
                pick -= moves.justify_share
                if pick < moves.mold_share:
                    task = moves.molded[int(uniform[draw + 1] * moves.molds)]
                    changed = mold(
                        ways.first, ways.machine, task, uniform[draw + 2], way, changed_task, old_way
                    )
                elif pick < moves.mold_share + moves.take_share:
                    variable = moves.taken[int(uniform[draw + 1] * moves.takes)]
                    machine = state.bound[variable]
                    changed = take(
                        ways.first,
                        ways.machine,
                        moves,
                        variable,
                        uniform[draw + 2],
                        state,
                        changed_task,
                        old_way,
                    )
                    task = moves.member[moves.member_pointer[variable]]
                else:
                    task = moves.shifted[int(uniform[draw + 1] * moves.shifts)]
                origin = state.place[task]
                if pick >= moves.mold_share + moves.take_share or uniform[draw + 3] < moves.both_share:
                    shift(
                        shop.pointer,
                        shop.before,
                        shop.after_pointer,
                        shop.after,
                        task,
                        shop.tasks - 1,
                        uniform[draw + 4],
                        order,
                        state.place,
                    )
                if changed > 0:
                    new_owed, new_charge, new_drag = _owed(shop.tasks, ways, goal, way, scratch.used)
        limit_s = _INFINITE
        if goal.per_second > 0.0 and layings == 1:
            # A little more because of rounding.
            known = new_charge + goal.penalty * new_owed + new_drag
            limit_s = (limit - known) / goal.per_second * (1.0 + _ROUNDING)
        makespan = 0.0
        for laying in range(layings):
            laid = order
            if laying > 0:
                laid = scratch.order
                if laying == 1:
                    for position in range(shop.tasks):
                        laid[position] = order[shop.tasks - 1 - position]
                by_ends(shop.tasks, laid, layout.finish, laying * 2 - 3)
            makespan = lay(shop, links, ways, 1 - laying % 2, laid, way, state.bound, limit_s, layout)
        step += 1
        spent += layings
        new_missed = new_owed + _excess(makespan, goal.deadline)
        new_value = new_charge + makespan * goal.per_second
        new_energy = new_value + goal.penalty * new_missed + new_drag
        if makespan < _INFINITE and new_energy <= limit:
            if layings > 1:
                for position in range(shop.tasks):
                    task = scratch.order[position]
                    order[position] = task
                    state.place[task] = position
            missed, value, energy = new_missed, new_value, new_energy
            owed, charge, drag = new_owed, new_charge, new_drag
            if _better(missed, value, score.best_missed[0], score.best_value[0]):
                score.best_missed[0] = missed
                score.best_value[0] = value
                copy(shop.tasks, shop.variables, state, best)
        elif moved:
            move_to(task, origin, order, state.place)
            for position in range(changed):
                way[changed_task[position]] = old_way[position]
            if variable < shop.variables:
                state.bound[variable] = machine
    score.missed[0] = missed
    score.value[0] = value
    return spent


@kernel
def _better(missed: float, value: float, best_missed: float, best_value: float) -> bool:
    return missed < best_missed or (missed == best_missed and value < best_value)


@kernel
def _owed(tasks: int, ways: Ways, goal: Goal, way: Indices, used: Doubles) -> tuple[float, float, float]:
    """Give what the ways alone add: to the misses, to the objective and to the energy besides."""
    if goal.counted == 0:
        return 0.0, goal.base, 0.0
    charge = goal.base
    price = 0.0
    drag = 0.0
    for budget in range(ways.budgets):
        used[budget] = 0.0
    for task in range(tasks):
        chosen = way[task]
        if chosen < ways.first[task + 1]:
            charge += ways.charge[chosen]
            price += ways.price[chosen]
            drag += ways.drag[chosen]
            for budget in range(ways.budgets):
                used[budget] += ways.use[chosen * ways.budgets + budget]
    missed = _excess(price, goal.max_cost)
    for budget in range(ways.budgets):
        missed += _excess(used[budget], 1.0)
    return missed, charge, drag * goal.drag


@kernel
def _excess(amount: float, limit: float) -> float:
    """Give by which share a limit is missed."""
    if amount <= limit * (1.0 + _ROUNDING):
        return 0.0
    if limit > 0.0:
        return (amount - limit) / limit
    return amount
