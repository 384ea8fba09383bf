"""Independent verification: is this schedule possible at all?

Works from the task graph, the platform and the predictor's answers for single modes, not from the compiled instance, and
shares no code with any planner. Every rule is written out plainly; speed comes second.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.expressions import evaluate_boolean
from weft.platform.columns import columns
from weft.platform.machine import Machine
from weft.platform.platform import Platform, link_between, planned_machines
from weft.predictors.chain import default_chain
from weft.predictors.predictor import Predictor, subject
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, TaskGraph

__all__ = ["Violation", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule that a schedule breaks."""

    rule: str
    """precedence, duration, nodes, resources, binding, requirement, count, time, complete."""
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


def verify(
    schedule: Schedule, graph: TaskGraph, platform: Platform, *, predictor: Predictor | None = None
) -> list[Violation]:
    """List every rule the schedule breaks; an empty list means it is valid."""
    checker = _Verifier(schedule, graph, platform, predictor or default_chain())
    complete = list(checker.completeness())
    if complete:
        return complete
    return [
        *checker.modes(),
        *checker.precedence(),
        *checker.bindings(),
        *checker.occupancy(),
    ]


class _Verifier:
    def __init__(self, schedule: Schedule, graph: TaskGraph, platform: Platform, predictor: Predictor) -> None:
        self.schedule = schedule
        self.graph = graph
        self.platform = platform
        self.predictor = predictor
        self.machines = {machine.name: machine for machine in planned_machines(platform)}
        # Times are sums of doubles: what differs by rounding of the whole plan's length is equal.
        self.tolerance = 1e-9 * max(1.0, schedule.makespan_s)

    def machine(self, task: int) -> Machine:
        return self.machines[self.schedule.machines[self.schedule.machine[task]]]

    def completeness(self) -> Iterator[Violation]:
        """Every task once, on a machine that exists, at a time that is a time."""
        schedule = self.schedule
        if schedule.tasks != self.graph.names:
            yield Violation(rule="complete", what="the schedule's tasks are not the graph's")
            return
        unknown = [name for name in schedule.machines if name not in self.machines]
        if unknown:
            yield Violation(rule="complete", what=f"unknown machines {unknown[:3]}")
            return
        for task, name in enumerate(schedule.tasks):
            start, finish = schedule.start_s[task], schedule.finish_s[task]
            if not (math.isfinite(start) and math.isfinite(finish) and 0 <= start <= finish):
                yield Violation(rule="time", what=f"{name} from {start} to {finish}")
            if schedule.machine[task] >= len(schedule.machines):
                yield Violation(rule="complete", what=f"{name} on machine number {schedule.machine[task]}")

    def modes(self) -> Iterator[Violation]:
        """Node counts, machines and durations are those the description and the estimates allow."""
        facts = columns(tuple(self.machines.values()))
        row = {name: index for index, name in enumerate(self.machines)}
        for task, name in enumerate(self.graph.names):
            nodes, machine = int(self.schedule.nodes[task]), self.machine(task)
            if self.graph.kind[task] != COMPUTE:
                if nodes:
                    yield Violation(rule="count", what=f"{name} is no compute task but takes {nodes} nodes")
                continue
            description = self.graph.description(task)
            if not machine.offers(description.service):
                yield Violation(rule="requirement", what=f"{machine.name} does not offer {description.service}")
            if description.requirements is not None:
                here = {key: column[row[machine.name]] for key, column in facts.items()}
                here = {key: value.item() if hasattr(value, "item") else value for key, value in here.items()}
                if not evaluate_boolean(description.requirements, {**self.graph.context(task), **here}):
                    yield Violation(rule="requirement", what=f"{name} on {machine.name}: {description.requirements}")
            yield from self._duration(task, name, machine, nodes)

    def _duration(self, task: int, name: str, machine: Machine, nodes: int) -> Iterator[Violation]:
        cores = max(1, math.ceil(self.graph.cores[task]))
        if machine.node_is_core:
            count, rest = divmod(nodes, cores)
        else:
            count, rest = nodes, 0 if cores <= machine.cores else 1
        allowed = self.graph.count_sets[self.graph.counts[task]]
        if rest or count not in allowed:
            yield Violation(rule="count", what=f"{name} takes {nodes} nodes of {machine.name}; allowed are {allowed}")
            return
        estimate = self.predictor.predict(subject(self.graph, task), machine, count)
        seconds = None if estimate is None else estimate.p50_s
        taken = float(self.schedule.finish_s[task] - self.schedule.start_s[task])
        if seconds is None or not math.isclose(taken, seconds, rel_tol=1e-9, abs_tol=self.tolerance):
            yield Violation(rule="duration", what=f"{name} takes {taken} s on {machine.name}, estimated {seconds}")

    def precedence(self) -> Iterator[Violation]:
        """No task starts before its predecessors have ended and their data have arrived."""
        graph, schedule = self.graph, self.schedule
        for task, name in enumerate(graph.names):
            # A transfer reads where its source is; everything else reads on its own machine.
            here = self._source_machine(task) if graph.kind[task] == TRANSFER else self.machine(task)
            first = int(graph.predecessor_pointer[task])
            for edge, before in enumerate(graph.predecessors(task).tolist(), start=first):
                ready = float(schedule.finish_s[before]) + self._edge_seconds(edge, before, here)
                if schedule.start_s[task] < ready - self.tolerance:
                    what = f"{name} starts at {schedule.start_s[task]}, but {graph.names[before]} is ready at {ready}"
                    yield Violation(rule="precedence", what=what)
            if graph.kind[task] == TRANSFER:
                yield from self._transfer(task, name, here)
            elif graph.kind[task] != COMPUTE and schedule.finish_s[task] != schedule.start_s[task]:
                yield Violation(rule="duration", what=f"{name} is virtual but takes time")

    def _edge_seconds(self, edge: int, before: int, here: Machine) -> float:
        link = link_between(self.platform, self.machine(before), here)
        if link is None:
            return 0.0
        graph = self.graph
        size = float(graph.edge_bytes[edge])
        moving = size / link.bandwidth_Bps + float(graph.edge_files[edge]) * link.latency_s
        return moving + float(graph.edge_seconds[edge])

    def _source_machine(self, task: int) -> Machine:
        """Find the machine of a transfer's source: that of any task bound to the same variable."""
        source = self.graph.source_variable[task]
        bound = np.flatnonzero((self.graph.variable == source) & (self.graph.kind != TRANSFER))
        arriving = np.flatnonzero((self.graph.variable == source) & (self.graph.kind == TRANSFER))
        members = [*bound.tolist(), *arriving.tolist()]
        return self.machine(members[0]) if members else self.machine(task)

    def _transfer(self, task: int, name: str, source: Machine) -> Iterator[Violation]:
        link = link_between(self.platform, source, self.machine(task))
        size = float(self.graph.transfer_bytes[task])
        expected = 0.0 if link is None else link.latency_s + size / link.bandwidth_Bps
        taken = float(self.schedule.finish_s[task] - self.schedule.start_s[task])
        if not math.isclose(taken, expected, rel_tol=1e-9, abs_tol=self.tolerance):
            yield Violation(rule="duration", what=f"{name} takes {taken} s, the link {expected} s")

    def bindings(self) -> Iterator[Violation]:
        """Tasks that name the same abstract machine share one machine."""
        bound: dict[int, int] = {}
        for task, variable in enumerate(self.graph.variable.tolist()):
            machine = int(self.schedule.machine[task])
            if bound.setdefault(variable, machine) != machine:
                names = self.schedule.machines
                what = f"{self.graph.variables[variable]!r} is on {names[bound[variable]]} and on {names[machine]}"
                yield Violation(rule="binding", what=f"{what} ({self.graph.names[task]})")

    def occupancy(self) -> Iterator[Violation]:
        """Nodes and resources of a machine are never exceeded."""
        events: dict[int, list[tuple[float, int, int]]] = defaultdict(list)
        for task in np.flatnonzero(self.graph.kind == COMPUTE).tolist():
            start, finish = float(self.schedule.start_s[task]), float(self.schedule.finish_s[task])
            # Within the tolerance an end and a start at the same moment are handed over, not overlapping.
            if finish - start > 2 * self.tolerance:
                machine = int(self.schedule.machine[task])
                events[machine].append((start + self.tolerance, 1, task))
                events[machine].append((finish - self.tolerance, 0, task))
        for machine, listed in sorted(events.items()):
            yield from self._machine_occupancy(self.machines[self.schedule.machines[machine]], sorted(listed))

    def _machine_occupancy(self, machine: Machine, events: list[tuple[float, int, int]]) -> Iterator[Violation]:
        if machine.occupancy == "unlimited":
            return
        nodes, used = 0, np.zeros(len(self.graph.resource_names))
        stated = machine.amounts
        totals = [stated.get(name, math.inf if name == "memory" else 0.0) for name in self.graph.resource_names]
        limit = np.array(totals) * (1 + 1e-9) + 1e-9
        for time, starts, task in events:
            sign = 1 if starts else -1
            nodes += sign * int(self.schedule.nodes[task])
            used += sign * self.graph.demand[task]
            if starts and nodes > machine.nodes:
                what = f"{machine.name} has {machine.nodes} nodes but {nodes} are taken at {time:g} s"
                yield Violation(rule="nodes", what=f"{what} ({self.graph.names[task]})")
            if starts and bool((used > limit).any()):
                name = self.graph.resource_names[int(np.argmax(used > limit))]
                yield Violation(rule="resources", what=f"{name} of {machine.name} is exceeded at {time:g} s")
