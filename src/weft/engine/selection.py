"""Requirements and ranks while a run is under way (S3 section 2).

What the workflow states is part of the instance: machines that fail it are no candidates. Here are the
expressions an application changed while it ran, and the ranks. A text from a running application is parsed
and evaluated, never executed; what cannot be read counts as unchanged.

Files that come from outside: which ones an attempt needs on a machine, and how long they take to it.

Names are filled in for the chosen machine and the job (S3 section 6): one template gives another program on
another architecture. A shared file is brought to a host once, for all who are sent there.

The machines worth looking at for a task: of those that are alike the first, and where its data are.

Machines of one description are alike for most tasks. A task that ranks or refuses machines by their names
tells them apart: for it machines are alike if it thinks the same of them.

Restarts: how much of a task's work its restart files spare the next attempt (S3 section 2).

The last restart files of a task are believed to be kept on our side too (S3's checkpoint store, gap G3): they
outlive the machine that wrote them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from weft.engine.state.compiled import (
    BoundExpression,
    CompiledWorkflow,
    bind_expression,
    external_source,
    parse_or_none,
)
from weft.engine.state.indexes import MachineClass
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt
from weft.errors import InvalidInput
from weft.expressions import Expression, Value, evaluate_columns, parse
from weft.platform.arrays import machine_columns
from weft.workflow.task_graph import COMPUTE, TRANSFER
from weft.workflow.templates import fill_template

__all__ = [
    "ExternalFile",
    "MachinePreferences",
    "accepts_machine",
    "check_requirement",
    "estimate_work_done",
    "external_staging_s",
    "find_file_holders",
    "list_candidate_machines",
    "list_external_files",
    "may_use",
    "rank_machine",
    "resolve_preferences",
    "spared_share",
    "spared_share_if_ended",
    "suits_task",
]


class MachinePreferences(NamedTuple):
    """What a task demands of machines by now, and how it ranks them."""

    key: tuple[BoundExpression | None, BoundExpression | None]
    """Tasks for which it is the same wish the same."""
    demanded: Sequence[object] | None
    """Per machine: whether it will do; None: all will."""
    ranks: Sequence[object] | None
    """Per machine; None: they are all the same to it."""


def resolve_preferences(state: EngineState, run: RunState, task: int) -> MachinePreferences:
    """Say what a task wants by now, beyond what the workflow states."""
    demanded, _ = run.requirements.get(task, (None, None))
    rank = _find_rank(run, task)
    keys = [bind_expression(run.compiled, task, text) if text else None for text in (demanded, rank)]
    accepted, ranks = (None if key is None else _evaluate_cached(state, run, task, key) for key in keys)
    return MachinePreferences((keys[0], keys[1]), accepted, ranks)


def accepts_machine(state: EngineState, run: RunState, task: int, machine: int) -> bool:
    """Say whether a machine meets what the task's application demands by now."""
    changed = run.requirements.get(task)
    if changed is None or not changed[0]:
        return True
    values = _evaluate_cached(state, run, task, bind_expression(run.compiled, task, changed[0]))
    return values is None or bool(values[machine])


def rank_machine(state: EngineState, run: RunState, task: int, machine: int) -> float | None:
    """Evaluate a task's own rank for a machine; None: it has none, or it gives no number."""
    text = _find_rank(run, task)
    values = (
        None
        if text is None
        else _evaluate_cached(state, run, task, bind_expression(run.compiled, task, text))
    )
    if values is None:
        return None
    value = values[machine]
    return float(value) if isinstance(value, int | float) else None


def _find_rank(run: RunState, task: int) -> str | None:
    """Give how a task ranks machines by now; None: it does not."""
    _, changed = run.requirements.get(task, (None, None))
    stated = run.compiled.description(task).rank
    return changed or (None if stated is None else str(stated))


def check_requirement(text: str, run: RunState, task: int) -> str:
    """Say what is wrong with an expression that an application has written; "": nothing."""
    try:
        _evaluate(parse(text), run, run.compiled.graph.context(task))
    except InvalidInput as error:
        return str(error)
    return ""


def _evaluate_cached(
    state: EngineState, run: RunState, task: int, key: BoundExpression
) -> Sequence[object] | None:
    """Evaluate an expression for all machines, once for all tasks for which it means the same."""
    if key not in state.evaluated:
        expression = parse_or_none(key[0])
        try:
            context = run.compiled.graph.context(task)
            state.evaluated[key] = None if expression is None else _evaluate(expression, run, context)
        except InvalidInput:
            state.evaluated[key] = None
    return state.evaluated[key]


def _evaluate(expression: Expression, run: RunState, context: Mapping[str, Value]) -> Sequence[object]:
    machines = run.instance.machines
    found = evaluate_columns(expression, machine_columns(machines), len(machines), dict(context))
    values: Sequence[object] = found.tolist()
    return values


_MAX_HOLDERS = 64
"""Hosts with a file that are looked at."""


class ExternalFile(NamedTuple):
    """One file that no task makes."""

    source: str
    """Where the user keeps it."""
    size_bytes: float
    """0 where nobody said."""
    shared: bool


_last_listed: WeakKeyDictionary[CompiledWorkflow, tuple[int, list[tuple[ExternalFile, bool]]]] = (
    WeakKeyDictionary()
)
"""Per workflow: the task that was asked about last, its files, and whether their names depend on the machine.
Who looks for a machine asks about one task on many machines."""


def list_external_files(run: RunState, task: int, machine: int) -> Iterator[ExternalFile]:
    """List the files a task needs on a machine, in the order of its inputs."""
    names: dict[str, Value] = {}
    for file, by_machine in _list_stated_files(run.compiled, task):
        if by_machine and not names:
            chosen = run.instance.machines[machine]
            names = {
                **run.compiled.graph.context(task),
                "machine.name": chosen.name,
                "machine.arch": chosen.arch or "",
                "machine.os": chosen.os or "",
            }
        yield file._replace(source=fill_template(file.source, names)) if by_machine else file


def _list_stated_files(known: CompiledWorkflow, task: int) -> list[tuple[ExternalFile, bool]]:
    """List the files of a task; names that depend on the machine are not filled in yet."""
    asked, found = _last_listed.get(known, (-1, []))
    if asked != task:
        context, found = known.graph.context(task), []
        for item in known.description(task).inputs:
            source = external_source(item)
            by_machine = "{machine." in source
            if source:
                name = source if by_machine else fill_template(source, context)
                found.append((ExternalFile(name, known.size_of(item, task), item.shared), by_machine))
        _last_listed[known] = (task, found)
    return found


def find_file_holders(state: EngineState, run: RunState, task: int, machines: Iterable[int]) -> list[int]:
    """List machines to which shared files were brought that a task needs on some of these and lacks there."""
    files = {
        file.source: None
        for machine in machines
        for file in list_external_files(run, task, machine)
        if file.shared and file.source not in _cached_files(state, machine)
    }
    hosts = {host: None for file in files for host in islice(state.copies.hosts(file), _MAX_HOLDERS)}
    return [machine for host in hosts for machine in state.machines.on_host(host)]


def external_staging_s(state: EngineState, run: RunState, task: int, machine: int) -> float:
    """Estimate how long the files of a task take to a machine, one after the other; some may be there."""
    link = run.instance.platform.default_link
    there = _cached_files(state, machine)
    return sum(
        link.latency_s + file.size_bytes / link.bandwidth_Bps
        for file in list_external_files(run, task, machine)
        if file.source not in there
    )


def _cached_files(state: EngineState, machine: int) -> Collection[str]:
    """Give the shared files that were brought to the host of a machine."""
    return state.copies.at.get(state.machines[machine].host, ())


def list_candidate_machines(
    state: EngineState, run: RunState, task: int, *, free: bool, but: int | None = None
) -> list[int]:
    """List them by index: those with free nodes, or where the task may wait; ``but``: who leaves this one."""
    known = run.compiled
    moves = known.kind[task] == TRANSFER
    is_bound = bool(run.binding) and known.variable[task] in run.binding
    if is_bound or not (known.uniform or moves):
        return _list_usable(state, run, task)
    classes = _list_classes(state, run, task)
    avoided = _find_avoided(run, task, classes)
    if moves:
        found = [first for alike in classes if (first := alike.first(avoided)) is not None]
    elif free:
        out = avoided if but is None else {*avoided, but}
        found = [index for alike in classes for index in alike.rooms.firsts(out)]
    else:
        found = [index for alike in classes for index in alike.soonest(state.now, avoided)]
    holders = (index for index in _list_data_holders(state, run, task, found) if index not in avoided)
    found += [index for index in holders if moves or not free or index in state.machines.free]
    return sorted(set(found)) if len(found) > 1 else found


def may_use(run: RunState, task: int, machine: int) -> bool:
    """Say whether a task may go to a machine at all: it is a candidate, and not bound elsewhere."""
    if run.compiled.kind[task] == COMPUTE:
        candidate = machine in run.compiled.options(task).counts
    else:
        candidate = machine in run.instance.candidates_of(run.compiled.variable[task])
    bound = run.binding.get(run.compiled.variable[task], machine) if run.binding else machine
    return candidate and bound == machine


def suits_task(state: EngineState, run: RunState, task: int, machine: int, count: int) -> bool:
    """Say whether a machine and a count are what a task wants by now, be the machine free or not."""
    possible = run.compiled.kind[task] != COMPUTE or run.is_mode(task, machine, count)
    return possible and accepts_machine(state, run, task, machine)


def _list_classes(state: EngineState, run: RunState, task: int) -> list[MachineClass]:
    """Give the classes of machines a task may go to; O(machines) when its kind asks for the first time."""
    known, machines = run.compiled, state.machines
    if known.kind[task] == TRANSFER:
        return machines.destinations(known, task)
    options = known.options(task)
    if known.ranked or task in run.requirements:
        return machines.told_apart(options, *resolve_preferences(state, run, task))
    return machines.classes(options)


def _find_avoided(run: RunState, task: int, classes: list[MachineClass]) -> Collection[int]:
    """Give the machines to avoid: where it failed, which is the last resort, not forbidden."""
    avoided = run.avoid.get(task, ())
    return avoided if any(alike.first(avoided) is not None for alike in classes) else ()


def _list_data_holders(state: EngineState, run: RunState, task: int, places: list[int]) -> Iterator[int]:
    """List the machines that have something of what a task needs, if it may go there.

    ``list_candidate_machines``: where it may go besides; shared files that are there need not be looked for.
    """
    known = run.compiled
    found: list[int | None] = []
    if known.kind[task] == TRANSFER:
        found.append(run.source_of(task))
    elif known.moves_data:
        found += [run.where[predecessor] for predecessor in known.before(task)]
    if known.stages:
        found += find_file_holders(state, run, task, places)
    for machine in dict.fromkeys(found):
        if machine is None or machine < 0 or not state.machines.is_usable(machine):
            continue
        if may_use(run, task, machine) and accepts_machine(state, run, task, machine):
            yield machine


def _list_usable(state: EngineState, run: RunState, task: int) -> list[int]:
    """List all machines that may be used and are wanted, but for those to avoid if there are others."""
    found = [
        machine
        for machine in _list_allowed(run, task)
        if state.machines.is_usable(machine) and accepts_machine(state, run, task, machine)
    ]
    avoided = run.avoid.get(task, ())
    return [machine for machine in found if machine not in avoided] or found


def _list_allowed(run: RunState, task: int) -> Sequence[int]:
    """List the machines a task may go to at all."""
    bound = run.binding.get(run.compiled.variable[task]) if run.binding else None
    if bound is not None:
        return [bound] if may_use(run, task, bound) else []
    if run.compiled.kind[task] == COMPUTE:
        return run.compiled.options(task).machines
    found: list[int] = run.instance.candidates_of(run.compiled.variable[task]).tolist()
    return found


def spared_share(state: EngineState, run: RunState, task: int, count: int) -> float:
    """Give the share of the work that need not be done again on so many nodes; 0: it starts from zero."""
    kept = run.checkpoint.get(task) if run.checkpoint else None
    if kept is None or not state.settings.checkpoints:
        return 0.0
    share, _, written_with = kept
    return share if _fits_count(run, task, written_with, count) else 0.0


def spared_share_if_ended(state: EngineState, run: RunState, attempt: Attempt, count: int) -> float:
    """Give the share that would be spared if a running attempt were told to end now.

    Restart files without an interval are written at that moment.
    """
    share = spared_share(state, run, attempt.task, count)
    checkpoint = run.compiled.description(attempt.task).recovery.checkpoint
    if checkpoint is None or checkpoint.every is not None or not state.settings.checkpoints:
        return share
    return (
        max(share, estimate_work_done(state, attempt))
        if _fits_count(run, attempt.task, attempt.count, count)
        else share
    )


def estimate_work_done(state: EngineState, attempt: Attempt) -> float:
    """Estimate the share of its task's work that an attempt has done, by its reports or the time passed."""
    if attempt.work_done is not None and attempt.reported_s is not None:
        known, since_s = attempt.work_done, attempt.reported_s
    elif attempt.started_s is not None:
        known, since_s = attempt.restart_from, attempt.started_s
    else:
        return attempt.restart_from
    if attempt.suspended_since_s is not None:
        passed_s = max(0.0, attempt.suspended_since_s - since_s)
    else:
        passed_s = state.now - since_s
    whole_s = attempt.seconds / (1.0 - attempt.restart_from) if attempt.restart_from < 1.0 else 0.0
    speed = state.machines[attempt.machine].speed_factor
    return min(1.0, known + passed_s * speed / whole_s) if whole_s > 0 else 1.0


def _fits_count(run: RunState, task: int, written_with: int, count: int) -> bool:
    """Say whether restart files written on some nodes serve a start on others."""
    if written_with == count:
        return True
    checkpoint = run.compiled.description(task).recovery.checkpoint
    return checkpoint is not None and checkpoint.nodes == "any"
