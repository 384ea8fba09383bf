"""The machines as the engine knows them: what is free, what waits, how fast they are believed to be."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from weft.engine.state.attempt import Attempt, Demand
from weft.instance.instance import Instance

__all__ = ["MachineState", "Machines"]


class MachineState:
    """One machine."""

    __slots__ = (
        "_backlog",
        "_starts",
        "alike",
        "amounts",
        "believed_at_s",
        "free_nodes",
        "holders",
        "host",
        "index",
        "location",
        "name",
        "nodes",
        "queue",
        "queue_rule",
        "speed_factor",
        "unlimited",
        "up",
    )

    def __init__(self, instance: Instance, index: int) -> None:
        machine = instance.machines[index]
        self.index = index
        self.name = machine.name
        self.nodes = machine.nodes
        self.free_nodes = machine.nodes
        """Not taken and not kept for anybody."""
        self.unlimited = machine.occupancy == "unlimited"
        self.queue_rule = machine.queue
        self.amounts: dict[str, float] = dict(machine.amounts)
        """What is left of its countable resources."""
        self.up = True
        self.speed_factor = 1.0
        """Its believed speed relative to the platform's description."""
        self.believed_at_s = 0.0
        self.holders: dict[int, Attempt] = {}
        """The attempts that take nodes, in the order in which they took them."""
        self.queue: list[tuple[float, int]] = []
        """(order, attempt number) of those that were sent here and take no nodes yet."""
        self.location = int(instance.network.location[index])
        self.host = int(instance.network.host[index])
        self.alike = 0
        """The number of its class: machines of one description and place in the network."""
        self._starts: list[float] = []
        """On one node: when each of those that wait is expected to start, as far as it was worked out, and
        in the end when the next would."""
        self._backlog: _Backlog | None = None

    def has_room(self, nodes: int) -> bool:
        """Say whether so many nodes are free."""
        return self.up and (self.unlimited or self.free_nodes >= nodes)

    def enqueue(self, attempt: Attempt) -> None:
        """Let an attempt wait for data and room."""
        attempt.queued = True
        place = bisect_left(self.queue, attempt.turn)
        self.queue.insert(place, attempt.turn)
        del self._starts[place + 1 :]
        if place < len(self.queue) - 1:
            self._backlog = None

    def dequeue(self, attempt: Attempt) -> None:
        """Take an attempt out of the queue: it starts, or is given up."""
        attempt.queued = False
        place = bisect_left(self.queue, attempt.turn)
        del self.queue[place]
        # Who waits behind the first starts when it was to start, if the first starts in time.
        del self._starts[place + 1 if place else 0 : None if place else 1]
        self._backlog = None

    def free_at_s(self, nodes: int, attempts: Mapping[int, Attempt], now: float) -> float:
        """Estimate when so many nodes will be free: who takes nodes ends as expected, who waits goes first.

        What was worked out for those that wait is kept as long as those before them keep their times: as a
        rule this costs O(nodes), after a surprise O(queue).
        """
        if self.unlimited or (self.free_nodes >= nodes and not self.queue):
            return now
        if self.nodes == nodes == 1:
            return self._next_start_s(attempts, now)
        ends = sorted((max(holder.expected_end_s, now), holder.nodes) for holder in self.holders.values())
        backlog = self._backlog
        if backlog is None or not backlog.follows(ends, self.speed_factor, now):
            backlog = self._backlog = _Backlog(ends, self.nodes, self.speed_factor, now)
        for _, number in self.queue[backlog.waiting :]:
            backlog.append(attempts[number])
        return backlog.room_at_s(nodes)

    def _next_start_s(self, attempts: Mapping[int, Attempt], now: float) -> float:
        """Let those that wait for the only node follow each other."""
        first = now
        for holder in self.holders.values():
            if holder.nodes:
                first = max(first, holder.expected_end_s)
        starts = self._starts
        if not starts or starts[0] != first:
            starts[:] = (first,)
        for place in range(len(starts) - 1, len(self.queue)):
            waiting = attempts[self.queue[place][1]]
            taken = waiting.seconds / self.speed_factor if waiting.nodes else 0.0
            starts.append(starts[place] + taken)
        return starts[-1]


class _Backlog:
    """The times at which nodes are expected to become free, with those that wait served in their order."""

    __slots__ = ("_at", "_base", "_ends", "_full", "_now", "_passed", "_room", "_speed_factor", "waiting")

    def __init__(self, ends: list[tuple[float, int]], nodes: int, speed_factor: float, now: float) -> None:
        """Begin with (end, nodes) of those that take nodes, ascending."""
        self._base = ends
        self._ends = list(ends)
        self._speed_factor = speed_factor
        self._now = self._at = now
        self._room = nodes - sum(taken for _, taken in ends)
        """Nodes that are free when those before ``_passed`` have ended and nobody else has."""
        self._passed = 0
        self._full = self._room <= 0
        self.waiting = 0
        """How many of the queue are counted in."""

    def follows(self, ends: list[tuple[float, int]], speed_factor: float, now: float) -> bool:
        """Say whether it still holds: where nodes are free from now on, the time itself counts."""
        if self._passed == 0 and self._full:
            self._now = self._at = now
        same_time = self._full or now == self._now
        return same_time and speed_factor == self._speed_factor and ends == self._base

    def append(self, attempt: Attempt) -> None:
        """Let one more wait: it goes as soon as those before it leave enough nodes."""
        self._room, self._at, self._passed = self._pass(attempt.nodes)
        self._room -= attempt.nodes
        insort(self._ends, (self._at + attempt.seconds / self._speed_factor, attempt.nodes), lo=self._passed)
        self.waiting += 1

    def room_at_s(self, nodes: int) -> float:
        """Give the first time after which so many nodes stay free."""
        return self._pass(nodes)[1]

    def _pass(self, nodes: int) -> tuple[int, float, int]:
        """Let others end until so many nodes are free: room, time, how many have ended."""
        room, at, passed = self._room, self._at, self._passed
        while room < nodes and passed < len(self._ends):
            at, taken = self._ends[passed]
            room += taken
            passed += 1
        return room, at, passed


class Machines:
    """All machines, with an index of those that have free nodes."""

    def __init__(self, instance: Instance) -> None:
        self.all = [MachineState(instance, index) for index in range(len(instance.machines))]
        self.classes: list[list[int]] = []
        """Machines of each class, ascending."""
        self._free: list[list[int]] = []
        """Per class: a heap of machines with free nodes; what is out of date goes when it comes to the
        top."""
        self._listed = bytearray(len(self.all))
        self.odd: set[int] = set()
        """Machines that are believed to be faster or slower than the platform says."""
        self.free_count = 0
        """How many machines that are up have a free node."""
        self._sort_into_classes(instance)
        self.class_of = [machine.alike for machine in self.all]

    def _sort_into_classes(self, instance: Instance) -> None:
        numbers: dict[tuple[str, int], int] = {}
        for state, machine in zip(self.all, instance.machines, strict=True):
            # A share of a host stands apart: data on the same host need not move.
            alone = machine.host is not None
            text = repr(dataclasses.replace(machine, name=machine.name if alone else ""))
            # A machine without a site is a site of its own, but all such sites may be linked alike.
            state.alike = numbers.setdefault((text, state.location), len(numbers))
            if state.alike == len(self.classes):
                self.classes.append([])
                self._free.append([])
            self.classes[state.alike].append(state.index)
            self._free[state.alike].append(state.index)
            self._listed[state.index] = 1
            self.free_count += 1

    def __getitem__(self, index: int) -> MachineState:
        return self.all[index]

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[MachineState]:
        return iter(self.all)

    @property
    def any_free(self) -> bool:
        """Say whether some machine that is up has a free node."""
        return self.free_count > 0

    def count_free(self) -> None:
        """Look at every machine anew: which have free nodes, and which are believed to be slow or fast."""
        self.free_count = sum(_is_free(state) for state in self.all)
        self.odd = {state.index for state in self.all if state.speed_factor != 1.0}
        for alike, members in enumerate(self.classes):
            self._free[alike] = [index for index in members if _is_free(self.all[index])]
            for index in members:
                self._listed[index] = _is_free(self.all[index])

    def first_free(self, alike: int) -> int | None:
        """Give the first machine of a class that has a free node; None: there is none."""
        heap = self._free[alike]
        while heap:
            state = self.all[heap[0]]
            if state.up and (state.free_nodes > 0 or state.unlimited):
                return state.index
            self._listed[heappop(heap)] = 0
        return None

    def first_of(self, members: Sequence[int]) -> int | None:
        """Give the first of some machines that has a free node; None: there is none."""
        return next((index for index in members if self.all[index].has_room(1)), None)

    def take(self, attempt: Attempt) -> None:
        """Take an attempt's nodes and amounts."""
        state = self.all[attempt.machine]
        before = state.free_nodes
        attempt.holds = True
        state.holders[attempt.number] = attempt
        state.free_nodes = before - attempt.nodes
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] -= amount
        if before > 0 >= state.free_nodes and state.up and not state.unlimited:
            self.free_count -= 1

    def give_back(self, attempt: Attempt) -> None:
        """Free what an attempt took."""
        if not attempt.holds:
            return
        state = self.all[attempt.machine]
        before = _is_free(state)
        attempt.holds = False
        del state.holders[attempt.number]
        state.free_nodes += attempt.nodes
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] += amount
        if not before:
            self._list(state, before)

    def set_up(self, index: int, up: bool) -> None:
        """Note that a machine went or came back."""
        state = self.all[index]
        before = _is_free(state)
        state.up = up
        if before and not _is_free(state):
            self.free_count -= 1
        else:
            self._list(state, before)

    def believe(self, index: int, speed_factor: float, now: float) -> None:
        """Note how fast a machine is believed to be."""
        state = self.all[index]
        state.speed_factor, state.believed_at_s = speed_factor, now
        if speed_factor == 1.0:
            self.odd.discard(index)
        else:
            self.odd.add(index)

    def fits(self, index: int, nodes: int, demand: Demand) -> bool:
        """Say whether nodes and amounts are free right now."""
        state = self.all[index]
        if not state.has_room(nodes):
            return False
        if state.unlimited:
            return True
        for name, amount in demand:
            left = state.amounts.get(name)
            # Rounding: what was taken and given back many times may miss the total by a hair.
            if left is not None and amount > left * (1 + 1e-9) + 1e-9:
                return False
        return True

    def _list(self, state: MachineState, before: bool) -> None:
        if not before and _is_free(state):
            self.free_count += 1
            if not self._listed[state.index]:
                self._listed[state.index] = 1
                heappush(self._free[state.alike], state.index)


def _is_free(state: MachineState) -> bool:
    return state.up and (state.free_nodes > 0 or state.unlimited)
