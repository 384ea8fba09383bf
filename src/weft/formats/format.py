"""The interface of the formats, and what their readers share: source files, problems, JSON values."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from weft.errors import DocumentPath, InvalidInput, Problem, SourceLocation, shorten, suggest
from weft.platform.platform import Platform
from weft.records import dataclass
from weft.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """The content of one file, with its name for messages."""

    name: str
    data: bytes

    @property
    def head(self) -> str:
        """Return the first 64 kB as text, enough to recognise a format."""
        return self.data[:65536].decode("utf-8", errors="replace").lstrip("\ufeff")

    @property
    def stem(self) -> str:
        """Return the file name without folder and extension, the default name of a workflow."""
        return Path(self.name).name.split(".")[0] or "workflow"

    def text(self) -> str:
        """Return the whole file as text. Raises InvalidInput where it is not UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            what = f"byte {self.data[error.start]:#04x} at offset {error.start} is not UTF-8"
            location = SourceLocation(file=self.name, line=line)
            raise InvalidInput(
                what, rule="files must be UTF-8 text", advice="save the file as UTF-8", location=location
            ) from None


def file_error(source: SourceFile, what: str, *, line: int | None = None, column: int | None = None,
            path: tuple[str | int, ...] = (), rule: str = "", advice: str = "") -> InvalidInput:  # fmt: skip
    """Return an InvalidInput for a file that violates its format, with the location of the problem."""
    location = SourceLocation(file=source.name, line=line, column=column)
    return InvalidInput(what, rule=rule, advice=advice, path=path, location=location)


class Format(Protocol):
    """One file format for workflows.

    A format recognises its files by content and reads them into a workflow; it may also write workflows. A
    format whose files also describe machines is a ``PlatformReader``. For an invalid file, ``read`` raises
    InvalidInput with the place of every problem.
    """

    name: str
    """The name for ``--from`` and ``--to``."""
    title: str
    """A short description for lists of formats."""
    extensions: tuple[str, ...]
    """File extensions, the preferred one first (``.dot``)."""
    reads: bool
    writes: bool

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file has this format, from its content alone and without parsing it."""
        ...

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a file. Raises InvalidInput."""
        ...

    def write(self, workflow: Workflow) -> str:
        """Return a workflow as text. Raises InvalidInput if the format cannot express it."""
        ...


class ReadOnlyFormat:
    """Base of the formats that are read, not written."""

    name: str
    reads = True
    writes = False

    def write(self, workflow: Workflow) -> str:
        """Raise InvalidInput: the format is read only."""
        what, advice = f"{workflow.name} cannot be written as {self.name}", "write weft or wfformat instead"
        raise InvalidInput(what, rule="this format is read only", advice=advice)


@runtime_checkable
class PlatformReader(Protocol):
    """A format whose files describe machines too; ``--on FILE`` reads them."""

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file has this format, from its content alone and without parsing it."""
        ...

    def read_platform(self, source: SourceFile) -> Platform:
        """Return the machines of a file as a platform. Raises InvalidInput."""
        ...


_MAX_HINTS = 3
"""Number of problems of a file that get the advice "did you mean"; each search takes long."""
MAX_PROBLEMS = 20
"""Number of problems after which reading stops; further problems mostly repeat the first ones."""


class ProblemCollector:
    """Collects the problems of one file; ``finish`` raises them together."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.found: list[Problem] = []

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
        """Add one problem; raise InvalidInput with all problems if there are MAX_PROBLEMS or more."""
        location = SourceLocation(file=self.source.name, line=line, column=column)
        self.found.append(Problem(what=what, rule=rule, advice=advice, path=path, location=location))
        if len(self.found) >= MAX_PROBLEMS:
            self.finish()

    def suggest(self, name: str, known: Iterable[str], otherwise: str) -> str:
        """Return advice with the most similar known name, or ``otherwise``.

        After the first few problems the result is always ``otherwise``, because the search takes long.
        """
        return suggest(name, known if len(self.found) < _MAX_HINTS else (), otherwise)

    def finish(self) -> None:
        """Raise InvalidInput with the collected problems, if there are any."""
        if self.found:
            raise InvalidInput(self.found)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector within a ``with`` block.

    Parsed documents hold no reference cycles, and collections would take most of the time for 100,000 tasks.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


_EMPTY_OBJECT: Mapping[str, Any] = {}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(source: SourceFile) -> Any:
    """Return the value of a JSON file. Raises InvalidInput with line and column."""
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
        what = "lists and objects are nested too deeply"
        raise file_error(
            source, what, advice="check the brackets; a workflow needs only a few levels"
        ) from None
    except UnicodeEncodeError:
        raise file_error(
            source,
            "the text contains an unpaired surrogate",
            rule=r"each escape \uD800 to \uDBFF must be followed by an escape \uDC00 to \uDFFF",
        ) from None
    except ValueError as error:
        raise file_error(source, f"a number is too long: {shorten(str(error))}") from None
    return document


def read_number(
    into: dict[str, float], key: str, value: Any, path: DocumentPath, problems: ProblemCollector
) -> None:
    """Store a number of at least 0 as ``into[key]``; add a problem for any other value except None."""
    if value is None:
        return
    if type(value) in (int, float) and 0 <= value < 1e300:
        into[key] = float(value)
    else:
        problems.add(describe_value(value), rule="must be a number, at least 0", path=path)


def read_object(
    parent: Mapping[str, Any], key: str, path: DocumentPath, problems: ProblemCollector
) -> Mapping[str, Any]:
    """Return the object ``parent[key]``; an empty object if it is missing or invalid.

    An invalid value also adds a problem.
    """
    if (value := parent.get(key)) is not None and type(value) is not dict:
        problems.add(describe_value(value), rule="must be an object", path=(*path, key))
    return value if type(value) is dict else _EMPTY_OBJECT


def read_objects(
    value: Any, path: DocumentPath, problems: ProblemCollector, *, required: bool = False
) -> list[Mapping[str, Any]]:
    """Return a list of objects; [] for None unless ``required``. Raises InvalidInput for other values."""
    if value is None and not required:
        return []
    if type(value) is not list or (required and not value):
        rule = "must be a list of objects" + (", at least one" if required else "")
        problems.add(describe_value(value), rule=rule, path=path)
        problems.finish()
    for position, entry in enumerate(value):
        if type(entry) is not dict:
            problems.add(describe_value(entry), rule="must be an object", path=(*path, position))
    problems.finish()
    return list(value)


def add_unknown_task(
    name: Any, known: Mapping[str, int], path: DocumentPath, problems: ProblemCollector
) -> None:
    """Add a problem for a reference to a task that does not exist."""
    if type(name) is not str:
        problems.add(describe_value(name), rule="must be the id of a task", path=path)
        return
    advice = problems.suggest(name, known, "name the id of a task in this file")
    problems.add(f"no task {shorten(name)!r}", advice=advice, path=path)


def describe_value(value: Any) -> str:
    """Return a description of a value for a message."""
    if value is None:
        return "no value"
    if type(value) is str:
        return repr(shorten(value)) if value else "an empty text"
    kind = name_json_type(value)
    return f"{shorten(value)} is {kind}" if type(value) in (int, float, bool) else kind


def name_json_type(value: Any) -> str:
    """Return the name of a value's JSON type with its article, such as ``an object``."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", type(None): "nothing"}
    return names.get(type(value), "a number")
