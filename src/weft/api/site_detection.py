"""Detect machines: this computer, a host that is reached by ssh, the partitions of a Slurm cluster.

Each function returns a platform, and notes for the user about what it does not describe.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence

from weft.errors import InvalidInput, WeftError, shorten, suggest
from weft.platform.local import local_machine
from weft.platform.machine import BUILT_IN_NAMES, LIVE_NAMES, Attribute, Machine
from weft.platform.platform import Platform
from weft.records import dataclass

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
    return DetectedSite(platform=Platform(name="local", machines=(local_machine(),)))


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
        said = shorten(done.err.decode(errors="replace").strip())
        raise WeftError(
            f"host {host}: {python} does not work there: {said}; weft needs Python 3.8 or newer on the host; "
            "name one with --python"
        ) from None
    if version < _OLDEST_PYTHON:
        found = ".".join(map(str, version))
        advice = "weft needs 3.8 or newer; name one with --python"
        raise WeftError(f"host {host}: {python} is Python {found}; {advice}")
    return Machine(
        name=host,
        nodes=int(facts["cores"]),
        memory=float(facts["memory"]),
        arch=str(facts["arch"]),
        os=str(facts["os"]),
        backend=backend,
    )


def detect_slurm(partitions: Sequence[str] = ()) -> DetectedSite:
    """Return a machine for each kind of nodes of the named partitions of the cluster of this login node.

    Without names, the default partition comes first, then larger ones; a partition whose nodes are in one of
    those is left out, because a plan would count its nodes twice. Raises InvalidInput if Slurm is not
    installed or a partition does not exist, WeftError if Slurm does not answer.
    """
    from weft.backends.slurm.controller import SlurmController

    if shutil.which("sinfo") is None:
        raise InvalidInput(
            "Slurm is not installed here (no sinfo)",
            rule="sbatch, squeue, scancel and sinfo must be on the PATH",
            advice="run weft on a login node of the cluster",
        )
    groups = SlurmController(timeout_s=_CONNECT_S).list_partitions()
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
        machines += _describe_partition(name, nodes[name])
    if not machines:
        raise WeftError("Slurm has no partition with nodes that run jobs now; see `sinfo`")
    return DetectedSite(platform=Platform(name="slurm", machines=tuple(machines)), notes=tuple(notes))


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


def _describe_partition(name: str, nodes: Mapping[str, _NodeKind]) -> Iterator[Machine]:
    """Yield a machine for each kind of nodes of a partition.

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
        backend: dict[str, object] = {"kind": "slurm", "partition": name}
        if own:
            backend["constraint"] = "&".join(own)
        if gpus:
            backend["gres"] = f"gpu:{gpus}"
        yield Machine(
            name="-".join((name, *own)),
            nodes=len(kinds),
            cores=min(kind.cores for kind in kinds),
            memory_per_node=float(min(kind.memory_bytes for kind in kinds)),
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
