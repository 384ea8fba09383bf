"""Documents: trees of plain values with source locations, and a reader that collects problems.

YAML files, JSON files and the Python builder all produce such a tree, so one reader interprets the keys and
every error points at a line. Names in documents may contain numeric ranges: ``altix{1..16}`` means sixteen
names.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from weft.errors import DocumentPath, InvalidInput, Problem, SourceLocation, shorten, suggest
from weft.records import dataclass

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentNode:
    """A scalar, a list of nodes or a mapping of nodes, with its source location."""

    value: Scalar | list[DocumentNode] | dict[str, DocumentNode]
    location: SourceLocation
    path: DocumentPath = ()
    key_locations: Mapping[str, SourceLocation] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Return the name of the value's type for messages, such as ``a number``."""
        match self.value:
            case None:
                return "nothing"
            case bool():
                return "true/false"
            case int() | float():
                return "a number"
            case str():
                return "text"
            case list():
                return "a list"
            case _:
                return "a mapping"

    def to_plain(self) -> Any:
        """Return the value as dicts, lists and scalars, without source locations."""
        if isinstance(self.value, list):
            return [node.to_plain() for node in self.value]
        if isinstance(self.value, dict):
            return {key: node.to_plain() for key, node in self.value.items()}
        return float(self.value) if isinstance(self.value, float) else self.value

    def display(self) -> str:
        """Return the value as short text for messages; for a list or mapping, the name of its type."""
        if isinstance(self.value, list | dict):
            return self.kind
        return shorten(repr(self.value)) if isinstance(self.value, str) else shorten(self.value).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The file and tree that a workflow or platform was read from."""

    file: str | None = None
    root: DocumentNode | None = None

    def location(self, path: DocumentPath) -> SourceLocation | None:
        """Return the source location of the value at a path.

        If there is no such value, return the location of the nearest enclosing value.
        """
        if self.root is None:
            return SourceLocation(file=self.file) if self.file else None
        node, location = self.root, self.root.location
        for part in path:
            if isinstance(node.value, dict) and part in node.value:
                location = node.key_locations.get(str(part), location)
                node = node.value[str(part)]
            elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                location = node.location
            else:
                break
        return location

    def find(self, *keys: str) -> DocumentNode | None:
        """Return the node that these keys of nested mappings lead to; None if there is none."""
        node = self.root
        for key in keys:
            node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
        return node


_MOST_BITS = 1000


def from_python(
    value: object, location: SourceLocation | None = None, path: DocumentPath = (), depth: int = 0
) -> DocumentNode:
    """Return the tree of nodes for plain Python values; raise InvalidInput for values of other types."""
    location = location or SourceLocation()
    if depth > 100:
        raise InvalidInput("values are nested deeper than 100 levels", path=path, location=location)
    if isinstance(value, DocumentNode):
        return value
    if hasattr(value, "item") and not isinstance(value, Mapping) and getattr(value, "ndim", 1) == 0:
        value = value.item()  # NumPy scalars
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        what = f"a whole number has {value.bit_length()} bits"
        raise InvalidInput(what, rule=f"at most {_MOST_BITS} bits are allowed", path=path, location=location)
    if value is None or isinstance(value, str | int | float | bool):
        return DocumentNode(value=value, location=location, path=path)
    if isinstance(value, range):
        value = list(value)
    if isinstance(value, Mapping):
        entries = {
            str(key): from_python(item, location, (*path, str(key)), depth + 1) for key, item in value.items()
        }
        return DocumentNode(value=entries, location=location, path=path)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        items = [from_python(item, location, (*path, index), depth + 1) for index, item in enumerate(value)]
        return DocumentNode(value=items, location=location, path=path)
    what = f"a value of type {type(value).__name__} is not supported: {shorten(value)}"
    raise InvalidInput(what, path=path, location=location, advice="use numbers, text, lists or mappings")


def caller_location() -> SourceLocation:
    """Return the source line outside of weft from which the builder was called, for error messages."""
    frame = sys._getframe(1)  # noqa: SLF001 -- the only access to the caller's line
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        frame = frame.f_back
    return SourceLocation(file=frame.f_code.co_filename, line=frame.f_lineno)


class Reader:
    """Converts nodes to Python values and collects all problems instead of raising at the first one."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._expanded = 0
        """Number of names to which ranges in braces have expanded."""

    def add_problem(self, node: DocumentNode, what: str, *, rule: str = "", advice: str = "") -> None:
        """Add a problem at a node."""
        self.problems.append(
            Problem(what=what, rule=rule, advice=advice, path=node.path, location=node.location)
        )

    def add_type_problem(self, node: DocumentNode, wanted: str, advice: str = "") -> None:
        """Add a problem which says that a node does not have the type ``wanted``."""
        what = f"{node.display()} is {node.kind}"
        if node.value is None:
            what = "the value is empty"
        elif isinstance(node.value, list | dict):
            what = f"this is {node.kind}"
        self.add_problem(node, what, rule=f"must be {wanted}", advice=advice)

    def collect_problems(self, node: DocumentNode, function: Callable[[], Any]) -> Any:
        """Return ``function()``; if it raises InvalidInput, add its problems at the node and return None."""
        try:
            return function()
        except InvalidInput as error:
            for problem in error.problems:
                self.add_problem(node, problem.what, rule=problem.rule, advice=problem.advice)
            return None

    def expand_names(self, node: DocumentNode, text: str) -> list[str]:
        """Return the names that a text expands to; none after adding a problem.

        All texts of a document together expand to at most MOST_NAMES names.
        """
        if not has_range(text):
            return [text]
        count = self.collect_problems(node, partial(count_names, text))
        if count is None:
            return []
        self._expanded += count
        if self._expanded > MOST_NAMES:
            what = f"ranges in braces give {self._expanded:,} names, those before included"
            rule = f"the texts of a file expand to at most {MOST_NAMES:,} names"
            self.add_problem(node, what, rule=rule)
            return []
        return expand_braces(text)

    def mapping(
        self, node: DocumentNode, known: Collection[str] | None = None, what: str = "key"
    ) -> dict[str, DocumentNode]:
        """Return the entries of a mapping; keys that are not in ``known`` are problems and are left out.

        ``known=None`` allows any key. ``what`` names a key in messages.
        """
        if not isinstance(node.value, dict):
            self.add_type_problem(node, "a mapping")
            return {}
        if known is None:
            return node.value
        unknown = [key for key in node.value if key not in known]
        if not unknown:
            return node.value
        for key in unknown:
            advice = suggest(key, known, f"known: {', '.join(known)}")
            self.problems.append(
                Problem(
                    what=f"unknown {what} {shorten(repr(key))}",
                    advice=advice,
                    path=node.path,
                    location=node.key_locations.get(key, node.location),
                )
            )
        return {key: value for key, value in node.value.items() if key in known}

    def listing(self, node: DocumentNode) -> list[DocumentNode]:
        """Return the items of a list.

        A scalar or mapping counts as a list of one item, null as an empty list.
        """
        if node.value is None:
            return []
        return node.value if isinstance(node.value, list) else [node]

    def text(self, node: DocumentNode) -> str | None:
        """Return the text of a node; numbers are converted to text. Else add a problem and return None."""
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return str(node.value)
        self.add_type_problem(node, "text")
        return None

    def flag(self, node: DocumentNode) -> bool:
        """Return the boolean value of a node; for any other type add a problem and return False."""
        if not isinstance(node.value, bool):
            self.add_type_problem(node, "true or false")
        return node.value is True

    def choice(self, node: DocumentNode, allowed: Sequence[str]) -> str | None:
        """Return the word in a node if it is allowed; otherwise add a problem and return None."""
        if isinstance(node.value, str) and node.value in allowed:
            return node.value
        self.add_problem(
            node,
            f"{node.display()} is not allowed",
            rule=f"must be one of {', '.join(allowed)}",
            advice=suggest(node.value, allowed) if isinstance(node.value, str) else "",
        )
        return None

    def integer(self, node: DocumentNode, *, least: int, most: int | None = None) -> int | None:
        """Return the integer in a node if it is allowed; else add a problem and return None.

        It must be at least ``least`` and, unless ``most`` is None, at most ``most``.
        """
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= (most or value):
            return value
        rule = f"must be a whole number, at least {least}" + (f" and at most {most}" if most else "")
        self.add_problem(node, f"{node.display()} is not allowed", rule=rule)
        return None

    def finish(self, document: Document | None = None) -> None:
        """Raise InvalidInput with all problems, if there are any."""
        if self.problems:
            raise InvalidInput(list(locate_problems(self.problems, document)))


def locate_problems(problems: Iterable[Problem], document: Document | None) -> Iterator[Problem]:
    """Yield the problems; those without a location get the location of their path in the document."""
    for problem in problems:
        location = problem.location or (document.location(problem.path) if document else None)
        yield replace(problem, location=location)


MOST_NAMES = 1_000_000
"""Maximum number of names to which one text may expand."""

_MOST_CHARACTERS = 100_000_000
"""Maximum total number of characters of the names to which one text expands."""

# Not expanded: doubled braces, which are literal braces, and ``${...}``, which is shell syntax.
_RANGE = re.compile(r"(?<![{$])\{(-?[0-9]+)\.\.(-?[0-9]+)\}(?!\})")
_MOST_DIGITS = 18


def expand_braces(text: str) -> list[str]:
    """Return the names that a text expands to: ``out.{1..3}`` gives ``out.1``, ``out.2``, ``out.3``.

    Several ranges give every combination; the last one varies fastest. A bound with leading zeros
    (``{01..16}``) pads every number to the same width. A text without a range is the only name.
    """
    count_names(text)
    parts = _RANGE.split(text)
    ranges = [_numbers(first, last) for first, last in zip(parts[1::3], parts[2::3], strict=True)]
    # Literal texts and numbers alternate, so one product over both gives every name.
    columns: list[list[str]] = [[parts[0]]]
    for numbers, literal in zip(ranges, parts[3::3], strict=True):
        columns += [numbers, [literal]]
    return ["".join(pieces) for pieces in itertools.product(*columns)]


def has_range(text: str) -> bool:
    """Return whether a text contains a numeric range in braces, such as ``{1..16}``."""
    return _RANGE.search(text) is not None


def count_names(text: str) -> int:
    """Return the number of names that a text expands to.

    Raises InvalidInput for descending ranges and for expansions that are too large.
    """
    count = 1
    for first, last in _RANGE.findall(text):
        written = shorten(f"{{{first}..{last}}}")
        if max(len(first), len(last)) > _MOST_DIGITS:
            raise _range_error(text, f"range {written}", f"a bound has at most {_MOST_DIGITS} digits")
        if int(last) < int(first):
            raise _range_error(text, f"range {written} is descending", "the smaller bound must come first")
        count *= int(last) - int(first) + 1
        if count > MOST_NAMES:
            raise _range_error(text, f"range {written}", f"a text expands to at most {MOST_NAMES:,} names")
    if count * len(text) > _MOST_CHARACTERS:
        size = f"{count:,} names of about {len(text):,} characters"
        raise _range_error(text, size, f"all names together may have at most {_MOST_CHARACTERS:,} characters")
    return count


def _range_error(text: str, what: str, rule: str) -> InvalidInput:
    return InvalidInput(f"{what} in {shorten(repr(text))}", rule=rule)


def _numbers(first: str, last: str) -> list[str]:
    padded = any(re.match(r"-?0[0-9]", bound) for bound in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
