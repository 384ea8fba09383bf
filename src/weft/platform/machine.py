"""Machines: a queue in front of identical nodes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from weft.documents import has_range
from weft.errors import Problem, shorten, suggest
from weft.records import dataclass

Attribute = str | float | bool
"""The type of a user-defined attribute of a machine."""

QUEUES = ("fifo", "first-fit", "easy", "conservative")
"""Queue disciplines: first in first out, first fit, EASY and conservative backfilling."""

OCCUPANCIES = ("exclusive", "unlimited", "shared")
"""How many tasks a node runs at a time: one; any number at full speed; any number that share its speed."""

BUILT_IN_NAMES = (
    "name",
    "nodes",
    "cores",
    "memory",
    "memory_per_node",
    "disk",
    "gpus",
    "speed",
    "availability",
    "price_per_node_hour",
    "arch",
    "os",
    "site",
    "queue",
    "occupancy",
    "host",
)
"""Names that expressions can use for every machine; attributes and resources must have other names."""

MEASURED_NAMES = ("load", "free_cpu", "free_memory", "free_disk")
"""Names of values that are measured on a machine during a run: cores that other programs use, free cores,
free bytes of memory and disk.
"""

LIVE_NAMES = ("free_nodes", *MEASURED_NAMES)
"""Names whose values change during a run. An attribute, resource or parameter of the same name takes
precedence.
"""

MOST = 1_000_000_000
"""Maximum number of nodes, cores or GPUs."""
MOST_MACHINES = 100_000
"""Maximum number of machines of a platform; more would take longer to read than a command may take."""

_MOST_NAME = 200
_NODE_IS_CORE = ("local", "dask", "ssh")
_OWN_DISK = ("dask", "ssh")
_SHARED_MEMORY = ("local", "dask", "ssh")
"""Backend kinds whose machines are hosts: their nodes share one memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProgram:
    """The program of a service; a task that names only the service runs this program."""

    command: str | tuple[str, ...]
    """A text for a shell, or the words of a command that runs without a shell.

    ``{PORT}`` is a port of a DIET task; other fields are those of tasks.
    """
    work: float | None = None
    """Work of one call, if the task states no work."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A queue in front of identical nodes, with their properties and price."""

    name: str
    nodes: int = 1
    cores: int = 1
    """Cores per node."""
    memory: float | None = None
    """Bytes in total. None if not stated: memory then does not limit tasks, and comparisons with it are
    false. If ``memory_per_node`` is stated, it is that of all nodes.
    """
    memory_per_node: float | None = None
    """Bytes of each node, if every node has memory of its own; None: the nodes share ``memory``."""
    startup_s: float = 0.0
    """Seconds that every program waits before it starts, for example in the queue of an idle cluster."""
    parallel_startup_s: float | None = None
    """The same for programs on several nodes; None: ``startup_s``."""
    disk: float | None = None
    """Bytes in total; None if not stated."""
    gpus: int = 0
    """GPUs in total."""
    speed: float = 1.0
    """Work per second of one node."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed by service, where it differs from ``speed``."""
    price_per_node_hour: float = 0.0
    services: tuple[str, ...] = ()
    programs: Mapping[str, ServiceProgram] = field(default_factory=dict)
    """Programs by service, for the services whose program the machine states itself."""
    arch: str | None = None
    os: str | None = None
    site: str | None = None
    """Name of the site; None if the machine is a site of its own."""
    availability: float = 1.0
    """The fraction of its speed that is available."""
    queue: str = "fifo"
    occupancy: str = "exclusive"
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    backend: Mapping[str, object] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    """Countable amounts in total, by name (``{"licence": 4}``)."""
    host: str | None = None
    """For a virtual share: the name of its physical machine; None for other machines."""
    only_service: str | None = None
    """For a virtual share: the only service whose tasks it accepts; None for other machines."""

    def __post_init__(self) -> None:
        if self.memory is None and self.memory_per_node is not None:
            object.__setattr__(self, "memory", self.memory_per_node * self.nodes)

    @property
    def site_name(self) -> str:
        """Return the name of the site; a machine without one is a site of its own."""
        return self.site if self.site is not None else self.host_name

    @property
    def host_name(self) -> str:
        """Return the name of the physical machine."""
        return self.host if self.host is not None else self.name

    @property
    def label(self) -> str:
        """Return the name for messages; for a share with a name of its own, its physical machine is added."""
        own = self.host is None or self.name.startswith(f"{self.host}/")
        return self.name if own else f"{self.name} (part of {self.host})"

    @property
    def is_time_shared(self) -> bool:
        """Return whether any number of programs run at once and share the nodes."""
        return self.occupancy == "shared"

    @property
    def node_is_core(self) -> bool:
        """Return whether a node of this machine is one core: local, ssh, Dask, or with ``unit: core``."""
        return self.backend.get("kind") in _NODE_IS_CORE or self.backend.get("unit") == "core"

    @property
    def has_own_disk(self) -> bool:
        """Return whether the machine has a disk of its own, without the files and programs of this host."""
        is_distant = self.backend.get("kind") in _OWN_DISK or "via" in self.backend
        return is_distant and self.backend.get("shared") is not True

    @property
    def backend_group(self) -> tuple[str, bool]:
        """Return the kind and whether a login node is between; machines of one group share a transport."""
        return str(self.backend.get("kind", "")), "via" in self.backend

    @property
    def core_count(self) -> int:
        """Return the number of cores of all nodes."""
        return self.nodes if self.node_is_core else self.nodes * self.cores

    @property
    def amounts(self) -> dict[str, float]:
        """Return the totals by resource: memory (if stated), GPUs and user-defined resources."""
        known = {} if self.memory is None else {"memory": self.memory}
        return known | {"gpus": float(self.gpus)} | dict(self.resources)

    def startup_for(self, nodes: int) -> float:
        """Return the seconds that a program on this many nodes waits before it starts."""
        many = self.parallel_startup_s
        return self.startup_s if nodes <= 1 or many is None else many

    def memory_for(self, nodes: int) -> float | None:
        """Return the memory that a task on this many nodes can use; None if it is not stated."""
        return self.memory if self.memory_per_node is None else self.memory_per_node * nodes

    def rate(self, service: str | None) -> float:
        """Return the work per second of one node for a task of this service."""
        own = self.speeds.get(service, self.speed) if service is not None else self.speed
        return own * self.availability

    def offers(self, service: str | None) -> bool:
        """Return whether the machine accepts a task of a service, or a task without one (None)."""
        if self.only_service is not None:
            return service == self.only_service
        return service is None or service in self.services or service in self.speeds

    def under_names(self, names: Iterable[str]) -> list[Machine]:
        """Return one copy of this machine per name; fast enough for a million names."""
        values = {key.name: getattr(self, key.name) for key in dataclasses.fields(self)}
        return [Machine(**{**values, "name": name}) for name in names]

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this machine; their paths are relative to the machine."""
        yield from find_name_problems(self.name)
        yield from self.find_value_problems()

    def find_value_problems(self) -> Iterator[Problem]:
        """Yield the problems that do not depend on the machine's name; they are the same for all copies."""
        yield from _count_problems(self)
        yield from _amount_problems(self)
        yield from _word_problems(self)
        yield from _free_name_problems(self)


def find_name_problems(name: str) -> Iterator[Problem]:
    """Yield the problems of a machine name."""
    if not name.strip():
        yield Problem(what=f"machine name {name!r}", rule="a name must have a visible character")
    elif not name.isprintable() or len(name) > _MOST_NAME:
        rule = f"a name is one line of at most {_MOST_NAME} printable characters"
        yield Problem(what=f"machine name {shorten(repr(name))}", rule=rule)
    elif has_range(name):
        yield Problem(
            what=f"machine name {name!r}", rule="the name of one machine must not contain a range in braces"
        )


def _count_problems(machine: Machine) -> Iterator[Problem]:
    counts = (("nodes", machine.nodes, 1), ("cores", machine.cores, 1), ("gpus", machine.gpus, 0))
    for key, value, least in counts:
        if not least <= value <= MOST:
            yield Problem(
                what=f"{shorten(value)} {key}", rule=f"must lie between {least} and {MOST:,}", path=(key,)
            )


def _amount_problems(machine: Machine) -> Iterator[Problem]:
    least_zero: list[tuple[tuple[str, ...], float | None]] = [
        (("memory",), machine.memory),
        (("memory_per_node",), machine.memory_per_node),
        (("startup",), machine.startup_s),
        (("parallel_startup",), machine.parallel_startup_s),
        (("disk",), machine.disk),
        (("price_per_node_hour",), machine.price_per_node_hour),
        *((("resources", name), amount) for name, amount in machine.resources.items()),
    ]
    for path, value in least_zero:
        if value is not None and not 0 <= value < math.inf:
            yield Problem(what=f"{path[-1]} {value}", rule="must be finite and at least 0", path=path)
    yield from _memory_problems(machine)
    positive = [
        (("speed",), machine.speed),
        *((("speed", service), speed) for service, speed in machine.speeds.items()),
    ]
    for path, value in positive:
        if not 0 < value < math.inf:
            yield Problem(what=f"speed {value}", rule="must be finite and above 0", path=path)
    if "default" in machine.speeds:
        rule = "`default` is the speed for all other services"
        yield Problem(what="a service is named 'default'", rule=rule, path=("speed",))
    if not 0 < machine.availability <= 1:
        what = f"availability {machine.availability}"
        yield Problem(what=what, rule="must be above 0 and at most 1", path=("availability",))


def _memory_problems(machine: Machine) -> Iterator[Problem]:
    per_node = machine.memory_per_node
    if per_node is None or machine.memory is None:
        return
    kind = machine.backend.get("kind")
    if kind in _SHARED_MEMORY:
        what = f"memory_per_node of a machine of the backend kind {kind!r}"
        rule = "its nodes are parts of one host, which share its memory"
        yield Problem(what=what, rule=rule, advice="state `memory`", path=("memory_per_node",))
    elif not math.isclose(machine.memory, per_node * machine.nodes, rel_tol=1e-9):
        what = f"memory {machine.memory:g} and memory_per_node {per_node:g} with {machine.nodes} nodes"
        rule = "memory is that of all nodes"
        yield Problem(what=what, rule=rule, advice="state one of them", path=("memory_per_node",))


def _word_problems(machine: Machine) -> Iterator[Problem]:
    words = (("queue", machine.queue, QUEUES), ("occupancy", machine.occupancy, OCCUPANCIES))
    for key, word, allowed in words:
        if word not in allowed:
            rule = f"must be one of {', '.join(allowed)}"
            what = f"{key} {shorten(repr(word))}"
            yield Problem(what=what, rule=rule, advice=suggest(word, allowed), path=(key,))
    texts = (("arch", machine.arch), ("os", machine.os), ("site", machine.site))
    for key, text in texts:
        if text is not None and not text.strip():
            yield Problem(what=f"{key} is empty", advice="remove the key, or state a value", path=(key,))
    for index, service in enumerate(machine.services):
        if not service.strip():
            yield Problem(what="the name of a service is empty", path=("services", index))
    if not isinstance(machine.backend.get("kind", ""), str):
        what = f"backend kind {shorten(machine.backend['kind'])}"
        yield Problem(what=what, rule="must be the name of a backend", path=("backend", "kind"))


def _free_name_problems(machine: Machine) -> Iterator[Problem]:
    for key, names in (("attributes", machine.attributes), ("resources", machine.resources)):
        for name in names:
            if name in BUILT_IN_NAMES:
                rule = "attributes and resources must not have names of built-in keys"
                advice = f"use the built-in key {name!r}, or choose another name"
                yield Problem(
                    what=f"{name!r} is one of the {key}", rule=rule, advice=advice, path=(key, name)
                )
    for name, value in machine.attributes.items():
        if name in machine.resources:
            what = f"{shorten(repr(name))} is both an attribute and a resource"
            yield Problem(what=what, rule="names must be unique", path=("attributes", name))
        if not isinstance(value, str) and not -math.inf < value < math.inf:
            what = f"attribute {shorten(repr(name))} is {value}"
            yield Problem(
                what=what, rule="must be text, a finite number or true/false", path=("attributes", name)
            )
