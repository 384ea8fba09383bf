"""The search of ``weave`` on machines that run one task at a time: annealing over orders and machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, ModeGroup
from weft.kernels import compilation
from weft.kernels.problem import SHARED, SINGLE, make_arrays, select_fields
from weft.kernels.single_annealing import WORDS, SingleObjective, SingleProblem, SingleState, anneal_single
from weft.planners.decoding import APPEND, INSERTION, Genome, decode, encode_schedule
from weft.planners.evaluation import LinearObjective, Loss
from weft.planners.planner import Budget, Plan, PlanProgress
from weft.planners.problem import compile_problem
from weft.planners.shared_annealing import search_shared
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

_HEATS, _COLD = (0.15, 0.6, 2.4), 0.015
"""Temperatures at the start of a cycle and at its end; unit: mean seconds of a task and its transfers."""
_CYCLE, _GROWTH = 500, 4.0
"""Steps per task in the first cycle; factor by which each cycle is longer than the cycle before it."""
_SHORTEST = 1.0 / 64
"""Least share of the budget for the first cycle."""
_STEP_S = 12e-6
"""Approximate seconds per step in plain Python."""
_BATCH = 50_000
"""Steps between two checks of a budget of steps."""
_FIRST_BATCH, _BATCH_S = 500, 0.04
"""If only time is limited: steps of the first batch, and approximate seconds of each other batch."""
_VARIATES = 2048
_MAX_CELLS = 10_000_000
"""Largest number of cells of a table of tasks x machines or hosts x hosts."""
_PENALTY = 20.0
"""Penalty for exceeding a limit by 100 %, as a multiple of the objective value."""


def search_single(
    instance: Instance,
    objective: LinearObjective,
    start: Schedule,
    budget: Budget,
    rng: np.random.Generator,
    *,
    by: str = "weave",
) -> Plan:
    """Return the best plan of a search that starts from a schedule; it is never worse than the start.

    The loop over moves is ``weft.kernels.single_annealing``, which documents the arrays; cooling, batches and
    budget are here. The temperature is measured in mean seconds of a task and its transfers. It falls
    geometrically over a cycle. Each cycle starts from the best plan so far and is longer than the one before.
    After a cycle without improvement the next of three start temperatures is used. Cooling follows the steps,
    or the time used if the budget has only a clock.

    ``by`` is the name of the planner in progress reports.
    """
    if len(instance) == 0 or not budget.allows(0):
        return Plan(schedule=start, steps=0)
    search = _SingleSearch(instance=instance, objective=objective, start=start, budget=budget, rng=rng, by=by)
    cut = search.run()
    steps = max(1, search.steps)
    return Plan(schedule=search.schedule(), steps=steps, cut=cut, interrupted=search.interrupted)


class _SingleCycle(NamedTuple):
    """One cycle of cooling; begin and end are shares of the budget."""

    begin: float
    end: float
    hot: float

    def at(self, share: float) -> float:
        """Return the temperature when ``share`` of the budget is spent."""
        done = (share - self.begin) / (self.end - self.begin)
        return float(self.hot * (_COLD / self.hot) ** done)

    def cooling(self, share: float) -> float:
        """Return the factor by which the temperature falls while another ``share`` of the budget is used."""
        return float((_COLD / self.hot) ** (share / (self.end - self.begin)))


@dataclass(slots=True, kw_only=True)
class _SingleSearch:
    """The state of one search, and its best plan so far."""

    instance: Instance
    objective: LinearObjective
    start: Schedule
    budget: Budget
    rng: np.random.Generator
    by: str
    steps: int = 0
    interrupted: bool = False
    problem: SingleProblem = field(init=False)
    terms: SingleObjective = field(init=False)
    state: SingleState = field(init=False)
    second: float = field(init=False)
    """The objective value that corresponds to a temperature of 1."""
    variates: NDArray[np.float64] = field(init=False)
    reported: Loss = field(init=False)
    """Loss of the last reported schedule."""

    def __post_init__(self) -> None:
        self.reported = self.objective.loss(self.instance, self.start)
        self.problem = build_single_problem(self.instance)
        self.terms = build_terms(self.instance, self.objective, abs(self.reported.value) or 1.0)
        self.state = build_state(self.problem, encode_schedule(self.instance, self.start))
        self.second = _scale(self.problem, self.terms)
        self.variates = np.array([-math.log((index + 0.5) / _VARIATES) for index in range(_VARIATES)])

    def run(self) -> bool:
        """Search until the budget is spent; return whether the clock or Ctrl-C ended the search."""
        try:
            if self.budget.steps is None:
                self._by_clock()
            else:
                self._by_steps(self.budget.steps)
        except KeyboardInterrupt:
            self.interrupted = True
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
        # The first batch may include compilation, during which the temperature must not fall.
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
        """Yield cycles that fill the budget of about ``steps`` steps."""
        length = max(_SHORTEST, min(1.0, _CYCLE * self.problem.tasks / steps))
        begin, level = 0.0, 0
        while begin < 1.0:
            # If less than one more cycle would remain, this cycle lasts until the end of the budget.
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
            (self.problem, self.terms, number, heat * self.second, cooling, words, self.variates),
            (self.state,),
            work_s=plain_s,
        )
        self.steps += number
        if self.budget.on_progress is not None and self.state.total[3] < known:
            self._report()

    def _report(self) -> None:
        assert self.budget.on_progress is not None
        schedule = self._decoded(APPEND)
        if (loss := self.objective.loss(self.instance, schedule)) < self.reported:
            self.reported = loss
            self.budget.on_progress(
                PlanProgress(
                    by=self.by,
                    value=loss.value,
                    makespan_s=schedule.makespan_s,
                    bound_s=0.0,
                    steps=self.steps,
                )
            )

    def schedule(self) -> Schedule:
        """Return the best of the start and of the best state decoded with APPEND and with INSERTION."""
        found = [self.start, self._decoded(APPEND), self._decoded(INSERTION)]
        return min(found, key=lambda one: self.objective.loss(self.instance, one))

    def _decoded(self, rule: int) -> Schedule:
        bound = self.instance.bind_variables(self.state.best_machine)
        return decode(self.instance, self.state.best_order, bound, rule=rule)


def _scale(problem: SingleProblem, terms: SingleObjective) -> float:
    """Return the unit of temperature: the objective value of the mean seconds of a task and its transfers.

    If node-seconds or prices count in the objective, a quarter of their mean weight is added.
    """
    seconds = _mean(problem.seconds) + _mean(problem.size) * _mean(problem.inverse)
    if problem.fixed is not None and problem.files is not None and problem.latency is not None:
        seconds += _mean(problem.fixed) + _mean(problem.files) * _mean(problem.latency)
    scale = seconds * terms.per_second
    if terms.weighed:
        scale += 0.25 * float(np.abs(terms.weight).mean())
    return scale or 1.0


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean()) if len(numbers) else 0.0


def has_equal_machines(instance: Instance) -> bool:
    """Return whether there are several machines, all equal for every task, and data take no time."""
    if not serves_one_at_a_time(instance) or len(instance.machines) == 1:
        return False
    problem, graph, machines = compile_problem(instance), instance.graph, len(instance.machines)
    tasks = problem.tasks
    free = not (instance.pinned or graph.resource_names or len(graph.variables) < len(graph))
    together = problem.machines.hosts == 1 or not (tasks.size.any() or tasks.files.any() or tasks.fixed.any())
    everywhere = all(len(found) == machines for found in instance.candidate_sets)
    same_price = len(np.unique(instance.price_per_node_s)) == 1
    serial = bool((problem.machines.form == SINGLE).all())
    return bool(
        free
        and together
        and everywhere
        and same_price
        and serial
        and all(map(_has_equal_seconds, instance.groups))
    )


def _has_equal_seconds(group: ModeGroup) -> bool:
    """Return whether every task of a group takes the same time in all its modes."""
    return all(bool((seconds == seconds[:, :1]).all()) for _, seconds in group.chunks())


def search_equal_machines(
    instance: Instance, objective: LinearObjective, start: Schedule, budget: Budget, rng: np.random.Generator
) -> Plan:
    """Return the best plan of a search over task orders only; it is never worse than the start.

    If data take no time and tasks take equally long on all machines, the choice of a machine does not matter.
    The machines are then treated as one machine with a node per machine, and only orders are searched, which
    is much faster. Tasks are assigned to the machines afterwards.
    """
    joined = _merge_machines(instance)
    first = np.zeros(len(instance), dtype=np.uint32)
    found = search_shared(
        joined, objective, replace(start, machines=(joined.machines[0].name,), machine=first), budget, rng
    )
    return replace(found, schedule=_assign_machines(instance, found.schedule))


def _merge_machines(instance: Instance) -> Instance:
    """Return the instance with one machine that has a node for each original machine."""
    machines, first = len(instance.machines), np.zeros(1, dtype=np.uint32)
    return replace(
        instance,
        machines=(replace(instance.machines[0], nodes=machines),),
        network=replace(
            instance.network,
            location=first,
            host=first,
            latency_s=np.zeros((1, 1)),
            inverse_bandwidth=np.zeros((1, 1)),
        ),
        capacity=np.array([machines], dtype=np.int64),
        unlimited=np.zeros(1, dtype=np.bool_),
        price_per_node_s=instance.price_per_node_s[:1],
        amounts=instance.amounts[:1],
        candidate_sets=(first,),
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
    """Return the schedule with every task on the first machine that is free at its start."""
    machine = np.zeros(len(schedule), dtype=np.uint32)
    free_s = np.zeros(len(instance.machines))
    for task in np.lexsort((schedule.finish_s, schedule.start_s)).tolist():
        if schedule.finish_s[task] > schedule.start_s[task]:
            chosen = int(np.argmax(free_s <= schedule.start_s[task]))
            machine[task] = chosen
            free_s[chosen] = schedule.finish_s[task]
    return replace(schedule, machines=tuple(found.name for found in instance.machines), machine=machine)


def serves_one_at_a_time(instance: Instance) -> bool:
    """Return whether ``search_single`` supports the instance.

    It supports no moldable tasks, transfer tasks, machines with counted nodes, budgets that a plan could
    exceed, or very large instances.
    """
    problem = compile_problem(instance)
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    small = max(tasks.number * machines.number, machines.hosts**2) <= _MAX_CELLS
    simple = tasks.transfers == 0 and not (machines.form == SHARED).any() and not modes.moldable.any()
    return bool(small and simple and not instance.binding_budgets())


def build_single_problem(instance: Instance) -> SingleProblem:
    """Return the arrays of an instance for the kernel ``anneal_single``."""
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines
    seconds = _seconds(instance)
    option_pointer, option, choice = _options(instance, seconds)
    members = np.argsort(tasks.variable, kind="stable").astype(np.uint32)
    number = np.bincount(tasks.variable, minlength=tasks.variables)
    inverse, latency, apart = _links(instance)
    # In most workflows the transfer time depends only on the size; the kernel for that is faster.
    rich = bool(tasks.fixed.any() or (tasks.files.any() and latency.any()))
    sinks = np.flatnonzero(np.diff(tasks.after_pointer.astype(np.int64)) == 0).astype(np.uint32)
    return select_fields(
        SingleProblem,
        tasks,
        machines,
        tasks=tasks.number,
        machines=machines.number,
        choice=choice,
        option_pointer=option_pointer,
        option=option,
        member_pointer=np.concatenate([[0], np.cumsum(number)]).astype(np.uint32),
        member=members,
        seconds=np.where(np.isfinite(seconds), seconds, 0.0).reshape(-1),
        lined=(machines.form == SINGLE).astype(np.uint8),
        files=tasks.files if rich else None,
        fixed=tasks.fixed if rich else None,
        inverse=inverse.reshape(-1),
        latency=latency.reshape(-1) if rich else None,
        apart=apart.reshape(-1) if rich else None,
        sinks=len(sinks),
        sink=sinks,
    )


def _seconds(instance: Instance) -> Floats:
    """Return a table (tasks x machines) of seconds; infinity where a task cannot run."""
    table = np.full((len(instance), len(instance.machines)), np.inf)
    table[instance.graph.kind != COMPUTE] = 0.0
    for group in instance.groups:
        for tasks, seconds in group.chunks():
            table[tasks[:, None], group.machine] = seconds
    return table


def _options(instance: Instance, seconds: Floats) -> tuple[Indices, Indices, Indices]:
    """Return the distinct sets of allowed machines (CSR), and the number of the set of each variable."""
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
    """Return three tables (hosts x hosts): seconds per byte, seconds per file, and ones; diagonals are 0."""
    network = instance.network
    hosts = compile_problem(instance).machines.hosts
    location = np.zeros(hosts, dtype=np.int64)
    location[network.host] = network.location
    apart = 1.0 - np.eye(hosts)
    between = np.ix_(location, location)
    inverse = np.where(apart > 0, network.inverse_bandwidth[between], 0.0)
    return inverse, np.where(apart > 0, network.latency_s[between], 0.0), apart


def build_terms(instance: Instance, objective: LinearObjective, scale: float) -> SingleObjective:
    """Return the objective for the kernel; penalties are proportional to ``scale``, an objective value."""
    shape = (len(instance), len(instance.machines)) if not objective.is_makespan else (0, 0)
    weight, price = np.zeros(shape), np.zeros(shape)
    for group in instance.groups if not objective.is_makespan else ():
        for tasks, seconds in group.chunks():
            taken = seconds * group.nodes
            paid = taken * instance.price_per_node_s[group.machine]
            weight[tasks[:, None], group.machine] = taken * objective.per_node_s + paid * objective.per_price
            price[tasks[:, None], group.machine] = paid
    return SingleObjective(
        per_second=objective.per_second,
        deadline=objective.deadline_s,
        per_late_second=_per_excess(scale, objective.deadline_s),
        weighed=int(not objective.is_makespan),
        weight=weight.reshape(-1),
        price=price.reshape(-1),
        most=objective.max_cost,
        per_excess=_per_excess(scale, objective.max_cost),
    )


def _per_excess(scale: float, limit: float) -> float:
    if not np.isfinite(limit):
        return 0.0
    return _PENALTY * scale / limit if limit > 0 else _PENALTY * scale


def build_state(field: SingleProblem, genome: Genome) -> SingleState:
    """Return the annealing state with the order and machines of a genome.

    The kernel fills the other arrays.
    """
    machine = genome.bound[field.variable].astype(np.uint32)
    return make_arrays(
        SingleState,
        field.tasks,
        order=genome.order.copy(),
        machine=machine,
        first=field.machines,
        last=field.machines,
        total=np.array([0.0, 0.0, 0.0, np.inf]),
        best_order=genome.order.copy(),
        best_machine=machine.copy(),
    )
