"""The machines as the engine knows them: what is free, what waits, how fast they are believed to be."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from weft.engine.indexes.totals import as_seconds, as_units
from weft.engine.state.attempt import Attempt, Demand
from weft.instance.instance import Instance

__all__ = ["MachineState", "Machines"]

_MOST_SERVED = 64
"""How many of a queue for several nodes are looked at one by one."""

_Ends = list[tuple[float, int]]
"""(end, nodes) of attempts."""

_Served = tuple[tuple[float, float, _Ends, list[tuple[float, int]]], _Ends, float, int, int]
"""What an estimate was made from (time, speed, who takes nodes, who waits), and what it came to."""


class MachineState:
    """One machine."""

    __slots__ = (
        "_served",
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
        "waiting_units",
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
        self.waiting_units = 0
        """Their node-seconds at the speed the platform states, in units (``indexes.totals``)."""
        self._served: _Served | None = None
        self.location = int(instance.network.location[index])
        self.host = int(instance.network.host[index])
        self.alike = 0
        """The number of its class: machines of one description and place in the network."""

    def has_room(self, nodes: int) -> bool:
        """Say whether so many nodes are free."""
        return self.up and (self.unlimited or self.free_nodes >= nodes)

    def enqueue(self, attempt: Attempt) -> None:
        """Let an attempt wait for data and room."""
        attempt.queued = True
        self.queue.insert(bisect_left(self.queue, attempt.turn), attempt.turn)
        self.waiting_units += as_units(attempt.seconds * attempt.nodes)

    def dequeue(self, attempt: Attempt) -> None:
        """Take an attempt out of the queue: it starts, or is given up."""
        attempt.queued = False
        del self.queue[bisect_left(self.queue, attempt.turn)]
        self.waiting_units -= as_units(attempt.seconds * attempt.nodes)

    def free_at_s(self, nodes: int, attempts: Mapping[int, Attempt], now: float) -> float:
        """Estimate when so many nodes will be free: who takes nodes ends as expected, who waits goes first.

        On one node those that wait follow each other. On several the first of them are served in their order,
        each as soon as those before it leave enough nodes; what waits behind them counts as if it were spread
        evenly over all nodes. O(holders), and on several nodes O(log holders) for each that is served; who
        asks next finds them served, unless something has changed.
        """
        if self.unlimited or (self.free_nodes >= nodes and not self.queue):
            return now
        ends = [(max(holder.expected_end_s, now), holder.nodes) for holder in self.holders.values()]
        first = self.queue[:_MOST_SERVED] if self.nodes > 1 else []
        asked = (now, self.speed_factor, ends, first)
        if self._served is None or self._served[0] != asked:
            self._served = (asked, *self._serve(list(ends), [attempts[number] for _, number in first], now))
        _, left, at, room, units = self._served
        behind_s = as_seconds(self.waiting_units - units) / self.speed_factor / self.nodes
        return _passed(list(left), at, room, nodes)[0] + behind_s

    def _serve(self, ends: _Ends, waiting: list[Attempt], now: float) -> tuple[_Ends, float, int, int]:
        """Serve some that wait; give the heap of the ends after that, time, free nodes, and their units."""
        heapify(ends)
        at, room, units = now, self.nodes - sum(taken for _, taken in ends), 0
        for attempt in waiting:
            at, room = _passed(ends, at, room, attempt.nodes)
            room -= attempt.nodes
            heappush(ends, (at + attempt.seconds / self.speed_factor, attempt.nodes))
            units += as_units(attempt.seconds * attempt.nodes)
        return ends, at, room, units


def _passed(ends: _Ends, at: float, room: int, nodes: int) -> tuple[float, int]:
    """Let those of a heap (end, nodes) end until so many nodes are free: the time, and the nodes that are."""
    while room < nodes and ends:
        at, taken = heappop(ends)
        room += taken
    return at, room


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
        self._beliefs: tuple[float, ...] | None = None
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

    @property
    def beliefs(self) -> tuple[float, ...]:
        """Give the believed speed factor of every machine, 0 if it is down; one object while it holds."""
        if self._beliefs is None:
            self._beliefs = tuple(state.speed_factor if state.up else 0.0 for state in self.all)
        return self._beliefs

    def count_free(self) -> None:
        """Look at every machine anew: which have free nodes, and which are believed to be slow or fast."""
        self._beliefs = None
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
        self._beliefs = None
        if before and not _is_free(state):
            self.free_count -= 1
        else:
            self._list(state, before)

    def believe(self, index: int, speed_factor: float, now: float) -> None:
        """Note how fast a machine is believed to be."""
        state = self.all[index]
        state.speed_factor, state.believed_at_s = speed_factor, now
        self._beliefs = None
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
