"""The simulation backend: executes commands on simulated machines, under a virtual clock.

A scenario determines what happens: true durations, slowdowns and failures of machines, shared networks. The
estimates of the engine have no influence on what happens. Events at equal times are ordered by their causes,
so that the same seed gives the same run everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from weft.backends.backend import BackendContext, Capabilities, RecoveredAttempt
from weft.backends.simulation.disturbances import Disturbance, DisturbanceKind, generate_disturbances
from weft.backends.simulation.programs import ProgramSimulator
from weft.backends.simulation.scenario import UNDISTURBED, Scenario, match_positions
from weft.backends.simulation.state import EventQueue, Host
from weft.backends.simulation.transfers import DataStaging
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.states import Cause
from weft.errors import InvalidInput
from weft.platform.machine import Machine

_MAX_DISTURBANCES = 100_000
"""Number of disturbances without progress (see ``_shows_progress``) after which a simulation fails."""
_MAX_SILENT_DISTURBANCES = 10_000
"""Number of successive disturbances without an event after which a simulation ends if nothing is queued."""


def _shows_progress(event: ev.Event) -> bool:
    """Return whether an event reports a new run or a program that ended by itself.

    All other events can repeat forever without any progress.
    """
    return isinstance(event, ev.Submitted) or (isinstance(event, ev.Ended) and event.cause == Cause.NONE)


class SimulationBackend:
    """Machines, networks and programs that behave as described by a scenario."""

    kind: ClassVar[str] = "simulation"
    capabilities: ClassVar[Capabilities] = Capabilities(
        runs_programs=False,
        virtual_time=True,
        reattaches=False,
        limits_time=True,
        limits_memory=False,
        signals=False,
        own_disk=True,
    )

    def __init__(
        self,
        context: BackendContext,
        *,
        scenario: Scenario = UNDISTURBED,
        seed: int = 0,
        reports_machines: bool = True,
    ) -> None:
        """Create the backend with the clock at 0 s and an idle platform.

        ``reports_machines`` says whether failures of machines are reported as events; if it is False, the
        engine finds failures by probing.
        """
        instance = context.instance
        self._scenario = scenario
        self._reports = reports_machines
        self._host_of: list[int] = instance.network.host.tolist()
        self._hosts = [Host(index) for index in range(max(self._host_of, default=-1) + 1)]
        self._machines_of: list[list[int]] = [[] for _ in self._hosts]
        for machine, host in enumerate(self._host_of):
            self._machines_of[host].append(machine)
            if instance.machines[machine].is_time_shared:  # such a machine has no virtual shares
                self._hosts[host].shared_nodes = instance.machines[machine].nodes
        names = [machine.name for machine in instance.machines]
        self._denied = frozenset(match_positions(scenario.denied, names))
        self.clock = self._queue = EventQueue()
        """The virtual clock."""
        self._disturbed = 0
        """Number of disturbances since the last event that shows progress."""
        self._staging = DataStaging(self._queue, scenario, instance)
        self._programs = ProgramSimulator(
            self._queue,
            scenario,
            self._hosts,
            context.compiled_workflow,
            seed,
            always_reports=reports_machines,
        )
        self._actions: dict[type, Callable[[Any], None]] = {
            cm.StageIn: self._stage_in,
            cm.Start: self._start,
            cm.Cancel: self._cancel,
            cm.StageOut: self._stage_out,
            cm.CleanUp: self._clean_up,
            cm.Probe: self._probe,
            cm.Discover: self._discover,
            cm.Fetch: self._fetch,
            cm.SelectMachines: self._select,
        }
        self._disturbances = generate_disturbances(scenario, instance.platform.machines, seed)
        self._next: Disturbance | None = next(self._disturbances, None)

    @staticmethod
    def check_machines(machines: Iterable[Machine]) -> None:
        """Accept all machines: a simulated machine has no settings."""

    def execute(self, commands: Sequence[cm.Command]) -> None:
        """Start executing commands; ``poll`` reports the outcome."""
        for command in commands:
            if (action := self._actions.get(type(command))) is not None:
                action(command)

    def poll(self, timeout_s: float) -> list[ev.Event]:  # noqa: ARG002 -- virtual time does not wait
        """Advance the clock to the next event and return it; an empty list means that no event is left.

        At equal times, disturbances come before ends of transfers, and these before queued events. An endless
        stream of disturbances does not keep a simulation alive: if nothing else is queued, many disturbances
        in a row without an event count as the end.
        """
        queue, staging = self._queue, self._staging
        silent = 0
        while self._next is not None or staging.flows:
            queued, moving = queue.next_s(), staging.next_s()
            disturbed = self._next.at_s if self._next is not None else math.inf
            silent += queued == moving == math.inf
            if silent > _MAX_SILENT_DISTURBANCES:
                return []
            if disturbed <= queued and disturbed <= moving and disturbed < math.inf:
                queue.now_s = max(queue.now_s, disturbed)
                self._disturb()
            elif moving <= queued and moving < math.inf:
                queue.now_s = max(queue.now_s, moving)
                staging.arrive()
            elif queued < math.inf:
                if (event := queue.take()) is not None:
                    if _shows_progress(event):
                        self._disturbed = 0
                    return [event]
            else:
                return []
        while queue.heap:
            if (event := queue.take()) is not None:
                return [event]
        return []

    def _select(self, command: cm.SelectMachines) -> None:
        """Answer with the candidates in their order (by rank and estimated end); no selector program runs."""
        order = tuple(each.machine for each in command.candidates)
        self._queue.schedule(ev.MachinesSelected(run=command.run, task=command.task, machines=order))

    def inspect(self, machine: int) -> str:  # noqa: ARG002
        """Return "", because failures of simulated machines are not known in advance."""
        return ""

    def confirm_ends(self, attempts: Sequence[int]) -> None:
        """Do nothing: ends of simulated programs are not stored."""

    def find(self, attempts: Sequence[RecoveredAttempt]) -> None:
        """Report all attempts as lost: simulated programs do not survive their process."""
        for attempt in attempts:
            self._queue.schedule(ev.Ended(attempt=attempt.attempt, exit_code=None, cause=Cause.LOST))

    def wake(self) -> None:
        """Do nothing: ``poll`` never waits."""

    @property
    def busy(self) -> bool:
        """Return whether any program is computing or any data are being staged."""
        return self._staging.busy or self._programs.busy

    @property
    def has_programs(self) -> bool:
        """Return whether any program is computing."""
        return self._programs.busy

    def halt(self, most_s: float = math.inf) -> float:  # noqa: ARG002 -- simulated programs end at once
        """Cancel all simulated programs; return 0, because they need no real time to end."""
        for attempt in list(self._programs.programs):
            self._programs.cancel(attempt)
        return 0.0

    def close(self, *, stop: bool) -> None:
        """Do nothing: there is nothing to release."""

    def _host(self, machine: int) -> Host:
        return self._hosts[self._host_of[machine]]

    def _stage_in(self, command: cm.StageIn) -> None:
        self._staging.stage_in(command, self._host(command.machine), self._host)

    def _start(self, command: cm.Start) -> None:
        self._programs.start(command, self._host(command.machine))

    def _cancel(self, command: cm.Cancel) -> None:
        self._staging.cancel_stages(command.attempt)
        if self._host(command.machine).up:
            self._programs.cancel(command.attempt)

    def _stage_out(self, command: cm.StageOut) -> None:
        at_s = self._queue.now_s + self._scenario.stage_latency_s
        self._queue.schedule(ev.StagedOut(attempt=command.attempt), at_s)

    def _clean_up(self, command: cm.CleanUp) -> None:
        if self._host(command.machine).up:
            at_s = self._queue.now_s + self._scenario.stage_latency_s / 2.0
            self._queue.schedule(ev.CleanedUp(attempt=command.attempt), at_s)
        else:
            self._queue.schedule(ev.CleanedUp(attempt=command.attempt, problem="the machine does not answer"))

    def _probe(self, command: cm.Probe) -> None:
        if command.of == "progress" and command.attempt is not None:
            self._programs.report_progress(command.attempt)
        elif command.of == "reattach" and command.attempt is not None:
            self._programs.reattach(command.attempt)
        elif command.machine is not None:
            alive = self._answer(command)
            self._queue.schedule(
                ev.ProbeAnswered(of=command.of, alive=alive, attempt=command.attempt, machine=command.machine)
            )

    def _answer(self, command: cm.Probe) -> bool:
        assert command.machine is not None
        host = self._host(command.machine)
        if command.of == "job" and command.attempt is not None:
            return self._programs.has_job(command.attempt) and self._programs.answers(command.attempt, host)
        return host.answers("gatekeeper") and not (command.of == "access" and command.machine in self._denied)

    def _discover(self, command: cm.Discover) -> None:  # noqa: ARG002 -- the command has no fields
        machines = range(len(self._host_of))
        up = tuple(machine for machine in machines if self._host(machine).up)
        self._queue.schedule(ev.Discovered(machines=up))

    def _fetch(self, command: cm.Fetch) -> None:
        host = self._host(command.machine)
        if host.answers("gatekeeper"):
            self._queue.schedule(
                ev.Fetched(
                    machine=command.machine,
                    speed_factor=host.speed.outside_share,
                    load=float(host.speed.processes),
                )
            )

    def _disturb(self) -> None:
        item = self._next
        assert item is not None
        self._disturbed += 1
        if self._disturbed > _MAX_DISTURBANCES:
            what = f"{_MAX_DISTURBANCES:,} disturbances until {item.at_s:g} s, while no task made progress"
            advice = "shorten `lasting`, lengthen `every`, or state `until`"
            rule = "slowdowns and failures must leave tasks time to make progress"
            raise InvalidInput(what, rule=rule, advice=advice)
        self._next = next(self._disturbances, None)
        host, now = self._hosts[item.machine], self._queue.now_s
        match item.what:
            case DisturbanceKind.SLOWED:
                host.speed.slow(item.value, now)
            case DisturbanceKind.RELIEVED:
                host.speed.relieve(item.value, now)
            case DisturbanceKind.LOADED:
                host.speed.load(int(item.value), now)
            case DisturbanceKind.UNLOADED:
                host.speed.unload(int(item.value), now)
            case DisturbanceKind.FAILED:
                self._fail(host)
            case DisturbanceKind.REPAIRED:
                self._repair(host)
            case DisturbanceKind.JOB_MANAGER_SILENT | DisturbanceKind.JOB_MANAGER_BACK:
                host.silent["job-manager"] += 1 if item.what is DisturbanceKind.JOB_MANAGER_SILENT else -1
                if host.answers("job-manager"):
                    self._programs.deliver_pending(host)
            case DisturbanceKind.GATEKEEPER_SILENT | DisturbanceKind.GATEKEEPER_BACK:
                host.silent["gatekeeper"] += 1 if item.what is DisturbanceKind.GATEKEEPER_SILENT else -1
        if item.what in _CHANGES_SPEED:
            self._programs.speed_changed(host)

    def _fail(self, host: Host) -> None:
        host.failures += 1
        if host.failures == 1:
            self._programs.lose(host)
            host.cache.clear()
            self._report_state(host)
            self._staging.lose(self._machines_of[host.index])

    def _repair(self, host: Host) -> None:
        host.failures -= 1
        if host.failures == 0:
            self._report_state(host)

    def _report_state(self, host: Host) -> None:
        if self._reports:
            for machine in self._machines_of[host.index]:
                self._queue.schedule(ev.MachineChanged(machine=machine, up=host.up))


_CHANGES_SPEED = (
    DisturbanceKind.SLOWED,
    DisturbanceKind.RELIEVED,
    DisturbanceKind.LOADED,
    DisturbanceKind.UNLOADED,
)
