"""Snapshots: the whole state as plain data, from which it can be restored.

A journal is read from its last snapshot on. Indexes, evaluated expressions and heaps are not stored; they are
recomputed. ``digest_state`` returns the same content for comparison: two engines with equal digests make
equal decisions. O(size of the state).
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.machines import MachineState
from weft.engine.state.plan import RunPlan
from weft.engine.state.run import RunState, TaskOutcome
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt, RunOutcome, Stage, TaskState
from weft.workflow.unfold import unfold
from weft.workflow.workflow import set_growth_lines

__all__ = ["digest_state", "restore_snapshot", "take_snapshot"]


_RUN = (
    "arrival_s", "ended_s", "ending", "version", "plan_wanted", "plan_asked_s",
    "unfinished", "failed", "stopping",
)  # fmt: skip
_BY_TASK = ("attempt_of", "tries", "failures", "migrations", "binding", "left_behind", "grown", "requeued")
_MACHINE = ("up", "free_nodes", "speed_factor", "believed_at_s")
_STATE = ("now", "next_attempt")
_ASKED = ("first_asked_s", "access_asked_s", "access", "fetch_asked_s", "fetched_s")


def take_snapshot(state: EngineState) -> dict[str, Any]:
    """Return the whole state as JSON data."""
    return {
        **{name: getattr(state, name) for name in _STATE},
        **{name: _pairs(getattr(state.inquiries, name)) for name in _ASKED},
        "discovered_s": state.inquiries.discovered_s,
        "timers": dict(state.timers),
        "listed": None if state.inquiries.listed is None else sorted(state.inquiries.listed),
        "cached": [[host, sorted(files)] for host, files in state.copies.at.items()],
        "unknown": [[machine, list(attempts)] for machine, attempts in state.unknown.items()],
        "active": list(state.active),
        "attempts": [_record_attempt(attempt) for attempt in state.attempts.values()],
        "machines": [_record_machine(machine) for machine in state.machines],
        "runs": [_record_run(run) for run in state.runs],
    }


def restore_snapshot(state: EngineState, record: Mapping[str, Any]) -> None:
    """Restore a snapshot into a fresh state; the plans that it names must be in ``state.plans``."""
    for name in _STATE:
        setattr(state, name, record[name])
    state.timers.update(record["timers"])
    for host, files in record["cached"]:
        state.copies.bring(host, files)
    state.unknown.update((machine, dict.fromkeys(attempts)) for machine, attempts in record["unknown"])
    attempts = [_restore_attempt(each) for each in record["attempts"]]
    state.attempts.update((attempt.number, attempt) for attempt in attempts)
    for machine, kept in zip(state.machines, record["machines"], strict=True):
        _restore_machine(state, machine, kept)
    state.machines.look_again()
    _restore_inquiries(state, record)
    for index, kept in enumerate(record["runs"]):
        state.runs.append(_restore_run(state, index, kept))
    state.active = {index: state.runs[index] for index in record["active"]}
    state.roster += 1


def _restore_inquiries(state: EngineState, record: Mapping[str, Any]) -> None:
    asked = state.inquiries
    for name in _ASKED:
        getattr(asked, name).update(map(tuple, record[name]))
    asked.discovered_s = record["discovered_s"]
    asked.listed = None if record["listed"] is None else frozenset(record["listed"])
    asked.look_again(state.now)


def _pairs(values: Mapping[Any, Any]) -> list[list[Any]]:
    """Return the items of a mapping in order; JSON would convert the keys to text."""
    return [[key, value] for key, value in values.items()]


def _record_attempt(attempt: Attempt) -> dict[str, Any]:
    return dataclasses.asdict(attempt) | {"sent_for": sorted(attempt.sent_for), "stage": int(attempt.stage)}


def _restore_attempt(kept: Mapping[str, Any]) -> Attempt:
    return Attempt(
        **{
            **kept,
            "stage": Stage(kept["stage"]),
            "sent_for": frozenset(kept["sent_for"]),
            "demand": tuple((name, amount) for name, amount in kept["demand"]),
        }
    )


def _record_machine(machine: MachineState) -> dict[str, Any]:
    return {
        **{name: getattr(machine, name) for name in _MACHINE},
        "amounts": dict(machine.amounts),
        "holders": list(machine.holders),
        "queue": [number for _, number in machine.queue],
    }


def _restore_machine(state: EngineState, machine: MachineState, kept: Mapping[str, Any]) -> None:
    for name in _MACHINE:
        setattr(machine, name, kept[name])
    machine.amounts = dict(kept["amounts"])
    machine.holders = {number: state.attempts[number] for number in kept["holders"]}
    for number in kept["queue"]:
        machine.enqueue(state.attempts[number])


def _record_run(run: RunState) -> dict[str, Any]:
    return {
        "workflow": run.compiled.key,
        "lines": {file: list(lines) for file, lines in run.lines.items()},
        "owner": run.owner,
        "planned": run.planned,
        **{name: getattr(run, name) for name in _RUN},
        **{name: _pairs(getattr(run, name)) for name in _BY_TASK},
        "checkpoint": [[task, *kept] for task, kept in run.checkpoint.items()],
        "requirements": [[task, *texts] for task, texts in run.requirements.items()],
        "outcome": [[task, each.exit_code, dict(each.result)] for task, each in run.outcome.items()],
        "avoid": [[task, sorted(machines)] for task, machines in run.avoid.items()],
        "reopened": sorted(run.reopened),
        "early": list(run.early),
        "state": list(run.state),
        "missing": run.missing.tolist(),
        "where": run.where.tolist(),
        "bodies": [[body.iteration, body.left] for body in run.loops.bodies],
        "order": list(run.order.remembered()),
        "plan": None if run.plan is None else run.plan.key,
    }


def _restore_run(state: EngineState, index: int, kept: Mapping[str, Any]) -> RunState:
    compiled = _find_compiled(state, kept)
    run = RunState(
        index,
        compiled,
        state.order,
        owner=kept["owner"],
        now=kept["arrival_s"],
        planned=kept["planned"],
        promise=state.machines.promise,
    )
    run.lines = {file: tuple(lines) for file, lines in kept["lines"].items()}
    for name in _RUN:
        setattr(run, name, kept[name])
    run.ending = RunOutcome(kept["ending"]) if kept["ending"] else None
    for name in _BY_TASK:
        getattr(run, name).update(map(tuple, kept[name]))
    run.checkpoint.update(
        (task, (share, machine, count)) for task, share, machine, count in kept["checkpoint"]
    )
    run.requirements.update((task, (demanded, rank)) for task, demanded, rank in kept["requirements"])
    run.outcome.update(
        (task, TaskOutcome(exit_code=code, result=result)) for task, code, result in kept["outcome"]
    )
    run.avoid.update((task, set(machines)) for task, machines in kept["avoid"])
    run.reopened.update(kept["reopened"])
    for task in kept["early"]:
        run.early.add(task)
    run.state = bytearray(kept["state"])
    run.missing, run.where = array("l", kept["missing"]), array("l", kept["where"])
    for body, (iteration, left) in zip(run.loops.bodies, kept["bodies"], strict=True):
        body.iteration, body.left = iteration, left
    run.order.remember(kept["order"])
    run.list_ready([task for task, place in enumerate(run.state) if place == TaskState.READY])
    if kept["plan"] is not None:
        run.plan = RunPlan(state.plans[kept["plan"]], compiled, kept["plan"], run.loops.iteration)
    run.promise_all()
    return run


def _find_compiled(state: EngineState, kept: Mapping[str, Any]) -> CompiledWorkflow:
    """Return the compiled workflow of a run; a grown graph is compiled again."""
    compiled = state.library[kept["workflow"]]
    if not kept["lines"]:
        return compiled
    return state.library.grown(compiled, unfold(set_growth_lines(compiled.graph.workflow, kept["lines"])))


_DIGEST_BY_TASK = (
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
_DIGEST_RUN = (
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


def digest_state(state: EngineState) -> dict[str, Any]:
    """Return all parts of a state that influence decisions, as plain data."""
    return {
        "now": state.now,
        "runs": [_digest_run(run) for run in state.runs],
        "active": list(state.active),
        "machines": [_digest_machine(machine) for machine in state.machines],
        "attempts": {number: _digest_attempt(attempt) for number, attempt in sorted(state.attempts.items())},
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


def _digest_run(run: RunState) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(run, name) for name in _DIGEST_RUN}
    found.update({name: deepcopy(dict(sorted(getattr(run, name).items()))) for name in _DIGEST_BY_TASK})
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


def _digest_machine(machine: MachineState) -> dict[str, Any]:
    return {
        "up": machine.up,
        "free_nodes": machine.free_nodes,
        "amounts": dict(machine.amounts),
        "speed_factor": machine.speed_factor,
        "believed_at_s": machine.believed_at_s,
        "holders": list(machine.holders),
        "queue": list(machine.queue),
    }


def _digest_attempt(attempt: Attempt) -> dict[str, Any]:
    return dataclasses.asdict(attempt) | {"sent_for": sorted(attempt.sent_for)}
