"""What can be wrong with a platform as a whole; the rules of single machines and links stand with them."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from weft.braces import expand_braces
from weft.errors import InvalidInput, Path, Problem, nearest, shorten
from weft.platform.link import Link
from weft.platform.machine import Machine, name_faults

if TYPE_CHECKING:
    from weft.platform.platform import Platform  # which asks this module for its faults

__all__ = ["platform_faults"]

_VALUES = operator.attrgetter(*(key.name for key in dataclasses.fields(Machine) if key.name != "name"))


def platform_faults(platform: Platform) -> Iterator[Problem]:
    """Find everything that breaks a platform's rules; paths are those of the file it was read from."""
    if not platform.machines:
        yield Problem(what="no machines", rule="a platform has at least one machine", path=("machines",))
    yield from _machine_faults(platform)
    yield from _duplicate_names(platform)
    yield from _site_faults(platform)
    yield from _link_faults(platform.default_link, ("links", "default"))
    yield from _pair_faults(platform)
    yield from _share_faults(platform)


def _machine_faults(platform: Platform) -> Iterator[Problem]:
    keys: dict[str, str] | None = None
    seen: set[Problem] = set()  # sixteen machines of one key break a rule once
    checked: object = None
    for machine in platform.machines:
        problems = list(name_faults(machine.name))
        # Machines of one kind stand side by side; their common values are checked once.
        values = _VALUES(machine)
        if values != checked:
            problems += machine.value_faults()
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


def _site_faults(platform: Platform) -> Iterator[Problem]:
    known = dict.fromkeys(machine.site_name for machine in platform.machines)
    for site, link in platform.sites.items():
        if site not in known:
            rule = "a site is where at least one machine stands"
            yield _unknown("site", site, known, rule, ("sites", site))
        yield from _link_faults(link, ("sites", site))


def _link_faults(link: Link, path: Path) -> Iterator[Problem]:
    for problem in link.faults():
        yield dataclasses.replace(problem, path=(*path, *problem.path))


def _pair_faults(platform: Platform) -> Iterator[Problem]:
    if not platform.links:
        return
    machines = {machine.name: machine for machine in platform.machines}
    members = Counter(machine.site_name for machine in platform.machines)
    first_written: dict[frozenset[str], int] = {}
    for index, (first, second, link) in enumerate(platform.links):
        path: Path = ("links", "between", index)
        yield from _link_faults(link, path)
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


def _share_faults(platform: Platform) -> Iterator[Problem]:
    nodes = {machine.name: machine.nodes for machine in platform.machines}
    taken: Counter[str] = Counter()
    for index, share in enumerate(platform.virtual):
        path: Path = ("virtual", index)
        if not share.service.strip():
            yield Problem(what="a share without a service", path=(*path, "service"))
        if share.name is not None:
            yield from (dataclasses.replace(each, path=(*path, "name")) for each in name_faults(share.name))
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


def _unknown(noun: str, name: str, known: Iterable[str], rule: str, path: Path) -> Problem:
    names = list(known)
    close = nearest(name, names)
    some = ", ".join(shorten(other, 30) for other in names[:10]) + (", …" if len(names) > 10 else "")
    advice = f"did you mean {close!r}?" if close else f"known: {some}"
    return Problem(what=f"unknown {noun} {shorten(repr(name))}", rule=rule, advice=advice, path=path)
