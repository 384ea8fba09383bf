"""Snapshots: the whole state as plain data, from which the state can be restored.

A journal is read from its last snapshot on. Indexes, evaluated expressions and heaps are not stored; they are
recomputed. O(size of the state).
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Mapping
from copy import copy
from typing import Any

from weft.engine.state.compiled import CompiledWorkflow
from weft.engine.state.machines import HostSilence, MachineState, MeasuredValues
from weft.engine.state.plan import RunPlan
from weft.engine.state.run import RestartFiles, RunState, RunTerms, TaskFacts, TaskOutcome
from weft.engine.state.state import EngineState
from weft.engine.states import Admission, Attempt, Cause, RunOutcome, Stage, TaskState
from weft.workflow.unfold import unfold
from weft.workflow.workflow import set_growth_lines

_RUN = (
    "arrival_s", "ended_s", "ending", "version", "plan_wanted", "plan_asked_s",
    "unfinished", "failed", "stopping",
)  # fmt: skip
_BY_TASK = ("attempt_of", "binding", "left_behind")
_MACHINE = ("up", "free_nodes", "speed_factor", "believed_at_s")
_LATER = {
    "learned_factor": 1.0, "confirmed_factor": 1.0, "measured_factor": 1.0, "reason": "", "lasting": False,
}  # fmt: skip
"""Attributes of a machine that older snapshots lack, and their default values."""
_STATE = ("now", "next_attempt")
_ASKED = ("first_asked_s", "access_asked_s", "access", "fetch_asked_s", "fetched_s")


def take_snapshot(state: EngineState) -> dict[str, Any]:
    """Return the whole state as JSON data."""
    return {
        **{name: getattr(state, name) for name in _STATE},
        **{name: _pairs(getattr(state.inquiries, name)) for name in _ASKED},
        "discovered_s": state.inquiries.discovered_s,
        "measures_every_s": state.inquiries.measures_every_s,
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
    # A machine that joined after the snapshot is not part of it.
    for machine, kept in zip(state.machines, record["machines"], strict=False):
        _restore_machine(state, machine, kept)
    for attempt in attempts:
        if attempt.awaited_machine is not None:
            state.machines.await_nodes(attempt, attempt.awaited_machine)
    state.machines.rebuild()
    _restore_inquiries(state, record)
    for index, kept in enumerate(record["runs"]):
        state.runs.append(_restore_run(state, index, kept))
    state.active = {index: state.runs[index] for index in record["active"]}
    state.roster += 1


def _restore_inquiries(state: EngineState, record: Mapping[str, Any]) -> None:
    inquiries = state.inquiries
    for name in _ASKED:
        getattr(inquiries, name).update(map(tuple, record[name]))
    inquiries.discovered_s = record["discovered_s"]
    inquiries.set_interval(record.get("measures_every_s", inquiries.measures_every_s))
    inquiries.listed = None if record["listed"] is None else frozenset(record["listed"])
    inquiries.rebuild(state.now)


def _pairs(values: Mapping[Any, Any]) -> list[list[Any]]:
    """Return the items of a mapping as [key, value] lists, because JSON would convert the keys to text."""
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
            "counters": tuple(kept.get("counters", ())),
        }
    )


def _record_machine(machine: MachineState) -> dict[str, Any]:
    return {
        **{name: getattr(machine, name) for name in (*_MACHINE, *_LATER)},
        "measured": list(machine.measured),
        "admission": str(machine.admission),
        "silence": None if machine.silence is None else list(machine.silence),
        "amounts": dict(machine.amounts),
        "service": [machine.service_s, machine.served_until_s] if machine.time_shared else None,
        "holders": list(machine.holders),
        "queue": [number for _, number in machine.queue],
    }


def _restore_machine(state: EngineState, machine: MachineState, kept: Mapping[str, Any]) -> None:
    for name in _MACHINE:
        setattr(machine, name, kept[name])
    for name, default in _LATER.items():
        setattr(machine, name, kept.get(name, default))
    machine.measured = MeasuredValues(*kept.get("measured", ()))
    machine.admission = Admission(kept.get("admission", Admission.OPEN))
    if (silence := kept.get("silence")) is not None:
        machine.silence = HostSilence(*silence)
    machine.amounts = dict(kept["amounts"])
    if kept.get("service") is not None:
        machine.service_s, machine.served_until_s = kept["service"]
    machine.holders = {number: state.attempts[number] for number in kept["holders"]}
    for number in kept["queue"]:
        machine.enqueue(state.attempts[number])


def _record_run(run: RunState) -> dict[str, Any]:
    return {
        "workflow": run.compiled.key,
        "lines": {file: list(lines) for file, lines in run.lines.items()},
        "owner": run.terms.owner,
        "priority": run.terms.priority,
        "results": run.terms.results,
        "planned": run.planned,
        **{name: getattr(run, name) for name in _RUN},
        **{name: _pairs(getattr(run, name)) for name in _BY_TASK},
        "facts": [[task, _record_facts(facts)] for task, facts in run.facts.items()],
        "early": list(run.early),
        "state": list(run.state),
        "missing": run.missing.tolist(),
        "where": run.where.tolist(),
        "bodies": [[body.iteration, body.left] for body in run.loops.bodies],
        "spent": run.spent,
        "next_plan": run.next_plan,
        "order": list(run.order.remembered()),
        "plan": None if run.plan is None else run.plan.key,
    }


def _restore_run(state: EngineState, index: int, kept: Mapping[str, Any]) -> RunState:
    compiled = _find_compiled(state, kept)
    terms = RunTerms(kept["owner"], kept.get("priority", 1.0), kept.get("results", ""))
    run = state.create_run(index, compiled, terms=terms, now=kept["arrival_s"], planned=kept["planned"])
    run.lines = {file: tuple(lines) for file, lines in kept["lines"].items()}
    for name in _RUN:
        setattr(run, name, kept[name])
    run.spent, run.next_plan = kept.get("spent", 0.0), kept.get("next_plan", "")
    run.ending = RunOutcome(kept["ending"]) if kept["ending"] else None
    for name in _BY_TASK:
        getattr(run, name).update(map(tuple, kept[name]))
    facts = kept["facts"] if "facts" in kept else _convert_tables(kept)
    run.facts.update((task, _restore_facts(fields)) for task, fields in facts)
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


_PLAIN_FACTS = ("tries", "migrations", "node_count", "requeues", "reopened", "order_wanted", "order_usual")


def _record_facts(facts: TaskFacts) -> dict[str, Any]:
    """Return the facts of a task that differ from the defaults."""
    found: dict[str, Any] = {}
    for each in dataclasses.fields(facts):
        if (value := getattr(facts, each.name)) and each.name == "outcome":
            found["outcome"] = [value.exit_code, dict(value.result)]
        elif each.name == "order" and value is not None:
            found["order"] = list(value)
        elif value:
            found[each.name] = sorted(value) if isinstance(value, set) else copy(value)
    return found


def _restore_facts(fields: Mapping[str, Any]) -> TaskFacts:
    facts = TaskFacts(**{name: fields[name] for name in _PLAIN_FACTS if name in fields})
    for name in ("failures", "growth"):
        setattr(facts, name, {Cause(cause): value for cause, value in fields.get(name, {}).items()})
    facts.avoid = set(fields.get("avoid", ()))
    facts.failed_on = set(fields.get("failed_on", ()))
    if "restart_files" in fields:
        facts.restart_files = RestartFiles(*fields["restart_files"])
    if "requirements" in fields:
        facts.requirements = tuple(fields["requirements"])
    if "order" in fields:
        facts.order = tuple(fields["order"])
    if "outcome" in fields:
        code, result = fields["outcome"]
        facts.outcome = TaskOutcome(exit_code=code, result=result)
    return facts


_TABLES = {
    "tries": "tries",
    "failures": "failures",
    "migrations": "migrations",
    "grown": "growth",
    "requeued": "requeues",
}
"""By name of a table in snapshots of schema 1: the field of TaskFacts that replaces it."""


def _convert_tables(kept: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Convert the tables of a run in a snapshot of schema 1 to (task, facts) pairs."""
    facts: dict[int, dict[str, Any]] = {}
    for table, name in _TABLES.items():
        for task, value in kept[table]:
            facts.setdefault(task, {})[name] = value
    for task, *files in kept["checkpoint"]:
        facts.setdefault(task, {})["restart_files"] = files
    for task, *texts in kept["requirements"]:
        facts.setdefault(task, {})["requirements"] = texts
    for task, *outcome in kept["outcome"]:
        facts.setdefault(task, {})["outcome"] = outcome
    for task, machines in kept["avoid"]:
        facts.setdefault(task, {})["avoid"] = machines
    for task in kept["reopened"]:
        facts.setdefault(task, {})["reopened"] = True
    return list(facts.items())
