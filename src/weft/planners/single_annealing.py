"""An instance whose machines serve one task at a time, as its search reads it.

``weft.kernels.single_annealing`` says what each array means.

The search on machines that serve one task at a time: orders and machines of all tasks, annealed together.

The loop over moves is ``weft.kernels.single_annealing``; here are cooling, batches and budget. Heat
is measured in mean seconds of a task and of its data. It falls geometrically over a cycle; each cycle begins
with the best plan so far and is longer than the one before. One that has found nothing is followed by a
hotter one. Cooling goes by steps, or by the share of time used where only a clock is given.

Machines that are all alike: one machine of as many nodes, on which nobody asks which node a task takes.

Where data take no time and tasks take as long everywhere, the choice of a machine says nothing, and a search
over orders alone is much quicker. Its plan is dealt out to the machines again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, ModeGroup
from weft.kernels import compilation
from weft.kernels.problem import SHARED, SINGLE
from weft.kernels.single_annealing import WORDS, SingleObjective, SingleProblem, SingleState, anneal_single
from weft.planners.decoding import APPEND, INSERTION, decode
from weft.planners.evaluation import LinearObjective
from weft.planners.genome import Genome, encode_schedule
from weft.planners.planner import Budget, Plan, PlanProgress
from weft.planners.problem import compile_problem
from weft.planners.shared_annealing import search_shared
from weft.schedule.costs import schedule_cost
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

__all__ = [
    "build_field",
    "build_state",
    "build_terms",
    "has_equal_machines",
    "search_equal_machines",
    "search_single",
    "serves_one_at_a_time",
]


_MOST_CELLS = 10_000_000
"""Tasks x machines, and hosts x hosts, up to which they are written down."""
_PENALTY = 20.0
"""How many times the objective it costs to miss a limit by the whole of it."""


def serves_one_at_a_time(instance: Instance) -> bool:
    """Say whether tasks only choose a machine, which serves one of them at a time or any number."""
    problem = compile_problem(instance)
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    small = max(tasks.number * machines.number, machines.hosts**2) <= _MOST_CELLS
    simple = tasks.transfers == 0 and not (machines.form == SHARED).any() and not modes.moldable.any()
    return bool(small and simple and not instance.binding_budgets())


def build_field(instance: Instance) -> SingleProblem:
    """Lay out the arrays."""
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines
    seconds = _seconds(instance)
    option_pointer, option, choice = _options(instance, seconds)
    members = np.argsort(tasks.variable, kind="stable").astype(np.uint32)
    number = np.bincount(tasks.variable, minlength=tasks.variables)
    inverse, latency, apart = _links(instance)
    # Data of nearly all workflows pay for their size alone, which takes less to compute and to compile.
    rich = bool(tasks.fixed.any() or (tasks.files.any() and latency.any()))
    sinks = np.flatnonzero(np.diff(tasks.after_pointer.astype(np.int64)) == 0).astype(np.uint32)
    return SingleProblem(
        tasks=tasks.number,
        machines=machines.number,
        hosts=machines.hosts,
        variable=tasks.variable,
        choice=choice,
        option_pointer=option_pointer,
        option=option,
        member_pointer=np.concatenate([[0], np.cumsum(number)]).astype(np.uint32),
        member=members,
        earliest=tasks.earliest,
        seconds=np.where(np.isfinite(seconds), seconds, 0.0).reshape(-1),
        lined=(machines.form == SINGLE).astype(np.uint8),
        host=machines.host,
        pointer=tasks.pointer,
        before=tasks.before,
        size=tasks.size,
        files=tasks.files if rich else None,
        fixed=tasks.fixed if rich else None,
        after_pointer=tasks.after_pointer,
        after=tasks.after,
        after_edge=tasks.after_edge,
        inverse=inverse.reshape(-1),
        latency=latency.reshape(-1) if rich else None,
        apart=apart.reshape(-1) if rich else None,
        sinks=len(sinks),
        sink=sinks,
    )


def _seconds(instance: Instance) -> Floats:
    """Give tasks x machines; infinite where a task cannot run."""
    table = np.full((len(instance), len(instance.machines)), np.inf)
    table[instance.graph.kind != COMPUTE] = 0.0
    for group in instance.groups:
        for tasks, seconds in group.chunks():
            table[tasks[:, None], group.machine] = seconds
    return table


def _options(instance: Instance, seconds: Floats) -> tuple[Indices, Indices, Indices]:
    """Give the sets of machines that all tasks of a variable can run on (CSR), and the set of each."""
    variables, machines = len(instance.graph.variables), len(instance.machines)
    allowed = np.zeros((variables, machines), dtype=bool)
    for row, index in enumerate(instance.candidates.tolist()):
        allowed[row, instance.candidate_sets[index]] = True
    np.logical_and.at(allowed, instance.graph.variable, np.isfinite(seconds))
    for variable, machine in instance.pinned.items():
        allowed[variable] = np.arange(machines) == machine
    sets, choice = np.unique(allowed, axis=0, return_inverse=True)
    pointer = np.concatenate([[0], np.cumsum(sets.sum(axis=1))]).astype(np.uint32)
    return pointer, np.nonzero(sets)[1].astype(np.uint32), choice.reshape(-1).astype(np.uint32)


def _links(instance: Instance) -> tuple[Floats, Floats, Floats]:
    """Give hosts x hosts: seconds per byte, seconds per file, and 1; nothing on one host."""
    network = instance.network
    hosts = compile_problem(instance).machines.hosts
    location = np.zeros(hosts, dtype=np.int64)
    location[network.host] = network.location
    apart = 1.0 - np.eye(hosts)
    between = np.ix_(location, location)
    inverse = np.where(apart > 0, network.inverse_bandwidth[between], 0.0)
    latency = np.where(apart > 0, network.latency_s[between], 0.0)
    return inverse, latency, apart


def build_terms(instance: Instance, aim: LinearObjective, scale: float) -> SingleObjective:
    """Give the aim as weights of tasks on machines; ``scale`` is the size of the objective's number."""
    shape = (len(instance), len(instance.machines)) if not aim.is_makespan else (0, 0)
    weight, price = np.zeros(shape), np.zeros(shape)
    for group in instance.groups if not aim.is_makespan else ():
        for tasks, seconds in group.chunks():
            taken = seconds * group.nodes
            paid = taken * instance.price_per_node_s[group.machine]
            weight[tasks[:, None], group.machine] = taken * aim.per_node_s + paid * aim.per_price
            price[tasks[:, None], group.machine] = paid
    return SingleObjective(
        per_second=aim.per_second,
        deadline=aim.deadline_s,
        per_late_second=_per_excess(scale, aim.deadline_s),
        weighed=int(not aim.is_makespan),
        weight=weight.reshape(-1),
        price=price.reshape(-1),
        most=aim.max_cost,
        per_excess=_per_excess(scale, aim.max_cost),
    )


def _per_excess(scale: float, limit: float) -> float:
    if not np.isfinite(limit):
        return 0.0
    return _PENALTY * scale / limit if limit > 0 else _PENALTY * scale


def build_state(field: SingleProblem, genome: Genome) -> SingleState:
    """Give the state of a genome; the kernel finds what follows from order and machines."""
    tasks, machines = field.tasks, field.machines
    machine = genome.bound[field.variable].astype(np.uint32)

    def indices(number: int) -> Indices:
        return np.zeros(number, dtype=np.uint32)

    return SingleState(
        order=genome.order.copy(),
        position=indices(tasks),
        machine=machine,
        home=indices(tasks),
        line=indices(tasks),
        previous=indices(tasks),
        following=indices(tasks),
        first=indices(machines),
        last=indices(machines),
        spent=np.zeros(tasks),
        finish=np.zeros(tasks),
        tail=np.zeros(tasks),
        stale=np.zeros(tasks, dtype=np.uint8),
        total=np.array([0.0, 0.0, 0.0, np.inf]),
        best_order=genome.order.copy(),
        best_machine=machine.copy(),
    )


_HEATS, _COLD = (0.15, 0.6, 2.4), 0.015
"""Heats at the begin of a cycle, and that at its end, in mean seconds of a task and of its data."""
_CYCLE, _GROWTH = 500, 4.0
"""Steps per task in the first cycle, and how many times longer each is than the one before."""
_SHORTEST = 1.0 / 64
"""Share of the budget that a cycle takes at least."""
_STEP_S = 12e-6
"""What a step takes in plain Python, about."""
_BATCH = 50_000
"""Steps between two looks at the budget, where steps are counted."""
_FIRST_BATCH, _BATCH_S = 500, 0.04
"""Where a clock counts: steps of the first batch, and what the others shall take."""
_VARIATES = 2048
_ROUNDING = 1e-9


def search_single(
    instance: Instance,
    aim: LinearObjective,
    start: Schedule,
    budget: Budget,
    rng: np.random.Generator,
    *,
    by: str = "weave",
) -> Plan:
    """Give a plan that is not worse than the one to start from."""
    if len(instance) == 0 or not budget.allows(0):
        return Plan(schedule=start, steps=0)
    search = _SingleSearch(instance=instance, aim=aim, start=start, budget=budget, rng=rng, by=by)
    cut = search.run()
    return Plan(schedule=search.schedule(), steps=max(1, search.steps), cut=cut)


def _quantiles() -> NDArray[np.float64]:
    """Give exponential variates, each as likely as the others."""
    return np.array([-math.log((index + 0.5) / _VARIATES) for index in range(_VARIATES)])


class _SingleCycle(NamedTuple):
    """A stretch of cooling; times are shares of the budget."""

    begin: float
    end: float
    hot: float

    def at(self, share: float) -> float:
        """Give the heat."""
        done = (share - self.begin) / (self.end - self.begin)
        return float(self.hot * (_COLD / self.hot) ** done)

    def cooling(self, share: float) -> float:
        """Give the factor by which the heat falls within a share of the budget."""
        return float((_COLD / self.hot) ** (share / (self.end - self.begin)))


@dataclass(slots=True, kw_only=True)
class _SingleSearch:
    """One search: where it is, and the best it has found."""

    instance: Instance
    aim: LinearObjective
    start: Schedule
    budget: Budget
    rng: np.random.Generator
    by: str
    steps: int = 0
    ground: SingleProblem = field(init=False)
    terms: SingleObjective = field(init=False)
    state: SingleState = field(init=False)
    heat: float = field(init=False)
    """That of one mean second."""
    variates: NDArray[np.float64] = field(init=False)
    told: tuple[float, float] = field(init=False)
    """What the last schedule was worth that somebody heard of."""

    def __post_init__(self) -> None:
        self.told = self._worth(self.start)
        value = self.told[1]
        self.ground = build_field(self.instance)
        self.terms = build_terms(self.instance, self.aim, abs(value) or 1.0)
        self.state = build_state(self.ground, encode_schedule(self.instance, self.start))
        self.heat = _scale(self.ground, self.terms)
        self.variates = _quantiles()

    def run(self) -> bool:
        """Search until the budget is spent; say whether the clock ended it."""
        try:
            if self.budget.steps is None:
                self._by_clock()
            else:
                self._by_steps(self.budget.steps)
        except KeyboardInterrupt:
            return True
        return self.budget.steps is None or self.steps < self.budget.steps

    def _by_steps(self, most: int) -> None:
        plain_s = most * _STEP_S
        for cycle in self._cycles(most):
            while self.budget.allows(self.steps) and self.steps < (last := round(cycle.end * most)):
                number = min(_BATCH, last - self.steps)
                self._batch(number, cycle.at(self.steps / most), cycle.cooling(1.0 / most), plain_s)
                plain_s = 0.0

    def _by_clock(self) -> None:
        left = self.budget.left
        assert left is not None
        # The first batch may have to wait for machine code, which is no reason to cool down.
        self._batch(_FIRST_BATCH, _HEATS[0], 1.0, left())
        whole = before = left()
        if whole <= 0:
            return
        self._batch(_FIRST_BATCH, _HEATS[0], 1.0, 0.0)
        number, now = _FIRST_BATCH, left()
        for cycle in self._cycles(number * whole / max(1e-6, before - now)):
            while now > 0 and 1.0 - now / whole < cycle.end:
                number = int(number * min(4.0, max(0.25, _BATCH_S / max(1e-6, before - now)))) + 1
                before, share = now, min(1.0, _BATCH_S / whole) / number
                self._batch(number, cycle.at(1.0 - now / whole), cycle.cooling(share), 0.0)
                now = left()

    def _cycles(self, steps: float) -> Iterator[_SingleCycle]:
        """Give cycles, one after the other, that fill the budget, which allows about so many steps."""
        length = max(_SHORTEST, min(1.0, _CYCLE * self.ground.tasks / steps))
        begin, level = 0.0, 0
        while begin < 1.0:
            # What would be left for too short a cycle belongs to this one.
            end = begin + length if begin + 2.0 * length <= 1.0 else 1.0
            known = float(self.state.total[3])
            yield _SingleCycle(begin, end, _HEATS[level])
            if not float(self.state.total[3]) < known:
                level = (level + 1) % len(_HEATS)
            self.state.order[:] = self.state.best_order
            self.state.machine[:] = self.state.best_machine
            begin, length = end, _GROWTH * length

    def _batch(self, number: int, heat: float, cooling: float, plain_s: float) -> None:
        known = float(self.state.total[3])
        words = np.frombuffer(self.rng.bytes(8 * WORDS * number), dtype="<i8") & np.int64(2**63 - 1)
        compilation.run_kernel(
            anneal_single,
            (self.ground, self.terms, number, heat * self.heat, cooling, words, self.variates),
            (self.state,),
            work_s=plain_s,
        )
        self.steps += number
        if self.budget.tell is not None and self.state.total[3] < known:
            self._tell(self.budget)

    def _tell(self, budget: Budget) -> None:
        assert budget.tell is not None
        schedule = self._decoded(APPEND)
        worth = self._worth(schedule)
        if worth < self.told:
            self.told = worth
            budget.tell(
                PlanProgress(
                    by=self.by,
                    value=worth[1],
                    makespan_s=schedule.makespan_s,
                    bound_s=0.0,
                    steps=self.steps,
                )
            )

    def schedule(self) -> Schedule:
        """Give the best schedule; among equals the one to start from, else the one without gaps filled."""
        found = [self.start, self._decoded(APPEND), self._decoded(INSERTION)]
        return min(found, key=self._worth)

    def _decoded(self, rule: int) -> Schedule:
        bound = np.zeros(len(self.instance.graph.variables), dtype=np.uint32)
        bound[self.ground.variable] = self.state.best_machine
        return decode(self.instance, self.state.best_order, bound, rule=rule)

    def _worth(self, schedule: Schedule) -> tuple[float, float]:
        """Say what a schedule is worth as ``aims.worth_of`` does, by an aim; the smaller is better."""
        aim, makespan_s = self.aim, schedule.makespan_s
        cost = schedule_cost(schedule, self.instance)
        node_s = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
        missed = 0.0
        for amount, limit in ((makespan_s, aim.deadline_s), (cost, aim.max_cost)):
            if amount > limit * (1.0 + _ROUNDING):
                missed += (amount - limit) / limit if limit > 0 else amount
        return missed, aim.value(makespan_s, node_s, cost)


def _scale(ground: SingleProblem, terms: SingleObjective) -> float:
    """Give what a mean second of tasks and data is worth, and how much weights of one task differ."""
    seconds = _mean(ground.seconds) + _mean(ground.size) * _mean(ground.inverse)
    if ground.fixed is not None and ground.files is not None and ground.latency is not None:
        seconds += _mean(ground.fixed) + _mean(ground.files) * _mean(ground.latency)
    scale = seconds * terms.per_second
    if terms.weighed:
        scale += 0.25 * float(np.abs(terms.weight).mean())
    return scale or 1.0


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean()) if len(numbers) else 0.0


def has_equal_machines(instance: Instance) -> bool:
    """Say whether it makes no difference which machine serves a task."""
    if not serves_one_at_a_time(instance) or len(instance.machines) == 1:
        return False
    problem, graph, machines = compile_problem(instance), instance.graph, len(instance.machines)
    tasks = problem.tasks
    free = not (instance.pinned or graph.resource_names or len(graph.variables) < len(graph))
    together = problem.machines.hosts == 1 or not (tasks.size.any() or tasks.files.any() or tasks.fixed.any())
    everywhere = all(len(found) == machines for found in instance.candidate_sets)
    same_price = len(np.unique(instance.price_per_node_s)) == 1
    in_line = bool((problem.machines.form == SINGLE).all())
    return bool(
        free
        and together
        and everywhere
        and same_price
        and in_line
        and all(map(_has_equal_seconds, instance.groups))
    )


def _has_equal_seconds(group: ModeGroup) -> bool:
    """Say whether every task of a group takes the same time in all its modes."""
    return all(bool((seconds == seconds[:, :1]).all()) for _, seconds in group.chunks())


def search_equal_machines(
    instance: Instance, aim: LinearObjective, start: Schedule, budget: Budget, rng: np.random.Generator
) -> Plan:
    """Give a plan that is not worse than the one to start from."""
    joined = _merge_machines(instance)
    nowhere = np.zeros(len(instance), dtype=np.uint32)
    found = search_shared(
        joined, aim, replace(start, machines=(joined.machines[0].name,), machine=nowhere), budget, rng
    )
    return replace(found, schedule=_assign_machines(instance, found.schedule))


def _merge_machines(instance: Instance) -> Instance:
    """Make one machine of all."""
    machines, nowhere = len(instance.machines), np.zeros(1, dtype=np.uint32)
    return replace(
        instance,
        machines=(replace(instance.machines[0], nodes=machines),),
        network=replace(
            instance.network,
            location=nowhere,
            host=nowhere,
            latency_s=np.zeros((1, 1)),
            inverse_bandwidth=np.zeros((1, 1)),
        ),
        capacity=np.array([machines], dtype=np.int64),
        unlimited=np.zeros(1, dtype=np.bool_),
        price_per_node_s=instance.price_per_node_s[:1],
        amounts=instance.amounts[:1],
        candidate_sets=(nowhere,),
        candidates=np.zeros_like(instance.candidates),
        groups=tuple(map(_first_mode_only, instance.groups)),
    )


def _first_mode_only(group: ModeGroup) -> ModeGroup:
    return ModeGroup(
        tasks=group.tasks,
        machine=np.zeros(1, dtype=np.uint32),
        count=group.count[:1],
        nodes=group.nodes[:1],
        seconds_of=lambda tasks: group.seconds_of(tasks)[..., :1],
    )


def _assign_machines(instance: Instance, schedule: Schedule) -> Schedule:
    """Give every task the first machine that is free when it starts."""
    machine = np.zeros(len(schedule), dtype=np.uint32)
    free_s = np.zeros(len(instance.machines))
    for task in np.lexsort((schedule.finish_s, schedule.start_s)).tolist():
        if schedule.finish_s[task] > schedule.start_s[task]:
            chosen = int(np.argmax(free_s <= schedule.start_s[task]))
            machine[task] = chosen
            free_s[chosen] = schedule.finish_s[task]
    return replace(schedule, machines=tuple(found.name for found in instance.machines), machine=machine)
