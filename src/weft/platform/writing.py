"""Platforms as plain mappings in the file format; what has its default value is left out."""

from __future__ import annotations

import dataclasses
import math

from weft.platform.link import DEFAULT_LINK, Link
from weft.platform.machine import Machine
from weft.platform.machine_reading import MACHINE_KEYS
from weft.platform.platform import Platform
from weft.platform.reading import VERSION
from weft.platform.share import Share

__all__ = ["platform_document"]


def platform_document(platform: Platform) -> dict[str, object]:
    """Give the mapping that ``read_platform`` reads back as an equal platform."""
    links: dict[str, object] = {}
    if platform.default_link != DEFAULT_LINK:
        links["default"] = _link(platform.default_link)
    if platform.links:
        links["between"] = [
            {"pair": [first, second], **_link(link)} for first, second, link in platform.links
        ]
    optional = {
        "sites": {site: _link(link) for site, link in platform.sites.items()},
        "links": links,
        "virtual": [_share(share) for share in platform.virtual],
    }
    return {
        "weft": VERSION,
        "name": platform.name,
        "machines": {machine.name: _machine(machine) for machine in platform.machines},
        **{key: value for key, value in optional.items() if value},
    }


def _machine(machine: Machine) -> dict[str, object]:
    defaults = Machine(name=machine.name)
    found: dict[str, object] = {}
    for key in MACHINE_KEYS:
        value = getattr(machine, key)
        if key == "speed" and machine.speeds:
            found[key] = {"default": value, **machine.speeds}
        elif value != getattr(defaults, key):
            found[key] = _plain(value)
    return found


def _plain(value: object) -> object:
    """Give tuples as lists and mappings as dictionaries, as files have them."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if hasattr(value, "keys") else value  # type: ignore[call-overload]


def _link(link: Link) -> dict[str, object]:
    # JSON has no number for infinity, so it is written as the word.
    bandwidth = "inf" if link.bandwidth_Bps == math.inf else link.bandwidth_Bps
    return {"bandwidth": bandwidth, "latency": link.latency_s}


def _share(share: Share) -> dict[str, object]:
    stated = dataclasses.asdict(share)
    return {key: value for key, value in stated.items() if value is not None}
