"""Where workflows can run: machines, their shares, sites and links; files, short forms and random platforms.

What needs arrays is imported from its own module, so that this one loads without them:
``weft.platform.network``, ``weft.platform.columns`` and ``weft.platform.generators``.
"""

from __future__ import annotations

from weft.platform.link import DEFAULT_LINK, Link
from weft.platform.local import local_machine
from weft.platform.machine import OCCUPANCIES, QUEUES, Machine
from weft.platform.platform import Platform, link_between, planned_machines
from weft.platform.reading import read_platform
from weft.platform.share import Share
from weft.platform.short_forms import SHORT_FORMS, short_form
from weft.platform.writing import platform_document

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
    "planned_machines",
    "platform_document",
    "read_platform",
    "short_form",
]
