"""Where workflows can run: machines, their shares, sites and links; files, short forms and random platforms.

What needs arrays is imported from its own module, so that this one loads without them:
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
