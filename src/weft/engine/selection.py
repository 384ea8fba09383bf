"""Selection of machines for a task by requirements, ranks, external input files and restart files.

Machines with equal descriptions are equivalent for most tasks and form a class. Only one machine of each
class and the machines that hold input data are compared. If the requirement or rank of a task uses names of
machines, the classes are divided by the values of these expressions. If the requirement or rank uses values
that change during a run, such as ``load``, all machines are compared.

Fields in file names are replaced for each machine (docs/papers/adaptive-jobs.md, section 6), so that one
template can name different programs on different architectures. A shared file is copied to a host once. The
last restart files of a task are also kept with the project, so they survive the loss of the machine that
wrote them (gap G3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from weft.engine.ranking import accepts_machine, resolve_preferences
from weft.engine.state.compiled import CompiledWorkflow, external_source
from weft.engine.state.indexes import MachineClass
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import Attempt
from weft.expressions import Value
from weft.workflow.task_graph import COMPUTE, TRANSFER
from weft.workflow.templates import fill_template

_MAX_HOLDERS = 64
"""Maximal number of hosts that are considered as holders of a copy of a file."""


class ExternalFile(NamedTuple):
    """An input file that no task produces."""

    source: str
    """Path of the file in the user's storage."""
    size_bytes: float
    """Size of the file; 0 if not stated."""
    shared: bool


_last_listed: WeakKeyDictionary[CompiledWorkflow, tuple[int, list[tuple[ExternalFile, bool]]]] = (
    WeakKeyDictionary()
)
"""Cache of the external files of one task per workflow, because a search lists them for many machines.

The value is the task that was listed last, and its files. The flag of a file says whether its name depends on
the machine.
"""


def list_external_files(run: RunState, task: int, machine: int) -> Iterator[ExternalFile]:
    """Yield the external files that a task needs on a machine, in the order of its inputs."""
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


def _list_stated_files(compiled: CompiledWorkflow, task: int) -> list[tuple[ExternalFile, bool]]:
    """Return the external files of a task, each with a flag: whether its name depends on the machine."""
    listed_task, found = _last_listed.get(compiled, (-1, []))
    if listed_task != task:
        context, found = compiled.graph.context(task), []
        for item in compiled.description(task).inputs:
            source = external_source(item)
            by_machine = "{machine." in source
            if source:
                name = source if by_machine else fill_template(source, context)
                found.append((ExternalFile(name, compiled.size_of(item, task), item.shared), by_machine))
        _last_listed[compiled] = (task, found)
    return found


def _find_file_holders(state: EngineState, run: RunState, task: int, machines: Iterable[int]) -> list[int]:
    """Return machines on hosts that have copies of shared input files of a task.

    Only files that are missing on at least one machine in ``machines`` are considered, and at most
    ``_MAX_HOLDERS`` hosts per file.
    """
    files = {
        file.source: None
        for machine in machines
        for file in list_external_files(run, task, machine)
        if file.shared and file.source not in _cached_files(state, machine)
    }
    hosts = {host: None for file in files for host in islice(state.copies.hosts(file), _MAX_HOLDERS)}
    return [machine for host in hosts for machine in state.machines.on_host(host)]


def external_staging_s(state: EngineState, run: RunState, task: int, machine: int) -> float:
    """Return the estimated seconds to copy the external files of a task that are missing on a machine."""
    link = run.instance.platform.default_link
    there = _cached_files(state, machine)
    return sum(
        link.latency_s + file.size_bytes / link.bandwidth_Bps
        for file in list_external_files(run, task, machine)
        if file.source not in there
    )


def _cached_files(state: EngineState, machine: int) -> Collection[str]:
    """Return the shared files on the host of a machine."""
    return state.copies.at.get(state.machines[machine].host, ())


def list_candidate_machines(
    state: EngineState,
    run: RunState,
    task: int,
    *,
    free: bool,
    but: int | None = None,
    rebind: bool = False,
    among: Collection[int] | None = None,
    lost: bool = True,
) -> list[int]:
    """Return the indices of the machines that a policy should compare for a task, ascending.

    ``free``: return only machines with free nodes; otherwise busy machines too. ``but``: a machine to omit if
    ``free`` is true. ``rebind``: ignore the binding of the task's abstract machine. ``among``: compare all of
    these machines and no others; None: one machine per class. ``lost``: whether machines that lost or
    preempted the task are compared too. Machines on which the task failed are returned only if no other
    machine is usable.
    """
    compiled = run.compiled
    moves = compiled.kind[task] == TRANSFER
    bound = run.bound_machine(task, rebind=rebind)
    classes = None
    if among is None and bound is None and (compiled.uniform or moves):
        classes = _list_classes(state, run, task)
    if classes is None:
        return _list_usable(state, run, task, bound, among=among, lost=lost)
    failed = run.facts_of(task).failed_on
    others = not failed or any(machine_class.first(failed) is not None for machine_class in classes)
    avoided = _list_avoided(run, task, failed=others, lost=not lost)
    if moves:
        found = [first for machine_class in classes if (first := machine_class.first(avoided)) is not None]
    elif free:
        out = avoided if but is None else {*avoided, but}
        found = [index for machine_class in classes for index in machine_class.by_capacity.firsts(out)]
    else:
        found = [index for machine_class in classes for index in machine_class.soonest(state.now, avoided)]
    holders = (index for index in _list_data_holders(state, run, task, found, bound) if index not in avoided)
    found += [index for index in holders if moves or not free or index in state.machines.free]
    return sorted(set(found)) if len(found) > 1 else found


def may_use(run: RunState, task: int, machine: int) -> bool:
    """Return whether a task may run on a machine.

    The machine must be a candidate, and the task must not be bound to another machine.
    """
    return run.bound_machine(task) in (None, machine) and _is_candidate(run, task, machine)


def _is_candidate(run: RunState, task: int, machine: int) -> bool:
    if run.compiled.kind[task] == COMPUTE:
        return machine in run.compiled.options(task).counts
    return machine in run.instance.candidates_of(run.compiled.variable[task])


def suits_task(state: EngineState, run: RunState, task: int, machine: int, count: int) -> bool:
    """Return whether a task has this mode and the (possibly busy) machine meets its current requirements."""
    possible = run.compiled.kind[task] != COMPUTE or run.is_mode(task, machine, count)
    return possible and accepts_machine(state, run, task, machine)


def _list_classes(state: EngineState, run: RunState, task: int) -> list[MachineClass] | None:
    """Return the machine classes for a task; O(machines) for the first task of a kind.

    None: the requirement or rank of the task uses values that change during a run, so the classes could
    change with every event.
    """
    compiled, machines = run.compiled, state.machines
    if compiled.kind[task] == TRANSFER:
        return machines.destinations(compiled, task)
    options = compiled.options(task)
    if not (compiled.ranked or compiled.live_requirements or run.facts_of(task).requirements is not None):
        return machines.classes(options)
    found = resolve_preferences(state, run, task)
    return None if found is None else machines.classes_for(options, *found)


def _list_data_holders(
    state: EngineState, run: RunState, task: int, places: list[int], bound: int | None
) -> Iterator[int]:
    """Yield the allowed machines that hold input data of a task.

    ``places`` holds the machines that are compared in any case. A holder of shared files is returned only if
    one of these machines lacks the file.
    """
    compiled = run.compiled
    found: list[int | None] = []
    if compiled.kind[task] == TRANSFER:
        found.append(run.source_of(task))
    elif compiled.moves_data:
        found += [run.where[predecessor] for predecessor in compiled.before(task)]
    if compiled.stages:
        found += _find_file_holders(state, run, task, places)
    for machine in dict.fromkeys(found):
        if machine is None or machine < 0 or not state.machines.is_usable(machine):
            continue
        allowed = bound in (None, machine) and _is_candidate(run, task, machine)
        if allowed and accepts_machine(state, run, task, machine):
            yield machine


def _list_avoided(run: RunState, task: int, *, failed: bool, lost: bool) -> Collection[int]:
    """Return the machines on which a task ``failed``, and those that ``lost`` or preempted it."""
    facts = run.facts_of(task)
    if lost:
        return facts.avoid if failed else facts.avoid - facts.failed_on
    return facts.failed_on if failed else ()


def _list_usable(
    state: EngineState,
    run: RunState,
    task: int,
    bound: int | None,
    *,
    among: Collection[int] | None = None,
    lost: bool = True,
) -> list[int]:
    """Return the usable machines that meet a task's current requirements; see ``list_candidate_machines``."""
    found = [
        machine
        for machine in _list_allowed(run, task, bound)
        if (among is None or machine in among)
        and state.machines.is_usable(machine)
        and accepts_machine(state, run, task, machine)
    ]
    if not (facts := run.facts_of(task)).avoid:
        return found
    others = any(machine not in facts.failed_on for machine in found)
    avoided = _list_avoided(run, task, failed=others, lost=not lost)
    return [machine for machine in found if machine not in avoided]


def avoids_machine(state: EngineState, run: RunState, task: int, machine: int) -> bool:
    """Return whether a task failed on a machine and can run on another one that is usable now."""
    failed = run.facts_of(task).failed_on
    if machine not in failed:
        return False
    return any(other not in failed for other in _list_usable(state, run, task, run.bound_machine(task)))


def _list_allowed(run: RunState, task: int, bound: int | None) -> Sequence[int]:
    """Return the candidate machines of a task; if it is bound, at most the machine ``bound``."""
    if bound is not None:
        return [bound] if _is_candidate(run, task, bound) else []
    if run.compiled.kind[task] == COMPUTE:
        return run.compiled.options(task).machines
    found: list[int] = run.instance.candidates_of(run.compiled.variable[task]).tolist()
    return found


def spared_share(run: RunState, task: int, count: int) -> float:
    """Return the share of a task's work that restart files save on ``count`` nodes; 0: no usable files."""
    files = run.facts_of(task).restart_files
    if files is None or not run.settings_of(task).checkpoints:
        return 0.0
    return files.share if _fits_count(run, task, files.node_count, count) else 0.0


def spared_share_if_ended(state: EngineState, run: RunState, attempt: Attempt, count: int) -> float:
    """Return the share of a task's work that restart files would save if its attempt were ended now.

    ``count``: node count of the next attempt. An attempt with checkpoints on demand writes its restart files
    when it is ended.
    """
    share = spared_share(run, attempt.task, count)
    checkpoint = run.compiled.description(attempt.task).recovery.checkpoint
    if checkpoint is None or checkpoint.every is not None or not run.settings_of(attempt.task).checkpoints:
        return share
    return (
        max(share, estimate_work_done(state, attempt))
        if _fits_count(run, attempt.task, attempt.count, count)
        else share
    )


def estimate_work_done(state: EngineState, attempt: Attempt) -> float:
    """Return the estimated share of a task's work that is done, including the work in restart files.

    The estimate uses the last progress report of the attempt or, without reports, the elapsed time.
    """
    if attempt.work_done is not None and attempt.reported_s is not None:
        done, since_s = attempt.work_done, attempt.reported_s
    elif attempt.started_s is not None:
        done, since_s = attempt.restart_from, attempt.started_s
    else:
        return attempt.restart_from
    if attempt.suspended_since_s is not None:
        passed_s = max(0.0, attempt.suspended_since_s - since_s)
    else:
        passed_s = state.now - since_s
    whole_s = attempt.seconds / (1.0 - attempt.restart_from) if attempt.restart_from < 1.0 else 0.0
    machine = state.machines[attempt.machine]
    speed = machine.speed_factor / machine.crowding()
    late_s = passed_s - attempt.seconds / speed
    if attempt.work_done is None and late_s > 0.0:
        # As in ``time_left_s``: a program without reports is assumed to take as long again as it is late.
        return done + (1.0 - done) * passed_s / (passed_s + late_s)
    return min(1.0, done + passed_s * speed / whole_s) if whole_s > 0 else 1.0


def _fits_count(run: RunState, task: int, written_with: int, count: int) -> bool:
    """Return whether restart files written on ``written_with`` nodes can be used on ``count`` nodes."""
    if written_with == count:
        return True
    checkpoint = run.compiled.description(task).recovery.checkpoint
    return checkpoint is not None and checkpoint.nodes == "any"
