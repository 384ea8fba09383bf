"""A world without surprises for tests of policies: everything takes as long as was estimated."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from weft.engine.engine import Engine
from weft.engine.messages import commands as cm
from weft.engine.messages import events as ev
from weft.engine.state.known import Library
from weft.engine.state.plans import stored_plan
from weft.planners import PLANNERS
from weft.planners.planner import Budget
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.schedule.objective import objective_named

__all__ = ["Line", "SmallWorld", "run_all"]


@dataclass(frozen=True)
class Line:
    """One task that ran."""

    machine: int
    nodes: int
    start_s: float
    finish_s: float


@dataclass
class SmallWorld:
    """Drives an engine through a few runs."""

    engine: Engine
    instances: dict[str, object]
    agenda: list[tuple[float, int, object]] = field(default_factory=list)
    lines: dict[int, dict[str, Line]] = field(default_factory=dict)
    """By run and task name; of a task that ran several times the last."""
    arrived: dict[int, float] = field(default_factory=dict)
    starts: list[tuple[float, int, str]] = field(default_factory=list)
    count: int = 0

    def at(self, time: float, event: object) -> None:
        self.count += 1
        heappush(self.agenda, (time, self.count, event))

    def go(self) -> None:
        while self.agenda:
            now, _, event = heappop(self.agenda)
            if isinstance(event, ev.Submitted):
                self.arrived[event.run] = now
            for command in self.engine.handle(event, now):
                self._carry_out(command, now)

    def _carry_out(self, command: object, now: float) -> None:
        match command:
            case cm.StageIn():
                self.at(now + self._staging_s(command), ev.StagedIn(attempt=command.attempt, part=command.part))
            case cm.Start():
                self._start(command, now)
            case cm.Replan():
                self.at(now, self._planned(command.run, command.version, now))
            case cm.SetTimer():
                self.at(command.at_s, ev.TimerFired(timer=command.timer))

    def _staging_s(self, command: cm.StageIn) -> float:
        some = next(iter(self.instances.values()))
        return max(
            some.link_s(parcel.source, command.machine, parcel.size_bytes, parcel.files, parcel.fixed_s)
            for parcel in command.parcels
        )

    def _start(self, command: cm.Start, now: float) -> None:
        run = self.engine.state.runs[command.run]
        seconds = run.instance.seconds.at(command.task, command.machine, command.count)
        name = run.known.names[command.task]
        self.lines.setdefault(command.run, {})[name] = Line(
            command.machine, command.nodes, now, now + seconds
        )
        self.starts.append((now, command.run, name))
        self.at(now, ev.Started(attempt=command.attempt))
        self.at(now + seconds, ev.Ended(attempt=command.attempt))

    def _planned(self, index: int, version: int, now: float) -> ev.PlanReady:
        run = self.engine.state.runs[index]
        heft = PLANNERS.load("heft")()
        rng, goal = generator(0, "test"), objective_named("makespan")
        schedule = heft.plan(run.instance, objective=goal, budget=Budget(), rng=rng).schedule
        plan = stored_plan(schedule, run.known, planner="heft", steps=1, offset_s=now)
        self.engine.state.plans[plan.key] = plan
        return ev.PlanReady(plan=plan.key, run=index, version=version)

    @property
    def end_s(self) -> float:
        return max(line.finish_s for run in self.lines.values() for line in run.values())

    def ended_s(self, run: int) -> float:
        """Give when the last task of a run ended."""
        return max(line.finish_s for line in self.lines[run].values())


def run_all(instances, arrivals, policy, before=None) -> SmallWorld:
    """Run workflows, given by key as (arrival, key), under a policy given by name; ``before`` adds events."""
    some = next(iter(instances.values()))
    policy = policy_named(policy) if isinstance(policy, str) else policy
    world = SmallWorld(Engine(Library(instances), some, policy), instances)
    for run, (time, key) in enumerate(arrivals):
        world.at(time, ev.Submitted(run=run, workflow=key))
    if before is not None:
        before(world)
    world.go()
    return world
