"""What a simulation gave: per seed a history and its numbers; over several seeds medians and spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from weft.engine.history.history import History
from weft.engine.history.measures import (
    Use,
    causes,
    migration_reasons,
    replicated_share,
    slowdowns,
    uses,
)
from weft.instance.instance import Instance
from weft.planners.bounding import bounds_of
from weft.platform.platform import Platform
from weft.studies.statistics import Summary, summary

__all__ = ["MEASURES", "SimulatedRun", "SimulatedRuns"]

_CURVE_POINTS = 1_000
"""Steps of a curve that are written into a record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedRun:
    """One simulation."""

    seed: int
    history: History
    machines: tuple[tuple[str, int], ...]
    """Name and nodes of each machine."""
    instances: Mapping[str, Instance]
    stuck: tuple[str, ...] = ()
    """Why it could not go on; empty: every run ended."""
    pending: int = 0
    """Workflows that had not arrived when it ended."""

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Name the machines."""
        return tuple(name for name, _ in self.machines)

    @property
    def end_s(self) -> float:
        """Give when the last run ended."""
        return self.history.end_s

    @property
    def outcome(self) -> str:
        """Say how it ended: ``completed``, ``failed`` (some run did not complete), ``stuck``."""
        if self.stuck:
            return "stuck"
        return "completed" if all(run.outcome == "completed" for run in self.history.runs) else "failed"

    @cached_property
    def lower_bound_s(self) -> float:
        """Give a time before which all this cannot end, if estimates are right and loops run once."""
        bounds = (run.arrival_s + bounds_of(self.instances[run.workflow]).best_s for run in self.history.runs)
        return max(bounds, default=0.0)

    @cached_property
    def uses(self) -> list[Use]:
        """Measure the machines."""
        return uses(self.history, self.machines)

    @property
    def utilisation(self) -> float:
        """Give the share of all node-seconds up to the end that was taken."""
        offered = sum(nodes for _, nodes in self.machines) * self.end_s
        return sum(use.busy_node_s for use in self.uses) / offered if offered > 0 else 0.0

    @property
    def replicated(self) -> float:
        """Give the share of the node-seconds taken that was replicated work."""
        return replicated_share(self.uses)

    @property
    def migrations(self) -> int:
        """Count the migrations."""
        return sum(not move.off for move in self.history.moves)

    @cached_property
    def slowdown(self) -> Summary | None:
        """Sum up the slowdowns of the runs that completed; None: none did."""
        found = [value for values in slowdowns(self.history).values() for value in values]
        return summary(found) if found else None

    @cached_property
    def slowdown_of(self) -> dict[str, Summary]:
        """Sum up the slowdowns by application."""
        return {name: summary(values) for name, values in slowdowns(self.history).items()}

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        history, names = self.history, self.machine_names
        return {
            "seed": self.seed,
            "outcome": self.outcome,
            "stuck": list(self.stuck),
            "end_s": self.end_s,
            "lower_bound_s": self.lower_bound_s,
            "entries": history.entries,
            "utilisation": self.utilisation,
            "replicated_share": self.replicated,
            "violations": history.violations,
            "migration_reasons": migration_reasons(history),
            "failure_causes": causes(history),
            "runs": [run.as_record() for run in history.runs],
            "slowdowns": {name: asdict(found) for name, found in self.slowdown_of.items()},
            "machines": [asdict(use) for use in self.uses],
            "migrations": [move.as_record(names) for move in history.moves],
            "failures": [asdict(failure) for failure in history.failures],
            "attempts": [attempt.as_record(names) for attempt in history.attempts.values()],
            "active": [list(step) for step in history.active.thinned(_CURVE_POINTS)],
            "ready": [list(step) for step in history.ready.thinned(_CURVE_POINTS)],
        }


def _mean_slowdown(run: SimulatedRun) -> float | None:
    return None if run.slowdown is None else run.slowdown.mean


MEASURES: Mapping[str, Callable[[SimulatedRun], float | None]] = {
    "end_s": lambda run: run.end_s,
    "mean_slowdown": _mean_slowdown,
    "migrations": lambda run: float(run.migrations),
    "replicated_share": lambda run: run.replicated,
    "utilisation": lambda run: run.utilisation,
}
"""The numbers of which repetitions give medians and spread."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedRuns:
    """One simulation or several, of seeds in a row."""

    platform: Platform
    policy: str
    planner: str | None
    """None: nobody asks one."""
    scenario: str
    preset: str
    runs: tuple[SimulatedRun, ...]

    @property
    def first(self) -> SimulatedRun:
        """Give the run of the first seed."""
        return self.runs[0]

    @property
    def end_s(self) -> float:
        """Give the end of the first run; with several seeds the median."""
        return self.spread("end_s").median

    @property
    def outcome(self) -> str:
        """Give the worst outcome of all."""
        found = {run.outcome for run in self.runs}
        return next(word for word in ("stuck", "failed", "completed") if word in found)

    def spread(self, measure: str) -> Summary:
        """Sum up one of the measures over the seeds."""
        found = _present([MEASURES[measure](run) for run in self.runs])
        return summary(found or [0.0])

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data: the object ``weft simulate --json`` prints."""
        return {
            "platform": self.platform.name,
            "policy": self.policy,
            "planner": self.planner,
            "scenario": self.scenario,
            "preset": self.preset,
            "outcome": self.outcome,
            "end_s": self.end_s,
            "measures": {name: asdict(self.spread(name)) for name in MEASURES},
            "simulations": [run.as_record() for run in self.runs],
        }


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
