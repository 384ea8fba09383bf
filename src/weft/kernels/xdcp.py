"""Steps of xDCP: move the subtask with the least slack to the slot where it finishes first."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.placement import mode_seconds
from weft.kernels.problem import INFINITY, Doubles, Flags, Indices, ModeArrays

_ROUNDING = 1e-12
"""Times that differ by less than this share of the schedule length are equal."""


class SubtaskGraph(NamedTuple):
    """The subtasks, in topological order."""

    number: int
    machines: int
    pointer: Indices
    before: Indices
    """Parents (CSR)."""
    after_pointer: Indices
    after: Indices
    """Children (CSR)."""
    earliest: Doubles
    layer: Indices
    bound: Indices
    """Per subtask: the machine it is bound to; otherwise ``machines``."""


class _SubtaskQueues(NamedTuple):
    """The queues of machines as linked lists; the number of subtasks ends a list."""

    mode: Indices
    seconds: Doubles
    previous: Indices
    following: Indices
    head: Indices
    """Per machine: the first subtask of its queue."""
    order: Indices
    """All subtasks, none before its parents or before the previous one of its queue."""


@kernel
def move_subtasks(
    graph: SubtaskGraph,
    modes: ModeArrays,
    limit: int,
    finish_without: Doubles,
    latest_without: Doubles,
    mark: Flags,
    scratch: Indices,
    placed: Flags,
    mode: Indices,
    seconds: Doubles,
    previous: Indices,
    following: Indices,
    head: Indices,
    order: Indices,
    start: Doubles,
    finish: Doubles,
    latest: Doubles,
) -> int:
    """Move up to ``limit`` subtasks that are not ``placed`` yet; return how many were moved.

    T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
    Tasks on Global Grids, section on xDCP (docs/papers/parameter-sweeps.md). Every machine has a queue whose
    subtasks run one after another. AEFT, the earliest finish, and ALFT, the latest finish that does not
    lengthen the schedule, follow from queues and dependencies.

    Deviations: The start values and the minimum in ALFT are corrected, and slots respect the parents (the
    printed test ignores them). A slack and a finish are compared with a tolerance for rounding, which
    otherwise would order the critical path at random and exclude a subtask from its own slot. While a subtask
    is out of its queue, the times of its descendants and ancestors are not needed: a slot after a descendant
    or before an ancestor would close a cycle, and no other slot reads them. This check also lets layers share
    machines. Complexity: O(v + e) per step, v steps per pass.

    Changes the queues in place; fills ``seconds``, ``start``, ``finish`` (AEFT) and ``latest`` (ALFT).
    """
    queues = _SubtaskQueues(mode, seconds, previous, following, head, order)
    for task in range(graph.number):
        if modes.group[task] < modes.groups:
            # Adding 0 makes an index signed, so that it can be subtracted.
            seconds[task] = mode_seconds(modes, task, 0 + mode[task])
    length = _times(graph, queues, start, finish, latest)
    for step in range(limit):
        task = _least_slack(graph.number, graph.layer, placed, finish, latest, _ROUNDING * length)
        if task == graph.number:
            return step
        placed[task] = 1
        old_mode = mode[task]
        old_previous = previous[task]
        _take_out(queues, graph.number, task, modes.machine[old_mode])
        _forward_without(graph, queues, task, mark, finish, finish_without)
        _backward_without(graph, queues, task, mark, length, latest, latest_without)
        new_mode, new_previous = _best_slot(
            graph, modes, queues, task, length, mark, finish_without, latest_without, old_previous
        )
        _put_in(queues, graph.number, task, modes.machine[new_mode], new_previous)
        if new_mode != old_mode or new_previous != old_previous:
            mode[task] = new_mode
            seconds[task] = mode_seconds(modes, task, new_mode)
            _reorder(graph, queues, task, mark, scratch)
            length = _times(graph, queues, start, finish, latest)
    return limit


@kernel
def _times(
    graph: SubtaskGraph, queues: _SubtaskQueues, start: Doubles, finish: Doubles, latest: Doubles
) -> float:
    """Compute AEFT and ALFT of all subtasks (step 3); return the length of the schedule (DCPL)."""
    number = graph.number
    order = queues.order
    seconds = queues.seconds
    previous = queues.previous
    following = queues.following
    pointer = graph.pointer
    before = graph.before
    after_pointer = graph.after_pointer
    after = graph.after
    earliest = graph.earliest
    length = 0.0
    for place in range(number):
        task = order[place]
        begin = _ready(pointer, before, finish, task, earliest[task])
        earlier = previous[task]
        if earlier < number and finish[earlier] > begin:
            begin = finish[earlier]
        end = begin + seconds[task]
        start[task] = begin
        finish[task] = end
        if end > length:
            length = end
    for back in range(number):
        task = order[number - 1 - back]
        due = _due(after_pointer, after, seconds, latest, task, length)
        later = following[task]
        if later < number and latest[later] - seconds[later] < due:
            due = latest[later] - seconds[later]
        latest[task] = due
    return length


@kernel
def _ready(pointer: Indices, before: Indices, finish: Doubles, task: int, moment: float) -> float:
    """Return the last finish of the parents of a subtask, at least ``moment``."""
    for position in range(pointer[task], pointer[task + 1]):
        end = finish[before[position]]
        if end > moment:
            moment = end
    return moment


@kernel
def _due(
    pointer: Indices, after: Indices, seconds: Doubles, latest: Doubles, task: int, moment: float
) -> float:
    """Return the earliest of the latest starts of the children of a subtask, at most ``moment``."""
    for position in range(pointer[task], pointer[task + 1]):
        child = after[position]
        begin = latest[child] - seconds[child]
        if begin < moment:
            moment = begin
    return moment


@kernel
def _least_slack(
    number: int, layer: Indices, placed: Flags, finish: Doubles, latest: Doubles, rounding: float
) -> int:
    """Return the next subtask by slack, layer, AEFT, index (step 4), or the number of subtasks."""
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
def _take_out(queues: _SubtaskQueues, sentinel: int, task: int, machine: int) -> None:
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
def _put_in(queues: _SubtaskQueues, sentinel: int, task: int, machine: int, earlier: int) -> None:
    """Insert a subtask after another one, or first if ``earlier`` is the sentinel."""
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
    graph: SubtaskGraph,
    queues: _SubtaskQueues,
    task: int,
    mark: Flags,
    finish: Doubles,
    finish_without: Doubles,
) -> None:
    """Compute AEFT without a subtask; mark its descendants, for which it is not computed."""
    number = graph.number
    order = queues.order
    seconds = queues.seconds
    previous = queues.previous
    pointer = graph.pointer
    before = graph.before
    earliest = graph.earliest
    place = 0
    while order[place] != task:
        other = order[place]
        mark[other] = 0
        finish_without[other] = finish[other]
        place += 1
    mark[task] = _DESCENDANT
    for behind in range(place + 1, number):
        other = order[behind]
        mark[other] = 0
        earlier = previous[other]
        if _is_next_to(pointer, before, mark, other, _DESCENDANT) or (
            earlier < number and mark[earlier] == _DESCENDANT
        ):
            mark[other] = _DESCENDANT
        else:
            begin = _ready(pointer, before, finish_without, other, earliest[other])
            if earlier < number and finish_without[earlier] > begin:
                begin = finish_without[earlier]
            finish_without[other] = begin + seconds[other]


@kernel
def _is_next_to(pointer: Indices, neighbour: Indices, mark: Flags, task: int, wanted: int) -> bool:
    """Return whether a parent (with the arrays of children: a child) of a subtask has a mark."""
    found = False
    for position in range(pointer[task], pointer[task + 1]):
        if mark[neighbour[position]] == wanted:
            found = True
            break
    return found


@kernel
def _backward_without(
    graph: SubtaskGraph,
    queues: _SubtaskQueues,
    task: int,
    mark: Flags,
    length: float,
    latest: Doubles,
    latest_without: Doubles,
) -> None:
    """Compute ALFT without a subtask; mark its ancestors, for which it is not computed."""
    number = graph.number
    order = queues.order
    seconds = queues.seconds
    following = queues.following
    pointer = graph.after_pointer
    after = graph.after
    place = number - 1
    while order[place] != task:
        other = order[place]
        latest_without[other] = latest[other]
        place -= 1
    mark[task] = _ANCESTOR
    for back in range(place):
        other = order[place - 1 - back]
        later = following[other]
        if _is_next_to(pointer, after, mark, other, _ANCESTOR) or (
            later < number and mark[later] == _ANCESTOR
        ):
            mark[other] = _ANCESTOR
        else:
            due = _due(pointer, after, seconds, latest_without, other, length)
            if later < number and latest_without[later] - seconds[later] < due:
                due = latest_without[later] - seconds[later]
            latest_without[other] = due


@kernel
def _best_slot(
    graph: SubtaskGraph,
    modes: ModeArrays,
    queues: _SubtaskQueues,
    task: int,
    length: float,
    mark: Flags,
    finish: Doubles,
    latest: Doubles,
    old_previous: int,
) -> tuple[int, int]:
    """Return mode and predecessor of the slot where a subtask finishes first (step 5).

    Ties: lower machine index, then earlier slot. The finish grows along a queue, so the first allowed slot is
    the best of its machine. If no slot is allowed, the subtask stays.
    """
    sentinel = graph.number
    head = queues.head
    seconds = queues.seconds
    following = queues.following
    bound = graph.bound[task]
    ready = _ready(graph.pointer, graph.before, finish, task, graph.earliest[task])
    due = _due(graph.after_pointer, graph.after, seconds, latest, task, length)
    rounding = _ROUNDING * length
    best = INFINITY
    chosen = 0 + queues.mode[task]
    chosen_previous = 0 + old_previous
    group = modes.group[task]
    for mode in range(0 + modes.first[group], 0 + modes.first[group + 1]):
        machine = modes.machine[mode]
        if bound < graph.machines and bound != machine:
            continue
        spent = mode_seconds(modes, task, mode)
        begin = ready
        earlier = 0 + sentinel
        later = head[machine]
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
            later = following[earlier]
    return chosen, chosen_previous


@kernel
def _reorder(graph: SubtaskGraph, queues: _SubtaskQueues, task: int, mark: Flags, scratch: Indices) -> None:
    """Restore the order after a move: descendants of the moved subtask go after it, all others before it."""
    number = graph.number
    order = queues.order
    previous = queues.previous
    pointer = graph.pointer
    before = graph.before
    for other in range(number):
        mark[other] = 0
    mark[task] = _DESCENDANT
    kept = 0
    behind = 0
    for place in range(number):
        other = order[place]
        if other == task:
            continue
        earlier = previous[other]
        if _is_next_to(pointer, before, mark, other, _DESCENDANT) or (
            earlier < number and mark[earlier] == _DESCENDANT
        ):
            mark[other] = _DESCENDANT
            scratch[behind] = other
            behind += 1
        else:
            order[kept] = other
            kept += 1
    order[kept] = task
    for index in range(behind):
        order[kept + 1 + index] = scratch[index]
