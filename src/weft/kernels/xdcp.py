"""The steps of xDCP, each of which moves the subtask with the least slack to the slot where it ends first."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.placement import mode_seconds
from weft.kernels.problem import INFINITY, Doubles, Flags, Indices, ModeArrays

_ROUNDING = 1e-12
"""Times that differ by less than this share of the makespan count as equal."""


class SubtaskGraph(NamedTuple):
    """The subtasks, their dependencies and the network; indices are a topological order.

    Every machine runs one subtask at a time; the planner divides a machine of several nodes into such
    machines.
    """

    number: int
    pointer: Indices
    before: Indices
    """``before`` holds the parents of each subtask (CSR with ``pointer``); an edge is a position in
    ``before``.
    """
    after_pointer: Indices
    after: Indices
    after_edge: Indices
    """Per subtask (CSR with ``after_pointer``): ``after`` holds its children, ``after_edge`` the edges to
    them.
    """
    earliest: Doubles
    layer: Indices
    moving: int
    """Whether the data of some edge take time; otherwise the network is not read."""
    size: Doubles
    files: Doubles
    fixed: Doubles
    """Per edge: ``size`` in bytes, number of ``files`` (each adds the latency) and ``fixed`` seconds. They
    apply only between different hosts.
    """
    locations: int
    location: Indices
    host: Indices
    """Per machine: its network ``location`` and its ``host``."""
    latency: Doubles
    inverse: Doubles
    """Locations x locations: seconds per file (``latency``) and per byte (``inverse``) between hosts."""


class SubtaskQueues(NamedTuple):
    """The queues of machines as linked lists; the number of subtasks ends a list."""

    mode: Indices
    machine: Indices
    """Per subtask: its machine; virtual subtasks, which are in no queue, have a machine too."""
    seconds: Doubles
    previous: Indices
    following: Indices
    head: Indices
    """Per machine: the first subtask of its queue."""
    order: Indices
    """All subtasks; each comes after its parents and after the previous subtask of its queue."""


class SubtaskTimes(NamedTuple):
    """The times of all subtasks that result from the current queues."""

    start: Doubles
    finish: Doubles
    """Per subtask: AEFT, its earliest finish."""
    latest: Doubles
    """Per subtask: ALFT, its latest finish that does not lengthen the schedule."""


class SubtaskScratch(NamedTuple):
    """Scratch arrays per subtask: times while one subtask is out of its queue, marks, part of the order."""

    finish: Doubles
    latest: Doubles
    mark: Flags
    behind: Indices


@kernel
def move_subtasks(
    graph: SubtaskGraph,
    modes: ModeArrays,
    limit: int,
    scratch: SubtaskScratch,
    placed: Flags,
    queues: SubtaskQueues,
    times: SubtaskTimes,
) -> int:
    """Move up to ``limit`` subtasks that are not ``placed`` yet; return how many were moved.

    T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
    Tasks on Global Grids, section on xDCP (docs/papers/parameter-sweeps.md). Every machine has a queue whose
    subtasks run one after another. AEFT, the earliest finish, and ALFT, the latest finish that does not
    lengthen the schedule, follow from queues and dependencies.

    Deviations: data between different hosts take time, as in the dynamic critical path of Kwok and Ahmad (the
    paper has no communication). The start values and the minimum in ALFT are corrected, and slots respect the
    parents (the printed test ignores them). Slacks and finishes are compared with a tolerance: without it,
    rounding errors would order the critical path at random and exclude a subtask from its own slot. While a
    subtask is out of its queue, the times of its descendants and ancestors are not needed: a slot after a
    descendant or before an ancestor would close a cycle, and no other slot depends on them. This check also
    lets layers share machines. Complexity: O(v + e + p d) per step, v steps per pass, for p machines and d
    neighbours.

    Queues are changed in place; ``queues.seconds`` and ``times`` are computed here.
    """
    mode, seconds = queues.mode, queues.seconds
    for task in range(graph.number):
        if modes.group[task] < modes.groups:
            # Adding 0 makes an index signed, so that it can be subtracted.
            seconds[task] = mode_seconds(modes, task, 0 + mode[task])
    length = _fill_times(graph, queues, times)
    for step in range(limit):
        task = _least_slack(graph, placed, times, _ROUNDING * length)
        if task == graph.number:
            return step
        placed[task] = 1
        old_mode = mode[task]
        old_previous = queues.previous[task]
        _take_out(queues, graph.number, task, modes.machine[old_mode])
        _forward_without(graph, queues, times, task, scratch)
        _backward_without(graph, queues, times, task, length, scratch)
        new_mode, new_previous = _best_slot(graph, modes, queues, task, length, scratch, old_previous)
        _put_in(queues, graph.number, task, modes.machine[new_mode], new_previous)
        if new_mode != old_mode or new_previous != old_previous:
            mode[task] = new_mode
            queues.machine[task] = modes.machine[new_mode]
            seconds[task] = mode_seconds(modes, task, new_mode)
            _reorder(graph, queues, task, scratch)
            length = _fill_times(graph, queues, times)
    return limit


@kernel
def _fill_times(graph: SubtaskGraph, queues: SubtaskQueues, times: SubtaskTimes) -> float:
    """Compute AEFT and ALFT of all subtasks (step 3); return the length of the schedule (DCPL)."""
    number, order, seconds = graph.number, queues.order, queues.seconds
    start, finish, latest = times
    length = 0.0
    for place in range(number):
        task = order[place]
        begin = _ready(graph, finish, queues.machine, task, queues.machine[task])
        earlier = queues.previous[task]
        if earlier < number and finish[earlier] > begin:
            begin = finish[earlier]
        end = begin + seconds[task]
        start[task] = begin
        finish[task] = end
        if end > length:
            length = end
    for back in range(number):
        task = order[number - 1 - back]
        due = _due(graph, queues, latest, task, queues.machine[task], length)
        later = queues.following[task]
        if later < number and latest[later] - seconds[later] < due:
            due = latest[later] - seconds[later]
        latest[task] = due
    return length


@kernel
def _travel(graph: SubtaskGraph, edge: int, source: int, target: int) -> float:
    """Return the seconds that the data of an edge take between two machines."""
    if graph.host[source] == graph.host[target]:
        return 0.0
    link = graph.location[source] * graph.locations + graph.location[target]
    return (
        graph.fixed[edge] + graph.files[edge] * graph.latency[link] + graph.size[edge] * graph.inverse[link]
    )


@kernel
def _ready(graph: SubtaskGraph, finish: Doubles, machine: Indices, task: int, target: int) -> float:
    """Return when the data of all parents of a subtask are on a machine."""
    moment = graph.earliest[task]
    for edge in range(graph.pointer[task], graph.pointer[task + 1]):
        parent = graph.before[edge]
        end = finish[parent]
        if graph.moving:
            end += _travel(graph, edge, machine[parent], target)
        if end > moment:
            moment = end
    return moment


@kernel
def _due(
    graph: SubtaskGraph, queues: SubtaskQueues, latest: Doubles, task: int, source: int, moment: float
) -> float:
    """Return the latest finish of a subtask on machine ``source`` that delays no child, up to ``moment``."""
    for position in range(graph.after_pointer[task], graph.after_pointer[task + 1]):
        child = graph.after[position]
        begin = latest[child] - queues.seconds[child]
        if graph.moving:
            begin -= _travel(graph, graph.after_edge[position], source, queues.machine[child])
        if begin < moment:
            moment = begin
    return moment


@kernel
def _least_slack(graph: SubtaskGraph, placed: Flags, times: SubtaskTimes, rounding: float) -> int:
    """Return the unplaced subtask with the least slack (step 4); ``number`` if all are placed.

    Ties are broken by layer, then AEFT, then index.
    """
    number, layer, finish, latest = graph.number, graph.layer, times.finish, times.latest
    chosen = number
    least = 0.0
    for task in range(number):
        if placed[task] == 0:
            slack = latest[task] - finish[task]
            if slack < rounding:
                slack = 0.0
            if chosen == number or slack < least:
                chosen = task
                least = slack
            elif slack == least and (
                layer[task] < layer[chosen]
                or (layer[task] == layer[chosen] and finish[task] < finish[chosen])
            ):
                chosen = task
    return chosen


@kernel
def _take_out(queues: SubtaskQueues, sentinel: int, task: int, machine: int) -> None:
    earlier = queues.previous[task]
    later = queues.following[task]
    if earlier < sentinel:
        queues.following[earlier] = later
    else:
        queues.head[machine] = later
    if later < sentinel:
        queues.previous[later] = earlier
    queues.previous[task] = sentinel
    queues.following[task] = sentinel


@kernel
def _put_in(queues: SubtaskQueues, sentinel: int, task: int, machine: int, earlier: int) -> None:
    """Insert a subtask into a machine's queue after ``earlier``, or first if ``earlier`` is the sentinel."""
    if earlier < sentinel:
        later = queues.following[earlier]
        queues.following[earlier] = task
    else:
        later = queues.head[machine]
        queues.head[machine] = task
    if later < sentinel:
        queues.previous[later] = task
    queues.previous[task] = earlier
    queues.following[task] = later


_DESCENDANT, _ANCESTOR = 1, 2


@kernel
def _forward_without(
    graph: SubtaskGraph, queues: SubtaskQueues, times: SubtaskTimes, task: int, scratch: SubtaskScratch
) -> None:
    """Compute AEFT without a subtask; its descendants are marked, and their AEFT is not computed."""
    number, order, mark, finish = graph.number, queues.order, scratch.mark, scratch.finish
    place = 0
    while order[place] != task:
        other = order[place]
        mark[other] = 0
        finish[other] = times.finish[other]
        place += 1
    mark[task] = _DESCENDANT
    for behind in range(place + 1, number):
        other = order[behind]
        mark[other] = 0
        earlier = queues.previous[other]
        if _depends(graph, mark, other, earlier):
            mark[other] = _DESCENDANT
        else:
            begin = _ready(graph, finish, queues.machine, other, queues.machine[other])
            if earlier < number and finish[earlier] > begin:
                begin = finish[earlier]
            finish[other] = begin + queues.seconds[other]


@kernel
def _depends(graph: SubtaskGraph, mark: Flags, task: int, earlier: int) -> bool:
    """Return whether a parent of a subtask, or the one before it in its queue, is marked as descendant."""
    if earlier < graph.number and mark[earlier] == _DESCENDANT:
        return True
    return _is_next_to(graph.pointer, graph.before, mark, task, _DESCENDANT)


@kernel
def _is_next_to(pointer: Indices, neighbour: Indices, mark: Flags, task: int, wanted: int) -> bool:
    """Return whether one of a subtask's neighbours (CSR arrays of parents or children) has a given mark."""
    found = False
    for position in range(pointer[task], pointer[task + 1]):
        if mark[neighbour[position]] == wanted:
            found = True
            break
    return found


@kernel
def _backward_without(
    graph: SubtaskGraph,
    queues: SubtaskQueues,
    times: SubtaskTimes,
    task: int,
    length: float,
    scratch: SubtaskScratch,
) -> None:
    """Compute ALFT without a subtask; its ancestors are marked, and their ALFT is not computed."""
    number, order, seconds = graph.number, queues.order, queues.seconds
    mark, latest = scratch.mark, scratch.latest
    place = number - 1
    while order[place] != task:
        other = order[place]
        latest[other] = times.latest[other]
        place -= 1
    mark[task] = _ANCESTOR
    for back in range(place):
        other = order[place - 1 - back]
        later = queues.following[other]
        if _is_next_to(graph.after_pointer, graph.after, mark, other, _ANCESTOR) or (
            later < number and mark[later] == _ANCESTOR
        ):
            mark[other] = _ANCESTOR
        else:
            due = _due(graph, queues, latest, other, queues.machine[other], length)
            if later < number and latest[later] - seconds[later] < due:
                due = latest[later] - seconds[later]
            latest[other] = due


@kernel
def _best_slot(
    graph: SubtaskGraph,
    modes: ModeArrays,
    queues: SubtaskQueues,
    task: int,
    length: float,
    scratch: SubtaskScratch,
    old_previous: int,
) -> tuple[int, int]:
    """Return the mode, and the previous subtask in the queue, with which a subtask finishes first (step 5).

    Ties: lower machine index, then earlier slot. The finish grows along a queue, so the first allowed slot is
    the best of its machine. If no slot is allowed, the present mode and place are returned.
    """
    sentinel, seconds = graph.number, queues.seconds
    finish, latest, mark = scratch.finish, scratch.latest, scratch.mark
    group = modes.group[task]
    first = 0 + modes.first[group]
    known = modes.machine[first]
    ready = _ready(graph, finish, queues.machine, task, known)
    due = _due(graph, queues, latest, task, known, length)
    rounding = _ROUNDING * length
    best = INFINITY
    chosen = 0 + queues.mode[task]
    chosen_previous = 0 + old_previous
    for mode in range(first, 0 + modes.first[group + 1]):
        machine = modes.machine[mode]
        if graph.moving and graph.host[machine] != graph.host[known]:
            known = machine
            ready = _ready(graph, finish, queues.machine, task, known)
            due = _due(graph, queues, latest, task, known, length)
        spent = mode_seconds(modes, task, mode)
        begin = ready
        earlier = 0 + sentinel
        later = queues.head[machine]
        while begin + spent < best:
            if later == sentinel or mark[later] != _ANCESTOR:
                limit = due
                if later < sentinel and latest[later] - seconds[later] < limit:
                    limit = latest[later] - seconds[later]
                if begin + spent <= limit + rounding:
                    best = begin + spent
                    chosen = mode
                    chosen_previous = earlier
            if later == sentinel or mark[later] == _DESCENDANT:
                break  # a slot after a descendant is too late, except for rounding
            if finish[later] > begin:
                begin = finish[later]
            earlier = 0 + later
            later = queues.following[earlier]
    return chosen, chosen_previous


@kernel
def _reorder(graph: SubtaskGraph, queues: SubtaskQueues, task: int, scratch: SubtaskScratch) -> None:
    """Restore the topological order after a move: the descendants of the moved subtask come after it."""
    number, order, mark = graph.number, queues.order, scratch.mark
    for other in range(number):
        mark[other] = 0
    mark[task] = _DESCENDANT
    kept = 0
    behind = 0
    for place in range(number):
        other = order[place]
        if other == task:
            continue
        if _depends(graph, mark, other, queues.previous[other]):
            mark[other] = _DESCENDANT
            scratch.behind[behind] = other
            behind += 1
        else:
            order[kept] = other
            kept += 1
    order[kept] = task
    for index in range(behind):
        order[kept + 1 + index] = scratch.behind[index]
