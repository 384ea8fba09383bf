"""Data on the way: what StageIn asks for moves over the network, or from where the user keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.instance.instance import Instance
from weft.simulation.agenda import Agenda
from weft.simulation.flows import Flows, Transfers, Unshared
from weft.simulation.host import Host
from weft.simulation.scenario import Scenario

__all__ = ["Staging"]


@dataclass(slots=True)
class _Stage:
    """What is on the way for one StageIn."""

    attempt: int
    part: int
    host: Host
    moved_bytes: float = 0.0
    flows: set[int] = field(default_factory=set)
    not_before_s: float = 0.0
    sources: dict[int, None] = field(default_factory=dict)
    """The machines from which data come."""
    lost: dict[int, None] = field(default_factory=dict)
    """Those that were down, or went down before all had come."""


class Staging:
    """All data under way."""

    def __init__(self, agenda: Agenda, scenario: Scenario, instance: Instance) -> None:
        self._agenda = agenda
        self._latency_s = scenario.stage_latency_s
        kind = Flows if scenario.network == "shared" else Unshared
        self._transfers: Transfers = kind(instance.platform, instance.machines)
        self._default_link = instance.platform.default_link
        self._flows: dict[int, _Stage] = {}
        self._stages: dict[tuple[int, int], _Stage] = {}
        self._numbers = count()

    @property
    def at_work(self) -> bool:
        """Say whether data are on the way."""
        return bool(self._stages)

    @property
    def busy(self) -> bool:
        """Say whether data are under way."""
        return bool(self._flows)

    def next_s(self) -> float:
        """Give a time before which nothing arrives."""
        return self._transfers.next_end() if self._flows else math.inf

    def stage_in(self, command: cm.StageIn, host: Host, host_of: Callable[[int], Host]) -> None:
        """Send for data; those on a host that is down cannot be had."""
        if (command.attempt, command.part) in self._stages:
            return
        stage = self._stages[command.attempt, command.part] = _Stage(command.attempt, command.part, host)
        now = latest = outside_s = self._agenda.now
        for parcel in command.parcels:
            if parcel.shared and parcel.name in host.cache:
                latest = max(latest, host.cache[parcel.name])
            elif parcel.source < 0:
                # What the user keeps comes over the user's own link, one file after the other.
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
                self._flows[flow] = stage
                self._transfers.start(
                    flow, parcel.source, command.machine, parcel.size_bytes, parcel.files, parcel.fixed_s, now
                )
        stage.not_before_s = latest
        if not stage.flows:
            self._agenda.put(latest + self._latency_s, partial(self._staged, stage))

    def arrive(self) -> None:
        """Let the data arrive that arrive now; the latency of a stage begins when its data are there."""
        now = self._agenda.now
        for flow in self._transfers.ended(now):
            stage = self._flows.pop(flow)
            stage.flows.discard(flow)
            if not stage.flows:
                self._agenda.put(max(now, stage.not_before_s) + self._latency_s, partial(self._staged, stage))

    def _staged(self, stage: _Stage) -> ev.Event | None:
        if self._stages.get((stage.attempt, stage.part)) is not stage:
            return None
        del self._stages[stage.attempt, stage.part]
        problem = "" if stage.host.up else "the machine does not answer"
        if stage.lost:
            problem = "a machine where data lie does not answer"
        return ev.StagedIn(
            attempt=stage.attempt,
            part=stage.part,
            problem=problem,
            moved_bytes=stage.moved_bytes,
            lost=tuple(sorted(stage.lost)),
        )

    def lose(self, machines: Container[int]) -> None:
        """Let what comes from machines that have gone down never arrive."""
        for stage in list(self._stages.values()):
            gone = [source for source in stage.sources if source in machines]
            if gone and stage.flows:
                stage.lost.update(dict.fromkeys(gone))
                for flow in sorted(stage.flows):
                    self._transfers.cancel(flow, self._agenda.now)
                    del self._flows[flow]
                stage.flows.clear()
                self._agenda.put(self._agenda.now + self._latency_s, partial(self._staged, stage))

    def give_up(self, attempt: int) -> None:
        """Forget what is on the way for an attempt."""
        for key in [key for key in self._stages if key[0] == attempt]:
            for flow in sorted(self._stages.pop(key).flows):
                self._transfers.cancel(flow, self._agenda.now)
                del self._flows[flow]
