"""The simulated world: carries out an engine's commands and reports events, under a clock of its own.

It knows the truth (scenario) and the engine's beliefs do not reach it: durations are drawn, machines slow
down and fail, networks are shared. What happens at one time happens in the order in which it was caused, so
that a seed gives the same run everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.backends.simulation.disturbances import Disturbance, DisturbanceKind, generate_disturbances
from weft.backends.simulation.programs import ProgramSimulator
from weft.backends.simulation.scenario import Scenario, match_positions
from weft.backends.simulation.state import EventQueue, Host
from weft.backends.simulation.transfers import DataStaging
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow

__all__ = ["Replanner", "SimulationBackend"]


Replanner = Callable[[cm.Replan], tuple[str, int, str]]
"""Plans what remains of a run: gives the plan's key, the points it visited, and a problem."""

_MAX_SILENT_DISTURBANCES = 10_000
"""Disturbances in a row, with nothing else to come, after which nothing is expected any more."""


class SimulationBackend:
    """Machines, networks and programs that behave as a scenario says."""

    def __init__(
        self,
        scenario: Scenario,
        workflow_of: Callable[[int], CompiledWorkflow],
        example: CompiledWorkflow,
        *,
        seed: int,
        reports_machines: bool = True,
        replan: Replanner | None = None,
    ) -> None:
        """Begin. ``workflow_of`` gives the workflow of a run, ``example`` is one on the platform.

        ``reports_machines``: whether failures are told, or have to be found out by probing.
        """
        instance = example.instance
        self._scenario = scenario
        self._reports = reports_machines
        self._replan = replan
        self._host_of: list[int] = instance.network.host.tolist()
        self._hosts = [Host(index) for index in range(max(self._host_of, default=-1) + 1)]
        self._machines_of: list[list[int]] = [[] for _ in self._hosts]
        for machine, host in enumerate(self._host_of):
            self._machines_of[host].append(machine)
        names = [machine.name for machine in instance.machines]
        self._denied = frozenset(match_positions(scenario.denied, names))
        self._queue = EventQueue()
        self._staging = DataStaging(self._queue, scenario, instance)
        self._computing = ProgramSimulator(
            self._queue, scenario, self._hosts, workflow_of, seed, always_reports=reports_machines
        )
        self._timers: dict[str, float] = {}
        self._actions: dict[type, Callable[[Any], None]] = {
            cm.StageIn: self._stage_in,
            cm.Start: self._start,
            cm.Cancel: self._cancel,
            cm.StageOut: self._stage_out,
            cm.CleanUp: self._clean_up,
            cm.Probe: self._probe,
            cm.Discover: self._discover,
            cm.Fetch: self._fetch,
            cm.Replan: self._plan_again,
            cm.SetTimer: self._set_timer,
        }
        self._disturbances = generate_disturbances(scenario, instance.platform.machines, seed)
        self._next: Disturbance | None = next(self._disturbances, None)

    @property
    def now(self) -> float:
        """Give the time."""
        return self._queue.now

    def submit(self, at_s: float, run: int, workflow: str, owner: str) -> None:
        """Let a workflow arrive."""
        self._queue.report(ev.Submitted(run=run, workflow=workflow, owner=owner), at_s)

    def next_event(self) -> tuple[float, ev.Event] | None:
        """Let things happen until there is something to report; None: nothing will ever happen again.

        Disturbances alone keep nothing alive: many of them in a row of which there is nothing to report,
        while nothing else is to come, are taken for a stream without end.
        """
        queue = self._queue
        unheard = 0
        while True:
            queued, moving = queue.next_s(), self._staging.next_s()
            disturbed = self._next.at_s if self._next is not None else math.inf
            unheard += queued == moving == math.inf
            if unheard > _MAX_SILENT_DISTURBANCES:
                return None
            if disturbed <= queued and disturbed <= moving and disturbed < math.inf:
                queue.now = max(queue.now, disturbed)
                self._disturb()
            elif moving <= queued and moving < math.inf:
                queue.now = max(queue.now, moving)
                self._staging.arrive()
            elif queued < math.inf:
                event = queue.take()
                if event is not None:
                    return queue.now, event
            else:
                return None

    @property
    def at_work(self) -> bool:
        """Say whether a program computes or data move."""
        return self._staging.at_work or self._computing.at_work

    def execute(self, commands: Sequence[cm.Command]) -> None:
        """Do what the engine says."""
        for command in commands:
            action = self._actions.get(type(command))
            if action is not None:
                action(command)

    def _host(self, machine: int) -> Host:
        return self._hosts[self._host_of[machine]]

    def _stage_in(self, command: cm.StageIn) -> None:
        self._staging.stage_in(command, self._host(command.machine), self._host)

    def _start(self, command: cm.Start) -> None:
        self._computing.start(command, self._host(command.machine))

    def _cancel(self, command: cm.Cancel) -> None:
        self._staging.cancel_stages(command.attempt)
        if self._host(command.machine).up:
            self._computing.cancel(command.attempt)

    def _stage_out(self, command: cm.StageOut) -> None:
        at_s = self.now + self._scenario.stage_latency_s
        self._queue.report(ev.StagedOut(attempt=command.attempt), at_s)

    def _clean_up(self, command: cm.CleanUp) -> None:
        if self._host(command.machine).up:
            at_s = self.now + self._scenario.stage_latency_s / 2.0
            self._queue.report(ev.CleanedUp(attempt=command.attempt), at_s)
        else:
            self._queue.report(ev.CleanedUp(attempt=command.attempt, problem="the machine does not answer"))

    def _probe(self, command: cm.Probe) -> None:
        if command.of == "progress" and command.attempt is not None:
            self._computing.report_progress(command.attempt)
        elif command.of == "reattach" and command.attempt is not None:
            self._computing.reattach(command.attempt)
        elif command.machine is not None:
            alive = self._answer(command)
            self._queue.report(
                ev.Answered(of=command.of, alive=alive, attempt=command.attempt, machine=command.machine)
            )

    def _answer(self, command: cm.Probe) -> bool:
        assert command.machine is not None
        host = self._host(command.machine)
        if command.of == "job" and command.attempt is not None:
            return self._computing.has_job(command.attempt) and self._computing.answers(command.attempt, host)
        return host.answers("gatekeeper") and not (command.of == "access" and command.machine in self._denied)

    def _discover(self, command: cm.Discover) -> None:  # noqa: ARG002 -- it says nothing more
        machines = range(len(self._host_of))
        up = tuple(machine for machine in machines if self._host(machine).up)
        self._queue.report(ev.Discovered(machines=up))

    def _fetch(self, command: cm.Fetch) -> None:
        host = self._host(command.machine)
        if host.answers("gatekeeper"):
            self._queue.report(ev.Fetched(machine=command.machine, speed_factor=host.speed.share))

    def _plan_again(self, command: cm.Replan) -> None:
        plan, steps, problem = "", 0, "nobody plans here"
        if self._replan is not None:
            plan, steps, problem = self._replan(command)
        ready = ev.PlanReady(
            plan=plan, run=command.run, version=command.version, steps=steps, problem=problem
        )
        self._queue.report(ready, self.now + steps * self._scenario.replanning_s_per_point)

    def _set_timer(self, command: cm.SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._queue.put(max(self.now, command.at_s), partial(self._fire, command))

    def _fire(self, command: cm.SetTimer) -> ev.Event | None:
        if self._timers.get(command.timer) != command.at_s:
            return None
        del self._timers[command.timer]
        return ev.TimerFired(timer=command.timer)

    def _disturb(self) -> None:
        item = self._next
        assert item is not None
        self._next = next(self._disturbances, None)
        host, now = self._hosts[item.machine], self.now
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
                    self._computing.deliver_pending(host)
            case DisturbanceKind.GATEKEEPER_SILENT | DisturbanceKind.GATEKEEPER_BACK:
                host.silent["gatekeeper"] += 1 if item.what is DisturbanceKind.GATEKEEPER_SILENT else -1
        if item.what in _CHANGES_SPEED:
            self._computing.speed_changed(host)

    def _fail(self, host: Host) -> None:
        host.failures += 1
        if host.failures == 1:
            self._computing.lose(host)
            host.cache.clear()
            self._tell(host)
            self._staging.lose(self._machines_of[host.index])

    def _repair(self, host: Host) -> None:
        host.failures -= 1
        if host.failures == 0:
            self._tell(host)

    def _tell(self, host: Host) -> None:
        if self._reports:
            for machine in self._machines_of[host.index]:
                self._queue.report(ev.MachineChanged(machine=machine, up=host.up))


_CHANGES_SPEED = (
    DisturbanceKind.SLOWED,
    DisturbanceKind.RELIEVED,
    DisturbanceKind.LOADED,
    DisturbanceKind.UNLOADED,
)
