"""YAML and JSON text as a tree of nodes with line and column, and plain values as YAML text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import yaml

from weft.documents import Document, DocumentNode, Scalar
from weft.errors import DocumentPath, InvalidInput, Problem, SourceLocation, shorten
from weft.formats.format import MAX_PROBLEMS

_MAX_NUMBER_LENGTH = 300
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_STARTS = frozenset("0123456789+-.")


def _resolve_scalar(text: str) -> Scalar:
    """Return the value of an unquoted scalar: a number, true, false, null or text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _MAX_NUMBER_LENGTH:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    return _LargeNumber(text) if math.isinf(number) else number


class _LargeNumber(float):
    """A number that is too large for a float and hence infinite; messages show it as written in the file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


MAX_DEPTH = 100
"""Maximum levels of nesting, so that recursive readers do not exceed Python's recursion limit."""
MAX_KEY_LENGTH = 1000
"""Maximum number of characters of a key; YAML limits most keys to 1024."""
MAX_NODES = 2_000_000
"""Maximum number of values of a document, with aliases expanded."""
MAX_NODES_PER_LINE = 200_000
"""Maximum number of values in one line; longer lines make the parser slow."""

_STANDARD = "tag:yaml.org,2002:"
_TEXT_TAGS = (None, "!", _STANDARD + "str")
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _STANDARD + "null": (type(None),),
    _STANDARD + "bool": (bool,),
    _STANDARD + "int": (int,),
    _STANDARD + "float": (int, float),
}
_NO_KEYS: Mapping[str, SourceLocation] = {}


class _Frame:
    """A list or mapping that is being read."""

    def __init__(
        self, *, is_list: bool, location: SourceLocation, path: DocumentPath, anchor: str | None
    ) -> None:
        self.items: list[DocumentNode] | None = [] if is_list else None
        self.entries: dict[str, DocumentNode] = {}
        self.key_locations: dict[str, SourceLocation] = {}
        self.merged: list[DocumentNode] = []
        self.merging = False
        self.key: str | None = None
        self.location = location
        self.path = path
        self.anchor = anchor
        self.size = 1
        self.height = 1

    @property
    def expects_key(self) -> bool:
        return self.items is None and self.key is None

    def child_path(self) -> DocumentPath:
        """Return the path of the next value to be read."""
        if self.items is not None:
            return (*self.path, len(self.items))
        return self.path if self.merging or self.key is None else (*self.path, self.key)

    def add(self, node: DocumentNode, size: int, height: int) -> None:
        self.size += size
        self.height = max(self.height, height + 1)
        if self.items is not None:
            self.items.append(node)
        elif self.merging:
            self.merged.append(node)
        elif self.key is not None:
            self.entries[self.key] = node
        self.key, self.merging = None, False


class _DocumentBuilder:
    """Builds the tree of a document from parser events.

    Unquoted scalars follow the core schema of YAML 1.2 (section 10.3.2): ``yes``, ``on``, ``1:30`` and
    ``1..50`` are text, ``010`` is ten, ``1e-6`` is a number. Deviation: a number of more than 300 characters
    stays text. The tree is built from PyYAML's events without recursion. Limits on depth and size
    include aliases; their expanded size is computed without expanding them.
    """

    def __init__(self, file: str | None) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[DocumentNode, int, int]] = {}
        self._root: DocumentNode | None = None
        self._total = 0
        self._line: int | None = None
        self._before_line = 0

    def take(self, event: yaml.Event) -> None:
        """Process the next event."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent() if self._root is not None:
                advice = "split the file at the line '---', and remove this line"
                location = self._place(event)
                raise self._error(
                    location, "the file has a second document", "a file has one document", advice
                )

    def finish(self) -> DocumentNode:
        """Return the root of the tree. Raises InvalidInput with every problem found."""
        if self.problems:
            raise InvalidInput(self.problems)
        if self._root is None:
            raise InvalidInput("the file is empty", location=SourceLocation(file=self._file))
        return self._root

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.expects_key:
            self._key(frame, event)
            return
        if frame is None and event.value == "" and event.implicit[0]:
            return  # PyYAML's event for a file of comments and '---' only
        value = _resolve_scalar(event.value) if event.implicit[0] else self._tagged(event)
        path = frame.child_path() if frame is not None else ()
        location = self._place(event)
        self._count(location, 1)
        node = DocumentNode(value=value, location=location, path=path, key_locations=_NO_KEYS)
        self._put(node, 1, 0, event.anchor)

    def _key(self, frame: _Frame, event: yaml.ScalarEvent) -> None:
        key, location = event.value, self._place(event)
        frame.merging = key == "<<" and bool(event.implicit[0])
        if frame.merging:
            frame.key = key
            return
        if event.tag not in _TEXT_TAGS:
            self._bad_tag(event)
        if len(key) > MAX_KEY_LENGTH:
            raise self._error(
                location, f"a key has {len(key):,} characters", f"at most {MAX_KEY_LENGTH:,} are allowed"
            )
        if (first := frame.key_locations.get(key)) is not None:
            what = f"key {shorten(repr(key))} occurs twice in one mapping"
            rule = f"first in line {first.line}, column {first.column}"
            self._add_problem(location, what, rule, "remove or rename one of them", (*frame.path, key))
        frame.key, frame.key_locations[key] = key, location

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
        """Return the value of a quoted scalar or of one with an explicit tag."""
        text: str = event.value
        if event.tag in _TEXT_TAGS:
            return text
        if (wanted := _SCALAR_TAGS.get(event.tag)) is None:
            self._bad_tag(event)
            return text
        value = _resolve_scalar(text)
        if type(value) not in wanted:
            name = event.tag.removeprefix(_STANDARD)
            what = f"{shorten(repr(text))} is not a value of its tag !!{name}"
            self._add_problem(self._place(event), what)
        return float(value) if float in wanted and isinstance(value, int) else value

    def _alias(self, event: yaml.AliasEvent) -> None:
        name, location = event.anchor, self._place(event)
        if self._stack and self._stack[-1].expects_key:
            raise self._error(
                location, f"an alias (*{shorten(name)}) is used as a key", "keys must be plain text"
            )
        if name not in self._anchors:
            inside = any(frame.anchor == name for frame in self._stack)
            why = "is inside its own anchor" if inside else f"has no anchor &{shorten(name)} before it"
            raise self._error(
                location, f"the alias *{shorten(name)} {why}", "an alias must repeat an earlier value"
            )
        node, size, height = self._anchors[name]
        self._count(location, size)
        if len(self._stack) + height > MAX_DEPTH:
            raise self._too_deep(location)
        self._put(node, size, height, None)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        is_list, location = isinstance(event, yaml.SequenceStartEvent), self._place(event)
        path: DocumentPath = ()
        if self._stack:
            parent = self._stack[-1]
            if parent.expects_key:
                advice = "put quotes around a key that starts with '{' or '['"
                kind = "a list" if is_list else "a mapping"
                raise self._error(location, f"{kind} is used as a key", "keys must be plain text", advice)
            path = parent.child_path()
        if len(self._stack) >= MAX_DEPTH:
            raise self._too_deep(location)
        if event.tag not in (None, "!", _STANDARD + ("seq" if is_list else "map")):
            self._bad_tag(event)
        self._count(location, 1)
        self._stack.append(_Frame(is_list=is_list, location=location, path=path, anchor=event.anchor))

    def _close(self) -> None:
        frame = self._stack.pop()
        value: list[DocumentNode] | dict[str, DocumentNode]
        value = frame.items if frame.items is not None else frame.entries
        if frame.merged:
            value = self._merge(frame)
        node = DocumentNode(
            value=value, location=frame.location, path=frame.path, key_locations=frame.key_locations
        )
        self._put(node, frame.size, frame.height, frame.anchor)

    def _merge(self, frame: _Frame) -> dict[str, DocumentNode]:
        """Return the entries of a mapping together with those that ``<<: ...`` merges into it.

        Own keys override merged keys; keys of earlier merged mappings override those of later ones.
        """
        merged: dict[str, DocumentNode] = {}
        for node in frame.merged:
            for source in node.value if isinstance(node.value, list) else [node]:
                if not isinstance(source.value, dict):
                    what = f"{source.display()} cannot be merged by '<<'"
                    rule = "must be a mapping or a list of mappings"
                    self.problems.append(
                        Problem(what=what, rule=rule, path=frame.path, location=source.location)
                    )
                    continue
                for key, entry in source.value.items():
                    merged.setdefault(key, entry)
                    frame.key_locations.setdefault(key, source.key_locations.get(key, source.location))
        return merged | frame.entries

    def _put(self, node: DocumentNode, size: int, height: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, size, height)
        if self._stack:
            self._stack[-1].add(node, size, height)
        else:
            self._root = node

    def _count(self, location: SourceLocation, size: int) -> None:
        self._total += size
        if self._total > MAX_NODES:
            rule = f"at most {MAX_NODES:,} are allowed, with aliases expanded"
            raise self._error(location, "the file has too many values", rule, "split the file, or use sweeps")
        if location.line != self._line:
            self._line, self._before_line = location.line, self._total
        elif size == 1 and self._total - self._before_line > MAX_NODES_PER_LINE:
            rule = f"at most {MAX_NODES_PER_LINE:,} are allowed"
            raise self._error(location, "the line has too many values", rule, "break the line")

    def _place(self, event: yaml.Event) -> SourceLocation:
        mark = cast("yaml.error.Mark", event.start_mark)  # set in every parser event
        return SourceLocation(file=self._file, line=mark.line + 1, column=mark.column + 1)

    def _add_problem(
        self, location: SourceLocation, what: str, rule: str = "", advice: str = "", path: DocumentPath = ()
    ) -> None:
        problem = Problem(what=what, rule=rule, advice=advice, path=path, location=location)
        self.problems.append(problem)
        if len(self.problems) >= MAX_PROBLEMS:
            raise InvalidInput(self.problems)

    def _error(self, location: SourceLocation, what: str, rule: str = "", advice: str = "") -> InvalidInput:
        path = self._stack[-1].child_path() if self._stack else ()
        problem = Problem(what=what, rule=rule, advice=advice, path=path, location=location)
        return InvalidInput([*self.problems, problem])

    def _too_deep(self, location: SourceLocation) -> InvalidInput:
        path = self._stack[0].child_path()
        return InvalidInput(
            f"the values are nested deeper than {MAX_DEPTH} levels", path=path, location=location
        )

    def _bad_tag(self, event: yaml.NodeEvent) -> None:
        tag = str(getattr(event, "tag", "")).replace(_STANDARD, "!!")
        rule = "only the standard tags (!!str, !!int, !!float, !!bool, !!null, !!map, !!seq) are read"
        self._add_problem(self._place(event), f"the tag {shorten(tag)} is not allowed", rule, "remove it")


_UNREADABLE_ASCII = re.compile("[^\t\n\r\x20-\x7e]")
# Patterns with ranges beyond ASCII are texts, which ``re`` compiles when they are used: each takes 1.5 ms.
_UNREADABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"

# fmt: off
_EXPLANATIONS: tuple[tuple[str, str, str], ...] = (
    ("mapping values are not allowed", "a ':' where no key is allowed",
     "check the indentation, or put quotes around text that contains ': '"),
    ("could not find expected ':'", "a line without ':' among the keys",
     "write 'key: value', or check the indentation here and in the line before"),
    ("found unexpected end of stream", "quotes opened here are never closed", "add the closing quote"),
    ("expected ',' or ']'", "a list opened with '[' is not continued correctly",
     "separate its items by ',' and close it with ']'"),
    ("expected ',' or '}'", "a mapping opened with '{' is not continued correctly",
     "separate its entries by ',' and close it with '}'"),
    ("expected '-' indicator", "a line in a list that is not an item",
     "start it with '- ' or change its indentation"),
    ("block sequence entries are not allowed", "a list item '- ' is not allowed here",
     "put the list on lines of its own below the key, or write [a, b]"),
    ("expected key", "this is not a 'key: value' of the mapping around it",
     "check the indentation and the quotes"),
    ("expected <block end>", "this does not belong to the block around it",
     "check the indentation and the quotes"),
    ("expected <document start>", "there is text after the end of the value", "check the indentation"),
    ("expected node content", "a value is missing or starts with a bracket", "put quotes around the text"),
    ("unknown escape character", "a double-quoted text has an unknown escape",
     "double the backslash or use single quotes"),
    ("Unicode character escape code", "an escape is not a character", "write the character itself"),
    ("undefined tag handle", "a tag is not defined", "remove the tag (the word that starts with '!')"),
    ("expected alphabetic or numeric character", "'&' or '*' has no name after it",
     "put quotes around texts that start with '&' or '*'"),
)
# fmt: on
"""Entries (part of a message of PyYAML, what was found, what to do), for its parsers in C and Python."""

_TAB_RULE = "YAML does not allow tabs for indentation"


def _check_text(text: str, file: str | None) -> str:
    """Return the text without a byte order mark. Raises InvalidInput for control characters."""
    text = text.removeprefix("\ufeff")
    if bad := _UNREADABLE_ASCII.search(text) if text.isascii() else re.search(_UNREADABLE, text):
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise InvalidInput(
            f"the text contains the character U+{ord(bad[0]):04X}",
            rule="control characters are not allowed",
            advice="remove it, or write it as an escape in double quotes",
            location=SourceLocation(file=file, line=line, column=column),
        )
    return text


def _explain_error(error: yaml.YAMLError, text: str, file: str | None) -> Problem:
    """Return a syntax error as a problem with its location, in words that users know."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable as YAML")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if "unexpected end of stream" in problem:
        mark = getattr(error, "context_mark", None) or mark
    if mark is None:
        return Problem(what=shorten(problem), location=SourceLocation(file=file))
    location = SourceLocation(file=file, line=mark.line + 1, column=mark.column + 1)
    line = _line(text, mark.line)
    found = line[mark.column : mark.column + 1]
    if _is_tab(problem, line, found):
        return Problem(
            what="the indentation contains a tab", rule=_TAB_RULE, advice="use spaces", location=location
        )
    if "cannot start any token" in problem:
        advice = f"put quotes around the text that starts with {found!r}"
        return Problem(what=f"a value cannot start with {found!r}", advice=advice, location=location)
    if "expected node content" in problem and not text[mark.index :].strip():
        what, advice = "the file ends too early", "complete the last value and close all brackets"
        return Problem(what=what, advice=advice, location=location)
    for part, what, advice in _EXPLANATIONS:
        if part in problem:
            return Problem(what=what + _opening_line(error, mark), advice=advice, location=location)
    return Problem(what=shorten(problem), location=location)


def _line(text: str, number: int) -> str:
    """Return the line with this number, from 0; "" if PyYAML counted more lines than the text has."""
    lines = text.split("\n", number + 1)
    return lines[number] if number < len(lines) else ""


def _is_tab(problem: str, line: str, found: str) -> bool:
    if "tab character" in problem or found == "\t":
        return True
    indentation = line[: len(line) - len(line.lstrip())]
    return "\t" in indentation and ("mapping values" in problem or "expected ':'" in problem)


def _opening_line(error: yaml.YAMLError, mark: yaml.error.Mark) -> str:
    """Return a note with the line in which the list or mapping was opened; "" if ``mark`` is in that line."""
    context = getattr(error, "context_mark", None)
    if context is None or context.line == mark.line or "flow" not in str(getattr(error, "context", "")):
        return ""
    return f" (opened in line {context.line + 1})"


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SURROGATE_PAIR = re.compile(
    r"((?<!\\)(?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)


def parse_document(text: str, file: str | None) -> Document:
    """Return the tree of a YAML or JSON document. Raises InvalidInput with the location of every problem."""
    text = _join_surrogates(_check_text(text, file))
    builder = _DocumentBuilder(file)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise InvalidInput([*builder.problems, _explain_error(error, text, file)]) from None
    return Document(file=file, root=builder.finish())


def _join_surrogates(text: str) -> str:
    """Replace surrogate pairs, which JSON allows in escapes and YAML does not, by their characters."""
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return _SURROGATE_PAIR.sub(lambda pair: pair[1] + _join_pair(int(pair[2], 16), int(pair[3], 16)), text)


def _join_pair(high: int, low: int) -> str:
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


_WIDTH = 100
_CONTAINERS = (dict, list, tuple, Mapping)
"""Types of lists and mappings; the abstract class is last, since its check is slow."""
_BAD_START = re.compile(r"-(?:\s|$)|[?:,\[\]{}#&*!|>'\"%@`]|---|\.\.\.")
_BAD_INSIDE = re.compile(r":(?:\s|$)|\s#")
_FLOW_SIGNS = re.compile(r"[,\[\]{}?]")
_SPECIAL = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
"""Control characters, all kinds of line breaks, byte order marks, unpaired surrogates."""


def write_document(value: object, *, comment: str = "") -> str:
    """Return mappings, lists and scalars as YAML that ``parse_document`` reads back as the same values.

    Upper levels are in block style, small leaves in flow style (``inputs: [a, b]``), quotes only where they
    are needed. A container is in flow style if it fits the line and its levels of nesting are not more than
    the levels above it.
    """
    lines = [f"# {re.sub(_SPECIAL, ' ', line)}".rstrip() for line in comment.splitlines()]
    if isinstance(value, _CONTAINERS) and value:
        _write_block(lines, value, 0, 0)
    else:
        _write_entry(lines, "", value, 2, 0)
    return "\n".join(lines) + "\n"


def _write_block(
    lines: list[str], value: Mapping[object, object] | Sequence[object], indent: int, level: int
) -> None:
    """Append the lines of a non-empty list or mapping in block style."""
    if level >= MAX_DEPTH:
        raise InvalidInput(f"the values are nested deeper than {MAX_DEPTH} levels")
    margin = " " * indent
    if isinstance(value, Mapping):
        for key, item in value.items():
            _write_entry(lines, f"{margin}{_format_key(key, in_flow=False)}:", item, indent + 2, level + 1)
    else:
        for item in value:
            _write_entry(lines, f"{margin}-", item, indent + 2, level + 1)


def _write_entry(lines: list[str], head: str, item: object, indent: int, level: int) -> None:
    """Append a value after ``head`` (``key:`` or ``-``): in the same line if it fits, else below."""
    if isinstance(item, str) and _is_literal(item):
        lines.append(_append_value(head, "|" if item.endswith("\n") else "|-"))
        lines.extend(" " * indent + line if line else "" for line in item.removesuffix("\n").split("\n"))
    elif not isinstance(item, _CONTAINERS):
        lines.append(_append_value(head, _format_scalar(item, in_flow=False)))
    elif (flow := _format_flow(item, _WIDTH - len(head), level)) is not None:
        lines.append(_append_value(head, flow))
    elif head.endswith("-"):
        first = len(lines)
        _write_block(lines, item, indent, level)
        lines[first] = f"{head} {lines[first][indent:]}"
    else:
        lines.append(head)
        _write_block(lines, item, indent, level)


def _append_value(head: str, value: str) -> str:
    return f"{head} {value}" if head else value


def _format_flow(value: object, width: int, height: int) -> str | None:
    """Return a value in one line; None if it is longer than ``width`` or nested deeper than ``height``."""
    if not isinstance(value, _CONTAINERS):
        if isinstance(value, str) and (len(value) > width or _is_literal(value)):
            return None
        text = _format_scalar(value, in_flow=True)
        return text if len(text) <= width else None
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    if not value:
        return opening + closing
    if height == 0:
        return None
    parts: list[str] = []
    for entry in value.items() if isinstance(value, Mapping) else value:
        key, item = entry if isinstance(value, Mapping) else ("", entry)
        head = f"{_format_key(key, in_flow=True)}: " if isinstance(value, Mapping) else ""
        if (part := _format_flow(item, width - len(head) - 2, height - 1)) is None:
            return None
        parts.append(head + part)
        width -= len(parts[-1]) + 2
    return opening + ", ".join(parts) + closing


def _format_key(key: object, *, in_flow: bool) -> str:
    text = key if isinstance(key, str) else _format_scalar(key, in_flow=in_flow)
    if len(text) > MAX_KEY_LENGTH:
        what = f"the key {shorten(repr(text))} is too long"
        raise InvalidInput(what, rule=f"a key has at most {MAX_KEY_LENGTH:,} characters")
    return text if text != "<<" and _is_plain(text, in_flow=in_flow) else _quote(text)


def _format_scalar(value: object, *, in_flow: bool) -> str:
    if hasattr(value, "item"):
        value = value.item()  # NumPy scalars
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return ".nan" if math.isnan(value) else repr(float(value)).replace("inf", ".inf")
        case str():
            plain = _is_plain(value, in_flow=in_flow) and isinstance(_resolve_scalar(value), str)
            return value if plain else _quote(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written: {shorten(value)}")


def _is_plain(text: str, *, in_flow: bool) -> bool:
    """Return whether YAML accepts the text without quotes; it may still be read as another value."""
    return (
        text != ""
        and text == text.strip()
        and not _BAD_START.match(text)
        and not _BAD_INSIDE.search(text)
        and not re.search(_SPECIAL, text)
        and not (in_flow and _FLOW_SIGNS.search(text))
    )


def _is_literal(text: str) -> bool:
    """Return whether a text of several lines can be written unchanged below a ``|``."""
    if "\n" not in text:
        return False
    lines = text.removesuffix("\n").split("\n")
    return (
        lines[0] != ""
        and lines[-1] != ""
        and not lines[0].startswith(" ")
        and not any(line.isspace() or re.search(_SPECIAL, line) for line in lines)
    )


def _quote(text: str) -> str:
    if re.search(_SPECIAL, text) is None and ("\\" in text or '"' in text):
        return "'" + text.replace("'", "''") + "'"
    return re.sub(_SPECIAL, _escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    if "\ud800" <= found[0] <= "\udfff":
        what = f"an unpaired surrogate (U+{ord(found[0]):04X}) in a text"
        raise InvalidInput(what, rule="texts are Unicode")
    return f"\\u{ord(found[0]):04x}"
