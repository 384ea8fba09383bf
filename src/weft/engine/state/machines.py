"""The machines as the engine knows them: what is free, what waits, how fast they are believed to be."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from weft.engine.state.compiled import CompiledWorkflow, GroupModes
from weft.engine.state.indexes import (
    AvailabilityQueue,
    FreeCapacity,
    MachineClass,
    MachineLoad,
    to_seconds,
    to_units,
)
from weft.engine.states import Attempt, Demand
from weft.instance.instance import Instance

__all__ = ["MachineState", "MachineStates"]

_MAX_SERVED = 64
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
        "has_amounts",
        "holders",
        "host",
        "index",
        "left",
        "location",
        "name",
        "nodes",
        "promised_units",
        "queue",
        "queue_rule",
        "speed_factor",
        "unlimited",
        "up",
        "usable",
        "waiting_units",
        "waits",
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
        self.has_amounts = any(self.amounts.values())
        """Whether there is anything to count."""
        self.up = True
        self.usable = True
        """Whether tasks may be sent to it: it is up, and was found out about as far as that is needed."""
        self.speed_factor = 1.0
        """Its believed speed relative to the platform's description."""
        self.believed_at_s = 0.0
        self.holders: dict[int, Attempt] = {}
        """The attempts that take nodes, in the order in which they took them."""
        self.queue: list[tuple[float, int]] = []
        """(order, attempt number) of those that were sent here and take no nodes yet."""
        self.waiting_units = 0
        """Their node-seconds at the speed the platform states, in units (``indexes.totals``)."""
        self.promised_units = 0
        """Those of tasks that are bound to it and were not sent yet."""
        self._served: _Served | None = None
        self.location = int(instance.network.location[index])
        self.host = int(instance.network.host[index])
        self.alike: list[MachineClass] = []
        """The class it is in (machines of one description and place in the network), and parts of it."""
        self.left: FreeCapacity | None = None
        """What those believe to be left of it."""
        self.waits: list[AvailabilityQueue] = []
        """Who must hear when something happens to it."""

    def left_now(self) -> FreeCapacity | None:
        """Give what is left of it; None: it may not be used, or has no free node."""
        nodes = self.nodes if self.unlimited else self.free_nodes
        if nodes <= 0 or not self.usable:
            return None
        if self.speed_factor == 1.0 and not self.has_amounts:
            return nodes
        return (nodes, self.speed_factor, *self.amounts.values())

    def load(self) -> MachineLoad | None:
        """Give what is on it, for those who sort machines by it; None: it may not be used."""
        if not self.usable or self.unlimited:
            return (0.0, 0.0) if self.usable else None
        end_s = max((holder.expected_end_s for holder in self.holders.values()), default=0.0)
        behind = self.waiting_units + self.promised_units
        return end_s, to_seconds(behind) / self.speed_factor / self.nodes

    @property
    def promised_s(self) -> float:
        """Give the seconds of what is promised to it, spread over its nodes."""
        return to_seconds(self.promised_units) / self.speed_factor / self.nodes

    def changed(self) -> None:
        """Tell that it will be free at another time."""
        for waits in self.waits:
            waits.changed(self.index)

    def has_room(self, nodes: int) -> bool:
        """Say whether so many nodes are free."""
        return self.up and (self.unlimited or self.free_nodes >= nodes)

    def enqueue(self, attempt: Attempt) -> None:
        """Let an attempt wait for data and room."""
        attempt.queued = True
        self.queue.insert(bisect_left(self.queue, attempt.turn), attempt.turn)
        self.waiting_units += to_units(attempt.seconds * attempt.nodes)
        self.changed()

    def dequeue(self, attempt: Attempt) -> None:
        """Take an attempt out of the queue: it starts, or is given up."""
        attempt.queued = False
        del self.queue[bisect_left(self.queue, attempt.turn)]
        self.waiting_units -= to_units(attempt.seconds * attempt.nodes)
        self.changed()

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
        first = self.queue[:_MAX_SERVED] if self.nodes > 1 else []
        asked = (now, self.speed_factor, ends, first)
        if self._served is None or self._served[0] != asked:
            self._served = (asked, *self._serve(list(ends), [attempts[number] for _, number in first], now))
        _, left, at, room, units = self._served
        behind_s = to_seconds(self.waiting_units - units) / self.speed_factor / self.nodes
        return _advance_until_free(list(left), at, room, nodes)[0] + behind_s

    def _serve(self, ends: _Ends, waiting: list[Attempt], now: float) -> tuple[_Ends, float, int, int]:
        """Serve some that wait; give the heap of the ends after that, time, free nodes, and their units."""
        heapify(ends)
        at, room, units = now, self.nodes - sum(taken for _, taken in ends), 0
        for attempt in waiting:
            at, room = _advance_until_free(ends, at, room, attempt.nodes)
            room -= attempt.nodes
            heappush(ends, (at + attempt.seconds / self.speed_factor, attempt.nodes))
            units += to_units(attempt.seconds * attempt.nodes)
        return ends, at, room, units


def _advance_until_free(ends: _Ends, at: float, room: int, nodes: int) -> tuple[float, int]:
    """Let those of a heap (end, nodes) end until so many nodes are free: the time, and the nodes that are."""
    while room < nodes and ends:
        at, taken = heappop(ends)
        room += taken
    return at, room


class MachineStates:
    """All machines, with an index of those that have free nodes."""

    def __init__(self, instance: Instance) -> None:
        self.all = [MachineState(instance, index) for index in range(len(instance.machines))]
        self.odd: set[int] = set()
        """Machines that are believed to be faster or slower than the platform says."""
        self.free: dict[int, None] = {}
        """The machines that may be used and have a free node."""
        self._beliefs: tuple[float, ...] | None = None
        for state in self.all:
            state.left = state.left_now()
            if state.left is not None:
                self.free[state.index] = None
        self._class_of = self._classes(instance)
        self._on_host: dict[int, list[int]] = {}
        for state in self.all:
            self._on_host.setdefault(state.host, []).append(state.index)
        self._possible: dict[Hashable, list[MachineClass]] = {}

    def _classes(self, instance: Instance) -> list[MachineClass]:
        """Sort the machines into classes; give that of each machine."""
        numbers: dict[tuple[str, int], list[int]] = {}
        for state, machine in zip(self.all, instance.machines, strict=True):
            # A share of a host stands apart: data on the same host need not move.
            alone = machine.host is not None
            text = repr(dataclasses.replace(machine, name=machine.name if alone else ""))
            # A machine without a site is a site of its own, but all such sites may be linked alike.
            numbers.setdefault((text, state.location), []).append(state.index)
        for members in numbers.values():
            MachineClass(self.all, members)
        return [state.alike[0] for state in self.all]

    def destinations(self, known: CompiledWorkflow, transfer: int) -> list[MachineClass]:
        """Give the classes to which a transfer may go."""
        key = (known, known.goal(transfer))
        found = self._possible.get(key)
        if found is None:
            machines = known.instance.candidates_of(known.variable[transfer]).tolist()
            found = self._possible[key] = self._sorted(machines)
        return found

    def told_apart(
        self,
        options: GroupModes,
        wish: Hashable,
        demanded: Sequence[object] | None,
        ranks: Sequence[object] | None,
    ) -> list[MachineClass]:
        """Give the classes to which those tasks of a group may go that have the same wish.

        ``demanded`` and ``ranks``: what it says of each machine; None: the same of all.
        """
        found = self._possible.get((options, wish))
        if found is None:
            machines = [each for each in options.machines if demanded is None or demanded[each]]
            found = self._possible[options, wish] = self._sorted(machines, ranks)
        return found

    def classes(self, options: GroupModes) -> list[MachineClass]:
        """Give the classes to which tasks of a group may go; O(machines) at the first question."""
        found = self._possible.get(options)
        if found is None:
            found = self._possible[options] = self._sorted(options.machines)
        return found

    def _sorted(self, machines: Iterable[int], ranks: Sequence[object] | None = None) -> list[MachineClass]:
        """Sort machines by class, and by what else is thought of them."""
        by_class: dict[tuple[MachineClass, str], list[int]] = {}
        for machine in machines:
            rank = "" if ranks is None else repr(ranks[machine])
            by_class.setdefault((self._class_of[machine], rank), []).append(machine)
        return [
            alike if len(members) == len(alike.members) else self._part(members)
            for (alike, _), members in by_class.items()
        ]

    def _part(self, members: list[int]) -> MachineClass:
        """Give a part of a class; groups that may go to the same machines share it."""
        wanted = tuple(members)
        known = (alike for alike in self.all[members[0]].alike if alike.members == wanted)
        return next(known, None) or MachineClass(self.all, wanted)

    def __getitem__(self, index: int) -> MachineState:
        return self.all[index]

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[MachineState]:
        return iter(self.all)

    def on_host(self, host: int) -> Sequence[int]:
        """List the machines that are shares of a host, or the host itself."""
        return self._on_host[host]

    def is_usable(self, index: int) -> bool:
        """Say whether a machine may be used."""
        return self.all[index].usable

    @property
    def any_free(self) -> bool:
        """Say whether some machine that may be used has a free node."""
        return bool(self.free)

    @property
    def beliefs(self) -> tuple[float, ...]:
        """Give the believed speed factor of every machine, 0 if it is down; one object while it holds."""
        if self._beliefs is None:
            self._beliefs = tuple(state.speed_factor if state.up else 0.0 for state in self.all)
        return self._beliefs

    def take(self, attempt: Attempt) -> None:
        """Take an attempt's nodes and amounts."""
        state = self.all[attempt.machine]
        attempt.holds = True
        state.holders[attempt.number] = attempt
        state.free_nodes -= attempt.nodes
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] -= amount
        self._look_at(state)

    def give_back(self, attempt: Attempt) -> None:
        """Free what an attempt took."""
        if not attempt.holds:
            return
        state = self.all[attempt.machine]
        attempt.holds = False
        del state.holders[attempt.number]
        state.free_nodes += attempt.nodes
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] += amount
        self._look_at(state)

    def set_up(self, index: int, up: bool) -> None:
        """Note that a machine went or came back."""
        self.all[index].up = up
        self._beliefs = None
        self.set_usable(index, up)

    def set_usable(self, index: int, usable: bool) -> None:
        """Note whether a machine may be used from now on."""
        state = self.all[index]
        if state.usable != usable:
            for alike in state.alike:
                alike.set_usable(index, usable)
        state.usable = usable
        self._look_at(state)

    def believe(self, index: int, speed_factor: float, now: float) -> None:
        """Note how fast a machine is believed to be."""
        state = self.all[index]
        state.speed_factor, state.believed_at_s = speed_factor, now
        self._beliefs = None
        if speed_factor == 1.0:
            self.odd.discard(index)
        else:
            self.odd.add(index)
        self._look_at(state)

    def promise(self, index: int, units: int) -> None:
        """Note that so many units more are promised to a machine."""
        self.all[index].promised_units += units
        self.all[index].changed()

    def look_again(self) -> None:
        """Look at every machine anew, whatever has been done to them."""
        self._beliefs = None
        self.odd = {state.index for state in self.all if state.speed_factor != 1.0}
        for state in self.all:
            self.set_usable(state.index, state.up)

    def _look_at(self, state: MachineState) -> None:
        """Sort a machine by what is left of it."""
        before, after = state.left, state.left_now()
        if before != after:
            state.left = after
            for alike in state.alike:
                alike.rooms.move(state.index, before, after)
            if after is None:
                del self.free[state.index]
            elif before is None:
                self.free[state.index] = None
        if state.waits:
            state.changed()

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
