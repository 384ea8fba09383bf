"""Independent verification of schedules.

The verification uses the task graph, the platform and the predictor's estimates of single modes, not the
compiled instance, and shares no code with planners. Every rule is written in the simplest way, even if that
is slow.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.errors import InvalidInput, WeftError, shorten
from weft.expressions import Expression, evaluate_boolean
from weft.platform.arrays import AMPLE_BYTES, idle_columns, machine_columns
from weft.platform.machine import Machine
from weft.platform.platform import Platform, link_between, planned_machines
from weft.predictors.chain import chain_for
from weft.predictors.predictor import Predictor, task_features
from weft.records import dataclass
from weft.registry import describe_foreign_entry
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL, Floats, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violation of a rule by a schedule."""

    rule: str
    """One of precedence, duration, nodes, resources, budget, binding, requirement, count, time, complete."""
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


def verify(
    schedule: Schedule, graph: TaskGraph, platform: Platform, *, predictor: Predictor | None = None
) -> list[Violation]:
    """Return all violations of rules by a schedule; an empty list means that it is valid."""
    checker = _ScheduleVerifier(schedule, graph, platform, predictor or chain_for(graph.workflow, platform))
    if complete := list(checker.completeness()):
        return complete
    return [
        *checker.modes(),
        *checker.precedence(),
        *checker.bindings(),
        *checker.occupancy(),
        *checker.budgets(),
    ]


def refuse_invalid(
    schedule: Schedule, graph: TaskGraph, platform: Platform, what: str, *, predictor: Predictor | None = None
) -> None:
    """Raise WeftError if the schedule breaks a rule; ``what`` is the beginning of the message."""
    if violations := verify(schedule, graph, platform, predictor=predictor):
        more = f" and {len(violations) - 1} more" if len(violations) > 1 else ""
        raise WeftError(f"{what}, which is a bug of the planner: {violations[0]}{more}")


def check_foreign(
    planner: Any,
    schedule: Schedule,
    graph: TaskGraph,
    platform: Platform,
    *,
    predictor: Predictor | None = None,
) -> None:
    """Raise WeftError if a planner of another package returned an invalid schedule.

    Schedules of built-in planners are not verified here, because that would take longer than many of these
    planners; tests verify them.
    """
    if not type(planner).__module__.startswith("weft."):
        entry = describe_foreign_entry(type(planner)) or f"planner {planner.name!r}"
        what = f"{entry} gives an invalid schedule"
        refuse_invalid(schedule, graph, platform, what, predictor=predictor)


class _ScheduleVerifier:
    def __init__(
        self, schedule: Schedule, graph: TaskGraph, platform: Platform, predictor: Predictor
    ) -> None:
        self.schedule = schedule
        self.graph = graph
        self.platform = platform
        self.predictor = predictor
        self.machines = {machine.name: machine for machine in planned_machines(platform)}
        # Times are sums of doubles: compare with a tolerance relative to the length of the plan.
        self.tolerance = 1e-9 * max(1.0, schedule.makespan_s)

    def machine(self, task: int) -> Machine:
        return self.machines[self.schedule.machines[self.schedule.machine[task]]]

    def completeness(self) -> Iterator[Violation]:
        """Yield violations unless every task occurs once, on a known machine, with finite times."""
        schedule = self.schedule
        if schedule.tasks != self.graph.names:
            yield Violation(rule="complete", what="the tasks of the schedule are not those of the graph")
            return
        unknown = [name for name in schedule.machines if name not in self.machines]
        if unknown:
            what = f"the schedule has machines that the platform lacks: {', '.join(unknown[:3])}"
            yield Violation(rule="complete", what=what)
            return
        for task, name in enumerate(schedule.tasks):
            start, finish = schedule.start_s[task], schedule.finish_s[task]
            if not (math.isfinite(start) and math.isfinite(finish) and 0 <= start <= finish):
                what = f"{name} runs from {start} s to {finish} s, which is no valid interval"
                yield Violation(rule="time", what=what)
            if schedule.machine[task] >= len(schedule.machines):
                yield Violation(
                    rule="complete", what=f"{name} has an unknown machine index: {schedule.machine[task]}"
                )

    def modes(self) -> Iterator[Violation]:
        """Yield violations of requirements, allowed node counts and estimated durations by single tasks."""
        machines = tuple(self.machines.values())
        facts = {key: column.tolist() for key, column in machine_columns(machines).items()}
        found = idle_columns(machines, unknown_bytes=AMPLE_BYTES)
        idle = {key: column.tolist() for key, column in found.items()}
        row = {name: index for index, name in enumerate(self.machines)}
        for task, name in enumerate(self.graph.names):
            nodes, machine = int(self.schedule.nodes[task]), self.machine(task)
            if self.graph.kind[task] != COMPUTE:
                if nodes:
                    yield Violation(
                        rule="count", what=f"{name} is not a compute task but takes {nodes} nodes"
                    )
                continue
            description = self.graph.description(task)
            if not machine.offers(description.service):
                yield Violation(
                    rule="requirement",
                    what=f"{name} is on {machine.name}, which does not offer {description.service!r}",
                )
            if description.requirements is not None:
                here = {key: column[row[machine.name]] for key, column in facts.items()}
                alone = {key: column[row[machine.name]] for key, column in idle.items()}
                if not self._meets(description.requirements, {**alone, **self.graph.context(task), **here}):
                    what = f"{name} is on {machine.name}, which violates {description.requirements}"
                    yield Violation(rule="requirement", what=what)
            yield from self._capacity(task, name, machine, nodes)
            yield from self._duration(task, name, machine, nodes)

    def _meets(self, requirements: Expression, facts: dict[str, Any]) -> bool:
        try:
            return evaluate_boolean(requirements, facts)
        except InvalidInput:
            return False  # a requirement that cannot be evaluated for a machine does not hold

    def _capacity(self, task: int, name: str, machine: Machine, nodes: int) -> Iterator[Violation]:
        """Yield violations if a task alone takes more nodes or resources than its machine has."""
        if nodes > machine.nodes:
            yield Violation(
                rule="nodes", what=f"{name} takes {nodes} of {machine.nodes} nodes of {machine.name}"
            )
        demand = self._demand(task)
        if over := self._exceeded(demand, machine):
            yield Violation(rule="resources", what=f"{name} takes more {over} than {machine.name} has")
        elif machine.memory_per_node is not None and "memory" in self.graph.resource_names:
            memory = demand[self.graph.resource_names.index("memory")] / nodes
            if memory > machine.memory_per_node * (1 + 2e-9):
                what = f"{name} takes more memory than {nodes} nodes of {machine.name} have"
                yield Violation(rule="resources", what=what)

    def _count(self, task: int) -> int | None:
        """Return the node count of a task as in its description; None if the count is not allowed."""
        nodes, machine = int(self.schedule.nodes[task]), self.machine(task)
        cores = max(1, math.ceil(self.graph.cores[task]))
        if machine.node_is_core:
            count, rest = divmod(nodes, cores)
        else:
            count, rest = nodes, 0 if cores <= machine.cores else 1
        allowed = self.graph.count_sets[self.graph.counts[task]]
        return None if rest or count not in allowed else count

    def _demand(self, task: int) -> Floats:
        """Return the resource amounts of a task at its node count; the least if the count is not allowed."""
        count = self._count(task) if len(self.graph.demand_by_count.rows) else None
        return self.graph.demand[task] if count is None else self.graph.demand_of(task, count)

    def _exceeded(self, used: Floats, machine: Machine) -> str | None:
        """Return the name of a resource of which more is used than a machine has; None if there is none."""
        names = self.graph.resource_names
        if not names:
            return None
        exceeded = used > self._totals(machine)
        return names[int(np.argmax(exceeded))] if exceeded.any() else None

    def _totals(self, machine: Machine) -> Floats:
        """Return the totals of a machine per resource, with a tolerance for rounding."""
        stated, names = machine.amounts, self.graph.resource_names
        totals = [stated.get(name, math.inf if name == "memory" else 0.0) for name in names]
        return np.array(totals, dtype=np.float64) * (1 + 2e-9)

    def _duration(self, task: int, name: str, machine: Machine, nodes: int) -> Iterator[Violation]:
        if (count := self._count(task)) is None:
            allowed = self.graph.count_sets[self.graph.counts[task]]
            what = f"{name} takes {nodes} nodes of {machine.name}; allowed are {shorten(allowed)}"
            yield Violation(rule="count", what=what)
            return
        estimate = self.predictor.predict(
            task_features(self.graph, task, self.predictor.reads), machine, count
        )
        seconds = math.inf if estimate is None else estimate.p50_s + machine.startup_for(nodes)
        yield from self._lasts(task, seconds, f"{name} on {machine.name}")

    def _lasts(self, task: int, seconds: float, what: str) -> Iterator[Violation]:
        taken = float(self.schedule.finish_s[task] - self.schedule.start_s[task])
        if not math.isclose(taken, seconds, rel_tol=1e-9, abs_tol=self.tolerance):
            yield Violation(rule="duration", what=f"{what} takes {taken:g} s instead of {seconds:g} s")

    def precedence(self) -> Iterator[Violation]:
        """Yield violations where a task starts before the data of its predecessors have arrived."""
        graph, schedule = self.graph, self.schedule
        sources = self._sources()
        for task, name in enumerate(graph.names):
            # A transfer reads at its source; all other tasks read on their own machine.
            here = sources.get(task, self.machine(task))
            first = int(graph.predecessor_pointer[task])
            for edge, before in enumerate(graph.predecessors(task).tolist(), start=first):
                ready = float(schedule.finish_s[before]) + self._edge_seconds(edge, before, here)
                if schedule.start_s[task] < ready - self.tolerance:
                    what = f"{name} starts at {schedule.start_s[task]:g} s, before the data of"
                    what += f" {graph.names[before]} have arrived at {ready:g} s"
                    yield Violation(rule="precedence", what=what)
            if graph.kind[task] == TRANSFER:
                yield from self._lasts(task, self._transfer_seconds(task, here), f"{name} from {here.name}")
            elif graph.kind[task] == VIRTUAL:
                yield from self._lasts(task, 0.0, f"{name}, a virtual task,")

    def _edge_seconds(self, edge: int, before: int, here: Machine) -> float:
        if (link := link_between(self.platform, self.machine(before), here)) is None:
            return 0.0
        graph = self.graph
        size = float(graph.edge_bytes[edge])
        moving = size / link.bandwidth_Bps + float(graph.edge_files[edge]) * link.latency_s
        return moving + float(graph.edge_seconds[edge])

    def _transfer_seconds(self, task: int, source: Machine) -> float:
        link = link_between(self.platform, source, self.machine(task))
        size = float(self.graph.transfer_bytes[task])
        return 0.0 if link is None else link.latency_s + size / link.bandwidth_Bps

    def _sources(self) -> dict[int, Machine]:
        """Return the source machine of each transfer: the machine of its source variable."""
        graph = self.graph
        member = {variable: task for task, variable in enumerate(graph.variable.tolist())}
        transfers = np.flatnonzero(graph.kind == TRANSFER).tolist()
        return {task: self.machine(member[int(graph.source_variable[task])]) for task in transfers}

    def bindings(self) -> Iterator[Violation]:
        """Yield violations where tasks of one abstract machine are on different machines."""
        bound: dict[int, int] = {}
        for task, variable in enumerate(self.graph.variable.tolist()):
            machine = int(self.schedule.machine[task])
            if bound.setdefault(variable, machine) != machine:
                names = self.schedule.machines
                places = f"{names[bound[variable]]} and on {names[machine]}"
                what = f"{self.graph.variables[variable]!r} is on {places} ({self.graph.names[task]})"
                yield Violation(rule="binding", what=what)

    def occupancy(self) -> Iterator[Violation]:
        """Yield violations where tasks together take more nodes or resources than a machine has."""
        events: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
        for task in np.flatnonzero(self.graph.kind == COMPUTE).tolist():
            start, finish = float(self.schedule.start_s[task]), float(self.schedule.finish_s[task])
            # A finish and a start at the same time, within the tolerance, do not overlap.
            if finish - start > 2 * self.tolerance:
                machine = int(self.schedule.machine[task])
                events[machine].append((start + self.tolerance, 1, task))
                events[machine].append((finish - self.tolerance, 0, task))
        for machine, listed in sorted(events.items()):
            yield from self._machine_occupancy(self.machines[self.schedule.machines[machine]], sorted(listed))

    def _machine_occupancy(
        self, machine: Machine, events: list[tuple[float, int, int]]
    ) -> Iterator[Violation]:
        if machine.occupancy == "unlimited":
            return
        nodes, used = 0, np.zeros(len(self.graph.resource_names))
        for time, starts, task in events:
            sign = 1 if starts else -1
            nodes += sign * int(self.schedule.nodes[task])
            used += sign * self._demand(task)
            if starts and nodes > machine.nodes:
                what = f"{machine.name} has {machine.nodes} nodes but {nodes} are taken at {time:g} s"
                yield Violation(rule="nodes", what=f"{what} ({self.graph.names[task]})")
            if starts and (over := self._exceeded(used, machine)):
                what = f"tasks take more {over} than {machine.name} has at {time:g} s"
                yield Violation(rule="resources", what=f"{what} ({self.graph.names[task]})")

    def budgets(self) -> Iterator[Violation]:
        """Yield violations where all tasks together consume more than a budget."""
        graph, consumed = self.graph, np.zeros(len(self.graph.budget_names))
        for task in np.flatnonzero(graph.kind == COMPUTE).tolist() if graph.budget_names else ():
            count = self._count(task)
            consumed += graph.consumption[task] if count is None else graph.consumption_of(task, count)
        for name, used, budget in zip(graph.budget_names, consumed, graph.budgets, strict=True):
            if used > budget * (1 + 2e-9):
                yield Violation(
                    rule="budget", what=f"{used:g} of {name} is consumed, but the budget is {budget:g}"
                )
