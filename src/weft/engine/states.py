"""The states of a task, the legal steps between them, and what each means (unified section 2).

One table: whatever leads a task from one state to another that the table does not name is a bug, and raises
with the task's story.

An attempt: one try of a task, from its assignment to its end.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from weft.engine.messages import Assign

__all__ = ["ACTIVE", "FINAL", "STATES", "TRANSITIONS", "Attempt", "Demand", "Stage", "TaskState"]


class TaskState(enum.IntEnum):
    """Where a task is in its life."""

    WAITING = 0
    """Some predecessor has not ended yet."""
    READY = 1
    """Nothing is missing but a machine."""
    SCHEDULED = 2
    """Bound to a machine; waits for data, predecessors or nodes there."""
    PROLOG = 3
    """Its files are on the way to the machine."""
    SUBMITTED = 4
    """The machine was told to start it and has not said yet that it did."""
    RUNNING = 5
    """Its program runs."""
    EPILOG = 6
    """Its outputs are on the way to where they were asked for."""
    COMPLETED = 7
    """It ended well (in the current iteration of its loops)."""
    MIGRATING = 8
    """It is being moved: cancelled here, prepared there."""
    SUSPENDED = 9
    """The machine's own system has stopped it for a while."""
    HELD = 10
    """It could go on, but somebody wants it to wait."""
    STOPPED = 11
    """It failed, and waits for the user to resume it."""
    FAILED = 12
    """It failed for good."""
    CANCELLED = 13
    """It was given up because the user or its workflow was."""
    SKIPPED = 14
    """The branch that leads to it was not taken."""


_S = TaskState

_SENT_BACK = (_S.READY, _S.WAITING, _S.HELD, _S.STOPPED, _S.FAILED, _S.CANCELLED)
"""Where a task goes whose attempt is given up."""
_BEGUN = (_S.EPILOG, _S.COMPLETED, _S.MIGRATING, _S.SUSPENDED, *_SENT_BACK)
"""Where a task may go whose machine was told to start it."""
_ON_ITS_MACHINE = (_S.SUBMITTED, _S.RUNNING, _S.COMPLETED, _S.MIGRATING, _S.SKIPPED, *_SENT_BACK)
"""Where a task may go that has a machine and was not started there."""

_NEXT_STATES: dict[TaskState, tuple[TaskState, ...]] = {
    _S.WAITING: (_S.READY, _S.SCHEDULED, _S.COMPLETED, _S.SKIPPED, _S.HELD, _S.CANCELLED),
    _S.READY: (_S.WAITING, _S.SCHEDULED, _S.COMPLETED, _S.SKIPPED, _S.HELD, _S.FAILED, _S.CANCELLED),
    _S.SCHEDULED: (_S.PROLOG, *_ON_ITS_MACHINE),
    _S.PROLOG: (_S.SCHEDULED, *_ON_ITS_MACHINE),
    _S.SUBMITTED: (_S.RUNNING, *_BEGUN),
    _S.RUNNING: _BEGUN,
    _S.EPILOG: (_S.COMPLETED, *_SENT_BACK),
    _S.MIGRATING: (
        _S.SCHEDULED,
        _S.PROLOG,
        _S.SUBMITTED,
        _S.RUNNING,
        _S.SUSPENDED,
        _S.EPILOG,
        _S.COMPLETED,
        *_SENT_BACK,
    ),
    _S.SUSPENDED: (_S.RUNNING, _S.MIGRATING, _S.EPILOG, _S.COMPLETED, *_SENT_BACK),
    _S.HELD: (_S.READY, _S.WAITING, _S.CANCELLED),
    _S.STOPPED: (_S.READY, _S.WAITING, _S.CANCELLED),
    _S.COMPLETED: (_S.WAITING, _S.READY, _S.FAILED),
    _S.SKIPPED: (_S.WAITING, _S.READY),
    _S.FAILED: (_S.READY, _S.WAITING),
    _S.CANCELLED: (),
}

TRANSITIONS: dict[int, frozenset[TaskState]] = {
    state: frozenset(steps) for state, steps in _NEXT_STATES.items()
}
"""From each state: the states that may follow. COMPLETED and SKIPPED are left when a loop begins its next
iteration or a completed task must run again; FAILED when the user resumes the run.
The last task of a loop that has not converged goes from COMPLETED to FAILED."""

STATES = {state.name: state for state in TaskState}
"""By name."""

FINAL = frozenset({_S.COMPLETED, _S.SKIPPED, _S.FAILED, _S.CANCELLED, _S.STOPPED})
"""Nothing happens to such a task by itself."""

ACTIVE = frozenset({_S.SCHEDULED, _S.PROLOG, _S.SUBMITTED, _S.RUNNING, _S.EPILOG, _S.MIGRATING, _S.SUSPENDED})
"""Such a task has a live attempt."""


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
