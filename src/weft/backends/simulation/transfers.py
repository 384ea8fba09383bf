"""Simulate data transfers over links with shared or unshared bandwidth, and the staging of attempts.

``SharedTransfers`` computes max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks,
section 6.5.2). Transfers share the bandwidth of a link as the platform describes it. All transfers over a
pair of ``links.between``, in both directions, share one link. All transfers inside a site share the link of
the site. Where the default link applies, all transfers between the same two sites share one such link (a
machine without a site is its own site). Platforms describe no uplinks of single machines, so a transfer uses
one link and filling ends after one step: n transfers on a link get 1/n of its bandwidth each. A transfer
first waits for its fixed seconds and one latency per file, without using bandwidth. Transfers within one host
take no time.

Every link counts the bytes that it has served to each of its transfers since it was last idle. A transfer of
s bytes that joins at count b ends at count b + s, however many others start and end meanwhile. A start or an
end costs O(log transfers).

``UnsharedTransfers`` is the assumption of the planners: every transfer has the full bandwidth of its link.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

from weft.backends.simulation.scenario import Scenario
from weft.backends.simulation.state import EventQueue, Host
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.instance.instance import Instance
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, find_link

_Value = TypeVar("_Value")


class Transfers(Protocol):
    """Interface of the transfers in progress.

    ``now`` must never decrease. Machines have the same indices as in planners.
    """

    def start(self, flow: int, source: int, target: int, size_bytes: float, files: float, fixed_s: float,
              now: float) -> None:  # fmt: skip
        """Start a transfer; ``flow`` must differ from the numbers of all transfers in progress.

        Before the transfer uses bandwidth, it waits for ``fixed_s`` and for one latency per file.
        """
        ...

    def cancel(self, flow: int, now: float) -> None:
        """Cancel a transfer if it is in progress; then ``ended`` will not return it."""
        ...

    def advance(self, now: float) -> None:
        """Process all starts and ends of transfers up to ``now``."""
        ...

    def next_end(self) -> float:
        """Return a lower bound of the time at which the next transfer ends; infinity: none is in progress.

        The bound may be the time of another change: advance to it and call again.
        """
        ...

    def ended(self, now: float) -> list[int]:
        """Advance to ``now``; return the transfers that ended since the last call, by time, then by start."""
        ...


class UnsharedTransfers:
    """Transfers that each have the full bandwidth of their link."""

    def __init__(self, platform: Platform, machines: Sequence[Machine]) -> None:
        self._links = _LinkTable(platform, machines)
        self._ends: list[tuple[float, int, int]] = []
        self._begun: dict[int, int] = {}
        self._count = 0

    def start(self, flow: int, source: int, target: int, size_bytes: float, files: float, fixed_s: float,
              now: float) -> None:  # fmt: skip
        """Start a transfer."""
        found = self._links.between(source, target)
        # The same sum in the same order as in the planners, so that an undisturbed run ends exactly as
        # planned.
        end_s = now
        if found is not None:
            link = found[1]
            end_s = now + (fixed_s + files * link.latency_s + size_bytes * (1.0 / link.bandwidth_Bps))
        self._count += 1
        _register(self._begun, flow, self._count)
        heapq.heappush(self._ends, (end_s, self._count, flow))

    def cancel(self, flow: int, now: float) -> None:  # noqa: ARG002 -- of the contract
        """Cancel a transfer, even if it ends now."""
        self._begun.pop(flow, None)

    def advance(self, now: float) -> None:
        """Do nothing: the end of a transfer is fixed at its start."""

    def next_end(self) -> float:
        """Return the time of the next end."""
        while self._ends and self._begun.get(self._ends[0][2]) != self._ends[0][1]:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else math.inf

    def ended(self, now: float) -> list[int]:
        """Return the transfers that ended by ``now`` and were not returned before, in order of time."""
        found: list[int] = []
        while self.next_end() <= now:
            flow = heapq.heappop(self._ends)[2]
            del self._begun[flow]
            found.append(flow)
        return found


class SharedTransfers:
    """Transfers that share the bandwidth of their links fairly."""

    def __init__(self, platform: Platform, machines: Sequence[Machine]) -> None:
        self._links = _LinkTable(platform, machines)
        self._queues: dict[Hashable, _LinkQueue] = {}
        self._order: list[_LinkQueue] = []
        self._under_way: dict[int, _OngoingTransfer] = {}
        self._changes: list[tuple[float, int]] = []
        """Heap of (time, queue number); an entry that differs from its queue's ``next_s`` is stale."""
        self._ended: list[tuple[float, int, int]] = []
        self._count = 0

    def start(self, flow: int, source: int, target: int, size_bytes: float, files: float, fixed_s: float,
              now: float) -> None:  # fmt: skip
        """Start a transfer."""
        found = self._links.between(source, target)
        self._count += 1
        if found is None:
            begun = _OngoingTransfer(flow, self._count, self._queue(None, 0.0), 0.0, now)
        else:
            key, link = found
            wait_s = fixed_s + files * link.latency_s
            queue = self._queue(key, 1.0 / link.bandwidth_Bps)
            begun = _OngoingTransfer(flow, self._count, queue, size_bytes, now + wait_s)
        _register(self._under_way, flow, begun)
        heapq.heappush(begun.queue.waiting, (begun.ready_s, begun.number, begun))
        self._changed(begun.queue)

    def cancel(self, flow: int, now: float) -> None:
        """Cancel a transfer, even if it ended since the last call of ``ended``."""
        self.advance(now)
        if (begun := self._under_way.pop(flow, None)) is not None:
            begun.queue.drop(begun, now)
            self._changed(begun.queue)
        else:
            self._ended = [entry for entry in self._ended if entry[2] != flow]

    def left_bytes(self, flow: int, now: float) -> float:
        """Return the bytes of a transfer that have not arrived; 0 after its end."""
        self.advance(now)
        begun = self._under_way.get(flow)
        return 0.0 if begun is None else begun.queue.left_bytes(begun, now)

    def advance(self, now: float) -> None:
        """Process, in order of time, all transfers that join a link or end up to ``now``."""
        while self._changes and self._changes[0][0] <= now:
            at_s, number = heapq.heappop(self._changes)
            queue = self._order[number]
            if queue.next_s != at_s:
                continue
            if (done := queue.step()) is not None:
                del self._under_way[done.flow]
                self._ended.append((at_s, done.number, done.flow))
            self._changed(queue)

    def next_end(self) -> float:
        """Return the time at which a transfer next ends or starts to use bandwidth; infinity: never."""
        if self._ended:
            return self._ended[0][0]
        while self._changes and self._order[self._changes[0][1]].next_s != self._changes[0][0]:
            heapq.heappop(self._changes)
        return self._changes[0][0] if self._changes else math.inf

    def ended(self, now: float) -> list[int]:
        """Return the transfers that ended by ``now`` and were not returned before, in order of time."""
        self.advance(now)
        found, self._ended = sorted(self._ended), []
        return [flow for _, _, flow in found]

    def _queue(self, key: Hashable, inverse_bandwidth: float) -> _LinkQueue:
        if (queue := self._queues.get(key)) is None:
            queue = self._queues[key] = _LinkQueue(len(self._order), inverse_bandwidth)
            self._order.append(queue)
        return queue

    def _changed(self, queue: _LinkQueue) -> None:
        """Push the time of a queue's next change to the heap, after the queue has changed."""
        queue.look_ahead()
        if queue.next_s < math.inf:
            heapq.heappush(self._changes, (queue.next_s, queue.number))


class _OngoingTransfer:
    __slots__ = ("done_at_bytes", "dropped", "flow", "number", "queue", "ready_s", "size_bytes")

    def __init__(self, flow: int, number: int, queue: _LinkQueue, size_bytes: float, ready_s: float) -> None:
        self.flow, self.number, self.queue = flow, number, queue
        self.size_bytes, self.ready_s = size_bytes, ready_s
        self.done_at_bytes: float | None = None
        """Value of the queue's byte count at which this transfer ends; None: not on the link yet."""
        self.dropped = False


class _LinkQueue:
    __slots__ = ("_count", "_served_bytes", "_since_s", "inverse_bandwidth", "moving", "next_s", "number",
                 "waiting")  # fmt: skip

    def __init__(self, number: int, inverse_bandwidth: float) -> None:
        self.number = number
        self.inverse_bandwidth = inverse_bandwidth
        self.waiting: list[tuple[float, int, _OngoingTransfer]] = []
        self.moving: list[tuple[float, int, _OngoingTransfer]] = []
        self.next_s = math.inf
        self._count = 0
        """Number of transfers that use bandwidth."""
        self._served_bytes = 0.0
        """Bytes served to each transfer since the link was last idle, at time ``_since_s``."""
        self._since_s = 0.0
        """Time of the last update of ``_served_bytes``."""

    def look_ahead(self) -> None:
        """Recompute ``next_s``, the time at which a transfer next ends or joins the link."""
        for heap in (self.waiting, self.moving):
            while heap and heap[0][2].dropped:
                heapq.heappop(heap)
        ready_s = self.waiting[0][0] if self.waiting else math.inf
        self.next_s = min(self._end_s(), ready_s)

    def _end_s(self) -> float:
        if not self.moving:
            return math.inf
        left = max(self.moving[0][0] - self._served_bytes, 0.0)  # may be slightly negative by rounding
        return self._since_s + left * self._count * self.inverse_bandwidth

    def step(self) -> _OngoingTransfer | None:
        """Process the next change; return the transfer that ends by this change, or None."""
        if self._end_s() == self.next_s:
            done_at_bytes, _, done = heapq.heappop(self.moving)
            self._served_bytes, self._since_s = done_at_bytes, self.next_s
            self._count -= 1
            return done
        _, _, joining = heapq.heappop(self.waiting)
        if joining.size_bytes * self.inverse_bandwidth <= 0.0:
            return joining
        self._serve(joining.ready_s)
        self._count += 1
        joining.done_at_bytes = self._served_bytes + joining.size_bytes
        heapq.heappush(self.moving, (joining.done_at_bytes, joining.number, joining))
        return None

    def drop(self, flow: _OngoingTransfer, now: float) -> None:
        """Mark a transfer as dropped; its heap entry is removed when it reaches the top of the heap."""
        if flow.done_at_bytes is not None:
            self._serve(now)
            self._count -= 1
        flow.dropped = True

    def left_bytes(self, flow: _OngoingTransfer, now: float) -> float:
        """Return the bytes of a transfer that have not arrived."""
        if flow.done_at_bytes is None:
            return flow.size_bytes
        return max(flow.done_at_bytes - self._served_by(now), 0.0)

    def _served_by(self, now: float) -> float:
        if self._count == 0:
            return 0.0  # the count restarts on an idle link
        return self._served_bytes + (now - self._since_s) / (self._count * self.inverse_bandwidth)

    def _serve(self, now: float) -> None:
        self._served_bytes, self._since_s = self._served_by(now), now


class _LinkTable:
    """The links between machines, cached by pair of machines."""

    def __init__(self, platform: Platform, machines: Sequence[Machine]) -> None:
        self._platform, self._machines = platform, machines
        self._known: dict[tuple[int, int], tuple[Hashable, Link] | None] = {}

    def between(self, source: int, target: int) -> tuple[Hashable, Link] | None:
        """Return the link between two machines and its key; None if both machines are on one host."""
        pair = (source, target)
        if pair not in self._known:
            machines = self._machines
            self._known[pair] = find_link(self._platform, machines[source], machines[target])
        return self._known[pair]


def _register(known: dict[int, _Value], flow: int, value: _Value) -> None:
    if flow in known:
        raise ValueError(f"transfer {flow} is already in progress")
    known[flow] = value


@dataclass(slots=True)
class _PendingStage:
    """The transfers of one StageIn command that has not ended."""

    attempt: int
    part: int
    host: Host
    moved_bytes: float = 0.0
    flows: set[int] = field(default_factory=set)
    not_before_s: float = 0.0
    sources: dict[int, None] = field(default_factory=dict)
    """The machines from which data are transferred, as keys."""
    lost: dict[int, None] = field(default_factory=dict)
    """Source machines that were down, or that failed before all data of the stage had arrived, as keys."""


class DataStaging:
    """Simulates the StageIn commands in progress."""

    def __init__(self, queue: EventQueue, scenario: Scenario, instance: Instance) -> None:
        self._queue = queue
        self._latency_s = scenario.stage_latency_s
        kind = SharedTransfers if scenario.network == "shared" else UnsharedTransfers
        self._transfers: Transfers = kind(instance.platform, instance.machines)
        self._default_link = instance.platform.default_link
        self.flows: dict[int, _PendingStage] = {}
        self._stages: dict[tuple[int, int], _PendingStage] = {}
        self._numbers = count()

    @property
    def busy(self) -> bool:
        """Return whether any StageIn command is in progress."""
        return bool(self._stages)

    def next_s(self) -> float:
        """Return a lower bound of the time at which the next transfer ends; infinity: none is in progress."""
        return self._transfers.next_end() if self.flows else math.inf

    def stage_in(self, command: cm.StageIn, host: Host, host_of: Callable[[int], Host]) -> None:
        """Start the transfers of a StageIn command; sources on failed hosts are recorded as lost.

        ``host_of`` returns the host of a machine. A command that is repeated has no effect.
        """
        if (command.attempt, command.part) in self._stages:
            return
        stage = self._stages[command.attempt, command.part] = _PendingStage(
            command.attempt, command.part, host
        )
        now = latest = outside_s = self._queue.now_s
        for parcel in command.parcels:
            if parcel.shared and parcel.name in host.cache:
                latest = max(latest, host.cache[parcel.name])
            elif parcel.source < 0:
                # The user's own files come over the default link, one after the other.
                link = self._default_link
                outside_s += link.latency_s * parcel.files + parcel.size_bytes / link.bandwidth_Bps
                latest = max(latest, outside_s)
                stage.moved_bytes += parcel.size_bytes
                if parcel.shared:
                    host.cache[parcel.name] = outside_s
            elif not host_of(parcel.source).up:
                stage.lost[parcel.source] = None
            else:
                stage.moved_bytes += parcel.size_bytes
                stage.sources[parcel.source] = None
                flow = next(self._numbers)
                stage.flows.add(flow)
                self.flows[flow] = stage
                self._transfers.start(
                    flow, parcel.source, command.machine, parcel.size_bytes, parcel.files, parcel.fixed_s, now
                )
        stage.not_before_s = latest
        if not stage.flows:
            self._queue.put(latest + self._latency_s, partial(self._staged, stage))

    def arrive(self) -> None:
        """Process the transfers that end now; when all data of a stage have arrived, its latency starts."""
        now = self._queue.now_s
        for flow in self._transfers.ended(now):
            stage = self.flows.pop(flow)
            stage.flows.discard(flow)
            if not stage.flows:
                self._queue.put(max(now, stage.not_before_s) + self._latency_s, partial(self._staged, stage))

    def _staged(self, stage: _PendingStage) -> ev.Event | None:
        if self._stages.get((stage.attempt, stage.part)) is not stage:
            return None
        del self._stages[stage.attempt, stage.part]
        problem = "" if stage.host.up else "the machine does not answer"
        if stage.lost:
            problem = "a machine that holds the data does not answer"
        return ev.StagedIn(
            attempt=stage.attempt,
            part=stage.part,
            problem=problem,
            moved_bytes=stage.moved_bytes,
            lost=tuple(sorted(stage.lost)),
        )

    def lose(self, machines: Container[int]) -> None:
        """Abort all transfers of each stage that still waits for data from one of these failed machines."""
        for stage in list(self._stages.values()):
            gone = [source for source in stage.sources if source in machines]
            if gone and stage.flows:
                stage.lost.update(dict.fromkeys(gone))
                for flow in sorted(stage.flows):
                    self._transfers.cancel(flow, self._queue.now_s)
                    del self.flows[flow]
                stage.flows.clear()
                self._queue.put(self._queue.now_s + self._latency_s, partial(self._staged, stage))

    def cancel_stages(self, attempt: int) -> None:
        """Cancel all stages of an attempt."""
        for key in [key for key in self._stages if key[0] == attempt]:
            for flow in sorted(self._stages.pop(key).flows):
                self._transfers.cancel(flow, self._queue.now_s)
                del self.flows[flow]
