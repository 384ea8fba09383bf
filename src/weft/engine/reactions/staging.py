"""Staging: which data have to come to an attempt's machine, and when they are sent for.

Data are sent for as soon as the task has a machine and the predecessor that made them has completed, so that
a plan's transfers overlap with what still runs. A stage with nothing to do is no command (design section 4).
"""

from __future__ import annotations

from weft.engine.context import DecisionContext
from weft.engine.messages import Parcel, StageIn
from weft.engine.selection import list_external_files, spared_share
from weft.engine.state.run import RunState
from weft.engine.states import Attempt, TaskState
from weft.workflow.task_graph import TRANSFER

__all__ = ["request_data"]


_GONE = (TaskState.COMPLETED,)


def request_data(context: DecisionContext, attempt: Attempt, *, first: bool = False) -> None:
    """Send for what an attempt needs, can have by now and was not sent for yet.

    ``first``: also for what comes from outside the run, and for restart files.
    """
    run = context.state.runs[attempt.run]
    parcels = _list_parcels(run, attempt)
    if first:
        parcels += _list_external_parcels(run, attempt)
        parcels += _list_restart_parcels(context, run, attempt)
    if parcels:
        context.emit(
            StageIn(
                attempt=attempt.number,
                part=attempt.parts,
                machine=attempt.machine,
                parcels=tuple(parcels),
                iteration=attempt.iteration,
            )
        )


def _list_parcels(run: RunState, attempt: Attempt) -> list[Parcel]:
    known, instance, task = run.compiled, run.instance, attempt.task
    if known.kind[task] == TRANSFER:
        return _list_transfer_parcels(run, attempt)
    if not known.moves_data:
        return []
    host = instance.network.host
    found = []
    for predecessor, edge in zip(known.before(task), known.edges_before(task), strict=True):
        place = run.where[predecessor]
        if place < 0 or run.state[predecessor] not in _GONE or predecessor in attempt.sent_for:
            continue
        size, files = float(known.graph.edge_bytes[edge]), float(known.graph.edge_files[edge])
        fixed = float(known.graph.edge_seconds[edge])
        if host[place] != host[attempt.machine] and (size or files or fixed):
            found.append(Parcel(source=place, size_bytes=size, files=files, fixed_s=fixed, task=predecessor))
    return found


def _list_transfer_parcels(run: RunState, attempt: Attempt) -> list[Parcel]:
    """Give what an explicit transfer task moves."""
    source = run.source_of(attempt.task)
    host = run.instance.network.host
    if source is None or attempt.parts or host[source] == host[attempt.machine]:
        return []
    size = float(run.compiled.graph.transfer_bytes[attempt.task])
    return [Parcel(source=source, size_bytes=size, files=1.0)]


def _list_external_parcels(run: RunState, attempt: Attempt) -> list[Parcel]:
    """Give the files that no task makes: they come from where the user keeps them."""
    return [
        Parcel(source=-1, size_bytes=file.size_bytes, files=1.0, name=file.source, shared=file.shared)
        for file in list_external_files(run, attempt.task, attempt.machine)
    ]


def _list_restart_parcels(context: DecisionContext, run: RunState, attempt: Attempt) -> list[Parcel]:
    """Give the restart files of an earlier attempt, if this one goes on from them and they lie elsewhere.

    If the machine where they were written is gone, they come from where we keep the last ones.
    """
    if not spared_share(context.state, run, attempt.task, attempt.count):
        return []
    _, place, _ = run.checkpoint[attempt.task]
    host = run.instance.network.host
    there = context.state.machines[place].up
    if there and host[place] == host[attempt.machine]:
        return []
    size = run.compiled.restart_bytes(attempt.task)
    return [Parcel(source=place if there else -1, size_bytes=size, files=1.0, name="restart files")]
