"""The exact model of all plans as variables and constraints, its hints, and the schedule of a solution.

A hint is a start value that the solver gets for a variable.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.planners.decoding import INSERTION, decode, encode_schedule, select_modes
from weft.planners.evaluation import LinearObjective
from weft.planners.exact.exact_instance import ExactInstance, TransferLag, equivalent_tasks, scale_to_integers
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.planners.exact.solver import Expression, Interval, Literal, Model, Value


class _TransferConstraints:
    """Adds the constraints of transfers to a model in which variables are bound to places.

    A literal per pair of binding variables states that both are on the same host. If a transfer takes the
    same time over all links, this literal is sufficient. Otherwise there is one constraint per location of
    the target, with the sum of the times from the possible locations of the source. There are O(edges x
    locations) such constraints, fewer than with one per pair of machines.
    """

    def __init__(self, model: Model, case: ExactInstance, placed: Sequence[dict[int, Literal]]) -> None:
        self.model = model
        self.case = case
        self.placed = placed
        network = case.instance.network
        # If transfers take time, every place is a single machine.
        first = [machines[0] for machines in case.places.machines]
        self.host = [int(network.host[machine]) for machine in first]
        self.location = [int(network.location[machine]) for machine in first]
        self.single_hosts = len(np.unique(network.host)) == len(network.latency_s)
        self._shared: dict[tuple[int, int], Literal] = {}
        self._there: dict[tuple[int, bool], dict[int, Literal]] = {}

    def between(self, before: Expression, after: Expression, lag: TransferLag) -> None:
        """Require that ``after`` is later than ``before`` by at least the transfer time of the lag."""
        model = self.model
        if lag.uniform is not None:
            model.at_most(before + lag.uniform, after, [~self._share_literal(lag)])
            return
        sources = self._literals(lag.source, hosts=False)
        shared = [] if self.single_hosts else [~self._share_literal(lag)]
        for location, here in self._literals(lag.target, hosts=False).items():
            links = [(there, int(lag.ticks[source, location])) for source, there in sources.items()]
            used = [(there, ticks) for there, ticks in links if ticks]
            if used:
                moving = model.total([there for there, _ in used], [ticks for _, ticks in used])
                model.at_most(before + moving, after, [here, *shared])

    def _share_literal(self, lag: TransferLag) -> Literal:
        """Return the literal which states that source and target of a lag are on the same host."""
        pair = (min(lag.source, lag.target), max(lag.source, lag.target))
        if pair not in self._shared:
            self._shared[pair] = self._share(*pair)
        return self._shared[pair]

    def _share(self, one: int, other: int) -> Literal:
        model, shared = self.model, self.model.literal()
        here, there = self._literals(one, hosts=True), self._literals(other, hosts=True)
        for host in sorted({*here, *there}):
            if host not in there:
                model.some_of([~shared, ~here[host]])
            elif host not in here:
                model.some_of([~shared, ~there[host]])
            else:
                model.some_of([~shared, ~here[host], there[host]])
                model.some_of([~shared, here[host], ~there[host]])
                model.some_of([shared, ~here[host], ~there[host]])
        return shared

    def _literals(self, variable: int, *, hosts: bool) -> dict[int, Literal]:
        """Return a literal per host (or per location): 1 if the variable is bound to one of its machines."""
        key = (variable, hosts)
        if key not in self._there:
            of_place = self.host if hosts else self.location
            parts: dict[int, list[Literal]] = {}
            for place, literal in self.placed[variable].items():
                parts.setdefault(of_place[place], []).append(literal)
            self._there[key] = {where: self._any(found) for where, found in sorted(parts.items())}
        return self._there[key]

    def _any(self, literals: list[Literal]) -> Literal:
        if len(literals) == 1:
            return literals[0]
        union = self.model.literal()
        self.model.one_of([~union, *literals])
        return union


_OptionInterval = tuple[int, int, "Interval"]
"""Task, position of its option, and the interval during which it runs with that option."""


class _OccupancyConstraints:
    """Adds the constraints of machines to a model in which tasks have options, starts and ends.

    Machines of one node run one task at a time; on other machines the nodes and every scarce resource are
    counted, including those of busy intervals. A redundant constraint helps the solver: the node-seconds of
    all tasks at a place are at most its nodes times the makespan (the energy cut).
    """

    def __init__(
        self,
        model: Model,
        case: ExactInstance,
        chosen: Sequence[Sequence[Literal]],
        start: Sequence[Expression],
        end: Sequence[Expression],
    ) -> None:
        self.model = model
        self.case = case
        self.chosen = chosen
        self.stays: list[list[_OptionInterval]] = [[] for _ in case.places.machines]
        for task, options in enumerate(case.options):
            for index, option in enumerate(options):
                if not case.ticks[task][index]:
                    continue  # a task of 0 ticks occupies nothing
                when = chosen[task][index] if len(options) > 1 else None
                stay = model.interval(start[task], case.ticks[task][index], end[task], when)
                self.stays[option.place].append((task, index, stay))

    def add(self, makespan: Expression) -> None:
        """Add the constraints on nodes and resources of all places, and the energy cuts."""
        instance, places = self.case.instance, self.case.places
        for place, machines in enumerate(places.machines):
            if instance.unlimited[machines[0]] or not self.stays[place]:
                continue
            self._nodes(place, makespan)
            for resource in range(instance.amounts.shape[1]):
                self._amounts(place, resource)

    def _nodes(self, place: int, makespan: Expression) -> None:
        case, capacity = self.case, self.case.places.capacity[place]
        taken = [case.options[task][index].nodes for task, index, _ in self.stays[place]]
        held = self._held(place, [(held.nodes, capacity) for held in case.instance.busy])
        intervals = [stay for _, _, stay in self.stays[place]] + [stay for stay, _ in held]
        if capacity == 1:
            self.model.in_turn(intervals)
        elif self._short(place, taken, capacity) or held:
            self.model.together(intervals, [*taken, *(amount for _, amount in held)], capacity)
        else:
            return
        area = self.area(place)
        self.model.at_most(area, makespan * capacity)

    def area(self, place: int) -> Expression:
        """Return the sum of nodes times ticks over all tasks at a place."""
        case, literals, areas = self.case, [], []
        for task, index, _ in self.stays[place]:
            literals.append(self.chosen[task][index])
            areas.append(case.options[task][index].nodes * case.ticks[task][index])
        return self.model.total(literals, areas)

    def _amounts(self, place: int, resource: int) -> None:
        """Limit the use of a resource at a place, unless all tasks together can never exceed its amount."""
        case = self.case
        machine = case.places.machines[place][0]
        total = float(case.instance.amounts[machine, resource])
        busy = [held.amounts[resource] if held.amounts else 0.0 for held in case.instance.busy]
        if not np.isfinite(total) or (case.places.capacity[place] == 1 and not any(busy)):
            return  # one task at a time, whose amounts were compared with the totals beforehand
        stays = self.stays[place]
        demands = [float(case.options[task][index].demand[resource]) for task, index, _ in stays]
        amounts, limit = scale_to_integers(np.array([*demands, *busy]), total)
        taken = amounts[: len(stays)].tolist()
        held = self._held(place, [(amount, limit) for amount in amounts[len(stays) :].tolist()])
        used = [(stay[2], amount) for stay, amount in zip(stays, taken, strict=True) if amount]
        if used and (self._short(place, taken, limit) or held):
            used += held
            self.model.together([stay for stay, _ in used], [amount for _, amount in used], limit)

    def _short(self, place: int, taken: list[int], limit: int) -> bool:
        """Return whether all tasks together could take more than ``limit``.

        ``taken`` holds the amount of each option at the place.
        """
        most: dict[int, int] = {}
        for (task, _, _), amount in zip(self.stays[place], taken, strict=True):
            most[task] = max(most.get(task, 0), amount)
        return sum(most.values()) > limit

    def _held(self, place: int, amounts: list[tuple[int, int]]) -> list[tuple[Interval, int]]:
        """Return disjoint intervals in which a place is busy, and the amount that is taken in each.

        ``amounts`` holds (amount, limit) for each busy interval of the instance. The amounts of overlapping
        intervals are added up; the sum is cut to the limit.
        """
        case, events = self.case, []
        machines = case.places.machines[place]
        for held, (amount, limit) in zip(case.instance.busy, amounts, strict=True):
            first, last = case.grid.tick(max(0.0, held.start_s)), case.grid.tick(max(0.0, held.finish_s))
            if held.machine in machines and amount and first < last:
                events += [(first, amount, limit), (last, -amount, limit)]
        moments = sorted({moment for moment, _, _ in events})
        found = []
        for first, last in pairwise(moments):
            if taken := sum(amount for moment, amount, _ in events if moment <= first):
                most = min(taken, events[0][2])
                found.append((self.model.interval(first, last - first, last), most))
        return found


_OBJECTIVE_BITS = 45
"""The weights of an objective are scaled to integers whose sum is below 2 to this power."""
_ROUNDING = 1e-9
"""Relative excess of a sum over a limit that is tolerated, because sums have rounding errors."""


class PlanModel:
    """The exact model of an instance: variables, constraints and objective.

    Every binding variable has exactly one place. Every task has a start, an end, and exactly one of its
    options at the place of its variable. Equivalent machines and tasks are ordered (``find_places``).
    """

    def __init__(
        self, model: Model, case: ExactInstance, objective: LinearObjective, *, least: int, most: int
    ) -> None:
        """Build the model of all plans whose makespan is from ``least`` to ``most`` ticks."""
        self.model = model
        self.case = case
        self.equivalent = equivalent_tasks(case.instance)
        self.makespan = model.integer(least, most)
        self.placed = [self._places(found) for found in case.candidates]
        self.chosen = [self._choice(task) for task in range(len(case.options))]
        self.start = [model.integer(earliest, most) for earliest in case.earliest]
        self.end = [self._end(task, most) for task in range(len(case.options))]
        self._precede()
        _OccupancyConstraints(model, case, self.chosen, self.start, self.end).add(self.makespan)
        self._order_equivalent()
        self._keep_budgets()
        self._set_objective(objective)

    def _places(self, candidates: tuple[int, ...]) -> dict[int, Literal]:
        if len(candidates) == 1:
            return {candidates[0]: self.model.always()}
        literals = {place: self.model.literal() for place in candidates}
        self.model.one_of(list(literals.values()))
        return literals

    def _choice(self, task: int) -> list[Literal]:
        """Return a literal per option of a task; the only option at a place uses the literal of the place."""
        options, placed = self.case.options[task], self.placed[int(self.case.instance.graph.variable[task])]
        if len(options) == 1:
            return [self.model.always()]
        at: dict[int, list[int]] = {}
        for index, option in enumerate(options):
            at.setdefault(option.place, []).append(index)
        found: list[Literal] = [placed[option.place] for option in options]
        for place, indices in at.items():
            if len(indices) > 1:
                for index in indices:
                    found[index] = self.model.literal()
                self.model.one_of([~placed[place], *(found[index] for index in indices)])
        return found

    def _end(self, task: int, most: int) -> Expression:
        ticks = self.case.ticks[task]
        start = self.start[task]
        if task in self.case.transfers:
            return start if self.case.transfers[task] is None else self.model.integer(0, most)
        if len(set(ticks)) <= 1:
            return start + ticks[0] if ticks and ticks[0] else start
        end = self.model.integer(0, most)
        self.model.equal(end, start + self.model.total(self.chosen[task], ticks))
        return end

    def _precede(self) -> None:
        model, case = self.model, self.case
        movement = _TransferConstraints(model, case, self.placed)
        for before, task, lag in case.edges:
            model.at_most(self.end[before], self.start[task])
            if lag is not None:
                movement.between(self.end[before], self.start[task], lag)
        for task, lag in case.transfers.items():
            if lag is not None:
                model.at_most(self.start[task], self.end[task])
                movement.between(self.start[task], self.end[task], lag)
        followed = {before for before, _, _ in case.edges}
        for task, end in enumerate(self.end):
            if task not in followed:
                model.at_most(end, self.makespan)

    def _order_equivalent(self) -> None:
        for task, other in self.equivalent:
            self.model.at_most(self.start[task], self.start[other])
        for places in self.case.places.equivalent:
            self._name_in_order(places)

    def _name_in_order(self, places: tuple[int, ...]) -> None:
        """Break symmetry: a variable may use a place only if an earlier variable uses the preceding place.

        ``places`` are equivalent places in the order of the model.
        """
        model = self.model
        used: dict[int, Literal] = {}
        for placed in self.placed:
            if places[0] not in placed:
                continue
            for before, place in pairwise(places):
                reached = used.get(before)
                model.some_of([~placed[place], *([] if reached is None else [reached])])
            for place in places:
                reached, now = used.get(place), model.literal()
                model.some_of([~now, placed[place], *([] if reached is None else [reached])])
                used[place] = now

    def _keep_budgets(self) -> None:
        case, graph = self.case, self.case.instance.graph
        for budget in range(len(graph.budget_names)):
            literals, consumed = [], []
            for task, options in enumerate(case.options):
                literals += self.chosen[task]
                consumed += [float(option.consumption[budget]) for option in options]
            amounts, limit = scale_to_integers(np.array(consumed), float(graph.budgets[budget]))
            self.model.at_most(self.model.total(literals, amounts.tolist()), limit)

    def _set_objective(self, objective: LinearObjective) -> None:
        if np.isfinite(objective.max_cost):
            literals, cost = self._weighed(0.0, 1.0)
            amounts, limit = scale_to_integers(np.array(cost), objective.max_cost)
            self.model.at_most(self.model.total(literals, amounts.tolist()), limit)
        if not objective.per_node_s and not objective.per_price:
            self.model.minimise(self.makespan)
            return
        if np.isfinite(objective.deadline_s):
            self.model.at_most(self.makespan, self.case.grid.begun(objective.deadline_s * (1 + _ROUNDING)))
        literals, weights = self._weighed(objective.per_node_s, objective.per_price)
        time = objective.per_second * self.case.grid.seconds(1)
        whole = abs(time) * self.case.grid.begun(self.case.horizon_s) + sum(map(abs, weights))
        scale = 2.0**_OBJECTIVE_BITS / whole if whole > 0 else 1.0
        scaled = [round(weight * scale) for weight in (time, *weights)]
        self.model.minimise(self.model.total([self.makespan, *literals], scaled))

    def _weighed(self, per_node_s: float, per_price: float) -> tuple[list[Literal], list[float]]:
        """Return the literals of all options, and the weight of each option.

        The weight is the node-seconds times ``per_node_s + per_price * price`` of the machine.
        """
        literals: list[Literal] = []
        weights = []
        price = self.case.instance.price_per_node_s
        for task, options in enumerate(self.case.options):
            literals += self.chosen[task]
            for option in options:
                rate = per_node_s + per_price * float(price[self.case.places.machines[option.place][0]])
                weights.append(rate * option.nodes * option.seconds)
        return literals, weights


def add_hints(built: PlanModel, schedule: Schedule) -> None:
    """Pass a schedule to the solver as its initial solution.

    Equivalent machines and equivalent tasks are exchanged so that their order is the one that the model
    requires.
    """
    case, model = built.case, built.model
    begun = [case.grid.begun(moment) for moment in schedule.start_s.tolist()]
    sources = _match_equivalent_tasks(built, begun)
    places = _rename_places(case, [int(schedule.machine[part]) for part in sources])
    modes = encode_schedule(case.instance, schedule).modes.tolist()
    model.hint(built.makespan, case.grid.begun(schedule.makespan_s))
    variable = case.instance.graph.variable.tolist()
    for task, part in enumerate(sources):
        model.hint(built.start[task], begun[part])
        for place, literal in built.placed[variable[task]].items():
            model.hint(literal, int(place == places[task]))
        if task in case.transfers:
            ended = case.grid.begun(schedule.finish_s[part])
        elif case.options[task]:
            chosen = _find_option(built, task, places[task], int(schedule.nodes[part]), modes[part])
            for index, literal in enumerate(built.chosen[task]):
                model.hint(literal, int(index == chosen))
            ended = begun[part] + case.ticks[task][chosen]
        else:
            continue
        model.hint(built.end[task], ended)


def _match_equivalent_tasks(built: PlanModel, begun: list[int]) -> list[int]:
    """Return for each task the equivalent task whose times it takes, so that starts ascend with the index.

    A task without an equivalent task keeps its own times.
    """
    parts = list(range(len(begun)))
    following = dict(built.equivalent)
    firsts = following.keys() - set(following.values())
    for first in sorted(firsts):
        chain = [first]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        for task, part in zip(chain, sorted(chain, key=lambda task: (begun[task], task)), strict=True):
            parts[task] = part
    return parts


def _rename_places(case: ExactInstance, machines: list[int]) -> list[int]:
    """Return the place of every task, with equivalent places renumbered in the order of their first use."""
    names: dict[int, int] = {}
    of_class = {place: found for found in case.places.equivalent for place in found}
    unused = {found: list(found) for found in case.places.equivalent}
    variable = case.instance.graph.variable
    placed = [case.places.of_machine[machine] for machine in machines]
    for task in np.argsort(variable, kind="stable").tolist():
        place = placed[task]
        if place not in names:
            names[place] = unused[of_class[place]].pop(0) if place in of_class else place
    return [names[place] for place in placed]


def _find_option(built: PlanModel, task: int, place: int, nodes: int, mode: int) -> int:
    """Return the position of the option of a task with a given mode at a place.

    If that option was left out of the model, return the position of another option at the place.
    """
    options = built.case.options[task]
    there = [index for index, option in enumerate(options) if option.place == place]
    same = [index for index in there if options[index].mode == mode]
    return (same or [index for index in there if options[index].nodes <= nodes] or there)[-1]


def read_schedule(built: PlanModel, value: Value) -> Schedule:
    """Return the schedule of a solution.

    The order, machines and modes of the solution are decoded with insertion and the unrounded seconds. To
    bound the effect of rounding, number the tasks by start and delay the i-th task by 2 i ticks: the rounding
    error (less than a tick per task and lag) fits between any two consecutive tasks, so that no further delay
    is needed. Decoding starts no task later than these delayed starts. A schedule is therefore at most 2
    ticks per task longer than its solution, and equally long on an exact grid.
    """
    case = built.case
    start = [value(moment) for moment in built.start]
    end = [value(moment) for moment in built.end]
    order = sorted(range(len(start)), key=lambda task: (start[task], end[task], task))
    counts = [
        next((option.count for option, literal in zip(options, literals, strict=True) if value(literal)), 0)
        for options, literals in zip(case.options, built.chosen, strict=True)
    ]
    bound = _read_bindings(built, value, order, end)
    modes = select_modes(case.instance, bound, np.array(counts, dtype=np.uint32))
    return decode(case.instance, order, bound, modes, rule=INSERTION)


def _read_bindings(built: PlanModel, value: Value, order: list[int], end: list[int]) -> Indices:
    """Return the machine of every variable; at a place of several machines, the one that is free first."""
    case = built.case
    places = [next(place for place, literal in placed.items() if value(literal)) for placed in built.placed]
    bound = np.array([case.places.machines[place][0] for place in places], dtype=np.uint32)
    free = dict.fromkeys(range(len(case.instance.machines)), 0)
    variable = case.instance.graph.variable.tolist()
    for task in order:
        machines = case.places.machines[places[variable[task]]]
        if len(machines) > 1 and case.options[task]:
            machine = min(machines, key=lambda found: (free[found], found))
            bound[variable[task]], free[machine] = machine, end[task]
    return bound
