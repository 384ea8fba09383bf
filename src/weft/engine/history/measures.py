"""Numbers that sum a history up: utilisation, replicated work, slowdowns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.engine.history.happenings import Tried
from weft.engine.history.history import History

__all__ = ["Use", "causes", "migration_reasons", "replicated_share", "slowdowns", "taken", "uses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How a machine was used from 0 to the end."""

    machine: str
    attempts: int
    busy_node_s: float
    replicated_node_s: float
    """Of these: what was done again elsewhere, or lost."""
    down_s: float
    share: float
    """Busy node-seconds over those the machine has."""


def uses(history: History, machines: Sequence[tuple[str, int]]) -> list[Use]:
    """Measure every machine, given by name and nodes."""
    end_s = history.end_s
    busy, waste, number = ([0.0] * len(machines) for _ in range(3))
    for attempt in history.attempts.values():
        if attempt.started_s is not None:
            busy[attempt.machine] += taken(attempt, end_s)
            waste[attempt.machine] += taken(attempt, end_s) - attempt.nodes * attempt.useful_s
            number[attempt.machine] += 1
    down = [0.0] * len(machines)
    for machine, since_s, until_s in history.down:
        down[machine] += max(0.0, min(end_s if until_s is None else until_s, end_s) - since_s)
    return [
        Use(
            machine=name,
            attempts=int(number[index]),
            busy_node_s=busy[index],
            replicated_node_s=waste[index],
            down_s=down[index],
            share=busy[index] / (nodes * end_s) if nodes * end_s > 0 else 0.0,
        )
        for index, (name, nodes) in enumerate(machines)
    ]


def taken(attempt: Tried, end_s: float) -> float:
    """Give the node-seconds an attempt took up to a time."""
    if attempt.started_s is None:
        return 0.0
    ended_s = end_s if attempt.ended_s is None else attempt.ended_s
    return attempt.nodes * max(0.0, ended_s - attempt.started_s)


def replicated_share(found: Sequence[Use]) -> float:
    """Give the share of all node-seconds taken that served nobody in the end (S1: replicated work)."""
    busy = sum(use.busy_node_s for use in found)
    return sum(use.replicated_node_s for use in found) / busy if busy > 0 else 0.0


def migration_reasons(history: History) -> dict[str, int]:
    """Count the migrations by reason, the most frequent first."""
    return dict(Counter(move.reason for move in history.moves if not move.off).most_common())


def causes(history: History) -> dict[str, int]:
    """Count the failures by cause, the most frequent first."""
    return dict(Counter(failure.cause for failure in history.failures).most_common())


def slowdowns(history: History) -> dict[str, list[float]]:
    """Give the slowdowns of the completed runs by application (workflow), in the order of their arrival."""
    found: dict[str, list[float]] = {}
    for run in history.runs:
        if run.slowdown is not None:
            found.setdefault(run.workflow, []).append(run.slowdown)
    return found
