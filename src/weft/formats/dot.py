"""The dialect of DOT in which small task graphs with communication delays are published."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from weft.documents import Document
from weft.errors import InvalidInput, nearest, shorten
from weft.formats.format import ProblemCollector, SourceFile, file_error
from weft.formats.graph import check_acyclic, escape_braces, export_graph
from weft.workflow.task import Dependency, Input, Output, Task
from weft.workflow.workflow import Workflow

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
    ":": "ports (name:port) are not supported",
    "<": "HTML texts are not supported",
    "{": "subgraphs are not supported",
    "line": "undirected edges (--) are not supported: tasks need a direction (->)",
    "subgraph": "subgraphs are not supported",
}


@dataclass(frozen=True, slots=True)
class _DotToken:
    kind: str
    """``id``, ``keyword``, ``arrow``, ``line``, ``end``, or the mark itself."""
    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotNode:
    """A node with its attributes, including the defaults that apply to it."""

    name: str
    line: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotEdge:
    source: str
    target: str
    line: int
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DotGraph:
    """A directed graph; nodes in the order of their first occurrence."""

    name: str | None
    strict: bool
    """Whether an edge may be repeated; the last one is then used. Otherwise a repeated edge is an error."""
    nodes: Mapping[str, _DotNode]
    edges: tuple[_DotEdge, ...]


def parse_dot(source: SourceFile) -> _DotGraph:
    """Return the graph of a file. Raises InvalidInput with line and column."""
    return _DotParser(source).parse()


def _quote_id(name: str) -> str:
    """Return an id, in quotes where DOT requires them."""
    blank = any(char.isspace() or char == "\ufeff" for char in name)
    if _PLAIN.fullmatch(name) and not blank and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '\\"') + '"'


class _DotParser:
    """Parses one statement after the other with one token of lookahead."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.text = source.text()
        self.position = 0
        self.line, self.line_start, self.counted = 1, 0, 0
        self.nodes: dict[str, _DotNode] = {}
        self.edges: list[_DotEdge] = []
        self.defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}, "graph": {}}
        self.token = self._scan()

    def parse(self) -> _DotGraph:
        """Return the graph of the whole file."""
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
        return _DotGraph(name=name, strict=strict, nodes=self.nodes, edges=tuple(self.edges))

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
            self._id()  # skip a graph attribute, which has no meaning for tasks
            return
        while self._accept("arrow"):
            names.append(self._id())
        nodes = [self._node(name, line) for name in names]
        attributes = self._attributes()
        if len(nodes) == 1:
            nodes[0].attributes.update(attributes)
        for source, target in itertools.pairwise(names):
            own = {**self.defaults["edge"], **attributes}
            self.edges.append(_DotEdge(source=source, target=target, line=line, attributes=own))

    def _node(self, name: str, line: int) -> _DotNode:
        if (node := self.nodes.get(name)) is None:
            node = _DotNode(name=name, line=line, attributes=dict(self.defaults["node"]))
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
        """Skip the next token if it has this kind and text; return whether it was skipped."""
        if self.token.kind != kind or (text is not None and self.token.text != text):
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        self.token = self._scan()

    def _scan(self) -> _DotToken:
        while self.position < len(self.text):
            start = self.position
            if (match := _TOKEN.match(self.text, start)) is None:
                self._fail_at(start, self._unreadable(start))
            self.position = match.end()
            kind, text = match.lastgroup or "", match[0]
            if kind in ("blank", "comment"):
                continue
            if kind == "text":
                # A backslash before a line break continues the line, \" is a quote, other escapes stay.
                return _DotToken("id", text[1:-1].replace("\\\n", "").replace('\\"', '"'), start)
            if kind == "word" and text.lower() in _KEYWORDS:
                return _DotToken("keyword", text.lower(), start)
            if kind in ("word", "number"):
                return _DotToken("id", text, start)
            return _DotToken(kind if kind in ("arrow", "line") else text, text, start)
        return _DotToken("end", "the end of the file", len(self.text))

    def _unreadable(self, start: int) -> str:
        if self.text[start] == '"':
            return "a text has no closing quote"
        if self.text.startswith("/*", start):
            return "a comment has no end */"
        return "this character has no meaning here"

    def _place(self, position: int) -> tuple[int, int]:
        """Return the line and column of a position, which must not decrease between calls.

        This way the lines of the text are counted only once.
        """
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
        raise file_error(self.source, f"{shorten(found)!r}", line=line, column=column, rule=rule)


_GRAPH = re.compile(
    r"(?>\s+|//[^\n]*\n|/\*.*?\*/|^\#[^\n]*\n)*+(?:strict\s+)?digraph\b",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,4})?")


class Dot:
    """Task graphs with weights, as DOT.

    ``a [Weight=3];`` is a task of 3 seconds on a machine of speed 1; ``a -> b [Weight=2];`` is a transfer
    that takes 2 seconds between any two different machines. An edge with a weight becomes a file ``a->b``
    that the source writes and the target reads; an edge without a weight becomes a plain dependency. When a
    workflow is written, transfers and plain dependencies both become edges.

    The parser accepts ``digraph NAME {...}`` with nodes, edge chains, attribute lists and defaults. Ports,
    subgraphs, undirected edges and HTML labels have no meaning for tasks and are errors.
    """

    name = "dot"
    title = "Graphviz DOT with Weight attributes (task graphs of the literature)"
    extensions: tuple[str, ...] = (".dot",)
    reads = True
    writes = True

    def recognises(self, source: SourceFile) -> bool:
        """Return whether the file starts with ``digraph``."""
        return _GRAPH.match(source.head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a task graph. Raises InvalidInput."""
        parsed = parse_dot(source)
        problems = ProblemCollector(source)
        tasks = _tasks(source, parsed, problems)
        problems.finish()
        name = parsed.name or source.stem
        return Workflow(name=name, tasks=tasks, document=Document(file=source.name))

    def write(self, workflow: Workflow) -> str:
        """Return the unfolded workflow as DOT. Raises InvalidInput for what the dialect cannot express."""
        plain = export_graph(workflow, "this dialect of DOT")
        names = [_quote_id(_check_name(name)) for name in plain.graph.names]
        lines = [f"digraph {_quote_id(_check_name(workflow.name))} {{"]
        for index, seconds in enumerate(plain.seconds):
            if math.isnan(seconds):
                what = f"task {plain.graph.names[index]} has no known time"
                raise InvalidInput(what, rule="every node must have a Weight", advice="state its work")
            lines.append(f"    {names[index]} [Weight={_format_weight(seconds)}];")
        for index, edges in enumerate(plain.edges):
            for edge in edges:
                if edge.size > 0:
                    _refuse_bytes(plain.graph.names[edge.source], plain.graph.names[index], edge.size)
                weight = f" [Weight={_format_weight(edge.seconds)}]"
                lines.append(f"    {names[edge.source]} -> {names[index]}{weight};")
        return "\n".join([*lines, "}", ""])


def _tasks(source: SourceFile, graph: _DotGraph, problems: ProblemCollector) -> tuple[Task, ...]:
    index_of = {name: index for index, name in enumerate(graph.nodes)}
    weights = _edge_weights(graph, problems)
    work = [_read_weight(node.attributes, f"node {shorten(name)!r}", node.line, problems, required=True)
            for name, node in graph.nodes.items()]  # fmt: skip
    if not graph.nodes:
        problems.add("no nodes", rule="a task graph must have at least one task")
    if "" in graph.nodes:
        problems.add("a node with an empty name", line=graph.nodes[""].line)
    problems.finish()
    parents: list[list[int]] = [[] for _ in index_of]
    for start, end in weights:
        parents[index_of[end]].append(index_of[start])
    check_acyclic(source, list(index_of), parents)
    after: dict[str, list[Dependency]] = {name: [] for name in index_of}
    inputs: dict[str, list[Input]] = {name: [] for name in index_of}
    outputs: dict[str, list[Output]] = {name: [] for name in index_of}
    taken: set[str] = set()
    for (start, end), seconds in weights.items():
        if seconds == 0:
            after[end].append(Dependency(task=start))
            continue
        file = f"{start}->{end}"
        while file in taken:  # a node may be named x->y
            file += "'"
        taken.add(file)
        outputs[start].append(Output(file=escape_braces(file), seconds=seconds))
        inputs[end].append(Input(file=escape_braces(file)))
    return tuple(
        Task(
            name=name, after=tuple(after[name]), inputs=tuple(inputs[name]),
            outputs=tuple(outputs[name]), work=seconds,
        )
        for name, seconds in zip(index_of, work, strict=True)
    )  # fmt: skip


def _edge_weights(graph: _DotGraph, problems: ProblemCollector) -> dict[tuple[str, str], float]:
    weights: dict[tuple[str, str], float] = {}
    lines: dict[tuple[str, str], int] = {}
    for edge in graph.edges:
        ends = (edge.source, edge.target)
        label = f"edge {shorten(edge.source, 30)} -> {shorten(edge.target, 30)}"
        if ends in lines and not graph.strict:
            rule = "two tasks can have one edge (write strict digraph if the last one counts)"
            problems.add(f"a second {label}, the first is in line {lines[ends]}", rule=rule, line=edge.line)
        lines[ends] = edge.line
        weights[ends] = _read_weight(edge.attributes, label, edge.line, problems) or 0.0
    return weights


def _read_weight(
    attributes: Mapping[str, str],
    label: str,
    line: int,
    problems: ProblemCollector,
    *,
    required: bool = False,
) -> float | None:
    if (text := attributes.get("Weight")) is None:
        if required:
            close = nearest("Weight", attributes)
            advice = f"did you mean Weight instead of {close!r}?" if close else "write [Weight=SECONDS]"
            problems.add(
                f"{label} has no Weight", rule="every task must have a time", advice=advice, line=line
            )
        return None
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if 0 <= number < math.inf:
        return number
    problems.add(f"{label} has Weight={shorten(text)!r}", rule="must be a number, at least 0", line=line)
    return None


def _format_weight(seconds: float) -> str:
    text = str(int(seconds)) if seconds == int(seconds) and abs(seconds) < 1e15 else repr(seconds)
    return f'"{text}"' if "e" in text else text


def _check_name(name: str) -> str:
    """Return the name. Raises InvalidInput for a backslash at its end or before a quote or line break."""
    if name.endswith("\\") or '\\"' in name or "\\\n" in name:
        raise InvalidInput(
            f"name {shorten(name)!r}",
            rule="DOT cannot express a backslash before a quote, a line break or the end of a name",
            advice="rename the task",
        )
    return name


def _refuse_bytes(source: str, target: str, size: float) -> None:
    raise InvalidInput(
        f"edge {shorten(source, 40)} -> {shorten(target, 40)} carries {size:g} bytes",
        rule="in this dialect of DOT, edges have seconds, not bytes",
        advice="use the format wfformat, or dot-picture for a picture",
    )
