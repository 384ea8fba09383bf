"""The contract of the registry ``formats``: read it first.

A format recognises its files by content, reads them into a workflow, and may write one. Files that describe
machines beside the tasks give a platform, too. A damaged file gives an InvalidInput with the place, never a
traceback.

What is wrong with a foreign file, gathered while reading goes on.

Reading large files without interruption by the garbage collector.

Parsed documents and records hold no cycles, yet every few thousand of them make the collector walk over
all the others: for 100,000 tasks that is most of the time.

Values of a parsed JSON document, checked: load, look, and complain with the path.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from weft.errors import DocumentPath, InvalidInput, Problem, SourceLocation, nearest, shorten
from weft.platform.platform import Platform
from weft.workflow.workflow import Workflow

__all__ = [
    "MAX_PROBLEMS",
    "Format",
    "PlatformReader",
    "ProblemCollector",
    "SourceFile",
    "add_unknown_task",
    "describe_value",
    "file_error",
    "load_json",
    "name_json_type",
    "pause_garbage_collection",
    "read_number",
    "read_object",
    "read_objects",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """The bytes of one file and the name to show for it."""

    name: str
    data: bytes

    @property
    def head(self) -> str:
        """Give the first characters, enough to recognise a format by."""
        return self.data[:65536].decode("utf-8", errors="replace").lstrip("\ufeff")

    @property
    def stem(self) -> str:
        """Give the file's name without folder and ending: the default name of a workflow."""
        return Path(self.name).name.split(".")[0] or "workflow"

    def text(self) -> str:
        """Decode the whole file."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            what = f"byte {self.data[error.start]:#04x} at offset {error.start} is not UTF-8"
            place = SourceLocation(file=self.name, line=line)
            raise InvalidInput(
                Problem(what=what, rule="files are UTF-8 text", advice="save the file as UTF-8", place=place)
            ) from None


def file_error(source: SourceFile, what: str, *, line: int | None = None, column: int | None = None,
            path: tuple[str | int, ...] = (), rule: str = "", advice: str = "") -> InvalidInput:  # fmt: skip
    """Make the error for a file that does not follow its format."""
    place = SourceLocation(file=source.name, line=line, column=column)
    return InvalidInput(Problem(what=what, rule=rule, advice=advice, path=path, place=place))


class Format(Protocol):
    """One file format for workflows."""

    name: str
    """The word for ``--from`` and ``--to``."""
    title: str
    """What it is, in a few words, for lists."""
    extensions: tuple[str, ...]
    """Endings it is written under, the usual one first (``.dot``)."""
    reads: bool
    writes: bool

    def recognises(self, source: SourceFile) -> bool:
        """Say, from the content alone and cheaply, whether a file is of this format."""
        ...

    def read(self, source: SourceFile) -> Workflow:
        """Read a workflow. Raises InvalidInput."""
        ...

    def write(self, workflow: Workflow) -> str:
        """Write a workflow as text. Raises InvalidInput if the format cannot say it."""
        ...


@runtime_checkable
class PlatformReader(Protocol):
    """A format whose files describe machines beside the tasks: ``--on FILE`` takes them."""

    def recognises(self, source: SourceFile) -> bool:
        """Say, from the content alone and cheaply, whether a file is of this format."""
        ...

    def read_platform(self, source: SourceFile) -> Platform:
        """Read the machines. Raises InvalidInput."""
        ...


MAX_PROBLEMS = 20
"""Reading stops after so many: the rest would mostly repeat the first."""


class ProblemCollector:
    """Collects the problems of one file; ``finish`` raises them all."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def add(
        self,
        what: str,
        *,
        rule: str = "",
        advice: str = "",
        path: DocumentPath = (),
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        """Note one problem; the last that is allowed raises."""
        place = SourceLocation(file=self.source.name, line=line, column=column)
        self.problems.append(Problem(what=what, rule=rule, advice=advice, path=path, place=place))
        if len(self.problems) >= MAX_PROBLEMS:
            self.finish()

    def finish(self) -> None:
        """Raise everything that was found, if anything was."""
        if self.problems:
            raise InvalidInput(self.problems)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, and leave it as it was."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


_EMPTY_OBJECT: Mapping[str, Any] = {}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_HINTS = 3
"""Complaints that get a "did you mean": the search looks at thousands of names."""


def load_json(source: SourceFile) -> Any:
    """Parse a JSON file; whatever is wrong with it becomes InvalidInput with line and column."""
    text = source.text()
    try:
        document = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        advice = "the file may be cut off" if error.pos >= len(text.rstrip()) else ""
        raise file_error(source, what, line=error.lineno, column=error.colno, advice=advice) from None
    except RecursionError:
        raise file_error(
            source, "lists and objects are nested too deeply", rule="a workflow is a few levels"
        ) from None
    except UnicodeEncodeError:
        raise file_error(source, "half of a character", rule=r"\\uD800 to \\uDFFF come in pairs") from None
    except ValueError as error:
        raise file_error(source, f"a number that is too long: {shorten(str(error))}") from None
    return document


def read_number(
    into: dict[str, float], key: str, value: Any, path: DocumentPath, complaints: ProblemCollector
) -> None:
    """Read a number that may be missing."""
    if value is None:
        return
    if type(value) in (int, float) and 0 <= value < 1e300:
        into[key] = float(value)
    else:
        complaints.add(describe_value(value), rule="must be a number, at least 0", path=path)


def read_object(
    parent: Mapping[str, Any], key: str, path: DocumentPath, complaints: ProblemCollector
) -> Mapping[str, Any]:
    """Read an object inside another; a missing one is empty."""
    value = parent.get(key)
    if value is not None and type(value) is not dict:
        complaints.add(describe_value(value), rule="must be an object", path=(*path, key))
    return value if type(value) is dict else _EMPTY_OBJECT


def read_objects(
    value: Any, path: DocumentPath, complaints: ProblemCollector, *, required: bool = False
) -> list[Mapping[str, Any]]:
    """Read a list of objects. Others would shift the positions of the rest, so they end the reading."""
    if value is None and not required:
        return []
    if type(value) is not list or (required and not value):
        rule = "must be a list of objects" + (", at least one" if required else "")
        complaints.add(describe_value(value), rule=rule, path=path)
        complaints.finish()
    for position, entry in enumerate(value):
        if type(entry) is not dict:
            complaints.add(describe_value(entry), rule="must be an object", path=(*path, position))
    complaints.finish()
    return list(value)


def add_unknown_task(
    name: Any, known: Mapping[str, int], path: DocumentPath, complaints: ProblemCollector
) -> None:
    """Complain of a name that no task has."""
    if type(name) is not str:
        complaints.add(describe_value(name), rule="must be the id of a task", path=path)
        return
    close = nearest(name, known) if len(complaints.problems) < _MAX_HINTS else None
    advice = f"did you mean {close!r}?" if close else "name the id of a task in this file"
    complaints.add(f"no task {shorten(name)!r}", advice=advice, path=path)


def describe_value(value: Any) -> str:
    """Say what was found, for a message."""
    if value is None:
        return "nothing is given"
    if type(value) is str:
        return f"{shorten(value)!r}" if value else "empty text"
    return (
        f"{shorten(value)} is {name_json_type(value)}"
        if type(value) in (int, float, bool)
        else name_json_type(value)
    )


def name_json_type(value: Any) -> str:
    """Name the type of a value as JSON knows it."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", type(None): "nothing"}
    return names.get(type(value), "a number")
