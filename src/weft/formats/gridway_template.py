"""The text of a GridWay job template: lines ``KEYWORD = value``, comments and blank lines (S3 section 6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import nearest, shorten
from weft.formats.complaints import Complaints

__all__ = ["KEYWORDS", "Entry", "parse_template"]

KEYWORDS = (
    "NAME",
    "EXECUTABLE",
    "ARGUMENTS",
    "ENVIRONMENT",
    "INPUT_FILES",
    "OUTPUT_FILES",
    "STDIN_FILE",
    "STDOUT_FILE",
    "STDERR_FILE",
    "RESTART_FILES",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_URL",
    "REQUIREMENTS",
    "RANK",
    "RESCHEDULING_INTERVAL",
    "RESCHEDULING_THRESHOLD",
    "SUSPENSION_TIMEOUT",
    "CPULOAD_THRESHOLD",
    "MONITOR",
    "PERFORMANCE_PROFILE",
    "PROFILE_THRESHOLD",
    "RESCHEDULE_ON_FAILURE",
    "NUMBER_OF_RETRIES",
    "WRAPPER",
    "PRE_WRAPPER",
    "PRE_WRAPPER_ARGUMENTS",
    "TYPE",
    "NP",
    "DEADLINE",
    "JOB_DEPENDENCIES",
    "TOTAL_TASKS",
)
"""Every keyword there is; TOTAL_TASKS, PERFORMANCE_PROFILE and PROFILE_THRESHOLD are additions of weft."""

_LINE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a template says under one keyword, and where."""

    key: str
    value: str
    """Never empty: a keyword without a value says nothing."""
    line: int
    column: int
    """Of the value's first character."""


def parse_template(text: str, complaints: Complaints) -> Mapping[str, Entry]:
    """Read the lines of a template; what is wrong is complained about and left out."""
    entries: dict[str, Entry] = {}
    seen: set[str] = set()
    # Only line feeds part lines here: str.splitlines also breaks at characters that a value may hold.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            rule = "a line of a job template is KEYWORD = value, or a comment behind #"
            complaints.add(f"{shorten(repr(line.strip()), 60)}", rule=rule, line=number)
            continue
        key, value, column = match[1].upper(), match[2], match.start(2) + 1
        if key not in KEYWORDS:
            close = nearest(key, KEYWORDS)
            advice = f"did you mean {close}?" if close else f"known: {', '.join(KEYWORDS)}"
            complaints.add(f"unknown keyword {shorten(key, 40)}", advice=advice, line=number)
            continue
        if key in seen:
            complaints.add(f"{key} again", rule="a keyword stands once in a template", line=number)
        seen.add(key)
        if len(value) > 1 and value[0] == value[-1] == '"' and '"' not in value[1:-1]:
            value, column = value[1:-1].strip(), column + 1
        if value:
            entries[key] = Entry(key=key, value=value, line=number, column=column)
    return entries
