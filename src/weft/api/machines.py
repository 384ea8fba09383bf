"""List the machines of an execution, and add, drain or remove some during a run (``weft machines``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.api.progress import clock_time
from weft.api.project import NO_ENGINE, REPLY_TIMEOUT_S, OpenProject, follow_run, send_request
from weft.backends.layout import check_sandboxes, refuse_wrong_sandboxes
from weft.documents import DocumentNode, from_python
from weft.engine.explanation import describe_silence
from weft.engine.state.state import EngineState
from weft.engine.states import Admission, Stage
from weft.errors import InvalidInput, nearest
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.platform.file_format import platform_document, read_platform
from weft.platform.machine import Machine
from weft.platform.platform import Platform, planned_machines
from weft.records import dataclass
from weft.repository.journal import JournalHeader
from weft.repository.requests import RequestReply
from weft.repository.runs import RunRecord
from weft.runtime.execution import JOIN, check_backend
from weft.workflow.checks import check_and_unfold

_JOIN_TIMEOUT_S = max(60.0, REPLY_TIMEOUT_S)
"""Seconds to wait for machines to join; the engine is rebuilt, which interrupts copies in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """State of a machine of an execution, as its journal shows it."""

    name: str
    state: str
    """``open``, ``unknown`` (its host does not answer), ``lost``, ``drained``, ``removed``, or ``absent``.

    A machine is ``absent`` before it joins.
    """
    reason: str
    """Why the machine is lost; "" if it is not lost, if it was removed, or if the reason is unknown."""
    silence: str
    """Since when and why its host has not answered, and when it counts as lost; "": the host answers."""
    nodes: int
    free_nodes: int
    running: int
    """Number of attempts on the machine that are running."""
    queued: int
    """Number of tasks that wait until nodes of the machine are free, or until their jobs can start."""
    speed_factor: float
    """Estimated speed relative to the platform's description."""
    load: float | None
    """Number of cores that programs other than weft's tasks keep busy or wait for; None: not measured."""
    free_memory_bytes: float | None
    free_disk_bytes: float | None


def list_machines(opened: OpenProject, run: int | None = None) -> tuple[RunRecord, list[MachineStatus]]:
    """Return a run (default: the last) and the states of the machines of its execution."""
    found, follower = follow_run(opened, run)
    state = follower.state
    moment = partial(clock_time, follower.header.started_at_s)
    return found, [_describe(state, index, moment) for index in range(len(state.machines))]


def _describe(state: EngineState, index: int, moment: Callable[[float], str]) -> MachineStatus:
    """Return the status of a machine; ``moment`` returns a time of the engine as text."""
    machine = state.machines[index]
    here = [each for each in state.attempts.values() if each.machine == index]
    closed, silence = machine.admission != Admission.OPEN, machine.silence
    up = "open" if silence is None else "unknown"
    return MachineStatus(
        name=machine.name,
        state=str(machine.admission) if closed else up if machine.up else "lost",
        reason="" if machine.admission == Admission.REMOVED else machine.reason,
        silence="" if silence is None else describe_silence(silence, moment),
        nodes=machine.nodes,
        free_nodes=machine.free_nodes,
        running=sum(each.stage == Stage.RUNNING for each in here),
        queued=len(machine.queue) + sum(each.stage == Stage.SUBMITTED for each in here),
        speed_factor=machine.speed_factor,
        load=machine.measured.load,
        free_memory_bytes=machine.measured.free_memory_bytes,
        free_disk_bytes=machine.measured.free_disk_bytes,
    )


def set_admission(opened: OpenProject, name: str, admission: Admission) -> RequestReply:
    """Drain, remove or open a machine of the running execution; raise InvalidInput for an unknown name."""
    run, machines = list_machines(opened)
    names = [each.name for each in machines]
    if name not in names:
        near = nearest(name, names)
        advice = f"did you mean {near!r}?" if near else "`weft machines ls` lists the machines"
        raise InvalidInput(f"run {run.number} has no machine {name!r}", advice=advice)
    what = {Admission.DRAINED: "drain", Admission.REMOVED: "remove", Admission.OPEN: "open"}[admission]
    return send_request(opened, what, run, machine=name)


def add_machine(opened: OpenProject, name: str, description: Mapping[str, Any]) -> RequestReply:
    """Add a machine to the running execution.

    ``description`` has the keys of a machine in a platform file. Without the key ``backend``, the machine
    gets the backend kind of the platform's first machine. Raises InvalidInput if the description is invalid
    or the execution already has a machine with this name.
    """
    run, follower = follow_run(opened, None)
    old = follower.header.platform
    if name in [each.name for each in planned_machines(old)]:
        raise InvalidInput(
            f"machine {name!r} is already part of run {run.number}",
            rule="names of machines are unique",
            advice=f"give the new machine another name, or use `weft machines drain {name} --undo`",
        )
    kind = old.machines[0].backend.get("kind", "local")
    stated = {name: {"backend": {"kind": kind}, **description}}
    added = read_platform(from_python({"weft": 1, "machines": stated})).machines
    return _join(opened, run, follower.header, added)


def read_description(texts: Sequence[str]) -> dict[str, Any]:
    """Return the description of a machine from assignments such as ``nodes=4``."""
    from weft.formats.yaml_document import parse_document

    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InvalidInput(
                repr(text), rule="must be KEY=VALUE, with the keys of a machine, such as nodes=4"
            )
        root = parse_document(value, f"the value of {key}").root
        found[key.strip()] = None if root is None else _to_python(root)
    return found


def _to_python(node: DocumentNode) -> Any:
    """Return a node of a parsed document as dicts, lists and plain values."""
    if isinstance(node.value, dict):
        return {key: _to_python(each) for key, each in node.value.items()}
    return [_to_python(each) for each in node.value] if isinstance(node.value, list) else node.value


def _join(
    opened: OpenProject, run: RunRecord, header: JournalHeader, machines: Sequence[Machine]
) -> RequestReply:
    """Validate the platform with the new machines, then request that they join."""
    platform = replace(header.platform, machines=(*header.platform.machines, *machines), document=None)
    if problems := list(platform.find_problems()):
        raise InvalidInput(problems)
    check_backend(platform)
    check_sandboxes(opened.layout, platform.machines)
    refuse_wrong_sandboxes(opened.layout, machines)
    for workflow in header.workflows.values():
        compile_instance(check_and_unfold(workflow), platform)  # raises if an expression is invalid
    text = json.dumps(platform_document(platform))
    return send_request(opened, JOIN, run, machine=text, timeout_s=_JOIN_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadResult:
    """Names of the machines that joined, or were removed, after the platform file of a run was read again."""

    file: str
    joined: tuple[str, ...]
    removed: tuple[str, ...]
    replies: tuple[RequestReply, ...]


def reload_machines(opened: OpenProject, file: str | Path | None = None) -> ReloadResult:
    """Add the machines that are new in a platform file, and remove those that it no longer lists.

    A removed machine that the file lists again is opened again. If ``file`` is None, the platform file with
    which the run was started is read. Raises InvalidInput, before anything is changed, if the file cannot be
    read or describes a machine, site or link of the run differently.
    """
    run, follower = follow_run(opened, None)
    name = str(file or follower.header.platform_file)
    if not name:
        what = f"run {run.number} was not started with a platform file"
        raise InvalidInput(what, advice="name one: `weft machines reload FILE`")
    old, new = follower.header.platform, load_platform(name)
    _refuse_changes(old, new, name)
    if opened.engine is None:
        return ReloadResult(file=name, joined=(), removed=(), replies=(NO_ENGINE,))
    known = {each.name for each in old.machines}
    listed = {each.name for each in new.machines}
    state = {each.name: each.admission for each in follower.state.machines}
    joined = [each for each in new.machines if each.name not in known]
    removed = [each for each in known - listed if state.get(each) != Admission.REMOVED]
    returned = [each for each in listed & known if state.get(each) == Admission.REMOVED]
    replies = [_join(opened, run, follower.header, joined)] if joined else []
    # A machine is removed last: programs on it need another one.
    replies += [send_request(opened, "open", run, machine=each) for each in sorted(returned)]
    replies += [send_request(opened, "remove", run, machine=each) for each in sorted(removed)]
    return ReloadResult(
        file=name,
        joined=(*(each.name for each in joined), *sorted(returned)),
        removed=tuple(sorted(removed)),
        replies=tuple(replies),
    )


def _refuse_changes(old: Platform, new: Platform, file: str) -> None:
    """Raise InvalidInput if a file changes a machine, or another part of the platform, of the run."""
    before = {each.name: each for each in old.machines}
    changed = [each.name for each in new.machines if before.get(each.name, each) != each]
    rule = "during a run machines can be added and removed, but not changed"
    if changed:
        what = f"{file} describes machine {changed[0]!r} differently from the run"
        raise InvalidInput(what, rule=rule, advice="give the machine another name, or undo the change")
    first, second = (
        {key: value for key, value in platform_document(each).items() if key not in ("machines", "name")}
        for each in (old, new)
    )
    if changed := sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key)):
        what = f"`{changed[0]}` in {file} differs from the platform of the run"
        raise InvalidInput(
            what, rule="during a run only machines can be added and removed", advice="undo the change"
        )
