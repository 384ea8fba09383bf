"""An instance whose machines serve one task at a time, as its search reads it.

``weft.kernels.searches.single_state`` says what each array means.
"""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.kernels.problem import SHARED, SINGLE
from weft.kernels.searches.single_state import Field, State, Terms
from weft.planners.aims import Aim
from weft.planners.genomes import Genome
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices

__all__ = ["field_of", "is_single", "state_of", "terms_of"]

_MOST_CELLS = 10_000_000
"""Tasks x machines, and hosts x hosts, up to which they are written down."""
_PENALTY = 20.0
"""How many times the objective it costs to miss a limit by the whole of it."""


def is_single(instance: Instance) -> bool:
    """Say whether tasks only choose a machine, which serves one of them at a time or any number."""
    problem = problem_of(instance)
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    small = max(tasks.number * machines.number, machines.hosts**2) <= _MOST_CELLS
    simple = tasks.transfers == 0 and not (machines.form == SHARED).any() and not modes.moldable.any()
    return bool(small and simple and not instance.binding_budgets())


def field_of(instance: Instance) -> Field:
    """Lay out the arrays."""
    problem = problem_of(instance)
    tasks, machines = problem.tasks, problem.machines
    seconds = _seconds(instance)
    option_pointer, option, choice = _options(instance, seconds)
    members = np.argsort(tasks.variable, kind="stable").astype(np.uint32)
    number = np.bincount(tasks.variable, minlength=tasks.variables)
    inverse, latency, apart = _links(instance)
    # Data of nearly all workflows pay for their size alone, which takes less to compute and to compile.
    rich = bool(tasks.fixed.any() or (tasks.files.any() and latency.any()))
    sinks = np.flatnonzero(np.diff(tasks.after_pointer.astype(np.int64)) == 0).astype(np.uint32)
    return Field(
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
    hosts = problem_of(instance).machines.hosts
    location = np.zeros(hosts, dtype=np.int64)
    location[network.host] = network.location
    apart = 1.0 - np.eye(hosts)
    between = np.ix_(location, location)
    inverse = np.where(apart > 0, network.inverse_bandwidth[between], 0.0)
    latency = np.where(apart > 0, network.latency_s[between], 0.0)
    return inverse, latency, apart


def terms_of(instance: Instance, aim: Aim, scale: float) -> Terms:
    """Give the aim as weights of tasks on machines; ``scale`` is the size of the objective's number."""
    shape = (len(instance), len(instance.machines)) if not aim.is_makespan else (0, 0)
    weight, price = np.zeros(shape), np.zeros(shape)
    for group in instance.groups if not aim.is_makespan else ():
        for tasks, seconds in group.chunks():
            taken = seconds * group.nodes
            paid = taken * instance.price_per_node_s[group.machine]
            weight[tasks[:, None], group.machine] = taken * aim.per_node_s + paid * aim.per_price
            price[tasks[:, None], group.machine] = paid
    return Terms(
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


def state_of(field: Field, genome: Genome) -> State:
    """Give the state of a genome; the kernel finds what follows from order and machines."""
    tasks, machines = field.tasks, field.machines
    machine = genome.bound[field.variable].astype(np.uint32)

    def indices(number: int) -> Indices:
        return np.zeros(number, dtype=np.uint32)

    return State(
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
