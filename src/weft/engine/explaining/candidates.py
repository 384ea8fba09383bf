"""Every machine as a candidate for a task: the conditions it meets, and how long the task would take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from weft.engine.selection.inquiries import STATE_UNKNOWN
from weft.engine.selection.requirements import accepts
from weft.engine.state.machines import MachineState
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.view import EngineView
from weft.instance.candidates import conditions_of
from weft.units import format_seconds
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["Candidate", "Condition", "Option", "candidates_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing a machine must be or have."""

    name: str
    """``demands``, ``up``, ``listed``, ``access``, ``state``, ``bound``, ``application`` or ``room``."""
    holds: bool
    text: str
    """What is so, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a task on a machine, as was believed."""

    count: int
    nodes: int
    seconds: float
    data_ready_s: float
    finish_s: float
    free: bool
    """Whether it could have started right away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One machine, judged."""

    machine: str
    conditions: tuple[Condition, ...]
    options: tuple[Option, ...] = ()
    """The ways to run the task there, by node count; none where a condition other than room fails."""
    rank: float | None = None
    """The task's own ranking expression."""

    @property
    def possible(self) -> bool:
        """Say whether the task could have been sent there right away."""
        return all(condition.holds for condition in self.conditions)

    @property
    def refusals(self) -> tuple[Condition, ...]:
        """List the conditions that fail."""
        return tuple(condition for condition in self.conditions if not condition.holds)

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self) | {"possible": self.possible}


def candidates_of(state: State, run: Run, task: int) -> list[Candidate]:
    """Judge every machine for a task, as things stand."""
    view = EngineView(state)
    compute = run.known.kind[task] == COMPUTE
    demands = conditions_of(run.instance, task) if compute else []
    found = []
    for machine in state.machines:
        conditions = [Condition(name="demands", holds=met[machine.index], text=text) for text, met in demands]
        conditions += _by_now(state, run, task, machine)
        options: tuple[Option, ...] = ()
        if all(condition.holds for condition in conditions):
            options = tuple(_options(state, view, run, task, machine.index))
            conditions.append(_room(state, machine, options))
        rank = view.rank(view.run(run.index), task, machine.index)
        found.append(
            Candidate(machine=machine.name, conditions=tuple(conditions), options=options, rank=rank)
        )
    return found


def _options(state: State, view: EngineView, run: Run, task: int, machine: int) -> Iterator[Option]:
    known = run.known
    compute = known.kind[task] == COMPUTE
    for count in known.options(task).counts.get(machine, ()) if compute else (0,):
        mode = view.mode(view.run(run.index), task, machine, count)
        if mode is None:
            continue
        demand = run.demand(task, machine, count) if compute and known.demands else ()
        yield Option(
            count=mode.count,
            nodes=mode.nodes,
            seconds=mode.seconds,
            data_ready_s=mode.ready_s,
            finish_s=mode.finish_s,
            free=not compute or state.machines.fits(machine, mode.nodes, demand),
        )


def _by_now(state: State, run: Run, task: int, machine: MachineState) -> Iterator[Condition]:
    """Judge what changes while a run is under way."""
    yield Condition(name="up", holds=machine.up, text="is up" if machine.up else "is down")
    settings, index, asked = state.settings, machine.index, state.inquiries
    if settings.discover_every_s is not None or asked.listed is not None:
        listed = asked.listed is not None and index in asked.listed
        text = f"the information service {'lists' if listed else 'does not list'} it"
        yield Condition(name="listed", holds=listed, text=text)
    if settings.authorise or index in asked.access:
        allowed = asked.access.get(index, False)
        answer = "granted" if allowed else "refused" if index in asked.access else "not granted yet"
        yield Condition(name="access", holds=allowed, text=f"access is {answer}")
    if settings.fetch_every_s is not None:
        unknown = state.obstacle(index) == STATE_UNKNOWN
        text = STATE_UNKNOWN if unknown else "its state is known"
        yield Condition(name="state", holds=not unknown, text=text)
    variable = run.known.variable[task]
    bound = run.binding.get(variable)
    if bound is not None:
        name = run.known.graph.variables[variable]
        text = f"{name!r} is bound to {state.machines[bound].name}"
        yield Condition(name="bound", holds=bound == machine.index, text=text)
    changed = run.requirements.get(task)
    if changed is not None and changed[0]:
        holds = accepts(state, run, task, machine.index)
        text = f"the running application demands {changed[0]}"
        yield Condition(name="application", holds=holds, text=text)


def _room(state: State, machine: MachineState, options: tuple[Option, ...]) -> Condition:
    if any(option.free for option in options):
        return Condition(name="room", holds=True, text="there is room")
    least = min((option.nodes for option in options), default=0)
    if machine.free_nodes < least and not machine.unlimited:
        free_s = format_seconds(machine.free_at_s(least, state.attempts, state.now))
        text = (
            f"{machine.free_nodes} of {machine.nodes} nodes are free, it needs {least} (expected at {free_s})"
        )
    else:
        left = ", ".join(f"{name} {amount:g}" for name, amount in machine.amounts.items())
        text = f"too little is left of its resources ({left})"
    return Condition(name="room", holds=False, text=text)
