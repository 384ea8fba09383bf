"""The simulated world: carries out an engine's commands and reports events, under a clock of its own.

It knows the truth (scenario) and the engine's beliefs do not reach it: durations are drawn, machines slow down
and fail, networks are shared. Everything that happens at one time happens in the order in which it was caused, so
that a seed gives the same run everywhere.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.known import Known
from weft.simulation.disturbances import Disturbance, What, disturbances
from weft.simulation.endings import Endings
from weft.simulation.flows import Flows, Transfers, Unshared
from weft.simulation.host import Host, Program
from weft.simulation.scenario import RequirementChange, Scenario, means_task, positions_matching
from weft.simulation.truth import Truth
from weft.workflow.records.quantity import value_of

__all__ = ["World"]

_Action = Callable[[], None]


class World:
    """Machines, networks and programs that behave as a scenario says."""

    def __init__(
        self,
        scenario: Scenario,
        known_of: Callable[[int], Known],
        example: Known,
        *,
        seed: int,
        reports_machines: bool = True,
        replan: Callable[[cm.Replan], tuple[str, int, str]] | None = None,
    ) -> None:
        """Begin. ``known_of`` gives the workflow of a run; ``reports_machines``: failures are told, not found out.

        ``replan`` plans what remains of a run: it gives the plan's key, the points it visited, and a problem.
        """
        instance = example.instance
        self.now = 0.0
        self._scenario = scenario
        self._known_of = known_of
        self._seed = seed
        self._reports = reports_machines
        self._replan = replan
        self._host_of: list[int] = instance.network.host.tolist()
        self._hosts = [Host(index) for index in range(max(self._host_of, default=-1) + 1)]
        kind = Flows if scenario.network == "shared" else Unshared
        self._transfers: Transfers = kind(instance.platform, instance.machines)
        self._default_link = instance.platform.default_link
        self._flows: dict[int, _Stage] = {}
        self._stages: dict[tuple[int, int], _Stage] = {}
        self._flow_numbers = count()
        self._sequence = count()
        self._queue: list[tuple[float, int, Any]] = []
        self._timers: dict[str, float] = {}
        self._truths: dict[int, Truth] = {}
        self._endings: dict[int, Endings] = {}
        self._programs: dict[int, Program] = {}
        self._machine_of: dict[int, int] = {}
        self._disturbed: Iterator[Disturbance] = disturbances(scenario, instance.platform.machines, seed)
        self._next_disturbance: Disturbance | None = next(self._disturbed, None)
        self._machines_of_host: list[list[int]] = [[] for _ in self._hosts]
        for machine, host in enumerate(self._host_of):
            self._machines_of_host[host].append(machine)
        self._denied = set(positions_matching(scenario.denied, [machine.name for machine in instance.machines]))
        for suspension in scenario.suspensions:
            self._at(suspension.at_s, lambda each=suspension: self._suspend(each.task, each.lasting_s))
        for cancellation in scenario.cancellations:
            self._at(cancellation.at_s, lambda each=cancellation: self._cancelled_remotely(each.task))

    # What is to come

    def _at(self, at_s: float, what: ev.Event | _Action) -> None:
        heapq.heappush(self._queue, (at_s, next(self._sequence), what))

    def _now(self, event: ev.Event) -> None:
        heapq.heappush(self._queue, (self.now, next(self._sequence), event))

    def submit(self, at_s: float, run: int, workflow: str, owner: str) -> None:
        """Let a workflow arrive."""
        self._at(at_s, ev.Submitted(run=run, workflow=workflow, owner=owner))

    def next_event(self) -> tuple[float, ev.Event] | None:
        """Let things happen until there is something to report; None: nothing will ever happen again.

        Disturbances alone keep nothing alive: where no program runs, no data move and no timer is set, the rest of
        a stream without end is not waited for.
        """
        while True:
            queued = self._queue[0][0] if self._queue else math.inf
            moving = self._transfers.next_end()
            disturbed = self._next_disturbance.at_s if self._next_disturbance is not None else math.inf
            at_s = min(queued, moving, disturbed)
            if at_s == math.inf:
                return None
            self.now = max(self.now, at_s)
            if disturbed <= at_s and not (queued < disturbed or moving < disturbed):
                self._disturb()
            elif moving <= at_s and moving <= queued:
                self._move()
            else:
                _, _, what = heapq.heappop(self._queue)
                if isinstance(what, _EVENTS):
                    return self.now, what
                event = what()
                if event is not None:
                    return self.now, event

    # Commands

    def carry_out(self, commands: Sequence[cm.Command]) -> None:
        """Do what the engine says."""
        for command in commands:
            action = _ACTIONS.get(type(command))
            if action is not None:
                action(self, command)

    def _assign(self, command: cm.Assign) -> None:
        self._machine_of[command.attempt] = command.machine

    def _stage_in(self, command: cm.StageIn) -> None:
        host = self._hosts[self._host_of[command.machine]]
        stage = _Stage(command.attempt, command.part)
        self._stages[command.attempt, command.part] = stage
        latest = self.now
        for parcel in command.parcels:
            if parcel.shared and parcel.name in host.cache:
                latest = max(latest, host.cache[parcel.name])
            elif parcel.source < 0:
                link = self._default_link
                arrives = self.now + link.latency_s * parcel.files + parcel.size_bytes / link.bandwidth_Bps
                latest = max(latest, arrives)
                if parcel.shared:
                    host.cache[parcel.name] = arrives
            else:
                flow = next(self._flow_numbers)
                stage.flows.add(flow)
                self._flows[flow] = stage
                self._transfers.start(
                    flow, parcel.source, command.machine, parcel.size_bytes, parcel.files, parcel.fixed_s, self.now
                )
        stage.not_before_s = latest + self._scenario.stage_latency_s
        if not stage.flows:
            self._at(stage.not_before_s, lambda: self._staged(stage))

    def _staged(self, stage: _Stage) -> ev.Event | None:
        if self._stages.pop((stage.attempt, stage.part), None) is None:
            return None
        return ev.StagedIn(attempt=stage.attempt, part=stage.part)

    def _move(self) -> None:
        for flow in self._transfers.ended(self.now):
            stage = self._flows.pop(flow, None)
            if stage is None:
                continue
            stage.flows.discard(flow)
            if not stage.flows:
                # The latency of the stage begins when its data are there.
                at_s = max(self.now + self._scenario.stage_latency_s, stage.not_before_s)
                self._at(at_s, lambda done=stage: self._staged(done))

    def _start(self, command: cm.Start) -> None:
        if command.attempt in self._programs:
            return
        host = self._hosts[self._host_of[command.machine]]
        known = self._known_of(command.run)
        truth = self._truths.get(command.run)
        if truth is None:
            truth = self._truths[command.run] = Truth(self._scenario.durations, known.names, seed=self._seed, run=command.run)
        whole = truth.seconds(command.task, known.seconds(command.task, command.machine, command.count), command.iteration)
        work_s = whole * (1.0 - command.restart_from) + self._scenario.overhead_per_task_s
        program = Program(
            command.attempt,
            command.run,
            command.task,
            host.index,
            command.iteration,
            work_s,
            command.restart_from,
            self.now,
            0.0,
            checkpoint=command.restart_from,
        )
        self._programs[command.attempt] = program
        if command.time_limit_s is not None and work_s > command.time_limit_s:
            program.ends_by = "timeout"
            self._at(self.now + self._scenario.stage_latency_s + command.time_limit_s, lambda: self._cut(program, "timeout"))
        if self._scenario.stage_latency_s:
            self._at(self.now + self._scenario.stage_latency_s, lambda: self._begin(program))
        else:
            event = self._begin(program)
            if event is not None:
                self._now(event)

    def _begin(self, program: Program) -> ev.Event | None:
        if self._programs.get(program.attempt) is not program:
            return None
        host = self._hosts[program.host]
        if not host.up:
            return None
        program.began_s = self.now
        program.clock_s = host.speed.clock_s(self.now)
        host.programs[program.attempt] = program
        self._expect_end(host, program)
        self._expect_news(host, program)
        return ev.Started(attempt=program.attempt)

    def _expect_end(self, host: Host, program: Program) -> None:
        """Put the end of a program where the host's present speed leads it."""
        program.version += 1
        version = program.version
        end_s = max(self.now, host.speed.time_of(program.end_clock_s))
        heapq.heappush(self._queue, (end_s, next(self._sequence), lambda: self._end(program, version)))

    def _expect_news(self, host: Host, program: Program) -> None:
        """Put what the program will do before its end: restart files, changed requirements."""
        known = self._known_of(program.run)
        checkpoint = known.graph.description(program.task).recovery.checkpoint
        if checkpoint is not None and checkpoint.every is not None:
            every_s = float(value_of(checkpoint.every, known.graph.context(program.task)))
            self._at(self.now + every_s, lambda: self._checkpoint(program, every_s))
        for change in self._scenario.requirements:
            if means_task(change.task, known.names[program.task]) and change.after >= program.restart_from:
                left = 1.0 - program.restart_from
                share = (change.after - program.restart_from) / left if left > 0 else 0.0
                self._at(
                    host.speed.time_of(program.clock_s + share * program.work_s),
                    lambda change=change: self._change_requirements(program, change),
                )

    def _change_requirements(self, program: Program, change: RequirementChange) -> ev.Event | None:
        if self._programs.get(program.attempt) is not program:
            return None
        host = self._hosts[program.host]
        if program.done(host.speed.clock_s(self.now)) + 1e-9 < change.after:
            # The machine became slower on the way: look again when it should have got there.
            missing = (change.after - program.done(host.speed.clock_s(self.now))) * program.work_s
            self._at(host.speed.finish_s(missing, self.now), lambda: self._change_requirements(program, change))
            return None
        program.checkpoint = max(program.checkpoint, change.after)
        self._now(ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint))
        return ev.RequirementsChanged(
            attempt=program.attempt,
            requirements=None if change.requirements is None else str(change.requirements),
            rank=None if change.rank is None else str(change.rank),
        )

    def _checkpoint(self, program: Program, every_s: float) -> ev.Event | None:
        if self._programs.get(program.attempt) is not program or program.attempt not in self._hosts[program.host].programs:
            return None
        self._at(self.now + every_s, lambda: self._checkpoint(program, every_s))
        if program.suspended_s is not None:
            return None
        host = self._hosts[program.host]
        program.checkpoint = program.done(host.speed.clock_s(self.now))
        return ev.Checkpointed(attempt=program.attempt, work_done=program.checkpoint)

    def _end(self, program: Program, version: int) -> ev.Event | None:
        if program.version != version or self._programs.get(program.attempt) is not program or program.ends_by:
            return None
        del self._programs[program.attempt]
        del self._hosts[program.host].programs[program.attempt]
        endings = self._endings.get(program.run)
        if endings is None:
            endings = self._endings[program.run] = Endings(self._known_of(program.run), self._scenario)
        exit_code, cause, result, lines = endings.of(self._known_of(program.run), program.task, program.iteration)
        ended = ev.Ended(attempt=program.attempt, exit_code=exit_code, cause=cause, result=result, work_done=1.0)
        if not lines:
            return ended
        self._now(ended)
        return ev.TasksAdded(run=program.run, lines=lines)

    def _cut(self, program: Program, cause: str) -> ev.Event | None:
        """End a program that goes beyond a limit."""
        if self._programs.get(program.attempt) is not program:
            return None
        return self._stop(program, cause)

    def _stop(self, program: Program, cause: str) -> ev.Event:
        host = self._hosts[program.host]
        done = program.done(host.speed.clock_s(self.now)) if program.attempt in host.programs else program.restart_from
        self._programs.pop(program.attempt, None)
        host.programs.pop(program.attempt, None)
        return ev.Ended(attempt=program.attempt, exit_code=None, cause=cause, work_done=done)

    def _cancel(self, command: cm.Cancel) -> None:
        latency = self._scenario.stage_latency_s / 2.0
        for key, stage in list(self._stages.items()):
            if stage.attempt == command.attempt:
                del self._stages[key]
                for flow in sorted(stage.flows):
                    self._transfers.cancel(flow, self.now)
                    self._flows.pop(flow, None)
        self._at(self.now + latency, lambda: self._cancelled(command.attempt))

    def _cancelled(self, attempt: int) -> ev.Event | None:
        program = self._programs.get(attempt)
        if program is None:
            return ev.Ended(attempt=attempt, exit_code=None, cause="cancelled")
        if not self._hosts[program.host].up:
            return None
        checkpoint = self._known_of(program.run).graph.description(program.task).recovery.checkpoint
        if checkpoint is not None and checkpoint.every is None and attempt in self._hosts[program.host].programs:
            # Restart files without an interval are written when the program is told to end.
            clock = self._hosts[program.host].speed.clock_s(self.now)
            self._now(self._stop(program, "cancelled"))
            return ev.Checkpointed(attempt=attempt, work_done=program.done(clock))
        return self._stop(program, "cancelled")

    def _stage_out(self, command: cm.StageOut) -> None:
        self._at(self.now + self._scenario.stage_latency_s, ev.StagedOut(attempt=command.attempt))

    def _clean_up(self, command: cm.CleanUp) -> None:
        if self._hosts[self._host_of[command.machine]].up:
            self._at(self.now + self._scenario.stage_latency_s / 2.0, ev.CleanedUp(attempt=command.attempt))
        else:
            self._now(ev.CleanedUp(attempt=command.attempt, problem="the machine does not answer"))

    def _probe(self, command: cm.Probe) -> None:
        if command.of == "progress":
            self._report_progress(command)
            return
        host = self._hosts[self._host_of[command.machine]] if command.machine is not None else None
        alive = host is not None and host.answers("gatekeeper" if command.of == "machine" else "job-manager")
        if command.of == "access":
            alive = host is not None and command.machine not in self._denied
        self._now(ev.Answered(of=command.of, alive=alive, attempt=command.attempt, machine=command.machine))

    def _report_progress(self, command: cm.Probe) -> None:
        program = self._programs.get(command.attempt) if command.attempt is not None else None
        if program is None or not self._hosts[program.host].answers("job-manager"):
            return
        host, known = self._hosts[program.host], self._known_of(program.run)
        description = known.graph.description(program.task)
        done = program.done(host.speed.clock_s(self.now))
        tells = description.recovery.progress is not None or description.recovery.checkpoint is not None
        iterations = self._scenario.profiles.get(description.name)
        last, number = None, None
        if iterations:
            number = math.floor(done * iterations + 1e-9)
            last = self._last_iteration_s(host, program, number, iterations)
        self._now(
            ev.Progressed(
                attempt=program.attempt, work_done=done if tells else None, last_iteration_s=last, iterations=number
            )
        )

    def _last_iteration_s(self, host: Host, program: Program, number: int, iterations: int) -> float | None:
        """Give what the last whole iteration of a program took; None: there was none since it began."""
        left = 1.0 - program.restart_from
        first = program.restart_from * iterations
        if number - 1 < first or left <= 0:
            return None
        each = program.work_s / (left * iterations)
        end_clock = program.clock_s + (number - first) * each
        return host.time_at(end_clock) - host.time_at(end_clock - each)

    def _discover(self, command: cm.Discover) -> None:  # noqa: ARG002 -- it says nothing more
        up = tuple(machine for machine, host in enumerate(self._host_of) if self._hosts[host].up)
        self._now(ev.Discovered(machines=up))

    def _fetch(self, command: cm.Fetch) -> None:
        host = self._hosts[self._host_of[command.machine]]
        if host.answers("gatekeeper"):
            self._now(ev.Fetched(machine=command.machine, speed_factor=host.speed.share))

    def _plan_again(self, command: cm.Replan) -> None:
        if self._replan is None:
            self._now(ev.PlanReady(plan="", run=command.run, version=command.version, problem="nobody plans here"))
            return
        plan, steps, problem = self._replan(command)
        at_s = self.now + steps * self._scenario.replanning_s_per_point
        self._at(
            at_s, ev.PlanReady(plan=plan, run=command.run, version=command.version, steps=steps, problem=problem)
        )

    def _set_timer(self, command: cm.SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._at(max(self.now, command.at_s), lambda: self._fire(command))

    def _fire(self, command: cm.SetTimer) -> ev.Event | None:
        if self._timers.get(command.timer) != command.at_s:
            return None
        del self._timers[command.timer]
        return ev.TimerFired(timer=command.timer)

    # What happens to machines

    def _disturb(self) -> None:
        item = self._next_disturbance
        assert item is not None
        self._next_disturbance = next(self._disturbed, None)
        host = self._hosts[item.machine]
        match item.what:
            case What.SLOWED:
                host.speed.slow(item.value, self.now)
            case What.RELIEVED:
                host.speed.relieve(item.value, self.now)
            case What.LOADED:
                host.speed.load(int(item.value), self.now)
            case What.UNLOADED:
                host.speed.unload(int(item.value), self.now)
            case What.FAILED:
                self._fail(host)
                return
            case What.REPAIRED:
                self._repair(host)
                return
            case What.JOB_MANAGER_SILENT | What.JOB_MANAGER_BACK:
                host.silent["job-manager"] += 1 if item.what is What.JOB_MANAGER_SILENT else -1
                return
            case What.GATEKEEPER_SILENT | What.GATEKEEPER_BACK:
                host.silent["gatekeeper"] += 1 if item.what is What.GATEKEEPER_SILENT else -1
                return
        host.changed(self.now)
        for program in host.programs.values():
            if program.suspended_s is None:
                self._expect_end(host, program)

    def _fail(self, host: Host) -> None:
        host.failures += 1
        if host.failures > 1:
            return
        for attempt, machine in list(self._machine_of.items()):
            if self._host_of[machine] == host.index:
                self._programs.pop(attempt, None)
        host.programs.clear()
        host.cache.clear()
        if self._reports:
            for machine in self._machines_of_host[host.index]:
                self._now(ev.MachineChanged(machine=machine, up=False))

    def _repair(self, host: Host) -> None:
        host.failures -= 1
        if host.failures == 0 and self._reports:
            for machine in self._machines_of_host[host.index]:
                self._now(ev.MachineChanged(machine=machine, up=True))

    def _of_task(self, name: str) -> list[Program]:
        return [
            program
            for program in self._programs.values()
            if means_task(name, self._known_of(program.run).names[program.task])
        ]

    def _suspend(self, name: str, lasting_s: float) -> None:
        for program in self._of_task(name):
            host = self._hosts[program.host]
            if program.attempt not in host.programs or program.suspended_s is not None:
                continue
            program.suspended_s = program.end_clock_s - host.speed.clock_s(self.now)
            program.version += 1
            self._now(ev.Suspended(attempt=program.attempt))
            if math.isfinite(lasting_s):
                self._at(self.now + lasting_s, lambda each=program: self._resume(each))

    def _resume(self, program: Program) -> ev.Event | None:
        if self._programs.get(program.attempt) is not program or program.suspended_s is None:
            return None
        host = self._hosts[program.host]
        program.clock_s = host.speed.clock_s(self.now) + program.suspended_s - program.work_s
        program.suspended_s = None
        self._expect_end(host, program)
        return ev.Resumed(attempt=program.attempt)

    def _cancelled_remotely(self, name: str) -> None:
        for program in self._of_task(name):
            if program.attempt in self._hosts[program.host].programs:
                self._now(self._stop(program, "preempted"))


class _Stage:
    """Data on the way for one attempt."""

    __slots__ = ("attempt", "flows", "not_before_s", "part")

    def __init__(self, attempt: int, part: int) -> None:
        self.attempt = attempt
        self.part = part
        self.flows: set[int] = set()
        self.not_before_s = 0.0


_ACTIONS: dict[type, Callable[[World, Any], None]] = {
    cm.Assign: World._assign,
    cm.StageIn: World._stage_in,
    cm.Start: World._start,
    cm.Cancel: World._cancel,
    cm.StageOut: World._stage_out,
    cm.CleanUp: World._clean_up,
    cm.Probe: World._probe,
    cm.Discover: World._discover,
    cm.Fetch: World._fetch,
    cm.Replan: World._plan_again,
    cm.SetTimer: World._set_timer,
}

_EVENTS = (ev.Submitted, ev.Started, ev.Ended, ev.StagedIn, ev.StagedOut, ev.CleanedUp, ev.Progressed, ev.Checkpointed,
           ev.Suspended, ev.Resumed, ev.RequirementsChanged, ev.MachineChanged, ev.Answered, ev.Discovered, ev.Fetched,
           ev.PlanReady, ev.TimerFired, ev.TasksAdded, ev.Asked)
