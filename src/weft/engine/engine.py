"""The engine: events in, commands out; the time is an argument (design sections 4 and 6).

``handle`` takes an event in, decides, and gives the commands; ``apply`` takes in what a journal says was
decided. Both change the state by the same two functions, ``absorb`` and ``enact``, so a state rebuilt from a
journal is the state that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.engine.context import DecisionContext
from weft.engine.messages import Asked, Command, Event, SetTimer, Submitted
from weft.engine.reactions import machines, relocation
from weft.engine.reactions.dispatch import dispatch, start_prepared_attempts
from weft.engine.reactions.lifecycle import finish_runs, react
from weft.engine.settings import EngineSettings
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.state import EngineState
from weft.engine.transitions import absorb, enact
from weft.engine.view import EngineView
from weft.errors import InvalidInput, Problem, WeftError
from weft.instance.instance import Instance
from weft.policies.policy import Policy

__all__ = ["Engine"]

_MAY_BEGIN = (Submitted, Asked)
"""Events after which there may be something to do where there was nothing."""


class Engine:
    """The deciding core. It holds the state of all runs."""

    def __init__(
        self,
        library: WorkflowLibrary,
        instance: Instance,
        policy: Policy,
        settings: EngineSettings | None = None,
        *,
        policy_named: Callable[[str], Policy] | None = None,
    ) -> None:
        """Begin with nothing submitted. ``instance``: any instance on the platform, for its machines.

        ``policy_named`` finds the policies that jobs bring for themselves (``selector``).
        """
        self.settings = settings or EngineSettings()
        self.policy = policy
        self.state = EngineState(
            library,
            instance,
            policy.order,
            planned=policy.needs_plan,
            settings=self.settings,
        )
        self._context = DecisionContext(self.state, policy, self.settings, _selectors(library, policy_named))
        self._view = EngineView(self.state)

    def handle(self, event: Event, now: float) -> list[Command]:
        """Take an event in and decide."""
        if now < self.state.now:
            raise WeftError(f"an event at {now} s after one at {self.state.now} s: time cannot go back")
        absorb(self.state, event, now)
        context = self._context
        react(context, event)
        if type(event) in _MAY_BEGIN:
            self._begin_timers()
        self._settle_down()
        self.state.to_serve.clear()  # a queue that nobody waited in was not served
        return context.taken()

    def apply(self, event: Event, now: float, commands: Sequence[Command]) -> None:
        """Take in an entry of a journal, without deciding."""
        absorb(self.state, event, now)
        for command in commands:
            enact(self.state, command)
        # What was left undone was left undone by the decision too.
        self.state.dirty = False
        self.state.to_tidy.clear()
        self.state.touched.clear()
        self.state.to_serve.clear()
        self.state.arrived.clear()

    def _settle_down(self) -> None:
        """Start, place and tidy up until nothing more follows."""
        state, context = self.state, self._context
        while True:
            if state.to_tidy:
                finish_runs(context)
            # Under a plan who is to start next must have been sent to its machine: first the policy is asked.
            if (state.arrived or state.touched) and not (state.planned and state.dirty):
                start_prepared_attempts(context)
            if not state.dirty:
                return
            dispatch(context, self._view)
            if not state.unsettled:
                return

    def _begin_timers(self) -> None:
        """Set the timers that run as long as anything does."""
        state, settings, context = self.state, self.settings, self._context
        if not state.active:
            return
        if settings.better_every_s is not None and relocation.BETTER_TIMER not in state.timers:
            context.emit(SetTimer(timer=relocation.BETTER_TIMER, at_s=state.now + settings.better_every_s))
        if settings.ladder_every_s is not None and machines.LADDER_TIMER not in state.timers:
            context.emit(SetTimer(timer=machines.LADDER_TIMER, at_s=state.now + settings.ladder_every_s))
        machines.refresh_inquiries(context)


def _selectors(library: WorkflowLibrary, policy_named: Callable[[str], Policy] | None) -> dict[str, Policy]:
    """Find the policies that jobs bring for themselves."""
    found: dict[str, Policy] = {}
    for name in library.selectors:
        policy = None if policy_named is None else policy_named(name)
        if policy is None or policy.needs_plan:
            why = "nobody knows it" if policy is None else "it follows a plan, and a job alone has none"
            raise InvalidInput(Problem(what=f"selector {name!r}: {why}", advice="name another policy"))
        found[name] = policy
    return found
