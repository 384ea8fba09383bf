"""The context in which reactions make decisions: every command changes the state when it is emitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from weft.engine.messages import STOPPED, AwaitMachine, Cancel, Command, ReportModule, SetTimer, Settle
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt, Cause, TaskState
from weft.engine.transitions import ENACT
from weft.policies.policy import Policy

_OPEN = (TaskState.READY, TaskState.WAITING, TaskState.HELD)
"""States of a task that has no attempt and will run."""


class DecisionContext:
    """The state, settings and policy that reactions use, and the methods with which they emit commands."""

    __slots__ = ("commands", "policy", "selector_programs", "selectors", "settings", "state")

    def __init__(
        self,
        state: EngineState,
        policy: Policy,
        selectors: Mapping[str, Policy] | None = None,
        selector_programs: Sequence[str] = (),
    ) -> None:
        self.state = state
        self.policy = policy
        """The policy that makes the decisions."""
        self.selectors = selectors or {}
        """By selector name: the policy that places the tasks with this ``selector``."""
        self.selector_programs = tuple(selector_programs)
        """Names of the selectors that are programs instead of policies."""
        self.settings = state.settings
        """The settings that all runs share; ``RunState.settings_of`` returns those of a task."""
        self.commands: list[Command] = []

    @contextmanager
    def use_policy(self, policy: Policy) -> Iterator[None]:
        """Replace the policy of this context within a ``with`` block; error messages name the new policy."""
        usual, self.policy = self.policy, policy
        try:
            yield
        finally:
            self.policy = usual

    def max_retries(self, run: RunState, task: int, cause: Cause) -> int:
        """Return how often a task may be retried after a failure with this cause."""
        return run.settings_of(task).retries.get(cause, 0)

    def settle(
        self,
        run: RunState,
        task: int,
        state: TaskState,
        *,
        reason: str = "",
        cause: Cause = Cause.NONE,
        again: bool = False,
        keep: bool = False,
        growth: float | None = None,
        avoid: bool = False,
        fresh: bool = False,
    ) -> None:
        """Emit a Settle command, which sets the state of a task.

        The keyword arguments are fields of ``Settle``. If the task has no attempt afterwards, a migration for
        which its attempt waits is called off.
        """
        if state in _OPEN and (attempt := self.state.attempt_of(run, task)) is not None:
            self._leave_reservation(attempt, reason)
        self.emit(
            Settle(
                run=run.index,
                task=task,
                state=state,
                cause=cause,
                reason=reason,
                again=again,
                keep=keep,
                growth=growth,
                avoid=avoid,
                fresh=fresh,
            )
        )

    def reopen(
        self, run: RunState, task: int, reason: str, *, keep: bool = False, fresh: bool = False
    ) -> None:
        """Make a task ready or waiting again without counting a failure.

        ``keep``: keep the files of the current attempt until the next attempt is prepared. ``fresh``: the
        next attempt does not use the restart files.
        """
        self.settle(run, task, run.open_state(task), reason=reason, again=True, keep=keep, fresh=fresh)

    def report_module(self, run: int, task: int, attempt: int, module: str, problem: str) -> None:
        """Record that a module of a task, such as its evaluator, failed; the task continues."""
        self.emit(ReportModule(run=run, task=task, attempt=attempt, module=module, reason=problem))

    def cancel(self, attempt: Attempt, reason: str) -> None:
        """Emit a Cancel command for an attempt; a migration for which it waits is called off."""
        if reason != STOPPED:
            self._leave_reservation(attempt, reason)
        self.emit(Cancel(attempt=attempt.number, machine=attempt.machine, reason=reason))

    def call_off_migration(self, attempt: Attempt, text: str) -> None:
        """Record why an attempt no longer waits for the machine to which the user wanted to move it."""
        self.emit(AwaitMachine(run=attempt.run, task=attempt.task, attempt=attempt.number, reason=text))

    def _leave_reservation(self, attempt: Attempt, reason: str) -> None:
        """Call off the migration for which an attempt waits, if any, because the attempt ends."""
        if (machine := attempt.awaited_machine) is not None:
            name = self.state.machines[machine].name
            self.call_off_migration(attempt, f"it does not move to {name}: {reason}")

    def set_timer(self, timer: str, at_s: float) -> None:
        """Emit a SetTimer command, which requests a TimerFired event at time ``at_s``."""
        self.emit(SetTimer(timer=timer, at_s=at_s))

    def emit(self, command: Command) -> None:
        """Apply a command to the state and add it to the list that ``take_commands`` returns."""
        ENACT[type(command)](self.state, command)
        self.commands.append(command)

    def take_commands(self) -> list[Command]:
        """Return the commands emitted since the last call and clear the list."""
        commands, self.commands = self.commands, []
        return commands
