"""The desk: where decisions become commands. Each takes effect on the state the moment it is made."""

from __future__ import annotations

from weft.engine.enacting import enact
from weft.engine.messages.commands import Command
from weft.engine.settings import Settings
from weft.engine.state.state import State
from weft.policies.policy import Policy

__all__ = ["Desk"]


class Desk:
    """What deciding code works with: the state to read, the settings, and a way to give commands."""

    __slots__ = ("commands", "policy", "settings", "state", "watchful")

    def __init__(self, state: State, policy: Policy, settings: Settings) -> None:
        self.state = state
        self.policy = policy
        self.settings = settings
        self.watchful = not (
            settings.contract is None
            and settings.iteration_limit_s is None
            and settings.waiting_timeout_s is None
            and settings.replanning is None
        )
        """Whether attempts are watched even if their tasks state no contracts."""
        self.commands: list[Command] = []

    def emit(self, command: Command) -> None:
        """Give a command."""
        enact(self.state, command)
        self.commands.append(command)

    def taken(self) -> list[Command]:
        """Hand over the commands given since the last time."""
        commands, self.commands = self.commands, []
        return commands
