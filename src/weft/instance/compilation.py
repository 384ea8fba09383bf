"""Compilation: a task graph and a platform become an instance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.errors import Infeasible, InvalidInput, Problem, nearest
from weft.instance.budgets import check_budgets
from weft.instance.candidates import Candidates, find_candidates
from weft.instance.instance import Busy, Instance
from weft.instance.modes import group_modes
from weft.instance.shapes import mode_shapes
from weft.platform.machine import Machine
from weft.platform.network import network
from weft.platform.platform import Platform, planned_machines
from weft.predictors.chain import default_chain
from weft.predictors.predictor import Predictor
from weft.workflow.unfolding.task_graph import Floats, TaskGraph

__all__ = ["compile_instance"]


@np.errstate(over="ignore")  # work too large for a machine makes an impossible mode, no warning
def compile_instance(
    graph: TaskGraph,
    platform: Platform,
    *,
    predictor: Predictor | None = None,
    pinned: Mapping[str, str] | None = None,
    earliest_start_s: Floats | None = None,
    busy: tuple[Busy, ...] = (),
) -> Instance:
    """Compile. ``pinned`` binds variables (by name) to machines; Infeasible if some task can run nowhere."""
    machines = planned_machines(platform)
    seconds = (predictor or default_chain()).table(graph, machines)
    shapes = mode_shapes(seconds, len(graph))
    amounts = _amounts(machines, graph.resource_names)
    candidates = find_candidates(graph, machines, seconds, shapes, amounts)
    capacity = np.array([machine.nodes for machine in machines], dtype=np.int64)
    groups, group = group_modes(
        graph,
        seconds,
        shapes,
        candidates,
        capacity,
        amounts,
        np.array([machine.node_is_core for machine in machines], dtype=np.bool_),
    )
    check_budgets(graph, groups)
    return Instance(
        graph=graph,
        platform=platform,
        machines=machines,
        network=network(platform, machines),
        seconds=seconds,
        capacity=capacity,
        unlimited=np.array([machine.occupancy == "unlimited" for machine in machines], dtype=np.bool_),
        price_per_node_s=np.array([machine.price_per_node_hour / 3600.0 for machine in machines]),
        amounts=amounts,
        candidate_sets=candidates.sets,
        candidates=candidates.of_variable,
        groups=groups,
        group=group,
        pinned=_pins(graph, machines, candidates, pinned or {}),
        earliest_start_s=np.zeros(len(graph)) if earliest_start_s is None else earliest_start_s,
        busy=busy,
    )


def _amounts(machines: tuple[Machine, ...], names: tuple[str, ...]) -> Floats:
    """Give the totals; memory that a machine does not state limits nothing, other names it lacks are 0."""
    table = np.zeros((len(machines), len(names)))
    for row, machine in enumerate(machines):
        stated = machine.amounts
        for column, name in enumerate(names):
            table[row, column] = stated.get(name, np.inf if name == "memory" else 0.0)
    return table


def _pins(
    graph: TaskGraph, machines: tuple[Machine, ...], candidates: Candidates, pinned: Mapping[str, str]
) -> dict[int, int]:
    """Bind variables by name; every one that has the name."""
    index = {machine.name: position for position, machine in enumerate(machines)}
    pins: dict[int, int] = {}
    for name, machine in pinned.items():
        variables = [variable for variable, known in enumerate(graph.variables) if known == name]
        if not variables:
            raise _unknown(
                f"cannot pin {name!r}: no task or abstract machine is called so", name, graph.variables
            )
        if machine not in index:
            raise _unknown(f"cannot pin {name!r} to {machine!r}: no such machine", machine, index)
        for variable in variables:
            if index[machine] not in candidates.sets[int(candidates.of_variable[variable])]:
                raise Infeasible(f"cannot pin {name!r} to {machine!r}: not all its tasks can run there")
            pins[variable] = index[machine]
    return pins


def _unknown(what: str, word: str, known: Mapping[str, int] | tuple[str, ...]) -> InvalidInput:
    close = nearest(word, known)
    return InvalidInput(Problem(what=what, advice=f"did you mean {close!r}?" if close else "check the name"))
