"""The work that a run has really executed, as an instance; its makespan is the reference of the slowdown.

The reference time of a run (``alone_s``) is the makespan of a HEFT plan on the empty platform
(docs/papers/many-workflows.md, section 7). At the submission the workflow is planned with the expected
iterations of its loops. When the run has ended, the executed work is planned: every iteration that was
executed, one after the other, without tasks that were skipped and without the work of tasks whose outputs
were reused. A task without a stated time counts with its measured seconds; if it continued from restart files
of earlier attempts, the seconds of those attempts are included.

If no other run was active at the same time, the reference is at most the planned seconds of the run's own
first plan (``planned_alone_s``), which another planner may have made better than HEFT. Of runs that share the
machines the reference is always HEFT's, as in the paper, so that policies are compared by the same times.

Deviations: the paper has no loops, branches or reuse. O(v + e) for v executions with e edges between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

import numpy as np

from weft.engine.replan.promise import derive_promise
from weft.engine.state.compiled import plan_alone_s
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState
from weft.engine.states import TaskState
from weft.instance.compilation import extract_part
from weft.instance.instance import Instance, mark_untimed_tasks
from weft.schedule.schedule import expected_executions
from weft.workflow.task_graph import COMPUTE, TRANSFER, SubgraphEdge, SubgraphTask, build_subgraph


class TaskExecution(NamedTuple):
    """One execution of a task that has completed."""

    task: int
    epoch: int
    """How often the loops around the task had been repeated before this execution; 0: first iteration."""
    begun_n: int
    completed_n: int
    """Numbers of the journal entries in which the execution started (``begun_n``) and completed."""
    reused: bool = False
    """Whether the outputs came from an earlier run."""
    estimated_s: float = 0.0
    """Estimated seconds on the machine of the execution; 0 for a task without a program."""
    ran_s: float = 0.0
    """Measured seconds of the whole task, converted to the machine on which the task completed."""


def find_reference(run: RunState, executions: Iterable[TaskExecution]) -> tuple[float, Instance | None]:
    """Return the makespan of a run's executed work on the empty platform, and that work as an instance.

    The instance is None in two cases: the run has executed every task of a workflow without loops once, all
    with stated times; or the run has executed no work, and the makespan is 0.
    """
    done = list(executions)
    untimed = mark_untimed_tasks(run.instance)
    usual = not run.loops.bodies and not untimed.any() and not any(each.reused for each in done)
    if usual and all(state == TaskState.COMPLETED for state in run.state):
        return run.compiled.alone_s, None
    part = _Unrolling(run, done, untimed.tolist()).instance()
    return (0.0, None) if part is None else (plan_alone_s(part), part)


def planned_alone_s(
    run: RunState, executions: Iterable[TaskExecution], plan: StoredPlan, arrival_s: float
) -> float:
    """Return the seconds from the arrival of a run to the end of its first plan, which covers all its work.

    Infinite if the plan does not cover the executed work: tasks were added later, a task has no stated time,
    or a loop had more iterations than expected.
    """
    if len(plan.lines) != len(run) or mark_untimed_tasks(run.instance).any():
        return inf
    loops = run.compiled.graph.loops
    expected = expected_executions(len(run), loops)
    if any(times > expected[task] for task, times in Counter(each.task for each in executions).items()):
        return inf
    return derive_promise(plan, run.instance, arrival_s).planned_s


class _Unrolling:
    """The executions of a run as rows of a graph, with an edge for each dependency between two executions."""

    def __init__(self, run: RunState, done: list[TaskExecution], untimed: list[bool]) -> None:
        self.run, self.done, self.untimed = run, done, untimed
        self.rows: list[SubgraphTask] = []
        self.links: list[SubgraphEdge] = []
        self.left: list[float] = []
        self._variables: dict[tuple[int, int], int] = {}
        self._executed: dict[int, tuple[list[int], list[int]]] = {}
        """By task: the journal entries in which its executions completed, ascending, and their rows."""

    def instance(self) -> Instance | None:
        """Return the instance of all executions; None if no execution did any work."""
        if not any(self._works(each) for each in self.done):
            return None
        for each in sorted(self.done, key=lambda each: (each.completed_n, each.task)):
            self._add(each)
        for head, each in enumerate(sorted(self.done, key=lambda each: (each.completed_n, each.task))):
            self._connect(head, each)
        compiled = self.run.compiled
        names = [f"{compiled.graph.variables[machine]}#{epoch}" for machine, epoch in self._variables]
        graph, order = build_subgraph(compiled.graph, self.rows, self.links, names)
        machines = len(self.run.instance.machines)
        return extract_part(
            self.run.instance,
            graph,
            np.array([self.rows[position].task for position in order], dtype=np.uint32),
            left=np.array([self.left[position] for position in order], dtype=np.float64),
            speed=np.ones(machines),
            usable=np.ones(machines, dtype=np.bool_),
            pinned={},
            earliest_start_s=np.zeros(len(order)),
            busy=(),
        )

    def _works(self, each: TaskExecution) -> bool:
        return not each.reused and self.run.compiled.kind[each.task] == COMPUTE

    def _add(self, each: TaskExecution) -> None:
        compiled, task = self.run.compiled, each.task
        source = None
        if compiled.kind[task] == TRANSFER:
            source = self._variable(int(compiled.graph.source_variable[task]), each.epoch)
        completed, rows = self._executed.setdefault(task, ([], []))
        completed.append(each.completed_n)
        rows.append(len(self.rows))
        measured = self.untimed[task] and each.estimated_s > 0.0 and self._works(each)
        self.left.append(each.ran_s / each.estimated_s if measured else 1.0)
        self.rows.append(
            SubgraphTask(
                task=task,
                name=f"{compiled.names[task]}#{len(rows)}",
                variable=self._variable(compiled.variable[task], each.epoch),
                source_variable=source,
                finished=each.reused,
            )
        )

    def _variable(self, variable: int, epoch: int) -> int:
        return self._variables.setdefault((variable, epoch), len(self._variables))

    def _connect(self, head: int, each: TaskExecution) -> None:
        """Add the edges to row ``head`` from executions of predecessors and from the previous iteration."""
        compiled, loops = self.run.compiled, self.run.loops
        graph = compiled.graph
        for before, edge in zip(compiled.before(each.task), compiled.edges_before(each.task), strict=True):
            if (tail := self._last(before, each)) is not None:
                self.links.append(
                    SubgraphEdge(
                        tail=tail,
                        head=head,
                        size_bytes=float(graph.edge_bytes[edge]),
                        files=float(graph.edge_files[edge]),
                        seconds=float(graph.edge_seconds[edge]),
                    )
                )
        for body in loops.around.get(each.task, ()) if each.epoch else ():
            for last in loops.bodies[body].lasts:
                if (tail := self._last(last, each)) is not None and tail != head:
                    self.links.append(SubgraphEdge(tail=tail, head=head))

    def _last(self, task: int, reader: TaskExecution) -> int | None:
        """Return the row of the last execution of a task that had completed when ``reader`` began."""
        completed, rows = self._executed.get(task, ((), ()))
        place = bisect_right(completed, reader.begun_n)
        return rows[place - 1] if place else None


def count_epoch(run: RunState, task: int, repeated: Mapping[int, int]) -> int:
    """Return how often the loops around a task were repeated.

    ``repeated`` maps the index of a loop body to the number of its repetitions.
    """
    return sum(repeated.get(body, 0) for body in run.loops.around.get(task, ()))
