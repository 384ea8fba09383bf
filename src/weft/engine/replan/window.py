"""The directed graph of a workflow as the window reads it: tasks in program order, edges, what closes loops.

S1 (Prodan and Fahringer 2005, spec s1 sections 2 and 10). Back edges are those the workflow declares; where
cycles are left without them, a depth-first search from the entry tasks, then in program order, finds others.
Deviations: none. O(v + e) and a heap for the order.

How a run stands at one moment, in S1's words: what the window is made from.

Which tasks must run again when some move: completed ones tied to the abstract machine that is re-bound.

S1 (Prodan and Fahringer 2005), spec s1 section 10, Nodes_N. Of a task JS(M) or FT(M, .) that moves: every
completed JS'(M) and FT'(., M) of the same iteration among its ancestors along edges that are not back edges.
Not repeated for the tasks so found, as in the paper.

Deviations: none. One pass against the edges for all tasks that move: a node carries one bit per re-bound
variable, so O((v + e) b / 64) for b variables that some completed task shares.

Which tasks belong to the window: those that move, those that are to run, those that run on.

S1 (Prodan and Fahringer 2005), spec s1 section 10: Nodes_Migr and Nodes_Queued, made disjoint (gaps G5, G6).
Deviations: none. O(v + e).

Which machine variables the tasks of the window carry, and which of them keep their machine.

S1 (Prodan and Fahringer 2005), spec s1 section 10: a variable is an abstract machine in one iteration; a task
that re-enters for the next iteration carries that of the next. Pinned are the variables of properly running
tasks and the sources of transfers that run again while their producer does not.

Deviations: also pinned is what a completed task shares with a task of the window in the same iteration,
unless it is bound anew for a task that moves (spec s1 section 2: one name, one machine). A transfer reads in
the iteration of the task that wrote, which a loop's border may put before its own.

Which edges lie on a cycle: those inside a strongly connected component.

R. Tarjan, Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1 (1972).
Deviations: iterative, so depth is not bounded by the interpreter's stack. O(v + e).

Static DAG generation at run time: what is left of this iteration and one more, without cycles.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study, SAC
2005; the sets as corrected in spec s1 section 10.

Deviations: of the edges on cycles, those whose first task has completed in the iteration in which the second
is to run are cut before the depth-first search: they are served, what re-enters is the iteration after. The
search alone may enter a waiting task through such an edge and then cut what the rest of this iteration waits
for (in WIEN2k: SUMPARA would no longer wait for LAPW2 of a k-point whose LAPW1 is done).

O(v + e), iterative; see ``reexecution`` for many re-bound machines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from weft.workflow.cycles import back_edges, reachable, topological_order

__all__ = [
    "Edge",
    "RunSituation",
    "TaskStanding",
    "Window",
    "WindowBindings",
    "WindowGraph",
    "WindowMembers",
    "WindowVariable",
    "bind_variables",
    "build_graph",
    "build_window",
    "find_components",
    "find_members",
    "find_tied_ancestors",
    "initial_dag",
    "rebound_variable",
]


Edge = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowGraph:
    """What does not change during a run; the indices of tasks are their program order."""

    machine: tuple[int, ...]
    """Per task: its abstract machine; of a transfer, the one it writes to."""
    source: tuple[int | None, ...]
    """Per task: of a transfer, the abstract machine it reads from; None: not a transfer."""
    successors: tuple[tuple[int, ...], ...]
    """Per task: where its edges lead, ascending, back edges included."""
    back: frozenset[Edge]
    """Edges that lead to the next iteration of a loop."""
    order: tuple[int, ...]
    """The tasks such that every other edge points forward."""

    def __len__(self) -> int:
        return len(self.machine)


def build_graph(
    *,
    machine: Sequence[int],
    edges: Iterable[Edge],
    source: Sequence[int | None] | None = None,
    declared: Iterable[Edge] = (),
) -> WindowGraph:
    """Build the graph; an edge given twice counts once, a declared back edge need not be among the edges."""
    declared = frozenset(declared)
    targets: list[set[int]] = [set() for _ in machine]
    for tail, head in (*edges, *declared):
        targets[tail].add(head)
    successors = tuple(tuple(sorted(heads)) for heads in targets)
    forward = _without(successors, declared)
    entered = {head for heads in forward for head in heads}
    entries = (task for task in range(len(machine)) if task not in entered)
    back = declared | frozenset(back_edges(forward, entries))
    return WindowGraph(
        machine=tuple(machine),
        source=tuple(source) if source is not None else (None,) * len(machine),
        successors=successors,
        back=back,
        order=tuple(topological_order(_without(successors, back)) or ()),
    )


def initial_dag(graph: WindowGraph) -> tuple[Edge, ...]:
    """Give the edges planned first (A0): one iteration of every loop, ascending."""
    forward = _without(graph.successors, graph.back)
    return tuple((tail, head) for tail, heads in enumerate(forward) for head in heads)


def _without(successors: Sequence[Sequence[int]], removed: frozenset[Edge]) -> list[list[int]]:
    return [[head for head in heads if (tail, head) not in removed] for tail, heads in enumerate(successors)]


class TaskStanding(Enum):
    """Where a task stands (spec s1 section 2; spec unified section 2 maps the engine's states to it)."""

    QUEUED = "queued"
    """Not started in its iteration."""
    RUNNING = "running"
    COMPLETED = "completed"
    """Ended well in its iteration; a loop may ask for it again."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunSituation:
    """A graph and where its tasks stand."""

    graph: WindowGraph
    standing: tuple[TaskStanding, ...]
    iteration: tuple[int, ...]
    """Per task: the iteration in which it stands so."""
    violating: frozenset[int] = frozenset()
    """Running tasks that broke their contract."""
    decided: frozenset[Edge] = frozenset()
    """Edges that will not be followed: loops that were left or are exhausted, branches not taken."""


def rebound_variable(situation: RunSituation, task: int) -> tuple[int, int]:
    """Give the (abstract machine, iteration) that is bound anew when a task moves."""
    source = situation.graph.source[task]
    machine = situation.graph.machine[task] if source is None else source
    return machine, situation.iteration[task]


def find_tied_ancestors(
    situation: RunSituation, present: Sequence[Sequence[int]], moving: Iterable[int]
) -> set[int]:
    """Collect what must run again for the tasks that move, along the edges that are still present."""
    graph = situation.graph
    variables = {task: rebound_variable(situation, task) for task in moving}
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
    """The tasks of a window by what happens to them, and the edges that may still be followed."""

    present: list[list[int]]
    """Per task: successors, without decided edges and what only they lead to."""
    unreached: frozenset[int]
    """Queued tasks that only decided edges lead to."""
    moved: frozenset[int]
    """Tasks that failed or broke their contract."""
    moving: frozenset[int]
    """These, and what must run again for them [Nodes_Migr]."""
    running: frozenset[int]
    """Properly running tasks: left where they are, out of the window."""
    queued: frozenset[int]
    """Everything else that is to run [Nodes_Queued]."""
    fresh: frozenset[int]
    """Queued ones that are completed in this iteration and re-enter for the next, through a back edge."""
    repeated: frozenset[int]
    """Queued ones that are completed and in no loop: they come after a task that must run again."""


def find_members(situation: RunSituation) -> WindowMembers:
    """Sort the tasks of a situation."""
    unreached = _find_unreached(situation)
    present = _list_present(situation, unreached)
    running = _tasks_with(situation, TaskStanding.RUNNING)
    moved = _tasks_with(situation, TaskStanding.FAILED) | (running & situation.violating)
    moving = moved | find_tied_ancestors(situation, present, moved)
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
    """Collect what some tasks lead to by way of a back edge."""
    undecided = situation.graph.back - situation.decided
    return reachable(present, {head for tail, head in undecided if tail in leading})


def _tasks_with(situation: RunSituation, asked: TaskStanding) -> frozenset[int]:
    return frozenset(task for task, standing in enumerate(situation.standing) if standing is asked)


def _find_unreached(situation: RunSituation) -> frozenset[int]:
    """Find the queued tasks that nothing leads to but branches not taken.

    The head of a loop that was left does not count: it was reached before the loop came back to it.
    """
    graph = situation.graph
    refused = {head for tail, head in situation.decided if (tail, head) not in graph.back}
    if not refused:
        return frozenset()
    present = _list_present(situation, frozenset())
    doubtful = reachable(present, refused) & _tasks_with(situation, TaskStanding.QUEUED)
    return frozenset(doubtful - reachable(present, set(range(len(graph))) - doubtful))


def _list_present(situation: RunSituation, unreached: frozenset[int]) -> list[list[int]]:
    """Give the successors that may still be followed."""
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
    """Per task: where it runs; of a transfer, where it writes."""
    source: Mapping[int, WindowVariable]
    """Per transfer: where it reads."""
    pinned: tuple[WindowVariable, ...]
    """Variables that keep the machine they have, ascending."""


def bind_variables(
    situation: RunSituation, members: WindowMembers, edges: Collection[Edge]
) -> WindowBindings:
    """Give the variables of a window whose edges are known."""
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
    """Give the iteration in which a task runs next."""
    return situation.iteration[task] + (task in members.fresh)


def _find_sources(
    situation: RunSituation, members: WindowMembers, edges: Collection[Edge]
) -> dict[int, WindowVariable]:
    """Give where every transfer reads: in the iteration of the run that wrote, to come or past."""
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
    """Give per transfer the tasks before it that write where it reads, in program order."""
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
    """Give the variables in use that completed tasks have bound for good: they neither move nor run again."""
    written = {
        WindowVariable(situation.graph.machine[task], situation.iteration[task])
        for task, standing in enumerate(situation.standing)
        if standing is TaskStanding.COMPLETED and task not in members.moving
    }
    return (written & used) - {WindowVariable(*rebound_variable(situation, task)) for task in members.moved}


def find_components(successors: Sequence[Sequence[int]]) -> list[int]:
    """Give per node a number that exactly the nodes on common cycles share."""
    unseen = len(successors)
    rank = [unseen] * len(successors)
    component = [unseen] * len(successors)
    visited = found = 0
    for root in range(len(successors)):
        if rank[root] != unseen:
            continue
        open_nodes: list[int] = []
        low: dict[int, int] = {}
        stack = [(root, iter(successors[root]))]
        while stack:
            node, rest = stack[-1]
            if rank[node] == unseen:
                rank[node] = low[node] = visited
                visited += 1
                open_nodes.append(node)
            for child in rest:
                if rank[child] == unseen:
                    stack.append((child, iter(successors[child])))
                    break
                if component[child] == unseen:
                    low[node] = min(low[node], rank[child])
            else:
                stack.pop()
                if stack:
                    parent = stack[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == rank[node]:
                    _close(open_nodes, node, component, found)
                    found += 1
    return component


def _close(open_nodes: list[int], root: int, component: list[int], number: int) -> None:
    """Number the nodes visited since a component's first one."""
    node = None
    while node != root:
        node = open_nodes.pop()
        component[node] = number


_Adjacency = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """An acyclic graph of what remains. Tasks and edges ascend; in brackets the paper's names."""

    moving: tuple[int, ...]
    """Tasks that failed or broke their contract, and those that must run again for them [Nodes_Migr]."""
    queued: tuple[int, ...]
    """Everything else that is to run; properly running tasks are left out [Nodes_Queued]."""
    inner: tuple[Edge, ...]
    """Edges between tasks of the window [Edges_DAG]."""
    cut_moving: tuple[Edge, ...]
    """Edges on cycles from the next iteration to moving tasks [Edges_Migr]."""
    cut_queued: tuple[Edge, ...]
    """Back edges of the rest [Edges_Queued]."""
    edges: tuple[Edge, ...]
    """What is left: acyclic [Edges_t]."""
    unreached: tuple[int, ...]
    """Queued tasks that only decided edges lead to: they will not run."""
    fresh: tuple[int, ...]
    """Completed tasks that re-enter for the next iteration, with a binding variable of their own for it."""
    repeated: tuple[int, ...]
    """Completed tasks outside of loops that come after one that runs again: the paper's rule repeats them."""
    bindings: WindowBindings

    @property
    def tasks(self) -> tuple[int, ...]:
        """All tasks of the window [Nodes_t]."""
        return tuple(sorted(self.moving + self.queued))


def build_window(situation: RunSituation) -> Window:
    """Make the window of a situation."""
    members = find_members(situation)
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
        bindings=bind_variables(situation, members, frozenset(edges)),
    )


def _find_frontier(situation: RunSituation, members: WindowMembers) -> list[int]:
    """List where the search starts: moving tasks, then those that can run next, each in program order."""
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
    """Go through the edges that lie on a cycle."""
    component = find_components(successors)
    for tail, heads in enumerate(successors):
        for head in heads:
            if component[tail] == component[head]:
                yield tail, head


def _remove_edges(successors: _Adjacency, removed: set[Edge]) -> _Adjacency:
    if not removed:
        return successors
    return [[head for head in heads if (tail, head) not in removed] for tail, heads in enumerate(successors)]


def _list_edges(successors: _Adjacency) -> tuple[Edge, ...]:
    return tuple((tail, head) for tail, heads in enumerate(successors) for head in heads)
