"""A platform: machines, the sites they stand at and the links between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.documents import Document
from weft.errors import Problem
from weft.platform.faults import platform_faults
from weft.platform.link import DEFAULT_LINK, Link
from weft.platform.machine import Machine
from weft.platform.share import Share, split

__all__ = [
    "DEFAULT_LINK",
    "Link",
    "NamedPair",
    "Platform",
    "Share",
    "described_link",
    "inside_link",
    "link_between",
    "planned_machines",
]

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

    def faults(self) -> Iterator[Problem]:
        """Find everything that breaks a platform's rules; paths are those of the file."""
        return platform_faults(self)


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
        for part in (split(machine, tuple(shares[machine.name])) if machine.name in shares else (machine,))
    )


def link_between(platform: Platform, a: Machine, b: Machine) -> Link | None:
    """Give the link data take from one machine to another; None on the same host, where they need none.

    The most exact description counts: the pair of the two machines, then a machine and the other's site (of
    two such pairs the one written first), then the pair of their sites, then the inside of a common site,
    then the default. Links are the same in both directions.
    """
    found = described_link(platform, a, b)
    return None if found is None else found[1]


def described_link(
    platform: Platform, a: Machine, b: Machine
) -> tuple[int | str | frozenset[str], Link] | None:
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
        return site_a, inside_link(platform, site_a)
    return frozenset((site_a, site_b)), platform.default_link


def inside_link(platform: Platform, site: str) -> Link:
    """Give the link between two machines of a site; the default link where the site states none."""
    return platform.sites.get(site, platform.default_link)
