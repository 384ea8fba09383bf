"""Staging: the data that an attempt needs on its machine, and when they are requested.

Data are requested as soon as the task has a machine and their producer has completed, so that they are copied
while other predecessors run. No command is emitted if there is nothing to copy.
"""

from __future__ import annotations

from weft.engine.context import DecisionContext
from weft.engine.messages import Parcel, StageIn
from weft.engine.selection import list_external_files, spared_share
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, TaskState
from weft.workflow.task_graph import TRANSFER

_HAVE_OUTPUTS = (TaskState.COMPLETED,)


def request_data(context: DecisionContext, attempt: Attempt, *, first: bool = False) -> None:
    """Request the available outputs of predecessors that an attempt needs and has not requested yet.

    ``first``: also request the external files and the restart files. For the new attempt of a migration, the
    same command then runs the task's own prolog, because the old attempt is cleaned up after the prolog.
    """
    run = context.state.runs[attempt.run]
    parcels = _list_parcels(context, run, attempt)
    old = context.state.find_attempt(attempt.replaces) if first else None
    prolog = 0 if old is None else _find_prolog(run, attempt, old)
    if first:
        parcels += [
            Parcel(source=-1, size_bytes=file.size_bytes, files=1.0, name=file.source, shared=file.shared)
            for file in list_external_files(run, attempt.task, attempt.machine)
        ]
        parcels += _list_restart_parcels(context, run, attempt)
    if parcels or prolog:
        context.emit(
            StageIn(
                attempt=attempt.number,
                part=attempt.parts,
                machine=attempt.machine,
                parcels=tuple(parcels),
                iteration=attempt.iteration,
                counters=attempt.counters if len(attempt.counters) > 1 else (),
                prolog=prolog,
                restart_from=spared_share(run, attempt.task, attempt.count) if prolog and run.facts else 0.0,
            )
        )


def _find_prolog(run: RunState, attempt: Attempt, old: Attempt) -> int:
    """Return the number of the start (``Start.tries``) for which the task's own prolog runs.

    0: the prolog does not run, because the task has none or some predecessors have not ended.
    """
    job = run.compiled.description(attempt.task).job
    if job is None or not job.prolog or run.missing[attempt.task]:
        return 0
    return max(run.next_try(attempt.task), old.tries + 1)


def _list_parcels(context: DecisionContext, run: RunState, attempt: Attempt) -> list[Parcel]:
    compiled, instance, task = run.compiled, run.instance, attempt.task
    if compiled.kind[task] == TRANSFER:
        return _list_transfer_parcels(context, run, attempt)
    if not compiled.moves_data:
        return []
    host = instance.network.host
    found = []
    for predecessor, edge in zip(compiled.before(task), compiled.edges_before(task), strict=True):
        place = run.where[predecessor]
        if place < 0 or run.state[predecessor] not in _HAVE_OUTPUTS or predecessor in attempt.sent_for:
            continue
        size, files = float(compiled.graph.edge_bytes[edge]), float(compiled.graph.edge_files[edge])
        fixed = float(compiled.graph.edge_seconds[edge])
        if host[place] != host[attempt.machine] and (size or files or fixed):
            found.append(Parcel(source=place, size_bytes=size, files=files, fixed_s=fixed, task=predecessor))
    return found


def _list_transfer_parcels(context: DecisionContext, run: RunState, attempt: Attempt) -> list[Parcel]:
    """Return the parcel that a transfer task copies; empty: the transfer must wait, or copies nothing.

    In real executions a transfer within one host is requested too. The backend then copies nothing, but
    records the file as an output of the transfer, which the readers use.
    """
    source = run.source_of(attempt.task)
    if source is None or attempt.parts or run.missing[attempt.task]:
        return []
    host = run.instance.network.host
    if host[source] == host[attempt.machine] and not context.settings.brings_results:
        return []
    size = float(run.compiled.graph.transfer_bytes[attempt.task])
    return [Parcel(source=source, size_bytes=size, files=1.0)]


def _list_restart_parcels(context: DecisionContext, run: RunState, attempt: Attempt) -> list[Parcel]:
    """Return the parcel of the restart files if an attempt uses them and they are on another host.

    If the machine with the restart files is down, the copy that is kept with the project is used.
    """
    files = run.facts_of(attempt.task).restart_files
    if files is None or not spared_share(run, attempt.task, attempt.count):
        return []
    place = files.machine
    host = run.instance.network.host
    there = context.state.machines[place].up
    if there and host[place] == host[attempt.machine]:
        return []
    size = run.compiled.restart_bytes(attempt.task)
    return [Parcel(source=place if there else -1, size_bytes=size, files=1.0, name="restart files")]
