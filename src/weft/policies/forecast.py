"""The outlook of an instance: its tasks and modes in a form that is quick to read, machines in classes.

Machines are alike for an instance when they have the same seconds for all its tasks, as many nodes, the same
place in the network (where data move), and are believed to be equally fast. O(v + e + modes) once per
instance, O(machines) whenever something else is believed of one of them.

The rest of a long workflow: when it would end, guessed without looking at its tasks.

``foresight.py`` places the first unfinished tasks of a run one by one. What lies behind them is known by its
mean seconds only (``RunView.computing_s``), and ends not before

- these seconds have filled the nodes that are up, like water, from when each is free behind what was placed;
- any task that was placed has ended and the longest way behind it is gone: its upward rank without itself.

Mean seconds say little of machines that are unlike, down, or believed to be slow. They are translated by a
sample of the tasks that were placed: how many mean seconds a node of a class of machines does in a second,
and what a task takes where it is fastest compared to its mean.

Ours: the paper's workflows are short. On 720 random graphs of layers the guess was 0.58 to 2.59 times what
placing everything gives, in all but one within a factor of two; it is worst where data are large, tasks take
several nodes and machines are very unlike, for it sees no data that move behind.

O(tasks placed x classes of machines + machines they use).

Foresight: when a run would end if from now on it had the whole platform to itself.

The forward estimate that FOFT needs (S5 section 3: R. Bolze, F. Desprez, B. Isnard, Evaluation of Online
Multi-Workflow Heuristics based on List-Scheduling Algorithms): what of the run has an attempt keeps its
machine until that is expected to end; the other tasks are placed in the order of their upward ranks, each
where it ends first, behind what was placed there before. No other run counts.

Everything is reckoned in seconds from now, so that the answer for a run without attempts depends only on its
instance, its unfinished tasks and what is believed of the machines: it is remembered until one of these
changes, and runs of one workflow share it.

Deviations, this being an estimate: of a machine's node counts the fastest is taken, amounts of resources do
not count, an explicit transfer takes its mean time, and data of completed tasks begin to move now. Nothing is
put into gaps. Ties go to the machine that is free first, then to the one of the lowest index; so of machines
of one node that are alike only the first that is free has to be looked at, and those with the task's data.

Of a long workflow only the first 256 unfinished tasks are placed one by one, and only the first 256 attempts
are looked at; what lies behind them is guessed from its mean seconds (``rest.py``). To place all of it would
cost O(tasks) at every event, and where a task far behind goes changes with every second anyway. The workflows
of the paper have 6 to 17 tasks: for them, and for all that have no more than 256 left, this is the estimate
it asks for.

So it costs O(c) per task that is placed and per edge to it, with c the classes of machines, however many wait
behind; of machines of many nodes all are looked at that the run uses. A workflow that has no rival is
not asked for (``rounds.py``).
"""

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

__all__ = [
    "ClassMode",
    "FinishForecast",
    "ForecastModel",
    "FreeNodes",
    "SpeedFactors",
    "forecast_model",
    "remaining_end_s",
]


SpeedFactors = tuple[float, ...]
"""Per machine: its believed speed factor; 0: it is down."""

ClassMode = tuple[int, float, int]
"""A class of machines, the seconds of the fastest count there, the nodes it takes."""

_models: WeakKeyDictionary[Instance, ForecastModel] = WeakKeyDictionary()


def forecast_model(instance: Instance, beliefs: SpeedFactors) -> ForecastModel:
    """Give the outlook of an instance under what is believed now; it is kept while the beliefs stay."""
    found = _models.get(instance)
    if found is None:
        found = _models[instance] = ForecastModel(instance)
    found.believe(beliefs)
    return found


class ForecastModel:
    """What a look ahead reads of an instance."""

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
        self.before = [before[start:end] for start, end in pairwise(pointer)]
        """Per task: its predecessors; their edges follow each other from ``first_edge`` on."""
        self.first_edge: list[int] = pointer
        self.kind: list[int] = graph.kind.tolist()
        self.variable: list[int] = graph.variable.tolist()
        members = np.bincount(graph.variable, minlength=len(graph.variables))
        self.shared: list[bool] = (members > 1).tolist()
        """Per binding variable: whether several tasks name it."""
        self.moves_data = bool((graph.edge_bytes + graph.edge_files + graph.edge_seconds).any())
        self.looks_back = self.moves_data or any(self.shared) or bool(instance.pinned)
        """Whether it matters where tasks were that have ended."""
        self.unlimited: list[bool] = instance.unlimited.tolist()
        self.capacity: list[int] = instance.capacity.tolist()
        self.plain = not (self.looks_back or any(self.unlimited)) and set(self.capacity) == {1}
        """Whether all that matters of a machine is its class and when it is free."""
        self.class_of: list[int] = []
        """Per machine; -1: it is down."""
        self.members: list[list[int]] = []
        """Per class: its machines, ascending."""
        self.remembered: dict[tuple[tuple[int, ...], float | None], float] = {}
        """Answers that hold as long as the beliefs do, by the first unfinished tasks and what is behind."""
        self._modes = {group: _rows(instance, group) for group in range(len(instance.groups))}
        self._group: list[int] = instance.group.tolist()
        self._seconds = instance.seconds
        self._stated = _stated_classes(instance, with_places=self.moves_data)
        self._beliefs: SpeedFactors | None = None
        self._firsts: dict[int, list[tuple[int, int, int, int]]] = {}
        """Per group: class, machine, count and nodes of the modes on the first machine of each class."""
        self._choices: dict[int, list[ClassMode]] = {}

    def believe(self, beliefs: SpeedFactors) -> None:
        """Sort the machines into classes, if anything is believed that was not before."""
        if beliefs is self._beliefs or beliefs == self._beliefs:
            return
        numbers: dict[tuple[int, float], int] = {}
        self.class_of, self.members = [], []
        for machine, (stated, factor) in enumerate(zip(self._stated, beliefs, strict=True)):
            number = numbers.setdefault((stated, factor), len(numbers)) if factor > 0.0 else -1
            self.class_of.append(number)
            if number == len(self.members):
                self.members.append([])
            if number >= 0:
                self.members[number].append(machine)
        self._beliefs = beliefs
        self._firsts.clear()
        self._choices.clear()
        self.remembered.clear()

    def choices(self, task: int) -> list[ClassMode]:
        """Give the fastest mode of a compute task on each class of machines that can run it."""
        found = self._choices.get(task)
        if found is None:
            assert self._beliefs is not None
            best: dict[int, ClassMode] = {}
            for number, machine, count, nodes in self._first_modes(self._group[task]):
                taken = self._seconds.at(task, machine, count) / self._beliefs[machine]
                if number not in best or taken < best[number][1]:
                    best[number] = (number, taken, nodes)
            found = self._choices[task] = list(best.values())
        return found

    def _first_modes(self, group: int) -> list[tuple[int, int, int, int]]:
        """List the modes of a group on the first machine of each class; O(modes) when beliefs are new."""
        found = self._firsts.get(group)
        if found is None:
            first: dict[int, int] = {}
            found = self._firsts[group] = [
                (number, machine, count, nodes)
                for machine, count, nodes in self._modes[group]
                if (number := self.class_of[machine]) >= 0 and first.setdefault(number, machine) == machine
            ]
        return found


def _stated_classes(instance: Instance, *, with_places: bool) -> list[int]:
    """Number the machines by what the platform says of them, as far as the tasks can tell."""
    network = instance.network
    alone = np.bincount(network.host)[network.host] == 1
    features: list[list[object]] = [
        [int(capacity), bool(unlimited)]
        for capacity, unlimited in zip(instance.capacity, instance.unlimited, strict=True)
    ]
    if with_places:
        # Between machines on one host nothing needs to move: such a host is a place of its own.
        places = np.where(alone, network.location.astype(np.int64), -1 - network.host.astype(np.int64))
        for feature, place in zip(features, places.tolist(), strict=True):
            feature.append(place)
    for number, group in enumerate(instance.groups):
        # In these layouts what is alike for one task of a group is so for all.
        like = isinstance(instance.seconds, RelatedSeconds | ClassSeconds)
        seconds = group.seconds_of(group.tasks[:1] if like else group.tasks)
        for column, machine in enumerate(group.machine.tolist()):
            features[machine].append((number, int(group.count[column]), seconds[:, column].tobytes()))
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(tuple(feature), len(numbers)) for feature in features]


def _rows(instance: Instance, group: int) -> list[tuple[int, int, int]]:
    """List the modes of a group: machine, count, nodes."""
    modes = instance.groups[group]
    return list(zip(modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), strict=True))


_SAMPLE = 64
"""Tasks by which mean seconds are translated, at most."""

FreeNodes = list[list[tuple[float, int]]]
"""Per class of machines: (free from, so many nodes) of those that a run uses."""


def remaining_end_s(
    outlook: ForecastModel,
    run: RunView,
    placed: Sequence[int],
    ends: Mapping[int, float],
    free: FreeNodes,
    left_s: float,
) -> float:
    """Estimate when the rest would end, of which so many mean seconds are left, in seconds from now."""
    means, ranks = run.mean_seconds, run.ranks
    some = placed[:: 1 + len(placed) // _SAMPLE]
    sample = [task for task in some if outlook.kind[task] == COMPUTE and outlook.choices(task)]
    mean_s = sum(means[task] for task in sample)
    fastest_s = sum(min(seconds for _, seconds, _ in outlook.choices(task)) for task in sample)
    pace = fastest_s / mean_s if mean_s > 0.0 else 1.0
    longest = max(ends[task] + pace * (ranks[task] - means[task]) for task in placed)
    return max(longest, _level_s(outlook, _rates(outlook, means, sample), free, left_s))


def _rates(outlook: ForecastModel, means: Sequence[float], sample: Sequence[int]) -> list[float]:
    """Give per class of machines: the mean seconds of work that a node does in a second."""
    work, spent = ([0.0] * len(outlook.members) for _ in range(2))
    for task in sample:
        for number, seconds, nodes in outlook.choices(task):
            work[number] += means[task]
            spent[number] += seconds * nodes
    return [done / taken if taken > 0.0 else 0.0 for done, taken in zip(work, spent, strict=True)]


def _level_s(outlook: ForecastModel, rates: Sequence[float], free: FreeNodes, left_s: float) -> float:
    """Fill the nodes with work from when they are free; give the level they are filled to."""
    steps: list[tuple[float, float]] = []
    for members, rate, used in zip(outlook.members, rates, free, strict=True):
        if rate > 0.0 and outlook.unlimited[members[0]]:
            return 0.0
        nodes = len(members) * outlook.capacity[members[0]] - sum(some for _, some in used)
        steps += [(free_from, some * rate) for free_from, some in [(0.0, nodes), *used]]
    level = speed = 0.0
    for free_from, gain in sorted(steps):
        if (free_from - level) * speed >= left_s:
            break
        left_s -= (free_from - level) * speed
        level, speed = free_from, speed + gain
    return level + left_s / speed if speed > 0.0 else 0.0


_MOST_PLACED = 256
"""Tasks of a run that are placed one by one."""

_MOST_REMEMBERED = 4_000
"""Answers that are remembered per instance."""


class FinishForecast:
    """Looks ahead at one moment; what of a run is placed after it was asked for is not seen."""

    def __init__(self, view: View) -> None:
        self._now = view.now
        self._beliefs = view.beliefs
        self._view = view
        self._attempts: dict[int, Sequence[AttemptView]] = {}
        """Per run that was asked for: what it had on machines then."""

    def left_s(self, run: RunView) -> float:
        """Estimate the seconds until the run would end; infinite if what is up cannot run what comes next."""
        outlook = forecast_model(run.instance, self._beliefs)
        attempts = self._attempts.get(run.index)
        if attempts is None:
            attempts = self._attempts[run.index] = self._view.attempts_of(run, _MOST_PLACED)
        tasks, behind_s = tuple(run.first_unfinished(_MOST_PLACED + 1)), None
        if len(tasks) > _MOST_PLACED:
            tasks = tasks[:_MOST_PLACED]
            behind_s = _behind_s(outlook, run, [*tasks, *(attempt.task for attempt in attempts)])
        if attempts or outlook.looks_back:
            return _left_s(outlook, run, tasks, attempts, self._now, behind_s)
        key, remembered = (tasks, behind_s), outlook.remembered
        found = remembered.get(key)
        if found is None:
            if len(remembered) >= _MOST_REMEMBERED:
                remembered.clear()
            found = remembered[key] = _left_s(outlook, run, tasks, (), self._now, behind_s)
        return found


def _behind_s(outlook: ForecastModel, run: RunView, ahead: Iterable[int]) -> float:
    """Give the mean seconds of all that takes nodes but for these tasks, each counted once."""
    means = run.mean_seconds
    taken = sum(means[task] for task in dict.fromkeys(ahead) if outlook.kind[task] == COMPUTE)
    return max(0.0, run.computing_s - taken)


def _left_s(
    outlook: ForecastModel,
    run: RunView,
    tasks: Sequence[int],
    attempts: Sequence[AttemptView],
    now: float,
    behind_s: float | None,
) -> float:
    """Place the first tasks; what is behind them, if anything, ends not before the last of these."""
    if outlook.plain:
        ends, free = _place_without_data(outlook, run, tasks, attempts, now)
    else:
        ends, free = _ForecastSchedule(outlook, run).placed(tasks, attempts, now)
    last = max((ends[task] for task in tasks), default=0.0)
    if behind_s is None:
        return last
    last = max(last, *(ends[attempt.task] for attempt in attempts), 0.0)
    return max(last, remaining_end_s(outlook, run, tasks, ends, free, behind_s))


def _place_without_data(
    outlook: ForecastModel, run: RunView, tasks: Sequence[int], attempts: Iterable[AttemptView], now: float
) -> tuple[Mapping[int, float], FreeNodes]:
    """Do what a course does where no data move and machines have one node: several times as fast."""
    end: dict[int, float] = {}
    busy: dict[int, float] = {}
    for attempt in attempts:
        end[attempt.task] = left = max(0.0, attempt.expected_end_s - now)
        busy[attempt.machine] = max(left, busy.get(attempt.machine, 0.0))
    lines: FreeNodes = [[] for _ in outlook.members]
    for machine, left in busy.items():
        if outlook.class_of[machine] >= 0:
            lines[outlook.class_of[machine]].append((left, machine))
    # Of the machines that are free from now on a line holds the first: they follow each other by index.
    unused = [(machine for machine in members if machine not in busy) for members in outlook.members]
    fresh = [next(machines, None) for machines in unused]
    for line, first in zip(lines, fresh, strict=True):
        line += [] if first is None else [(0.0, first)]
        heapify(line)
    for task in tasks:
        if task in end:
            continue
        ready = 0.0
        for other in outlook.before[task]:
            ready = max(ready, end.get(other, 0.0))
        if outlook.kind[task] != COMPUTE:
            end[task] = ready + (run.mean_seconds[task] if outlook.kind[task] == TRANSFER else 0.0)
            continue
        best, free_first, chosen = inf, (inf, 0), None
        for number, seconds, _ in outlook.choices(task):
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
    """When data are on machines that are alike: where some of them are, these need not come; O(1) each."""

    __slots__ = ("_anywhere", "_coming", "_there")

    def __init__(self) -> None:
        self._anywhere = 0.0
        """When the last is there whose home does not matter."""
        self._there: dict[int, float] = {}
        """By home: when the last of its data is there."""
        self._coming = [(-inf, -1), (-inf, -1)]
        """The two homes from which data come last to others: (when, home), the last first."""

    def note(self, home: int | None, there_s: float, coming_s: float) -> None:
        """Take in when the data of one predecessor are at home, and on any other machine."""
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
        """Say when everything is on a machine."""
        last, second = self._coming
        coming_s = second[0] if machine == last[1] else last[0]
        return max(self._anywhere, coming_s, self._there.get(machine, 0.0))


class _ForecastSchedule:
    """One look ahead: what the run has on which machine."""

    def __init__(self, outlook: ForecastModel, run: RunView) -> None:
        self._outlook = outlook
        self._run = run
        self._free: dict[int, list[tuple[float, int]]] = {}
        """Per machine the run uses: (free from, so many nodes), ascending."""
        self._used: dict[int, list[tuple[float, int]]] = {}
        """Per class of machines with one node: a heap of those the run uses (free from, machine); what is out
        of date goes when it comes to the top."""
        self._wide: dict[int, list[int]] = {}
        """Per class of machines with several nodes: those the run uses."""
        self._passed: dict[int, int] = {}
        """Per class: how many of its machines, from the first on, are in use."""
        self._end: dict[int, tuple[float, int | None]] = {}
        """Per task: when it ends and where; None: it does not matter."""
        self._bound: dict[int, int] = {}
        """The abstract machines that were bound on the way."""

    def placed(
        self, tasks: Sequence[int], attempts: Iterable[AttemptView], now: float
    ) -> tuple[Mapping[int, float], FreeNodes]:
        """Place tasks one after the other; give their ends, and when the nodes they use are free."""
        for attempt in attempts:
            left = max(0.0, attempt.expected_end_s - now)
            self._take(attempt.machine, left, attempt.nodes)
            self._end[attempt.task] = (left, attempt.machine)
        for task in tasks:
            if task not in self._end:
                self._place(task)
        free: FreeNodes = [[] for _ in self._outlook.members]
        for machine, steps in self._free.items():
            if self._outlook.class_of[machine] >= 0:
                free[self._outlook.class_of[machine]] += steps
        return {task: end for task, (end, _) in self._end.items()}, free

    def _place(self, task: int) -> None:
        outlook = self._outlook
        ready = 0.0
        for other in outlook.before[task]:
            if other not in self._end:  # it has ended before now
                self._end[other] = (0.0, self._run.where(other) if outlook.looks_back else None)
            ready = max(ready, self._end[other][0])
        kind = outlook.kind[task]
        if kind != COMPUTE:
            moving = self._run.mean_seconds[task] if kind == TRANSFER else 0.0
            self._end[task] = (ready + moving, None)
            return
        finish, _, machine, nodes = min(self._ways(task, ready), default=(inf, inf, None, 0))
        if machine is not None:
            self._take(machine, finish, nodes)
            variable = outlook.variable[task]
            if outlook.shared[variable]:
                self._bound[variable] = machine
        self._end[task] = (finish, machine)

    def _ways(self, task: int, ready: float) -> Iterator[tuple[float, float, int, int]]:
        """Give the ways that can be the best: finish, when nodes are free, machine, nodes."""
        outlook = self._outlook
        only, homes = self._only(task), self._homes(task)
        for number, seconds, nodes in outlook.choices(task):
            if only is None:
                machines = self._worth(number, nodes, homes)
            else:
                machines = [only] if outlook.class_of[only] == number else []
            arrivals = self._arrivals(task, number) if outlook.moves_data and machines else None
            for machine in machines:
                arrival = ready if arrivals is None else arrivals.on(machine)
                free_from = self._free_from(machine, nodes) if machine in self._free else 0.0
                yield max(arrival, free_from) + seconds, free_from, machine, nodes

    def _only(self, task: int) -> int | None:
        if not self._outlook.looks_back:
            return None
        bound = self._bound.get(self._outlook.variable[task])
        return self._run.bound(task) if bound is None else bound

    def _homes(self, task: int) -> Collection[int]:
        """Give the machines that have some of a task's data."""
        if not self._outlook.moves_data:
            return ()
        homes = (self._end[other][1] for other in self._outlook.before[task])
        return {home: None for home in homes if home is not None}

    def _worth(self, number: int, nodes: int, homes: Collection[int]) -> list[int]:
        """List the machines of a class that can be the best for a task.

        Of those without its data, which come there at the same time, it is the one that is free first.
        """
        outlook = self._outlook
        found = [home for home in homes if outlook.class_of[home] == number]
        wide = (
            (self._free_from(each, nodes), each) for each in self._wide.get(number, ()) if each not in homes
        )
        first = min(wide, default=None)
        if first is not None:
            found.append(first[1])
        used = self._used.get(number)
        if used is not None:
            while self._free[used[0][1]][0][0] != used[0][0]:
                heappop(used)
            found.append(used[0][1])
        members, passed = outlook.members[number], self._passed.get(number, 0)
        while passed < len(members) and members[passed] in self._free:
            passed += 1
        self._passed[number] = passed
        if passed < len(members):
            found.append(members[passed])
        return found

    def _arrivals(self, task: int, number: int) -> _DataArrivals:
        """Say when the data of all predecessors are on machines of a class."""
        edge_s, members, found = self._run.instance.edge_s, self._outlook.members[number], _DataArrivals()
        first = self._outlook.first_edge[task]
        for edge, other in enumerate(self._outlook.before[task], start=first):
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
        """Take the nodes that are free first; they are free again at the end."""
        outlook = self._outlook
        if outlook.unlimited[machine]:
            return
        number, capacity = outlook.class_of[machine], outlook.capacity[machine]
        free = self._free.get(machine)
        if capacity == 1:
            last = until if free is None else max(until, free[0][0])  # attempts may wait for each other
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
