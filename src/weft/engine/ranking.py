"""Requirements and ranks of tasks with the current values of the machines.

Some names in expressions stand for values that change during a run ("live names"), such as ``load`` and
``free_memory``. Most requirements that a workflow states are part of the instance. This module evaluates the
expressions that an application changed while it ran (docs/papers/adaptive-jobs.md, section 2), stated
requirements that use live names, and the ranks. A text of an application is parsed and evaluated, never
executed; a text that cannot be parsed is ignored. Expressions without live names are evaluated once for all
machines.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.engine.state.compiled import BoundExpression, bind_expression, parse_or_none
from weft.engine.state.machines import MachineState
from weft.engine.state.run import RunState
from weft.engine.state.state import STATE_UNKNOWN, EngineState
from weft.engine.states import Admission
from weft.errors import InvalidInput
from weft.expressions import evaluate_columns, find_unknown_names, parse
from weft.instance.preferences import TURNAROUND_NAMES, MachinePreference, find_live_names
from weft.platform.machine import LIVE_NAMES
from weft.policies.policy import Mode


class MachinePreferences(NamedTuple):
    """Values of a task's requirement and rank for all machines; they do not change during a run."""

    key: tuple[BoundExpression | None, BoundExpression | None]
    """(requirement, rank); equal for tasks whose requirements and ranks are equal."""
    demanded: Sequence[object] | None
    """Per machine: whether it meets the requirement; None: no requirement is checked at run time."""
    ranks: Sequence[object] | None
    """Per machine: the value of the ranking expression; None: the task has no such expression."""


def resolve_preferences(state: EngineState, run: RunState, task: int) -> MachinePreferences | None:
    """Evaluate requirement and rank of a task for all machines.

    Return None if one of them uses values that change during a run, such as ``load``.
    """
    texts = (find_requirement(run, task), _find_rank(run, task))
    keys = [bind_expression(run.compiled, task, text) if text else None for text in texts]
    found = [None if key is None else _prepare(state, run, task, key) for key in keys]
    if any(preference is not None and preference.live for preference in found):
        return None
    machines = range(len(state.machines))
    demanded, ranks = (None if each is None else _constant_values(state, each, machines) for each in found)
    return MachinePreferences((keys[0], keys[1]), demanded, ranks)


def accepts_machine(state: EngineState, run: RunState, task: int, machine: int) -> bool:
    """Return whether a machine meets the task's requirement now.

    A requirement that the application set at run time is checked. Without one, the requirement of the
    workflow is checked if it uses values that change during a run, such as ``load``. Other requirements of
    the workflow are part of the instance and are not checked here.
    """
    if not (run.facts or run.compiled.live_requirements) or not (text := find_requirement(run, task)):
        return True
    preference = _prepare(state, run, task, bind_expression(run.compiled, task, text))
    if preference is None:
        return True
    if not preference.live:
        return bool(_constant_values(state, preference, range(len(state.machines)))[machine])
    live = {name: _live_column(state, name, [machine]) for name in preference.live if name in LIVE_NAMES}
    if len(live) < len(preference.live):
        return True  # names that only ranks may use have no value; `check_requirement` reports them
    return bool(preference.values([machine], live)[0])


class TaskRanking:
    """The ranking expression of a task, which is evaluated for modes with current values of the machines."""

    __slots__ = ("_preference", "_state", "text", "waits")

    def __init__(self, state: EngineState, preference: MachinePreference, text: str) -> None:
        self._state = state
        self._preference = preference
        self.text = text
        """The expression."""
        self.waits = preference.waits
        """Whether busy machines are compared too, because the expression uses ``queue_s``."""

    def values(self, modes: Sequence[Mode], *, free: Collection[int] = ()) -> list[float | None]:
        """Return the rank of each mode; None where the value of the expression is not a number.

        ``free``: machines on which the task can start now; for them ``queue_s`` is 0.
        """
        machines = [mode.machine for mode in modes]
        columns = {name: self._column(name, modes, machines, free) for name in self._preference.live}
        return self._preference.numbers(machines, columns)

    def value_on(self, machine: int) -> float | None:
        """Return the rank of a machine on which the task has no mode.

        None: the expression uses values of a mode, or its value is not a number.
        """
        live = self._preference.live
        if any(name in TURNAROUND_NAMES for name in live):
            return None
        columns = {name: _live_column(self._state, name, [machine]) for name in live}
        return self._preference.numbers([machine], columns)[0]

    def _column(
        self, name: str, modes: Sequence[Mode], machines: list[int], free: Collection[int]
    ) -> NDArray[Any]:
        now = self._state.now
        if name == "seconds":
            return np.array([mode.seconds for mode in modes], dtype=np.float64)
        if name == "transfer_s":
            return np.array([mode.ready_s - now for mode in modes], dtype=np.float64)
        if name == "queue_s":
            waits_s = [0.0 if mode.machine in free else self._wait_s(mode) for mode in modes]
            return np.array(waits_s, dtype=np.float64)
        return _live_column(self._state, name, machines)

    def _wait_s(self, mode: Mode) -> float:
        """Return the estimated seconds until enough nodes for a mode are free."""
        state = self._state
        free_s = state.machines[mode.machine].free_at_s(mode.nodes, state.attempts, state.now)
        return max(0.0, free_s - state.now)


def find_ranking(state: EngineState, run: RunState, task: int) -> TaskRanking | None:
    """Return the ranking expression of a task; None: the task has no expression that can be parsed."""
    if not (run.compiled.ranked or run.facts) or (text := _find_rank(run, task)) is None:
        return None
    preference = _prepare(state, run, task, bind_expression(run.compiled, task, text))
    return None if preference is None else TaskRanking(state, preference, text)


def may_recover(state: EngineState) -> bool:
    """Return whether a machine may become usable for a waiting task later.

    This is possible if a machine is closed, not measured yet, or down; a machine whose sandbox could never be
    created does not count. It is also possible if a ready task has a requirement that is checked at run time,
    or a selector program that accepts no machine now.
    """
    for machine in state.machines:
        if not (machine.up or machine.lasting) or machine.admission != Admission.OPEN:
            return True
        if not machine.usable and state.obstacle(machine.index) == STATE_UNKNOWN:
            return True
    return any(
        find_requirement(run, task) or run.facts_of(task).order == ()
        for run in state.active.values()
        if run.compiled.live_requirements or run.facts
        for task in run.ready
    )


def check_requirement(text: str, run: RunState, task: int, *, is_rank: bool = False) -> str:
    """Return why an expression of an application cannot be evaluated; "": it can be evaluated.

    ``is_rank``: the expression is a rank, which may use more names than a requirement.
    """
    columns, context = run.compiled.machine_columns, run.compiled.graph.context(task)
    live = (*LIVE_NAMES, *TURNAROUND_NAMES) if is_rank else LIVE_NAMES
    try:
        expression = parse(text)
        if unknown := find_unknown_names(expression, {*columns, *context, *live}):
            return str(unknown[0])
        if not find_live_names(expression, {*columns, *context}):
            evaluate_columns(expression, columns, len(run.instance.machines), dict(context))
    except InvalidInput as error:
        return str(error)
    return ""


def find_requirement(run: RunState, task: int) -> str | None:
    """Return the requirement of a task that is checked at run time; None or "": there is none."""
    changed, _ = run.facts_of(task).requirements or (None, None)
    if changed is not None:
        return changed
    live = run.compiled.live_requirements
    return live.get(run.compiled.template(task)) if live else None


def _find_rank(run: RunState, task: int) -> str | None:
    """Return the current ranking expression of a task; None: the task has none."""
    _, changed = run.facts_of(task).requirements or (None, None)
    stated = run.compiled.description(task).rank
    return changed or (None if stated is None else str(stated))


def _prepare(state: EngineState, run: RunState, task: int, key: BoundExpression) -> MachinePreference | None:
    """Return an expression prepared for evaluation, cached by ``key``; None: the text cannot be parsed."""
    if key not in state.preferences:
        expression, compiled = parse_or_none(key[0]), run.compiled
        state.preferences[key] = (
            None
            if expression is None
            else MachinePreference(expression, compiled.machine_columns, compiled.graph.context(task))
        )
    return state.preferences[key]


def _constant_values(state: EngineState, preference: MachinePreference, machines: range) -> Sequence[object]:
    """Return the values of an expression for all machines, from a cache after the first call.

    The expression must not use values that change during a run.
    """
    if (found := state.evaluated.get(preference)) is None:
        found = state.evaluated[preference] = preference.values(machines, {})
    return found


def _live_column(state: EngineState, name: str, machines: Sequence[int]) -> NDArray[np.float64]:
    return np.array([live_value(state.machines[index], name) for index in machines], dtype=np.float64)


def live_value(machine: MachineState, name: str) -> float:
    """Return the current value of a name such as ``load`` or ``free_memory`` for a machine; NaN: unknown.

    Free memory is the smaller of the measured amount and the stated amount minus what running tasks hold.
    Free disk is the smaller of the measured and the stated amount. A load that was not measured follows from
    the stated availability of the machine.
    """
    described, measured = machine.described, machine.measured
    match name:
        case "free_nodes":
            return float(machine.nodes if machine.unlimited else machine.unclaimed_nodes)
        case "load" if measured.load is None:
            return described.core_count * (1.0 - described.availability)
        case "load":
            return measured.load or 0.0
        case "free_cpu":
            return max(0.0, described.core_count - live_value(machine, "load"))
        case "free_memory":
            unreserved = described.memory if machine.unlimited else machine.amounts.get("memory")
            return _least(unreserved, measured.free_memory_bytes)
        case _:
            return _least(described.disk, measured.free_disk_bytes)


def _least(*amounts: float | None) -> float:
    """Return the smallest known amount; NaN if none is known."""
    return min((amount for amount in amounts if amount is not None), default=math.nan)
