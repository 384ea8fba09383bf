"""Lower bounds on the makespan by area: all tasks must fit into the capacity between their heads and tails.

The area of a task is its seconds times the share of the capacity that it takes. The head of a task is its
earliest start, its tail the least time from its finish to the end of the last task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds.paths import PathEdges
from weft.schedule.bounds.supplies import AreaFront, Supply
from weft.workflow.task_graph import Floats

SLACK = 1e-9
"""Relative tolerance with which times are compared, because they are sums of doubles."""
_PRECISION = 1e-10
"""Relative precision at which the search for a bound ends."""
_FIRST_STEP = 2e-3
_TINY_STEP = 1e-6
"""The search for a bound ends at once if a makespan longer by this share cannot be refuted."""


def find_crossing(low: float, at: Callable[[float], float]) -> float:
    """Return a number just below the fixed point T = at(T) of a decreasing function, at least ``low``."""
    high = at(low)
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        value = at(middle)
        # The function decreases, so the fixed point is between this T and the value here.
        low, high = max(low, min(middle, value)), min(high, max(middle, value))
    return low


def longest_refuted(low: float, refuted: Callable[[float], bool], *, whole: bool, tries: int) -> float:
    """Return the longest makespan that can be refuted, at least the bound ``low``.

    A makespan T that leads to a contradiction is *refuted*; the longest refuted T is a lower bound.
    ``refuted`` must leave a margin of ``SLACK`` for rounding.

    With ``whole`` the optimum is an integer, so the bound is the integer after the last refuted one. At most
    about ``tries`` makespans are tried.
    """
    if low <= 0.0:
        return low
    if whole:
        return _longest_whole(math.ceil(low * (1 - SLACK)), refuted, tries)
    step, known = _FIRST_STEP * low, low
    if not refuted(low * (1 + _TINY_STEP)):
        return low
    while tries and refuted(low + step):
        low, step, tries = low + step, 2 * step, tries - 1
    high = low + step
    for _ in range(tries):
        if high - low <= _PRECISION * high:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    # Makespans within the slack above a refuted one are impossible, too.
    return low * (1 + SLACK) if low > known else low


def _longest_whole(bound: int, refuted: Callable[[float], bool], tries: int) -> float:
    """Return the smallest integer from ``bound`` on that is not refuted.

    After ``tries`` tests return one more than the largest integer that was refuted.
    """
    if not refuted(bound):
        return float(bound)
    low, step = bound, max(1, int(_FIRST_STEP * bound))
    while tries and refuted(low + step):
        low, step, tries = low + step, 2 * step, tries - 1
    high = low + step
    for _ in range(tries):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return float(low + 1)


_HEAD_THRESHOLDS = 32
"""Largest number of thresholds of heads for ``bound_by_area``; more of them tighten the bound."""
_TURN_THRESHOLDS = 6
"""Largest number of thresholds of heads, and of tails, for ``bound_by_turns``."""

_Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupplyLoad:
    """The demand of all tasks for one supply."""

    supply: Supply
    front: AreaFront
    widest: Floats
    """Per task: its largest number of nodes."""
    reach: tuple[Floats, Floats] | None
    """Numbers of nodes, and the largest share of the supply that so many nodes can take at once.

    None if this limit is not used (see ``Supply.reach``).
    """

    def backwards(self) -> SupplyLoad:
        """Return the same load with the tasks in reverse order."""
        return replace(self, front=self.front.backwards(), widest=self.widest[::-1])

    def all_at_once(self, tasks: _Positions) -> bool:
        """Return whether all these tasks can run at once in their widest modes; area then gives no bound."""
        return self.reach is None and float(self.front.peak[tasks].sum()) <= 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NestedSets:
    """Nested sets of tasks (the first k of an order), and the least head plus least tail of each set."""

    order: _Positions
    around_s: Floats
    reach: Floats | None
    """Per set: the share of the supply that its tasks can take at once; None: the whole supply."""


def _nest_tasks(load: SupplyLoad, tasks: _Positions, order: _Positions, around_s: Floats) -> _NestedSets:
    """Return the sets of the first one, two, three and so on of ``tasks`` in an order."""
    if load.reach is None:
        return _NestedSets(order=order, around_s=around_s, reach=None)
    # Tasks without nodes have no area, so any positive reach is valid.
    nodes = np.maximum(1.0, load.widest[tasks][order].cumsum())
    counts, weights = load.reach
    return _NestedSets(order=order, around_s=around_s, reach=np.interp(nodes, counts, weights))


def _bound_nested_sets(
    load: SupplyLoad, nests: Sequence[_NestedSets], tasks: _Positions, around_s: Floats, low_s: float
) -> float:
    """Return the largest bound that the area of any of the sets gives, but at least ``low_s``.

    ``around_s`` is head plus tail of each task.
    """
    best = max(low_s, _largest(nests, load.front.area[tasks]))
    if not load.front.bends:
        return best

    def at(limit_s: float) -> float:
        limits_s = limit_s - around_s + SLACK * limit_s
        return _largest(nests, load.front.area_within(limits_s, tasks))

    return find_crossing(best, at)


def _largest(nests: Sequence[_NestedSets], area: Floats) -> float:
    best = 0.0
    for sets in nests:
        total = area[sets.order].cumsum()
        if sets.reach is not None:
            total = total / sets.reach
        best = max(best, float((sets.around_s + total).max()))
    return best


def bound_by_turns(load: SupplyLoad, tasks: _Positions) -> float:
    """Return a lower bound on the time that tasks take, since some node must run several of them in turn."""
    shortest_s, rate = load.front.shortest_s[tasks], load.front.least_rate[tasks]
    if float(rate.sum()) <= 1.0:
        return 0.0
    order = np.argsort(-shortest_s, kind="stable")
    at_once = rate[order].cumsum()
    turns = np.arange(1, int(at_once[-1] * (1 - SLACK)) + 1)
    # The longest tasks up to ``next_one`` exceed ``turns`` times the capacity: a node runs turns + 1 of them.
    next_one = np.searchsorted(at_once, turns * (1 + SLACK), side="right")
    fits = next_one < len(order)
    return float(
        ((turns + 1) * shortest_s[order[np.minimum(next_one, len(order) - 1)]])[fits].max(initial=0.0)
    )


def bound_by_area(
    load: SupplyLoad,
    tasks: _Positions,
    head_s: Floats,
    tail_s: Floats,
    low_s: float,
    *,
    in_turn: bool = True,
) -> float:
    """Return a bound on the makespan from the area of tasks with these heads and tails, at least ``low_s``.

    ``in_turn`` is whether a node runs one task at a time; the last refinement below holds only in this case.

    A makespan T is possible only if ``a + area + b <= T`` for every set of tasks whose heads are at least a
    and whose tails are at least b. There are three refinements:

    - k tasks can use at most the k best nodes at once;
    - a task may last no longer than T minus its head and tail, so a moldable task must be wide, which
      increases its area (J. Turek, J. L. Wolf, P. S. Yu, Approximate Algorithms for Scheduling Parallelizable
      Tasks, SPAA 1992);
    - if tasks need more than k times the capacity at once, some node runs k + 1 of them in turn, which takes
      at least k + 1 times the shortest of them.
    """
    by_head, by_tail = np.argsort(-head_s, kind="stable"), np.argsort(-tail_s, kind="stable")
    around = head_s[by_head] + np.minimum.accumulate(tail_s[by_head])
    nests = [_nest_tasks(load, tasks, by_head, around)]
    for threshold in _pick_thresholds(head_s, _HEAD_THRESHOLDS):
        order = by_tail[head_s[by_tail] >= threshold]
        # Tasks are sorted by descending tail, so the tail of the last one is common to all.
        nests.append(_nest_tasks(load, tasks, order, threshold + tail_s[order]))
    if in_turn:
        low_s = max(low_s, _turns_between(load, tasks, head_s, tail_s))
    return _bound_nested_sets(load, nests, tasks, head_s + tail_s, low_s)


def _turns_between(load: SupplyLoad, tasks: _Positions, head_s: Floats, tail_s: Floats) -> float:
    """Return the largest sum of least head, ``bound_by_turns`` and least tail over some sets of tasks.

    A set consists of all tasks whose head is at least one threshold and whose tail is at least another.
    """
    best = 0.0
    if load.all_at_once(tasks):
        return best
    for start in _pick_thresholds(head_s, _TURN_THRESHOLDS):
        late = head_s >= start
        for rest in _pick_thresholds(tail_s[late], _TURN_THRESHOLDS):
            chosen = tasks[late & (tail_s >= rest)]
            best = max(best, start + bound_by_turns(load, chosen) + rest)
    return best


def _pick_thresholds(values: Floats, number: int) -> list[float]:
    """Return at most ``number`` of the distinct values, evenly spaced in the sorted list."""
    distinct = np.unique(values)
    picks: list[float] = distinct[np.unique(np.linspace(0, len(distinct) - 1, number).astype(int))].tolist()
    return picks


def heads_after_ancestors(
    edges: PathEdges, seconds_s: Floats, base_s: Floats, loads: list[SupplyLoad], *, whole: bool
) -> Floats:
    """Return heads raised by the area of the ancestors of each task. If ``whole``, all times are integers.

    The bound by area, applied to the ancestors of a task, raises its head. This is done in topological order,
    so bounds of successive levels add up. The reversed graph gives tails. O(v^2 + v e) time and O(v^2) space
    for v tasks and e edges; for large graphs use ``heads_after_stages``.
    """
    head_s = base_s.copy()
    # Row: task; column: ancestor. The longest path from the finish of the ancestor to the start of the task.
    between = np.full((len(edges), len(edges)), -np.inf)
    pointer = edges.pointer.tolist()
    for task in range(len(edges)):
        first, end = pointer[task], pointer[task + 1]
        if first == end:
            continue
        before, moving = edges.before[first:end], edges.moving_s[first:end]
        spent = seconds_s[before] + moving
        row = between[task, :task]
        np.max(between[before, :task] + spent[:, None], axis=0, out=row)
        row[before] = np.maximum(row[before], moving)
        head = max(float(head_s[task]), float((head_s[before] + spent).max()))
        # With a single predecessor, its own head already contains the area of all ancestors.
        if end - first > 1:
            head = _raise_head(head, row, before, head_s, loads)
        head_s[task] = math.ceil(head * (1 - SLACK)) if whole else head
    return head_s


def _raise_head(
    head: float, row: Floats, before: NDArray[np.int64], head_s: Floats, loads: list[SupplyLoad]
) -> float:
    """Return the head of a task, raised by the area of its ancestors and the turns of its predecessors."""
    ancestors: NDArray[np.intp] = np.flatnonzero(row > -np.inf)
    waited_for = [load for load in loads if not load.all_at_once(ancestors)]
    if not waited_for:
        return head
    heads, paths = head_s[ancestors], row[ancestors]
    late_first, far_first = np.argsort(-heads, kind="stable"), np.argsort(-paths, kind="stable")
    # Every prefix of an order is a set of tasks; its smallest head and path are added to its area.
    orders = (
        (late_first, heads[late_first] + np.minimum.accumulate(paths[late_first])),
        (far_first, np.minimum.accumulate(heads[far_first]) + paths[far_first]),
    )
    for load in waited_for:
        head = max(head, float(head_s[before].min()) + bound_by_turns(load, before))
        nests = [_nest_tasks(load, ancestors, order, around) for order, around in orders]
        head = _bound_nested_sets(load, nests, ancestors, heads + paths, head)
    return head


_MOST_STAGES = 5_000
"""Largest number of stages that are evaluated, those with the most tasks first."""


def find_cuts(edges: PathEdges) -> _Positions:
    """Return the positions p such that every task with an index below p is an ancestor of all other tasks."""
    tasks = len(edges)
    target = np.repeat(np.arange(tasks), np.diff(edges.pointer))
    last_before, first_after = np.full(tasks, -1), np.full(tasks, tasks)
    np.maximum.at(last_before, target, edges.before)
    np.minimum.at(first_after, edges.before, target)
    # A task is a sink of the cuts after itself up to its first successor, and a source of cuts likewise.
    ends = _count_ranges(np.arange(tasks) + 1, first_after + 1, tasks)
    starts = _count_ranges(last_before + 1, np.arange(tasks) + 1, tasks)
    joined = _count_ranges(last_before[target] + 1, first_after[edges.before] + 1, tasks)
    inside = np.arange(1, tasks)
    found: _Positions = inside[joined[inside] == ends[inside] * starts[inside]]
    return found


def _count_ranges(first: NDArray[np.int64], end: NDArray[np.int64], tasks: int) -> NDArray[np.int64]:
    """Return for each position the number of ranges (``first`` to ``end``, exclusive) that contain it."""
    kept = first < end
    change = np.bincount(first[kept], minlength=tasks + 2) - np.bincount(end[kept], minlength=tasks + 2)
    return np.cumsum(change)


def heads_after_stages(
    edges: PathEdges, seconds_s: Floats, base_s: Floats, loads: list[SupplyLoad], *, whole: bool
) -> Floats:
    """Return heads raised by the area of the stages before each task. If ``whole``, all times are integers.

    Stages are separated by cuts, positions of the topological order such that every task before a cut is an
    ancestor of every task after it. Bounds of successive stages therefore add up. To find cuts, call the
    tasks before a position that have no successor before it its sinks, and the tasks after it that have no
    predecessor after it its sources. The position is a cut if and only if every sink is a direct predecessor
    of every source. Sinks, sources and the edges between them are counted for all positions in O(v + e).
    """
    limits = [0, *find_cuts(edges).tolist(), len(edges)]
    sizes = np.diff(limits)
    largest = set(np.argsort(-sizes, kind="stable")[:_MOST_STAGES].tolist())
    walk, start = _StageWalk(edges, seconds_s, base_s), 0.0
    for stage, (first, end) in enumerate(pairwise(limits)):
        finish = walk.through(first, end, start)
        if end - first > 1 and stage in largest and end < len(edges):
            tasks = np.arange(first, end)
            waited_for = [load for load in loads if not load.all_at_once(tasks)]
            heads, tails = np.asarray(walk.head_s[first:end]), walk.tails(first, end)
            for load in waited_for:
                finish = bound_by_area(load, tasks, heads, tails, finish)
        start = math.ceil(finish * (1 - SLACK)) if whole else finish
    return np.asarray(walk.head_s)


class _StageWalk:
    """Computes heads and tails within stages; lists of Python floats are faster than arrays here."""

    def __init__(self, edges: PathEdges, seconds_s: Floats, base_s: Floats) -> None:
        self.pointer, self.before = edges.pointer.tolist(), edges.before.tolist()
        self.moving_s, self.seconds_s = edges.moving_s.tolist(), seconds_s.tolist()
        self.head_s = base_s.tolist()

    def through(self, first: int, end: int, start_s: float) -> float:
        """Compute the heads of the tasks of a stage and return when the longest path of the stage finishes.

        The stage consists of the tasks from ``first`` to ``end - 1`` and starts at ``start_s``. A head is the
        earliest start of a task.
        """
        finish = start_s
        for task in range(first, end):
            head = max(self.head_s[task], start_s)
            for position in range(self.pointer[task], self.pointer[task + 1]):
                before = self.before[position]
                arrival = self.head_s[before] + self.seconds_s[before] + self.moving_s[position]
                if arrival > head:
                    head = arrival
            self.head_s[task] = head
            finish = max(finish, head + self.seconds_s[task])
        return finish

    def tails(self, first: int, end: int) -> Floats:
        """Return the tail of each task of a stage, from its finish to the end of the stage."""
        found = [0.0] * (end - first)
        for task in range(end - 1, first - 1, -1):
            rest = found[task - first] + self.seconds_s[task]
            for position in range(self.pointer[task], self.pointer[task + 1]):
                before = self.before[position] - first
                if before >= 0 and rest + self.moving_s[position] > found[before]:
                    found[before] = rest + self.moving_s[position]
        return np.asarray(found)


_CELLS = 250_000
"""Largest number of tasks x steps x windows that are evaluated per tried makespan."""
_MOST_WINDOWS = 20
"""Largest number of window starts, and of window ends."""
_MOMENTS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeWindows:
    """Tests by energetic reasoning whether all tasks can finish within a makespan T.

    The test compares the tasks and the busy intervals with one supply, a weighted sum of the capacities of
    all machines (``Supply``). A task runs between its head and T minus its tail. Even if the task is shifted
    to one end of that interval, part of it may lie inside a time window [a, b]. If these parts and the busy
    intervals need more than the supply offers from a to b, T is refuted (P. Baptiste, C. Le Pape, W. Nuijten,
    Annals of Operations Research 92, 1999).

    The same holds for instants: of k instants that divide a window into k + 1 equal parts, a task that covers
    more than j parts contains at least j. Tasks that contain an instant must fit together.

    Deviations: modes of different width; a limited number of windows; no time-bound adjustment. O(w v k) per
    T for w windows, v tasks and k steps of their fronts (``AreaFront``).
    """

    head_s: Floats
    tail_s: Floats
    seconds_s: Floats
    rate: Floats
    """Tasks x steps: share of the supply that a task takes in a mode with these ``seconds_s``."""
    held_start_s: Floats
    held_finish_s: Floats
    held_rate: Floats
    """Per busy interval: ``held_start_s``, ``held_finish_s`` and the share of the supply (``held_rate``)."""
    points: int
    """Number of window starts that are tried; equal to the number of window ends."""

    def refutes(self, limit_s: float) -> bool:
        """Return whether it is impossible that all tasks finish by ``limit_s``."""
        end_s, slack = limit_s - self.tail_s, SLACK * limit_s
        fits = self.seconds_s <= (end_s - self.head_s + slack)[:, None]
        if not fits.any(axis=1).all():
            return True
        # A mode that lasts too long is impossible; its seconds inside a window do not matter.
        rate = np.where(fits, self.rate, np.inf)[:, :, None]
        ends = _pick_times(np.concatenate([end_s, self.held_finish_s]), self.points)
        late = self.seconds_s[:, :, None] - np.maximum(0.0, end_s[:, None] - ends)[:, None, :]
        for start in _pick_times(np.concatenate([self.head_s, self.held_start_s]), self.points).tolist():
            later = ends > start
            length = ends[later] - start
            early = self.seconds_s - np.maximum(0.0, start - self.head_s)[:, None]
            inside = np.minimum(np.minimum(late[:, :, later], early[:, :, None]), length)
            if (sum_taken(rate, inside) + self._held(start, ends[later]) > length + slack).any():
                return True
            for moments in _MOMENTS:
                met = np.ceil((moments + 1) * inside / length - SLACK) - 1.0
                if (sum_taken(rate, met) > moments * (1 + SLACK)).any():
                    return True
        return False

    def _held(self, start_s: float, ends_s: Floats) -> Floats:
        finish = np.minimum(self.held_finish_s[:, None], ends_s)
        inside = np.maximum(0.0, finish - np.maximum(self.held_start_s, start_s)[:, None])
        return np.asarray((self.held_rate[:, None] * inside).sum(axis=0), dtype=np.float64)


def sum_taken(rate: Floats, inside: Floats) -> Floats:
    """Return for each window the least amount of the supply that all tasks together take inside it."""
    with np.errstate(invalid="ignore"):  # steps that do not exist: infinity times 0 is NaN, which fmin skips
        taken: Floats = np.fmin.reduce(rate * np.maximum(inside, 0.0), axis=1).sum(axis=0)
    return taken


def _pick_times(values: Floats, number: int) -> Floats:
    """Return at most ``number`` of the distinct values, including the least and the largest."""
    distinct = np.unique(values)
    chosen: Floats = distinct[np.unique(np.linspace(0, len(distinct) - 1, number).astype(int))]
    return chosen


def build_windows(instance: Instance, load: SupplyLoad, head_s: Floats, tail_s: Floats) -> TimeWindows | None:
    """Return the bound by time windows for a supply; None if no task, or too many tasks, use the supply."""
    front = load.front
    tasks = np.flatnonzero(front.area > 0)
    cells = len(tasks) * front.step_s.shape[1]
    points = min(_MOST_WINDOWS, int((_CELLS / max(1, cells)) ** 0.5))
    if not len(tasks) or points < 2:
        return None
    row = front.row[tasks]
    start, finish, rate = _busy_intervals(instance, load.supply)
    return TimeWindows(
        head_s=head_s[tasks],
        tail_s=tail_s[tasks],
        seconds_s=front.step_s[row] * front.scale_s[tasks][:, None],
        rate=front.step_rate[row] * front.scale_rate[tasks][:, None],
        held_start_s=start,
        held_finish_s=finish,
        held_rate=rate,
        points=points,
    )


def _busy_intervals(instance: Instance, supply: Supply) -> tuple[Floats, Floats, Floats]:
    """Return three columns for the intervals in which nodes are busy: start, finish, share of the supply.

    Busy nodes are limited to the capacity of their machine. A supply of a resource, or with rounding, has no
    busy intervals.
    """
    found: list[tuple[float, float, float]] = []
    for machine in sorted({held.machine for held in instance.busy}) if supply.resource is None else ():
        holding = [held for held in instance.busy if held.machine == machine and held.finish_s > 0]
        times = np.unique([max(0.0, time) for held in holding for time in (held.start_s, held.finish_s)])
        change = np.zeros(len(times) + 1)
        for held in holding:
            change[np.searchsorted(times, max(0.0, held.start_s))] += held.nodes
            change[np.searchsorted(times, held.finish_s)] -= held.nodes
        nodes = np.minimum(np.cumsum(change)[: len(times)], supply.capacity[machine])
        if not supply.rounding:
            shares = (nodes * supply.weight[machine]).tolist()
            found += zip(times[:-1].tolist(), times[1:].tolist(), shares, strict=False)
    columns = np.array(found, dtype=np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]
