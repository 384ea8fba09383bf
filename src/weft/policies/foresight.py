"""Foresight: when a run would end if from now on it had the whole platform to itself.

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
from math import inf

from weft.policies.outlook import Outlook, outlook_of
from weft.policies.policy import RunningView, RunView, View
from weft.policies.rest import Free, rest_end_s
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["Foresight"]

_MOST_PLACED = 256
"""Tasks of a run that are placed one by one."""

_MOST_REMEMBERED = 4_000
"""Answers that are remembered per instance."""


class Foresight:
    """Looks ahead at one moment; what of a run is placed after it was asked for is not seen."""

    def __init__(self, view: View) -> None:
        self._now = view.now
        self._beliefs = view.beliefs
        self._view = view
        self._attempts: dict[int, Sequence[RunningView]] = {}
        """Per run that was asked for: what it had on machines then."""

    def left_s(self, run: RunView) -> float:
        """Estimate the seconds until the run would end; infinite if what is up cannot run what comes next."""
        outlook = outlook_of(run.instance, self._beliefs)
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


def _behind_s(outlook: Outlook, run: RunView, ahead: Iterable[int]) -> float:
    """Give the mean seconds of all that takes nodes but for these tasks, each counted once."""
    means = run.mean_seconds
    taken = sum(means[task] for task in dict.fromkeys(ahead) if outlook.kind[task] == COMPUTE)
    return max(0.0, run.computing_s - taken)


def _left_s(
    outlook: Outlook,
    run: RunView,
    tasks: Sequence[int],
    attempts: Sequence[RunningView],
    now: float,
    behind_s: float | None,
) -> float:
    """Place the first tasks; what is behind them, if anything, ends not before the last of these."""
    if outlook.plain:
        ends, free = _plainly_placed(outlook, run, tasks, attempts, now)
    else:
        ends, free = _Course(outlook, run).placed(tasks, attempts, now)
    last = max((ends[task] for task in tasks), default=0.0)
    if behind_s is None:
        return last
    last = max(last, *(ends[attempt.task] for attempt in attempts), 0.0)
    return max(last, rest_end_s(outlook, run, tasks, ends, free, behind_s))


def _plainly_placed(
    outlook: Outlook, run: RunView, tasks: Sequence[int], attempts: Iterable[RunningView], now: float
) -> tuple[Mapping[int, float], Free]:
    """Do what a course does where no data move and machines have one node: several times as fast."""
    end: dict[int, float] = {}
    busy: dict[int, float] = {}
    for attempt in attempts:
        end[attempt.task] = left = max(0.0, attempt.expected_end_s - now)
        busy[attempt.machine] = max(left, busy.get(attempt.machine, 0.0))
    lines: Free = [[] for _ in outlook.members]
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


class _Arrivals:
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


class _Course:
    """One look ahead: what the run has on which machine."""

    def __init__(self, outlook: Outlook, run: RunView) -> None:
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
        self, tasks: Sequence[int], attempts: Iterable[RunningView], now: float
    ) -> tuple[Mapping[int, float], Free]:
        """Place tasks one after the other; give their ends, and when the nodes they use are free."""
        for attempt in attempts:
            left = max(0.0, attempt.expected_end_s - now)
            self._take(attempt.machine, left, attempt.nodes)
            self._end[attempt.task] = (left, attempt.machine)
        for task in tasks:
            if task not in self._end:
                self._place(task)
        free: Free = [[] for _ in self._outlook.members]
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

    def _arrivals(self, task: int, number: int) -> _Arrivals:
        """Say when the data of all predecessors are on machines of a class."""
        edge_s, members, found = self._run.instance.edge_s, self._outlook.members[number], _Arrivals()
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
