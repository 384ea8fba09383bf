"""Forecast of the time at which a run would finish if it had the whole platform from now on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from math import inf
from weakref import WeakKeyDictionary

import numpy as np

from weft.instance.instance import Instance
from weft.policies.policy import AttemptView, RunView, View
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.workflow.task_graph import COMPUTE, TRANSFER

_SpeedFactors = tuple[float, ...]
"""The estimated speed factor of each machine; 0 if the machine is down."""

_ClassMode = tuple[int, float, int]
"""(class of machines, seconds, nodes) of the fastest mode of a task on machines of this class."""

_models: WeakKeyDictionary[Instance, _ForecastModel] = WeakKeyDictionary()


def _forecast_model(instance: Instance, factors: _SpeedFactors) -> _ForecastModel:
    """Return the cached model of an instance, updated to the current speed factors."""
    if (found := _models.get(instance)) is None:
        found = _models[instance] = _ForecastModel(instance)
    found.update(factors)
    return found


class _ForecastModel:
    """Tasks, modes and machine classes of an instance, as lists, which plain Python reads fast."""

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
        self.before = [before[start:end] for start, end in pairwise(pointer)]
        """Per task: its predecessors; the edges from them are numbered from ``first_edge`` of the task on."""
        self.first_edge: list[int] = pointer
        self.kind: list[int] = graph.kind.tolist()
        self.variable: list[int] = graph.variable.tolist()
        members = np.bincount(graph.variable, minlength=len(graph.variables))
        self.shared: list[bool] = (members > 1).tolist()
        """Per binding variable: whether several tasks use it."""
        self.moves_data = bool((graph.edge_bytes + graph.edge_files + graph.edge_seconds).any())
        self.looks_back = self.moves_data or any(self.shared) or bool(instance.pinned)
        """Whether a forecast depends on the machines of finished tasks."""
        self.unlimited: list[bool] = instance.unlimited.tolist()
        self.capacity: list[int] = instance.capacity.tolist()
        self.plain = not (self.looks_back or any(self.unlimited)) and set(self.capacity) == {1}
        """Whether ``_place_without_data`` applies: single-node machines, no data, no bindings."""
        self.class_of: list[int] = []
        """Per machine: its class; -1 if it is down."""
        self.members: list[list[int]] = []
        """Per class: its machines, ascending."""
        self.cached: dict[tuple[tuple[int, ...], float | None], float] = {}
        """Forecasts at the current speed factors.

        The key consists of the first unfinished tasks and the mean seconds of the remaining tasks.
        """
        self._modes = {group: _rows(instance, group) for group in range(len(instance.groups))}
        self._group: list[int] = instance.group.tolist()
        self._seconds = instance.seconds
        self._stated = _stated_classes(instance, with_places=self.moves_data)
        self._factors: _SpeedFactors | None = None
        self._firsts: dict[int, list[tuple[int, int, int, int]]] = {}
        """Per mode group: (class, machine, count, nodes) of its modes on the first machine of each class."""
        self._choices: dict[int, list[_ClassMode]] = {}

    def update(self, factors: _SpeedFactors) -> None:
        """If the speed factors have changed, group the machines into classes again and clear the caches."""
        if factors is self._factors or factors == self._factors:
            return
        numbers: dict[tuple[int, float], int] = {}
        self.class_of, self.members = [], []
        for machine, (stated, factor) in enumerate(zip(self._stated, factors, strict=True)):
            number = numbers.setdefault((stated, factor), len(numbers)) if factor > 0.0 else -1
            self.class_of.append(number)
            if number == len(self.members):
                self.members.append([])
            if number >= 0:
                self.members[number].append(machine)
        self._factors = factors
        self._firsts.clear()
        self._choices.clear()
        self.cached.clear()

    def choices(self, task: int) -> list[_ClassMode]:
        """Return the fastest mode of a compute task on each class of machines that can run it."""
        if (found := self._choices.get(task)) is None:
            assert self._factors is not None
            best: dict[int, _ClassMode] = {}
            for number, machine, count, nodes in self._first_modes(self._group[task]):
                taken = self._seconds.at(task, machine, count) / self._factors[machine]
                if number not in best or taken < best[number][1]:
                    best[number] = (number, taken, nodes)
            found = self._choices[task] = list(best.values())
        return found

    def _first_modes(self, group: int) -> list[tuple[int, int, int, int]]:
        """Return (class, machine, count, nodes) of a group's modes on the first machine of each class."""
        if (found := self._firsts.get(group)) is None:
            first: dict[int, int] = {}
            found = self._firsts[group] = [
                (number, machine, count, nodes)
                for machine, count, nodes in self._modes[group]
                if (number := self.class_of[machine]) >= 0 and first.setdefault(number, machine) == machine
            ]
        return found


def _stated_classes(instance: Instance, *, with_places: bool) -> list[int]:
    """Return the class of each machine; machines of a class have equal modes, seconds and nodes.

    If ``with_places`` is true, they also have equal network locations.
    """
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    features: list[list[object]] = [
        [int(capacity), bool(unlimited)]
        for capacity, unlimited in zip(instance.capacity, instance.unlimited, strict=True)
    ]
    if with_places:
        # No data move between machines of one host, so a host with several machines is a location of its own.
        places = np.where(alone, network.location.astype(np.int64), -1 - network.host.astype(np.int64))
        for feature, place in zip(features, places.tolist(), strict=True):
            feature.append(place)
    for number, group in enumerate(instance.groups):
        # In these layouts machines that are equal for one task of a group are equal for all.
        like = isinstance(instance.seconds, RelatedSeconds | ClassSeconds)
        seconds = group.seconds_of(group.tasks[:1] if like else group.tasks)
        for column, machine in enumerate(group.machine.tolist()):
            features[machine].append((number, int(group.count[column]), seconds[:, column].tobytes()))
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(tuple(feature), len(numbers)) for feature in features]


def _rows(instance: Instance, group: int) -> list[tuple[int, int, int]]:
    """Return (machine, count, nodes) of every mode of a group."""
    modes = instance.groups[group]
    return list(zip(modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), strict=True))


_SAMPLE = 64
"""Approximate number of tasks in the sample that converts mean seconds to seconds on each machine class."""

_FreeNodes = list[list[tuple[float, int]]]
"""For each class of machines, a list of (time, number of nodes).

The run uses this many nodes of the class until this time.
"""


def _remaining_end_s(
    model: _ForecastModel,
    run: RunView,
    placed: Sequence[int],
    ends: Mapping[int, float],
    free: _FreeNodes,
    left_s: float,
) -> float:
    """Return the estimated seconds from now until all tasks that were not placed one by one have ended.

    ``left_s`` is the sum of the mean seconds of these tasks. ``ends`` holds the ends of the placed tasks, in
    seconds from now.
    """
    means, ranks = run.mean_seconds, run.ranks
    some = placed[:: 1 + len(placed) // _SAMPLE]
    sample = [task for task in some if model.kind[task] == COMPUTE and model.choices(task)]
    mean_s = sum(means[task] for task in sample)
    fastest_s = sum(min(seconds for _, seconds, _ in model.choices(task)) for task in sample)
    pace = fastest_s / mean_s if mean_s > 0.0 else 1.0
    longest = max(ends[task] + pace * (ranks[task] - means[task]) for task in placed)
    return max(longest, _level_s(model, _rates(model, means, sample), free, left_s))


def _rates(model: _ForecastModel, means: Sequence[float], sample: Sequence[int]) -> list[float]:
    """Return, for each class of machines, how many mean seconds of work a node does per second."""
    work, spent = ([0.0] * len(model.members) for _ in range(2))
    for task in sample:
        for number, seconds, nodes in model.choices(task):
            work[number] += means[task]
            spent[number] += seconds * nodes
    return [done / taken if taken > 0.0 else 0.0 for done, taken in zip(work, spent, strict=True)]


def _level_s(model: _ForecastModel, rates: Sequence[float], free: _FreeNodes, left_s: float) -> float:
    """Return the time at which all nodes together have done ``left_s`` mean seconds of work.

    Each node works from the time at which it is free. Return 0 if a machine has no node limit, or if no node
    can work.
    """
    steps: list[tuple[float, float]] = []
    for members, rate, used in zip(model.members, rates, free, strict=True):
        if rate > 0.0 and model.unlimited[members[0]]:
            return 0.0
        nodes = len(members) * model.capacity[members[0]] - sum(some for _, some in used)
        steps += [(free_from, some * rate) for free_from, some in [(0.0, nodes), *used]]
    level = speed = 0.0
    for free_from, gain in sorted(steps):
        if (free_from - level) * speed >= left_s:
            break
        left_s -= (free_from - level) * speed
        level, speed = free_from, speed + gain
    return level + left_s / speed if speed > 0.0 else 0.0


_MOST_PLACED = 256
"""Largest number of tasks that are placed one by one."""

_MOST_CACHED = 4_000
"""Largest number of cached forecasts per instance."""


class FinishForecast:
    """Forecasts, at one moment, of when each run would finish if it had the platform to itself.

    The attempts of a run are read at its first forecast. The method is the forward estimate of FOFT
    (docs/papers/many-workflows.md, section 3: R. Bolze, F. Desprez, B. Isnard, Evaluation of Online
    Multi-Workflow Heuristics based on List-Scheduling Algorithms). Tasks with an attempt keep their machine
    until the expected end of the attempt; if its program has ended and only its outputs are still being
    copied, the task counts as done and occupies no node. The other tasks are placed in the order of their
    upward rank, each where it finishes first after the tasks placed there before. Other runs are ignored. All
    times are seconds from now, so the forecast of a run without attempts depends only on its instance, its
    unfinished tasks and the speed factors of machines; it is cached until one of them changes, and runs of
    one workflow share it.

    Deviations: the fastest node count of a machine is used, amounts of resources are ignored, a transfer task
    takes its mean time, data of completed tasks start to move now, and no task is placed in a gap between
    other tasks. Ties: the machine that is free first, then the machine with the lower index. Machines are
    grouped into classes with equal seconds for all tasks, equal nodes, equal network location (if data move)
    and equal speed factor. Of a class of single-node machines only the first free one and those with data of
    the task are evaluated.

    Only the first 256 unfinished tasks and the first 256 attempts are placed. The remaining tasks of a long
    workflow are estimated from their mean seconds (``RunView.computing_s``). They do not end before

    - these seconds have filled the nodes that are up, from the time at which each node becomes free;
    - each placed task has finished and the longest path after it has passed (its upward rank without its own
      seconds).

    A sample of the placed tasks converts mean seconds to the speed of each class of machines. On 720 random
    layered graphs the result was 0.58 to 2.59 times the result of placing all tasks, in all cases but one
    within a factor of two; it ignores data of the remaining tasks. The workflows of the paper have 6 to 17
    tasks and are placed completely.

    Cost: O(v + e + modes) once per instance, O(machines) after a change of speed factors, and O(c) per placed
    task and edge for c classes of machines, plus the multi-node machines that the run uses.
    """

    def __init__(self, view: View) -> None:
        self._now = view.now
        self._factors = view.speed_factors
        self._view = view
        self._attempts: dict[int, Sequence[AttemptView]] = {}
        """Per run: its attempts when its first forecast was computed."""

    def left_s(self, run: RunView) -> float:
        """Return the estimated seconds until a run ends; infinity if one of its next tasks cannot run."""
        model = _forecast_model(run.instance, self._factors)
        if (attempts := self._attempts.get(run.index)) is None:
            attempts = self._attempts[run.index] = self._view.attempts_of(run, _MOST_PLACED)
        tasks, behind_s = tuple(run.first_unfinished(_MOST_PLACED + 1)), None
        if len(tasks) > _MOST_PLACED:
            tasks = tasks[:_MOST_PLACED]
            behind_s = _behind_s(model, run, [*tasks, *(attempt.task for attempt in attempts)])
        if attempts or model.looks_back:
            return _left_s(model, run, tasks, attempts, self._now, behind_s)
        key, cached = (tasks, behind_s), model.cached
        if (found := cached.get(key)) is None:
            if len(cached) >= _MOST_CACHED:
                cached.clear()
            found = cached[key] = _left_s(model, run, tasks, (), self._now, behind_s)
        return found


def _behind_s(model: _ForecastModel, run: RunView, ahead: Iterable[int]) -> float:
    """Return the mean seconds of all unfinished compute tasks of a run, except the tasks in ``ahead``."""
    means = run.mean_seconds
    taken = sum(means[task] for task in dict.fromkeys(ahead) if model.kind[task] == COMPUTE)
    return max(0.0, run.computing_s - taken)


def _left_s(
    model: _ForecastModel,
    run: RunView,
    tasks: Sequence[int],
    attempts: Sequence[AttemptView],
    now: float,
    behind_s: float | None,
) -> float:
    """Return the estimated seconds until a run ends.

    ``behind_s`` is the sum of the mean seconds of its unfinished tasks that have no attempt and are not in
    ``tasks``; None: there are no such tasks.
    """
    if model.plain:
        ends, free = _place_without_data(model, run, tasks, attempts, now)
    else:
        ends, free = _ForecastSchedule(model, run).placed(tasks, attempts, now)
    last = max((ends[task] for task in tasks), default=0.0)
    if behind_s is None:
        return last
    last = max(last, *(ends[attempt.task] for attempt in attempts), 0.0)
    return max(last, _remaining_end_s(model, run, tasks, ends, free, behind_s))


def _attempt_left_s(attempt: AttemptView, now: float) -> float:
    """Return the estimated seconds until the program of an attempt ends; 0 if it has ended or is overdue."""
    return 0.0 if attempt.ended_s is not None else max(0.0, attempt.expected_end_s - now)


def _place_without_data(
    model: _ForecastModel, run: RunView, tasks: Sequence[int], attempts: Iterable[AttemptView], now: float
) -> tuple[Mapping[int, float], _FreeNodes]:
    """Place tasks on single-node machines without data; a faster form of ``_ForecastSchedule.placed``."""
    end: dict[int, float] = {}
    busy: dict[int, float] = {}
    for attempt in attempts:
        end[attempt.task] = left = _attempt_left_s(attempt, now)
        if attempt.ended_s is None:
            busy[attempt.machine] = max(left, busy.get(attempt.machine, 0.0))
    lines: _FreeNodes = [[] for _ in model.members]
    for machine, left in busy.items():
        if model.class_of[machine] >= 0:
            lines[model.class_of[machine]].append((left, machine))
    # Each heap holds only the first of the machines that are free now; the others follow by index.
    unused = [(machine for machine in members if machine not in busy) for members in model.members]
    fresh = [next(machines, None) for machines in unused]
    for line, first in zip(lines, fresh, strict=True):
        line += [] if first is None else [(0.0, first)]
        heapify(line)
    for task in tasks:
        if task in end:
            continue
        ready = 0.0
        for other in model.before[task]:
            ready = max(ready, end.get(other, 0.0))
        if model.kind[task] != COMPUTE:
            end[task] = ready + (run.mean_seconds[task] if model.kind[task] == TRANSFER else 0.0)
            continue
        best, free_first, chosen = inf, (inf, 0), None
        for number, seconds, _ in model.choices(task):
            free = lines[number][0]
            finish = max(ready, free[0]) + seconds
            if finish < best or (finish == best and free < free_first):
                best, free_first, chosen = finish, free, number
        end[task] = best
        if chosen is not None:
            heapreplace(lines[chosen], (best, free_first[1]))
            if free_first[1] == fresh[chosen]:
                fresh[chosen] = following = next(unused[chosen], None)
                if following is not None:
                    heappush(lines[chosen], (0.0, following))
    return end, [[(free_from, 1) for free_from, _ in line] for line in lines]


class _DataArrivals:
    """The times at which the data of a task arrive on the machines of one class; O(1) per machine."""

    __slots__ = ("_anywhere", "_coming", "_there")

    def __init__(self) -> None:
        self._anywhere = 0.0
        """Time when all data have arrived that reach all machines at the same time."""
        self._there: dict[int, float] = {}
        """Per machine that holds data of the task: when the data that it holds are complete."""
        self._coming = [(-inf, -1), (-inf, -1)]
        """(time, machine) of two machines, latest first.

        Of all machines that hold data, these are the two whose data arrive last on other machines.
        """

    def note(self, home: int | None, there_s: float, coming_s: float) -> None:
        """Add the data of a predecessor, which are complete on its machine ``home`` at ``there_s``.

        ``coming_s`` is the time at which the data are complete on other machines. ``home`` is None if the
        data arrive on all machines at the same time, ``there_s``.
        """
        if home is None:
            self._anywhere = max(self._anywhere, there_s)
            return
        self._there[home] = max(there_s, self._there.get(home, 0.0))
        last, second = self._coming
        if home == last[1]:
            self._coming[0] = max(last, (coming_s, home))
        else:
            self._coming = sorted((last, max(second, (coming_s, home))), reverse=True)

    def on(self, machine: int) -> float:
        """Return the time when all data of the task are on a machine."""
        last, second = self._coming
        coming_s = second[0] if machine == last[1] else last[0]
        return max(self._anywhere, coming_s, self._there.get(machine, 0.0))


class _ForecastSchedule:
    """The schedule of one forecast: until when the tasks of the run occupy each machine."""

    def __init__(self, model: _ForecastModel, run: RunView) -> None:
        self._model = model
        self._run = run
        self._free: dict[int, list[tuple[float, int]]] = {}
        """Per machine in use: a list of (time, number of nodes that become free at this time), ascending."""
        self._used: dict[int, list[tuple[float, int]]] = {}
        """Per class of single-node machines: heap of (time when free, machine); some entries are stale."""
        self._wide: dict[int, list[int]] = {}
        """Per class of multi-node machines: the machines that the run uses."""
        self._passed: dict[int, int] = {}
        """Per class: how many machines at the beginning of its list of members are known to be in use."""
        self._end: dict[int, tuple[float, int | None]] = {}
        """Per task: its finish, and its machine (None if the machine is irrelevant)."""
        self._bound: dict[int, int] = {}
        """Per binding variable that was bound in this forecast: its machine."""

    def placed(
        self, tasks: Sequence[int], attempts: Iterable[AttemptView], now: float
    ) -> tuple[Mapping[int, float], _FreeNodes]:
        """Place tasks one by one; return the finish of each task, and when the used nodes become free."""
        for attempt in attempts:
            left = _attempt_left_s(attempt, now)
            if attempt.ended_s is None:
                self._take(attempt.machine, left, attempt.nodes)
            self._end[attempt.task] = (left, attempt.machine)
        for task in tasks:
            if task not in self._end:
                self._place(task)
        free: _FreeNodes = [[] for _ in self._model.members]
        for machine, steps in self._free.items():
            if self._model.class_of[machine] >= 0:
                free[self._model.class_of[machine]] += steps
        return {task: end for task, (end, _) in self._end.items()}, free

    def _place(self, task: int) -> None:
        model = self._model
        ready = 0.0
        for other in model.before[task]:
            if other not in self._end:  # finished before now
                self._end[other] = (0.0, self._run.where(other) if model.looks_back else None)
            ready = max(ready, self._end[other][0])
        kind = model.kind[task]
        if kind != COMPUTE:
            moving = self._run.mean_seconds[task] if kind == TRANSFER else 0.0
            self._end[task] = (ready + moving, None)
            return
        finish, _, machine, nodes = min(self._ways(task, ready), default=(inf, inf, None, 0))
        if machine is not None:
            self._take(machine, finish, nodes)
            variable = model.variable[task]
            if model.shared[variable]:
                self._bound[variable] = machine
        self._end[task] = (finish, machine)

    def _ways(self, task: int, ready: float) -> Iterator[tuple[float, float, int, int]]:
        """Yield (finish, time when nodes are free, machine, nodes) of each mode that may be the best one."""
        model = self._model
        only, homes = self._only(task), self._homes(task)
        for number, seconds, nodes in model.choices(task):
            if only is None:
                machines = self._worth(number, nodes, homes)
            else:
                machines = [only] if model.class_of[only] == number else []
            arrivals = self._arrivals(task, number) if model.moves_data and machines else None
            for machine in machines:
                arrival = ready if arrivals is None else arrivals.on(machine)
                free_from = self._free_from(machine, nodes) if machine in self._free else 0.0
                yield max(arrival, free_from) + seconds, free_from, machine, nodes

    def _only(self, task: int) -> int | None:
        if not self._model.looks_back:
            return None
        bound = self._bound.get(self._model.variable[task])
        return self._run.bound(task) if bound is None else bound

    def _homes(self, task: int) -> Collection[int]:
        """Return the machines that hold data of a task."""
        if not self._model.moves_data:
            return ()
        homes = (self._end[other][1] for other in self._model.before[task])
        return {home: None for home in homes if home is not None}

    def _worth(self, number: int, nodes: int, homes: Collection[int]) -> list[int]:
        """Return the machines of a class that may be the best for a task.

        Data arrive at the same time on all machines that hold no data of the task, so the best of these
        machines is the one that is free first.
        """
        model = self._model
        found = [home for home in homes if model.class_of[home] == number]
        wide = (
            (self._free_from(each, nodes), each) for each in self._wide.get(number, ()) if each not in homes
        )
        if (first := min(wide, default=None)) is not None:
            found.append(first[1])
        if (used := self._used.get(number)) is not None:
            while self._free[used[0][1]][0][0] != used[0][0]:
                heappop(used)
            found.append(used[0][1])
        members, passed = model.members[number], self._passed.get(number, 0)
        while passed < len(members) and members[passed] in self._free:
            passed += 1
        self._passed[number] = passed
        if passed < len(members):
            found.append(members[passed])
        return found

    def _arrivals(self, task: int, number: int) -> _DataArrivals:
        """Return when the data of all predecessors of a task arrive on machines of a class."""
        edge_s, members, found = self._run.instance.edge_s, self._model.members[number], _DataArrivals()
        first = self._model.first_edge[task]
        for edge, other in enumerate(self._model.before[task], start=first):
            end, home = self._end[other]
            target = members[-1] if home == members[0] else members[0]
            found.note(home, end, end if home is None else end + edge_s(edge, home, target))
        return found

    def _free_from(self, machine: int, nodes: int) -> float:
        missing = nodes
        for free_from, some in self._free[machine]:
            missing -= some
            if missing <= 0:
                return free_from
        return 0.0

    def _take(self, machine: int, until: float, nodes: int) -> None:
        """Occupy nodes of a machine until the time ``until``; the nodes that are free first are used."""
        model = self._model
        if model.unlimited[machine]:
            return
        number, capacity = model.class_of[machine], model.capacity[machine]
        free = self._free.get(machine)
        if capacity == 1:
            last = until if free is None else max(until, free[0][0])  # an attempt may wait for another one
            self._free[machine] = [(last, 1)]
            heappush(self._used.setdefault(number, []), (last, machine))
            return
        if free is None:
            free = [(0.0, capacity)]
            self._wide.setdefault(number, []).append(machine)
        missing = nodes
        left = [(until, nodes)]
        for free_from, some in free:
            taken = min(missing, some)
            missing -= taken
            if some > taken:
                left.append((free_from, some - taken))
        left.sort()
        self._free[machine] = left
