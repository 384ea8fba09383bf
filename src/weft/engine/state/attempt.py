"""An attempt: one try of a task, from its assignment to its end."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from weft.engine.messages.commands import Assign

__all__ = ["Attempt", "Demand", "Stage"]

Demand = tuple[tuple[str, float], ...]
"""Countable resources by name, with amounts: workflows do not name the same ones in the same order."""


class Stage(enum.IntEnum):
    """How far an attempt is."""

    ASSIGNED = 0
    """It has a machine; data, predecessors or nodes are missing."""
    SUBMITTED = 1
    """The machine was told to start it."""
    RUNNING = 2
    """Its program runs."""
    ENDED = 3
    """Its program is over; what it means is still to be judged."""
    STAGING_OUT = 4
    """Its outputs are on the way."""
    CLEANING = 5
    """What it left is being removed."""
    OVER = 6
    """Nothing is left to do."""


@dataclass(slots=True)
class Attempt:
    """What the engine knows of one try."""

    number: int
    run: int
    task: int
    iteration: int
    machine: int
    nodes: int
    count: int
    reserve: bool
    order: float | None
    replaces: int | None
    restart_from: float
    seconds: float
    """Estimated, of what is left to do, at the speed the platform states."""
    assigned_s: float
    demand: Demand = ()
    stage: Stage = Stage.ASSIGNED
    holds: bool = False
    """Whether nodes of the machine are taken by it."""
    queued: bool = False
    """Whether it waits in its machine's queue."""
    parts: int = 0
    """How often data were sent for."""
    staging: int = 0
    """How many of these are still on the way."""
    sent_for: frozenset[int] = frozenset()
    """The predecessors whose data were sent for."""
    staged_in: bool = False
    """Whether anything was brought for it: there is something to clean up."""
    started_s: float | None = None
    ended_s: float | None = None
    expected_end_s: float = 0.0
    work_done: float | None = None
    checkpoint: float = 0.0
    """The share of the work that its last restart files spare a successor."""
    last_iteration_s: float | None = None
    all_iterations: int | None = None
    """How many iterations its application has in all, if it says so."""
    reported_s: float | None = None
    """When it was last heard of."""
    probed_s: float | None = None
    """When it was last asked about."""
    suspended_since_s: float | None = None
    ratio: float | None = None
    violating: bool = False
    """Whether it was found to break its contract."""
    cancelled: str = ""
    """Why it is being ended by us; "": it is not."""
    left_for: str = ""
    """Why its task left it and waits for another machine: a code; "": it does not."""
    replaced_by: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, command: Assign, iteration: int, seconds: float, now: float, demand: Demand) -> Attempt:
        """Begin what an assignment says."""
        return cls(
            command.attempt,
            command.run,
            command.task,
            iteration,
            command.machine,
            command.nodes,
            command.count,
            command.reserve,
            command.order,
            command.replaces,
            command.restart_from,
            seconds,
            now,
            demand,
            checkpoint=command.restart_from,
            reason=command.reason,
        )

    @property
    def turn(self) -> tuple[float, int]:
        """Give its place in the machine's queue."""
        return (math.inf if self.order is None else self.order, self.number)

    @property
    def live(self) -> bool:
        """Say whether a world may still report of its program."""
        return self.stage < Stage.ENDED
