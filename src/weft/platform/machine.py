"""A machine: identical nodes behind one queue."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.documents import has_range
from weft.errors import Problem, nearest, shorten

__all__ = ["BUILT_IN_NAMES", "MOST", "OCCUPANCIES", "QUEUES", "Attribute", "Machine", "find_name_problems"]

Attribute = str | float | bool
"""What a free attribute of a machine may be."""

QUEUES = ("fifo", "first-fit", "easy", "conservative")
"""How a machine's queue lets tasks start: in order, the first that fits, or two kinds of backfilling."""

OCCUPANCIES = ("exclusive", "unlimited")
"""Whether a node serves one task at a time, or any number of them."""

BUILT_IN_NAMES = (
    "name",
    "nodes",
    "cores",
    "memory",
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
"""What expressions know of every machine; attributes and resources take other names."""

MOST = 1_000_000_000
"""The largest count of nodes, cores or GPUs."""

_MOST_NAME = 200
_NODE_IS_CORE = ("local", "dask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """P identical nodes behind one queue, with what they offer and cost."""

    name: str
    nodes: int = 1
    cores: int = 1
    """Cores per node."""
    memory: float | None = None
    """Bytes in total. None = not stated: limits nothing, and fails every comparison."""
    disk: float | None = None
    """Bytes in total. None = not stated."""
    gpus: int = 0
    """GPUs in total."""
    speed: float = 1.0
    """Work per second of one node."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed for the tasks of a service, where it differs from ``speed``."""
    price_per_node_hour: float = 0.0
    services: tuple[str, ...] = ()
    arch: str | None = None
    os: str | None = None
    site: str | None = None
    """None = a site of its own."""
    availability: float = 1.0
    """The share of its speed that is ours."""
    queue: str = "fifo"
    occupancy: str = "exclusive"
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    backend: Mapping[str, object] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    """Countable amounts of any name, in total (``{"licence": 4}``)."""
    host: str | None = None
    """On a virtual share: the name of the physical machine it is a part of."""
    only_service: str | None = None
    """On a virtual share: the only service whose tasks it accepts."""

    @property
    def site_name(self) -> str:
        """Name the site; a machine without one is a site of its own."""
        return self.site if self.site is not None else self.host_name

    @property
    def host_name(self) -> str:
        """Name the physical machine."""
        return self.host if self.host is not None else self.name

    @property
    def node_is_core(self) -> bool:
        """Tell whether a node of this machine is one core, as on this computer and on Dask workers."""
        return self.backend.get("kind") in _NODE_IS_CORE

    @property
    def amounts(self) -> dict[str, float]:
        """Give the totals of everything countable: memory (if stated), GPUs and the free names."""
        known = {} if self.memory is None else {"memory": self.memory}
        return known | {"gpus": float(self.gpus)} | dict(self.resources)

    def rate(self, service: str | None) -> float:
        """Give the work per second one node does for a task of this service."""
        own = self.speeds.get(service, self.speed) if service is not None else self.speed
        return own * self.availability

    def offers(self, service: str | None) -> bool:
        """Tell whether a task of this service (None = of no service) may run here."""
        if self.only_service is not None:
            return service == self.only_service
        return service is None or service in self.services or service in self.speeds

    def under_names(self, names: Iterable[str]) -> list[Machine]:
        """Give machines like this one under other names; quick enough for a million of them."""
        values = {key.name: getattr(self, key.name) for key in dataclasses.fields(self)}
        return [Machine(**{**values, "name": name}) for name in names]

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks a machine's rules; paths start at the machine."""
        yield from find_name_problems(self.name)
        yield from self.find_value_problems()

    def find_value_problems(self) -> Iterator[Problem]:
        """Find what breaks the rules whatever the machine's name: the same for all machines of one kind."""
        yield from _count_problems(self)
        yield from _amount_problems(self)
        yield from _word_problems(self)
        yield from _free_name_problems(self)


def find_name_problems(name: str) -> Iterator[Problem]:
    """Find what is wrong with the name of a machine."""
    if not name.strip():
        yield Problem(what=f"machine name {name!r}", rule="a name has at least one visible character")
    elif not name.isprintable() or len(name) > _MOST_NAME:
        rule = f"a name is one line of at most {_MOST_NAME} printable characters"
        yield Problem(what=f"machine name {shorten(repr(name))}", rule=rule)
    elif has_range(name):
        yield Problem(what=f"machine name {name!r}", rule="a range in braces stands for several machines")


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
        (("disk",), machine.disk),
        (("price_per_node_hour",), machine.price_per_node_hour),
        *((("resources", name), amount) for name, amount in machine.resources.items()),
    ]
    for path, value in least_zero:
        if value is not None and not 0 <= value < math.inf:
            yield Problem(what=f"{path[-1]} {value}", rule="must be finite and at least 0", path=path)
    positive = [
        (("speed",), machine.speed),
        *((("speed", service), speed) for service, speed in machine.speeds.items()),
    ]
    for path, value in positive:
        if not 0 < value < math.inf:
            yield Problem(what=f"speed {value}", rule="must be finite and above 0", path=path)
    if "default" in machine.speeds:
        rule = "the default speed is the machine's speed, not that of a service"
        yield Problem(what="a service named 'default'", rule=rule, path=("speed",))
    if not 0 < machine.availability <= 1:
        what = f"availability {machine.availability}"
        yield Problem(what=what, rule="must be above 0 and at most 1", path=("availability",))


def _word_problems(machine: Machine) -> Iterator[Problem]:
    words = (("queue", machine.queue, QUEUES), ("occupancy", machine.occupancy, OCCUPANCIES))
    for key, word, allowed in words:
        if word not in allowed:
            close = nearest(word, allowed)
            yield Problem(
                what=f"{key} {shorten(repr(word))}",
                rule=f"must be one of {', '.join(allowed)}",
                advice=f"did you mean {close!r}?" if close else "",
                path=(key,),
            )
    texts = (("arch", machine.arch), ("os", machine.os), ("site", machine.site))
    for key, text in texts:
        if text is not None and not text.strip():
            yield Problem(what=f"{key} is empty", advice="leave the key out, or name it", path=(key,))
    for index, service in enumerate(machine.services):
        if not service.strip():
            yield Problem(what="a service without a name", path=("services", index))
    if not isinstance(machine.backend.get("kind", ""), str):
        what = f"backend kind {shorten(machine.backend['kind'])}"
        yield Problem(what=what, rule="must be the name of a backend", path=("backend", "kind"))


def _free_name_problems(machine: Machine) -> Iterator[Problem]:
    for key, names in (("attributes", machine.attributes), ("resources", machine.resources)):
        for name in names:
            if name in BUILT_IN_NAMES:
                rule = "attributes and resources take names that machines do not have already"
                advice = f"use the machine's own key {name!r}, or another name"
                yield Problem(what=f"{name!r} among the {key}", rule=rule, advice=advice, path=(key, name))
    for name, value in machine.attributes.items():
        if name in machine.resources:
            what = f"{shorten(repr(name))} is both an attribute and a resource"
            yield Problem(what=what, rule="a name means one thing", path=("attributes", name))
        if not isinstance(value, str) and not -math.inf < value < math.inf:
            what = f"attribute {shorten(repr(name))} is {value}"
            yield Problem(
                what=what, rule="must be text, a finite number or true/false", path=("attributes", name)
            )
