"""Indexes that keep the cost of an event low: position sets, classes of equivalent machines, exact sums.

Equivalent machines (``MachineClass``) are grouped by their free capacity; a task that compares machines needs
only the first of each group. ``AvailabilityQueue`` sorts many equivalent machines by the time at which they
become free. This time is constant until the expected end of the last attempt on the machine. After that end
the machine is late and is sorted by the seconds of its queue. So a machine is sorted again only when it
changes or becomes late.

Sums of seconds are kept in integer units of 2**-60 s (``to_units``), because floating-point sums depend on
the order of additions, and a rebuilt state would differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

_WORD_BITS = 1024
"""Number of positions stored in one integer."""


class IndexSet:
    """A set of positions. Add and remove cost O(1), ``next`` costs O(positions / 2**20)."""

    __slots__ = ("_used", "_words", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """The smallest position; None: the set is empty."""
        self._words: dict[int, int] = {}
        self._used = 0
        """Bit set of the integers (words) that contain a position."""

    def __bool__(self) -> bool:
        return self._used != 0

    def add(self, place: int) -> None:
        """Add a position, if it is not in the set."""
        word, bit = divmod(place, _WORD_BITS)
        self._words[word] = self._words.get(word, 0) | 1 << bit
        self._used |= 1 << word
        if self.first is None or place < self.first:
            self.first = place

    def remove(self, place: int) -> None:
        """Remove a position, if it is in the set."""
        word, bit = divmod(place, _WORD_BITS)
        left = self._words.get(word, 0) & ~(1 << bit)
        if left:
            self._words[word] = left
        elif word in self._words:
            del self._words[word]
            self._used &= ~(1 << word)
        if place == self.first:
            self.first = self.next(place)

    def next(self, place: int) -> int | None:
        """Return the smallest position in the set that is at least ``place``; None: there is none."""
        word, bit = divmod(place, _WORD_BITS)
        here = self._words.get(word, 0) >> bit
        if here:
            return place + _lowest_bit(here)
        later = self._used >> word + 1
        if not later:
            return None
        word += 1 + _lowest_bit(later)
        return word * _WORD_BITS + _lowest_bit(self._words[word])


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


FreeCapacity = int | tuple[float, ...]
"""Number of free nodes, or a tuple (free nodes, estimated speed, free amounts...).

It is a tuple if the speed is not nominal, the machine has countable resources, or the machine is time-shared.
"""


class FreeMachines:
    """Equivalent machines grouped by free capacity. ``move`` costs O(1), ``firsts`` O(groups)."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[FreeCapacity, IndexSet] = {}

    def move(self, machine: int, before: FreeCapacity | None, after: FreeCapacity | None) -> None:
        """Move a machine from group ``before`` to group ``after``; None stands for no group.

        A machine is in no group if it has no free node or is not usable.
        """
        if before is not None:
            marks = self._marks[before]
            marks.remove(machine)
            if (
                marks.first is None and type(before) is tuple
            ):  # there are few plain node counts; keep their groups
                del self._marks[before]
        if after is not None:
            if (found := self._marks.get(after)) is None:
                found = self._marks[after] = IndexSet()
            found.add(machine)

    def firsts(self, but: Collection[int] = ()) -> list[int]:
        """Return, for each group, its first machine that is not in ``but``."""
        found = []
        for marks in self._marks.values():
            first = marks.first
            while but and first is not None and first in but:
                first = marks.next(first + 1)
            if first is not None:
                found.append(first)
        return found


MachineLoad = tuple[float, float]
"""Expected end of the last attempt that holds nodes, and the seconds that the queue takes after that end."""

_QueueEntry = tuple[float, int, int]
"""(time, machine, version); entries with an older version are stale."""


class AvailabilityQueue:
    """Machines sorted by the time they become free; O(log machines) per change and per returned machine."""

    __slots__ = ("_behind_s", "_changed", "_due", "_ends", "_late", "_late_since", "_load", "_version")

    def __init__(self, machines: Iterable[int], load: Callable[[int], MachineLoad | None]) -> None:
        """Create a queue of machines; ``load`` returns the load of a machine, or None if it is not usable."""
        self._load = load
        self._changed = dict.fromkeys(machines)
        self._version: dict[int, int] = {}
        """Current version of each machine's heap entries."""
        self._behind_s: dict[int, float] = {}
        self._ends: list[_QueueEntry] = []
        """Heap of the machines that are not late, by expected end of the last attempt."""
        self._due: list[_QueueEntry] = []
        """Heap of the machines that are not late, by the time they become free."""
        self._late: list[_QueueEntry] = []
        """Heap of the late machines, by the seconds of their queues."""
        self._late_since: dict[int, int] = {}
        """By machine: the version of its heap entries when the machine became late."""

    def changed(self, machine: int) -> None:
        """Record that the load of a machine has changed, so that it is sorted again before the next query."""
        self._changed[machine] = None

    def first(self, most: int, now: float) -> list[int]:
        """Return at most ``most`` machines that become free first; ties by index."""
        self._insert_changed()
        self._grow_late(now)
        taken: list[tuple[list[_QueueEntry], _QueueEntry]] = []
        while len(taken) < most:
            due, late = self._top(self._due), self._top(self._late)
            if due is None and late is None:
                break
            by_due = due is not None and (late is None or due[:2] <= (now + late[0], late[1]))
            heap = self._due if by_due else self._late
            taken.append((heap, heappop(heap)))
        for heap, entry in taken:
            heappush(heap, entry)
        return [machine for _, (_, machine, _) in taken]

    def _insert_changed(self) -> None:
        """Insert the changed machines with a new version."""
        for machine in self._changed:
            version = self._version[machine] = self._version.get(machine, 0) + 1
            if (found := self._load(machine)) is not None:
                end_s, behind_s = found
                self._behind_s[machine] = behind_s
                heappush(self._ends, (end_s, machine, version))
                heappush(self._due, (end_s + behind_s, machine, version))
        self._changed.clear()

    def _grow_late(self, now: float) -> None:
        """Move the machines whose last attempt should have ended by now to the heap of late machines."""
        while self._ends and self._ends[0][0] <= now:
            _, machine, version = heappop(self._ends)
            if self._version[machine] == version:
                self._late_since[machine] = version
                heappush(self._late, (self._behind_s[machine], machine, version))

    def _top(self, heap: list[_QueueEntry]) -> _QueueEntry | None:
        """Return the first valid entry of a heap; stale entries before it are removed."""
        while heap:
            _, machine, version = heap[0]
            is_late = self._late_since.get(machine) == version
            if self._version[machine] == version and is_late == (heap is self._late):
                return heap[0]
            heappop(heap)
        return None


_MAX_COMPARED = 64
"""Maximal size of a class in which all machines are compared."""

_SHORTLIST = 16
"""Number of machines that are compared in larger classes: those that become free first."""


class ClassMember(Protocol):
    """The interface through which MachineClass reads the state of a machine."""

    usable: bool
    left: FreeCapacity | None
    machine_classes: list[MachineClass]
    """The classes that contain the machine."""
    waits: list[AvailabilityQueue]
    """The queues to notify when the load of the machine changes."""

    def load(self) -> MachineLoad | None:
        """Return the load of the machine; None: not usable."""
        ...


class MachineClass:
    """Equivalent machines, or the subset that tasks of one kind may use."""

    __slots__ = ("_all", "_usable", "_waits", "by_capacity", "members")

    def __init__(self, machines: Sequence[ClassMember], members: Iterable[int]) -> None:
        self.members = tuple(members)
        """Machine indices, ascending."""
        self.by_capacity = FreeMachines()
        self._all = machines
        self._usable = IndexSet()
        self._waits: AvailabilityQueue | None = None
        for index in self.members:
            machine = machines[index]
            machine.machine_classes.append(self)
            self.by_capacity.move(index, None, machine.left)
            if machine.usable:
                self._usable.add(index)

    def set_usable(self, index: int, usable: bool) -> None:
        """Set whether a member is usable."""
        if usable:
            self._usable.add(index)
        else:
            self._usable.remove(index)

    def first(self, but: Collection[int] = ()) -> int | None:
        """Return the first usable member, except those in ``but``; None: there is none."""
        first = self._usable.first
        while but and first is not None and first in but:
            first = self._usable.next(first + 1)
        return first

    def soonest(self, now: float, but: Collection[int] = ()) -> list[int]:
        """Return the usable members to compare for a task that may wait; members in ``but`` are omitted.

        Of a large class these are the first member, the first member of each free capacity, and the members
        that become free first.
        """
        if len(self.members) <= _MAX_COMPARED:
            return [index for index in self.members if self._all[index].usable and index not in but]
        if self._waits is None:
            self._waits = AvailabilityQueue(self.members, lambda index: self._all[index].load())
            for index in self.members:
                self._all[index].waits.append(self._waits)
        first, soonest = self.first(but), self._waits.first(_SHORTLIST + len(but), now)
        found = [] if first is None else [first]
        return [*found, *self.by_capacity.firsts(but), *(index for index in soonest if index not in but)]


class PartitionedIndexSet:
    """Positions in disjoint parts; each part has a key. A change costs as much as in ``IndexSet``."""

    __slots__ = ("firsts", "of")

    def __init__(self) -> None:
        self.of: dict[Hashable, IndexSet] = {}
        """The positions of each non-empty part."""
        self.firsts = IndexSet()
        """The first position of each part."""

    def change(self, part: Hashable, before: int | None, after: int | None) -> None:
        """Remove position ``before`` from a part and add position ``after`` to it; None: no position."""
        if (marks := self.of.get(part)) is None:
            marks = self.of[part] = IndexSet()
        led = marks.first
        if before is not None:
            marks.remove(before)
        if after is not None:
            marks.add(after)
        leads = marks.first
        if leads is None:
            del self.of[part]
        if leads != led:
            if led is not None:
                self.firsts.remove(led)
            if leads is not None:
                self.firsts.add(leads)


_UNITS_PER_SECOND = 1 << 60
_MOST_SECONDS = 1e280
"""Maximal number of seconds that ``to_units`` converts; longer times are reduced to it.

The corresponding number of units is still a finite double.
"""


def to_units(seconds: float) -> int:
    """Convert seconds to integer units of 2**-60 s."""
    return round(min(seconds, _MOST_SECONDS) * _UNITS_PER_SECOND)


def to_seconds(units: float) -> float:
    """Convert units of 2**-60 s to seconds."""
    return units / _UNITS_PER_SECOND


class ChangeLog:
    """Machines sorted by their last change of capacity; ``note`` costs O(1), ``since`` O(machines found)."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        """Number of changes so far."""
        self._last: dict[int, int] = {}
        """By machine: the number of its last change; the machines are in ascending order of these numbers."""

    def note(self, machine: int) -> None:
        """Record that nodes or amounts of a machine were freed, or that it went down or came back."""
        self.count += 1
        self._last.pop(machine, None)
        self._last[machine] = self.count

    def since(self, count: int) -> list[int]:
        """Return the machines that changed after change number ``count``, latest first."""
        found = []
        for machine, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(machine)
        return found


class SharedFileCopies:
    """Which hosts have which shared input files. Adding a file costs O(1), losing a host O(its files)."""

    def __init__(self) -> None:
        self.at: dict[int, set[str]] = {}
        """By host: the files copied there."""
        self._of: dict[str, dict[int, None]] = {}
        """By file: the hosts that have it, in the order in which the file was copied to them."""

    def bring(self, host: int, files: Iterable[str]) -> None:
        """Record that a host has copies of files, or will have them when their staging ends."""
        there = self.at.setdefault(host, set())
        for file in files:
            there.add(file)
            self._of.setdefault(file, {})[host] = None

    def lose(self, host: int) -> None:
        """Record that a host has lost its files."""
        for file in self.at.pop(host, ()):
            del self._of[file][host]

    def hosts(self, file: str) -> Collection[int]:
        """Return the hosts that have a file."""
        return self._of.get(file, ())
