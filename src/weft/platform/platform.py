"""Platforms: machines, virtual shares, sites, the links between them, and their validation."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from weft.documents import Document, expand_braces, locate_problems
from weft.errors import DocumentPath, InvalidInput, Problem, shorten, suggest
from weft.platform.machine import Machine, ServiceProgram, find_name_problems
from weft.predictions import Prediction
from weft.records import dataclass
from weft.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A network link: moving B bytes takes ``latency_s + B / bandwidth_Bps`` seconds."""

    latency_s: float = 0.0
    bandwidth_Bps: float = 1e9  # noqa: N815 -- B is bytes, b would be bits
    """Bytes per second; may be infinite."""

    def seconds(self, size: float) -> float:
        """Return the transfer time of ``size`` bytes."""
        return self.latency_s + size / self.bandwidth_Bps

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this link."""
        if not 0 <= self.latency_s < math.inf:
            what = f"latency {self.latency_s}"
            yield Problem(what=what, rule="must be finite and at least 0 seconds", path=("latency",))
        # The inverse of a denormal bandwidth is infinite; NaN fails the comparison, too.
        if not self.bandwidth_Bps > 0 or 1 / self.bandwidth_Bps == math.inf:
            what = f"bandwidth {self.bandwidth_Bps}"
            yield Problem(what=what, rule="must be above 0 bytes per second", path=("bandwidth",))


DEFAULT_LINK = Link()
"""The link where none is stated: 1 GB/s, no latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Nodes of a machine that are reserved for one service (docs/papers/parameter-sweeps.md, section 1)."""

    machine: str
    service: str
    nodes: int
    name: str | None = None

    @property
    def machine_name(self) -> str:
        """Return the name of the virtual machine that stands for the share in plans."""
        return self.name if self.name is not None else f"{self.machine}/{self.service}"


def _split_machine(machine: Machine, shares: tuple[Share, ...]) -> tuple[Machine, ...]:
    """Return one machine for the nodes without a share (if there are any) and one machine for each share.

    Resources are divided in proportion to the nodes. GPUs are indivisible: the number of GPUs of a share is
    rounded down, and the GPUs that remain belong to the nodes without a share.
    """
    left = machine.nodes - sum(share.nodes for share in shares)
    parts = [_part(machine, share) for share in shares]
    if left <= 0:
        return tuple(parts)
    gpus = machine.gpus - sum(part.gpus for part in parts)
    return (dataclasses.replace(_scaled(machine, left), nodes=left, gpus=gpus), *parts)


def _part(machine: Machine, share: Share) -> Machine:
    return dataclasses.replace(
        _scaled(machine, share.nodes),
        name=share.machine_name,
        nodes=share.nodes,
        gpus=machine.gpus * share.nodes // machine.nodes,
        services=(share.service,),
        host=machine.name,
        only_service=share.service,
    )


def _scaled(machine: Machine, nodes: int) -> Machine:
    """Return a copy of a machine with memory, disk and resources reduced to the share of ``nodes`` nodes."""

    def part(amount: float) -> float:
        return amount * nodes / machine.nodes

    return dataclasses.replace(
        machine,
        memory=None if machine.memory is None else part(machine.memory),
        disk=None if machine.disk is None else part(machine.disk),
        resources={name: part(amount) for name, amount in machine.resources.items()},
    )


_VALUES = operator.attrgetter(*(key.name for key in dataclasses.fields(Machine) if key.name != "name"))


def _find_platform_problems(platform: Platform) -> Iterator[Problem]:
    """Yield every problem of a platform; the path of a problem is its path in the platform file."""
    if not platform.machines:
        yield Problem(
            what="the platform has no machines",
            rule="a platform must have at least one machine",
            path=("machines",),
        )
    yield from _machine_problems(platform)
    yield from _duplicate_names(platform)
    yield from _site_problems(platform)
    yield from _link_problems(platform.default_link, ("links", "default"))
    yield from _pair_problems(platform)
    yield from _share_problems(platform)


def _machine_problems(platform: Platform) -> Iterator[Problem]:
    keys: dict[str, str] | None = None
    seen: set[Problem] = set()  # one problem for all machines of a key such as altix{1..16}
    checked: object = None
    for machine in platform.machines:
        problems = list(find_name_problems(machine.name))
        # Machines of one kind are adjacent; their common values are checked once.
        if (values := _VALUES(machine)) != checked:
            problems += machine.find_value_problems()
            checked = values
        for problem in problems:
            if keys is None:
                keys = _written_keys(platform)
            path = ("machines", keys.get(machine.name, machine.name), *problem.path)
            if (placed := dataclasses.replace(problem, path=path)) not in seen:
                seen.add(placed)
                yield placed


def _written_keys(platform: Platform) -> dict[str, str]:
    """Return, by machine name, the key that describes it in the file: ``altix{1..16}`` for ``altix3``."""
    root = platform.document.root if platform.document else None
    machines = root.value.get("machines") if root and isinstance(root.value, dict) else None
    if machines is None or not isinstance(machines.value, dict):
        return {}
    found: dict[str, str] = {}
    for key in machines.value:
        try:
            found.update(dict.fromkeys(expand_braces(key), key))
        except InvalidInput:
            found[key] = key
    return found


def _duplicate_names(platform: Platform) -> Iterator[Problem]:
    machines = Counter(machine.name for machine in platform.machines)
    for name, count in machines.items():
        if count > 1:
            what = f"{count} machines are named {shorten(repr(name))}"
            yield Problem(what=what, rule="names of machines must be unique", path=("machines",))
    shares: set[str] = set()
    for index, share in enumerate(platform.virtual):
        name = share.machine_name
        if name in shares or name in machines:
            what = f"virtual machine {shorten(repr(name))} has the name of another machine"
            advice = "set another name with the key 'name'"
            yield Problem(
                what=what, rule="names of machines must be unique", advice=advice, path=("virtual", index)
            )
        shares.add(name)


def _site_problems(platform: Platform) -> Iterator[Problem]:
    known = dict.fromkeys(machine.site_name for machine in platform.machines)
    for site, link in platform.sites.items():
        if site not in known:
            rule = "a site has at least one machine"
            yield _unknown("site", site, known, rule, ("sites", site))
        yield from _link_problems(link, ("sites", site))


def _link_problems(link: Link, path: DocumentPath) -> Iterator[Problem]:
    for problem in link.find_problems():
        yield dataclasses.replace(problem, path=(*path, *problem.path))


def _pair_problems(platform: Platform) -> Iterator[Problem]:
    if not platform.links:
        return
    machines = {machine.name: machine for machine in platform.machines}
    members = Counter(machine.site_name for machine in platform.machines)
    first_written: dict[frozenset[str], int] = {}
    for index, (first, second, link) in enumerate(platform.links):
        path: DocumentPath = ("links", "between", index)
        yield from _link_problems(link, path)
        for name in (first, second):
            if name not in machines and name not in members:
                known = [*machines, *members]
                rule = "a pair consists of the names of two machines or sites"
                yield _unknown("machine or site", name, known, rule, (*path, "pair"))
            elif name in machines and members[name] > (machines[name].site_name == name):
                what = f"{shorten(repr(name))} is a machine and a site with other machines"
                advice = "give the site another name"
                yield Problem(
                    what=what,
                    rule="the names of a pair must be unambiguous",
                    advice=advice,
                    path=(*path, "pair"),
                )
        if first == second:
            what = f"{shorten(repr(first))} is linked to itself"
            advice = "describe the link within a site under 'sites'"
            yield Problem(
                what=what,
                rule="a pair consists of two different machines or sites",
                advice=advice,
                path=(*path, "pair"),
            )
        earlier = first_written.setdefault(frozenset((first, second)), index)
        if earlier != index:
            what = f"{shorten(first)} and {shorten(second)} are already linked by links.between[{earlier}]"
            yield Problem(
                what=what, rule="a pair must have only one link, which is for both directions", path=path
            )


def _share_problems(platform: Platform) -> Iterator[Problem]:
    nodes = {machine.name: machine.nodes for machine in platform.machines}
    time_shared = {machine.name for machine in platform.machines if machine.is_time_shared}
    taken: Counter[str] = Counter()
    for index, share in enumerate(platform.virtual):
        path: DocumentPath = ("virtual", index)
        if not share.service.strip():
            yield Problem(what="the service of a share is empty", path=(*path, "service"))
        if share.name is not None:
            yield from (
                dataclasses.replace(each, path=(*path, "name")) for each in find_name_problems(share.name)
            )
        if share.nodes < 1:
            yield Problem(what=f"{share.nodes} nodes", rule="must be at least 1", path=(*path, "nodes"))
        if share.machine not in nodes:
            rule = "a share is a part of a machine of this platform"
            yield _unknown("machine", share.machine, nodes, rule, (*path, "machine"))
            continue
        if share.machine in time_shared:
            what = f"a share belongs to {shorten(repr(share.machine))}, whose nodes are shared over time"
            rule = "a share sets nodes aside, so the machine must be exclusive"
            advice = "remove `occupancy: shared`, or the share"
            yield Problem(what=what, rule=rule, advice=advice, path=path)
        before = taken[share.machine]
        taken[share.machine] += max(share.nodes, 0)
        if before <= nodes[share.machine] < taken[share.machine]:
            yield Problem(
                what=f"shares of {shorten(repr(share.machine))} take {taken[share.machine]:,} nodes",
                rule=f"the machine has {nodes[share.machine]:,} nodes",
                path=(*path, "nodes"),
            )


def _unknown(noun: str, name: str, known: Iterable[str], rule: str, path: DocumentPath) -> Problem:
    names = list(known)
    some = ", ".join(shorten(other, 30) for other in names[:10]) + (", …" if len(names) > 10 else "")
    advice = suggest(name, names, f"known: {some}")
    return Problem(what=f"unknown {noun} {shorten(repr(name))}", rule=rule, advice=advice, path=path)


NamedPair = tuple[str, str, Link]
"""The names of two machines or sites, and the link between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform as the user describes it."""

    name: str = "platform"
    machines: tuple[Machine, ...]
    """The physical machines in the order of the file."""
    sites: Mapping[str, Link] = field(default_factory=dict)
    """Per site: the link between any two machines of the site."""
    default_link: Link = DEFAULT_LINK
    links: tuple[NamedPair, ...] = ()
    virtual: tuple[Share, ...] = ()
    predictions: tuple[Prediction | str, ...] = ()
    """Predicted times of tasks on the machines; a text is the name of a file that is not read yet."""
    services: Mapping[str, ServiceProgram] = field(default_factory=dict)
    """Programs of services, by name; a program that a machine states takes precedence on that machine."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document from which the platform was read, for the locations of errors; comparisons ignore it."""
    pairs: Mapping[frozenset[str], tuple[int, Link]] = field(init=False, compare=False, repr=False)
    """Derived from ``links``: maps the two names of a pair to its position in ``links`` and its link."""

    def __post_init__(self) -> None:
        pairs: dict[frozenset[str], tuple[int, Link]] = {}
        for index, (first, second, link) in enumerate(self.links):
            pairs.setdefault(frozenset((first, second)), (index, link))
        object.__setattr__(self, "pairs", pairs)

    def find_problems(self) -> Iterator[Problem]:
        """Yield every problem of the platform; the path of a problem is its path in the platform file."""
        return _find_platform_problems(self)

    def find_unknown_backends(self, known: Registry) -> Iterator[Problem]:
        """Yield a problem with its location for every kind of backend that is not in ``known``."""
        found: dict[DocumentPath, Problem] = {}
        keys = _written_keys(self)
        for machine in self.machines:
            kind = machine.backend.get("kind")
            # Listing the registry reads the entry points of all packages.
            if kind is not None and str(kind) not in known:
                path = ("machines", keys.get(machine.name, machine.name), "backend", "kind")
                found[path] = _unknown("backend", str(kind), sorted(known), "", path)
        return locate_problems(found.values(), self.document)


def planned_machines(platform: Platform) -> tuple[Machine, ...]:
    """Return the machines for planners; a machine with shares is replaced by one machine per part.

    Each share is a part; the nodes without a share, if there are any, are another part.
    """
    shares: dict[str, list[Share]] = {}
    for share in platform.virtual:
        shares.setdefault(share.machine, []).append(share)
    if not shares:
        return platform.machines
    return tuple(
        part
        for machine in platform.machines
        for part in (
            _split_machine(machine, tuple(shares[machine.name])) if machine.name in shares else (machine,)
        )
    )


def list_shares(machines: Iterable[Machine]) -> dict[str, str]:
    """Return the physical machine of every virtual share, by the name of the share."""
    return {machine.name: machine.host for machine in machines if machine.host is not None}


def list_crowded(machines: Iterable[Machine]) -> frozenset[str]:
    """Return the names of the machines on which more programs than nodes may run."""
    return frozenset(machine.name for machine in machines if machine.occupancy != "exclusive")


def link_between(platform: Platform, a: Machine, b: Machine) -> Link | None:
    """Return the link between two machines; None if they are on the same host.

    The most specific description applies. It is the pair of the two machines; else the pair of one machine
    and the site of the other (of two such pairs, the first in the file); else the pair of the two sites; else
    the link within a common site; else the default link. Links are symmetric.
    """
    found = find_link(platform, a, b)
    return None if found is None else found[1]


def find_link(platform: Platform, a: Machine, b: Machine) -> tuple[int | str | frozenset[str], Link] | None:
    """Return a key that identifies the link between two machines, and the link.

    Return None if the machines are on the same host. The key is the position in ``platform.links``, the name
    of the common site or, for the default link, the names of the two sites.
    """
    host_a, host_b, site_a, site_b = a.host_name, b.host_name, a.site_name, b.site_name
    if host_a == host_b:
        return None
    pairs = platform.pairs
    if pairs:
        if found := pairs.get(frozenset((host_a, host_b))):
            return found
        mixed = (pairs.get(frozenset((host_a, site_b))), pairs.get(frozenset((site_a, host_b))))
        if written := [found for found in mixed if found is not None]:
            return min(written, key=lambda found: found[0])
        if found := pairs.get(frozenset((site_a, site_b))):
            return found
    if site_a == site_b:
        return site_a, site_link(platform, site_a)
    return frozenset((site_a, site_b)), platform.default_link


def site_link(platform: Platform, site: str) -> Link:
    """Return the link between two machines of a site; the platform's default link if none is stated."""
    return platform.sites.get(site, platform.default_link)
