"""The engine: a function from events to commands; the time is an argument.

``handle`` applies an event, makes decisions and returns the commands. ``apply`` applies an event and the
commands recorded for it, without making decisions. Both change the state only through ``absorb`` and
``enact``, so a state rebuilt from a journal equals the state of the engine that wrote the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from weft.engine.context import DecisionContext
from weft.engine.messages import Command, Event, RequestReceived, RequirementsChanged, Submitted
from weft.engine.reactions import machines
from weft.engine.reactions.dispatch import dispatch, start_prepared_attempts
from weft.engine.reactions.lifecycle import finish_runs, react
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.state import EngineState
from weft.engine.states import TimerKind
from weft.engine.transitions import absorb, enact
from weft.engine.view import EngineView
from weft.errors import InvalidInput, WeftError
from weft.instance.instance import Instance
from weft.policies.policy import Policy
from weft.workflow.settings import DEFAULTS, RunSettings, SettingsLayers
from weft.workflow.task import JobSpec

_MAY_BEGIN = (Submitted, RequestReceived, RequirementsChanged)
"""Events after which the engine sets the periodic timers that are not set yet.

Such an event can make a run active or require new queries.
"""


class Engine:
    """Hold the state of all runs and return the commands that follow from each event."""

    def __init__(
        self,
        library: WorkflowLibrary,
        instance: Instance,
        policy: Policy,
        settings: SettingsLayers | RunSettings | None = None,
        *,
        policy_named: Callable[[str], Policy] | None = None,
        absent: Collection[str] = (),
    ) -> None:
        """Create an engine without runs.

        ``instance`` describes the machines; it may belong to any workflow on the platform. ``policy_named``
        returns the policy whose name a task states as its ``selector``. ``absent`` holds the names of
        machines that are not available yet; they join later with a MachineChanged event.
        """
        layers = (
            settings if isinstance(settings, SettingsLayers) else SettingsLayers(base=settings or DEFAULTS)
        )
        self.policy = policy
        self.instance = instance
        self.state = EngineState(
            library,
            instance,
            policy.order,
            planned=policy.needs_plan,
            layers=layers,
            absent=absent,
        )
        self.settings = self.state.settings
        programs = [name for name in library.selectors if JobSpec(selector=name).selector_program]
        self._context = DecisionContext(self.state, policy, _selectors(library, policy_named), programs)
        self._view = EngineView(self.state)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Apply an event at time ``now``, make decisions, and return the commands."""
        if now < self.state.now:
            raise WeftError(f"event at {now} s after an event at {self.state.now} s: time cannot go back")
        absorb(self.state, event, now)
        context = self._context
        react(context, event)
        if type(event) in _MAY_BEGIN:
            self._begin_timers()
        self._settle_down()
        self.state.pending.clear()  # a timer may have named a queue that is empty by now
        return context.take_commands()

    def apply(self, event: Event, now: float, commands: Sequence[Command]) -> None:
        """Apply a recorded event and its commands without making decisions."""
        absorb(self.state, event, now)
        for command in commands:
            enact(self.state, command)
        # The recorded decision left these unprocessed; clear them.
        self.state.pending.clear()

    def _settle_down(self) -> None:
        """Start attempts, place tasks and finish runs until the state no longer changes."""
        state, context, pending = self.state, self._context, self.state.pending
        while True:
            if pending.runs:
                finish_runs(context)
            # Under a plan the queues depend on what the policy has placed, so the policy goes first.
            if (pending.attempts or pending.queues) and not (state.planned and pending.policy):
                start_prepared_attempts(context)
            if not pending.policy:
                return
            dispatch(context, self._view)
            if not pending:
                return

    def _begin_timers(self) -> None:
        """Set the periodic timers that are not set yet, if a run is active."""
        state, settings, context = self.state, self.settings, self._context
        if not state.active:
            return
        if (every_s := state.search_interval_s) is not None and TimerKind.BETTER not in state.timers:
            context.set_timer(TimerKind.BETTER, state.now + every_s)
        if settings.ladder_every_s is not None and TimerKind.LADDER not in state.timers:
            context.set_timer(TimerKind.LADDER, state.now + settings.ladder_every_s)
        machines.refresh_inquiries(context)


def _selectors(library: WorkflowLibrary, policy_named: Callable[[str], Policy] | None) -> dict[str, Policy]:
    """Return the policies that tasks name as their selectors, by name.

    Raise InvalidInput if a policy is unknown or needs a plan.
    """
    found: dict[str, Policy] = {}
    for name in library.selectors:
        if JobSpec(selector=name).selector_program:
            continue
        policy = None if policy_named is None else policy_named(name)
        if policy is None or policy.needs_plan:
            why = "unknown policy" if policy is None else "it needs a plan, and a single job has none"
            advice = "`weft policies` lists the policies; a program is written with a slash: ./select"
            raise InvalidInput(f"selector {name!r}: {why}", advice=advice)
        found[name] = policy
    return found
