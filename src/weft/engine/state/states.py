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


_S = TaskState

_SENT_BACK = (_S.READY, _S.WAITING, _S.HELD, _S.STOPPED, _S.FAILED, _S.CANCELLED)
"""Where a task goes whose attempt is given up."""
_BEGUN = (_S.EPILOG, _S.COMPLETED, _S.MIGRATING, _S.SUSPENDED, *_SENT_BACK)
"""Where a task may go whose machine was told to start it."""
_ON_ITS_MACHINE = (_S.SUBMITTED, _S.RUNNING, _S.COMPLETED, _S.MIGRATING, _S.SKIPPED, *_SENT_BACK)
"""Where a task may go that has a machine and was not started there."""

_STEPS: dict[TaskState, tuple[TaskState, ...]] = {
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

STEPS: dict[int, frozenset[TaskState]] = {state: frozenset(steps) for state, steps in _STEPS.items()}
"""From each state: the states that may follow. COMPLETED and SKIPPED are left when a loop begins its next
iteration or a completed task must run again; FAILED when the user resumes the run.
The last task of a loop that has not converged goes from COMPLETED to FAILED."""

STATES = {state.name: state for state in TaskState}
"""By name."""

FINAL = frozenset({_S.COMPLETED, _S.SKIPPED, _S.FAILED, _S.CANCELLED, _S.STOPPED})
"""Nothing happens to such a task by itself."""

ACTIVE = frozenset({_S.SCHEDULED, _S.PROLOG, _S.SUBMITTED, _S.RUNNING, _S.EPILOG, _S.MIGRATING, _S.SUSPENDED})
"""Such a task has a live attempt."""
