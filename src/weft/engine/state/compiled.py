"""A workflow compiled for the engine: its instance in forms from which single values can be read fast.

NumPy columns are slow to index by single numbers, so the columns are read through memory views, and values
that all tasks of a group share are stored once.

A loop whose first and last task share a sweep has one body per point of the sweep; bodies that share a task
are merged. Every task of a body precedes its last task, so an iteration ends with the last task, and two
iterations of one loop never overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.engine.states import Demand
from weft.errors import InvalidInput
from weft.expressions import Expression, parse
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance, mark_untimed_tasks, number_rows
from weft.instance.preferences import find_live_names
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.planners.ranks import mean_seconds, order_by_rank, upward_ranks
from weft.platform.arrays import machine_columns
from weft.platform.platform import Platform
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.randomness import generator
from weft.records import dataclass
from weft.schedule.objective import make_objective
from weft.schedule.schedule import total_seconds
from weft.workflow.quantity import evaluate_quantity, grows
from weft.workflow.task import Input, Task
from weft.workflow.task_graph import COMPUTE, TRANSFER, LoopBody, TaskGraph
from weft.workflow.templates import fill_template, is_pattern, match_names
from weft.workflow.workflow import Loop, find_growth_files, list_outcome_codes


def _view_column(column: NDArray[Any]) -> memoryview[Any]:
    """Return a memory view of a column; reading single values from it is faster than from an array."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]  # arrays are buffers since Python 3


_ONLY_ZERO = frozenset({0})

_MAX_KINDS = 64
"""Maximal number of groups of tasks by seconds, and of groups of tasks by resource amounts."""


def _name_amounts(graph: TaskGraph, amounts: NDArray[np.float64]) -> Demand:
    """Return (resource name, amount) pairs of the non-zero amounts."""
    return tuple(pair for pair in zip(graph.resource_names, amounts.tolist(), strict=True) if pair[1])


def external_source(item: Input) -> str:
    """Return the path of an input in the user's storage; "": a task produces the input.

    A file whose name contains attributes of the machine (``{machine.arch}``) is taken from the user's storage
    too: it is a program that exists once per architecture.
    """
    return item.source or (item.file if "{machine." in item.file else "")


class GroupModes:
    """The modes that all tasks of a group share, by machine."""

    __slots__ = ("counts", "demand", "machines", "nodes")

    def __init__(self, instance: Instance, group: int) -> None:
        modes = instance.groups[group]
        self.counts: dict[int, list[int]] = {}
        """By machine: the possible node counts, ascending."""
        self.nodes: dict[tuple[int, int], int] = {}
        """By machine and node count: the number of nodes that the mode allocates."""
        self.demand: dict[tuple[int, int], Demand] | None = None if modes.demand is None else {}
        """By machine and node count: the resource amounts; None: each mode needs the amounts of the task."""
        rows = zip(modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), strict=True)
        for position, (machine, count, nodes) in enumerate(rows):
            self.counts.setdefault(machine, []).append(count)
            self.nodes[machine, count] = nodes
            if self.demand is not None and modes.demand is not None:
                self.demand[machine, count] = _name_amounts(instance.graph, modes.demand[position])
        self.machines = sorted(self.counts)


class CompiledWorkflow:
    """One workflow on one platform, in the form the engine reads."""

    def __init__(self, key: str, instance: Instance) -> None:
        graph = instance.graph
        self.key = key
        self.instance = instance
        self.graph = graph
        self.names = graph.names
        self._tasks = graph.workflow.tasks
        self._template = _view_column(graph.template)
        self.kind = _view_column(graph.kind)
        self.group = _view_column(instance.group)
        self.variable = _view_column(graph.variable)
        self._candidates = _view_column(instance.candidates)
        self._after_pointer = _view_column(graph.successor_pointer)
        self._after = _view_column(graph.successor)
        self._after_edge = _view_column(graph.successor_edge)
        self._before_pointer = _view_column(graph.predecessor_pointer)
        self._before = _view_column(graph.predecessor)
        members = np.bincount(graph.variable, minlength=len(graph.variables))
        members += np.bincount(graph.source_variable, minlength=len(graph.variables) + 1)[:-1]
        self.shared = _view_column((members > 1).astype(np.uint8))
        """Per binding variable: whether several tasks use it."""
        self.moves_data = bool(
            (graph.edge_bytes > 0).any() or (graph.edge_seconds > 0).any() or (graph.edge_files > 0).any()
        )
        self.selectors = sorted({task.job.selector for task in self._tasks if task.job and task.job.selector})
        """The selectors that tasks of the workflow state: names of policies, and programs."""
        self.stages = any(external_source(item) for task in graph.workflow.tasks for item in task.inputs)
        """Whether some task has an external input file."""
        self.limited = any(task.recovery.time_limit is not None for task in graph.workflow.tasks)
        """Whether some task has a time limit."""
        self.checkpoints = any(task.recovery.checkpoint is not None for task in graph.workflow.tasks)
        """Whether some task writes restart files."""
        self.has_targets = any(
            item.target is not None for task in graph.workflow.tasks for item in task.outputs
        )
        """Whether some output has a target path."""
        self.demands = bool(graph.resource_names) and bool(
            (graph.demand > 0).any() or len(graph.demand_by_count.rows)
        )
        self.transfers = bool((graph.kind == TRANSFER).any())
        """Whether some task is a transfer."""
        self.ranked = any(task.rank is not None for task in self._tasks)
        """Whether some task has a ranking expression."""
        self.live_requirements = {
            template: str(task.requirements)
            for template, task in enumerate(self._tasks)
            if task.requirements is not None and self._uses_live_names(task)
        }
        """By position of a description: its requirement, if it uses values that change during a run."""
        self.preference_kinds = self._number_preferences()
        """By position of a description: a number, equal for descriptions with equal ranks and requirements.

        Only requirements in ``live_requirements`` are compared. None: no description has a rank or such a
        requirement.
        """
        self.uniform = isinstance(instance.seconds, RelatedSeconds | ClassSeconds) and not any(
            item.shared and "{machine.name}" in external_source(item)
            for task in self._tasks
            for item in task.inputs
        )
        """Whether machines with equal descriptions have equal seconds and shared files for each task."""
        self.plain = (
            self.uniform
            and not (self.demands or self.moves_data or self.stages or self.ranked or graph.loops)
            and not self.live_requirements
            and not self.checkpoints
            and not self.transfers
            and bool((instance.capacity == 1).all())
        )
        """Whether every machine has one node, and only free nodes decide where a task can start."""
        self._options: dict[int, GroupModes] = {}
        self._outcomes: dict[str, frozenset[int]] | None = None
        self._members: dict[int, list[int]] | None = None
        self._read_seconds()

    def __len__(self) -> int:
        return len(self.names)

    def description(self, task: int) -> Task:
        """Return the description of a task in the workflow file."""
        description: Task = self._tasks[self._template[task]]
        return description

    @cached_property
    def _untimed(self) -> memoryview[Any]:
        return _view_column(mark_untimed_tasks(self.instance).astype(np.uint8))

    def is_untimed(self, task: int) -> bool:
        """Return whether the seconds of a task are a placeholder, because nothing states them."""
        return bool(self._untimed[task])

    @cached_property
    def machine_columns(self) -> Mapping[str, NDArray[Any]]:
        """Return the values that the platform states for each machine, by their names in expressions."""
        return machine_columns(self.instance.machines)

    def _uses_live_names(self, task: Task) -> bool:
        """Return whether the requirement of a description uses values that change during a run."""
        swept = () if task.sweep is None else task.sweep.names
        defined = {*self.machine_columns, *self.graph.params, *swept}
        return task.requirements is not None and bool(find_live_names(task.requirements, defined))

    def _number_preferences(self) -> tuple[int, ...] | None:
        """Return a number per description; descriptions with equal numbers have equal ranks and requirements.

        Only requirements that use values that change during a run are compared. None: no description has a
        rank or such a requirement.
        """
        if not (self.ranked or self.live_requirements):
            return None
        numbers: dict[tuple[str, str], int] = {}
        return tuple(
            numbers.setdefault((str(task.rank or ""), self.live_requirements.get(template, "")), len(numbers))
            for template, task in enumerate(self._tasks)
        )

    def _read_seconds(self) -> None:
        seconds = self.instance.seconds
        self._related: tuple[Any, ...] | None = None
        if isinstance(seconds, RelatedSeconds):
            self._related = (
                _view_column(seconds.work),
                _view_column(seconds.service),
                seconds.rate.tolist(),
                _view_column(seconds.law),
                seconds.speedup.tolist(),
            )

    def seconds(self, task: int, machine: int, count: int) -> float:
        """Return the estimated seconds of a mode at the machine's nominal speed."""
        if self.kind[task] != COMPUTE:
            return 0.0
        if self._related is not None:
            work, service, rate, law, gain = self._related
            found: float = work[task] / rate[service[task]][machine] / gain[law[task]][count]
            return found
        return self.instance.seconds.at(task, machine, count)

    def options(self, task: int) -> GroupModes:
        """Return the modes of a compute task."""
        group = self.group[task]
        if (found := self._options.get(group)) is None:
            found = self._options[group] = GroupModes(self.instance, group)
        return found

    def candidate_set(self, task: int) -> int:
        """Return a number that identifies the set of candidate machines of a task's binding variable."""
        return int(self._candidates[self.variable[task]])

    def demand(self, task: int, machine: int, count: int) -> Demand:
        """Return the resource amounts that a mode consumes."""
        by_mode = self.options(task).demand
        if by_mode is not None:
            return by_mode[machine, count]
        return _name_amounts(self.graph, self.graph.demand[task])

    def after(self, task: int) -> list[int]:
        """Return the direct successors of a task."""
        found: list[int] = self._after[self._after_pointer[task] : self._after_pointer[task + 1]].tolist()
        return found

    def edges_after(self, task: int) -> list[int]:
        """Return the edges to the direct successors of a task, in the order of ``after``."""
        found: list[int] = self._after_edge[
            self._after_pointer[task] : self._after_pointer[task + 1]
        ].tolist()
        return found

    @cached_property
    def conditional(self) -> frozenset[int]:
        """Return the tasks that may be skipped because one of their dependencies has a condition."""
        conditions = self.graph.edge_condition
        if not conditions:
            return frozenset()
        return frozenset(
            after
            for task in range(len(self.graph))
            for after, edge in zip(self.after(task), self.edges_after(task), strict=True)
            if edge in conditions
        )

    @cached_property
    def growing(self) -> frozenset[int]:
        """Return the tasks that stand for the subtasks of sweeps whose values are not known yet.

        They occur in plans, but are never started: their commands and file names contain no values.
        """
        found = {place for place, task in enumerate(self._tasks) if grows(task.sweep)}
        if not found:
            return frozenset()
        return frozenset(task for task in range(len(self.graph)) if self.template(task) in found)

    def before(self, task: int) -> list[int]:
        """Return the direct predecessors of a task."""
        found: list[int] = self._before[self._before_pointer[task] : self._before_pointer[task + 1]].tolist()
        return found

    def edge(self, task: int, successor: int) -> int:
        """Return the number of the edge from a task to its successor."""
        return self.edges_after(task)[self.after(task).index(successor)]

    def size_of(self, item: Input, task: int) -> float:
        """Return the size of an external input file in bytes; 0 if not stated."""
        return 0.0 if item.size is None else float(evaluate_quantity(item.size, self.graph.context(task)))

    def template(self, task: int) -> int:
        """Return the position of a task's description in the workflow file."""
        return int(self._template[task])

    def selector(self, task: int) -> str:
        """Return the selector of a task, a policy name or a program; "": the policy of the run decides."""
        job = self.description(task).job
        return "" if job is None else job.selector or ""

    def has_target(self, task: int) -> bool:
        """Return whether some output of a task has a target path."""
        return any(item.target is not None for item in self.description(task).outputs)

    def results(self, task: int) -> list[str]:
        """Return the file names of a task's outputs that no task reads and that have no target path."""
        outputs = self.description(task).outputs
        if not outputs:
            return []
        context = self.graph.context(task)
        names = [fill_template(item.file, context, last=False) for item in outputs if item.target is None]
        return [name for name in names if name not in self._read_names]

    @cached_property
    def _read_names(self) -> frozenset[str]:
        """Return the names of all files that some task reads, including those matched by wildcards."""
        found = set(find_growth_files(self.graph.workflow))
        patterns: set[str] = set()
        made: set[str] = set()
        for task in range(len(self)):
            description = self.description(task)
            context = self.graph.context(task) if description.inputs or description.outputs else {}
            made.update(fill_template(item.file, context, last=False) for item in description.outputs)
            for item in description.inputs:
                name = fill_template(item.file, context, last=False)
                (patterns if is_pattern(item.file) and item.source is None else found).add(name)
        names = sorted(made) if patterns else []
        held = (name for pattern in patterns for name in match_names(names, pattern))
        return frozenset(found).union(patterns, held)

    def restart_bytes(self, task: int) -> float:
        """Return the estimated bytes of a task's restart files: the sum of the stated output sizes."""
        outputs = self.graph.description(task).outputs
        context = self.graph.context(task)
        return float(sum(evaluate_quantity(item.size, context) for item in outputs if item.size is not None))

    def edges_before(self, task: int) -> range:
        """Return the edges from the direct predecessors of a task, in the order of ``before``."""
        return range(self._before_pointer[task], self._before_pointer[task + 1])

    def members_of(self, variable: int) -> list[int]:
        """Return the tasks of a binding variable; empty if only one task uses it."""
        if self._members is None:
            self._members = {}
            for task, name in enumerate(self.variable):
                if self.shared[name]:
                    self._members.setdefault(name, []).append(task)
        return self._members.get(variable, [])

    def outcomes(self, task: int) -> frozenset[int]:
        """Return the exit codes of a task that count as success; 0 is always among them."""
        if self._outcomes is None:
            found = list_outcome_codes(self.graph.workflow)
            self._outcomes = {name: frozenset(codes) | {0} for name, codes in found.items()}
            stated = {task.name for task in self.graph.workflow.tasks if task.outcomes}
            for loop in self.graph.workflow.loops:
                if 0 in found.get(loop.last, ()) and loop.last not in stated:
                    # With `until: conv.exit_code == 0`, exit code 1 means "not converged", as with test and
                    # grep.
                    self._outcomes[loop.last] |= {1}
        return self._outcomes.get(self.description(task).name, _ONLY_ZERO)

    @cached_property
    def machines(self) -> frozenset[int]:
        """Return the machines that are candidates for some task."""
        if self.transfers:
            return frozenset(range(len(self.instance.machines)))
        return frozenset(machine for modes in self.instance.groups for machine in modes.machine.tolist())

    @cached_property
    def simple(self) -> bool:
        """Return whether the end of a task depends only on its seconds, its machine and free nodes."""
        differing = self.demands or self.moves_data or self.stages or self.checkpoints
        return not (differing or any(self.shared))

    @cached_property
    def seconds_kinds(self) -> Sequence[int] | None:
        """Return a number per task; tasks with equal numbers have equal seconds on all machines.

        None: there would be more than ``_MAX_KINDS`` numbers, or the predictor does not group tasks.
        """
        seconds = self.instance.seconds
        if isinstance(seconds, ClassSeconds):
            kinds = seconds.task_class.astype(np.int64)
        elif isinstance(seconds, RelatedSeconds):
            kinds = number_rows(seconds.work, seconds.service, seconds.law)
        else:
            return None
        return None if len(np.unique(kinds)) > _MAX_KINDS else _view_column(kinds)

    @cached_property
    def _different_demands(self) -> NDArray[np.int64]:
        """Return a number per task; tasks with equal numbers need equal resource amounts."""
        return number_rows(*self.graph.demand.T)

    @cached_property
    def demand_kinds(self) -> Sequence[int] | None:
        """Return a number per task that groups tasks by resource amounts; None: all tasks have equal amounts.

        Tasks with equal amounts have equal numbers. If more than ``_MAX_KINDS`` different amounts exist,
        several of them share a number.
        """
        if not self.demands or not self._different_demands.any():
            return None
        different = int(self._different_demands.max()) + 1
        return _view_column(self._different_demands // -(-different // _MAX_KINDS))

    @cached_property
    def even(self) -> bool:
        """Return whether all tasks with the same number in ``demand_kinds`` have equal resource amounts."""
        return not self.demands or int(self._different_demands.max(initial=0)) < _MAX_KINDS

    @cached_property
    def mean_seconds(self) -> Sequence[float]:
        """Return the mean seconds of every task over its candidate machines."""
        return _view_column(mean_seconds(self.instance))

    @cached_property
    def ranks(self) -> Sequence[float]:
        """Return the upward rank of every task."""
        return _view_column(upward_ranks(self.instance))

    @cached_property
    def rank_order(self) -> Sequence[int]:
        """Return all tasks by descending upward rank, then index."""
        return _view_column(order_by_rank(np.asarray(self.ranks)))

    @cached_property
    def rank_place(self) -> Sequence[int]:
        """Return the position of every task in ``rank_order``."""
        return _view_column(np.argsort(np.asarray(self.rank_order)))

    @cached_property
    def alone_s(self) -> float:
        """Return the makespan of the workflow's HEFT plan (mk in many-workflows.md, section 3).

        Every loop counts with its expected iterations, or with one iteration if no number is stated.
        """
        return plan_alone_s(self.instance)


def plan_alone_s(instance: Instance) -> float:
    """Return the makespan of the HEFT plan of an instance, with the expected iterations of its loops.

    If HEFT does not support the instance, the largest upward rank is returned.
    """
    planner, goal = make_planner("heft"), make_objective("makespan")
    if planner.supports(instance, goal) is not None:
        return float(max(upward_ranks(instance), default=0.0))
    rng = generator(0, "alone")
    request = PlanRequest(instance=instance, objective=goal, budget=Budget(), rng=rng)
    schedule = planner.plan(request).schedule
    return float(total_seconds(schedule.start_s, schedule.finish_s, instance.graph.loops))


class WorkflowLibrary:
    """The workflows that may be submitted to an engine, by key."""

    def __init__(
        self,
        instances: Mapping[str, Instance],
        compile_: Callable[[TaskGraph, Platform], Instance] = compile_instance,
    ) -> None:
        self._compile = compile_
        self._compiled = {key: CompiledWorkflow(key, instance) for key, instance in instances.items()}

    def __getitem__(self, key: str) -> CompiledWorkflow:
        return self._compiled[key]

    def __contains__(self, key: str) -> bool:
        return key in self._compiled

    def __iter__(self) -> Iterator[str]:
        return iter(self._compiled)

    @property
    def selectors(self) -> list[str]:
        """Return the selectors that tasks of these workflows state: names of policies, and programs."""
        return sorted({name for compiled in self._compiled.values() for name in compiled.selectors})

    def grown(self, compiled: CompiledWorkflow, graph: TaskGraph) -> CompiledWorkflow:
        """Compile the grown graph of a workflow, on the platform of ``compiled``."""
        return CompiledWorkflow(compiled.key, self._compile(graph, compiled.instance.platform))


BoundExpression = tuple[str, tuple[tuple[str, str], ...]]
"""An expression and the (name, value) pairs of those names that the task defines.

All other names in the expression are attributes of machines.
"""


def bind_expression(compiled: CompiledWorkflow, task: int, text: str) -> BoundExpression:
    """Return an expression together with the values that the task defines for its names, as a cache key."""
    if (expression := parse_or_none(text)) is None:
        return text, ()
    context = compiled.graph.context(task)
    heads = dict.fromkeys(name.partition(".")[0] for name in expression.names)
    return text, tuple((head, repr(context[head])) for head in heads if head in context)


@lru_cache(maxsize=1024)
def parse_or_none(text: str) -> Expression | None:
    """Return the parsed expression; None: the text has a syntax error."""
    try:
        return parse(text)
    except InvalidInput:
        return None


@dataclass(slots=True)
class LoopState:
    """The state of one body of a loop, such as its current iteration."""

    index: int
    loop: Loop
    tasks: tuple[int, ...]
    """Task indices, ascending and hence in topological order."""
    lasts: tuple[int, ...]
    """The last tasks of the body; when they end, the loop condition is evaluated."""
    most: int | None
    """Maximal number of iterations; None: no limit."""
    leaving: tuple[tuple[int, int], ...] = ()
    """Edges (task, successor) that leave the body; the successor is released when the loop ends."""
    inner: tuple[int, ...] = ()
    """Indices of the bodies nested in this one; they restart with each iteration."""
    iteration: int = 1
    left: bool = False
    """Whether the loop has ended."""


class Loops:
    """The loop bodies of one run."""

    def __init__(self, bodies: list[LoopState]) -> None:
        self.bodies = bodies
        self.around: dict[int, tuple[int, ...]] = {}
        """By task in a loop: the bodies that contain it, innermost first."""
        by_size = sorted(bodies, key=lambda body: (len(body.tasks), body.index))
        for body in by_size:
            for task in body.tasks:
                self.around[task] = (*self.around.get(task, ()), body.index)
        self.ended_by = {task: body.index for body in reversed(by_size) for task in body.lasts}
        """By task that is a last task of some body: the innermost body that it ends."""

    def iteration(self, task: int) -> int:
        """Return the current iteration of a task's innermost loop; 1 for a task outside loops."""
        around = self.around.get(task)
        return self.bodies[around[0]].iteration if around else 1

    def counters(self, task: int) -> tuple[int, ...]:
        """Return the current iterations of all loops around a task, outermost first; (): no loop."""
        return tuple(self.bodies[index].iteration for index in reversed(self.around.get(task, ())))

    def held_back_by(self, task: int, successor: int) -> int | None:
        """Return the outermost loop body that contains a task but not its successor; None: no such body."""
        beyond = self.around.get(successor, ())
        outside = [index for index in self.around.get(task, ()) if index not in beyond]
        return outside[-1] if outside else None

    def waits_for_end(self, task: int, successor: int) -> bool:
        """Return whether the successor waits for the end of a loop that contains the task."""
        held = self.held_back_by(task, successor)
        return held is not None and not self.bodies[held].left


def build_loops(compiled: CompiledWorkflow) -> Loops:
    """Create the loop bodies of a workflow."""
    bodies: list[LoopState] = []
    for declared in compiled.graph.loops:
        for tasks, lasts in _split_body(compiled, declared):
            most = _find_limit(compiled, declared.loop)
            bodies.append(
                LoopState(index=len(bodies), loop=declared.loop, tasks=tasks, lasts=lasts, most=most)
            )
    loops = Loops(bodies)
    if bodies:
        _find_leaving_edges(compiled, loops)
    return loops


def _find_limit(compiled: CompiledWorkflow, loop: Loop) -> int | None:
    if loop.max_iterations is None:
        return None
    try:
        return int(evaluate_quantity(loop.max_iterations, compiled.graph.params))
    except InvalidInput:  # reported when the workflow was checked
        return None


def _split_body(
    compiled: CompiledWorkflow, declared: LoopBody
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (tasks, last tasks) of each connected part of a declared loop body."""
    tasks = [int(task) for task in declared.tasks]
    inside = set(tasks)
    parent = {task: task for task in tasks}

    def root(task: int) -> int:
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    for task in tasks:
        for successor in compiled.after(task):
            if successor in inside:
                one, other = sorted((root(task), root(successor)))
                parent[other] = one
    parts: dict[int, list[int]] = {}
    for task in tasks:
        parts.setdefault(root(task), []).append(task)
    template = compiled.graph.template
    names = [description.name for description in compiled.graph.workflow.tasks]
    last = names.index(declared.loop.last)
    ends = np.asarray(template)
    return [
        (tuple(part), tuple(task for task in part if int(ends[task]) == last))
        for _, part in sorted(parts.items())
    ]


def _find_leaving_edges(compiled: CompiledWorkflow, loops: Loops) -> None:
    leaving: dict[int, list[tuple[int, int]]] = {}
    for task in sorted(loops.around):
        for successor in compiled.after(task):
            if (held := loops.held_back_by(task, successor)) is not None:
                leaving.setdefault(held, []).append((task, successor))
    for body in loops.bodies:
        body.leaving = tuple(leaving.get(body.index, ()))
        members = set(body.tasks)
        body.inner = tuple(
            other.index
            for other in loops.bodies
            if other.index != body.index
            and len(other.tasks) < len(body.tasks)
            and members.issuperset(other.tasks)
        )
