"""The part of the DOT language that task graphs need: tokens, statements, attributes, and how ids are
written.

``digraph NAME {...}`` with nodes, edge chains, attribute lists and defaults. Ports, subgraphs, undirected
edges and HTML labels say nothing about tasks and are refused by name. No recursion: there is nothing to
nest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from weft.errors import shorten
from weft.formats.format import Source, damaged

__all__ = ["DotEdge", "DotGraph", "DotNode", "parse_dot", "quoted"]

_TOKEN = re.compile(
    r"""(?P<blank>[\s\ufeff]+)
    |(?P<comment>//[^\n]*|/\*.*?\*/|(?:(?<=\n)|\A)\#[^\n]*)
    |(?P<arrow>->)|(?P<line>--)
    |(?P<number>-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?))
    |(?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<mark>[{}\[\]=;,:+<])""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(
    r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)"
)
_KEYWORDS = frozenset({"digraph", "edge", "graph", "node", "strict", "subgraph"})
_REFUSED = {
    ":": "ports (name:port) are not read",
    "<": "HTML texts are not read",
    "{": "subgraphs are not read",
    "line": "undirected edges (--) are not read: tasks need a direction (->)",
    "subgraph": "subgraphs are not read",
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """``id``, ``keyword``, ``arrow``, ``line``, ``end``, or the mark itself."""
    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DotNode:
    """A node and the attributes it has in the end."""

    name: str
    line: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DotEdge:
    """An edge and its attributes."""

    source: str
    target: str
    line: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DotGraph:
    """A directed graph; nodes in the order of their first mention."""

    name: str | None
    strict: bool
    """Of equal edges the last one counts."""
    nodes: Mapping[str, DotNode]
    edges: tuple[DotEdge, ...]


def parse_dot(source: Source) -> DotGraph:
    """Parse a file. Raises InvalidInput with line and column."""
    return _Parser(source).parse()


def quoted(name: str) -> str:
    """Write an id, in quotes where it needs them."""
    if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '\\"') + '"'


class _Parser:
    """Reads statement after statement; one token ahead is enough."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text()
        self.position = 0
        self.line, self.line_start, self.counted = 1, 0, 0
        self.nodes: dict[str, DotNode] = {}
        self.edges: list[DotEdge] = []
        self.defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}, "graph": {}}
        self.token = self._scan()

    def parse(self) -> DotGraph:
        """Read the whole file."""
        strict = self._accept("keyword", "strict")
        if not self._accept("keyword", "digraph"):
            self._fail("a task graph is written digraph NAME { ... }")
        name = self._id() if self.token.kind == "id" else None
        if not self._accept("{"):
            self._fail("{ is expected")
        while not self._accept("}"):
            self._statement()
            self._accept(";")
        if self.token.kind != "end":
            self._fail("a file holds one graph")
        return DotGraph(name=name, strict=strict, nodes=self.nodes, edges=tuple(self.edges))

    def _statement(self) -> None:
        if self.token.kind == "keyword" and self.token.text in self.defaults:
            kind = self.token.text
            self._advance()
            if self.token.kind != "[":
                self._fail("[ is expected")
            self.defaults[kind] |= self._attributes()
            return
        line = self._place(self.token.start)[0]
        names = [self._id()]
        if self._accept("="):
            self._id()  # an attribute of the graph says nothing about tasks
            return
        while self._accept("arrow"):
            names.append(self._id())
        nodes = [self._node(name, line) for name in names]
        attributes = self._attributes()
        if len(nodes) == 1:
            nodes[0].attributes.update(attributes)
        for source, target in itertools.pairwise(names):
            own = {**self.defaults["edge"], **attributes}
            self.edges.append(DotEdge(source=source, target=target, line=line, attributes=own))

    def _node(self, name: str, line: int) -> DotNode:
        node = self.nodes.get(name)
        if node is None:
            node = DotNode(name=name, line=line, attributes=dict(self.defaults["node"]))
            self.nodes[name] = node
        return node

    def _attributes(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        while self._accept("["):
            while not self._accept("]"):
                key = self._id()
                found[key] = self._id() if self._accept("=") else "true"
                if not self._accept(","):
                    self._accept(";")
        return found

    def _id(self) -> str:
        if self.token.kind != "id":
            self._fail("a name is expected")
        text = self.token.text
        self._advance()
        while self.token.kind == "+":
            self._advance()
            if self.token.kind != "id":
                self._fail("a text is expected after +")
            text += self.token.text
            self._advance()
        return text

    def _accept(self, kind: str, text: str | None = None) -> bool:
        """Step over a token if it is the one that is asked for."""
        if self.token.kind != kind or (text is not None and self.token.text != text):
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        self.token = self._scan()

    def _scan(self) -> _Token:
        """Give the next token."""
        while self.position < len(self.text):
            start = self.position
            match = _TOKEN.match(self.text, start)
            if match is None:
                self._fail_at(start, self._unreadable(start))
            self.position = match.end()
            kind, text = match.lastgroup or "", match[0]
            if kind in ("blank", "comment"):
                continue
            if kind == "text":
                # A backslash before a line break continues the line; \" is a quote; others stay.
                return _Token("id", text[1:-1].replace("\\\n", "").replace('\\"', '"'), start)
            if kind == "word" and text.lower() in _KEYWORDS:
                return _Token("keyword", text.lower(), start)
            if kind in ("word", "number"):
                return _Token("id", text, start)
            return _Token(kind if kind in ("arrow", "line") else text, text, start)
        return _Token("end", "the end of the file", len(self.text))

    def _unreadable(self, start: int) -> str:
        if self.text[start] == '"':
            return "a text has no closing quote"
        if self.text.startswith("/*", start):
            return "a comment has no end */"
        return "this character has no meaning here"

    def _place(self, position: int) -> tuple[int, int]:
        """Give line and column; positions are asked for in ascending order, so the text is counted once."""
        if position > self.counted:
            self.line += self.text.count("\n", self.counted, position)
            self.line_start = self.text.rfind("\n", 0, position) + 1
            self.counted = position
        return self.line, position - self.line_start + 1

    def _fail(self, rule: str) -> NoReturn:
        token = self.token
        rule = _REFUSED.get(token.text if token.kind == "keyword" else token.kind, rule)
        self._fail_at(token.start, rule)

    def _fail_at(self, start: int, rule: str) -> NoReturn:
        line, column = self._place(start)
        found = self.text[start : start + 20].split("\n")[0] or "the end of the file"
        raise damaged(self.source, f"{shorten(found)!r}", line=line, column=column, rule=rule)
