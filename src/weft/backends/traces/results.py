"""What a task that has ended left for those after it: its result, and the lines that sweeps grow over."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import NoReturn
from weakref import WeakKeyDictionary

from weft.backends.inputs import outputs_of
from weft.backends.jobs.problem import JobProblem
from weft.backends.jobs.rendering import RESULT_FILE
from weft.backends.traces.small_files import read_text
from weft.engine.state.known import Known
from weft.errors import shorten
from weft.expressions import Value
from weft.workflow.growth import growing_files
from weft.workflow.records.sweep import MAX_POINTS

__all__ = ["growth_lines", "read_result"]

_RULE = "a result file holds one flat JSON object, {name: number, text or true/false}, of at most 64 kB"
_MOST_LINE_BYTES = 64_000_000
_AWAITED: WeakKeyDictionary[Known, dict[str, str]] = WeakKeyDictionary()
"""By workflow as it has grown so far: the files whose lines some sweep waits for."""


def read_result(workdir: Path, name: str = RESULT_FILE) -> dict[str, Value]:
    """Read the result file of a task; {}: it has left none."""
    text = read_text(workdir, name)
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise JobProblem(f"the result file is no JSON: {shorten(str(error))}", rule=_RULE) from None
    if not isinstance(found, dict):
        raise JobProblem(f"the result file holds {shorten(text)}", rule=_RULE)
    for key, value in found.items():
        if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
            raise JobProblem(f"{shorten(key)} in the result file is {shorten(value)}", rule=_RULE)
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def growth_lines(known: Known, task: int, workdir: str, iteration: int = 1) -> dict[str, tuple[str, ...]]:
    """Give the lines of the files that some sweep waits for and this task has written, by file name.

    ``lines(split.parts)`` means the file of that name, or what the task ``split`` wrote as ``parts``.
    """
    awaited = _AWAITED.get(known)
    if awaited is None:
        awaited = _AWAITED[known] = growing_files(known.graph.workflow)
    if not awaited:
        return {}
    outputs = outputs_of(known, task, iteration)
    described = known.description(task).name
    written = {name for other in known.graph.workflow.tasks for name in (out.file for out in other.outputs)}
    found: dict[str, tuple[str, ...]] = {}
    for file in awaited:
        head, _, rest = file.partition(".")
        if file in outputs:
            found[file] = _lines(Path(workdir), file)
        elif head == described and file not in written:
            found[file] = _lines(Path(workdir), rest if rest in outputs else file)
    return found


def _lines(workdir: Path, name: str) -> tuple[str, ...]:
    text = read_text(workdir, name, most_bytes=_MOST_LINE_BYTES)
    if text is None:
        raise JobProblem(f"{shorten(name)} was not written", rule="a sweep waits for its lines")
    lines = [line for line in (raw.strip() for raw in text.split("\n")) if line]
    fault = ""
    if not lines:
        fault = "has no lines"
    elif len(lines) > MAX_POINTS:
        fault = f"has {len(lines):,} lines, and a sweep at most {MAX_POINTS:,} values"
    elif len(set(lines)) < len(lines):
        twice = Counter(lines).most_common(1)[0][0]
        fault = f"has the line {shorten(twice)!r} twice"
    elif "\0" in text or "\ufffd" in text:
        fault = "is no text"
    if fault:
        raise JobProblem(f"{shorten(name)} {fault}", rule="a sweep has one subtask per line")
    return tuple(lines)
