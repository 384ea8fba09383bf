"""What is known of a workflow before and while it runs: its instance in forms that are quick to read.

A task graph keeps numpy columns, which are slow to read one number at a time; an engine does nothing else.
The same columns are read here through memory views, and what all tasks of a group share is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.engine.state.attempt import Demand
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.instance.rows import numbered
from weft.planners.lists.ranks import by_rank, mean_seconds, upward_ranks
from weft.planners.naming import planner_named
from weft.planners.planner import Budget
from weft.platform.platform import Platform
from weft.predictors.seconds import Classes, Related
from weft.randomness import generator
from weft.schedule.objective import objective_named
from weft.workflow.growth import growing_files
from weft.workflow.outcomes import outcomes_of
from weft.workflow.records.data import Input
from weft.workflow.records.quantity import value_of
from weft.workflow.records.task import Task
from weft.workflow.templates import fill
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, TaskGraph
from weft.workflow.wildcards import is_pattern, names_held

__all__ = ["Known", "Library", "Options", "origin"]


def _quick(column: NDArray[Any]) -> memoryview[Any]:
    """Give a column whose numbers are quick to read one at a time."""
    return memoryview(np.ascontiguousarray(column))  # type: ignore[arg-type]  # arrays are buffers since Python 3


_ONLY_ZERO = frozenset({0})

_MOST_KINDS = 64
"""Kinds of tasks by their seconds that are told apart; where there are more, none are."""


def _named(graph: TaskGraph, amounts: NDArray[np.float64]) -> Demand:
    """Give amounts with the names of their resources, but for those of which nothing is taken."""
    return tuple(pair for pair in zip(graph.resource_names, amounts.tolist(), strict=True) if pair[1])


def origin(item: Input) -> str:
    """Say where the user keeps a file that is brought to machines; "": it is not one of these.

    A file that is named after the machine is one no task makes: the program of an architecture.
    """
    return item.source or (item.file if "{machine." in item.file else "")


class Options:
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
                self.demand[machine, count] = _named(instance.graph, modes.demand[position])
        self.machines = sorted(self.counts)


class Known:
    """One workflow on one platform, as the engine reads it."""

    def __init__(self, key: str, instance: Instance) -> None:
        graph = instance.graph
        self.key = key
        self.instance = instance
        self.graph = graph
        self.names = graph.names
        self._tasks = graph.workflow.tasks
        self._template = _quick(graph.template)
        self.kind = _quick(graph.kind)
        self.group = _quick(instance.group)
        self.variable = _quick(graph.variable)
        self._candidates = _quick(instance.candidates)
        self._after_pointer = _quick(graph.successor_pointer)
        self._after = _quick(graph.successor)
        self._after_edge = _quick(graph.successor_edge)
        self._before_pointer = _quick(graph.predecessor_pointer)
        self._before = _quick(graph.predecessor)
        members = np.bincount(graph.variable, minlength=len(graph.variables))
        members += np.bincount(graph.source_variable, minlength=len(graph.variables) + 1)[:-1]
        self.shared = _quick((members > 1).astype(np.uint8))
        """Per binding variable: whether several tasks name it."""
        self.moves_data = bool(
            (graph.edge_bytes > 0).any() or (graph.edge_seconds > 0).any() or (graph.edge_files > 0).any()
        )
        self.selectors = sorted({task.job.selector for task in self._tasks if task.job and task.job.selector})
        """The policies that jobs bring for themselves, by name."""
        self.stages = any(origin(item) for task in graph.workflow.tasks for item in task.inputs)
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
        self.uniform = isinstance(instance.seconds, Related | Classes) and not any(
            item.shared and "{machine.name}" in origin(item) for task in self._tasks for item in task.inputs
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
        self._options: dict[int, Options] = {}
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
        if isinstance(seconds, Related):
            self._related = (
                _quick(seconds.work),
                _quick(seconds.service),
                seconds.rate.tolist(),
                _quick(seconds.law),
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

    def options(self, task: int) -> Options:
        """Give the modes of a compute task."""
        group = self.group[task]
        found = self._options.get(group)
        if found is None:
            found = self._options[group] = Options(self.instance, group)
        return found

    def goal(self, task: int) -> int:
        """Number the sets of machines to which a task may go by its binding variable."""
        return int(self._candidates[self.variable[task]])

    def demand(self, task: int, machine: int, count: int) -> Demand:
        """Give the amounts a mode takes."""
        by_mode = self.options(task).demand
        if by_mode is not None:
            return by_mode[machine, count]
        return _named(self.graph, self.graph.demand[task])

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
        return 0.0 if item.size is None else float(value_of(item.size, self.graph.context(task)))

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
        names = [fill(item.file, context, last=False) for item in outputs if item.target is None]
        return [name for name in names if name not in self._read_names]

    @cached_property
    def _read_names(self) -> frozenset[str]:
        """Give the names of the files that some task reads, those that wildcards hold among them."""
        found = set(growing_files(self.graph.workflow))
        patterns: set[str] = set()
        made: set[str] = set()
        for task in range(len(self)):
            description = self.description(task)
            context = self.graph.context(task) if description.inputs or description.outputs else {}
            made.update(fill(item.file, context, last=False) for item in description.outputs)
            for item in description.inputs:
                name = fill(item.file, context, last=False)
                (patterns if is_pattern(item.file) and item.source is None else found).add(name)
        names = sorted(made) if patterns else []
        held = (name for pattern in patterns for name in names_held(names, pattern))
        return frozenset(found).union(patterns, held)

    def restart_bytes(self, task: int) -> float:
        """Estimate the bytes of a task's restart files: those of its outputs, where nobody said."""
        outputs = self.graph.description(task).outputs
        context = self.graph.context(task)
        return float(sum(value_of(item.size, context) for item in outputs if item.size is not None))

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
            found = outcomes_of(self.graph.workflow)
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
        if isinstance(seconds, Classes):
            kinds = seconds.task_class.astype(np.int64)
        elif isinstance(seconds, Related):
            kinds = numbered(seconds.work, seconds.service, seconds.law)
        else:
            return None
        return None if len(np.unique(kinds)) > _MOST_KINDS else _quick(kinds)

    @cached_property
    def _different_demands(self) -> NDArray[np.int64]:
        """Number the tasks by the amounts they take."""
        return numbered(*self.graph.demand.T)

    @cached_property
    def demand_kinds(self) -> Sequence[int] | None:
        """Number the tasks by the amounts they take, near ones alike if many; None: all alike."""
        if not self.demands or not self._different_demands.any():
            return None
        different = int(self._different_demands.max()) + 1
        return _quick(self._different_demands // -(-different // _MOST_KINDS))

    @cached_property
    def even(self) -> bool:
        """Say whether tasks of one kind take the same amounts: unless there are many kinds of these."""
        return not self.demands or int(self._different_demands.max(initial=0)) < _MOST_KINDS

    @cached_property
    def mean_seconds(self) -> Sequence[float]:
        """Give the mean seconds of every task over the machines that can run it."""
        return _quick(mean_seconds(self.instance))

    @cached_property
    def ranks(self) -> Sequence[float]:
        """Give the upward rank of every task."""
        return _quick(upward_ranks(self.instance))

    @cached_property
    def rank_order(self) -> Sequence[int]:
        """Give all tasks by descending upward rank, then index."""
        return _quick(by_rank(np.asarray(self.ranks)))

    @cached_property
    def rank_place(self) -> Sequence[int]:
        """Give the place of every task in that order."""
        return _quick(np.argsort(np.asarray(self.rank_order)))

    @cached_property
    def alone_s(self) -> float:
        """Give the makespan of HEFT's plan on the empty platform (S5 section 3: mk)."""
        planner, goal = planner_named("heft"), objective_named("makespan")
        if planner.supports(self.instance, goal) is not None:
            return float(max(self.ranks, default=0.0))
        rng = generator(0, "alone")
        return planner.plan(self.instance, objective=goal, budget=Budget(), rng=rng).schedule.makespan_s


class Library:
    """The workflows an engine may be given, by key."""

    def __init__(
        self,
        instances: Mapping[str, Instance],
        compile_: Callable[[TaskGraph, Platform], Instance] = compile_instance,
    ) -> None:
        self._compile = compile_
        self._known = {key: Known(key, instance) for key, instance in instances.items()}

    def __getitem__(self, key: str) -> Known:
        return self._known[key]

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    @property
    def selectors(self) -> list[str]:
        """Name the policies that jobs bring for themselves."""
        return sorted({name for known in self._known.values() for name in known.selectors})

    def grown(self, known: Known, graph: TaskGraph) -> Known:
        """Give what is known of a workflow whose graph has grown, on the same platform."""
        return Known(known.key, self._compile(graph, known.instance.platform))
