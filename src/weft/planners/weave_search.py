"""The searches of the planner ``weave``: annealing of task orders, machines and modes from one schedule.

``search_single`` serves machines that run one task at a time, ``search_equal_machines`` such machines without
differences, ``search_shared`` all others: moldable tasks, resources, budgets, data transfers. The loops over
moves are ``weft.kernels.weave``, which documents the arrays; cooling, batches and budgets are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.instance import BusyInterval, Instance, ModeGroup, find_exceeded, largest_consumption
from weft.kernels import compilation
from weft.kernels.problem import OPEN, SHARED, SINGLE, TaskArrays, make_arrays, select_fields
from weft.kernels.weave import (
    SHARED_DRAWS,
    SINGLE_WORDS,
    SharedGoal,
    SharedLinks,
    SharedModes,
    SharedMoves,
    SharedProblem,
    SharedSchedule,
    SharedScore,
    SharedScratch,
    SharedState,
    SingleObjective,
    SingleProblem,
    SingleState,
    anneal_shared,
    anneal_single,
)
from weft.planners.decoding import APPEND, INSERTION, Genome, decode, encode_schedule
from weft.planners.evaluation import LinearObjective, Loss
from weft.planners.planner import Budget, Plan, PlanProgress
from weft.planners.problem import compile_problem, make_schedule
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph

_PLANNER = "weave"
"""Name of the planner in progress reports."""
_PENALTY = 20.0
"""Penalty for exceeding a limit by 100 %, as a multiple of the objective value."""

_SINGLE_HEATS, _SINGLE_COLD = (0.15, 0.6, 2.4), 0.015
"""Temperatures at the start of a cycle and at its end; unit: mean seconds of a task and its transfers."""
_SINGLE_CYCLE_STEPS, _SINGLE_CYCLE_GROWTH = 500, 4.0
"""Steps per task in the first cycle; factor by which each cycle is longer than the cycle before it."""
_SINGLE_LEAST_CYCLE = 1.0 / 64
"""Least share of the budget for the first cycle."""
_SINGLE_STEP_S = 12e-6
"""Approximate seconds per step in plain Python."""
_SINGLE_BATCH = 50_000
"""Steps between two checks of a budget of steps."""
_SINGLE_FIRST_BATCH, _SINGLE_BATCH_S = 500, 0.04
"""If only time is limited: steps of the first batch, and approximate seconds of each other batch."""
_VARIATES = 2048
_SINGLE_MOST_CELLS = 10_000_000
"""Largest number of cells of a table of tasks x machines or hosts x hosts."""

_SHARED_COLDEST, _SHARED_HEATS, _SHARED_COOLING = 0.03, (1.0, 4.0, 16.0, 64.0), 0.15
"""A cycle starts at the temperature coldest * heat * objective value / number of tasks.

It cools down to ``_SHARED_COOLING`` times that temperature.
"""
_SHARED_GAIN = 1e-3
"""If a cycle improves the plan by at least this share, the next cycle has the same temperature and drag."""
_SHARED_DRAGS = (1.0, 0.0)
"""Factors of the drag (``_SHARED_DRAG``) of moldable tasks: each temperature is tried with both."""
_SHARED_CYCLE_STEPS = 4000
"""Number of evaluations per task in the first cycle."""
_SHARED_LARGEST_CYCLE = 0.125
"""Largest share of the budget for a cycle."""
_SHARED_TASK_S, _SHARED_EDGE_S = 60e-9, 5e-9
"""Approximate seconds per task and per edge of an evaluation by the compiled kernel."""
_SHARED_PLAIN_FACTOR = 60.0
"""Factor by which plain Python is slower than the compiled kernel."""
_SHARED_BATCH_S, _SHARED_LEAST_BATCH = 0.03, 16
"""Approximate seconds of a batch, and its least number of evaluations."""
_SHARED_DRAG = 0.3
"""Weight of (node-seconds / all nodes) relative to the makespan in the annealed value, called drag.

The drag is added if some task is moldable, so that tasks do not take many nodes for a small gain.
"""
_JUSTIFIED, _MOLDED, _TAKEN, _BOTH = 0.02, 0.5, 0.3, 0.5
"""Probabilities of the kinds of moves (``SharedMoves``) if all kinds are possible."""
_MAX_DESCENDANT_TASKS = 3000
"""Largest number of tasks for which the descendants of every task are computed."""
_SHARED_MOST_MODES = 8_000_000
"""Largest number of modes of an instance that is searched."""
_BITS = 63
"""Bits of a signed integer without its sign."""
_SCALES = (1.0, 2.0, 4.0, 10.0, 100.0, 1000.0)
"""Factors tried one after another to make all amounts integers."""
_PARTS_OF_TOTAL = (720720, 55440, 5040, 840, 60, 12, 2, 1)
"""Numbers of parts into which a total is divided if amounts are no integers.

Numbers with many divisors represent common fractions of the total exactly.
"""
_ROUNDING = 1e-9
"""Relative tolerance in comparisons of amounts, for rounding errors."""

_Integers = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class _WeaveSearch:
    """One search: what it searches, its budget, and the steps done so far."""

    instance: Instance
    objective: LinearObjective
    budget: Budget
    rng: np.random.Generator
    steps: int = 0
    interrupted: bool = False

    def run_cycles(self, cycles: Callable[[], None]) -> bool:
        """Run all cycles of a search; return whether the clock or Ctrl-C ended it."""
        try:
            cycles()
        except KeyboardInterrupt:
            self.interrupted = True
            return True
        return self.budget.steps is None or self.steps < self.budget.steps

    def report(self, value: float, makespan_s: float) -> None:
        """Report the objective value and makespan of a better plan to the progress listener."""
        assert self.budget.on_progress is not None
        progress = PlanProgress(
            by=_PLANNER, value=value, makespan_s=makespan_s, bound_s=0.0, steps=self.steps
        )
        self.budget.on_progress(progress)


def _variable_members(tasks: TaskArrays) -> dict[str, Indices]:
    """Return the fields ``member_pointer`` and ``member``: the tasks of each binding variable, ascending."""
    number = np.bincount(tasks.variable, minlength=tasks.variables)
    return {
        "member_pointer": np.concatenate([[0], np.cumsum(number)]).astype(np.uint32),
        "member": np.argsort(tasks.variable, kind="stable").astype(np.uint32),
    }


def search_single(
    instance: Instance,
    objective: LinearObjective,
    start: Schedule,
    budget: Budget,
    rng: np.random.Generator,
) -> Plan:
    """Return the best plan of a search that starts from a schedule; it is never worse than the start.

    The temperature is measured in mean seconds of a task and its transfers. It falls geometrically over a
    cycle. Each cycle starts from the best plan so far and is longer than the one before. After a cycle
    without improvement the next of three start temperatures is used. Cooling follows the steps, or the time
    used if the budget has only a clock.
    """
    if len(instance) == 0 or not budget.allows(0):
        return Plan(schedule=start, steps=0)
    search = _SingleSearch(instance=instance, objective=objective, start=start, budget=budget, rng=rng)
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
        return float(self.hot * (_SINGLE_COLD / self.hot) ** done)

    def cooling(self, share: float) -> float:
        """Return the factor by which the temperature falls while another ``share`` of the budget is used."""
        return float((_SINGLE_COLD / self.hot) ** (share / (self.end - self.begin)))


@dataclass(slots=True, kw_only=True)
class _SingleSearch(_WeaveSearch):
    """A search on machines that run one task at a time: its arrays and the best state so far."""

    start: Schedule
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
        self.terms = build_single_objective(self.instance, self.objective, abs(self.reported.value) or 1.0)
        self.state = build_single_state(self.problem, encode_schedule(self.instance, self.start))
        self.second = _temperature_unit(self.problem, self.terms)
        self.variates = np.array([-math.log((index + 0.5) / _VARIATES) for index in range(_VARIATES)])

    def run(self) -> bool:
        """Search until the budget is spent; return whether the clock or Ctrl-C ended the search."""
        return self.run_cycles(self._by_clock if self.budget.steps is None else self._by_steps)

    def _by_steps(self) -> None:
        most = self.budget.steps
        assert most is not None
        plain_s = most * _SINGLE_STEP_S
        for cycle in self._cycles(most):
            while self.budget.allows(self.steps) and self.steps < (last := round(cycle.end * most)):
                number = min(_SINGLE_BATCH, last - self.steps)
                self._batch(number, cycle.at(self.steps / most), cycle.cooling(1.0 / most), plain_s)
                plain_s = 0.0

    def _by_clock(self) -> None:
        left = self.budget.left
        assert left is not None
        # The first batch may include compilation, during which the temperature must not fall.
        self._batch(_SINGLE_FIRST_BATCH, _SINGLE_HEATS[0], 1.0, left())
        whole = before = left()
        if whole <= 0:
            return
        self._batch(_SINGLE_FIRST_BATCH, _SINGLE_HEATS[0], 1.0, 0.0)
        number, now = _SINGLE_FIRST_BATCH, left()
        for cycle in self._cycles(number * whole / max(1e-6, before - now)):
            while now > 0 and 1.0 - now / whole < cycle.end:
                number = int(number * min(4.0, max(0.25, _SINGLE_BATCH_S / max(1e-6, before - now)))) + 1
                before, share = now, min(1.0, _SINGLE_BATCH_S / whole) / number
                self._batch(number, cycle.at(1.0 - now / whole), cycle.cooling(share), 0.0)
                now = left()

    def _cycles(self, steps: float) -> Iterator[_SingleCycle]:
        """Yield cycles that fill the budget of about ``steps`` steps."""
        length = max(_SINGLE_LEAST_CYCLE, min(1.0, _SINGLE_CYCLE_STEPS * self.problem.tasks / steps))
        begin, level = 0.0, 0
        while begin < 1.0:
            # If less than one more cycle would remain, this cycle lasts until the end of the budget.
            end = begin + length if begin + 2.0 * length <= 1.0 else 1.0
            known = float(self.state.total[3])
            yield _SingleCycle(begin, end, _SINGLE_HEATS[level])
            if not float(self.state.total[3]) < known:
                level = (level + 1) % len(_SINGLE_HEATS)
            self.state.order[:] = self.state.best_order
            self.state.machine[:] = self.state.best_machine
            begin, length = end, _SINGLE_CYCLE_GROWTH * length

    def _batch(self, number: int, heat: float, cooling: float, plain_s: float) -> None:
        known = float(self.state.total[3])
        words = np.frombuffer(self.rng.bytes(8 * SINGLE_WORDS * number), dtype="<i8") & np.int64(2**63 - 1)
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
        schedule = self._decoded(APPEND)
        if (loss := self.objective.loss(self.instance, schedule)) < self.reported:
            self.reported = loss
            self.report(loss.value, schedule.makespan_s)

    def schedule(self) -> Schedule:
        """Return the best of the start and of the best state decoded with APPEND and with INSERTION."""
        found = [self.start, self._decoded(APPEND), self._decoded(INSERTION)]
        return min(found, key=lambda one: self.objective.loss(self.instance, one))

    def _decoded(self, rule: int) -> Schedule:
        bound = self.instance.bind_variables(self.state.best_machine)
        return decode(self.instance, self.state.best_order, bound, rule=rule)


def _temperature_unit(problem: SingleProblem, terms: SingleObjective) -> float:
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
    small = max(tasks.number * machines.number, machines.hosts**2) <= _SINGLE_MOST_CELLS
    simple = tasks.transfers == 0 and not (machines.form == SHARED).any() and not modes.moldable.any()
    return bool(small and simple and not instance.binding_budgets())


def build_single_problem(instance: Instance) -> SingleProblem:
    """Return the arrays of an instance for the kernel ``anneal_single``."""
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines
    seconds = _seconds(instance)
    option_pointer, option, choice = _machine_options(instance, seconds)
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
        **_variable_members(tasks),
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


def _machine_options(instance: Instance, seconds: Floats) -> tuple[Indices, Indices, Indices]:
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


def build_single_objective(instance: Instance, objective: LinearObjective, scale: float) -> SingleObjective:
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


def build_single_state(field: SingleProblem, genome: Genome) -> SingleState:
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


def search_shared(
    instance: Instance,
    objective: LinearObjective,
    start: Schedule | None,
    budget: Budget,
    rng: np.random.Generator,
) -> Plan:
    """Return the best plan of a search that starts from a schedule; it is never worse than the start.

    The search anneals orders, node counts and machines together, in cycles. Each cycle starts from the best
    plan so far and cools down from one of several temperatures. A temperature that improved the plan is used
    again, otherwise the next temperature is tried; after all temperatures have failed, cycles become twice as
    long. The lowest temperature comes first, because the plans of list planners are good and most
    improvements are small changes. Cooling follows the number of evaluations, so that the same seed and steps
    give the same plan; a cycle that would take too large a share of the budget is cooled faster.

    Without a start, or if the start exceeds the budgets of the workflow, the search starts from the modes
    that consume least of these budgets.
    Raises Infeasible if no plan is found that keeps
    the budgets.
    """
    if (workspace := build_shared_workspace(instance, objective)) is None:
        return _return_start(instance, start)
    state = (
        _initial_shared_state(instance, workspace)
        if start is None
        else _encode_shared_state(instance, workspace, start)
    )
    if start is not None and workspace.ways.budgets and _exceeds_budgets(workspace, state):
        start, state = None, _initial_shared_state(instance, workspace)
    search = _SharedSearch(
        instance=instance, objective=objective, workspace=workspace, budget=budget, rng=rng
    )
    cut = search.run(state)
    if workspace.ways.budgets and _exceeds_budgets(workspace, search.best):
        raise Infeasible(
            f"no plan within the budgets ({', '.join(instance.binding_budgets())}) was found in "
            "the given time; one may exist: give the planner more time (--plan-time)"
        )
    found = search.schedule()
    if start is not None and objective.loss(instance, start) <= objective.loss(instance, found):
        found = start
    return Plan(schedule=found, steps=search.steps, cut=cut, interrupted=search.interrupted)


def _return_start(instance: Instance, start: Schedule | None) -> Plan:
    if start is None or instance.binding_budgets():
        raise Infeasible(
            f"the {len(instance)} tasks have more than {_SHARED_MOST_MODES:,} modes; "
            "workflows with budgets can only be planned with fewer modes"
        )
    return Plan(schedule=start, steps=0)


def _exceeds_budgets(workspace: SharedWorkspace, state: SharedState) -> bool:
    ways = workspace.ways
    chosen = state.mode[state.mode < ways.first[1:]]
    used = ways.use.reshape(-1, ways.budgets)[chosen].sum(axis=0)
    return bool((used > 1.0 + _ROUNDING).any())


def _empty_score() -> SharedScore:
    return SharedScore(*(np.full(1, math.inf) for _ in SharedScore._fields))


class _SharedCycle(NamedTuple):
    """One cycle of cooling: its first temperature, its evaluations, and where in the budget it begins."""

    heat: float
    length: int
    first_step: int
    first_share: float

    def temperature(self, step: int, share: float) -> float | None:
        """Return the temperature at a step, if ``share`` of the budget is spent; None after the cycle."""
        done = max((step - self.first_step) / self.length, (share - self.first_share) / _SHARED_LARGEST_CYCLE)
        return None if done >= 1.0 else float(self.heat * _SHARED_COOLING**done)


@dataclass(slots=True, kw_only=True)
class _SharedSearch(_WeaveSearch):
    """A search on shared machines: its arrays, the current state and the best state so far."""

    workspace: SharedWorkspace
    state: SharedState = field(init=False)
    best: SharedState = field(init=False)
    score: SharedScore = field(init=False)
    whole_s: float = math.inf
    """Seconds of the planning time that were left when the search started."""

    def run(self, state: SharedState) -> bool:
        """Search from a state until the budget is spent; return whether the clock or Ctrl-C ended it."""
        self.state, self.best = state, SharedState(*(part.copy() for part in state))
        self._evaluate_start()
        shop, moves = self.workspace.shop, self.workspace.moves
        if shop.tasks == 0 or not (moves.shifts or moves.molds or moves.takes):
            return False
        return self.run_cycles(self._cycles)

    def _evaluate_start(self) -> None:
        """Evaluate the first state; set the penalty for exceeded limits in proportion to its value."""
        self.score = _empty_score()
        self._decode(self.state, self.score)
        self.steps = 1
        scale = abs(float(self.score.value[0])) or 1.0
        goal = self.workspace.goal._replace(penalty=_PENALTY * scale)
        self.workspace = self.workspace._replace(goal=goal)

    @property
    def _evaluation_s(self) -> float:
        shop = self.workspace.shop
        return shop.tasks * _SHARED_TASK_S + len(shop.before) * _SHARED_EDGE_S

    def _share(self) -> float:
        """Return the spent share of steps or of time, whichever is larger, from 0 to 1."""
        by_steps = self.steps / self.budget.steps if self.budget.steps else 0.0
        by_clock = 1.0 - self.budget.left() / self.whole_s if self.budget.left is not None else 0.0
        return max(by_steps, by_clock)

    def _cycles(self) -> None:
        if self.budget.left is not None:
            self.whole_s = max(self.budget.left(), 1e-9)
        coldest = _SHARED_COLDEST / self.workspace.shop.tasks
        goal, length = self.workspace.goal, _SHARED_CYCLE_STEPS * self.workspace.shop.tasks
        kinds = list(product(_SHARED_HEATS, _SHARED_DRAGS if self.workspace.ways.drag.any() else (0.0,)))
        kind, failed = 0, 0
        while self.budget.allows(self.steps):
            known = self._best_score()
            scale = abs(float(self.score.best_value[0])) or 1.0
            factor, drag = kinds[kind]
            heat = coldest * factor * scale
            self.workspace = self.workspace._replace(goal=goal._replace(drag=drag))
            self._cool(
                _SharedCycle(heat=heat, length=length, first_step=self.steps, first_share=self._share())
            )
            missed, value = self._best_score()
            if missed < known[0] or value < known[1] - _SHARED_GAIN * scale:
                failed = 0
                continue
            failed, kind = failed + 1, (kind + 1) % len(kinds)
            if failed % len(kinds) == 0:
                length *= 2

    def _best_score(self) -> tuple[float, float]:
        return float(self.score.best_missed[0]), float(self.score.best_value[0])

    def _cool(self, cycle: _SharedCycle) -> None:
        """Anneal through one cycle, starting from the best state."""
        for part, best in zip(self.state, self.best, strict=True):
            part[:] = best
        self.score.missed[0], self.score.value[0] = self._best_score()
        batch = max(_SHARED_LEAST_BATCH, min(int(_SHARED_BATCH_S / self._evaluation_s), cycle.length // 50))
        while self.budget.allows(self.steps):
            if (heat := cycle.temperature(self.steps, self._share())) is None:
                return
            if self.budget.steps is not None:
                # At most a hundredth of the budget, so that small budgets cool down as well.
                batch = max(1, min(batch, self.budget.steps - self.steps, 1 + self.budget.steps // 100))
            self._batch(heat, batch)

    def _batch(self, heat: float, number: int) -> None:
        known = self._best_score()
        uniform, exponential = self.rng.random(SHARED_DRAWS * number), self.rng.standard_exponential(number)
        self.steps += self._anneal(heat, uniform, exponential, (self.state, self.best, self.score))
        if self.budget.on_progress is not None and self._best_score() < known:
            self.report(float(self.score.best_value[0]), self.schedule().makespan_s)

    def _decode(self, state: SharedState, score: SharedScore) -> None:
        self._anneal(0.0, np.zeros(SHARED_DRAWS), np.zeros(1), (state, self.best, score), fresh=True)

    def _anneal(
        self,
        heat: float,
        uniform: Floats,
        exponential: Floats,
        states: tuple[SharedState, SharedState, SharedScore],
        *,
        fresh: bool = False,
    ) -> int:
        shop, links, ways, _, goal, moves, layout, scratch = self.workspace
        number = len(exponential)
        spent: int = compilation.run_kernel(
            anneal_shared,
            (shop, links, ways, goal, moves, int(fresh), heat, number, uniform, exponential, scratch),
            (layout, *states),
            work_s=number * self._evaluation_s * _SHARED_PLAIN_FACTOR,
        )
        return spent

    def schedule(self) -> Schedule:
        """Return the schedule of the best state."""
        instance, layout = self.instance, self.workspace.layout
        # A copy is decoded, so that progress reports do not change the search.
        self._decode(SharedState(*(part.copy() for part in self.best)), _empty_score())
        compute = instance.graph.kind == COMPUTE
        modes = compile_problem(instance).modes
        chosen = modes.first[modes.group[compute]] + self.workspace.mode[self.best.mode[compute]]
        nodes = np.zeros(len(instance), dtype=np.uint32)
        nodes[compute] = modes.nodes[chosen]
        return make_schedule(
            instance,
            machine=self.best.bound[instance.graph.variable],
            nodes=nodes,
            start_s=layout.start.copy(),
            finish_s=layout.finish.copy(),
        )


def _encode_shared_state(instance: Instance, workspace: SharedWorkspace, schedule: Schedule) -> SharedState:
    """Return the state of a schedule; a mode that the search does not use is replaced by a better one."""
    genome, ways = encode_schedule(instance, schedule), workspace.ways
    # Listed modes are sorted by task and mode: take the last one up to the genome's mode (same machine).
    number = len(instance)
    task = np.repeat(np.arange(number), np.diff(ways.first.astype(np.int64)))
    most = int(max(workspace.mode.max(initial=0), genome.modes.max(initial=0))) + 1
    keys, wanted = task * most + workspace.mode, np.arange(number) * most + genome.modes
    found = np.searchsorted(keys, wanted, side="right") - 1
    way = np.where(np.diff(ways.first.astype(np.int64)) > 0, found, ways.first[1:])
    return _shared_state(genome.order, way, genome.bound)


def _initial_shared_state(instance: Instance, workspace: SharedWorkspace) -> SharedState:
    """Return a state in which every task has the mode that consumes least of the budgets.

    Of modes with equal consumption the fastest is taken. Each variable is bound to the machine on which all
    its tasks together consume least. Tasks are ordered by descending longest path to the end.
    """
    ways, graph = workspace.ways, instance.graph
    task = np.repeat(np.arange(len(graph)), np.diff(ways.first.astype(np.int64)))
    used = ways.use.reshape(len(task), -1).sum(axis=1) if ways.budgets else np.zeros(len(task))
    best = np.lexsort((np.arange(len(task)), ways.seconds, used))
    bound = _bindings(instance, task, ways.machine, used, ways.seconds)
    way = ways.first[1:].astype(np.int64)
    # The best mode is written last, so that it stays.
    for chosen in best[::-1].tolist():
        owner = int(task[chosen])
        if ways.machine[chosen] == bound[graph.variable[owner]]:
            way[owner] = chosen
    seconds = np.zeros(len(graph))
    computes = way < ways.first[1:]
    seconds[computes] = ways.seconds[way[computes]]
    # A task of 0 s has the same remaining time as its successors: break ties by index.
    left = workspace.shop.tail + seconds
    for index in range(len(graph) - 1, -1, -1):
        after = graph.successors(index)
        if len(after):
            left[index] = max(left[index], seconds[index] + left[after].max())
    return _shared_state(np.lexsort((np.arange(len(graph)), -left)).astype(np.uint32), way, bound)


def _bindings(
    instance: Instance, task: NDArray[np.intp], machine: Indices, used: Floats, seconds: Floats
) -> Indices:
    """Return for each variable the machine on which its tasks consume least of the budgets.

    Ties go to the least seconds, then to the lower index.
    """
    graph, machines = instance.graph, len(instance.machines)
    least = np.full((2, len(graph), machines), np.inf)
    np.minimum.at(least[0], (task, machine), used)
    np.minimum.at(least[1], (task, machine), seconds)
    bound = np.zeros(len(graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        candidates = instance.candidates_of(variable)
        members = np.flatnonzero((graph.variable == variable) & (instance.group >= 0))
        use, spent = least[:, members][:, :, candidates].sum(axis=1)
        bound[variable] = instance.pinned.get(variable, candidates[np.lexsort((spent, use))[0]])
    return bound


def _shared_state(order: Indices, way: NDArray[np.int64], bound: Indices) -> SharedState:
    place = np.empty(len(order), dtype=np.uint32)
    place[order] = np.arange(len(order))
    return SharedState(order=order.copy(), place=place, mode=way.astype(np.uint32), bound=bound.copy())


class SharedWorkspace(NamedTuple):
    """The inputs and scratch arrays of the kernel."""

    shop: SharedProblem
    links: SharedLinks
    ways: SharedModes
    mode: Indices
    """Per listed mode: its position among the modes of the task's group."""
    goal: SharedGoal
    moves: SharedMoves
    layout: SharedSchedule
    scratch: SharedScratch


def build_shared_workspace(instance: Instance, objective: LinearObjective) -> SharedWorkspace | None:
    """Return the arrays of an instance for the kernel; None if the instance has too many modes."""
    listed = _list_shared_modes(instance, efficient=objective.per_node_s >= 0 and objective.per_price >= 0)
    if listed is None:
        return None
    problem = compile_problem(instance)
    descends = _descendants(instance.graph)
    ways, shop = _ways_and_shop(instance, objective, listed, descends)
    tasks, machines = problem.tasks, problem.machines
    links = select_fields(SharedLinks, tasks, machines, far=int(machines.hosts > 1))
    return SharedWorkspace(
        shop=shop,
        links=links,
        ways=ways,
        mode=listed.mode,
        goal=_shared_goal(objective, ways),
        moves=_shared_moves(instance, listed, descends, backwards=links.far == 0 and not instance.busy),
        layout=_shared_schedule(shop),
        scratch=make_arrays(SharedScratch, tasks.number, used=ways.budgets),
    )


def _ways_and_shop(
    instance: Instance,
    objective: LinearObjective,
    listed: _SharedModeTable,
    descends: NDArray[np.bool_] | None,
) -> tuple[SharedModes, SharedProblem]:
    problem = compile_problem(instance)
    tasks, machines = problem.tasks, problem.machines
    packing = pack(instance, listed.task, listed.machine, [listed.nodes, *listed.amounts.T])
    node_s = listed.nodes * listed.seconds
    price = node_s * machines.price[listed.machine]
    moldable = len(_moldable(listed)) > 0
    ways = select_fields(
        SharedModes,
        listed,
        need=packing.need,
        charge=node_s * objective.per_node_s + price * objective.per_price,
        drag=node_s
        * (_SHARED_DRAG * objective.per_second / float(instance.capacity.sum()) if moldable else 0.0),
        price=price,
        budgets=listed.use.shape[1],
        use=listed.use.reshape(-1),
    )
    shop = select_fields(
        SharedProblem,
        tasks,
        tasks=tasks.number,
        machines=machines.number,
        guard=packing.guard,
        tail=_tails(instance, listed, descends),
        open=(machines.form == OPEN).astype(np.uint8),
        step_pointer=packing.pointer,
        step_time=packing.time_s,
        step_free=packing.free,
    )
    return ways, shop


def _shared_goal(objective: LinearObjective, ways: SharedModes) -> SharedGoal:
    counted = ways.charge.any() or ways.drag.any() or math.isfinite(objective.max_cost) or ways.budgets > 0
    return SharedGoal(
        base=objective.base,
        per_second=objective.per_second,
        deadline=objective.deadline_s,
        max_cost=objective.max_cost,
        penalty=0.0,
        drag=1.0,
        counted=int(counted),
    )


def _descendants(graph: TaskGraph) -> NDArray[np.bool_] | None:
    """Return a table (tasks x tasks): whether the column's task descends from the row's task.

    Return None if the graph is too large.
    """
    if len(graph) > _MAX_DESCENDANT_TASKS:
        return None
    descends = np.zeros((len(graph), len(graph)), dtype=np.bool_)
    for task in range(len(graph) - 1, -1, -1):
        for after in graph.successors(task).tolist():
            descends[task] |= descends[after]
            descends[task, after] = True
    return descends


def _tails(instance: Instance, listed: _SharedModeTable, descends: NDArray[np.bool_] | None) -> Floats:
    """Return for each task a lower bound on the time from its end to the end of the schedule.

    The bound is the longest path of fastest modes. With a single machine, the node-seconds of all descendants
    divided by all nodes are also a bound, and likewise for each resource; the largest bound is returned.
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
    # Rounding must not make the bound too large.
    return tail * (1 - _ROUNDING)


def _moldable(listed: _SharedModeTable) -> NDArray[np.intp]:
    """Return the tasks that have several modes on some machine."""
    again = (listed.task[1:] == listed.task[:-1]) & (listed.machine[1:] == listed.machine[:-1])
    return np.unique(listed.task[1:][again])


def _shared_moves(
    instance: Instance, listed: _SharedModeTable, descends: NDArray[np.bool_] | None, *, backwards: bool
) -> SharedMoves:
    tasks, number = compile_problem(instance).tasks, len(instance)
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
    return select_fields(
        SharedMoves,
        tasks,
        shifts=len(shifted),
        shifted=shifted.astype(np.uint32),
        molds=len(molded),
        molded=molded.astype(np.uint32),
        takes=len(taken),
        taken=np.array(taken, dtype=np.uint32),
        **_variable_members(tasks),
        **_move_shares(len(shifted), len(molded), len(taken), backwards=backwards),
    )


def _move_shares(shifts: int, molds: int, takes: int, *, backwards: bool) -> dict[str, float]:
    """Return the probability of each kind of move; an impossible kind has probability 0."""
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


def _shared_schedule(shop: SharedProblem) -> SharedSchedule:
    steps = len(shop.step_time) + 2 * shop.tasks
    return make_arrays(
        SharedSchedule, shop.tasks, first=shop.machines, last=shop.machines, time=steps, free=steps
    )


class _SharedModeTable(NamedTuple):
    """The modes that the search uses ("listed modes"), sorted by task, then machine, then node count."""

    first: Indices
    """Per task: its first listed mode; one more entry holds the total."""
    task: NDArray[np.int64]
    mode: Indices
    """Positions among the modes of the task's group."""
    machine: Indices
    nodes: Floats
    seconds: Floats
    amounts: Floats
    """Listed modes x resources."""
    use: Floats
    """Table (listed modes x budgets that a plan could exceed): share of the budget that a mode consumes."""


def _list_shared_modes(instance: Instance, *, efficient: bool) -> _SharedModeTable | None:
    """Return the table of the modes that the search uses; None if there are too many.

    With ``efficient``, modes are left out that are not faster than all modes with fewer nodes on the same
    machine. Tasks whose resources or budget consumption depend on the node count keep all modes.
    """
    if sum(len(group) * len(group.tasks) for group in instance.groups) > _SHARED_MOST_MODES:
        return None
    graph = instance.graph
    binding = np.flatnonzero(find_exceeded(graph, largest_consumption(graph, instance.groups)))
    # An empty first part defines shapes and types if there are no compute tasks.
    none = np.zeros(0, dtype=np.uint32)
    empty = _SharedModeTable(
        first=none,
        task=none.astype(np.int64),
        mode=none,
        machine=none,
        nodes=np.zeros(0),
        seconds=np.zeros(0),
        amounts=np.zeros((0, len(graph.resource_names))),
        use=np.zeros((0, len(binding))),
    )
    parts = [empty, *_parts(instance, binding, efficient=efficient)]
    joined = _SharedModeTable(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((joined.mode, joined.task))
    first = np.concatenate([[0], np.cumsum(np.bincount(joined.task, minlength=len(instance)))])
    return _SharedModeTable(
        first=first.astype(np.uint32),
        task=joined.task[order],
        mode=joined.mode[order],
        machine=joined.machine[order],
        nodes=joined.nodes[order],
        seconds=joined.seconds[order],
        amounts=joined.amounts[order],
        use=joined.use[order],
    )


def _parts(instance: Instance, binding: NDArray[np.intp], *, efficient: bool) -> Iterator[_SharedModeTable]:
    graph, problem = instance.graph, compile_problem(instance)
    resources, whole = len(graph.resource_names), graph.budgets[binding]
    amounts = problem.tasks.amount.reshape(-1, resources) if resources else np.zeros((1, 0))
    for index, group in enumerate(instance.groups):
        begin, end = problem.modes.first[index : index + 2].tolist()
        shift = problem.modes.shift[begin:end]
        varied = group.demand is not None or group.consumption is not None
        for tasks, seconds in group.chunks():
            kept = np.ones(seconds.shape, dtype=np.bool_)
            if efficient and not varied:
                kept = _efficient(group.machine, seconds)
            row, mode = np.nonzero(kept)
            task = tasks[row].astype(np.int64)
            need = problem.tasks.need[task].astype(np.int64) + shift[mode]
            used = graph.consumption[task] if group.consumption is None else group.consumption[mode]
            yield _SharedModeTable(
                first=np.zeros(0, dtype=np.uint32),
                task=task,
                mode=mode.astype(np.uint32),
                machine=group.machine[mode],
                nodes=group.nodes[mode].astype(np.float64),
                seconds=seconds[row, mode],
                amounts=amounts[need if resources else np.zeros(len(need), dtype=np.int64)],
                use=used[:, binding] / np.where(whole > 0, whole, 1.0),
            )


def _efficient(machine: Indices, seconds: Floats) -> NDArray[np.bool_]:
    """Return a mask (tasks x modes) of modes faster than all modes with fewer nodes on the same machine."""
    kept = np.ones(seconds.shape, dtype=np.bool_)
    first = np.unique(machine, return_index=True)[1].tolist()
    for begin, end in zip(first, [*first[1:], len(machine)], strict=True):
        own = seconds[:, begin:end]
        kept[:, begin + 1 : end] = own[:, 1:] < np.minimum.accumulate(own, axis=1)[:, :-1]
    return kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Dimension:
    """One bit field of the packed amounts: the nodes or one resource."""

    need: Floats
    """Per mode: the amount it needs."""
    total: Floats
    """Per machine: its total amount; infinite if all tasks together cannot use it up."""
    unit: Floats
    """Per machine: the amount of one unit."""
    most: int
    """The largest total in units."""

    @property
    def width(self) -> int:
        return self.most.bit_length() + 1

    def needed(self, machine: NDArray[np.uint32]) -> _Integers:
        """Return the needs of modes in units, rounded up; 0 where the total is infinite."""
        unlimited = np.isinf(self.total[machine])
        exact = np.where(unlimited, 0.0, self.need) / self.unit[machine]
        return np.ceil(exact * (1 - _ROUNDING) - _ROUNDING).astype(np.int64)

    def free(self, machine: int, taken: float) -> int:
        """Return the free units of a machine, rounded down, if the amount ``taken`` is in use."""
        if math.isinf(self.total[machine]):
            return 0
        left = max(0.0, float(self.total[machine]) - taken) / float(self.unit[machine])
        return min(self.most, math.floor(left * (1 + _ROUNDING) + _ROUNDING))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Packing:
    """The packed needs of modes, and the packed free capacity of machines before any task is placed (CSR).

    The nodes and amounts of a mode are packed as bit fields of one integer. The bit field of a dimension that
    is never scarce is 0. Integers, and decimals with few digits, are packed exactly, divided by their
    greatest common divisor. Other amounts become shares of the total: needs are rounded up and free amounts
    down, so that modes that fit in packed form also fit with the exact amounts.
    """

    guard: int
    need: _Integers
    pointer: _Integers
    time_s: Floats
    free: _Integers


def pack(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], needs: list[Floats]
) -> _Packing:
    """Return nodes and resource amounts of modes and machines, packed into integers.

    ``task`` and ``machine`` have an entry per mode; ``needs`` are the nodes, then the amounts per resource.
    """
    totals = [instance.capacity.astype(np.float64), *instance.amounts.T]
    columns = zip(needs, totals, strict=True)
    limited = [(need, _limited(instance, task, machine, need, total)) for need, total in columns]
    dimensions = [_dimension(need, total, machine) for need, total in limited]
    while sum(found.width for found in dimensions) > _BITS:
        widest = max(range(len(dimensions)), key=lambda index: dimensions[index].width)
        dimensions[widest] = _coarser(dimensions[widest])
    shifts = np.cumsum([0, *(found.width for found in dimensions)]).tolist()
    packed = np.zeros(len(task), dtype=np.int64)
    for found, shift in zip(dimensions, shifts, strict=False):
        packed |= found.needed(machine) << shift
    pointer, time_s, free = _initial_steps(instance, dimensions, shifts)
    return _Packing(
        guard=sum(1 << (shift - 1) for shift in shifts[1:]),
        need=packed,
        pointer=pointer,
        time_s=time_s,
        free=free,
    )


def _limited(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], need: Floats, total: Floats
) -> Floats:
    """Return the totals of the machines; infinity where all tasks together cannot exhaust the total."""
    largest = np.zeros((len(instance.machines), len(instance)))
    np.maximum.at(largest, (machine, task), need)
    plenty = largest.sum(axis=1) <= total
    plenty[[held.machine for held in instance.busy]] = False
    return np.where(plenty, np.inf, total)


def _dimension(need: Floats, total: Floats, machine: NDArray[np.uint32]) -> _Dimension:
    """Return a bit field whose unit makes all needs integers; without such a unit, a share of the total."""
    counted = np.unique(need[np.isfinite(total[machine]) & (need > 0)])
    finite = total[np.isfinite(total)]
    for scale in _SCALES:
        whole = np.rint(counted * scale)
        if len(counted) and (np.abs(whole - counted * scale) > _ROUNDING * whole).any():
            continue
        if whole.max(initial=0.0) > 2.0**53:
            break
        common = math.gcd(*whole.astype(np.int64).tolist()) or 1
        unit = np.full(len(total), common / scale)
        most = math.floor(finite.max(initial=0.0) / (common / scale) * (1 + _ROUNDING))
        return _Dimension(need=need, total=total, unit=unit, most=most)
    return _in_shares(need, total, _PARTS_OF_TOTAL[0])


def _in_shares(need: Floats, total: Floats, parts: int) -> _Dimension:
    unit = np.where(np.isfinite(total) & (total > 0), total, parts) / parts
    return _Dimension(need=need, total=total, unit=unit, most=parts)


def _coarser(found: _Dimension) -> _Dimension:
    parts = next(parts for parts in _PARTS_OF_TOTAL if parts.bit_length() + 1 < found.width)
    return _in_shares(found.need, found.total, parts)


def _initial_steps(
    instance: Instance, dimensions: list[_Dimension], shifts: list[int]
) -> tuple[_Integers, Floats, _Integers]:
    """Return the times at which busy intervals change the free capacity of machines.

    The result consists of pointers (CSR by machine), the times, and the packed free capacity from each time
    on.
    """
    pointer, times, free = [0], [], []
    for machine in range(len(instance.machines)):
        held = [one for one in instance.busy if one.machine == machine]
        ends = {moment for one in held for moment in _interval(one)}
        for moment in sorted({0.0, *(end for end in ends if math.isfinite(end))}):
            beside = [one for one in held if _interval(one)[0] <= moment < _interval(one)[1]]
            left = [found.free(machine, _taken(beside, place)) for place, found in enumerate(dimensions)]
            times.append(moment)
            free.append(sum(amount << shift for amount, shift in zip(left, shifts, strict=False)))
        pointer.append(len(times))
    return np.array(pointer), np.array(times, dtype=np.float64), np.array(free, dtype=np.int64)


def _interval(held: BusyInterval) -> tuple[float, float]:
    """Return begin and end of a busy interval, without the part before time 0."""
    begin_s = max(0.0, held.start_s)
    return begin_s, begin_s + max(0.0, held.finish_s - begin_s)


def _taken(held: list[BusyInterval], dimension: int) -> float:
    if dimension == 0:
        return float(sum(one.nodes for one in held))
    return sum(one.amounts[dimension - 1] for one in held if one.amounts)
