"""Compilation of a task graph and a platform, or of a part of an instance, into an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible, InvalidInput, suggest
from weft.instance.candidates import Candidates, find_candidates, number_mode_shapes
from weft.instance.instance import BusyInterval, Instance, check_budgets, group_modes
from weft.instance.preferences import find_rank_problems
from weft.platform.arrays import compile_network
from weft.platform.machine import Machine
from weft.platform.platform import Platform, planned_machines
from weft.predictors.chain import chain_for
from weft.predictors.predictor import Predictor
from weft.predictors.seconds import add_startup, rescale_seconds
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph


@np.errstate(over="ignore")  # overflowing seconds make an impossible mode
def compile_instance(
    graph: TaskGraph,
    platform: Platform,
    *,
    predictor: Predictor | None = None,
    pinned: Mapping[str, str] | None = None,
    earliest_start_s: Floats | None = None,
    busy: tuple[BusyInterval, ...] = (),
) -> Instance:
    """Return the instance of a task graph on a platform; raises Infeasible if a task cannot run.

    Raises InvalidInput with the problems of all requirements and ranks that cannot be evaluated.
    ``pinned`` binds variables to machines, both by name.
    """
    machines = planned_machines(platform)
    ranks = find_rank_problems(graph, machines)
    predicted = (predictor or chain_for(graph.workflow, platform)).table(graph, machines)
    single, several = (
        np.array([machine.startup_for(nodes) for machine in machines], dtype=np.float64) for nodes in (1, 2)
    )
    seconds = add_startup(predicted, single, several)
    shapes = number_mode_shapes(seconds, len(graph))
    amounts = _resource_totals(machines, graph.resource_names)
    try:
        candidates = find_candidates(graph, machines, seconds, shapes, amounts)
    except InvalidInput as error:
        raise InvalidInput([*ranks, *error.problems]) from None
    except Infeasible:
        if ranks:
            raise InvalidInput(ranks) from None
        raise
    if ranks:
        raise InvalidInput(ranks)
    capacity = np.array([machine.nodes for machine in machines], dtype=np.int64)
    groups, group = group_modes(
        graph,
        seconds,
        shapes,
        candidates,
        capacity,
        amounts,
        machines,
    )
    check_budgets(graph, groups)
    return Instance(
        graph=graph,
        platform=platform,
        machines=machines,
        network=compile_network(platform, machines),
        seconds=seconds,
        capacity=capacity,
        unlimited=np.array([machine.occupancy == "unlimited" for machine in machines], dtype=np.bool_),
        price_per_node_s=np.array([machine.price_per_node_hour / 3600.0 for machine in machines]),
        amounts=amounts,
        candidate_sets=candidates.sets,
        candidates=candidates.of_variable,
        groups=groups,
        group=group,
        pinned=_bind_pinned(graph, machines, candidates, pinned or {}),
        earliest_start_s=np.zeros(len(graph)) if earliest_start_s is None else earliest_start_s,
        busy=busy,
    )


def _resource_totals(machines: tuple[Machine, ...], names: tuple[str, ...]) -> Floats:
    """Return the total amounts of resources (machines x names).

    Memory that a machine does not state is infinite; any other resource that it does not state is 0.
    """
    table = np.zeros((len(machines), len(names)))
    for row, machine in enumerate(machines):
        stated = machine.amounts
        for column, name in enumerate(names):
            table[row, column] = stated.get(name, np.inf if name == "memory" else 0.0)
    return table


def _bind_pinned(
    graph: TaskGraph, machines: tuple[Machine, ...], candidates: Candidates, pinned: Mapping[str, str]
) -> dict[int, int]:
    """Return the index of the machine of each pinned variable, by index of the variable.

    ``pinned`` maps names of variables to names of machines. Raises InvalidInput for an unknown name,
    Infeasible if a task cannot run on the machine.
    """
    index = {machine.name: position for position, machine in enumerate(machines)}
    pins: dict[int, int] = {}
    for name, machine in pinned.items():
        variables = [variable for variable, known in enumerate(graph.variables) if known == name]
        if not variables:
            raise _unknown_name(
                f"cannot pin {name!r}: no task or abstract machine has this name", name, graph.variables
            )
        if machine not in index:
            raise _unknown_name(f"cannot pin {name!r} to {machine!r}: no such machine", machine, index)
        for variable in variables:
            if index[machine] not in candidates.sets[int(candidates.of_variable[variable])]:
                what = f"cannot pin {name!r} to {machine!r}"
                raise Infeasible(f"{what}: this machine cannot run all tasks of {name!r}")
            pins[variable] = index[machine]
    return pins


def _unknown_name(what: str, word: str, known: Mapping[str, int] | tuple[str, ...]) -> InvalidInput:
    return InvalidInput(what, advice=suggest(word, known, "check the name"))


def extract_part(
    whole: Instance,
    graph: TaskGraph,
    tasks: Indices,
    *,
    left: Floats,
    speed: Floats,
    usable: NDArray[np.bool_],
    pinned: Mapping[int, int],
    earliest_start_s: Floats,
    busy: tuple[BusyInterval, ...],
) -> Instance:
    """Return the instance of a part of the tasks, for re-planning.

    ``graph`` is the task graph of the part; ``tasks`` are the indices of its tasks in ``whole``. ``left`` is
    the remaining share of the work of each task, ``speed`` the current speed of each machine as a factor of
    the estimated speed. Machines keep their indices. A machine that is not ``usable`` is a candidate only for
    variables that are pinned to it. Raises Infeasible if a task has no candidate.
    """
    seconds = rescale_seconds(whole.seconds, tasks, left, speed)
    candidates = _remaining_candidates(whole, graph, tasks, usable, pinned)
    groups, group = group_modes(
        graph,
        seconds,
        number_mode_shapes(seconds, len(graph)),
        candidates,
        whole.capacity,
        whole.amounts,
        whole.machines,
    )
    return replace(
        whole,
        graph=graph,
        seconds=seconds,
        candidate_sets=candidates.sets,
        candidates=candidates.of_variable,
        groups=groups,
        group=group,
        pinned=dict(pinned),
        earliest_start_s=earliest_start_s,
        busy=busy,
    )


def _remaining_candidates(
    whole: Instance,
    graph: TaskGraph,
    tasks: Indices,
    usable: NDArray[np.bool_],
    pinned: Mapping[int, int],
) -> Candidates:
    """Return, per variable, the usable machines that all its tasks accept, and its pinned machine."""
    machines = len(whole.machines)
    accepted = np.zeros((len(whole.candidate_sets), machines), dtype=np.bool_)
    for row, found in enumerate(whole.candidate_sets):
        accepted[row, found] = True
    masks = np.ones((len(graph.variables), machines), dtype=np.bool_)
    compute = np.flatnonzero(graph.kind == COMPUTE)
    of_row = whole.candidates[whole.graph.variable[tasks]]
    for row in compute.tolist():
        masks[graph.variable[row]] &= accepted[of_row[row]]
    masks &= usable
    for variable, machine in pinned.items():
        masks[variable, machine] = True
    empty = np.flatnonzero(~masks.any(axis=1))
    if len(empty):
        members = [graph.names[row] for row in np.flatnonzero(graph.variable == empty[0]).tolist()]
        raise Infeasible(f"no available machine can run {', '.join(members[:6])}")
    numbers: dict[bytes, int] = {}
    of_variable = [numbers.setdefault(mask.tobytes(), len(numbers)) for mask in masks]
    sets = tuple(np.flatnonzero(np.frombuffer(key, dtype=np.bool_)).astype(np.uint32) for key in numbers)
    return Candidates(sets=sets, of_variable=np.array(of_variable, dtype=np.uint32))
