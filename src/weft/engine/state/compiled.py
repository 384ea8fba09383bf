"""What is known of a workflow before and while it runs: its instance in forms that are quick to read.

A task graph keeps numpy columns, which are slow to read one number at a time; an engine does nothing else.
The same columns are read here through memory views, and what all tasks of a group share is kept once.

What an expression that an application has written means for its task.

The loops of a run: which tasks repeat together, and which edges wait until a loop is left.

A loop whose first and last task have the same sweep runs per point: each point has a body of its own. Bodies
that share a task are one. Since every task of a body comes before its last task, an iteration is over when
the last task has ended: two iterations of one loop are never under way at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.engine.states import Demand
from weft.errors import InvalidInput
from weft.expressions import Expression, parse
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance, number_rows
from weft.planners.planner import Budget, make_planner
from weft.planners.ranks import mean_seconds, order_by_rank, upward_ranks
from weft.platform.platform import Platform
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.task import Input, Task
from weft.workflow.task_graph import COMPUTE, TRANSFER, LoopBody, TaskGraph
from weft.workflow.templates import fill_template, is_pattern, match_names
from weft.workflow.workflow import Loop, find_growth_files, list_outcome_codes

__all__ = [
    "BoundExpression",
    "CompiledWorkflow",
    "GroupModes",
    "LoopState",
    "Loops",
    "WorkflowLibrary",
    "bind_expression",
    "build_loops",
    "external_source",
    "parse_or_none",
]


def _view_column(column: NDArray[Any]) -> memoryview[Any]:
    """Give a column whose numbers are quick to read one at a time."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]  # arrays are buffers since Python 3


_ONLY_ZERO = frozenset({0})

_MAX_KINDS = 64
"""Kinds of tasks by their seconds that are told apart; where there are more, none are."""


def _name_amounts(graph: TaskGraph, amounts: NDArray[np.float64]) -> Demand:
    """Give amounts with the names of their resources, but for those of which nothing is taken."""
    return tuple(pair for pair in zip(graph.resource_names, amounts.tolist(), strict=True) if pair[1])


def external_source(item: Input) -> str:
    """Say where the user keeps a file that is brought to machines; "": it is not one of these.

    A file that is named after the machine is one no task makes: the program of an architecture.
    """
    return item.source or (item.file if "{machine." in item.file else "")


class GroupModes:
    """The modes that all tasks of a group share, by machine."""

    __slots__ = ("counts", "demand", "machines", "nodes")

    def __init__(self, instance: Instance, group: int) -> None:
        modes = instance.groups[group]
        self.counts: dict[int, list[int]] = {}
        """By machine: the node counts a task may have there, ascending."""
        self.nodes: dict[tuple[int, int], int] = {}
        """By machine and count: the nodes it takes."""
        self.demand: dict[tuple[int, int], Demand] | None = None if modes.demand is None else {}
        """By machine and count: the amounts it takes; None: the task's own, whatever the mode."""
        rows = zip(modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), strict=True)
        for position, (machine, count, nodes) in enumerate(rows):
            self.counts.setdefault(machine, []).append(count)
            self.nodes[machine, count] = nodes
            if self.demand is not None and modes.demand is not None:
                self.demand[machine, count] = _name_amounts(instance.graph, modes.demand[position])
        self.machines = sorted(self.counts)


class CompiledWorkflow:
    """One workflow on one platform, as the engine reads it."""

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
        """Per binding variable: whether several tasks name it."""
        self.moves_data = bool(
            (graph.edge_bytes > 0).any() or (graph.edge_seconds > 0).any() or (graph.edge_files > 0).any()
        )
        self.selectors = sorted({task.job.selector for task in self._tasks if task.job and task.job.selector})
        """The policies that jobs bring for themselves, by name."""
        self.stages = any(external_source(item) for task in graph.workflow.tasks for item in task.inputs)
        """Whether some file comes from outside."""
        self.limited = any(task.recovery.time_limit is not None for task in graph.workflow.tasks)
        """Whether some task has a time limit."""
        self.checkpoints = any(task.recovery.checkpoint is not None for task in graph.workflow.tasks)
        """Whether some task writes restart files."""
        self.owes = any(
            task.recovery.contract is not None or (task.job is not None and task.job.evaluator is not None)
            for task in graph.workflow.tasks
        )
        """Whether some task states a contract of its own."""
        self.brings = any(item.target is not None for task in graph.workflow.tasks for item in task.outputs)
        """Whether some output is brought to where the user wants it."""
        self.demands = bool(graph.resource_names) and bool(
            (graph.demand > 0).any() or len(graph.demand_by_count.rows)
        )
        self.transfers = bool((graph.kind == TRANSFER).any())
        """Whether some task moves a file."""
        self.ranked = any(task.rank is not None for task in self._tasks)
        """Whether some task ranks machines by an expression of its own."""
        self.uniform = isinstance(instance.seconds, RelatedSeconds | ClassSeconds) and not any(
            item.shared and "{machine.name}" in external_source(item)
            for task in self._tasks
            for item in task.inputs
        )
        """Whether machines of one description have the same seconds and are sent the same shared files."""
        self.plain = (
            self.uniform
            and not (self.demands or self.moves_data or self.stages or self.ranked or graph.loops)
            and not self.checkpoints
            and not self.transfers
            and bool((instance.capacity == 1).all())
        )
        """Whether nothing but free nodes decides where a task can start, and machines have one node each."""
        self._options: dict[int, GroupModes] = {}
        self._outcomes: dict[str, frozenset[int]] | None = None
        self._members: dict[int, list[int]] | None = None
        self._read_seconds()

    def __len__(self) -> int:
        return len(self.names)

    def description(self, task: int) -> Task:
        """Give the user's description behind a task."""
        description: Task = self._tasks[self._template[task]]
        return description

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
        """Estimate the seconds of one possible mode, at the speed the platform states."""
        if self.kind[task] != COMPUTE:
            return 0.0
        if self._related is not None:
            work, service, rate, law, gain = self._related
            return float(work[task] / rate[service[task]][machine] / gain[law[task]][count])
        return self.instance.seconds.at(task, machine, count)

    def options(self, task: int) -> GroupModes:
        """Give the modes of a compute task."""
        group = self.group[task]
        found = self._options.get(group)
        if found is None:
            found = self._options[group] = GroupModes(self.instance, group)
        return found

    def goal(self, task: int) -> int:
        """Number the sets of machines to which a task may go by its binding variable."""
        return int(self._candidates[self.variable[task]])

    def demand(self, task: int, machine: int, count: int) -> Demand:
        """Give the amounts a mode takes."""
        by_mode = self.options(task).demand
        if by_mode is not None:
            return by_mode[machine, count]
        return _name_amounts(self.graph, self.graph.demand[task])

    def after(self, task: int) -> list[int]:
        """List the direct successors."""
        found: list[int] = self._after[self._after_pointer[task] : self._after_pointer[task + 1]].tolist()
        return found

    def edges_after(self, task: int) -> list[int]:
        """List the edges to the direct successors, in the same order."""
        found: list[int] = self._after_edge[
            self._after_pointer[task] : self._after_pointer[task + 1]
        ].tolist()
        return found

    def before(self, task: int) -> list[int]:
        """List the direct predecessors."""
        found: list[int] = self._before[self._before_pointer[task] : self._before_pointer[task + 1]].tolist()
        return found

    def edge(self, task: int, successor: int) -> int:
        """Give the number of the edge between two tasks."""
        return self.edges_after(task)[self.after(task).index(successor)]

    def size_of(self, item: Input, task: int) -> float:
        """Give the bytes of a file from outside; 0 where nobody said."""
        return 0.0 if item.size is None else float(evaluate_quantity(item.size, self.graph.context(task)))

    def template(self, task: int) -> int:
        """Give the number of the user's description behind a task."""
        return int(self._template[task])

    def selector(self, task: int) -> str:
        """Name the policy a job wants to be placed by; "": that of the run."""
        job = self.description(task).job
        return "" if job is None else job.selector or ""

    def brings_out(self, task: int) -> bool:
        """Say whether some output of a task is brought to where the user wants it."""
        return self.brings and any(item.target is not None for item in self.description(task).outputs)

    def results(self, task: int) -> list[str]:
        """List the outputs of a task that no task reads and that have no other place to go."""
        outputs = self.description(task).outputs
        if not outputs:
            return []
        context = self.graph.context(task)
        names = [fill_template(item.file, context, last=False) for item in outputs if item.target is None]
        return [name for name in names if name not in self._read_names]

    @cached_property
    def _read_names(self) -> frozenset[str]:
        """Give the names of the files that some task reads, those that wildcards hold among them."""
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
        """Estimate the bytes of a task's restart files: those of its outputs, where nobody said."""
        outputs = self.graph.description(task).outputs
        context = self.graph.context(task)
        return float(sum(evaluate_quantity(item.size, context) for item in outputs if item.size is not None))

    def edges_before(self, task: int) -> range:
        """List the edges from the direct predecessors, in the same order."""
        return range(self._before_pointer[task], self._before_pointer[task + 1])

    def members_of(self, variable: int) -> list[int]:
        """List the tasks that name a binding variable shared by several."""
        if self._members is None:
            self._members = {}
            for task, name in enumerate(self.variable):
                if self.shared[name]:
                    self._members.setdefault(name, []).append(task)
        return self._members.get(variable, [])

    def outcomes(self, task: int) -> frozenset[int]:
        """Give the exit codes of a task that are results, not failures; 0 always is."""
        if self._outcomes is None:
            found = list_outcome_codes(self.graph.workflow)
            self._outcomes = {name: frozenset(codes) | {0} for name, codes in found.items()}
            stated = {task.name for task in self.graph.workflow.tasks if task.outcomes}
            for loop in self.graph.workflow.loops:
                if 0 in found.get(loop.last, ()) and loop.last not in stated:
                    # `until: conv.exit_code == 0` has two answers: 1 means "not yet", as with test and grep.
                    self._outcomes[loop.last] |= {1}
        return self._outcomes.get(self.description(task).name, _ONLY_ZERO)

    @cached_property
    def machines(self) -> frozenset[int]:
        """Give the machines to which some task may go by what the workflow states."""
        if self.transfers:
            return frozenset(range(len(self.instance.machines)))
        return frozenset(machine for modes in self.instance.groups for machine in modes.machine.tolist())

    @cached_property
    def simple(self) -> bool:
        """Say whether when a task ends depends on nothing but its seconds, its machine and free nodes."""
        told_apart = self.demands or self.moves_data or self.stages or self.checkpoints
        return not (told_apart or any(self.shared))

    @cached_property
    def seconds_kinds(self) -> Sequence[int] | None:
        """Number the tasks by what they take everywhere; None: there are many kinds."""
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
        """Number the tasks by the amounts they take."""
        return number_rows(*self.graph.demand.T)

    @cached_property
    def demand_kinds(self) -> Sequence[int] | None:
        """Number the tasks by the amounts they take, near ones alike if many; None: all alike."""
        if not self.demands or not self._different_demands.any():
            return None
        different = int(self._different_demands.max()) + 1
        return _view_column(self._different_demands // -(-different // _MAX_KINDS))

    @cached_property
    def even(self) -> bool:
        """Say whether tasks of one kind take the same amounts: unless there are many kinds of these."""
        return not self.demands or int(self._different_demands.max(initial=0)) < _MAX_KINDS

    @cached_property
    def mean_seconds(self) -> Sequence[float]:
        """Give the mean seconds of every task over the machines that can run it."""
        return _view_column(mean_seconds(self.instance))

    @cached_property
    def ranks(self) -> Sequence[float]:
        """Give the upward rank of every task."""
        return _view_column(upward_ranks(self.instance))

    @cached_property
    def rank_order(self) -> Sequence[int]:
        """Give all tasks by descending upward rank, then index."""
        return _view_column(order_by_rank(np.asarray(self.ranks)))

    @cached_property
    def rank_place(self) -> Sequence[int]:
        """Give the place of every task in that order."""
        return _view_column(np.argsort(np.asarray(self.rank_order)))

    @cached_property
    def alone_s(self) -> float:
        """Give the makespan of HEFT's plan on the empty platform (S5 section 3: mk)."""
        planner, goal = make_planner("heft"), make_objective("makespan")
        if planner.supports(self.instance, goal) is not None:
            return float(max(self.ranks, default=0.0))
        rng = generator(0, "alone")
        return planner.plan(self.instance, objective=goal, budget=Budget(), rng=rng).schedule.makespan_s


class WorkflowLibrary:
    """The workflows an engine may be given, by key."""

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
        """Name the policies that jobs bring for themselves."""
        return sorted({name for known in self._compiled.values() for name in known.selectors})

    def grown(self, known: CompiledWorkflow, graph: TaskGraph) -> CompiledWorkflow:
        """Give what is known of a workflow whose graph has grown, on the same platform."""
        return CompiledWorkflow(known.key, self._compile(graph, known.instance.platform))


BoundExpression = tuple[str, tuple[tuple[str, str], ...]]
"""An expression, and the values of its names that are the task's own; all others are the machine's."""


def bind_expression(known: CompiledWorkflow, task: int, text: str) -> BoundExpression:
    """Say what an expression means: the same for most tasks of a sweep."""
    expression = parse_or_none(text)
    if expression is None:
        return text, ()
    context = known.graph.context(task)
    heads = dict.fromkeys(name.partition(".")[0] for name in expression.names)
    return text, tuple((head, repr(context[head])) for head in heads if head in context)


@lru_cache(maxsize=1024)
def parse_or_none(text: str) -> Expression | None:
    """Read an expression; None: it cannot be read."""
    try:
        return parse(text)
    except InvalidInput:
        return None


@dataclass(slots=True)
class LoopState:
    """One body of a loop."""

    index: int
    loop: Loop
    tasks: tuple[int, ...]
    """Ascending, so in topological order."""
    lasts: tuple[int, ...]
    """The tasks at whose end the condition is judged."""
    most: int | None
    """The largest number of iterations; None: no limit."""
    leaving: tuple[tuple[int, int], ...] = ()
    """Edges (task, successor) that are released when this loop is left."""
    inner: tuple[int, ...] = ()
    """Bodies inside this one: they begin anew with each iteration."""
    iteration: int = 1
    left: bool = False


class Loops:
    """The bodies of one run."""

    def __init__(self, bodies: list[LoopState]) -> None:
        self.bodies = bodies
        self.around: dict[int, tuple[int, ...]] = {}
        """Per task in a body: the bodies it is in, innermost first."""
        by_size = sorted(bodies, key=lambda body: (len(body.tasks), body.index))
        for body in by_size:
            for task in body.tasks:
                self.around[task] = (*self.around.get(task, ()), body.index)
        self.ended_by = {task: body.index for body in reversed(by_size) for task in body.lasts}
        """Per last task: the innermost body it ends."""

    def iteration(self, task: int) -> int:
        """Give the current iteration of a task's innermost loop; 1 outside of loops."""
        around = self.around.get(task)
        return self.bodies[around[0]].iteration if around else 1

    def held_back_by(self, task: int, successor: int) -> int | None:
        """Give the outermost body that holds a task but not its successor; None: the edge leaves no loop."""
        beyond = self.around.get(successor, ())
        outside = [index for index in self.around.get(task, ()) if index not in beyond]
        return outside[-1] if outside else None

    def waits_for_end(self, task: int, successor: int) -> bool:
        """Say whether an edge is released only later, when a loop that is still under way is left."""
        held = self.held_back_by(task, successor)
        return held is not None and not self.bodies[held].left


def build_loops(known: CompiledWorkflow) -> Loops:
    """Find the bodies of a workflow's loops."""
    bodies: list[LoopState] = []
    for declared in known.graph.loops:
        for tasks, lasts in _split_body(known, declared):
            most = _find_limit(known, declared.loop)
            bodies.append(
                LoopState(index=len(bodies), loop=declared.loop, tasks=tasks, lasts=lasts, most=most)
            )
    loops = Loops(bodies)
    if bodies:
        _find_leaving_edges(known, loops)
    return loops


def _find_limit(known: CompiledWorkflow, loop: Loop) -> int | None:
    if loop.max_iterations is None:
        return None
    try:
        return int(evaluate_quantity(loop.max_iterations, known.graph.params))
    except InvalidInput:  # told when the workflow was checked
        return None


def _split_body(known: CompiledWorkflow, declared: LoopBody) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split a declared body into parts that share no task and no edge: one per point of a common sweep."""
    tasks = [int(task) for task in declared.tasks]
    inside = set(tasks)
    parent = {task: task for task in tasks}

    def root(task: int) -> int:
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    for task in tasks:
        for successor in known.after(task):
            if successor in inside:
                one, other = sorted((root(task), root(successor)))
                parent[other] = one
    parts: dict[int, list[int]] = {}
    for task in tasks:
        parts.setdefault(root(task), []).append(task)
    template = known.graph.template
    names = [description.name for description in known.graph.workflow.tasks]
    last = names.index(declared.loop.last)
    ends = np.asarray(template)
    return [
        (tuple(part), tuple(task for task in part if int(ends[task]) == last))
        for _, part in sorted(parts.items())
    ]


def _find_leaving_edges(known: CompiledWorkflow, loops: Loops) -> None:
    leaving: dict[int, list[tuple[int, int]]] = {}
    for task in sorted(loops.around):
        for successor in known.after(task):
            held = loops.held_back_by(task, successor)
            if held is not None:
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
