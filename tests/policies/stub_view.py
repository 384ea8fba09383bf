"""A stub of the decision view, for tests without an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from weft.planners.ranks import mean_seconds, upward_ranks
from weft.policies.policy import Mode
from weft.workflow.task_graph import COMPUTE

__all__ = ["StubView", "attempt", "mode", "run_of"]


@dataclass
class StubView:
    """The part of a view that priorities and forecasts read."""

    speed_factors: tuple
    now: float = 0.0
    live: list = field(default_factory=list)
    runs: list = field(default_factory=list)

    def attempts_of(self, run, most):
        return [attempt for attempt in self.live if attempt.run == run.index][:most]

    @classmethod
    def of(cls, instance, *, now=0.0, live=(), factors=None):
        """Return a view of all machines of an instance; a factor of 0 means down."""
        return cls(tuple(factors or [1.0] * len(instance.machines)), now, list(live))


def run_of(
    instance, *, index=0, arrival_s=0.0, done=(), where=None, alone_s=1.0, bound=None, plan=None, priority=1.0
):
    """Return a run with some finished tasks on the machines ``where``."""
    means, ranks = mean_seconds(instance).tolist(), upward_ranks(instance).tolist()
    left = [task for task in range(len(instance)) if task not in set(done)]
    return SimpleNamespace(
        index=index,
        arrival_s=arrival_s,
        priority=priority,
        instance=instance,
        alone_s=alone_s,
        ranks=ranks,
        mean_seconds=means,
        remaining_s=sum(means[task] for task in left),
        computing_s=sum(means[task] for task in left if instance.graph.kind[task] == COMPUTE),
        unfinished=left,
        first_unfinished=lambda most: sorted(left, key=lambda task: (-ranks[task], task))[:most],
        where=(where or {}).get,
        bound=(bound or {}).get,
        plan=plan,
    )


def attempt(task, machine, expected_end_s, *, run=0, nodes=1, ended_s=None):
    """Return a running attempt, or one whose program has ended."""
    return SimpleNamespace(
        run=run, task=task, machine=machine, nodes=nodes, expected_end_s=expected_end_s, ended_s=ended_s
    )


def mode(machine, count, seconds, finish_s=None, ready_s=0.0):
    """Return a mode with as many nodes as its count."""
    return Mode(machine, count, count, seconds, ready_s, seconds if finish_s is None else finish_s)
