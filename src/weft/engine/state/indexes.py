"""A set of places in an order that is known beforehand, in which the next one is found at once.

Machines that are alike and have free nodes, kept apart by what is left of them.

Where as much is left of two machines that are alike, a task does not care which it gets: the first is enough.

Many machines that are alike, in the order in which they will be free behind what waits there.

Who takes nodes of a machine is expected to end at some time, and what waits there takes so many seconds after
that: until the time has come the sum stays as it is. From then on the machine is late, nobody knows when it
will be free, and it counts as from now: late machines stand in the order of what waits there. So a machine
changes its place only when something happens to it, and once when it becomes late.

Machines that are alike: which of them a task has to look at.

Places that are kept apart by what they share, with the first of each part at hand.

Sums of seconds that do not depend on the order in which things came and went.

Floating point sums drift: what is added and taken out again leaves a trace, and a state that was rebuilt
would say something else in the last digits. So seconds are counted in whole units of 2**-60 s.

On which machines something has changed that may let a task go there, for those who look now and then.

Shared files from outside, and the hosts to which they were brought.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Protocol

__all__ = [
    "AvailabilityQueue",
    "ChangeLog",
    "ClassMember",
    "FreeCapacity",
    "FreeMachines",
    "IndexSet",
    "MachineClass",
    "MachineLoad",
    "PartitionedIndexSet",
    "SharedFileCopies",
    "to_seconds",
    "to_units",
]


_WORD_BITS = 1024
"""Places that are kept together in one number."""


class IndexSet:
    """Adding and removing cost O(1), finding the next O(places / 2**20)."""

    __slots__ = ("_used", "_words", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """The first place; None: there is none."""
        self._words: dict[int, int] = {}
        self._used = 0
        """A bit for every word that is not empty."""

    def __bool__(self) -> bool:
        return self._used != 0

    def add(self, place: int) -> None:
        """Take in a place; one that is there already stays."""
        word, bit = divmod(place, _WORD_BITS)
        self._words[word] = self._words.get(word, 0) | 1 << bit
        self._used |= 1 << word
        if self.first is None or place < self.first:
            self.first = place

    def remove(self, place: int) -> None:
        """Take out a place, if it is there."""
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
        """Give the first place that is not before this one; None: there is none."""
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
"""What is left of a machine: its free nodes, its believed speed, its amounts."""


class FreeMachines:
    """Moving a machine costs O(1), finding the first ones O(how many kinds of left-overs there are)."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[FreeCapacity, IndexSet] = {}

    def move(self, machine: int, before: FreeCapacity | None, after: FreeCapacity | None) -> None:
        """Hear that something else is left of a machine; None: it has no free node, or may not be used."""
        if before is not None:
            marks = self._marks[before]
            marks.remove(machine)
            if marks.first is None and type(before) is tuple:  # of plain numbers of nodes there are few
                del self._marks[before]
        if after is not None:
            found = self._marks.get(after)
            if found is None:
                found = self._marks[after] = IndexSet()
            found.add(machine)

    def firsts(self, but: Collection[int] = ()) -> list[int]:
        """Give the first machine of each kind of left-overs, of those besides some."""
        found = []
        for marks in self._marks.values():
            first = marks.first
            while but and first is not None and first in but:
                first = marks.next(first + 1)
            if first is not None:
                found.append(first)
        return found


MachineLoad = tuple[float, float]
"""When the last who takes nodes of a machine is expected to end, and the seconds of what waits behind."""

_QueueEntry = tuple[float, int, int]
"""A time, a machine, and the how manieth look at this machine gave it."""


class AvailabilityQueue:
    """A change costs O(log machines), as does each machine that is asked for."""

    __slots__ = ("_behind_s", "_changed", "_due", "_ends", "_late", "_late_since", "_load", "_look")

    def __init__(self, machines: Iterable[int], load: Callable[[int], MachineLoad | None]) -> None:
        """Take in machines; ``load`` says what is on one of them, None: it may not be used."""
        self._load = load
        self._changed = dict.fromkeys(machines)
        self._look: dict[int, int] = {}
        """Per machine: how often it was looked at; an entry of an earlier look is out of date."""
        self._behind_s: dict[int, float] = {}
        self._ends: list[_QueueEntry] = []
        """A heap of those that are not late yet, by when they will be."""
        self._due: list[_QueueEntry] = []
        """A heap of the same, by when they will be free."""
        self._late: list[_QueueEntry] = []
        """A heap of the others, by what waits there."""
        self._late_since: dict[int, int] = {}
        """Per machine: the look after which it has become late."""

    def changed(self, machine: int) -> None:
        """Hear that something has happened to a machine."""
        self._changed[machine] = None

    def first(self, most: int, now: float) -> list[int]:
        """Give so many machines that are free first, ties by index."""
        self._look_again()
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

    def _look_again(self) -> None:
        """Look at the machines to which something has happened."""
        for machine in self._changed:
            look = self._look[machine] = self._look.get(machine, 0) + 1
            found = self._load(machine)
            if found is not None:
                end_s, behind_s = found
                self._behind_s[machine] = behind_s
                heappush(self._ends, (end_s, machine, look))
                heappush(self._due, (end_s + behind_s, machine, look))
        self._changed.clear()

    def _grow_late(self, now: float) -> None:
        """Put those whose time has come among the late ones."""
        while self._ends and self._ends[0][0] <= now:
            _, machine, look = heappop(self._ends)
            if self._look[machine] == look:
                self._late_since[machine] = look
                heappush(self._late, (self._behind_s[machine], machine, look))

    def _top(self, heap: list[_QueueEntry]) -> _QueueEntry | None:
        """Give the first entry of a heap that holds; those before it go."""
        while heap:
            _, machine, look = heap[0]
            is_late = self._late_since.get(machine) == look
            if self._look[machine] == look and is_late == (heap is self._late):
                return heap[0]
            heappop(heap)
        return None


_MAX_COMPARED = 64
"""Machines that are alike and are all asked when they will be free."""

_SHORTLIST = 16
"""Of more than these, those that are asked."""


class ClassMember(Protocol):
    """A machine."""

    usable: bool
    left: FreeCapacity | None
    alike: list[MachineClass]
    """Where it is a member."""
    waits: list[AvailabilityQueue]
    """Who must hear when something happens to it."""

    def load(self) -> MachineLoad | None:
        """Give what is on it; None: it may not be used."""
        ...


class MachineClass:
    """Machines that are alike, or those of them to which tasks of one kind may go."""

    __slots__ = ("_all", "_usable", "_waits", "members", "rooms")

    def __init__(self, machines: Sequence[ClassMember], members: Iterable[int]) -> None:
        self.members = tuple(members)
        """Ascending."""
        self.rooms = FreeMachines()
        self._all = machines
        self._usable = IndexSet()
        self._waits: AvailabilityQueue | None = None
        for index in self.members:
            machine = machines[index]
            machine.alike.append(self)
            self.rooms.move(index, None, machine.left)
            if machine.usable:
                self._usable.add(index)

    def set_usable(self, index: int, usable: bool) -> None:
        """Hear that one of them may be used from now on, or may not."""
        if usable:
            self._usable.add(index)
        else:
            self._usable.remove(index)

    def first(self, but: Collection[int] = ()) -> int | None:
        """Give the first that may be used, of those besides some; None: there is none."""
        first = self._usable.first
        while but and first is not None and first in but:
            first = self._usable.next(first + 1)
        return first

    def soonest(self, now: float, but: Collection[int] = ()) -> list[int]:
        """List those that may be used, besides some, where a task might be over first if it may wait there.

        Of many: the first, the first ones with free nodes, and those that are free first behind what waits.
        """
        if len(self.members) <= _MAX_COMPARED:
            return [index for index in self.members if self._all[index].usable and index not in but]
        if self._waits is None:
            self._waits = AvailabilityQueue(self.members, lambda index: self._all[index].load())
            for index in self.members:
                self._all[index].waits.append(self._waits)
        first, soonest = self.first(but), self._waits.first(_SHORTLIST + len(but), now)
        found = [] if first is None else [first]
        return [*found, *self.rooms.firsts(but), *(index for index in soonest if index not in but)]


class PartitionedIndexSet:
    """Changing a place costs as much as in ``IndexSet``, however many parts there are."""

    __slots__ = ("firsts", "of")

    def __init__(self) -> None:
        self.of: dict[Hashable, IndexSet] = {}
        """The places of each part that is not empty."""
        self.firsts = IndexSet()
        """The first place of each part."""

    def change(self, part: Hashable, before: int | None, after: int | None) -> None:
        """Put a place into a part instead of another; None: there was none before, or is none from now on."""
        marks = self.of.get(part)
        if marks is None:
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


def to_units(seconds: float) -> int:
    """Give seconds in units; what is shorter than one unit counts as nothing or one."""
    return round(seconds * _UNITS_PER_SECOND)


def to_seconds(units: float) -> float:
    """Give a sum of units in seconds, rounded once."""
    return units / _UNITS_PER_SECOND


class ChangeLog:
    """Noting costs O(1), asking O(machines on which something has changed since the last question)."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many changes there were."""
        self._last: dict[int, int] = {}
        """By machine: the number of its last change, ascending."""

    def note(self, machine: int) -> None:
        """Hear that a machine has got back nodes or amounts, went or came back."""
        self.count += 1
        self._last.pop(machine, None)
        self._last[machine] = self.count

    def since(self, count: int) -> list[int]:
        """List the machines that have changed since there were so many changes, the latest first."""
        found = []
        for machine, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(machine)
        return found


class SharedFileCopies:
    """Bringing a file costs O(1), losing a host O(its files)."""

    def __init__(self) -> None:
        self.at: dict[int, set[str]] = {}
        """By host: the files that were sent there."""
        self._of: dict[str, dict[int, None]] = {}
        """By file: the hosts, in the order in which it was sent there."""

    def bring(self, host: int, files: Iterable[str]) -> None:
        """Note that files are sent to a host."""
        there = self.at.setdefault(host, set())
        for file in files:
            there.add(file)
            self._of.setdefault(file, {})[host] = None

    def lose(self, host: int) -> None:
        """Note that nothing is there any more."""
        for file in self.at.pop(host, ()):
            del self._of[file][host]

    def hosts(self, file: str) -> Collection[int]:
        """Give the hosts that have a file."""
        return self._of.get(file, ())
