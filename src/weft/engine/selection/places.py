"""The machines worth looking at for a task: of those that are alike the first, and where its data are.

Machines of one description are alike for most tasks. A task that ranks or refuses machines by their names
tells them apart: for it machines are alike if it thinks the same of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from weft.engine.indexes.alike import Alike
from weft.engine.outside import holders_of_files
from weft.engine.selection.requirements import accepts, wishes
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["allows", "places", "suits"]


def places(state: State, run: Run, task: int, *, free: bool, but: int | None = None) -> list[int]:
    """List them by index: those with free nodes, or where the task may wait; ``but``: who leaves this one."""
    known = run.known
    moves = known.kind[task] == TRANSFER
    is_bound = bool(run.binding) and known.variable[task] in run.binding
    if is_bound or not (known.uniform or moves):
        return _all(state, run, task)
    classes = _classes(state, run, task)
    avoided = _avoided(run, task, classes)
    if moves:
        found = [first for alike in classes if (first := alike.first(avoided)) is not None]
    elif free:
        out = avoided if but is None else {*avoided, but}
        found = [index for alike in classes for index in alike.rooms.firsts(out)]
    else:
        found = [index for alike in classes for index in alike.soonest(state.now, avoided)]
    holders = (index for index in _holders(state, run, task, found) if index not in avoided)
    found += [index for index in holders if moves or not free or index in state.machines.free]
    return sorted(set(found)) if len(found) > 1 else found


def allows(run: Run, task: int, machine: int) -> bool:
    """Say whether a task may go to a machine at all: it is a candidate, and not bound elsewhere."""
    if run.known.kind[task] == COMPUTE:
        candidate = machine in run.known.options(task).counts
    else:
        candidate = machine in run.instance.candidates_of(run.known.variable[task])
    bound = run.binding.get(run.known.variable[task], machine) if run.binding else machine
    return candidate and bound == machine


def suits(state: State, run: Run, task: int, machine: int, count: int) -> bool:
    """Say whether a machine and a count are what a task wants by now, be the machine free or not."""
    possible = run.known.kind[task] != COMPUTE or run.is_mode(task, machine, count)
    return possible and accepts(state, run, task, machine)


def _classes(state: State, run: Run, task: int) -> list[Alike]:
    """Give the classes of machines a task may go to; O(machines) when its kind asks for the first time."""
    known, machines = run.known, state.machines
    if known.kind[task] == TRANSFER:
        return machines.destinations(known, task)
    options = known.options(task)
    if known.ranked or task in run.requirements:
        return machines.told_apart(options, *wishes(state, run, task))
    return machines.classes(options)


def _avoided(run: Run, task: int, classes: list[Alike]) -> Collection[int]:
    """Give the machines to avoid: where it failed, which is the last resort, not forbidden."""
    avoided = run.avoid.get(task, ())
    return avoided if any(alike.first(avoided) is not None for alike in classes) else ()


def _holders(state: State, run: Run, task: int, places: list[int]) -> Iterator[int]:
    """List the machines that have something of what a task needs, if it may go there.

    ``places``: where it may go besides; shared files that are there need not be looked for.
    """
    known = run.known
    found: list[int | None] = []
    if known.kind[task] == TRANSFER:
        found.append(run.source_of(task))
    elif known.moves_data:
        found += [run.where[predecessor] for predecessor in known.before(task)]
    if known.stages:
        found += holders_of_files(state, run, task, places)
    for machine in dict.fromkeys(found):
        if machine is None or machine < 0 or not state.machines.is_usable(machine):
            continue
        if allows(run, task, machine) and accepts(state, run, task, machine):
            yield machine


def _all(state: State, run: Run, task: int) -> list[int]:
    """List all machines that may be used and are wanted, but for those to avoid if there are others."""
    found = [
        machine
        for machine in _allowed(run, task)
        if state.machines.is_usable(machine) and accepts(state, run, task, machine)
    ]
    avoided = run.avoid.get(task, ())
    return [machine for machine in found if machine not in avoided] or found


def _allowed(run: Run, task: int) -> Sequence[int]:
    """List the machines a task may go to at all."""
    bound = run.binding.get(run.known.variable[task]) if run.binding else None
    if bound is not None:
        return [bound] if allows(run, task, bound) else []
    if run.known.kind[task] == COMPUTE:
        return run.known.options(task).machines
    found: list[int] = run.instance.candidates_of(run.known.variable[task]).tolist()
    return found
