"""The state as plain data: two engines that agree on it will decide alike.

Left out is what can be worked out from the rest: indexes of free machines, evaluated expressions, and what is
still to be looked at within one event. O(size of the state).
"""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from typing import Any

from weft.engine.state.attempt import Attempt
from weft.engine.state.machines import MachineState
from weft.engine.state.run import Run
from weft.engine.state.state import State

__all__ = ["digest"]

_BY_TASK = (
    "attempt_of",
    "tries",
    "failures",
    "migrations",
    "checkpoint",
    "outcome",
    "binding",
    "left_behind",
    "grown",
    "requeued",
    "requirements",
)
_PLAIN = (
    "index",
    "owner",
    "arrival_s",
    "ended_s",
    "ending",
    "planned",
    "plan_wanted",
    "version",
    "unfinished",
    "failed",
    "stopping",
)


def digest(state: State) -> dict[str, Any]:
    """Give everything that matters of a state, for comparison."""
    return {
        "now": state.now,
        "runs": [_run(run) for run in state.runs],
        "active": list(state.active),
        "machines": [_machine(machine) for machine in state.machines],
        "attempts": {number: _attempt(attempt) for number, attempt in sorted(state.attempts.items())},
        "next_attempt": state.next_attempt,
        "cached": {host: sorted(files) for host, files in sorted(state.copies.at.items())},
        "unknown": {machine: list(attempts) for machine, attempts in sorted(state.unknown.items())},
        "timers": dict(sorted(state.timers.items())),
        "discovered_s": state.inquiries.discovered_s,
        "listed": None if state.inquiries.listed is None else sorted(state.inquiries.listed),
        "first_asked_s": dict(sorted(state.inquiries.first_asked_s.items())),
        "access_asked_s": dict(sorted(state.inquiries.access_asked_s.items())),
        "fetch_asked_s": dict(sorted(state.inquiries.fetch_asked_s.items())),
        "fetched_s": dict(sorted(state.inquiries.fetched_s.items())),
        "access": dict(sorted(state.inquiries.access.items())),
    }


def _run(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(run, name) for name in _PLAIN}
    found.update({name: deepcopy(dict(sorted(getattr(run, name).items()))) for name in _BY_TASK})
    found["avoid"] = {task: sorted(machines) for task, machines in sorted(run.avoid.items())}
    found["state"] = list(run.state)
    found["missing"] = run.missing.tolist()
    found["where"] = run.where.tolist()
    found["ready"] = list(run.ready)
    found["early"] = sorted(run.early)
    found["reopened"] = sorted(run.reopened)
    found["virtual"] = sorted(run.virtual)
    found["plan"] = None if run.plan is None else run.plan.key
    found["loops"] = [(body.iteration, body.left) for body in run.loops.bodies]
    return found


def _machine(machine: MachineState) -> dict[str, Any]:
    return {
        "up": machine.up,
        "free_nodes": machine.free_nodes,
        "amounts": dict(machine.amounts),
        "speed_factor": machine.speed_factor,
        "believed_at_s": machine.believed_at_s,
        "holders": list(machine.holders),
        "queue": list(machine.queue),
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return dataclasses.asdict(attempt) | {"sent_for": sorted(attempt.sent_for)}
