"""The rest of a run as an instance, and the plan made for it.

R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, sections 2, 8 and 10). The window
(``replan.window``) has the tasks that are planned again. Ended tasks and tasks that run and meet their
contracts are left out. Where a task of the window needs data of a task that is left out, a row without work
represents these data. The row is pinned to the machine with the data. If the task that is left out is
running, the row does not end before the expected end of that task. Restart files are represented in the same
way. Tasks that have not started or will be retried count as queued, migrating tasks as running. Tasks that
failed permanently, were cancelled or were skipped count as completed.

Attempts of all runs occupy nodes until their expected end, which follows from the last report and the
estimated speed. Queued attempts start in order when nodes are free; their other resources are ignored. An
overdue attempt is expected to take as long again as it is late.

A new plan is adopted only if it ends earlier than the current plan, in which every task keeps its machine,
node count and order and only the times are recomputed. A plan that moves violating tasks is adopted unless it
ends later than the current plan. With ``migrate: always`` it is always adopted.

A queued task that the user moves to a busy machine is planned on that machine.

Deviations. The paper runs some completed tasks again. Those that are not on a re-bound machine are left out
here, because their outputs exist; with ``bound_ancestors: lost`` all of them are left out. Approximations:
data that are being copied, or are on several machines, are treated as if they were on the machine that
produced them; data between iterations are ignored; restart files that fit only one node count save nothing if
the task may use several counts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from weft.engine.replan.promise import Promise, compute_promise, map_loops
from weft.engine.replan.window import (
    Edge,
    RunSituation,
    TaskStanding,
    Window,
    WindowGraph,
    WindowVariable,
    build_graph,
    build_window,
)
from weft.engine.selection import spared_share, spared_share_if_ended
from weft.engine.state.compiled import CompiledWorkflow, LoopState
from weft.engine.state.machines import MachineState
from weft.engine.state.plan import PlanLine, StoredPlan, restore_schedule, store_schedule
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import FINAL, Attempt, Demand, Stage, TaskState
from weft.errors import Infeasible
from weft.instance.compilation import extract_part
from weft.instance.instance import BusyInterval, Instance
from weft.planners.decoding import decode
from weft.planners.evaluation import evaluate_loss
from weft.planners.forecast import forecast_schedule
from weft.planners.planner import Budget, Plan, Planner, PlanRequest
from weft.planners.rank_binding import make_plan
from weft.records import dataclass
from weft.schedule.objective import Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.schedule.verification import check_foreign
from weft.workflow.task_graph import (
    COMPUTE,
    TRANSFER,
    Floats,
    Indices,
    SubgraphEdge,
    SubgraphTask,
    TaskGraph,
    build_subgraph,
)

_RUNNING = frozenset(
    {
        TaskState.SUBMITTED,
        TaskState.RUNNING,
        TaskState.EPILOG,
        TaskState.MIGRATING,
        TaskState.SUSPENDED,
    }
)


def _describe_situation(state: EngineState, run: RunState, *, migrating: bool = True) -> RunSituation:
    """Return a run in the form that ``build_window`` needs; ``migrating``: violating tasks may move."""
    return RunSituation(
        graph=_build_window_graph(run),
        standing=tuple(_find_standing(run, task) for task in range(len(run))),
        iteration=tuple(run.loops.iteration(task) for task in range(len(run))),
        violating=frozenset(find_violators(state, run)) if migrating else frozenset(),
        decided=frozenset(
            edge for body in run.loops.bodies if _is_exhausted(body) for edge in _list_back_edges(run, body)
        ),
    )


def find_violators(state: EngineState, run: RunState) -> list[int]:
    """Return the running tasks that violate their contracts and are not migrating yet, ascending.

    Tasks for which the user has chosen a machine are not among them.
    """
    found = []
    for task, number in run.attempt_of.items():
        attempt = state.attempts[number]
        leaving = attempt.cancelled or attempt.replaced_by is not None or attempt.awaited_machine is not None
        if attempt.violating and not leaving and run.state[task] == TaskState.RUNNING:
            found.append(task)
    return sorted(found)


def _find_standing(run: RunState, task: int) -> TaskStanding:
    state = run.state[task]
    if state in FINAL:
        return TaskStanding.COMPLETED
    return TaskStanding.RUNNING if state in _RUNNING else TaskStanding.QUEUED


def _build_window_graph(run: RunState) -> WindowGraph:
    graph = run.compiled.graph
    heads = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)).tolist()
    sources = (
        int(source) if kind == TRANSFER else None
        for source, kind in zip(graph.source_variable.tolist(), graph.kind.tolist(), strict=True)
    )
    return build_graph(
        machine=graph.variable.tolist(),
        source=tuple(sources),
        edges=zip(graph.predecessor.tolist(), heads, strict=True),
        declared=[edge for body in run.loops.bodies for edge in _list_back_edges(run, body)],
    )


def _list_back_edges(run: RunState, body: LoopState) -> list[Edge]:
    firsts = [task for task in body.tasks if run.compiled.graph.description(task).name == body.loop.first]
    return [(last, first) for last in body.lasts for first in firsts]


def _is_exhausted(body: LoopState) -> bool:
    """Return whether a loop has ended or is in its last iteration."""
    return body.left or (body.most is not None and body.iteration >= body.most)


class Occupation:
    """The intervals in which current attempts occupy nodes of machines, in seconds from now."""

    def __init__(self, state: EngineState, planned_again: Collection[int], resources: Sequence[str]) -> None:
        """Collect the intervals of all attempts except those whose numbers are in ``planned_again``.

        ``resources`` holds the names of the resources in the order of the amounts.
        """
        self._state = state
        self._resources = resources
        self.busy: list[BusyInterval] = []
        self.ends_s: dict[int, float] = {}
        """By attempt number: its expected end on the engine's clock."""
        for machine in state.machines:
            if machine.holders or machine.queue:
                self._occupy(machine, planned_again)
        # Attempts without nodes (transfers, ended ones).
        for attempt in state.attempts.values():
            if attempt.number not in self.ends_s:
                self.ends_s[attempt.number] = expected_end_s(state, attempt)

    def _occupy(self, machine: MachineState, planned_again: Collection[int]) -> None:
        now = self._state.now
        ends: list[tuple[float, int]] = []
        for holder in machine.holders.values():
            if holder.number in planned_again:
                continue
            end = expected_end_s(self._state, holder)
            if machine.time_shared:
                self._take_turn(machine, holder, end, ends)
                continue
            ends.append((end, holder.nodes))
            self._take(machine, holder, now, end, holder.demand)
        for _, number in machine.queue:
            waiting = self._state.attempts[number]
            if number in planned_again:
                continue
            start = now if machine.unlimited else _find_free_time(ends, machine.nodes, waiting.nodes, now)
            end = start + waiting.seconds / machine.speed_factor
            ends.append((end, waiting.nodes))
            self._take(machine, waiting, start, end, ())

    def _take_turn(
        self, machine: MachineState, holder: Attempt, end: float, ends: list[tuple[float, int]]
    ) -> None:
        """Add the remaining time of a program on a time-shared machine as if programs ran one after another.

        Planners count nodes and do not support time sharing. With this approximation the machine is busy for
        the right time, and never with more nodes than it has.
        """
        now, nodes = self._state.now, min(holder.nodes, machine.nodes)
        left_s = max(0.0, end - now) / machine.crowding()
        start = _find_free_time(ends, machine.nodes, nodes, now)
        ends.append((start + left_s, nodes))
        self._take(machine, holder, start, start + left_s, holder.demand, nodes=nodes)
        self.ends_s[holder.number] = end

    def _take(
        self,
        machine: MachineState,
        attempt: Attempt,
        start: float,
        end: float,
        demand: Demand,
        *,
        nodes: int | None = None,
    ) -> None:
        now = self._state.now
        self.ends_s[attempt.number] = end
        if not machine.unlimited and end > start:
            held = dict(demand)
            self.busy.append(
                BusyInterval(
                    machine=machine.index,
                    start_s=start - now,
                    finish_s=end - now,
                    nodes=attempt.nodes if nodes is None else nodes,
                    amounts=tuple(held.get(name, 0.0) for name in self._resources) if held else (),
                )
            )


def expected_end_s(state: EngineState, attempt: Attempt) -> float:
    """Return the estimated end of an attempt on the engine's clock, not before now."""
    now = state.now
    if attempt.stage >= Stage.ENDED or attempt.replaced_by is not None:
        return now  # the program of a task that moves is being ended
    machine = state.machines[attempt.machine]
    speed = machine.speed_factor
    if machine.time_shared and attempt.started_s is not None:
        return max(now, attempt.expected_end_s)
    if attempt.started_s is None:
        return max(attempt.expected_end_s, now + attempt.seconds / speed)
    whole = 1.0 - attempt.restart_from
    if attempt.work_done is None or attempt.reported_s is None or whole <= 0:
        end_s = attempt.started_s + attempt.seconds / speed
    else:
        left = max(0.0, 1.0 - attempt.work_done) / whole
        end_s = attempt.reported_s + left * attempt.seconds / speed
    # The delay is the only measure of how wrong the estimate is. If the program were expected to end now,
    # tasks would wait behind it while other machines are free.
    return now + abs(end_s - now)


def _find_free_time(ends: list[tuple[float, int]], capacity: int, nodes: int, now: float) -> float:
    """Return the time from which ``nodes`` nodes of a machine with ``capacity`` nodes are free.

    ``ends`` holds (end, nodes) of the attempts on the machine.
    """
    free = capacity - sum(taken for _, taken in ends)
    at = now
    for end, taken in sorted(ends):
        if free >= nodes:
            break
        free += taken
        at = end
    return at


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remainder:
    """The part of a run that is planned again, as an instance."""

    instance: Instance
    tasks: Mapping[str, int]
    """Index of each planned task, by its name in the instance. In a loop the name includes the iteration."""
    moving: tuple[str, ...]
    """Names of the planned tasks that are running and violate their contracts."""
    again: tuple[str, ...]
    """Names of the planned tasks that have completed and must run again."""
    running_until_s: float
    """Expected end, on the engine's clock, of the running tasks that are not planned again; 0: no task."""


def build_remainder(state: EngineState, run: RunState) -> Remainder:
    """Return the part of a run that must be planned again, as an instance."""
    situation = _describe_situation(state, run, migrating=run.settings.migrate != "never")
    return _RemainderBuilder(state, run, situation, build_window(situation)).remainder()


class _RemainderBuilder:
    """Builds the rows, links and variables of a remainder."""

    def __init__(self, state: EngineState, run: RunState, situation: RunSituation, window: Window) -> None:
        self.state, self.run = state, run
        self.situation, self.window = situation, window
        self.fresh = frozenset(window.fresh)
        self.kept = tuple(task for task in window.tasks if not self._done_with(task))
        self.rows: list[SubgraphTask] = []
        self.links: list[SubgraphEdge] = []
        self.variables: list[str] = []
        self.pinned: dict[int, int] = {}
        self.number: dict[WindowVariable, int] = {}
        self.row_of: dict[int, int] = {}
        self.data_row: dict[int, int] = {}
        """By task that is not planned: the row that represents its outputs."""
        self.before: dict[int, list[int]] = {}
        """By task: its predecessors in the window."""
        for tail, head in window.edges:
            self.before.setdefault(head, []).append(tail)
        self.earliest: list[float] = []
        self.left: list[float] = []
        replanned = {run.attempt_of[task] for task in self.kept if task in run.attempt_of}
        self.occupation = Occupation(state, replanned, run.compiled.graph.resource_names)

    def _done_with(self, task: int) -> bool:
        """Return whether a task of the window has ended and will not run again."""
        if task in self.fresh or self.situation.standing[task] is not TaskStanding.COMPLETED:
            return False
        if self.run.state[task] != TaskState.COMPLETED:
            return True
        return not (task in self.window.moving and self.run.settings.bound_ancestors == "always")

    def remainder(self) -> Remainder:
        """Return the remainder; call this once."""
        run, state = self.run, self.state
        for task in self.kept:
            self._add(task)
        for task in self.kept:
            self._connect(task)
        graph, order = build_subgraph(run.compiled.graph, self.rows, self.links, self.variables)
        if graph.budget_names:
            graph = replace(graph, budgets=self._find_budgets(graph))
        machines = state.machines
        instance = extract_part(
            run.instance,
            graph,
            np.array([self.rows[position].task for position in order], dtype=np.uint32),
            left=np.array([self.left[position] for position in order], dtype=np.float64),
            speed=np.array([machine.speed_factor for machine in machines], dtype=np.float64),
            usable=np.array(
                [not state.inquiries.is_ruled_out(machine.index) for machine in machines], dtype=np.bool_
            ),
            pinned=self.pinned,
            earliest_start_s=np.array([self.earliest[position] for position in order], dtype=np.float64),
            busy=tuple(self.occupation.busy),
        )
        named = {self.rows[row].name: task for task, row in self.row_of.items()}
        standing = self.situation.standing
        return Remainder(
            instance=instance,
            tasks=named,
            moving=tuple(name for name, task in named.items() if standing[task] is TaskStanding.RUNNING),
            again=tuple(
                name
                for name, task in named.items()
                if standing[task] is TaskStanding.COMPLETED and task not in self.fresh
            ),
            running_until_s=max(
                (
                    self.occupation.ends_s[number]
                    for task, number in run.attempt_of.items()
                    if task not in self.row_of
                ),
                default=0.0,
            ),
        )

    def _find_budgets(self, graph: TaskGraph) -> Floats:
        """Return what the other tasks have left of the budgets for ``graph``, at least what it needs."""
        whole = self.run.compiled.graph
        left: Floats = whole.budgets * (1.0 + _ROUNDING)
        for task in range(len(self.run)):
            count = self.run.facts_of(task).node_count
            if count and task not in self.row_of:
                left = left - whole.consumption_of(task, count)
        needed: Floats = graph.consumption.sum(axis=0)
        return np.maximum(left, needed, dtype=np.float64)

    def _add(self, task: int) -> None:
        """Add the row of a planned task."""
        compiled, bindings = self.run.compiled, self.window.bindings
        iteration = self.situation.iteration[task] + (task in self.fresh)
        name = compiled.names[task]
        label = f"{name}#{iteration}" if task in self.run.loops.around else name
        source = None
        if compiled.kind[task] == TRANSFER:
            source = self._variable(bindings.source[task])
        variable = self._variable(bindings.machine[task])
        if task not in self.fresh and (awaited := self._awaited_machine(task)) is not None:
            self.pinned.setdefault(variable, awaited)
        self.row_of[task] = self._row(
            SubgraphTask(task=task, name=label, variable=variable, source_variable=source),
            left=1.0 - self._spared(task),
        )

    def _awaited_machine(self, task: int) -> int | None:
        """Return the machine that a queued task moves to, at the user's request, as soon as it is free.

        None: no such machine.
        """
        attempt = self.state.attempt_of(self.run, task)
        machine = None if attempt is None else attempt.awaited_machine
        if machine is None or self.state.inquiries.is_ruled_out(machine):
            return None
        allowed = self.run.instance.candidates_of(self.run.compiled.variable[task])
        return machine if machine in allowed else None

    def _row(self, row: SubgraphTask, *, left: float = 0.0, earliest_s: float = 0.0) -> int:
        self.rows.append(row)
        self.left.append(left)
        self.earliest.append(max(0.0, earliest_s))
        return len(self.rows) - 1

    def _spared(self, task: int) -> float:
        """Return the share of a task's work that restart files preserve, for any node count."""
        state, run = self.state, self.run
        if task in self.fresh or run.compiled.kind[task] != COMPUTE:
            return 0.0
        number = run.attempt_of.get(task)
        attempt = state.attempts[number] if number is not None else None
        if attempt is not None and attempt.started_s is not None:
            return min(spared_share_if_ended(state, run, attempt, count) for count in self._counts(task))
        if run.facts_of(task).restart_files is None:
            return 0.0
        return min(spared_share(run, task, count) for count in self._counts(task))

    def _counts(self, task: int) -> set[int]:
        """Return all possible node counts of a task."""
        return {count for counts in self.run.compiled.options(task).counts.values() for count in counts}

    def _variable(self, variable: WindowVariable) -> int:
        """Return the index of a variable in the subgraph.

        A variable that is not in the subgraph yet is added. If the window lists it as pinned, it is pinned to
        the machine that it uses now.
        """
        if (number := self.number.get(variable)) is None:
            number = self.number[variable] = len(self.variables)
            self.variables.append(
                f"{self.run.compiled.graph.variables[variable.machine]}#{variable.iteration}"
            )
            if variable in self.window.bindings.pinned:
                machine = self._machine_of(variable.machine)
                if machine is not None and self.state.machines[machine].up:
                    self.pinned[number] = machine
        return number

    def _machine_of(self, variable: int) -> int | None:
        """Return the machine that an abstract machine currently uses; None: no machine."""
        if (bound := self.run.binding.get(variable)) is not None:
            return bound
        for task in np.flatnonzero(self.run.compiled.graph.variable == variable).tolist():
            if (place := self._place(task)) is not None:
                return place
        return None

    def _place(self, task: int) -> int | None:
        """Return the machine of a task's current attempt or, without one, of its outputs; None: neither."""
        if (number := self.run.attempt_of.get(task)) is not None:
            return self.state.attempts[number].machine
        return self.run.where[task] if self.run.where[task] >= 0 else None

    def _connect(self, task: int) -> None:
        """Add the edges to a task from planned tasks, and from rows that represent running tasks and data."""
        compiled, graph = self.run.compiled, self.run.compiled.graph
        head = self.row_of[task]
        inner = set(self.before.get(task, ()))
        for tail, edge in zip(compiled.before(task), compiled.edges_before(task), strict=True):
            data = (
                float(graph.edge_bytes[edge]),
                float(graph.edge_files[edge]),
                float(graph.edge_seconds[edge]),
            )
            if tail in inner and tail in self.row_of:
                inner.discard(tail)
                start: int | None = self.row_of[tail]
            else:
                start = self._find_data_row(tail, task, moves=any(data))
            if start is not None:
                self.links.append(
                    SubgraphEdge(tail=start, head=head, size_bytes=data[0], files=data[1], seconds=data[2])
                )
        # The remaining edges close a loop: the next iteration waits for this one.
        for tail in sorted(inner):
            if tail in self.row_of:
                self.links.append(SubgraphEdge(tail=self.row_of[tail], head=head))
        self._bring_restart_files(task, head)

    def _find_data_row(self, tail: int, head: int, *, moves: bool) -> int | None:
        """Return the row that represents task ``tail``, which is not planned; None: ``head`` need not wait.

        ``moves``: whether the edge from ``tail`` to ``head`` carries data.
        """
        running = self.situation.standing[tail] is TaskStanding.RUNNING
        if running and head in self.fresh:
            return None
        place = self._place(tail)
        if place is None or not (running or (moves and self.run.state[tail] == TaskState.COMPLETED)):
            return None
        if (row := self.data_row.get(tail)) is None:
            end_s = self.state.now
            if (number := self.run.attempt_of.get(tail)) is not None:
                end_s = self.occupation.ends_s[number]
            row = self._add_data_row(
                tail, f"data of {self.run.compiled.names[tail]}", place, end_s - self.state.now
            )
            self.data_row[tail] = row
        return row

    def _add_data_row(self, task: int, name: str, machine: int, earliest_s: float = 0.0) -> int:
        self.pinned[len(self.variables)] = machine
        self.variables.append(name)
        row = SubgraphTask(task=task, name=name, variable=len(self.variables) - 1, finished=True)
        return self._row(row, earliest_s=earliest_s)

    def _bring_restart_files(self, task: int, head: int) -> None:
        size = self.run.compiled.restart_bytes(task) if self.left[head] < 1.0 else 0.0
        if size:
            machine = self._place_of_restart_files(task)
            name = f"restart files of {self.run.compiled.names[task]}"
            row = self._add_data_row(task, name, machine)
            self.links.append(SubgraphEdge(tail=row, head=head, size_bytes=size, files=1.0))

    def _place_of_restart_files(self, task: int) -> int:
        """Return the machine that has a task's restart files, or will have them when its attempt ends."""
        files = self.run.facts_of(task).restart_files
        if files is not None:
            return files.machine
        return self.state.attempts[self.run.attempt_of[task]].machine


def carry_over_plan(state: EngineState, run: RunState, remainder: Remainder) -> Schedule | None:
    """Return the rest of a run's current plan with new times; None: no plan, or it is no longer feasible."""
    if run.plan is None:
        return None
    instance = remainder.instance
    lines = [_find_line(state, run, remainder, name) for name in instance.graph.names]
    bound = _bind_machines(instance, lines)
    modes = None if bound is None else _find_modes(instance, lines, bound)
    if bound is None or modes is None:
        return None
    seconds = _find_seconds(state, run, remainder, modes)
    try:
        return decode(instance, _sort_rows(instance, lines), bound, modes, seconds=seconds)
    except Infeasible:
        return None


def _find_line(state: EngineState, run: RunState, remainder: Remainder, name: str) -> PlanLine | None:
    """Return the line of the current plan for the row named ``name``.

    For a running task it is a line with the current machine. None: the row stands for existing data, or the
    plan omits the task.
    """
    if (task := remainder.tasks.get(name)) is None or run.plan is None:
        return None
    number = run.attempt_of.get(task)
    if name in remainder.moving and number is not None:
        attempt = state.attempts[number]
        return PlanLine(machine=attempt.machine, count=attempt.count, start_s=-math.inf, finish_s=0.0)
    return run.plan.planned_tasks.get(task)


def _bind_machines(instance: Instance, lines: list[PlanLine | None]) -> Indices | None:
    """Return the machine of every variable; None: for some variable no planned machine is allowed."""
    chosen = dict(instance.pinned)
    for variable, line in zip(instance.graph.variable.tolist(), lines, strict=True):
        if line is not None:
            chosen.setdefault(variable, line.machine)
    bound = np.zeros(len(instance.graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        allowed = instance.candidates_of(variable)
        if (machine := chosen.get(variable)) is None or machine not in allowed:
            return None
        bound[variable] = machine
    return bound


def _find_modes(instance: Instance, lines: list[PlanLine | None], bound: Indices) -> Indices | None:
    """Return, for every row, the position of its planned mode among the modes of its group.

    None: a row has no such mode. The machine of the row's variable is used; it may differ from the machine in
    the row's plan line.
    """
    modes = np.zeros(len(instance), dtype=np.uint32)
    for row in np.flatnonzero(instance.graph.kind == COMPUTE).tolist():
        line, variable = lines[row], int(instance.graph.variable[row])
        group = instance.groups[int(instance.group[row])]
        found = (
            np.zeros(0, dtype=np.intp)
            if line is None
            else np.flatnonzero((group.machine == bound[variable]) & (group.count == line.count))
        )
        if not len(found):
            return None
        modes[row] = found[0]
    return modes


def _find_seconds(state: EngineState, run: RunState, remainder: Remainder, modes: Indices) -> Floats:
    """Return the seconds of every row in its mode; for a running task the rest of its attempt.

    A completed task has 0 seconds, because the current plan does not run it again.
    """
    instance = remainder.instance
    seconds = np.zeros(len(instance))
    for row in np.flatnonzero(instance.graph.kind == COMPUTE).tolist():
        name = instance.graph.names[row]
        if name in remainder.moving:
            attempt = state.attempts[run.attempt_of[remainder.tasks[name]]]
            seconds[row] = expected_end_s(state, attempt) - state.now
        elif name not in remainder.again:
            seconds[row] = instance.modes(row).seconds[modes[row]]
    return seconds


def _sort_rows(instance: Instance, lines: list[PlanLine | None]) -> Indices:
    """Return the rows in a topological order, by planned start where possible."""
    graph = instance.graph
    waiting = np.diff(graph.predecessor_pointer).tolist()
    key = [-math.inf if line is None else line.start_s for line in lines]
    ready = [(key[row], row) for row, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, row = heapq.heappop(ready)
        order.append(row)
        for successor in graph.successors(row).tolist():
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heapq.heappush(ready, (key[successor], successor))
    return np.array(order, dtype=np.uint32)


_ROUNDING = 1e-9
_UNTOUCHED = (TaskState.WAITING, TaskState.READY)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplanRequest:
    """The rest of a run at the time of a plan request; later changes of the state have no effect."""

    compiled: CompiledWorkflow
    instance: Instance
    offset_s: float
    """The engine's time at the request, which is time 0 of the planned schedule."""
    remainder: Remainder | None = None
    """Rest of the run; None: nothing has started, and the whole workflow is planned."""
    old: Schedule | None = None
    """Rest of the current plan with new times, with which the new plan is compared.

    None: there is no current plan, it is infeasible now, or violating tasks must move (``migrate: always``).
    """
    objective: Objective = field(default_factory=lambda: make_objective("makespan"))
    """What the plan optimises; deadline and maximal cost are reduced by the time and cost used so far."""

    def answered(self, planner: Planner, budget: Budget, rng: np.random.Generator) -> StoredPlan:
        """Run the planner, and return the better of the new and the current plan.

        Raise Infeasible if the planner finds no plan.
        """
        return self.kept(planner, self.planned(planner, budget, rng))

    def adopted(self, given: StoredPlan) -> StoredPlan:
        """Return a plan that was made before the run, with all times moved by ``offset_s``."""
        return store_schedule(
            restore_schedule(given, self.compiled),
            self.compiled,
            planner=given.planner,
            steps=given.steps,
            offset_s=self.offset_s,
        )

    def given_plan(self, given: StoredPlan) -> Plan:
        """Return a plan that was made before the run, converted to the form of a planner's result."""
        schedule = restore_schedule(given, self.compiled)
        return Plan(schedule=schedule, steps=given.steps, by=given.planner)

    def planned(self, planner: Planner, budget: Budget, rng: np.random.Generator) -> Plan:
        """Return the planner's result without comparing it with the current plan.

        Raise Infeasible if there is no plan.
        """
        made = self._make_plan(planner, budget, rng)
        if self.remainder is None:  # graph and platform do not state the speeds and times of a remainder
            check_foreign(planner, made.schedule, self.instance.graph, self.instance.platform)
        return made

    def _make_plan(self, planner: Planner, budget: Budget, rng: np.random.Generator) -> Plan:
        """Return the planner's result.

        If the rest of a run cannot keep its deadline or maximal cost, it is planned without these limits.
        """
        goal = self.objective
        if (refusal := planner.supports(self.instance, goal)) is not None:
            raise Infeasible(f"planner {planner.name!r} cannot plan {self.compiled.key!r}: {refusal.reason}")
        request = PlanRequest(instance=self.instance, objective=goal, budget=budget, rng=rng)
        moving = () if self.remainder is None else self.remainder.moving
        try:
            return make_plan(planner, request, besides=moving)
        except Infeasible:
            if self.remainder is None or (goal.deadline_s, goal.max_cost) == (None, None):
                raise
            free = replace(goal, deadline_s=None, max_cost=None)
            return make_plan(planner, replace(request, objective=free), besides=moving)

    def kept(self, planner: Planner, made: Plan) -> StoredPlan:
        """Return the new plan ``made``, or the rest of the current plan if the current plan is not worse."""
        remainder, old = self.remainder, self.old
        if remainder is None:
            return store_schedule(
                made.schedule, self.compiled, planner=planner.name, steps=made.steps, offset_s=self.offset_s
            )
        new = old is None or self._is_better(made.schedule, old, moves=bool(remainder.moving))
        return store_schedule(
            made.schedule if new or old is None else old,
            self.compiled,
            planner=planner.name,
            steps=made.steps,
            offset_s=self.offset_s,
            tasks=remainder.tasks,
            running_until_s=remainder.running_until_s,
            moving=remainder.moving if new else (),
            again=remainder.again if new else (),
        )

    def _is_better(self, new: Schedule, old: Schedule, *, moves: bool) -> bool:
        """Return whether plan ``new`` is better than plan ``old``.

        ``moves``: running tasks violate their contracts, so an equally good plan also counts as better.
        """
        fresh = evaluate_loss(self.instance, self.objective, new)
        known = evaluate_loss(self.instance, self.objective, old)
        if fresh.excess != known.excess:
            return fresh.excess < known.excess
        slack = _ROUNDING * abs(known.value)
        return fresh.value <= known.value + slack if moves else fresh.value < known.value - slack

    def promise(self, made: Plan, *, arrival_s: float, seed: int) -> Promise:
        """Return the promise for a run, computed from its first plan ``made``."""
        graph, loops = self.compiled.graph, self.compiled.graph.loops
        if self.remainder is not None:
            tasks = self.remainder.tasks
            loops = map_loops(graph, [tasks.get(name, -1) for name in self.instance.graph.names])
        outlook = forecast_schedule(made.schedule, self.instance, seed=seed, loops=loops)
        waited_s = self.offset_s - arrival_s
        return compute_promise(made.schedule, self.instance, outlook, loops=loops, waited_s=waited_s)


def prepare_replan(state: EngineState, index: int) -> ReplanRequest:
    """Return the request to plan a run: the whole workflow if nothing has started, otherwise the rest.

    Raise Infeasible if nothing is left to plan.
    """
    run = state.runs[index]
    if _is_untouched(state, run):
        goal = find_objective(state, run)
        return ReplanRequest(compiled=run.compiled, instance=run.instance, offset_s=state.now, objective=goal)
    remainder = build_remainder(state, run)
    if not remainder.tasks:
        raise Infeasible(f"no task of {run.compiled.key!r} is left to plan")
    must = bool(remainder.moving) and run.settings.migrate == "always"
    return ReplanRequest(
        compiled=run.compiled,
        instance=remainder.instance,
        offset_s=state.now,
        remainder=remainder,
        old=None if must else carry_over_plan(state, run, remainder),
        objective=find_objective(state, run),
    )


_LEAST_LIMIT = 1e-9
"""Value that replaces a deadline or maximal cost that is used up.

Plans then exceed the limit by as little as possible.
"""


def find_objective(state: EngineState, run: RunState) -> Objective:
    """Return what the plans of a run optimise.

    Deadline and maximal cost are reduced by the time and the cost of the run up to now.
    """
    settings = run.settings
    deadline_s, max_cost = settings.deadline_s, settings.max_cost
    if deadline_s is not None:
        deadline_s = max(_LEAST_LIMIT, deadline_s - (state.now - run.arrival_s))
    if max_cost is not None:
        max_cost = max(_LEAST_LIMIT, max_cost - run.spent) if run.spent else max_cost
    return make_objective(settings.objective, settings.alpha, deadline_s=deadline_s, max_cost=max_cost)


def _is_untouched(state: EngineState, run: RunState) -> bool:
    """Return whether a run has not started, no attempt exists, and all machines are as described."""
    return (
        not state.attempts
        and not state.machines.off_nominal
        and not any(state.inquiries.is_ruled_out(machine.index) for machine in state.machines)
        and all(found in _UNTOUCHED for found in run.state)
        and all(body.iteration == 1 for body in run.loops.bodies)
    )
