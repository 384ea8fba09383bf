"""Genomes: an order of the tasks, a machine per binding variable, a mode per task; and what they come to.

A mode is a position among the modes of the task's group (``Instance.groups``); transfers and virtual tasks
have none and are given 0. A population is one array per part, individuals x row; a single row holds for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import Infeasible, InvalidInput, Problem, WeftError, shorten
from weft.instance.instance import Instance, ModeGroup
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats, Indices

__all__ = [
    "DecodedPopulation",
    "Genome",
    "check_rows",
    "count_individuals",
    "encode_schedule",
    "explain_invalid_genome",
    "row_stride",
    "select_modes",
]


class Genome(NamedTuple):
    """What a decoder makes a schedule of."""

    order: Indices
    """Tasks; predecessors come first."""
    bound: Indices
    """Per binding variable: its machine."""
    modes: Indices
    """Per task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodedPopulation:
    """What a population comes to. Columns over individuals."""

    makespan_s: Floats
    """Infinite where a task never fits beside what is busy."""
    node_seconds: Floats
    cost: Floats
    start_s: Floats | None
    finish_s: Floats | None
    """Individuals x tasks, if asked for."""


def encode_schedule(instance: Instance, schedule: Schedule) -> Genome:
    """Give the genome of a schedule, its tasks by start, then finish, then index.

    Decoded by appending or by insertion, no task starts later than in the schedule: what runs beside a task
    in the schedule was placed before it. Durations may be changed in between; appending keeps the order.
    """
    graph = instance.graph
    if schedule.tasks != graph.names:
        raise InvalidInput(Problem(what="a schedule of other tasks", rule="must be one of this instance"))
    # A predecessor that starts with its successor has no length, so it ends first or has the lower index.
    order = np.lexsort((np.arange(len(graph)), schedule.finish_s, schedule.start_s)).astype(np.uint32)
    bound = np.zeros(len(graph.variables), dtype=np.uint32)
    bound[graph.variable] = schedule.machine
    modes = np.zeros(len(graph), dtype=np.uint32)
    for group in instance.groups:
        machine, nodes = schedule.machine[group.tasks], schedule.nodes[group.tasks]
        found = _find_modes(group, group.nodes, machine, nodes)
        if (found == len(group)).any():
            task = int(group.tasks[int(np.argmax(found == len(group)))])
            place = f"{int(schedule.nodes[task])} nodes of {schedule.machines[schedule.machine[task]]}"
            what = f"{graph.names[task]} takes {place}"
            raise InvalidInput(Problem(what=what, rule="must be a mode of the task"))
        modes[group.tasks] = found
    return Genome(order=order, bound=bound, modes=modes)


def select_modes(instance: Instance, bound: Indices, counts: Indices | None = None) -> Indices:
    """Give the modes with some node counts on the machines of a genome, or of rows of them.

    ``counts`` are those the user knows, per task; without them every task takes the least there.
    """
    variable, last = instance.graph.variable, bound.shape[:-1]
    modes = np.zeros((*last, len(instance)), dtype=np.uint32)
    for group in instance.groups:
        machine = bound[..., variable[group.tasks]]
        if counts is None:
            found = _find_modes(group, np.zeros(len(group), dtype=np.int64), machine, np.zeros_like(machine))
        else:
            asked = np.broadcast_to(counts, (*last, len(instance)))[..., group.tasks]
            found = _find_modes(group, group.count, machine, asked)
        if (found == len(group)).any():
            *_, task = np.argwhere(found == len(group))[0].tolist()
            raise _impossible_mode_error(
                instance, int(group.tasks[task]), int(machine[found == len(group)][0])
            )
        modes[..., group.tasks] = found
    return modes


def check_rows(name: str, given: ArrayLike, width: int) -> Indices:
    """Give a row of whole numbers, or individuals x row, as kernels read them."""
    rows = np.asarray(given)
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        rule = f"must be a row of {width} numbers, or individuals x {width}"
        raise InvalidInput(Problem(what=f"{name}: an array of shape {rows.shape}", rule=rule))
    if rows.dtype != np.uint32:
        if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= 2**32):
            raise InvalidInput(Problem(what=f"{name}: {rows.dtype} numbers", rule="must be whole, from 0 on"))
        rows = rows.astype(np.uint32)
    return np.ascontiguousarray(rows)


def row_stride(rows: NDArray[Any]) -> int:
    """Give the distance between the rows of two individuals; 0: they share one."""
    return rows.shape[1] if rows.ndim == 2 else 0


def count_individuals(*arrays: NDArray[Any]) -> int:
    """Count the individuals of a population: as many as every array has that is more than a row."""
    numbers = {len(rows) for rows in arrays if rows.ndim == 2}
    if len(numbers) > 1:
        what = f"arrays of {' and '.join(map(str, sorted(numbers)))} individuals"
        raise InvalidInput(Problem(what=what, rule="one number of individuals for all, or a single row"))
    return numbers.pop() if numbers else 1


def _find_modes(
    group: ModeGroup, values: NDArray[np.integer], machine: Indices, value: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Find modes by machine and a value that ascends with them on each machine; their number: none."""
    most = int(max(values.max(initial=0), value.max(initial=0))) + 1
    keys = group.machine.astype(np.int64) * most + values
    asked = machine.astype(np.int64) * most + value
    found = np.searchsorted(keys, asked)
    exists = keys[np.minimum(found, len(keys) - 1)] == asked
    return np.where(exists, found, len(keys))


def _impossible_mode_error(instance: Instance, task: int, machine: int) -> WeftError:
    """Say in which modes a task can run instead."""
    name, group = instance.graph.names[task], instance.groups[int(instance.group[task])]
    if machine >= len(instance.machines):
        what = f"{name} is bound to machine number {machine}"
        return InvalidInput(Problem(what=what, rule=f"there are {len(instance.machines)} machines"))
    place = instance.machines[machine].name
    counts = group.count[group.machine == machine].tolist()
    if not counts:
        return Infeasible(f"{name} cannot run on {place}: bind it to one of its candidates")
    what = f"{name} on {place} in a mode it does not have there"
    return InvalidInput(Problem(what=what, rule=f"its node counts there are {shorten(counts)}"))


def explain_invalid_genome(
    instance: Instance, order: Indices, bound: Indices, modes: Indices | None
) -> WeftError:
    """Say what is wrong with a genome that the decoder refused."""
    graph = instance.graph
    names, seen = graph.names, np.zeros(len(graph), dtype=bool)
    for task in order.tolist():
        if task >= len(graph) or seen[task]:
            what = f"the order holds task {task}" + (" twice" if task < len(graph) else "")
            rule = f"every task from 0 to {len(graph) - 1} stands in it once"
            return InvalidInput(Problem(what=what, rule=rule))
        late = [int(before) for before in graph.predecessors(task) if not seen[before]]
        if late:
            what = f"the order puts {names[task]} before {names[late[0]]}"
            return InvalidInput(Problem(what=what, rule="predecessors come first"))
        seen[task] = True
    for variable, machine in enumerate(bound.tolist()):
        what = f"{graph.variables[variable]!r} is bound to machine number {machine}"
        if machine >= len(instance.machines):
            return InvalidInput(Problem(what=what, rule=f"there are {len(instance.machines)} machines"))
        if instance.pinned.get(variable, machine) != machine:
            rule = f"it is pinned to number {instance.pinned[variable]}"
            return InvalidInput(Problem(what=what, rule=rule))
    for task, group in enumerate(instance.group.tolist()):
        machine = int(bound[graph.variable[task]])
        if group >= 0 and machine not in _machines_of_mode(instance.groups[group], modes, task):
            return _impossible_mode_error(instance, task, machine)
    raise AssertionError("the decoder refused a genome in which nothing is wrong")


def _machines_of_mode(group: ModeGroup, modes: Indices | None, task: int) -> Indices:
    """Give the machine of the mode that a genome asks for, or those of all modes where it asks for none."""
    return group.machine if modes is None else group.machine[int(modes[task]) :][:1]
