"""The states of a task, the legal steps between them, and what each means (unified section 2).

One table: whatever leads a task from one state to another that the table does not name is a bug, and raises
with the task's story.
"""

from __future__ import annotations

import enum

__all__ = ["ACTIVE", "FINAL", "STATES", "STEPS", "TaskState"]


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


S = TaskState

_STEPS: dict[TaskState, tuple[TaskState, ...]] = {
    S.WAITING: (S.READY, S.SCHEDULED, S.COMPLETED, S.SKIPPED, S.HELD, S.CANCELLED),
    S.READY: (S.SCHEDULED, S.COMPLETED, S.WAITING, S.SKIPPED, S.HELD, S.FAILED, S.CANCELLED),
    S.SCHEDULED: (
        S.PROLOG,
        S.SUBMITTED,
        S.RUNNING,
        S.COMPLETED,
        S.MIGRATING,
        S.READY,
        S.WAITING,
        S.SKIPPED,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.PROLOG: (
        S.SCHEDULED,
        S.SUBMITTED,
        S.RUNNING,
        S.COMPLETED,
        S.MIGRATING,
        S.READY,
        S.WAITING,
        S.SKIPPED,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.SUBMITTED: (
        S.RUNNING,
        S.EPILOG,
        S.COMPLETED,
        S.MIGRATING,
        S.SUSPENDED,
        S.READY,
        S.WAITING,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.RUNNING: (
        S.EPILOG,
        S.COMPLETED,
        S.MIGRATING,
        S.SUSPENDED,
        S.READY,
        S.WAITING,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.EPILOG: (S.COMPLETED, S.READY, S.WAITING, S.HELD, S.STOPPED, S.FAILED, S.CANCELLED),
    S.MIGRATING: (
        S.SCHEDULED,
        S.PROLOG,
        S.SUBMITTED,
        S.RUNNING,
        S.SUSPENDED,
        S.READY,
        S.WAITING,
        S.COMPLETED,
        S.EPILOG,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.SUSPENDED: (
        S.RUNNING,
        S.MIGRATING,
        S.EPILOG,
        S.COMPLETED,
        S.READY,
        S.WAITING,
        S.HELD,
        S.STOPPED,
        S.FAILED,
        S.CANCELLED,
    ),
    S.HELD: (S.READY, S.WAITING, S.CANCELLED),
    S.STOPPED: (S.READY, S.WAITING, S.CANCELLED),
    S.COMPLETED: (S.WAITING, S.READY, S.FAILED),
    S.SKIPPED: (S.WAITING, S.READY),
    S.FAILED: (S.READY, S.WAITING),
    S.CANCELLED: (),
}
STEPS: dict[int, frozenset[TaskState]] = {state: frozenset(steps) for state, steps in _STEPS.items()}
"""From each state: the states that may follow. COMPLETED and SKIPPED are left when a loop begins its next
iteration or a completed task must run again; FAILED when the user resumes the run.
The last task of a loop that has not converged goes from COMPLETED to FAILED."""

STATES = {state.name: state for state in TaskState}
"""By name."""

FINAL = frozenset({S.COMPLETED, S.SKIPPED, S.FAILED, S.CANCELLED, S.STOPPED})
"""Nothing happens to such a task by itself."""

ACTIVE = frozenset({S.SCHEDULED, S.PROLOG, S.SUBMITTED, S.RUNNING, S.EPILOG, S.MIGRATING, S.SUSPENDED})
"""Such a task has a live attempt."""
