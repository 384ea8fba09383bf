"""What a WfFormat file knows of the runs of its tasks: times, commands, and measurements we only keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import Path
from weft.formats.complaints import Complaints
from weft.formats.json_values import describe, read_number
from weft.formats.trace import Trace, literal
from weft.workflow.records.job import Job

__all__ = ["read_measurements"]

_KEPT = ("coreCount", "cores", "memoryInBytes", "memory")
"""Measurements kept as attributes: recorded, not asked for, so that a trace fits any platform."""

_NOTHING: Mapping[str, Any] = {}
_TEXTS = {str}


def read_measurements(
    trace: Trace,
    entries: Sequence[Mapping[str, Any]],
    measured: Sequence[Mapping[str, Any]],
    places: tuple[Path, Sequence[int]],
    complaints: Complaints,
) -> None:
    """Read what is known of the tasks' runs: the time, the command, and what we keep without reading."""
    path, positions = places
    work, jobs = trace.work, trace.jobs
    for index, (entry, ran) in enumerate(zip(entries, measured, strict=True)):
        key = "runtimeInSeconds" if "runtimeInSeconds" in ran else "runtime"
        seconds = ran.get(key)
        if type(seconds) is float and 0.0 <= seconds < math.inf:
            work.append(seconds)
        else:
            found: dict[str, float] = {}
            read_number(found, key, seconds, (*path, positions[index], key), complaints)
            work.append(found.get(key))
        command = ran.get("command")
        if command is None:
            jobs.append(None)
        else:
            jobs.append(_read_command(command, (*path, positions[index], "command"), complaints))
        trace.attributes.append(_attributes(entry, ran, command))


def _attributes(entry: Mapping[str, Any], ran: Mapping[str, Any], command: Any) -> Mapping[str, object]:
    program = _program(entry, command)
    kept: dict[str, object] = {"program": program} if program else {}
    for key in _KEPT:
        if key in ran and type(ran[key]) in (int, float):
            kept[key] = ran[key]
    return kept or _NOTHING


def _program(entry: Mapping[str, Any], command: Any) -> str | None:
    """Name the kind of a task: its category, else its name; where that is only the id, its program."""
    category, name = entry.get("category"), entry.get("name")
    if type(category) is str and category:
        return category
    if type(command) is dict and name == entry.get("id"):
        program = command.get("program")
        if type(program) is str and program:
            return program
    return name if type(name) is str and name else None


def _read_command(command: Any, path: Path, complaints: Complaints) -> Job | None:
    program = command.get("program") if type(command) is dict else command
    if program is None or program == "":
        return None
    arguments = command.get("arguments") or [] if type(command) is dict else []
    if type(arguments) is not list:
        complaints.add(describe(arguments), rule="must be a list", path=(*path, "arguments"))
        return None
    words = [program, *arguments]
    if set(map(type, words)) != _TEXTS:
        rule = "program and arguments are texts"
        complaints.add(describe(next(word for word in words if type(word) is not str)), rule=rule, path=path)
        return None
    return Job(command=tuple([literal(word) for word in words]))
