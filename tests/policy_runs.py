"""Helpers for tests of policies: undisturbed simulated runs, and the machine and times of every task."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.backends.simulation.scenario import UNDISTURBED, Arrival
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.state.compiled import WorkflowLibrary
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings

__all__ = ["Line", "PolicyRunResult", "run_all"]


@dataclass(frozen=True)
class Line:
    """Machine, nodes and times of a task that ran."""

    machine: int
    nodes: int
    start_s: float
    finish_s: float


@dataclass
class PolicyRunResult:
    """The result of a simulation; for a task that ran several times, its last run."""

    engine: object = None
    lines: dict[int, dict[str, Line]] = field(default_factory=dict)
    """By run and task name: the last run of the task."""
    order: list[tuple[int, str]] = field(default_factory=list)
    """Runs and tasks in order of their starts."""
    decisions: list[cm.Assign] = field(default_factory=list)
    started: dict[int, tuple[cm.Start, float]] = field(default_factory=dict)

    def record(self, entry, names_of):
        """Add an entry of the journal."""
        for command in entry.commands:
            if isinstance(command, cm.Start):
                self.started[command.attempt] = (command, entry.now)
                self.order.append((command.run, names_of(command.run)[command.task]))
            elif isinstance(command, cm.Assign):
                self.decisions.append(command)
        if isinstance(entry.event, ev.Ended) and entry.event.attempt in self.started:
            command, start_s = self.started.pop(entry.event.attempt)
            line = Line(command.machine, command.nodes, start_s, entry.now)
            self.lines.setdefault(command.run, {})[names_of(command.run)[command.task]] = line

    @property
    def end_s(self):
        """Return the end of the last task."""
        return max(self.ended_s(run) for run in self.lines)

    def ended_s(self, run):
        """Return the end of the last task of a run."""
        return max(line.finish_s for line in self.lines[run].values())

    def endings(self):
        """Return the outcomes of the runs, in order."""
        return [run.ending for run in self.engine.state.runs]


def run_all(instances, arrivals, policy, scenario=UNDISTURBED, settings=None, **options):
    """Return the result of simulated ``arrivals``, (time, key) of ``instances``, under a policy."""
    names = {key: made.graph.names for key, made in instances.items()}
    simulation = Simulation(
        library=WorkflowLibrary(dict(instances)),
        arrivals=[Arrival(workflow=key, at_s=float(time)) for time, key in arrivals],
        policy=make_policy(policy) if isinstance(policy, str) else policy,
        settings=settings or RunSettings(),
        scenario=scenario,
        **options,
    )
    ran = PolicyRunResult()
    ran.engine = simulation.run(record=lambda entry: ran.record(entry, lambda run: names[arrivals[run][1]]))
    return ran
