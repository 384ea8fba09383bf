"""The window: an acyclic graph of the rest of the current iteration and the next one.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study, SAC
2005; the sets as corrected in docs/papers/dynamic-grid.md, sections 2 and 10 (gaps G5, G6).

Back edges are those that the workflow declares; remaining cycles are cut by a depth-first search from the
entry tasks, then in program order. In the paper JS(M) is a task on the abstract machine M, FT(M, .) a
transfer from M, and FT(., M) a transfer to M. When a task JS(M) or FT(M, .) moves, every completed JS'(M) and
FT'(., M) of the same iteration among its ancestors runs again (Nodes_N). Back edges are not followed to find
ancestors, and the rule is not applied again to the ancestors found. A variable is an abstract machine in one
iteration. A pinned variable keeps its machine. Pinned variables are those of tasks that run and meet their
contracts, and the sources of transfers that run again while their producer does not.

Deviations: some edges on cycles are cut before the depth-first search, because their data exist. The first
task of such an edge has completed in the iteration in which the second task will run. The search alone may
enter a waiting task through such an edge and then cut an edge of the current iteration (in WIEN2k: SUMPARA
would not wait for LAPW2 of a k-point whose LAPW1 is done). A variable that a completed task shares with a
task of the window in the same iteration is pinned too, unless it is re-bound for a moving task. A transfer
reads data of the iteration of its producer, which may be the iteration before that of the transfer.

O(v + e), iterative; O((v + e) b / 64) to find the tasks that run again for b re-bound variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from weft.records import dataclass
from weft.workflow.cycles import back_edges, reachable, strong_components, topological_order

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowGraph:
    """The graph of a workflow with its back edges; task indices follow the program order."""

    machine: tuple[int, ...]
    """The abstract machine of each task; for a transfer, the abstract machine of the destination."""
    source: tuple[int | None, ...]
    """For each transfer, the abstract machine of its source; None: the task is not a transfer."""
    successors: tuple[tuple[int, ...], ...]
    """The successors of each task, ascending, including those along back edges."""
    back: frozenset[Edge]
    """Edges to the next iteration of a loop."""
    order: tuple[int, ...]
    """The tasks in a topological order of the graph without back edges."""

    def __len__(self) -> int:
        return len(self.machine)


def build_graph(
    *,
    machine: Sequence[int],
    edges: Iterable[Edge],
    source: Sequence[int | None] | None = None,
    declared: Iterable[Edge] = (),
) -> WindowGraph:
    """Build the graph; ``declared`` holds back edges that the workflow states and ``edges`` may omit."""
    declared = frozenset(declared)
    targets: list[set[int]] = [set() for _ in machine]
    for tail, head in (*edges, *declared):
        targets[tail].add(head)
    successors = tuple(tuple(sorted(heads)) for heads in targets)
    forward = _remove_edges(successors, declared)
    entered = {head for heads in forward for head in heads}
    entries = (task for task in range(len(machine)) if task not in entered)
    back = declared | frozenset(back_edges(forward, entries))
    return WindowGraph(
        machine=tuple(machine),
        source=tuple(source) if source is not None else (None,) * len(machine),
        successors=successors,
        back=back,
        order=tuple(topological_order(_remove_edges(successors, back)) or ()),
    )


def initial_dag(graph: WindowGraph) -> tuple[Edge, ...]:
    """Return the edges of the first plan (A0): one iteration of every loop, ascending."""
    return _list_edges(_remove_edges(graph.successors, graph.back))


class TaskStanding(Enum):
    """The states of a task that docs/papers/dynamic-grid.md, section 2, distinguishes."""

    QUEUED = "queued"
    """The task has not started in its iteration."""
    RUNNING = "running"
    COMPLETED = "completed"
    """The task has succeeded in its iteration; a loop may run it again."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSituation:
    """A workflow graph with the state of its tasks: the input of ``build_window``."""

    graph: WindowGraph
    standing: tuple[TaskStanding, ...]
    iteration: tuple[int, ...]
    """Current iteration of each task."""
    violating: frozenset[int] = frozenset()
    """Running tasks that violate their contracts."""
    decided: frozenset[Edge] = frozenset()
    """Edges that have no effect any more: back edges of ended or exhausted loops, branches not taken."""


def _rebound_variable(situation: RunSituation, task: int) -> tuple[int, int]:
    """Return the variable (abstract machine, iteration) that gets a new machine when a task moves.

    For a transfer this is the variable of its source.
    """
    source = situation.graph.source[task]
    machine = situation.graph.machine[task] if source is None else source
    return machine, situation.iteration[task]


def _find_tied_ancestors(
    situation: RunSituation, present: Sequence[Sequence[int]], moving: Iterable[int]
) -> set[int]:
    """Return the completed ancestors of the ``moving`` tasks that must run again.

    ``present`` holds the successors of each task; only these edges are followed.
    """
    graph = situation.graph
    variables = {task: _rebound_variable(situation, task) for task in moving}
    written: dict[tuple[int, int], list[int]] = {variable: [] for variable in variables.values()}
    for task, standing in enumerate(situation.standing):
        variable = (graph.machine[task], situation.iteration[task])
        if standing is TaskStanding.COMPLETED and variable in written:
            written[variable].append(task)
    shared = [variable for variable, writers in written.items() if writers]
    if not shared:
        return set()
    bit = {variable: 1 << position for position, variable in enumerate(shared)}
    below = [0] * len(graph)  # bits of the moving tasks among the descendants
    for task in reversed(graph.order):
        bits = 0
        for child in present[task]:
            if (task, child) not in graph.back:
                bits |= below[child]
                if child in variables:
                    bits |= bit.get(variables[child], 0)
        below[task] = bits
    return {task for variable in shared for task in written[variable] if below[task] & bit[variable]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowMembers:
    """The tasks of a replanning window by role, and the edges that still have an effect.

    "Decided" edges have no effect any more (``RunSituation.decided``).
    """

    present: list[list[int]]
    """The successors of each task, without decided edges and without the tasks in ``unreached``."""
    unreached: frozenset[int]
    """Queued tasks that can be reached only through decided edges."""
    moved: frozenset[int]
    """Tasks that failed, and running tasks that violate their contracts."""
    moving: frozenset[int]
    """The tasks in ``moved``, and the completed tasks that must run again because of them [Nodes_Migr]."""
    running: frozenset[int]
    """Running tasks that meet their contracts; they are not in the window."""
    queued: frozenset[int]
    """All other tasks that will run [Nodes_Queued]."""
    fresh: frozenset[int]
    """Those tasks of ``queued`` that have completed in this iteration and run again in the next one."""
    repeated: frozenset[int]
    """Those tasks of ``queued`` that have completed, are in no loop and follow a task that must run again."""


def _find_members(situation: RunSituation) -> WindowMembers:
    """Return the tasks of a situation by their roles in the window."""
    unreached = _find_unreached(situation)
    present = _list_present(situation, unreached)
    running = _tasks_with(situation, TaskStanding.RUNNING)
    moved = _tasks_with(situation, TaskStanding.FAILED) | (running & situation.violating)
    moving = moved | _find_tied_ancestors(situation, present, moved)
    waiting = _tasks_with(situation, TaskStanding.QUEUED) - unreached
    active = running | waiting | moving
    descendants = reachable(present, {child for task in active for child in present[task]})
    queued = (waiting | descendants) - moving - running
    completed = queued & _tasks_with(situation, TaskStanding.COMPLETED)
    fresh = completed & _find_next_iteration(situation, present, active | descendants)
    return WindowMembers(
        present=present,
        unreached=unreached,
        moved=moved,
        moving=moving,
        running=running - moved,
        queued=queued,
        fresh=fresh,
        repeated=completed - fresh,
    )


def _find_next_iteration(
    situation: RunSituation, present: list[list[int]], leading: frozenset[int]
) -> set[int]:
    """Return the tasks that can be reached from tasks ``leading`` through back edges that are not decided.

    Decided edges have no effect any more (``RunSituation.decided``).
    """
    undecided = situation.graph.back - situation.decided
    return reachable(present, {head for tail, head in undecided if tail in leading})


def _tasks_with(situation: RunSituation, wanted: TaskStanding) -> frozenset[int]:
    return frozenset(task for task, standing in enumerate(situation.standing) if standing is wanted)


def _find_unreached(situation: RunSituation) -> frozenset[int]:
    """Return the queued tasks that can be reached only through branches that were not taken.

    The first task of an ended loop is not among them, because it has run before.
    """
    graph = situation.graph
    refused = {head for tail, head in situation.decided if (tail, head) not in graph.back}
    if not refused:
        return frozenset()
    present = _list_present(situation, frozenset())
    doubtful = reachable(present, refused) & _tasks_with(situation, TaskStanding.QUEUED)
    return frozenset(doubtful - reachable(present, set(range(len(graph))) - doubtful))


def _list_present(situation: RunSituation, unreached: frozenset[int]) -> list[list[int]]:
    """Return the successors of each task, without decided edges and without the tasks in ``unreached``."""
    decided = situation.decided
    return [
        [child for child in children if child not in unreached and (task, child) not in decided]
        if task not in unreached
        else []
        for task, children in enumerate(situation.graph.successors)
    ]


class WindowVariable(NamedTuple):
    """An abstract machine in one iteration."""

    machine: int
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowBindings:
    """The variables of the tasks of a window."""

    machine: Mapping[int, WindowVariable]
    """The variable of each task; for a transfer, the variable of the destination."""
    source: Mapping[int, WindowVariable]
    """The variable of the source, by transfer task."""
    pinned: tuple[WindowVariable, ...]
    """Variables that keep their machines, ascending."""


def _bind_variables(
    situation: RunSituation, members: WindowMembers, edges: Collection[Edge]
) -> WindowBindings:
    """Return the variables of the window's tasks; ``edges`` are the acyclic edges of the window."""
    graph = situation.graph
    tasks = sorted(members.moving | members.queued)
    machine = {
        task: WindowVariable(graph.machine[task], _next_run_iteration(situation, members, task))
        for task in tasks
    }
    read = _find_sources(situation, members, edges)
    source = {task: read[task] for task in tasks if task in read}

    pinned = _find_completed_variables(situation, members, {*machine.values(), *source.values()})
    again = {machine[task] for task in members.moving}
    pinned |= {read[task] for task in members.moving if task in read} - again
    pinned |= {WindowVariable(graph.machine[task], situation.iteration[task]) for task in members.running}
    pinned |= {read[task] for task in members.running if task in read}
    return WindowBindings(machine=machine, source=source, pinned=tuple(sorted(pinned)))


def _next_run_iteration(situation: RunSituation, members: WindowMembers, task: int) -> int:
    return situation.iteration[task] + (task in members.fresh)


def _find_sources(
    situation: RunSituation, members: WindowMembers, edges: Collection[Edge]
) -> dict[int, WindowVariable]:
    """Return, for each transfer, the variable of its source in the iteration of its producer."""
    source: dict[int, WindowVariable] = {}
    producers = _find_producers(situation, members)
    for task, machine in enumerate(situation.graph.source):
        if machine is None:
            continue
        iteration = _next_run_iteration(situation, members, task)
        coming = [tail for tail in producers[task] if (tail, task) in edges]
        past = [tail for tail in producers[task] if situation.standing[tail] is not TaskStanding.QUEUED]
        if coming:
            iteration = _next_run_iteration(situation, members, coming[0])
        elif past:
            iteration = situation.iteration[past[0]]
        source[task] = WindowVariable(machine, iteration)
    return source


def _find_producers(situation: RunSituation, members: WindowMembers) -> dict[int, list[int]]:
    """Return, for each transfer, its predecessors on its source machine, in program order."""
    graph = situation.graph
    producers: dict[int, list[int]] = {
        task: [] for task, machine in enumerate(graph.source) if machine is not None
    }
    for tail, heads in enumerate(members.present):
        for head in heads:
            if head in producers and graph.machine[tail] == graph.source[head]:
                producers[head].append(tail)
    return producers


def _find_completed_variables(
    situation: RunSituation, members: WindowMembers, used: set[WindowVariable]
) -> set[WindowVariable]:
    """Return the variables in ``used`` that completed tasks have bound and that do not get a new machine."""
    written = {
        WindowVariable(situation.graph.machine[task], situation.iteration[task])
        for task, standing in enumerate(situation.standing)
        if standing is TaskStanding.COMPLETED and task not in members.moving
    }
    return (written & used) - {WindowVariable(*_rebound_variable(situation, task)) for task in members.moved}


_Adjacency = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The acyclic graph of the rest of a run; all tuples are sorted in ascending order.

    Names in brackets are those of the paper.
    """

    moving: tuple[int, ...]
    """Failed and violating tasks, and the tasks that must run again because of them [Nodes_Migr]."""
    queued: tuple[int, ...]
    """All other tasks that will run [Nodes_Queued]."""
    inner: tuple[Edge, ...]
    """Edges between tasks of the window [Edges_DAG]."""
    cut_moving: tuple[Edge, ...]
    """Removed edges on cycles that lead from tasks of the next iteration to moving tasks [Edges_Migr]."""
    cut_queued: tuple[Edge, ...]
    """Other removed edges on cycles [Edges_Queued]."""
    edges: tuple[Edge, ...]
    """The remaining acyclic edges [Edges_t]."""
    unreached: tuple[int, ...]
    """Queued tasks that will not run, because only decided edges lead to them (``RunSituation.decided``)."""
    fresh: tuple[int, ...]
    """Completed tasks that run again in the next iteration; their variables are those of that iteration."""
    repeated: tuple[int, ...]
    """Completed tasks outside loops that follow a task that runs again; the paper's rule repeats them."""
    bindings: WindowBindings

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all tasks of the window [Nodes_t]."""
        return tuple(sorted(self.moving + self.queued))


def build_window(situation: RunSituation) -> Window:
    """Return the window of a run: the acyclic graph of its remaining tasks."""
    members = _find_members(situation)
    moving, queued, fresh = members.moving, members.queued, members.fresh
    iteration = situation.iteration
    inside = moving | queued

    inner = [
        [child for child in children if child in inside] if task in inside else []
        for task, children in enumerate(members.present)
    ]
    cut_moving = {(tail, head) for tail, head in _list_cycle_edges(inner) if tail in fresh and head in moving}
    left = _remove_edges(inner, cut_moving)
    served = {
        (tail, head)
        for tail, head in _list_cycle_edges(left)
        if tail in fresh and iteration[tail] == iteration[head] + (head in fresh)
    }
    left = _remove_edges(left, served)
    searched = set(back_edges(left, _find_frontier(situation, members)))
    left = _remove_edges(left, searched)

    edges = _list_edges(left)
    return Window(
        moving=tuple(sorted(moving)),
        queued=tuple(sorted(queued)),
        inner=_list_edges(inner),
        cut_moving=tuple(sorted(cut_moving)),
        cut_queued=tuple(sorted(served | searched)),
        edges=edges,
        unreached=tuple(sorted(members.unreached)),
        fresh=tuple(sorted(fresh)),
        repeated=tuple(sorted(members.repeated)),
        bindings=_bind_variables(situation, members, frozenset(edges)),
    )


def _find_frontier(situation: RunSituation, members: WindowMembers) -> list[int]:
    """Return the start tasks of the depth-first search: moving tasks, then queued tasks that can run next."""
    blocked: set[int] = set()
    following: set[int] = set()
    for task, children in enumerate(members.present):
        if task in members.running:
            following.update(children)
        if situation.standing[task] is not TaskStanding.COMPLETED:
            blocked.update(child for child in children if (task, child) not in situation.graph.back)
    ready = {
        task
        for task in members.queued
        if situation.standing[task] is TaskStanding.QUEUED and task not in blocked
    }
    return sorted(members.moving) + sorted(ready | (following & members.queued))


def _list_cycle_edges(successors: _Adjacency) -> Iterator[Edge]:
    component = strong_components(successors)
    for tail, heads in enumerate(successors):
        for head in heads:
            if component[tail] == component[head]:
                yield tail, head


def _remove_edges(successors: Sequence[Sequence[int]], removed: Collection[Edge]) -> _Adjacency:
    return [[head for head in heads if (tail, head) not in removed] for tail, heads in enumerate(successors)]


def _list_edges(successors: _Adjacency) -> tuple[Edge, ...]:
    return tuple((tail, head) for tail, heads in enumerate(successors) for head in heads)
