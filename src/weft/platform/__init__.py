"""Platforms: machines, virtual shares, sites and links; platform files, short forms and random platforms.

This package imports without NumPy. Import the modules that need arrays directly:
``weft.platform.arrays``, ``weft.platform.arrays`` and ``weft.platform.generator``.
"""

from __future__ import annotations

from weft.platform.file_format import platform_document, read_platform
from weft.platform.local import local_machine
from weft.platform.machine import OCCUPANCIES, QUEUES, Machine
from weft.platform.platform import DEFAULT_LINK, Link, Platform, Share, link_between, planned_machines
from weft.platform.short_forms import SHORT_FORMS, parse_short_form

__all__ = [
    "DEFAULT_LINK",
    "OCCUPANCIES",
    "QUEUES",
    "SHORT_FORMS",
    "Link",
    "Machine",
    "Platform",
    "Share",
    "link_between",
    "local_machine",
    "parse_short_form",
    "planned_machines",
    "platform_document",
    "read_platform",
]
