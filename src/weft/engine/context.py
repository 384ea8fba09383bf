"""The context: where decisions become commands. Each takes effect on the state the moment it is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from weft.engine.messages import Command
from weft.engine.settings import EngineSettings
from weft.engine.state.state import EngineState
from weft.engine.transitions import ENACT
from weft.policies.policy import Policy

__all__ = ["DecisionContext"]


class DecisionContext:
    """What deciding code works with: the state to read, the settings, and a way to give commands."""

    __slots__ = ("commands", "policy", "selectors", "settings", "state", "watchful")

    def __init__(
        self,
        state: EngineState,
        policy: Policy,
        settings: EngineSettings,
        selectors: Mapping[str, Policy] | None = None,
    ) -> None:
        self.state = state
        self.policy = policy
        """Who decides."""
        self.selectors = selectors or {}
        """By name: who decides about jobs that bring a selector of their own."""
        self.settings = settings
        self.watchful = not (
            settings.contract is None
            and settings.iteration_limit_s is None
            and settings.waiting_timeout_s is None
            and settings.replanning is None
        )
        """Whether attempts are watched even if their tasks state no contracts."""
        self.commands: list[Command] = []

    @contextmanager
    def led_by(self, policy: Policy) -> Iterator[None]:
        """Let another policy decide for a moment: mistakes are told by its name."""
        usual, self.policy = self.policy, policy
        try:
            yield
        finally:
            self.policy = usual

    def emit(self, command: Command) -> None:
        """Give a command."""
        ENACT[type(command)](self.state, command)
        self.commands.append(command)

    def taken(self) -> list[Command]:
        """Hand over the commands given since the last time."""
        commands, self.commands = self.commands, []
        return commands
