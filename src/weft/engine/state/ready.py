"""Tasks that may be placed: ready tasks by priority or plan, and waiting tasks that may be assigned early.

``ReadyTasks`` keeps one heap per kind. Tasks of one kind can run in the same modes on the same machines: if
the first of them cannot be placed, none can, so a policy examines one task per kind. Stale entries (the task
was placed, or its key changed) are removed when they reach the top: O(log n) amortised per operation.

``PlannedTasks`` keeps the tasks in the order of a plan, grouped by class (kind, seconds, planned machine and
count). There are up to kinds x machines classes; only the first task of each class is listed, in one of three
partitions by kind. ``PlanCursor`` traverses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from heapq import heapify, heappop, heappush

from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.indexes import ChangeLog, IndexSet, PartitionedIndexSet
from weft.engine.state.plan import RunPlan, invert_order
from weft.records import dataclass

_TaskClass = tuple[float, ...]
"""Key of a class of tasks: (number for the seconds, planned machine, planned count, kind...).

Tasks with equal seconds have equal numbers (``seconds_kinds``). The elements of the kind
(``RunState.kind_of``) follow one by one, beginning with the mode group and the bound machine.
"""

_SuitabilityTest = Callable[[int, int, int], bool]
"""Returns whether a machine and a node count meet the current requirements of a task."""

_UNPLANNED, _NOWHERE = -1, -2
"""Values used in place of a planned machine.

``_UNPLANNED``: the tasks are not in the plan. ``_NOWHERE``: they cannot run on their planned machine.
"""


def _class_kind(whole: _TaskClass) -> _TaskClass:
    """Return the kind of the tasks of a class, which is the last part of the key of the class."""
    return whole[3:]


class PlannedTasks:
    """Tasks sorted by planned start, then index; unplanned tasks come last.

    If ``by_rank`` is true, the tasks are sorted by upward rank first. Add and remove cost O(1). A machine
    that goes down or comes back costs O(classes planned there).
    """

    def __init__(
        self,
        plan: RunPlan,
        compiled: CompiledWorkflow,
        suits: _SuitabilityTest | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> None:
        """Create an empty index; ``add`` ignores tasks with another selector."""
        self.plan = plan
        self.by_rank = by_rank
        self.selector = selector
        self._compiled = compiled
        self._suits = suits
        self._choosing = bool(compiled.selectors or selector)
        self.ordered, self.place = plan.places
        if by_rank:
            self.ordered = sorted(self.ordered, key=lambda task: -compiled.ranks[task])
            self.place = invert_order(self.ordered)
        self.alike = compiled.seconds_kinds is not None and compiled.simple
        """Whether tasks of one class end at the same time on the same machine."""
        self.even = compiled.even
        """Whether all tasks of a kind need the same free capacity."""
        self.places = IndexSet()
        """Positions of all tasks in ``ordered``."""
        self.classes: dict[_TaskClass, IndexSet] = {}
        """Positions of the tasks of each class."""
        self.kind: dict[int, _TaskClass] = {}
        """The class of each task."""
        self.since: dict[int, int] = {}
        """By task: the number of tasks that were added before it."""
        self.came = 0
        """Number of tasks added so far."""
        self.added = 0
        """Incremented when a task is added or changes its class, and when classes change partition."""
        self.standing, self.unplanned, self.stranded = (PartitionedIndexSet() for _ in range(3))
        """First positions of the classes, by kind, in three partitions.

        ``standing``: the planned machine is usable. ``unplanned``: the tasks are not in the plan.
        ``stranded``: the planned machine is not usable, or the tasks cannot run on it.
        """
        self.homes: dict[int, dict[_TaskClass, None]] = {}
        """Classes by home: the planned machine, ``_UNPLANNED`` or ``_NOWHERE``."""
        self._home: dict[_TaskClass, int] = {}
        self._lost: set[int] = set()
        """Planned machines that are not usable."""
        self._unchecked: list[int] = []
        """New planned machines whose usability was not checked yet."""
        self.revision = 0
        """Incremented with every change that may let a task start on its planned machine."""
        self._revised: dict[int, int] = {}
        """By machine: ``revision`` at its last change; no task can start on machines without an entry."""
        self._seen_changes = 0
        """``ChangeLog.count`` at the last call of ``refresh``."""

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Add a task, or move it to the class of its new kind."""
        if self._choosing and self._compiled.selector(task) != self.selector:
            return
        whole, before = self._class_of(task, kind), self.kind.get(task)
        if before == whole:
            return
        if before is None:
            self.since[task] = self.came
            self.came += 1
        else:
            self._remove_position(task, before)
        self.kind[task] = whole
        self.added += 1
        place, marks = self.place[task], self.classes.get(whole)
        if marks is None:
            marks = self.classes[whole] = IndexSet()
            self._add_class(task, whole)
        first = marks.first
        marks.add(place)
        self.places.add(place)
        self._update_first(whole, first, marks.first)

    def remove(self, task: int) -> None:
        """Remove a task."""
        if (whole := self.kind.pop(task, None)) is not None:
            del self.since[task]
            self._remove_position(task, whole)

    def _remove_position(self, task: int, whole: _TaskClass) -> None:
        place, marks = self.place[task], self.classes[whole]
        first = marks.first
        marks.remove(place)
        self.places.remove(place)
        self._update_first(whole, first, marks.first)
        if marks.first is None:
            self._remove_class(whole)

    def _class_of(self, task: int, kind: tuple[int, ...]) -> _TaskClass:
        line, seconds = self.plan.planned_tasks.get(task), self._compiled.seconds_kinds
        planned = (-1, -1) if line is None else (line.machine, line.count)
        return (-1 if seconds is None else seconds[task], *planned, *kind)

    def _home_of(self, task: int, whole: _TaskClass) -> int:
        """Return the planned machine of a class, _UNPLANNED, or _NOWHERE if its tasks cannot run there."""
        machine, count, group, bound = (int(each) for each in whole[1:5])
        if machine < 0:
            return _UNPLANNED
        if group < -1:  # its requirements have changed since the start
            possible = self._suits is None or self._suits(task, machine, count)
        else:
            possible = group < 0 or (machine, count) in self._compiled.options(task).nodes
        return machine if possible and bound in (-1, machine) else _NOWHERE

    def _add_class(self, task: int, whole: _TaskClass) -> None:
        """Record the home (planned machine) of a new class."""
        home = self._home[whole] = self._home_of(task, whole)
        if home not in self.homes and home >= 0:
            self._unchecked.append(home)
        self.homes.setdefault(home, {})[whole] = None

    def _remove_class(self, whole: _TaskClass) -> None:
        """Remove an empty class."""
        home = self._home.pop(whole)
        del self.classes[whole], self.homes[home][whole]
        if not self.homes[home]:
            del self.homes[home]

    def _update_first(self, whole: _TaskClass, before: int | None, after: int | None) -> None:
        """Update the partition after the first position of a class has changed from ``before`` to ``after``.

        None means that the class was or is empty.
        """
        home = self._home[whole]
        if before != after:
            self._partition(home).change(_class_kind(whole), before, after)
        self.revision += 1
        if home >= 0:
            self._revised[home] = self.revision

    def _partition(self, home: int) -> PartitionedIndexSet:
        if home == _UNPLANNED:
            return self.unplanned
        return self.stranded if home == _NOWHERE or home in self._lost else self.standing

    def refresh(self, changes: ChangeLog, is_usable: Callable[[int], bool]) -> None:
        """Update the classes planned on machines that have changed since the last call."""
        looked_at: Iterable[int] = self._unchecked
        if self._seen_changes != changes.count:
            looked_at = [*self._unchecked, *changes.since(self._seen_changes)]
        self.revision += 1
        for machine in looked_at:
            if machine not in self.homes:
                self._lost.discard(machine)  # checked again when the next task is planned there
                continue
            self._revised[machine] = self.revision
            if is_usable(machine) == (machine in self._lost):
                self._change_partition(machine)
        self._unchecked, self._seen_changes = [], changes.count

    def _change_partition(self, home: int) -> None:
        """Move all classes planned on a machine to the other partition because its usability changed."""
        before = self._partition(home)
        self._lost ^= {home}
        after = self._partition(home)
        self.added += 1
        for whole in self.homes[home]:
            first = self.classes[whole].first
            before.change(_class_kind(whole), first, None)
            after.change(_class_kind(whole), None, first)

    def open_homes(self, is_free: Callable[[int], bool]) -> list[int]:
        """Return the free machines on which a planned task may be able to start.

        O(machines changed since the last call or returned by it).
        """
        found = []
        for home in list(self._revised):
            if home in self.homes and home not in self._lost and is_free(home):
                found.append(home)
            else:
                del self._revised[home]
        return found

    def settle(self, homes: Iterable[int], revision: int) -> None:
        """Record that no task can start on the machines ``homes`` until these change.

        ``revision`` is the value of ``self.revision`` at the time of the search. Nothing is recorded if tasks
        of one kind differ in amounts, because not all of them were tried.
        """
        for home in homes if self.even else ():
            if self._revised.get(home, revision + 1) <= revision:
                del self._revised[home]


_TaskKind = tuple[int, ...]

_MOVING, _OPEN = -2, -1
"""Keys of ``ReadyTasks._listed`` for transfers and for kinds without a bound machine."""


class ReadyTasks:
    """Ready tasks in heaps of (priority key, task), one heap per kind.

    A kind is a tuple that begins with the mode group and the bound machine (-1: not bound).
    """

    __slots__ = ("_heaps", "_kept", "_key_of", "_keys", "_kind_of", "_kinds", "_listed")

    def __init__(self, key_of: Callable[[int], float], kind_of: Callable[[int], _TaskKind]) -> None:
        self._key_of = key_of
        self._kind_of = kind_of
        self._heaps: dict[_TaskKind, list[tuple[float, int]]] = {}
        self._listed: dict[int, dict[_TaskKind, None]] = {}
        """Kinds by bound machine; the key of transfers is ``_MOVING``, that of unbound kinds ``_OPEN``."""
        self._keys: dict[int, float] = {}
        """Priority key of every ready task; a heap entry with another key is stale."""
        self._kinds: dict[int, _TaskKind] = {}
        """Kind of every ready task. An entry in the heap of another kind is stale, even if its key is equal.

        For example, a task that was lost with its machine is ready again with the same key, but must avoid
        that machine.
        """
        self._kept: list[PlannedTasks] = []
        """Results of ``by_plan`` for the current plan; every change of a task updates them."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, task: int) -> bool:
        return task in self._keys

    def __iter__(self) -> Iterator[int]:
        return iter([task for _, task in sorted((key, task) for task, key in self._keys.items())])

    def add(self, task: int) -> None:
        """Add a ready task."""
        key = self._keys[task] = self._key_of(task)
        kind = self._kinds[task] = self._kind_of(task)
        for index in self._kept:
            index.add(task, kind)
        if (heap := self._heaps.get(kind)) is None:
            self._heaps[kind] = [(key, task)]
            self._listed.setdefault(_list_key(kind), {})[kind] = None
        else:
            heappush(heap, (key, task))

    def add_all(self, tasks: list[int]) -> None:
        """Add many tasks at once: O(n)."""
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
        """Remove a task; its heap entry becomes stale."""
        self._keys.pop(task, None)
        self._kinds.pop(task, None)
        for index in self._kept:
            index.remove(task)

    def changed(self, task: int) -> None:
        """Update a ready task whose key or kind has changed."""
        if task in self._keys:
            self.add(task)

    def by_plan(
        self,
        plan: RunPlan,
        compiled: CompiledWorkflow,
        suits: _SuitabilityTest | None = None,
        *,
        by_rank: bool = False,
        selector: str = "",
    ) -> PlannedTasks:
        """Return the ready tasks that have this selector, in the order of a plan.

        If ``by_rank`` is true, the tasks are sorted by upward rank first. O(n log n) for a new plan.
        """
        self._kept = [each for each in self._kept if each.plan is plan]
        for index in self._kept:
            if (index.by_rank, index.selector) == (by_rank, selector):
                return index
        index = PlannedTasks(plan, compiled, suits, by_rank=by_rank, selector=selector)
        for task in self._keys:
            index.add(task, self._kinds[task])
        self._kept.append(index)
        return index

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Return the first ready task of each kind, highest priority first.

        If ``machines`` is given, transfers are omitted, and so are tasks bound to a machine that is not among
        them.
        """
        if machines is None or (len(self._listed) == 1 and _OPEN in self._listed):
            return self._firsts(list(self._heaps))
        some, others = (
            (machines, self._listed) if len(machines) < len(self._listed) else (self._listed, machines)
        )
        places = [_OPEN, *(place for place in some if place >= 0 and place in others)]
        return self._firsts([kind for place in places for kind in self._listed.get(place, ())])

    def transfers(self) -> list[int]:
        """Return the first transfer of each kind, highest priority first."""
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
    """Return the key of a kind in ``ReadyTasks._listed``; only transfers have mode group -1."""
    return _MOVING if kind[0] == -1 else kind[1]


_MAX_WAITING = 16
"""Number of waiting tasks of a class after which a traversal excludes the class."""


_Exclusion = tuple[object, Container[object]]


@dataclass(frozen=True, slots=True)
class _CursorStream:
    """The positions of one stream of a traversal.

    They are the positions of all tasks of a class, or of the first task of each class or of each kind.
    """

    marks: IndexSet
    opens: Callable[[_TaskClass], None] | None = None
    """Callback that expands the group that starts at a position; None: the positions are those of tasks."""
    outs: tuple[_Exclusion, ...] = ()
    """Pairs of a property of the whole stream and a container of excluded values.

    The stream ends if one of the properties is excluded.
    """

    def is_over(self) -> bool:
        """Return whether the whole stream is excluded."""
        return any(shared in out for shared, out in self.outs)


class _BusyMachines:
    """Container of the machines that are not free."""

    def __init__(self, is_free: Callable[[int], bool]) -> None:
        self.is_free = is_free

    def __contains__(self, home: object) -> bool:
        return isinstance(home, int) and not self.is_free(home)


class PlanCursor:
    """One traversal of the tasks that may be placed now, in order.

    Creation costs O(1). The traversal does not change the tasks, so several cursors may exist. Partitions,
    kinds and classes are expanded when their first task is reached; the next task costs O(log of the
    positions examined). The traversal is rebuilt when tasks are added or change class.
    """

    def __init__(self, tasks: PlannedTasks, *, strict: bool = False) -> None:
        """Start at the first task; ``strict``: skip tasks whose planned machine is not usable."""
        self._tasks = tasks
        self._strict = strict
        self._came = tasks.came
        self._place = 0
        self._left_out: set[_TaskClass] = set()
        self._kinds_out: set[_TaskClass] = set()
        self._waiting: dict[_TaskClass, int] = {}
        """By class: the number of its tasks that wait for a machine."""
        self._busy: _BusyMachines | None = None
        self._open_homes: list[int] = []
        """After ``hurry``: the free machines when the traversal was last built."""
        self._revision = 0
        self.alike = tasks.alike
        self.even = tasks.even
        self._begin()

    @property
    def waiting(self) -> int:
        """Return the number of classes with a task that waits for a machine."""
        return len(self._waiting)

    @property
    def hurried(self) -> bool:
        """Return whether tasks planned on busy machines are skipped."""
        return self._busy is not None

    def head(self) -> int | None:
        """Return the first task that the cursor has not passed, even if it is excluded; None: no task."""
        place = self._tasks.places.next(self._place)
        while place is not None and not self._was_present(place):
            place = self._tasks.places.next(place + 1)
        return None if place is None else self._tasks.ordered[place]

    def next(self) -> int | None:
        """Return the first task that the cursor has not passed and that is not excluded; None: no task."""
        if self._added != self._tasks.added:
            self._begin()
        heap = self._heap
        while heap:
            place, number, stream = heap[0]
            found = None if stream.is_over() else stream.marks.next(place)
            if found == place and stream.opens is None:
                if place >= self._place and self._was_present(place):
                    return self._tasks.ordered[place]
                found = stream.marks.next(max(place + 1, self._place))
            elif found == place and stream.opens is not None:
                stream.opens(self._tasks.kind[self._tasks.ordered[place]])
                found = stream.marks.next(place + 1)
            heappop(heap)  # the expanded stream has the same first position and comes after it
            if found is not None:
                heappush(heap, (found, number, stream))
        self._tasks.settle(self._open_homes, self._revision)
        return None

    def pass_by(self, task: int) -> None:
        """Move the cursor past a task."""
        self._place = self._tasks.place[task] + 1

    def let_wait(self, task: int) -> None:
        """Move the cursor past a waiting task; exclude its class after ``_MAX_WAITING`` such tasks."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting[whole] = self._waiting.get(whole, 0) + 1
        if self._waiting[whole] >= _MAX_WAITING:
            self._left_out.add(whole)

    def leave_out(self, task: int) -> None:
        """Move the cursor past a task that waits for a machine, and exclude the class of the task."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._waiting.setdefault(whole, 1)
        self._left_out.add(whole)

    def leave_out_kind(self, task: int) -> None:
        """Move the cursor past a task that cannot be placed, and exclude the kind of the task."""
        self.pass_by(task)
        whole = self._tasks.kind[task]
        self._left_out.add(whole)
        self._kinds_out.add(_class_kind(whole))

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on, skip tasks whose planned machine is not free."""
        self._busy = _BusyMachines(is_free)
        self._begin()

    def _was_present(self, place: int) -> bool:
        """Return whether the task at a position was present when the traversal started."""
        return self._tasks.since[self._tasks.ordered[place]] < self._came

    def _begin(self) -> None:
        """Build the streams; tasks that were passed or excluded before remain so."""
        tasks = self._tasks
        self._added = tasks.added
        self._heap: list[tuple[int, int, _CursorStream]] = []
        """Heap of (lower bound of the stream's next position, stream number, stream)."""
        self._opened: set[IndexSet] = set()
        partitions = [tasks.unplanned] if self._strict else [tasks.unplanned, tasks.stranded]
        if self._busy is None:
            partitions.append(tasks.standing)
        else:
            self._revision = tasks.revision
            self._open_homes = tasks.open_homes(self._busy.is_free)
            for home in self._open_homes:
                for whole in tasks.homes.get(home, ()):
                    self._open_class(whole, (home, self._busy))
        for partition in partitions:
            if partition.firsts:
                self._open_partition(partition)

    def _open_partition(self, partition: PartitionedIndexSet) -> None:
        def open_class(whole: _TaskClass) -> None:
            self._open_class(whole, (_class_kind(whole), self._kinds_out))

        def open_kind(whole: _TaskClass) -> None:
            kind = _class_kind(whole)
            self._open(_CursorStream(partition.of[kind], open_class, ((kind, self._kinds_out),)))

        self._open(_CursorStream(partition.firsts, open_kind))

    def _open_class(self, whole: _TaskClass, out: _Exclusion) -> None:
        self._open(_CursorStream(self._tasks.classes[whole], None, ((whole, self._left_out), out)))

    def _open(self, stream: _CursorStream) -> None:
        """Start a stream, unless it was started before."""
        place = stream.marks.next(self._place) if stream.opens is None else stream.marks.first
        if place is not None and stream.marks not in self._opened:
            self._opened.add(stream.marks)
            heappush(self._heap, (place, len(self._opened), stream))


class EarlyTasks:
    """Waiting tasks of a planned run that may be assigned early, because some of their data exist."""

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
        """Add a task, or update its kind."""
        self._tasks[task] = None
        if self._planned is not None:
            self._planned.add(task, self._kind_of(task))

    def discard(self, task: int) -> None:
        """Remove a task, if present."""
        if task in self._tasks:
            del self._tasks[task]
            if self._planned is not None:
                self._planned.remove(task)

    def changed(self, task: int) -> None:
        """Assign a task to its kind again, after a change; do nothing if the task is not waiting."""
        if task in self._tasks:
            self.add(task)

    def by_plan(
        self,
        plan: RunPlan,
        compiled: CompiledWorkflow,
        suits: _SuitabilityTest | None = None,
        *,
        selector: str = "",
    ) -> PlannedTasks:
        """Return the tasks that have this selector, in the order of a plan; O(n) for a new plan."""
        kept = self._planned
        if kept is None or kept.plan is not plan or kept.selector != selector:
            kept = self._planned = PlannedTasks(plan, compiled, suits, selector=selector)
            for task in self._tasks:
                kept.add(task, self._kind_of(task))
        return kept


class SelectedTasks:
    """The ready tasks whose kinds have one particular selector (adaptive-jobs.md, section 3).

    All tasks of a kind have the same selector.
    """

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
        """Return the first ready task of each kind that has the selector, highest priority first."""
        return [task for task in self._ready.heads(machines) if self._belongs(task)]

    def transfers(self) -> list[int]:
        """Return the first transfer of each kind that has the selector, highest priority first."""
        return [task for task in self._ready.transfers() if self._belongs(task)]
