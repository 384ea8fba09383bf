"""The tasks of a run that may go, in an order that its plan gives (``indexes.turn`` goes through them).

They are kept apart by class: what tasks share by their kind (``ReadyTasks``), their seconds, and the machine
and count that are planned for them. There are as many classes as kinds x machines, so nothing here goes
through all of them: of each class only its first task is listed, on one of three shelves, by kind.

The ready tasks of one run, in priority heaps by kind.

Tasks of one kind can run in the same modes on the same machines: if the first of them cannot be placed, none
can. So a policy looks at one task per kind, however many wait. Entries that are out of date (the task was
placed, or its key has changed) are dropped when they come to the top: every operation costs O(log n),
amortised.

Who follows a plan may ask for them by planned start as well (``indexes.planned``): that is kept from the
first question on.

A turn through the tasks of a run that may go, in the order of its plan.

The waiting tasks of a planned run that may be sent ahead: some of their data could already move.

The ready tasks that one policy decides about: a job may bring a selector of its own (S3 section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.indexes import ChangeLog, IndexSet, PartitionedIndexSet
from weft.engine.state.plan import RunPlan, invert_order

__all__ = [
    "EarlyTasks",
    "PlanCursor",
    "PlannedTasks",
    "ReadyTasks",
    "SelectedTasks",
    "SuitabilityTest",
    "TaskClass",
    "class_kind",
]


TaskClass = tuple[float, ...]
"""Kind by seconds, planned machine, planned count, kind (mode group, machine it is bound to, ...)."""

SuitabilityTest = Callable[[int, int, int], bool]
"""Says whether a machine and a count suit a task, by what it wants by now."""

_UNPLANNED, _NOWHERE = -1, -2
"""What stands for the home of a class whose tasks are not planned; of tasks that cannot run as planned."""


def class_kind(whole: TaskClass) -> TaskClass:
    """Give the kind of the tasks of a class."""
    return whole[3:]


class PlannedTasks:
    """Tasks by planned start, then index, those that are not planned last; or by rank, then in this order.

    Adding and removing cost O(1). A machine that goes or comes back costs O(classes planned there).
    """

    def __init__(
        self,
        plan: RunPlan,
        known: CompiledWorkflow,
        suits: SuitabilityTest | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> None:
        """Begin without tasks; those with another selector are not taken in."""
        self.plan = plan
        self.by_rank = by_rank
        self.selector = selector
        self._compiled = known
        self._suits = suits
        self._choosing = bool(known.selectors or selector)
        self.ordered, self.place = plan.places
        if by_rank:
            self.ordered = sorted(self.ordered, key=lambda task: -known.ranks[task])
            self.place = invert_order(self.ordered)
        self.alike = known.seconds_kinds is not None and known.simple
        """Whether tasks of one class would end at the same time wherever they were sent."""
        self.even = known.even
        """Whether tasks of one kind need the same to be free."""
        self.places = IndexSet()
        """The places of all tasks."""
        self.classes: dict[TaskClass, IndexSet] = {}
        """The places of the tasks of each class."""
        self.kind: dict[int, TaskClass] = {}
        """Per task: its class."""
        self.since: dict[int, int] = {}
        """Per task: how many had come before it."""
        self.came = 0
        self.added = 0
        """How often a task has come or changed its class, or a class its shelf."""
        self.standing, self.unplanned, self.stranded = (
            PartitionedIndexSet(),
            PartitionedIndexSet(),
            PartitionedIndexSet(),
        )
        """The first places of classes by kind: that can run as planned, without a plan, and whose planned
        machine cannot be used."""
        self.homes: dict[int, dict[TaskClass, None]] = {}
        """The classes that are planned on each machine, or whose home something else stands for."""
        self._home: dict[TaskClass, int] = {}
        self._lost: set[int] = set()
        """Homes that cannot be used."""
        self._unsure: list[int] = []
        """Homes of which nobody has asked yet whether they can be used."""
        self.stirs = 0
        """How often something has changed that may let a task go home."""
        self._stirred: dict[int, int] = {}
        """By home: when this was; homes that are not here have nobody who could go there."""
        self._heard = 0

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Take in a task that may go from now on, or whose kind has changed."""
        if self._choosing and self._compiled.selector(task) != self.selector:
            return
        whole, before = self._class_of(task, kind), self.kind.get(task)
        if before == whole:
            return
        if before is None:
            self.since[task] = self.came
            self.came += 1
        else:
            self._take_out(task, before)
        self.kind[task] = whole
        self.added += 1
        place, marks = self.place[task], self.classes.get(whole)
        if marks is None:
            marks = self.classes[whole] = IndexSet()
            self._settle_in(task, whole)
        first = marks.first
        marks.add(place)
        self.places.add(place)
        self._led_anew(whole, first, marks.first)

    def remove(self, task: int) -> None:
        """Forget a task."""
        whole = self.kind.pop(task, None)
        if whole is not None:
            del self.since[task]
            self._take_out(task, whole)

    def _take_out(self, task: int, whole: TaskClass) -> None:
        place, marks = self.place[task], self.classes[whole]
        first = marks.first
        marks.remove(place)
        self.places.remove(place)
        self._led_anew(whole, first, marks.first)
        if marks.first is None:
            self._move_out(whole)

    def _class_of(self, task: int, kind: tuple[int, ...]) -> TaskClass:
        line, seconds = self.plan.line.get(task), self._compiled.seconds_kinds
        planned = (-1, -1) if line is None else (line.machine, line.count)
        return (-1 if seconds is None else seconds[task], *planned, *kind)

    def _home_of(self, task: int, whole: TaskClass) -> int:
        """Give the machine a class is planned on, if its tasks can run there whenever it can be used."""
        machine, count, group, bound = (int(each) for each in whole[1:5])
        if machine < 0:
            return _UNPLANNED
        if group < -1:  # it wants something else than at first
            possible = self._suits is None or self._suits(task, machine, count)
        else:
            possible = group < 0 or (machine, count) in self._compiled.options(task).nodes
        return machine if possible and bound in (-1, machine) else _NOWHERE

    def _settle_in(self, task: int, whole: TaskClass) -> None:
        """Find the home of a new class."""
        home = self._home[whole] = self._home_of(task, whole)
        if home not in self.homes and home >= 0:
            self._unsure.append(home)
        self.homes.setdefault(home, {})[whole] = None

    def _move_out(self, whole: TaskClass) -> None:
        """Forget a class without tasks."""
        home = self._home.pop(whole)
        del self.classes[whole], self.homes[home][whole]
        if not self.homes[home]:
            del self.homes[home]

    def _led_anew(self, whole: TaskClass, before: int | None, after: int | None) -> None:
        """Note that other tasks than before are in a class, and which was and is its first; None: none."""
        home = self._home[whole]
        if before != after:
            self._shelf(home).change(class_kind(whole), before, after)
        self.stirs += 1
        if home >= 0:
            self._stirred[home] = self.stirs

    def _shelf(self, home: int) -> PartitionedIndexSet:
        if home == _UNPLANNED:
            return self.unplanned
        return self.stranded if home == _NOWHERE or home in self._lost else self.standing

    def refresh(self, changes: ChangeLog, is_usable: Callable[[int], bool]) -> None:
        """Look at the machines on which something has changed since the last time."""
        looked_at: Iterable[int] = self._unsure
        if self._heard != changes.count:
            looked_at = [*self._unsure, *changes.since(self._heard)]
        self.stirs += 1
        for machine in looked_at:
            if machine not in self.homes:
                self._lost.discard(machine)  # it is asked about when the next task is planned there
                continue
            self._stirred[machine] = self.stirs
            if is_usable(machine) == (machine in self._lost):
                self._change_shelf(machine)
        self._unsure, self._heard = [], changes.count

    def _change_shelf(self, home: int) -> None:
        """Put all that are planned on a machine where they belong, now that it can be used, or cannot."""
        before = self._shelf(home)
        self._lost ^= {home}
        after = self._shelf(home)
        self.added += 1
        for whole in self.homes[home]:
            first = self.classes[whole].first
            before.change(class_kind(whole), first, None)
            after.change(class_kind(whole), None, first)

    def open_homes(self, is_free: Callable[[int], bool]) -> list[int]:
        """List the machines that are free, and on which somebody is planned who may be able to go there.

        O(machines that have changed since the last question, or were listed then).
        """
        found = []
        for home in list(self._stirred):
            if home in self.homes and home not in self._lost and is_free(home):
                found.append(home)
            else:
                del self._stirred[home]
        return found

    def settle(self, homes: Iterable[int], stirs: int) -> None:
        """Hear that nobody can go to some machines; this holds until something changes there.

        ``stirs``: when this was asked. Where tasks of one class take different amounts not all were asked.
        """
        for home in homes if self.even else ():
            if self._stirred.get(home, stirs + 1) <= stirs:
                del self._stirred[home]


_TaskKind = tuple[int, ...]

_MOVING, _OPEN = -2, -1
"""Where kinds of transfers are listed, and those that are bound to no machine; the others by machine."""


class ReadyTasks:
    """Heaps of (key, task) by kind (mode group, machine it is bound to or -1)."""

    __slots__ = ("_heaps", "_kept", "_key_of", "_keys", "_kind_of", "_kinds", "_listed")

    def __init__(self, key_of: Callable[[int], float], kind_of: Callable[[int], _TaskKind]) -> None:
        self._key_of = key_of
        self._kind_of = kind_of
        self._heaps: dict[_TaskKind, list[tuple[float, int]]] = {}
        self._listed: dict[int, dict[_TaskKind, None]] = {}
        """The kinds by where their tasks may go."""
        self._keys: dict[int, float] = {}
        """The key of every ready task; an entry with another key is out of date."""
        self._kinds: dict[int, _TaskKind] = {}
        """The kind of every ready task; an entry among those of another is out of date. Its key may be the
        same: a task that was lost is ready again as before, but for the machine it must not go to."""
        self._kept: list[PlannedTasks] = []
        """What somebody has asked for: it hears of every task that comes and goes."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, task: int) -> bool:
        return task in self._keys

    def __iter__(self) -> Iterator[int]:
        return iter([task for _, task in sorted((key, task) for task, key in self._keys.items())])

    def add(self, task: int) -> None:
        """Take in a task that has become ready."""
        key = self._keys[task] = self._key_of(task)
        kind = self._kinds[task] = self._kind_of(task)
        for index in self._kept:
            index.add(task, kind)
        heap = self._heaps.get(kind)
        if heap is None:
            self._heaps[kind] = [(key, task)]
            self._listed.setdefault(_list_key(kind), {})[kind] = None
        else:
            heappush(heap, (key, task))

    def add_all(self, tasks: list[int]) -> None:
        """Take in many tasks at once, as at the start of a run: O(n)."""
        self._kept = []
        touched: dict[int, list[tuple[float, int]]] = {}
        for task in tasks:
            key = self._keys[task] = self._key_of(task)
            kind = self._kinds[task] = self._kind_of(task)
            heap = self._heaps.setdefault(kind, [])
            self._listed.setdefault(_list_key(kind), {})[kind] = None
            heap.append((key, task))
            touched[id(heap)] = heap
        for heap in touched.values():
            heapify(heap)

    def remove(self, task: int) -> None:
        """Forget a task; its entry goes when it comes to the top."""
        self._keys.pop(task, None)
        self._kinds.pop(task, None)
        for index in self._kept:
            index.remove(task)

    def changed(self, task: int) -> None:
        """Put a ready task in its new place: its key or its kind has changed."""
        if task in self._keys:
            self.add(task)

    def by_plan(
        self,
        plan: RunPlan,
        known: CompiledWorkflow,
        suits: SuitabilityTest | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> PlannedTasks:
        """Give those with a selector in the order of a plan, or by rank first; O(n log n) if it is new."""
        self._kept = [each for each in self._kept if each.plan is plan]
        for index in self._kept:
            if (index.by_rank, index.selector) == (by_rank, selector):
                return index
        index = PlannedTasks(plan, known, suits, by_rank=by_rank, selector=selector)
        for task in self._keys:
            index.add(task, self._kinds[task])
        self._kept.append(index)
        return index

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Give the first task of each kind, best first.

        ``machines``: no transfers, and of tasks that are bound to a machine only those bound to one of these.
        """
        if machines is None or (len(self._listed) == 1 and _OPEN in self._listed):
            return self._firsts(list(self._heaps))
        some, others = (
            (machines, self._listed) if len(machines) < len(self._listed) else (self._listed, machines)
        )
        places = [_OPEN, *(place for place in some if place >= 0 and place in others)]
        return self._firsts([kind for place in places for kind in self._listed.get(place, ())])

    def transfers(self) -> list[int]:
        """Give the first transfer of each kind, best first."""
        return self._firsts(list(self._listed.get(_MOVING, ())))

    def _firsts(self, kinds: Iterable[_TaskKind]) -> list[int]:
        found = []
        for kind in kinds:
            heap = self._heaps[kind]
            self._clean(kind, heap)
            if heap:
                found.append(heap[0])
        if len(found) > 1:
            found.sort()
        return [task for _, task in found]

    def _clean(self, kind: _TaskKind, heap: list[tuple[float, int]]) -> None:
        keys, kinds = self._keys, self._kinds
        while heap:
            key, task = heap[0]
            if keys.get(task) == key and kinds[task] == kind:
                return
            heappop(heap)
        del self._heaps[kind]
        place = _list_key(kind)
        del self._listed[place][kind]
        if not self._listed[place]:
            del self._listed[place]


def _list_key(kind: _TaskKind) -> int:
    """Say where a kind is listed: only those of transfers have no mode group."""
    return _MOVING if kind[0] == -1 else kind[1]


_MAX_WAITING = 16
"""Tasks of one class that are looked at in one turn though those before them rather wait."""


_Exclusion = tuple[object, Container[object]]


@dataclass(frozen=True, slots=True)
class _CursorStream:
    """Places that are gone through, from the first on: of a shelf, in this of kinds, in these of classes."""

    marks: IndexSet
    opens: Callable[[TaskClass], None] | None = None
    """Opens that of which a place is the first; None: a place is that of a task."""
    outs: tuple[_Exclusion, ...] = ()
    """What its tasks share, each with what is left out of its like: the stream is over if it is there."""

    def is_over(self) -> bool:
        """Say whether nothing of it is to be looked at any more."""
        return any(shared in out for shared, out in self.outs)


class _BusyMachines:
    """The machines that are not free, as something that can be left out."""

    def __init__(self, is_free: Callable[[int], bool]) -> None:
        self.is_free = is_free

    def __contains__(self, home: object) -> bool:
        return isinstance(home, int) and not self.is_free(home)


class PlanCursor:
    """Goes once through the tasks that may go now, in their order.

    It begins in O(1) and changes nothing of the tasks, so several may be under way. It opens shelves, in
    these kinds, in these classes, each when its first task is reached: the next is found in O(log of what was
    looked at). When tasks come or change their class meanwhile, all is opened again.
    """

    def __init__(self, tasks: PlannedTasks, *, strict: bool = False) -> None:
        """Begin with the first; ``strict``: without those whose planned machine cannot be used."""
        self._tasks = tasks
        self._strict = strict
        self._came = tasks.came
        self._place = 0
        self._left_out: set[TaskClass] = set()
        self._kinds_out: set[TaskClass] = set()
        self._waiting: dict[TaskClass, int] = {}
        """Per class: how many of it rather wait."""
        self._busy: _BusyMachines | None = None
        self._open_homes: list[int] = []
        """In a hurry: the machines that were free when it began, at ``_stirs`` of the tasks."""
        self._stirs = 0
        self.alike = tasks.alike
        self.even = tasks.even
        self._begin()

    @property
    def waiting(self) -> int:
        """Count the classes of which some task rather waits."""
        return len(self._waiting)

    @property
    def hurried(self) -> bool:
        """Say whether those that are planned on busy machines are not looked at."""
        return self._busy is not None

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        place = self._tasks.places.next(self._place)
        while place is not None and not self._was_there(place):
            place = self._tasks.places.next(place + 1)
        return None if place is None else self._tasks.ordered[place]

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        if self._added != self._tasks.added:
            self._begin()
        heap = self._heap
        while heap:
            place, number, stream = heap[0]
            found = None if stream.is_over() else stream.marks.next(place)
            if found == place and stream.opens is None:
                if place >= self._place and self._was_there(place):
                    return self._tasks.ordered[place]
                found = stream.marks.next(max(place + 1, self._place))
            elif found == place and stream.opens is not None:
                stream.opens(self._tasks.kind[self._tasks.ordered[place]])
                found = stream.marks.next(place + 1)
            heappop(heap)  # what was opened stands behind it: its first place is the same
            if found is not None:
                heappush(heap, (found, number, stream))
        self._tasks.settle(self._open_homes, self._stirs)
        return None

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        self._place = self._tasks.place[task] + 1

    def let_wait(self, task: int) -> None:
        """Go on behind a task that rather waits; where many of its class do, leave out the others."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting[whole] = self._waiting.get(whole, 0) + 1
        if self._waiting[whole] >= _MAX_WAITING:
            self._left_out.add(whole)

    def leave_out(self, task: int) -> None:
        """Go on behind a task that rather waits, as all others of its class do: leave them out."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting.setdefault(whole, 1)
        self._left_out.add(whole)

    def leave_out_kind(self, task: int) -> None:
        """Go on behind a task that nothing can take, and leave out all others of its kind."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._left_out.add(whole)
        self._kinds_out.add(class_kind(whole))

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on look at a task that is planned on a machine only while that is free."""
        self._busy = _BusyMachines(is_free)
        self._begin()

    def _was_there(self, place: int) -> bool:
        """Say whether a task was there when the turn began."""
        return self._tasks.since[self._tasks.ordered[place]] < self._came

    def _begin(self) -> None:
        """Open the shelves; what was passed or left out before stays so."""
        tasks = self._tasks
        self._added = tasks.added
        self._heap: list[tuple[int, int, _CursorStream]] = []
        """(place, number, stream): where each stream has got to, or a place before that."""
        self._opened: set[IndexSet] = set()
        shelves = [tasks.unplanned] if self._strict else [tasks.unplanned, tasks.stranded]
        if self._busy is None:
            shelves.append(tasks.standing)
        else:
            self._stirs = tasks.stirs
            self._open_homes = tasks.open_homes(self._busy.is_free)
            for home in self._open_homes:
                for whole in tasks.homes.get(home, ()):
                    self._open_class(whole, (home, self._busy))
        for shelf in shelves:
            if shelf.firsts:
                self._open_shelf(shelf)

    def _open_shelf(self, shelf: PartitionedIndexSet) -> None:
        def open_class(whole: TaskClass) -> None:
            self._open_class(whole, (class_kind(whole), self._kinds_out))

        def open_kind(whole: TaskClass) -> None:
            kind = class_kind(whole)
            self._open(_CursorStream(shelf.of[kind], open_class, ((kind, self._kinds_out),)))

        self._open(_CursorStream(shelf.firsts, open_kind))

    def _open_class(self, whole: TaskClass, out: _Exclusion) -> None:
        self._open(_CursorStream(self._tasks.classes[whole], None, ((whole, self._left_out), out)))

    def _open(self, stream: _CursorStream) -> None:
        """Begin to go through a stream, unless this was done before."""
        place = stream.marks.next(self._place) if stream.opens is None else stream.marks.first
        if place is not None and stream.marks not in self._opened:
            self._opened.add(stream.marks)
            heappush(self._heap, (place, len(self._opened), stream))


class EarlyTasks:
    """Tasks in the order in which they came; from the first question on also by planned start."""

    __slots__ = ("_kind_of", "_planned", "_tasks")

    def __init__(self, kind_of: Callable[[int], tuple[int, ...]]) -> None:
        self._kind_of = kind_of
        self._tasks: dict[int, None] = {}
        self._planned: PlannedTasks | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task: int) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[int]:
        return iter(self._tasks)

    def add(self, task: int) -> None:
        """Take in a task; one that is there already stays where it is, with the kind it has by now."""
        self._tasks[task] = None
        if self._planned is not None:
            self._planned.add(task, self._kind_of(task))

    def discard(self, task: int) -> None:
        """Take out a task, if it is there."""
        if task in self._tasks:
            del self._tasks[task]
            if self._planned is not None:
                self._planned.remove(task)

    def changed(self, task: int) -> None:
        """Hear that the kind of a task has changed."""
        if task in self._tasks:
            self.add(task)

    def by_plan(
        self,
        plan: RunPlan,
        known: CompiledWorkflow,
        suits: SuitabilityTest | None = None,
        *,
        selector: str = "",
    ) -> PlannedTasks:
        """Give those with a selector in the order of a plan; O(n) when the plan is new."""
        kept = self._planned
        if kept is None or kept.plan is not plan or kept.selector != selector:
            kept = self._planned = PlannedTasks(plan, known, suits, selector=selector)
            for task in self._tasks:
                kept.add(task, self._kind_of(task))
        return kept


class SelectedTasks:
    """A part of the ready tasks. Tasks of one kind belong to it together, or none of them does."""

    __slots__ = ("_belongs", "_ready")

    def __init__(self, ready: ReadyTasks, belongs: Callable[[int], bool]) -> None:
        self._ready = ready
        self._belongs = belongs

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self.heads())

    def __iter__(self) -> Iterator[int]:
        return (task for task in self._ready if self._belongs(task))

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Give the first task of each kind, best first."""
        return [task for task in self._ready.heads(machines) if self._belongs(task)]

    def transfers(self) -> list[int]:
        """Give the first transfer of each kind, best first."""
        return [task for task in self._ready.transfers() if self._belongs(task)]
