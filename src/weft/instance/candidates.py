"""Candidates: the machines to which each binding variable can be bound, computed before planning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.documents import locate_problems
from weft.errors import Infeasible, InvalidInput, Problem, shorten
from weft.expressions import Expression, evaluate_columns, find_unknown_names
from weft.platform.arrays import AMPLE_BYTES, idle_columns, machine_columns
from weft.platform.machine import Machine
from weft.predictors.seconds import ClassSeconds, RelatedSeconds, Seconds
from weft.records import dataclass
from weft.units import format_bytes, format_count
from weft.workflow.task import ISOLATED_BY, Task
from weft.workflow.task_graph import COMPUTE, AmountsByCount, Floats, Indices, TaskGraph

if TYPE_CHECKING:
    from weft.instance.instance import Instance


Shapes = NDArray[np.int64]
"""A number per task; tasks with the same number have estimates for the same machines and node counts."""

_MAX_CORES = 2**31
"""Requests for more cores are reduced to this number to avoid overflow; no machine has so many cores."""


def nodes_taken(cores: float, count: Indices, node_is_core: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the nodes that each count allocates: the count, or count x ``cores`` if a node is one core."""
    each = np.int64(min(max(1, math.ceil(cores)), _MAX_CORES))
    return np.where(node_is_core, count * each, count).astype(np.int64)


def amounts_taken(graph: TaskGraph, by_count: AmountsByCount, task: int, count: Indices) -> Floats | None:
    """Return a task's amounts, one row per entry of ``count``; None if they do not depend on the count."""
    rows = by_count.of(task)
    return rows[np.searchsorted(graph.count_sets[graph.counts[task]], count)] if len(rows) else None


def node_memory(machines: Sequence[Machine]) -> Floats:
    """Return the memory of a node of each machine; infinity if its nodes share the memory of the machine."""
    stated = [machine.memory_per_node for machine in machines]
    return np.array([math.inf if each is None else each for each in stated], dtype=np.float64)


def number_mode_shapes(seconds: Seconds, tasks: int) -> Shapes:
    """Return a number per task; it is equal for tasks with estimates for the same machines and counts."""
    if isinstance(seconds, ClassSeconds):
        return seconds.task_class.astype(np.int64)
    if not isinstance(seconds, RelatedSeconds):
        known: dict[tuple[bytes, bytes], int] = {}
        rows = (seconds.modes(task)[:2] for task in range(tasks))
        keys = ((machine.tobytes(), count.tobytes()) for machine, count in rows)
        return np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, tasks)
    laws, sets = len(seconds.speedup), len(seconds.count_sets)
    shapes = (seconds.service.astype(np.int64) * laws + seconds.law) * sets + seconds.counts
    # Work so large that its seconds overflow is impossible on some machines; such a task has its own shape.
    least = np.fmin.reduce(seconds.speedup, None, initial=1.0)
    slowest = seconds.work / seconds.rate.min(initial=1.0) / least
    overflowing = np.flatnonzero(~np.isfinite(slowest))
    shapes[overflowing] = len(seconds.rate) * laws * sets + overflowing
    return shapes


_Mask = NDArray[np.bool_]
_Filter = tuple[str, _Mask]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """The candidate machines of every binding variable; equal sets are stored once."""

    sets: tuple[Indices, ...]
    """Distinct sets, each ascending."""
    of_variable: Indices
    """Index into ``sets`` per binding variable."""


def find_candidates(
    graph: TaskGraph, machines: tuple[Machine, ...], seconds: Seconds, shapes: Shapes, amounts: Floats
) -> Candidates:
    """Return the candidates of all variables; raise Infeasible if a variable has no candidate.

    The candidates of a variable are the machines that all its tasks accept. The message of Infeasible says
    how many machines fail which condition of a task. Raises InvalidInput with the problems of all
    requirements that cannot be evaluated.
    """
    filters = _MachineFilter(graph, machines, seconds, shapes, amounts)
    masks: list[_Mask] = [np.ones(len(machines), dtype=bool)]
    of_signature: dict[object, int] = {}
    of_task = [0] * len(graph)
    problems: dict[str, Sequence[Problem]] = {}
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        signature = filters.signature(task)
        if (index := of_signature.get(signature)) is None:
            if (name := graph.description(task).name) in problems:
                continue  # another point of the same sweep
            try:
                masks.append(filters.accepted(task))
            except InvalidInput as error:
                problems[name] = error.problems
                continue
            index = of_signature[signature] = len(masks) - 1
        of_task[task] = index
    if problems:
        raise InvalidInput([problem for found in problems.values() for problem in found])
    return _intersect(graph, filters, masks, of_task)


_NEGATIONS = {
    "offers": "does not offer",
    "is": "is not",
    "has": "does not have",
    "requirements": "does not meet the requirements",
}
"""By the first word of a condition: the words that replace it in the text for a machine that fails it."""


def negate_condition(text: str) -> str:
    """Return the text that says that a machine does not meet a condition of ``list_conditions``."""
    first, _, rest = text.partition(" ")
    return f"{_NEGATIONS[first]} {rest}"


def list_conditions(instance: Instance, task: int) -> list[tuple[str, list[bool]]]:
    """Return the conditions of a compute task for machines: a text, and whether each machine meets it."""
    graph = instance.graph
    shapes = np.zeros(len(graph), dtype=np.int64)  # used by `signature` only
    filters = _MachineFilter(graph, instance.machines, instance.seconds, shapes, instance.amounts)
    return [(text, passed.tolist()) for text, passed in filters.conditions(task)]


def _intersect(
    graph: TaskGraph, filters: _MachineFilter, masks: list[_Mask], of_task: list[int]
) -> Candidates:
    """Return for each variable the machines that all its tasks accept; raises Infeasible if none."""
    of_variable = [0] * len(graph.variables)
    combined: dict[tuple[int, int], int] = {}
    for task, variable in enumerate(graph.variable.tolist()):
        mine, theirs = of_task[task], of_variable[variable]
        if mine in (0, theirs):
            continue
        if theirs == 0:
            of_variable[variable] = mine
            continue
        pair = (min(mine, theirs), max(mine, theirs))
        if pair not in combined:
            combined[pair] = len(masks)
            masks.append(masks[mine] & masks[theirs])
        of_variable[variable] = combined[pair]
    for variable, index in enumerate(of_variable):
        if not masks[index].any():
            _infeasible(graph, filters, masks, of_task, variable)
    # Different tasks may accept the same machines: merge equal sets.
    number: dict[bytes, int] = {}
    numbers = np.array([number.setdefault(mask.tobytes(), len(number)) for mask in masks], dtype=np.uint32)
    sets = tuple(np.flatnonzero(np.frombuffer(key, dtype=np.bool_)).astype(np.uint32) for key in number)
    return Candidates(sets=sets, of_variable=numbers[of_variable])


def _infeasible(
    graph: TaskGraph, filters: _MachineFilter, masks: list[_Mask], of_task: list[int], variable: int
) -> None:
    members = np.flatnonzero(graph.variable == variable).tolist()
    alone = next((task for task in members if not masks[of_task[task]].any()), None)
    if alone is not None:
        hint = filters.suggest_platform(alone)
        raise Infeasible(f"no machine can run {graph.names[alone]}: {filters.explain(alone)}{hint}")
    names = ", ".join(graph.names[task] for task in members[:6]) + (", …" if len(members) > 6 else "")
    reasons = "; ".join(f"{graph.names[task]}: {filters.explain(task)}" for task in members[:3])
    name = graph.variables[variable]
    raise Infeasible(f"no machine can run all tasks of {name!r} ({names}): {reasons}")


_NAMED = 8
"""Maximum number of names that a hint lists."""


def _largest_needs(graph: TaskGraph) -> dict[str, str]:
    """Return the nodes, cores and memory of a machine that can run every task, as options of a short form."""
    compute = np.flatnonzero(graph.kind == COMPUTE)
    found = {
        "nodes": str(max(int(graph.count_sets[number][0]) for number in np.unique(graph.counts[compute])))
    }
    if (cores := math.ceil(graph.cores[compute].max())) > 1:
        found["cores"] = str(cores)
    if "memory" in graph.resource_names:
        amount = float(graph.demand[:, graph.resource_names.index("memory")].max())
        found |= {"memory": f"{math.ceil(amount / 1e6)}MB"} if amount > 0 else {}
    return found


def _needs_this_host(description: Task) -> str:
    """Return the key of a task because of which it cannot run on a machine with a disk of its own, or "".

    Isolation is made by programs of this host, and a function of a Python program is stored by weft, which
    is not installed on other hosts.
    """
    job = description.job
    if job is not None and job.isolate is not None and job.isolate.tool in ISOLATED_BY:
        return "isolate"
    return "call" if job is not None and (job.call or "").startswith("weft.") else ""


class _MachineFilter:
    """Computes which machines a task accepts, condition by condition."""

    def __init__(
        self,
        graph: TaskGraph,
        machines: tuple[Machine, ...],
        seconds: Seconds,
        shapes: Shapes,
        amounts: Floats,
    ) -> None:
        self.graph = graph
        self.machines = machines
        self.seconds = seconds
        self.shapes = shapes.tolist()
        self.amounts = amounts
        self.nodes = np.array([machine.nodes for machine in machines])
        self.cores = np.array([machine.cores for machine in machines])
        self.node_is_core = np.array([machine.node_is_core for machine in machines])
        self.is_here = np.array([not machine.has_own_disk for machine in machines], dtype=bool)
        self.memory_per_node = node_memory(machines)
        self.has_own_memory = bool(np.isfinite(self.memory_per_node).any())
        self.varied = (np.diff(graph.demand_by_count.pointer) > 0).tolist()
        self.columns = machine_columns(machines)
        self.idle = idle_columns(machines, unknown_bytes=AMPLE_BYTES)
        self.offers: dict[str | None, _Mask] = {}

    def signature(self, task: int) -> object:
        """Return a key of all that the conditions read; tasks with equal keys accept equal machines."""
        graph, description = self.graph, self.graph.description(task)
        requirements = description.requirements
        swept = description.sweep.names if description.sweep is not None else ()
        needs_point = requirements is not None and any(name in requirements.names for name in swept)
        return (
            description.service,
            _needs_this_host(description),
            requirements,
            (description.name, graph.points[task]) if needs_point else None,
            graph.counts[task],
            graph.cores[task],
            graph.demand[task].tobytes() if graph.resource_names else None,
            graph.demand_by_count.of(task).tobytes() if self.varied[task] else None,
            self.shapes[task],
        )

    def accepted(self, task: int) -> _Mask:
        """Return a mask of the machines that meet all conditions of a task."""
        mask = np.ones(len(self.machines), dtype=bool)
        for _, passed in self.conditions(task):
            mask &= passed
        return mask

    def conditions(self, task: int) -> Iterator[_Filter]:
        """Yield each condition of a task: a text, and a mask of the machines that meet it."""
        graph, description = self.graph, self.graph.description(task)
        service = description.service
        if service not in self.offers:
            self.offers[service] = np.array([machine.offers(service) for machine in self.machines])
        open_to = f"offers the service {service!r}" if service else "is open to tasks without a service"
        yield open_to, self.offers[service]
        if needed := _needs_this_host(description):
            yield f"has the disk of this computer, as `{needed}` needs", self.is_here
        if description.requirements is not None:
            yield f"requirements {description.requirements}", self._meets(task, description.requirements)
        if (cores := max(1, math.ceil(graph.cores[task]))) > 1:
            yield f"has {cores} cores per node", (self.cores >= cores) | self.node_is_core
        least = graph.count_sets[graph.counts[task]][0]
        taken = nodes_taken(float(graph.cores[task]), np.full(len(self.nodes), least), self.node_is_core)
        most = int(self.nodes.max(initial=0))
        large_enough = taken <= self.nodes
        yield f"has {format_count(least, 'node')} (the largest has {most})", large_enough
        for column, name in enumerate(graph.resource_names):
            if (amount := float(graph.demand[task, column])) > 0:
                shown = format_bytes(amount) if name == "memory" else f"{amount:g}"
                yield f"has {shown} of {name} in total", self.amounts[:, column] >= amount
        machine, count = self._fitting(task)
        estimated = np.zeros(len(self.machines), dtype=bool)
        estimated[machine] = True
        # A machine that is too small has no estimate either; report it once.
        yield "has an estimate for a node count that fits", estimated | ~large_enough
        demand = amounts_taken(graph, graph.demand_by_count, task, count)
        if demand is not None:
            served = np.zeros(len(self.machines), dtype=bool)
            served[machine[(demand <= self.amounts[machine]).all(axis=1)]] = True
            yield "has the resources for a node count that fits", served | ~estimated
        if self.has_own_memory and "memory" in graph.resource_names:
            column = graph.resource_names.index("memory")
            memory = graph.demand[task, column] if demand is None else demand[:, column]
            nodes = nodes_taken(float(graph.cores[task]), count, self.node_is_core[machine])
            enough = np.zeros(len(self.machines), dtype=bool)
            enough[machine[memory <= self.memory_per_node[machine] * nodes]] = True
            yield "has the memory on the nodes of a count that fits", enough | ~estimated

    def _fitting(self, task: int) -> tuple[Indices, Indices]:
        """Return machines and node counts of the estimated modes for which the machine has enough nodes."""
        machine, count, _ = self.seconds.modes(task)
        nodes = nodes_taken(float(self.graph.cores[task]), count, self.node_is_core[machine])
        fits = nodes <= self.nodes[machine]
        return machine[fits], count[fits]

    def _meets(self, task: int, requirements: Expression) -> _Mask:
        context = self.graph.context(task)
        # Live names have their values on idle machines: a busy machine may meet the requirements later.
        # Names of the task take precedence over live names.
        idle = {name: column for name, column in self.idle.items() if name not in context}
        columns = {**idle, **self.columns}
        if unknown := find_unknown_names(requirements, {*columns, *context}):
            raise self._at_requirements(task, [problem for error in unknown for problem in error.problems])
        try:
            found = evaluate_columns(requirements, columns, len(self.machines), context)
        except InvalidInput as error:
            raise self._at_requirements(task, error.problems) from None
        if found.dtype != bool:
            value = found[:1].tolist()[0]
            what = f"requirements {requirements} evaluate to {shorten(value)}, not to true or false"
            raise self._at_requirements(task, [Problem(what=what, advice="write a comparison")])
        return found

    def _at_requirements(self, task: int, problems: Iterable[Problem]) -> InvalidInput:
        path = ("tasks", self.graph.description(task).name, "requirements")
        here = [replace(problem, path=path, location=None) for problem in problems]
        return InvalidInput(list(locate_problems(here, self.graph.workflow.document)))

    def suggest_platform(self, task: int) -> str:
        """Return a text that describes a platform on which a task could run, as the end of an error message.

        The text is empty if no such platform can be described. The amounts are the largest of the whole
        workflow, because a platform that suffices for one task may not suffice for another.
        """
        graph, description = self.graph, self.graph.description(task)
        if isinstance(description.seconds, Mapping) and not len(self.seconds.modes(task)[0]):
            named = ", ".join(map(str, list(description.seconds)[:_NAMED]))
            return f"; its seconds are stated for the machines {named}: use a platform with these names"
        if (needed := _needs_this_host(description)) and not self.is_here.any():
            return f"; tasks with `{needed}` cannot run on ssh hosts: omit it, or use local machines"
        needs = _largest_needs(graph)
        short = ",".join([f"cluster:{needs.pop('nodes')}", *(f"{key}={needs[key]}" for key in needs)])
        largest = zip(graph.resource_names, graph.demand.max(axis=0).tolist(), strict=True)
        amounts = {name: f"{amount:g}" for name, amount in largest if name != "memory" and amount > 0}
        gpus = [f"gpus: {amounts.pop('gpus')}"] if "gpus" in amounts else []
        listed = ", ".join(f"{name}: {amount}" for name, amount in list(amounts.items())[:_NAMED])
        keys = ", ".join([*gpus, *([f"resources: {{{listed}}}"] if amounts else [])])
        service = description.service
        if service is not None and not self.offers[service].any():
            other = f"use a platform file with a machine that has services: [{service}]"
            if (file := graph.workflow.services_file) is None:
                return f"; {other}"
            return f"; state its program in {file}: `services: {{{service}: {{command: ...}}}}`, or {other}"
        if keys:
            return f"; use a platform file with a machine that has at least {keys}"
        return "" if description.requirements is not None else f"; --on {short} is large enough for all tasks"

    def explain(self, task: int) -> str:
        """Return a text that says how many machines fail each condition of a task."""
        rejecting = [
            (text, int((~passed).sum())) for text, passed in self.conditions(task) if not passed.all()
        ]
        total = len(self.machines)
        parts = [f"{rejected} of {total} machines fail '{text}'" for text, rejected in rejecting]
        return "; ".join(parts) or "every machine is accepted"
