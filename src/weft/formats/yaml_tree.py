"""A tree of nodes built from PyYAML's events with a stack of our own.

No recursion, nothing but plain values, and limits on depth and size that hold for aliases too: their expanded
size is computed, never built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import yaml

from weft.documents import Node, Scalar
from weft.errors import InvalidInput, Path, Place, Problem, shorten
from weft.formats.yaml_scalars import resolve

__all__ = ["DEEPEST", "LONGEST_KEY", "MOST_NODES", "MOST_NODES_PER_LINE", "TreeBuilder"]

DEEPEST = 100
"""Levels of nesting; readers of a document may therefore recurse."""
LONGEST_KEY = 1000
"""Characters in a key (YAML itself gives up at 1024 for most)."""
MOST_NODES = 2_000_000
"""Values in a document, every alias counted as if it were written out."""
MOST_NODES_PER_LINE = 200_000
"""Values in one line: nobody writes more by hand, and reading on would only take longer."""

_STANDARD = "tag:yaml.org,2002:"
_TEXT_TAGS = (None, "!", _STANDARD + "str")
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _STANDARD + "null": (type(None),),
    _STANDARD + "bool": (bool,),
    _STANDARD + "int": (int,),
    _STANDARD + "float": (int, float),
}
_NO_KEYS: Mapping[str, Place] = {}


class _Frame:
    """A list or mapping that is being read."""

    def __init__(self, *, is_list: bool, place: Place, path: Path, anchor: str | None) -> None:
        self.items: list[Node] | None = [] if is_list else None
        self.entries: dict[str, Node] = {}
        self.key_places: dict[str, Place] = {}
        self.merged: list[Node] = []
        self.merging = False
        self.key: str | None = None
        self.place = place
        self.path = path
        self.anchor = anchor
        self.size = 1
        self.height = 1

    @property
    def wants_key(self) -> bool:
        return self.items is None and self.key is None

    def child_path(self) -> Path:
        """Give the path of the value that comes next."""
        if self.items is not None:
            return (*self.path, len(self.items))
        return self.path if self.merging or self.key is None else (*self.path, self.key)

    def add(self, node: Node, size: int, height: int) -> None:
        self.size += size
        self.height = max(self.height, height + 1)
        if self.items is not None:
            self.items.append(node)
        elif self.merging:
            self.merged.append(node)
        elif self.key is not None:
            self.entries[self.key] = node
        self.key, self.merging = None, False


class TreeBuilder:
    """Takes events one by one and builds the tree."""

    def __init__(self, file: str | None) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._root: Node | None = None
        self._total = 0
        self._line: int | None = None
        self._before_line = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
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
                advice = "split it, and remove the line '---' between"
                place = self._place(event)
                raise self._error(place, "a second document in one file", "one document per file", advice)

    def finish(self) -> Node:
        """Give the root of the tree, or raise everything that was found on the way."""
        if self.problems:
            raise InvalidInput(self.problems)
        if self._root is None:
            raise InvalidInput(Problem(what="the file is empty", place=Place(file=self._file)))
        return self._root

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.wants_key:
            self._key(frame, event)
            return
        if frame is None and event.value == "" and event.implicit[0]:
            return  # what PyYAML makes of a file with nothing but comments and '---'
        value = resolve(event.value) if event.implicit[0] else self._tagged(event)
        path = frame.child_path() if frame is not None else ()
        place = self._place(event)
        self._count(place, 1)
        node = Node(value=value, place=place, path=path, key_places=_NO_KEYS)
        self._put(node, 1, 0, event.anchor)

    def _key(self, frame: _Frame, event: yaml.ScalarEvent) -> None:
        key, place = event.value, self._place(event)
        frame.merging = key == "<<" and bool(event.implicit[0])
        if frame.merging:
            frame.key = key
            return
        if event.tag not in _TEXT_TAGS:
            self._bad_tag(event)
        if len(key) > LONGEST_KEY:
            raise self._error(place, f"a key of {len(key):,} characters", f"at most {LONGEST_KEY:,}")
        if (first := frame.key_places.get(key)) is not None:
            what = f"key {shorten(repr(key))} stands twice in one mapping"
            rule = f"first in line {first.line}, column {first.column}"
            self._complain(place, what, rule, "remove or rename one of them", (*frame.path, key))
        frame.key, frame.key_places[key] = key, place

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
        """Read a quoted scalar, or one with an explicit tag."""
        text: str = event.value
        if event.tag in _TEXT_TAGS:
            return text
        wanted = _SCALAR_TAGS.get(event.tag)
        if wanted is None:
            self._bad_tag(event)
            return text
        value = resolve(text)
        if type(value) not in wanted:
            name = event.tag.removeprefix(_STANDARD)
            what = f"{shorten(repr(text))} is no {name}, as its tag !!{name} says"
            self._complain(self._place(event), what)
        return float(value) if float in wanted and isinstance(value, int) else value

    def _alias(self, event: yaml.AliasEvent) -> None:
        name, place = event.anchor, self._place(event)
        if self._stack and self._stack[-1].wants_key:
            raise self._error(place, f"an alias (*{shorten(name)}) as a key", "keys are plain texts")
        if name not in self._anchors:
            inside = any(frame.anchor == name for frame in self._stack)
            why = "stands inside what it names" if inside else f"has no anchor &{shorten(name)} before it"
            raise self._error(place, f"the alias *{shorten(name)} {why}", "an alias repeats an earlier value")
        node, size, height = self._anchors[name]
        self._count(place, size)
        if len(self._stack) + height > DEEPEST:
            raise self._too_deep(place)
        self._put(node, size, height, None)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        is_list, place = isinstance(event, yaml.SequenceStartEvent), self._place(event)
        path: Path = ()
        if self._stack:
            parent = self._stack[-1]
            if parent.wants_key:
                advice = "put quotes around a key that starts with '{' or '['"
                kind = "a list" if is_list else "a mapping"
                raise self._error(place, f"{kind} as a key", "keys are plain texts", advice)
            path = parent.child_path()
        if len(self._stack) >= DEEPEST:
            raise self._too_deep(place)
        if event.tag not in (None, "!", _STANDARD + ("seq" if is_list else "map")):
            self._bad_tag(event)
        self._count(place, 1)
        self._stack.append(_Frame(is_list=is_list, place=place, path=path, anchor=event.anchor))

    def _close(self) -> None:
        frame = self._stack.pop()
        value: list[Node] | dict[str, Node]
        value = frame.items if frame.items is not None else frame.entries
        if frame.merged:
            value = self._merge(frame)
        node = Node(value=value, place=frame.place, path=frame.path, key_places=frame.key_places)
        self._put(node, frame.size, frame.height, frame.anchor)

    def _merge(self, frame: _Frame) -> dict[str, Node]:
        """Add the entries of ``<<: ...``: earlier mappings win over later ones, written keys over all."""
        merged: dict[str, Node] = {}
        for node in frame.merged:
            for source in node.value if isinstance(node.value, list) else [node]:
                if not isinstance(source.value, dict):
                    what = f"{source.shown()} cannot be merged by '<<'"
                    rule = "only a mapping or a list of mappings can"
                    self.problems.append(Problem(what=what, rule=rule, path=frame.path, place=source.place))
                    continue
                for key, entry in source.value.items():
                    merged.setdefault(key, entry)
                    frame.key_places.setdefault(key, source.key_places.get(key, source.place))
        return merged | frame.entries

    def _put(self, node: Node, size: int, height: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, size, height)
        if self._stack:
            self._stack[-1].add(node, size, height)
        else:
            self._root = node

    def _count(self, place: Place, size: int) -> None:
        self._total += size
        if self._total > MOST_NODES:
            rule = f"at most {MOST_NODES:,} with aliases written out"
            raise self._error(place, "too many values in one file", rule, "split the file, or use sweeps")
        if place.line != self._line:
            self._line, self._before_line = place.line, self._total
        elif size == 1 and self._total - self._before_line > MOST_NODES_PER_LINE:
            rule = f"at most {MOST_NODES_PER_LINE:,}"
            raise self._error(place, "too many values in one line", rule, "break the line")

    def _place(self, event: yaml.Event) -> Place:
        mark = cast("yaml.error.Mark", event.start_mark)  # events of a parser always have one
        return Place(file=self._file, line=mark.line + 1, column=mark.column + 1)

    def _complain(self, place: Place, what: str, rule: str = "", advice: str = "", path: Path = ()) -> None:
        problem = Problem(what=what, rule=rule, advice=advice, path=path, place=place)
        self.problems.append(problem)
        if len(self.problems) >= 20:
            raise InvalidInput(self.problems)

    def _error(self, place: Place, what: str, rule: str = "", advice: str = "") -> InvalidInput:
        path = self._stack[-1].child_path() if self._stack else ()
        problem = Problem(what=what, rule=rule, advice=advice, path=path, place=place)
        return InvalidInput([*self.problems, problem])

    def _too_deep(self, place: Place) -> InvalidInput:
        path = self._stack[0].child_path()
        return InvalidInput(Problem(what=f"nested deeper than {DEEPEST} levels", path=path, place=place))

    def _bad_tag(self, event: yaml.NodeEvent) -> None:
        tag = str(getattr(event, "tag", "")).replace(_STANDARD, "!!")
        rule = "only the standard tags (!!str, !!int, !!float, !!bool, !!null, !!map, !!seq) are read"
        self._complain(self._place(event), f"the tag {shorten(tag)} is not allowed", rule, "remove it")
