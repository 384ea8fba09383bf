"""A link: how fast data move between two places.

A share: nodes of a machine set aside for one service, a machine of its own to planners (S4 section 1).

What can be wrong with a platform as a whole; the rules of single machines and links stand with them.

A platform: machines, the sites they stand at and the links between them.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.documents import Document, expand_braces
from weft.errors import DocumentPath, InvalidInput, Problem, nearest, shorten
from weft.platform.machine import Machine, find_name_problems

__all__ = [
    "DEFAULT_LINK",
    "Link",
    "NamedPair",
    "Platform",
    "Share",
    "find_link",
    "find_platform_problems",
    "link_between",
    "planned_machines",
    "site_link",
    "split_machine",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Moving B bytes takes ``latency_s + B / bandwidth_Bps`` seconds."""

    latency_s: float = 0.0
    bandwidth_Bps: float = 1e9  # noqa: N815 -- B is bytes, b would be bits
    """Bytes per second; infinite where data move at once."""

    def seconds(self, size: float) -> float:
        """Give how long so many bytes take."""
        return self.latency_s + size / self.bandwidth_Bps

    def find_problems(self) -> Iterator[Problem]:
        """Find what breaks a link's rules."""
        if not 0 <= self.latency_s < math.inf:
            what = f"latency {self.latency_s}"
            yield Problem(what=what, rule="must be finite and at least 0 seconds", path=("latency",))
        # A rate so small that one byte takes for ever cannot be inverted; nan fails this, too.
        if not self.bandwidth_Bps > 0 or 1 / self.bandwidth_Bps == math.inf:
            what = f"bandwidth {self.bandwidth_Bps}"
            yield Problem(what=what, rule="must be above 0 bytes per second", path=("bandwidth",))


DEFAULT_LINK = Link()
"""Where nothing is said: 1 GB/s, no latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Some nodes of a machine that serve the tasks of one service and nothing else."""

    machine: str
    service: str
    nodes: int
    name: str | None = None

    @property
    def machine_name(self) -> str:
        """Name the machine that planners see."""
        return self.name if self.name is not None else f"{self.machine}/{self.service}"


def split_machine(machine: Machine, shares: tuple[Share, ...]) -> tuple[Machine, ...]:
    """Cut shares off a machine: what is left of it first (if anything is), then the shares as written.

    Countable resources go with the nodes in proportion; GPUs are not cut, so a share gets the whole ones of
    its part and the machine keeps the others.
    """
    left = machine.nodes - sum(share.nodes for share in shares)
    parts = [_part(machine, share) for share in shares]
    if left <= 0:
        return tuple(parts)
    gpus = machine.gpus - sum(part.gpus for part in parts)
    rest = dataclasses.replace(_scaled(machine, left), nodes=left, gpus=gpus)
    return (rest, *parts)


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
    """Give a machine the part of the countable resources that goes with so many of its nodes."""

    def part(amount: float) -> float:
        return amount * nodes / machine.nodes

    return dataclasses.replace(
        machine,
        memory=None if machine.memory is None else part(machine.memory),
        disk=None if machine.disk is None else part(machine.disk),
        resources={name: part(amount) for name, amount in machine.resources.items()},
    )


_VALUES = operator.attrgetter(*(key.name for key in dataclasses.fields(Machine) if key.name != "name"))


def find_platform_problems(platform: Platform) -> Iterator[Problem]:
    """Find everything that breaks a platform's rules; paths are those of the file it was read from."""
    if not platform.machines:
        yield Problem(what="no machines", rule="a platform has at least one machine", path=("machines",))
    yield from _machine_problems(platform)
    yield from _duplicate_names(platform)
    yield from _site_problems(platform)
    yield from _link_problems(platform.default_link, ("links", "default"))
    yield from _pair_problems(platform)
    yield from _share_problems(platform)


def _machine_problems(platform: Platform) -> Iterator[Problem]:
    keys: dict[str, str] | None = None
    seen: set[Problem] = set()  # sixteen machines of one key break a rule once
    checked: object = None
    for machine in platform.machines:
        problems = list(find_name_problems(machine.name))
        # Machines of one kind stand side by side; their common values are checked once.
        values = _VALUES(machine)
        if values != checked:
            problems += machine.find_value_problems()
            checked = values
        for problem in problems:
            if keys is None:
                keys = _written_keys(platform)
            path = ("machines", keys.get(machine.name, machine.name), *problem.path)
            placed = dataclasses.replace(problem, path=path)
            if placed not in seen:
                seen.add(placed)
                yield placed


def _written_keys(platform: Platform) -> dict[str, str]:
    """Find the key under which each machine was written: ``altix3`` under ``altix{1..16}``."""
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
            yield Problem(what=what, rule="names of machines differ", path=("machines",))
    shares: set[str] = set()
    for index, share in enumerate(platform.virtual):
        name = share.machine_name
        if name in shares or name in machines:
            what = f"a virtual machine is named {shorten(repr(name))}, as another machine is"
            advice = "give it a name of its own with the key 'name'"
            yield Problem(what=what, rule="names of machines differ", advice=advice, path=("virtual", index))
        shares.add(name)


def _site_problems(platform: Platform) -> Iterator[Problem]:
    known = dict.fromkeys(machine.site_name for machine in platform.machines)
    for site, link in platform.sites.items():
        if site not in known:
            rule = "a site is where at least one machine stands"
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
                rule = "a pair names two machines or sites"
                yield _unknown("machine or site", name, known, rule, (*path, "pair"))
            elif name in machines and members[name] > (machines[name].site_name == name):
                what = f"{shorten(repr(name))} is a machine and a site with other machines"
                advice = "give the site another name"
                yield Problem(
                    what=what, rule="a pair must be unmistakable", advice=advice, path=(*path, "pair")
                )
        if first == second:
            what = f"a link from {shorten(repr(first))} to itself"
            advice = "the link inside a site stands under 'sites'"
            yield Problem(what=what, rule="a pair names two places", advice=advice, path=(*path, "pair"))
        earlier = first_written.setdefault(frozenset((first, second)), index)
        if earlier != index:
            what = f"{shorten(first)} and {shorten(second)} were linked before, in links.between[{earlier}]"
            yield Problem(what=what, rule="a pair has one link, for both directions", path=path)


def _share_problems(platform: Platform) -> Iterator[Problem]:
    nodes = {machine.name: machine.nodes for machine in platform.machines}
    taken: Counter[str] = Counter()
    for index, share in enumerate(platform.virtual):
        path: DocumentPath = ("virtual", index)
        if not share.service.strip():
            yield Problem(what="a share without a service", path=(*path, "service"))
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
        before = taken[share.machine]
        taken[share.machine] += max(share.nodes, 0)
        if before <= nodes[share.machine] < taken[share.machine]:
            yield Problem(
                what=f"shares of {shorten(repr(share.machine))} take {taken[share.machine]:,} nodes",
                rule=f"it has {nodes[share.machine]:,}",
                path=(*path, "nodes"),
            )


def _unknown(noun: str, name: str, known: Iterable[str], rule: str, path: DocumentPath) -> Problem:
    names = list(known)
    close = nearest(name, names)
    some = ", ".join(shorten(other, 30) for other in names[:10]) + (", …" if len(names) > 10 else "")
    advice = f"did you mean {close!r}?" if close else f"known: {some}"
    return Problem(what=f"unknown {noun} {shorten(repr(name))}", rule=rule, advice=advice, path=path)


NamedPair = tuple[str, str, Link]
"""Two machines or sites, by name, and the link between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Where workflows can run, as the user described it."""

    name: str = "platform"
    machines: tuple[Machine, ...]
    """The physical machines, as written."""
    sites: Mapping[str, Link] = field(default_factory=dict)
    """The link between any two machines of a site."""
    default_link: Link = DEFAULT_LINK
    links: tuple[NamedPair, ...] = ()
    virtual: tuple[Share, ...] = ()
    document: Document | None = field(default=None, compare=False, repr=False)
    """Where it was read from, so that errors can point there; not part of what it says."""
    pairs: Mapping[frozenset[str], tuple[int, Link]] = field(init=False, compare=False, repr=False)
    """The links by the two names they join, each with its position among ``links``; made from them."""

    def __post_init__(self) -> None:
        pairs: dict[frozenset[str], tuple[int, Link]] = {}
        for index, (first, second, link) in enumerate(self.links):
            pairs.setdefault(frozenset((first, second)), (index, link))
        object.__setattr__(self, "pairs", pairs)

    def find_problems(self) -> Iterator[Problem]:
        """Find everything that breaks a platform's rules; paths are those of the file."""
        return find_platform_problems(self)


def planned_machines(platform: Platform) -> tuple[Machine, ...]:
    """Give the machines planners see: shares are split off as machines of their own, beside what is left."""
    shares: dict[str, list[Share]] = {}
    for share in platform.virtual:
        shares.setdefault(share.machine, []).append(share)
    if not shares:
        return platform.machines
    return tuple(
        part
        for machine in platform.machines
        for part in (
            split_machine(machine, tuple(shares[machine.name])) if machine.name in shares else (machine,)
        )
    )


def link_between(platform: Platform, a: Machine, b: Machine) -> Link | None:
    """Give the link data take from one machine to another; None on the same host, where they need none.

    The most exact description counts: the pair of the two machines, then a machine and the other's site (of
    two such pairs the one written first), then the pair of their sites, then the inside of a common site,
    then the default. Links are the same in both directions.
    """
    found = find_link(platform, a, b)
    return None if found is None else found[1]


def find_link(platform: Platform, a: Machine, b: Machine) -> tuple[int | str | frozenset[str], Link] | None:
    """Give the link between two machines, as ``link_between`` does, and which of all links it is.

    A link is known by its position among ``platform.links``, or by the site it is inside of, or, where the
    default holds, by the two sites it joins.
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
    """Give the link between two machines of a site; the default link where the site states none."""
    return platform.sites.get(site, platform.default_link)
