"""Detect machines, prove that they run jobs, and measure them.

Machines are this computer, hosts that are reached by ssh, partitions of a Slurm cluster, and workers of a
Dask cluster. To be measured, each machine runs a workflow of its own in a temporary project: programs that
end at once, a calculation, and a program that reads a file and writes a copy of it. The result is a platform
with the measured values.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING

from weft.api.cleanup import clean
from weft.api.machines import list_machines
from weft.api.project import OpenProject
from weft.api.run import RunResult, run
from weft.engine.states import TaskState
from weft.errors import InvalidInput, WeftError, shorten, suggest
from weft.formats.native import write_platform
from weft.platform.local import local_machine
from weft.platform.machine import BUILT_IN_NAMES, LIVE_NAMES, Attribute, Machine, find_name_problems
from weft.platform.platform import Link, Platform
from weft.private_files import make_folder, write_file
from weft.records import dataclass
from weft.runtime.execution import check_backend
from weft.units import parse_bytes, round_memory

if TYPE_CHECKING:
    from weft.backends.dask.connection import ConnectedWorker, WorkerConnection, WorkerConnections
    from weft.backends.slurm.commands import NodeGroup
    from weft.engine.engine import Engine
    from weft.engine.history import AttemptRecord
    from weft.engine.journal import JournalEntry

_CONNECT_S = 20.0
_FACTS = (
    "import os, json, sys\n"
    "facts = {'cores': len(os.sched_getaffinity(0)), 'arch': os.uname().machine,"
    " 'os': os.uname().sysname.lower(), 'python': list(sys.version_info[:2]),"
    " 'memory': os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')}\n"
    "print(json.dumps(facts))\n"
)
"""Program that prints the facts about a host as JSON; it needs Python 3 only."""
_OLDEST_PYTHON = (3, 8)
_UNUSABLE = ("down", "drain", "fail", "maint", "unknown", "reserved", "future", "perfctrs", "inval")
"""Starts of the states of nodes that run no jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedSite:
    """A platform with the machines that were found."""

    platform: Platform
    notes: tuple[str, ...] = ()


def detect_local() -> DetectedSite:
    """Return this computer, whose nodes are its usable cores."""
    machine = local_machine()
    memory = None if machine.memory is None else round_memory(machine.memory)
    return DetectedSite(platform=Platform(name="local", machines=(replace(machine, memory=memory),)))


def detect_ssh(hosts: Sequence[str], settings: Mapping[str, object]) -> DetectedSite:
    """Return a machine for each host; ``settings`` are further keys of ``backend``, such as ``user``.

    Raises InvalidInput for invalid settings, HostError if a host cannot be reached, WeftError if it has no
    suitable Python.
    """
    from weft.backends.ssh.connection import HostConnections

    connections = HostConnections()
    try:
        machines = tuple(_describe_host(connections, host, settings) for host in dict.fromkeys(hosts))
    finally:
        connections.close()
    return DetectedSite(platform=Platform(name="hosts", machines=machines))


def _describe_host(connections: object, host: str, settings: Mapping[str, object]) -> Machine:
    import json

    from weft.backends.ssh.connection import HostConnections
    from weft.backends.ssh.host import read_host_settings

    assert isinstance(connections, HostConnections)
    backend = {"kind": "ssh", "host": host, **settings}
    connection = connections.host(read_host_settings(backend, host))
    connection.connect(_CONNECT_S)
    python = str(settings.get("python", "python3"))
    done = connection.run([python, "-I", "-S", "-c", _FACTS], timeout_s=_CONNECT_S)
    try:
        facts = json.loads(done.out)
        version = tuple(facts["python"])
    except (ValueError, KeyError, TypeError):
        said = shorten(done.err.decode(errors="replace").strip()) or f"it ended with exit code {done.code}"
        advice = "weft needs Python 3.8 or newer on the host; name one with --python"
        raise WeftError(f"host {host}: {python} does not work there ({said}); {advice}") from None
    if version < _OLDEST_PYTHON:
        found = ".".join(map(str, version))
        advice = "weft needs 3.8 or newer; name one with --python"
        raise WeftError(f"host {host}: {python} is Python {found}; {advice}")
    return Machine(
        name=host,
        nodes=int(facts["cores"]),
        memory=round_memory(float(facts["memory"])),
        arch=str(facts["arch"]),
        os=str(facts["os"]),
        backend=backend,
    )


def detect_slurm(
    partitions: Sequence[str] = (), via: str | None = None, settings: Mapping[str, object] | None = None
) -> DetectedSite:
    """Return a machine for each kind of nodes of the named partitions of the cluster of a login node.

    The login node is this computer, or the host ``via``, which is reached by ssh; ``settings`` are further
    keys of ``backend`` about this host, such as ``user``.

    Without names, the default partition comes first, then larger ones; a partition whose nodes are in one of
    those is left out, because a plan would count its nodes twice. Raises InvalidInput if Slurm is not
    installed or a partition does not exist, HostError if the host cannot be reached, WeftError if Slurm does
    not answer.
    """
    login = {} if via is None else {"via": via, **(settings or {})}
    groups = _list_partitions(login)
    nodes: dict[str, dict[str, _NodeKind]] = {}
    order: dict[str, tuple[bool, int]] = {}
    for group in groups:
        known = nodes.setdefault(group.partition, {})
        if group.available and not group.state.lower().startswith(_UNUSABLE):
            kind = _NodeKind(
                group.cores,
                group.memory_per_node_bytes,
                int(group.gres.get("gpu", 0)),
                group.features,
                group.limit_s,
            )
            known |= dict.fromkeys(group.nodes, kind)
        order[group.partition] = (not group.default, -len(known))
    names = sorted(nodes, key=lambda name: (*order[name], name))
    if unknown := [name for name in partitions if name not in nodes]:
        advice = suggest(unknown[0], names, f"partitions here: {', '.join(names)}")
        raise InvalidInput(f"there is no partition {unknown[0]!r}", advice=advice)
    chosen, notes = (list(dict.fromkeys(partitions)), []) if partitions else _choose(names, nodes)
    machines: list[Machine] = []
    for name in chosen:
        if not nodes[name]:
            notes.append(f"partition {name} has no node that runs jobs now")
        machines += _describe_partition(name, nodes[name], login)
    if not machines:
        raise WeftError("Slurm has no partition with nodes that run jobs now; see `sinfo`")
    return DetectedSite(platform=Platform(name="slurm", machines=tuple(machines)), notes=tuple(notes))


def _list_partitions(login: Mapping[str, object]) -> tuple[NodeGroup, ...]:
    """Return the nodes of a cluster; ``login`` are the settings of its login node, {}: this computer."""
    from weft.backends.slurm.controller import SlurmController

    if not login:
        if shutil.which("sinfo") is None:
            raise InvalidInput(
                "Slurm is not installed here (no sinfo)",
                rule="sbatch, squeue, scancel and sinfo must be on the PATH",
                advice="run weft on a login node of the cluster, or name one with `--via HOST`",
            )
        return SlurmController(timeout_s=_CONNECT_S).list_partitions()
    from weft.backends.slurm.login_node import list_partitions
    from weft.backends.ssh.connection import HostConnections
    from weft.backends.ssh.host import read_login_settings

    connections = HostConnections()
    try:
        return tuple(list_partitions(connections, read_login_settings(login, "slurm"), _CONNECT_S))
    finally:
        connections.close()


@dataclass(frozen=True, slots=True)
class _NodeKind:
    """What is equal for alike nodes of a partition."""

    cores: int
    memory_bytes: float
    gpus: int
    features: tuple[str, ...]
    limit_s: float


def _choose(
    names: Sequence[str], nodes: Mapping[str, Mapping[str, _NodeKind]]
) -> tuple[list[str], list[str]]:
    """Return partitions that share no nodes, and a note about each of the others."""
    chosen: list[str] = []
    notes: list[str] = []
    for name in names:
        if other := next((each for each in chosen if nodes[each].keys() & nodes[name].keys()), None):
            what = f"partition {name} shares nodes with {other} and is left out"
            notes.append(f"{what}; `--partition {name}` describes it")
        else:
            chosen.append(name)
    return chosen, notes


def _describe_partition(
    name: str, nodes: Mapping[str, _NodeKind], login: Mapping[str, object]
) -> Iterator[Machine]:
    """Yield a machine for each kind of nodes of a partition; ``login`` are settings of the login node.

    Kinds that no feature distinguishes are one machine, with what the smallest of these nodes has.
    """
    by_features: dict[tuple[str, ...], list[_NodeKind]] = {}
    for kind in nodes.values():
        by_features.setdefault(kind.features, []).append(kind)
    common = set.intersection(*(set(features) for features in by_features)) if by_features else set[str]()
    marks = {features: [each for each in features if each not in common] for features in by_features}
    if not _are_distinct(list(marks.values())):
        by_features = {tuple(sorted(common)): list(nodes.values())} if nodes else {}
        marks = {features: [] for features in by_features}
    for features, kinds in sorted(by_features.items()):
        own = marks[features]
        gpus = min(kind.gpus for kind in kinds)
        limit_s = min(kind.limit_s for kind in kinds)
        backend: dict[str, object] = {"kind": "slurm", "partition": name, **login}
        if own:
            backend["constraint"] = "&".join(own)
        if gpus:
            backend["gres"] = f"gpu:{gpus}"
        yield Machine(
            name="-".join((name, *own)),
            nodes=len(kinds),
            cores=min(kind.cores for kind in kinds),
            memory_per_node=round_memory(float(min(kind.memory_bytes for kind in kinds))),
            gpus=gpus * len(kinds),
            attributes=_list_attributes(features, limit_s),
            backend=backend,
        )


def _are_distinct(marks: Sequence[Sequence[str]]) -> bool:
    """Return whether a constraint on its own marks selects the nodes of each kind and no others."""
    if len(marks) == 1:
        return True
    sets = [set(each) for each in marks]
    return all(each and not any(each <= other for other in sets if other is not each) for each in sets)


def _list_attributes(features: Iterable[str], limit_s: float) -> dict[str, Attribute]:
    taken = {*BUILT_IN_NAMES, *LIVE_NAMES}
    found: dict[str, Attribute] = {
        feature: True for feature in features if feature.isidentifier() and feature not in taken
    }
    return found if limit_s == math.inf else {**found, "longest_job_s": limit_s}


def detect_dask(scheduler: str, folder: str | Path, *, group: bool = False) -> DetectedSite:
    """Return a machine for each named worker that is connected to a Dask scheduler and answers.

    A worker that sees ``folder`` at the same path gets ``shared: true``; with ``group``, alike workers among
    these are one machine. Workers without a name are left out, because they could not be found again after
    their restart. Raises InvalidInput for an invalid address and if Dask is not installed, HostError if the
    scheduler does not answer, WeftError if it has no worker that can be used.
    """
    from weft.backends.dask.connection import WorkerConnections
    from weft.backends.dask.workers import find_address_problems, find_missing_package

    if problems := [*find_address_problems(scheduler)] or [*find_missing_package()]:
        raise InvalidInput(problems)
    notes: list[str] = []
    machines: list[Machine] = []
    connections = WorkerConnections()
    try:
        workers = connections.list_workers(scheduler)
        for worker in workers:
            try:
                machines.append(_describe_worker(connections, scheduler, worker, Path(folder)))
            except WeftError as error:
                notes.append(f"left out: {error}")
    finally:
        connections.close()
    if not machines:
        what = "; ".join(notes[:_MOST_NOTES]) or "no worker is connected"
        advice = f"start workers with `dask worker {scheduler} --name NAME`"
        raise WeftError(f"the Dask scheduler {scheduler} has no worker that weft can use: {what}; {advice}")
    if group:
        machines = _group_alike(machines, notes)
    return DetectedSite(platform=Platform(name="dask", machines=tuple(machines)), notes=tuple(notes))


_MOST_NOTES = 3
"""Number of workers of which an error says why they cannot be used."""


def _describe_worker(
    connections: WorkerConnections, scheduler: str, worker: ConnectedWorker, folder: Path
) -> Machine:
    from weft.backends.dask.connection import WorkerSettings

    if not worker.name:
        raise WeftError(f"the worker at {worker.address} has no name (`dask worker --name NAME`)")
    if problem := next(find_name_problems(worker.name), None):
        raise WeftError(f"the worker at {worker.address}: {problem.what}; {problem.rule}")
    host = f"{worker.name} (Dask worker at {scheduler})"
    connection = connections.host(WorkerSettings(host=host, scheduler=scheduler, worker=worker.name))
    connection.connect(_CONNECT_S)
    facts = connection.call("describe")
    backend: dict[str, object] = {"kind": "dask", "scheduler": scheduler, "worker": worker.name}
    if _sees_folder(connection, folder):
        backend["shared"] = True
    gpus = [amount for name, amount in worker.resources.items() if name.lower() in _GPU_NAMES]
    return Machine(
        name=worker.name,
        nodes=worker.threads,
        memory=None if worker.memory_bytes is None else round_memory(worker.memory_bytes),
        gpus=int(sum(gpus)),
        arch=str(facts["arch"]),
        os=str(facts["os"]).lower(),
        resources={
            name: amount
            for name, amount in worker.resources.items()
            if name.isidentifier() and name.lower() not in (*_GPU_NAMES, *BUILT_IN_NAMES, *LIVE_NAMES)
        },
        backend=backend,
    )


_GPU_NAMES = ("gpu", "gpus")
"""Names of the resource of Dask workers that counts GPUs, in lower case."""


def _sees_folder(connection: WorkerConnection, folder: Path) -> bool:
    """Return whether a worker reads a file that was just written to a folder of this computer."""
    text = os.urandom(8).hex()
    probe = folder.resolve() / f".weft-shared-{text}"
    try:
        write_file(probe, text.encode())
        return str(connection.call("read_text", str(probe))) == text
    except OSError:  # the folder cannot be written
        return False
    finally:
        probe.unlink(missing_ok=True)


def _group_alike(machines: Sequence[Machine], notes: list[str]) -> list[Machine]:
    """Return the machines, with one machine for all alike workers that see the folder; add notes on these."""
    alike: dict[object, list[Machine]] = {}
    for machine in machines:
        is_shared = machine.backend.get("shared") is True
        amounts = tuple(sorted(machine.amounts.items()))
        kind = (machine.nodes, amounts, machine.arch, machine.os) if is_shared else machine.name
        alike.setdefault(kind, []).append(machine)
    names = {machine.name for machine in machines}
    found = []
    for members in alike.values():
        if len(members) > 1:
            name = _name_group([machine.name for machine in members], names)
            nodes = members[0].nodes
            notes.append(f"{name}: a task runs on one of the workers, so it must take at most {nodes} nodes")
            members = [_join_workers(name, members)]
        found += members
    return found


def _name_group(members: Sequence[str], taken: set[str]) -> str:
    """Return the common start of the names without numbers; the result is added to the taken names."""
    base = members[0]
    while not all(member.startswith(base) for member in members):
        base = base[:-1]
    base = base.rstrip("-_.0123456789") or "workers"
    names = (base if number == 1 else f"{base}{number}" for number in count(1))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def _join_workers(name: str, members: Sequence[Machine]) -> Machine:
    """Return alike workers as one machine."""
    first, number = members[0], len(members)
    backend = {key: value for key, value in first.backend.items() if key != "worker"}
    return replace(
        first,
        name=name,
        nodes=first.nodes * number,
        memory=None if first.memory is None else first.memory * number,
        gpus=first.gpus * number,
        resources={key: amount * number for key, amount in first.resources.items()},
        backend={**backend, "workers": [machine.backend["worker"] for machine in members]},
    )


_WIDE, _SINGLE = "wide", "start"
"""Starts of the names of programs on two nodes and on one, which end at once."""
_STARTS = 3
"""Number of programs that end at once, besides the first, which also connects to the machine."""
_WAIT_S = 5.0
"""Time for which the programs wait for a machine that is lost; the check then fails with the reason."""
_MOST_LINKED = 40
"""Up to this number of machines, the links between all of them are written."""
_LEAST_S = 1e-3
"""Shortest time of a copy that is believed; the clock and the other work of the engine are coarser."""
_SPEED_SCRIPT = """\
import json, os, sys, time

def work():
    total = 0
    for number in range(600000):
        total += number * number % 7
    return total

best = min(-time.perf_counter() + (work(), time.perf_counter())[1] for _ in range(5))
with open(os.environ["WEFT_RESULT_FILE"], "w") as file:
    json.dump({"seconds": best}, file)
"""
_FLOW = """\
weft: 1
name: check
settings: {{retries: 0, timeouts: {{machines: {wait_s:g}s}}}}
tasks:
{starts}
  speed: {{command: "{python} speed.py", after: start{last}, seconds: 1}}
  stage:
    command: cp data.bin copy.bin
    inputs: [data.bin]
    outputs: [copy.bin]
    after: speed
    seconds: 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """What was found about one machine."""

    machine: str
    kind: str
    problem: str = ""
    """Why the machine did not run all programs; "": it did."""
    seconds: float | None = None
    """Seconds of the calculation; None: not measured."""
    startup_s: float | None = None
    """Seconds from the start of an attempt until a program that does nothing has ended."""
    parallel_startup_s: float | None = None
    """The same for a program on two nodes of a cluster; None: not measured."""
    bandwidth_Bps: float | None = None  # noqa: N815 -- the unit
    """Bytes per second from this computer to the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCheck:
    """The checks of all machines, and the platform with the measured values."""

    checks: tuple[MachineCheck, ...]
    platform: Platform

    @property
    def is_usable(self) -> bool:
        """Return whether every machine ran all programs."""
        return not any(check.problem for check in self.checks)


def check_site(
    platform: Platform,
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    size: str = "16MB",
    timeout_s: float = 300.0,
    watch: Callable[[str], None] = lambda _: None,
) -> SiteCheck:
    """Run small programs on the machines of a platform, one machine after the other.

    ``folder`` holds the temporary project; for Slurm it must be on the file system of the cluster. ``only``
    names the machines to check; ``size`` is that of the copied file; a machine that is not done after
    ``timeout_s`` counts as failed. ``watch`` is called with the name of each machine. Raises InvalidInput if
    a machine is unknown or cannot be used by its backend.
    """
    names = [machine.name for machine in platform.machines]
    if unknown := [name for name in only if name not in names]:
        raise InvalidInput(f"the platform has no machine {unknown[0]!r}", rule=f"known: {', '.join(names)}")
    chosen = [machine for machine in platform.machines if not only or machine.name in only]
    check_backend(Platform(machines=tuple(chosen)))
    if not (size_bytes := int(parse_bytes(size) or 0)):
        raise InvalidInput(f"size {size!r}", rule="must be a size above 0, such as 16MB")
    checks = []
    for machine in chosen:
        watch(machine.name)
        checks.append(_check_machine(machine, Path(folder), size_bytes, timeout_s))
    return SiteCheck(checks=tuple(checks), platform=apply_checks(platform, checks))


def _check_machine(machine: Machine, folder: Path, size_bytes: int, timeout_s: float) -> MachineCheck:
    kind = str(machine.backend["kind"])
    project = folder / f".weft-check-{os.urandom(8).hex()}"
    make_folder(project)
    contact = _HostContact()
    try:
        _write_project(project, machine, size_bytes)
        end_s = time.monotonic() + timeout_s
        try:
            result = run(
                project / "check.yaml",
                on=project / "machine.yaml",
                project=project,
                plan_steps=1,
                interrupted=lambda: bool(contact.problem) or time.monotonic() > end_s,
                watch=lambda _: [contact.note],
            )
            problem = contact.problem or _find_problem(result, project, timeout_s)
            measured = _measure(result, size_bytes)
        except WeftError as error:
            problem, measured = str(error), {}
        if not contact.problem or contact.is_used:  # otherwise there is nothing to remove
            with suppress(WeftError), OpenProject.at(str(project)) as opened:
                clean(opened, (), everything=True)  # a stated sandbox is outside of the project
        if not problem and not _has_copy(project):
            problem = "the copied file that came back differs from the one that was sent"
        return MachineCheck(machine=machine.name, kind=kind, problem=problem, **measured)
    finally:
        shutil.rmtree(project, ignore_errors=True)


class _HostContact:
    """Whether the host of a machine answers, from the journal of the machine's check."""

    def __init__(self) -> None:
        self.problem = ""
        """Why the host does not answer; "": it answers, or has not been silent for long."""
        self.is_used = False
        """Whether a task has completed there."""

    def note(self, _: JournalEntry, engine: Engine) -> None:
        """Update the facts after one more entry."""
        silence = engine.state.machines[0].silence
        self.problem = "" if silence is None else silence.reason
        self.is_used |= any(TaskState.COMPLETED in run.state for run in engine.state.runs)


def _write_project(project: Path, machine: Machine, size_bytes: int) -> None:
    """Write the workflow, its files and the platform of one machine into a project."""
    # Programs on two nodes are first, because a pilot that has become idle would still hold a node.
    is_wide = machine.backend["kind"] == "slurm" and machine.nodes > 1 and not machine.node_is_core
    names = [
        f"{kind}{number}"
        for kind in ([_WIDE] if is_wide else []) + [_SINGLE]
        for number in range(_STARTS + 1)
    ]
    starts = "\n".join(
        f"  {name}: {{command: ['true'], nodes: {1 + name.startswith(_WIDE)}, seconds: 1, after: [{before}]}}"
        for name, before in zip(names, ["", *names], strict=False)
    )
    python = str(machine.backend.get("python", "python3"))
    flow = _FLOW.format(starts=starts, last=_STARTS, python=python, wait_s=_WAIT_S)
    write_file(project / "check.yaml", flow.encode())
    write_file(project / "speed.py", _SPEED_SCRIPT.encode())
    write_file(project / "data.bin", os.urandom(size_bytes))
    alone = replace(
        machine, site=None, availability=1.0, startup_s=0.0, parallel_startup_s=None, occupancy="exclusive"
    )
    write_file(project / "machine.yaml", write_platform(Platform(name="machine", machines=(alone,))).encode())


def _has_copy(project: Path) -> bool:
    try:
        return (project / "copy.bin").read_bytes() == (project / "data.bin").read_bytes()
    except OSError:
        return False


def _find_problem(result: RunResult, project: Path, timeout_s: float) -> str:
    if result.completed:
        return ""
    with OpenProject.at(str(project)) as opened:
        lost = [each.reason for each in list_machines(opened)[1] if each.reason]
    stories = [each.story or each.problem for each in _list_attempts(result) if each.ending != "completed"]
    late: list[str] = []
    if result.outcome == "interrupted":
        reasons = [each.reason for each in result.report.executed.history.delays][-1:]
        late.append(": ".join([f"it was not done after {timeout_s:g} s", *reasons]))
    found = [*lost, *late, *filter(None, stories), *result.ending.stuck]
    return found[0] if found else f"its run {result.outcome}"


def _list_attempts(result: RunResult) -> list[AttemptRecord]:
    return list(result.report.executed.history.attempts.values())


def _measure(result: RunResult, size_bytes: int) -> dict[str, float]:
    """Return the measured values of a machine that completed all or some programs."""
    elapsed: dict[str, float] = {}
    for each in _list_attempts(result):
        begun_s = each.submitted_s if each.submitted_s is not None else each.started_s
        if each.ending == "completed" and begun_s is not None and each.ended_s is not None:
            elapsed[each.task] = each.ended_s - begun_s
    found: dict[str, float] = {}
    starts, wide = (
        [elapsed[name] for number in range(1, _STARTS + 1) if (name := f"{kind}{number}") in elapsed]
        for kind in (_SINGLE, _WIDE)
    )
    if starts:
        found["startup_s"] = statistics.median(starts)
    if wide:
        # Ends of jobs are noticed once a second; a median would be a multiple of that.
        found["parallel_startup_s"] = statistics.fmean(wide)
    if "stage" in elapsed and starts:
        found["bandwidth_Bps"] = size_bytes / max(_LEAST_S, elapsed["stage"] - found["startup_s"])
    if (seconds := _read_speed(result)) is not None:
        found["seconds"] = seconds
    return found


def _read_speed(result: RunResult) -> float | None:
    from weft.repository.products import ProductTable

    with OpenProject.at(str(result.layout.project)) as opened:
        state = result.report.executed.state
        names = state.runs[0].compiled.names if state.runs else []
        task = names.index("speed") if "speed" in names else -1
        product = ProductTable(opened.database).of(result.execution, 0, task)
    value = None if product is None else product.result.get("seconds")
    return float(value) if isinstance(value, int | float) and value > 0 else None


def apply_checks(platform: Platform, checks: Sequence[MachineCheck]) -> Platform:
    """Return the platform with measured speeds, times to start and links.

    Speeds are relative: the first measured machine keeps its stated speed, so that the work of tasks keeps
    its meaning. A file passes between two machines through this computer, unless both use its file system.
    """
    found = {check.machine: check for check in checks}
    first = next((each for each in platform.machines if _seconds_of(found, each) is not None), None)
    machines = []
    for machine in platform.machines:
        check = found.get(machine.name)
        seconds, reference_s = _seconds_of(found, machine), _seconds_of(found, first)
        if first is not None and seconds is not None and reference_s is not None:
            speed = _round(first.speed * reference_s / seconds)
            factor = speed / machine.speed
            speeds = {service: _round(rate * factor) for service, rate in machine.speeds.items()}
            machine = replace(machine, speed=speed, speeds=speeds)
        if check is not None and check.startup_s is not None:
            machine = replace(machine, startup_s=_round(check.startup_s))
        if check is not None and check.parallel_startup_s is not None:
            machine = replace(machine, parallel_startup_s=_round(check.parallel_startup_s))
        machines.append(machine)
    sent_to = {machine.name for machine in platform.machines if machine.has_own_disk}
    links = _measured_links([check for check in checks if check.bandwidth_Bps is not None], sent_to)
    kept = [link for link in platform.links if frozenset(link[:2]) not in links]
    return replace(
        platform,
        machines=tuple(machines),
        links=(*kept, *((min(pair), max(pair), link) for pair, link in links.items())),
        document=None,
    )


def _seconds_of(found: Mapping[str, MachineCheck], machine: Machine | None) -> float | None:
    return found[machine.name].seconds if machine is not None and machine.name in found else None


def _measured_links(checks: Sequence[MachineCheck], sent_to: set[str]) -> dict[frozenset[str], Link]:
    """Return the links between machines; ``sent_to`` are those with disks of their own."""
    if len(checks) > _MOST_LINKED:
        return {}
    found: dict[frozenset[str], Link] = {}
    for one, other in combinations(checks, 2):
        rates = [each.bandwidth_Bps for each in (one, other) if each.bandwidth_Bps is not None]
        shared = not {one.machine, other.machine} & sent_to
        rate = min(rates) if shared else 1.0 / sum(1.0 / each for each in rates)
        found[frozenset((one.machine, other.machine))] = Link(bandwidth_Bps=_round(rate))
    return found


def _round(value: float) -> float:
    """Return a number with three significant digits: a measurement has no more."""
    return float(f"{value:.3g}")
