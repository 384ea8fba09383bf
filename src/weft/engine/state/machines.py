"""The state of the machines: free capacity, queues, estimated speed."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from weft.engine.state.compiled import CompiledWorkflow, GroupModes
from weft.engine.state.indexes import (
    AvailabilityQueue,
    FreeCapacity,
    MachineClass,
    MachineLoad,
    to_seconds,
    to_units,
)
from weft.engine.states import Admission, Attempt, Demand, Stage
from weft.instance.instance import Instance

_MAX_SERVED = 64
"""Maximal number of queued attempts of a multi-node machine that are simulated one by one."""


_EXPLAINED = 1.1
"""A measured load explains a learned speed if it leaves at most this number times the learned speed."""

_Ends = list[tuple[float, int]]
"""The expected end and the number of nodes of each attempt."""

_Served = tuple[tuple[float, float, _Ends, list[tuple[float, int]]], _Ends, float, int, int]
"""Cached simulation of a queue: the input of ``_serve`` and its result.

The input consists of the time, the speed, the attempts that hold nodes, and the first attempts of the queue.
"""


class MeasuredValues(NamedTuple):
    """The values that were last measured on a machine; None: not measured."""

    load: float | None = None
    """Number of cores that programs other than weft's tasks keep busy or wait for."""
    free_memory_bytes: float | None = None
    free_disk_bytes: float | None = None


NOT_MEASURED = MeasuredValues()


class HostSilence(NamedTuple):
    """A time for which the host of a machine has not answered."""

    since_s: float
    """Time of its last sign of life."""
    lost_at_s: float | None
    """Time at which the machine will be reported as lost; None: never."""
    reason: str


class MachineState:
    """The state of one machine."""

    __slots__ = (
        "_served",
        "admission",
        "amounts",
        "awaited_by",
        "believed_at_s",
        "confirmed_factor",
        "counts_nodes",
        "described",
        "free_nodes",
        "has_amounts",
        "holders",
        "host",
        "index",
        "label",
        "lasting",
        "learned_factor",
        "left",
        "location",
        "machine_classes",
        "measured",
        "measured_factor",
        "name",
        "nodes",
        "promised_units",
        "queue",
        "queue_rule",
        "queued_nodes",
        "reason",
        "served_until_s",
        "service_s",
        "share_of",
        "silence",
        "speed_factor",
        "time_shared",
        "unlimited",
        "up",
        "usable",
        "waiting_units",
        "waits",
    )

    def __init__(self, instance: Instance, index: int) -> None:
        machine = instance.machines[index]
        self.described = machine
        """The machine's description in the platform."""
        self.measured = NOT_MEASURED
        """The values that were last measured on the machine."""
        self.admission = Admission.OPEN
        """Whether the user lets tasks start on the machine."""
        self.reason = ""
        """Why the machine is down; "": the machine is up, or the reason is unknown."""
        self.lasting = False
        """Whether the machine is down and not expected to come back by itself."""
        self.silence: HostSilence | None = None
        """The silence of its host; None: the host answers, or the machine is lost."""
        self.index = index
        self.name = machine.name
        self.label = machine.label
        """Name shown to users; the label of a share includes the name of the physical machine."""
        self.share_of = machine.host
        """Name of the physical machine if this machine is a share of its nodes; None: it is not a share."""
        self.nodes = machine.nodes
        self.free_nodes = machine.nodes
        """Number of nodes that are neither allocated nor reserved; negative if programs share nodes."""
        self.unlimited = machine.occupancy == "unlimited"
        self.time_shared = machine.is_time_shared
        """Whether any number of programs may share the nodes and slow each other down.

        Resource amounts are limited nevertheless.
        """
        self.counts_nodes = not (self.unlimited or self.time_shared)
        """Whether a node runs one task at a time."""
        self.service_s = 0.0
        """Only for a time-shared machine: the service for a program that has run since time 0.

        It is measured in seconds for which the program would have had its nodes to itself.
        """
        self.served_until_s = 0.0
        """Time to which ``service_s`` refers."""
        self.queue_rule = machine.queue
        self.amounts: dict[str, float] = dict(machine.amounts)
        """Free amounts of the machine's countable resources."""
        self.has_amounts = any(self.amounts.values())
        """Whether the machine has a positive amount of some countable resource."""
        self.up = True
        self.usable = True
        """Whether tasks may be assigned to the machine: it is up and has passed the required inquiries."""
        self.speed_factor = 1.0
        """Estimated speed relative to the platform's description."""
        self.learned_factor = 1.0
        """Speed factor that follows from the progress of attempts on the machine.

        1: the attempts show no slowness, or the load of the machine explains it.
        """
        self.confirmed_factor = 1.0
        """The learned speed factor that load does not explain.

        It differs from ``learned_factor`` while the next measurement may explain a lower learned factor.
        """
        self.measured_factor = 1.0
        """Speed factor that the last measured load of the machine leaves for a task."""
        self.believed_at_s = 0.0
        """Time of the last speed estimate."""
        self.holders: dict[int, Attempt] = {}
        """The attempts that hold nodes, in order of allocation."""
        self.awaited_by: dict[int, None] = {}
        """The running attempts that migrate to this machine as soon as enough nodes are free."""
        self.queue: list[tuple[float, int]] = []
        """(order, attempt number) of the attempts that are assigned to the machine and hold no nodes yet."""
        self.queued_nodes = 0
        """Number of nodes that all queued attempts need together."""
        self.waiting_units = 0
        """Node-seconds of all queued attempts at nominal speed, in units (``indexes.to_units``)."""
        self.promised_units = 0
        """Node-seconds of the tasks that are bound to the machine but not assigned yet, in units."""
        self._served: _Served | None = None
        self.location = int(instance.network.location[index])
        self.host = int(instance.network.host[index])
        self.machine_classes: list[MachineClass] = []
        """The class of machines with equal description and location, and subsets with this machine."""
        self.left: FreeCapacity | None = None
        """Free capacity of the machine as recorded in its classes; None: not usable, or no free node."""
        self.waits: list[AvailabilityQueue] = []
        """Queues to notify when the time at which the machine becomes free may have changed."""

    def free_capacity(self) -> FreeCapacity | None:
        """Return the free capacity of the machine; None: not usable, or no free node."""
        nodes = self.free_nodes if self.counts_nodes else self.nodes
        if nodes <= 0 or not self.usable or self.awaited_by:
            return None
        if self.time_shared:
            return (nodes, self.speed_factor, *self.amounts.values(), self.free_nodes)
        if self.speed_factor == 1.0 and not self.has_amounts:
            return nodes
        return (nodes, self.speed_factor, *self.amounts.values())

    def crowding(self, more: int = 0) -> float:
        """Return the factor by which programs on a time-shared machine slow each other down.

        On other machines it is 1. ``more``: nodes that a further program would take.
        """
        if not self.time_shared:
            return 1.0
        return max(1.0, (self.nodes - self.free_nodes + more) / self.nodes)

    def serve(self, now: float) -> None:
        """Update ``service_s`` of a time-shared machine to time ``now``.

        Call this before the number of programs on the machine changes.
        """
        self.service_s += (now - self.served_until_s) / self.crowding()
        self.served_until_s = now

    def begin_sharing(self, attempt: Attempt, now: float) -> None:
        """Record that the program of an attempt starts to share the machine."""
        self.serve(now)
        attempt.service_from_s = self.service_s
        self.expect_ends(now)

    def expect_ends(self, now: float) -> None:
        """Estimate the ends of all programs on a time-shared machine again, after their number changed."""
        slowness = self.crowding() / self.speed_factor
        for holder in self.holders.values():
            if holder.stage != Stage.ASSIGNED:
                left_s = max(0.0, holder.seconds - (self.service_s - holder.service_from_s))
                holder.expected_end_s = now + left_s * slowness

    def delay_s(self, attempt: Attempt, now: float) -> float:
        """Return the seconds by which other programs on a time-shared machine have delayed an attempt."""
        if not self.time_shared or attempt.started_s is None:
            return 0.0
        served_s = self.service_s + (now - self.served_until_s) / self.crowding() - attempt.service_from_s
        return max(0.0, now - attempt.started_s - served_s)

    def load(self) -> MachineLoad | None:
        """Return the expected end of the last attempt that holds nodes, and the seconds of the work after it.

        That work consists of queued attempts and of tasks bound to the machine. None: the machine is not
        usable.
        """
        if not self.usable or not self.counts_nodes:
            return (0.0, 0.0) if self.usable else None
        end_s = max((holder.expected_end_s for holder in self.holders.values()), default=0.0)
        behind = self.waiting_units + self.promised_units
        return end_s, to_seconds(behind) / self.speed_factor / self.nodes

    @property
    def promised_s(self) -> float:
        """Return the estimated seconds of the tasks that are bound to this machine but not assigned yet.

        These are their node-seconds divided by the number of nodes.
        """
        return to_seconds(self.promised_units) / self.speed_factor / self.nodes

    @property
    def unclaimed_nodes(self) -> int:
        """Return the number of free nodes that no queued attempt needs, at least 0."""
        return max(0, self.free_nodes - self.queued_nodes)

    def changed(self) -> None:
        """Notify the availability queues that the machine will be free at another time."""
        for waits in self.waits:
            waits.changed(self.index)

    def has_free_nodes(self, nodes: int) -> bool:
        """Return whether the machine is up and has this many free nodes."""
        return self.up and (not self.counts_nodes or self.free_nodes >= nodes)

    def enqueue(self, attempt: Attempt) -> None:
        """Add an attempt to the queue."""
        attempt.queued = True
        self.queue.insert(bisect_left(self.queue, attempt.turn), attempt.turn)
        self.queued_nodes += attempt.nodes
        self.waiting_units += to_units(attempt.seconds * attempt.nodes)
        self.changed()

    def dequeue(self, attempt: Attempt) -> None:
        """Remove an attempt from the queue."""
        attempt.queued = False
        del self.queue[bisect_left(self.queue, attempt.turn)]
        self.queued_nodes -= attempt.nodes
        self.waiting_units -= to_units(attempt.seconds * attempt.nodes)
        self.changed()

    def free_at_s(self, nodes: int, attempts: Mapping[int, Attempt], now: float) -> float:
        """Return the estimated time at which this many nodes are free after all queued attempts have started.

        On one node the queued attempts run one by one. On several nodes the first queued attempts are
        simulated in order, each starting when enough nodes are free; the work of all others is assumed to be
        spread evenly over all nodes. O(attempts with nodes), plus O(log attempts with nodes) per simulated
        attempt; the simulation is cached until something changes.
        """
        if not self.counts_nodes or (self.free_nodes >= nodes and not self.queue):
            return now
        ends = [(max(holder.expected_end_s, now), holder.nodes) for holder in self.holders.values()]
        first = self.queue[:_MAX_SERVED] if self.nodes > 1 else []
        key = (now, self.speed_factor, ends, first)
        if self._served is None or self._served[0] != key:
            self._served = (key, *self._serve(list(ends), [attempts[number] for _, number in first], now))
        _, left, at, free_nodes, units = self._served
        behind_s = to_seconds(self.waiting_units - units) / self.speed_factor / self.nodes
        return _advance_until_free(list(left), at, free_nodes, nodes)[0] + behind_s

    def _serve(self, ends: _Ends, waiting: list[Attempt], now: float) -> tuple[_Ends, float, int, int]:
        """Simulate queued attempts in order, given the (end, nodes) of the running attempts.

        Return the heap of (end, nodes) after the last start, the time of that start, the number of free nodes
        at that time, and the work of the queued attempts in units.
        """
        heapify(ends)
        at, free_nodes, units = now, self.nodes - sum(taken for _, taken in ends), 0
        for attempt in waiting:
            at, free_nodes = _advance_until_free(ends, at, free_nodes, attempt.nodes)
            free_nodes -= attempt.nodes
            heappush(ends, (at + attempt.seconds / self.speed_factor, attempt.nodes))
            units += to_units(attempt.seconds * attempt.nodes)
        return ends, at, free_nodes, units


def _advance_until_free(ends: _Ends, at: float, free_nodes: int, nodes: int) -> tuple[float, int]:
    """Pop a heap of (end, nodes) until ``nodes`` are free; return the time and the number of free nodes."""
    while free_nodes < nodes and ends:
        at, taken = heappop(ends)
        free_nodes += taken
    return at, free_nodes


class MachineStates:
    """The states of all machines, their classes, and an index of the machines with free nodes."""

    def __init__(self, instance: Instance) -> None:
        self.all = [MachineState(instance, index) for index in range(len(instance.machines))]
        self.now = 0.0
        """Time of the event that is being applied, in seconds of the engine's clock."""
        self.measured_within_s = inf
        """Seconds after which load that slowed an attempt has been measured; infinity: no limit is known."""
        self.off_nominal: set[int] = set()
        """Machines with an estimated speed other than nominal."""
        self.free: dict[int, None] = {}
        """The usable machines with a free node."""
        self._speed_factors: tuple[float, ...] | None = None
        for state in self.all:
            state.left = state.free_capacity()
            if state.left is not None:
                self.free[state.index] = None
        self._class_of = self._classes(instance)
        self._on_host: dict[int, list[int]] = {}
        for state in self.all:
            self._on_host.setdefault(state.host, []).append(state.index)
        self._possible: dict[Hashable, list[MachineClass]] = {}

    def _classes(self, instance: Instance) -> list[MachineClass]:
        """Create the classes of equivalent machines; return the class of each machine."""
        numbers: dict[tuple[str, int], list[int]] = {}
        for state, machine in zip(self.all, instance.machines, strict=True):
            # Shares of one host are not equivalent to other machines: no data move between the shares.
            alone = machine.host is not None
            text = repr(dataclasses.replace(machine, name=machine.name if alone else ""))
            # A machine without a site is its own site, but all such sites may have equal links.
            numbers.setdefault((text, state.location), []).append(state.index)
        for members in numbers.values():
            MachineClass(self.all, members)
        return [state.machine_classes[0] for state in self.all]

    def destinations(self, compiled: CompiledWorkflow, transfer: int) -> list[MachineClass]:
        """Return the candidate destinations of a transfer task as machine classes."""
        key = (compiled, compiled.candidate_set(transfer))
        if (found := self._possible.get(key)) is None:
            machines = compiled.instance.candidates_of(compiled.variable[transfer]).tolist()
            found = self._possible[key] = self._sorted(machines)
        return found

    def classes_for(
        self,
        options: GroupModes,
        key: Hashable,
        demanded: Sequence[object] | None,
        ranks: Sequence[object] | None,
    ) -> list[MachineClass]:
        """Return the machine classes for the tasks of a mode group that share a requirement and a rank.

        ``key`` identifies requirement and rank in the cache. ``demanded``: by machine, whether it meets the
        requirement; None: all machines meet it. ``ranks``: by machine, its rank; None: there is no rank.
        """
        if (found := self._possible.get((options, key))) is None:
            machines = [each for each in options.machines if demanded is None or demanded[each]]
            found = self._possible[options, key] = self._sorted(machines, ranks)
        return found

    def classes(self, options: GroupModes) -> list[MachineClass]:
        """Return the machine classes for the tasks of a mode group; O(machines) on the first call."""
        if (found := self._possible.get(options)) is None:
            found = self._possible[options] = self._sorted(options.machines)
        return found

    def _sorted(self, machines: Iterable[int], ranks: Sequence[object] | None = None) -> list[MachineClass]:
        """Return machines grouped by class and rank; a group may be a subset of a class."""
        by_class: dict[tuple[MachineClass, str], list[int]] = {}
        for machine in machines:
            rank = "" if ranks is None else repr(ranks[machine])
            by_class.setdefault((self._class_of[machine], rank), []).append(machine)
        return [
            machine_class if len(members) == len(machine_class.members) else self._part(members)
            for (machine_class, _), members in by_class.items()
        ]

    def _part(self, members: list[int]) -> MachineClass:
        """Return the machine class with exactly these members; create it if it does not exist."""
        wanted = tuple(members)
        existing = (
            machine_class
            for machine_class in self.all[members[0]].machine_classes
            if machine_class.members == wanted
        )
        return next(existing, None) or MachineClass(self.all, wanted)

    def __getitem__(self, index: int) -> MachineState:
        return self.all[index]

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[MachineState]:
        return iter(self.all)

    def on_host(self, host: int) -> Sequence[int]:
        """Return the machines on a host: its shares or, if it has none, the host itself."""
        return self._on_host[host]

    def is_usable(self, index: int) -> bool:
        """Return whether a machine is usable."""
        return self.all[index].usable

    @property
    def speed_factors(self) -> tuple[float, ...]:
        """Return the estimated speed factor of every machine, 0 if it is down; cached until a change."""
        if self._speed_factors is None:
            self._speed_factors = tuple(state.speed_factor if state.up else 0.0 for state in self.all)
        return self._speed_factors

    def take(self, attempt: Attempt) -> None:
        """Allocate the nodes and resource amounts of an attempt on its machine."""
        state = self.all[attempt.machine]
        if state.time_shared:
            state.serve(self.now)
        attempt.holds = True
        state.holders[attempt.number] = attempt
        state.free_nodes -= attempt.nodes
        if state.time_shared:
            state.expect_ends(self.now)
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] -= amount
        self._update(state)

    def release_nodes(self, attempt: Attempt) -> None:
        """Free the nodes and resource amounts of an attempt, if it holds any."""
        if not attempt.holds:
            return
        state = self.all[attempt.machine]
        if state.time_shared:
            state.serve(self.now)
        attempt.holds = False
        del state.holders[attempt.number]
        state.free_nodes += attempt.nodes
        if state.time_shared:
            state.expect_ends(self.now)
        for name, amount in attempt.demand:
            if name in state.amounts:
                state.amounts[name] += amount
        self._update(state)

    def await_nodes(self, attempt: Attempt, machine: int | None) -> None:
        """Keep the nodes that become free on a machine for an attempt; end this if ``machine`` is None."""
        if attempt.awaited_machine is not None:
            before = self.all[attempt.awaited_machine]
            before.awaited_by.pop(attempt.number, None)
            self._update(before)
        attempt.awaited_machine = machine
        if machine is not None:
            self.all[machine].awaited_by[attempt.number] = None
            self._update(self.all[machine])

    def set_up(self, index: int, up: bool) -> None:
        """Set whether a machine is up."""
        self.all[index].up = up
        self._speed_factors = None
        self.set_usable(index, up)

    def set_usable(self, index: int, usable: bool) -> None:
        """Set whether a machine is usable."""
        state = self.all[index]
        if state.usable != usable:
            for machine_class in state.machine_classes:
                machine_class.set_usable(index, usable)
        state.usable = usable
        self._update(state)

    def set_speed(self, index: int, speed_factor: float, now: float, *, learned: bool = False) -> None:
        """Set the estimated speed of a machine; ``learned``: it follows from the progress of an attempt."""
        state = self.all[index]
        if now > state.believed_at_s + self.measured_within_s:
            state.confirmed_factor = state.learned_factor
        state.believed_at_s = now
        state.learned_factor = speed_factor if learned else 1.0
        state.confirmed_factor = max(state.confirmed_factor, state.learned_factor)
        self._change_speed(state, speed_factor)

    def _change_speed(self, state: MachineState, speed_factor: float) -> None:
        state.speed_factor = speed_factor
        self._speed_factors = None
        if speed_factor == 1.0:
            self.off_nominal.discard(state.index)
        else:
            self.off_nominal.add(state.index)
        self._update(state)

    def set_measured(
        self, index: int, measured: MeasuredValues, speed_factor: float | None, now: float
    ) -> None:
        """Set the values measured on a machine; ``speed_factor``: speed that its load leaves for a task.

        The estimated speed is the lower of this speed and the speed learned from the progress of attempts.
        Only the first measurement after a lower speed was learned may explain it, if it is not late: then the
        learned speed is again what it was before. Load that is measured later did not slow the attempt.
        """
        state = self.all[index]
        state.measured = measured
        if speed_factor is None:
            return
        state.measured_factor = speed_factor
        if (
            speed_factor <= _EXPLAINED * state.learned_factor
            and now <= state.believed_at_s + self.measured_within_s
        ):
            state.learned_factor = state.confirmed_factor
        else:
            state.confirmed_factor = state.learned_factor
        if state.learned_factor == 1.0:
            state.believed_at_s = now
        self._change_speed(state, min(speed_factor, state.learned_factor))

    def forget_speed(self, index: int, now: float) -> None:
        """Replace the learned speed of a machine by the measured speed."""
        self.set_speed(index, self.all[index].measured_factor, now)

    def promise(self, index: int, units: int) -> None:
        """Add units to the work that is bound to a machine but not assigned yet."""
        self.all[index].promised_units += units
        self.all[index].changed()

    def rebuild(self) -> None:
        """Recompute all indexes, after a state was restored."""
        self._speed_factors = None
        self.off_nominal = {state.index for state in self.all if state.speed_factor != 1.0}
        for state in self.all:
            self.set_usable(state.index, state.up)

    def _update(self, state: MachineState) -> None:
        """Move a machine to the group of its current free capacity."""
        before, after = state.left, state.free_capacity()
        if before != after:
            state.left = after
            for machine_class in state.machine_classes:
                machine_class.by_capacity.move(state.index, before, after)
            if after is None:
                del self.free[state.index]
            elif before is None:
                self.free[state.index] = None
        if state.waits:
            state.changed()

    def fits(self, index: int, nodes: int, demand: Demand) -> bool:
        """Return whether a machine is up and has these nodes and resource amounts free now."""
        state = self.all[index]
        if not state.up or state.unlimited:
            return state.up
        if state.counts_nodes and state.free_nodes < nodes:
            return False
        for name, amount in demand:
            left = state.amounts.get(name)
            # Tolerance: repeated allocation and release may leave rounding errors.
            if left is not None and amount > left * (1 + 1e-9) + 1e-9:
                return False
        return True
