"""The ``dag`` files of DIET: nodes with a service, values, ports and precedence.

``<in source="n1#out"/>`` reads a port of another node, an entry of a container (``n1#out[0]``), or a whole
put together from several (``(n1#out;n2#out)``); ``<out sink="n2#in"/>`` says the same from the other end. The
data of a port are a file named like it, ``n1#out``. An ``arg`` is a value that is known before; those that
name files are inputs, and all are kept as attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from weft.errors import nearest, shorten
from weft.formats.complaints import Complaints
from weft.formats.diet_ports import port_bytes
from weft.formats.trace import Trace
from weft.formats.xml_elements import Element
from weft.workflow.records.workflow import Workflow

__all__ = ["read_dag"]

_PARTS = ("arg", "in", "inOut", "out", "prec")
_REFERENCE = re.compile(r"([^\s();\[\]#]+)#([^\s();\[\]#]+)(?:\[[0-9]+\])*")
_OTHER = re.compile(r"\s+|[();]")
_FILE_VALUE = "file->"
_HINTS = 3
"""Complaints that get a "did you mean": the search looks at thousands of names."""


def read_dag(root: Element, complaints: Complaints) -> Workflow:
    """Make a workflow of a ``dag`` element. Raises InvalidInput."""
    dag = _Dag(complaints)
    for element in root.children:
        if element.name == "node":
            dag.add(element)
        else:
            dag.unknown(element, ("node",), "a dag holds elements node")
    if not root.children:
        complaints.add("no nodes", rule="a workflow has at least one node", line=root.line)
    dag.connect()
    complaints.finish()
    made = dag.trace.workflow(complaints.source, name=root.attributes.get("name"))
    tasks = zip(made.tasks, dag.services, strict=True)
    return replace(made, tasks=tuple([replace(task, service=service) for task, service in tasks]))


class _Dag:
    """Takes in nodes, then ties them together when all are known."""

    def __init__(self, complaints: Complaints) -> None:
        self.complaints = complaints
        self.trace = Trace()
        self.services: list[str | None] = []
        self._index_of: dict[str, int] = {}
        self._reads: list[list[str]] = []
        self._outputs: set[str] = set()
        self._waiting: list[tuple[int, Element]] = []
        """Elements that name other nodes, with the node they stand in."""

    def add(self, node: Element) -> None:
        """Take in one node."""
        trace, index = self.trace, len(self.trace.names)
        ident, path = self._required(node, "id"), self._required(node, "path")
        if self._index_of.setdefault(ident, index) != index:
            what = f"node {shorten(ident, 40)!r} again"
            self.complaints.add(what, rule="ids of nodes are unique", line=node.line)
        arguments: dict[str, object] = {}
        reads: list[str] = []
        writes: list[str] = []
        for part in node.children:
            if part.name not in _PARTS:
                self.unknown(part, _PARTS, f"a node holds elements {', '.join(_PARTS)}")
            elif part.name == "prec":
                self._waiting.append((index, part))
            else:
                self._port(part, f"{ident}#{self._required(part, 'name')}", arguments, reads, writes)
                self._waiting.append((index, part))
        kept = {key: value for key, value in node.attributes.items() if key not in ("id", "path")}
        trace.names.append(ident)
        trace.parents.append([])
        trace.reads.append(reads)
        self._reads.append(reads)
        trace.writes.append(writes)
        trace.work.append(None)
        trace.jobs.append(None)
        trace.attributes.append(kept | {"program": path} | ({"arguments": arguments} if arguments else {}))
        self.services.append(path or None)

    def unknown(self, element: Element, known: tuple[str, ...], rule: str) -> None:
        """Complain about an element that has no meaning where it stands."""
        close = nearest(element.name, known)
        advice = f"did you mean {close}?" if close else ""
        what = f"element {shorten(element.name, 40)}"
        self.complaints.add(what, rule=rule, advice=advice, line=element.line)

    def connect(self) -> None:
        """Tie nodes by the ports and ids that they name."""
        for index, part in self._waiting:
            if part.name == "prec":
                before = self._find(part, self._required(part, "id"))
                self.trace.parents[index] += [] if before is None else [before]
            elif part.name != "arg":
                self._connect_port(index, part)

    def _port(self, part: Element, file: str, arguments: dict[str, object], reads: list[str],
              writes: list[str]) -> None:  # fmt: skip
        """Note what a port says by itself: a value, or data that the node makes."""
        attributes = part.attributes
        if part.name == "arg":
            value = attributes.get("value", "")
            arguments[attributes.get("name", "")] = {
                key: text for key, text in attributes.items() if key != "name"
            }
            named = value.removeprefix(_FILE_VALUE)
            stored = named != value or attributes.get("type") == "DIET_FILE"
            if stored and named and not named.startswith("/") and "://" not in named:
                reads.append(named)
        elif part.name in ("out", "inOut"):
            writes.append(file)
            self._outputs.add(file)
            size = port_bytes(attributes)
            if size is not None:
                self.trace.sizes[file] = size

    def _connect_port(self, index: int, part: Element) -> None:
        reads, source = part.name in ("in", "inOut"), part.attributes.get("source")
        if reads and not source:
            what = f"{part.name} {shorten(part.attributes.get('name', ''), 40)!r} without source"
            advice = 'name the port it reads: source="NODE#PORT"; a value that is known is an arg'
            self.complaints.add(what, rule="a port reads another one", advice=advice, line=part.line)
        for node, port in self._references(part, source or "") if reads else ():
            found = self._find(part, node)
            if found is None:
                continue
            file = f"{node}#{port}"
            if file not in self._outputs:
                what, rule = f"no port {shorten(file, 60)}", "a source names an out or inOut of a node"
                self.complaints.add(what, rule=rule, line=part.line)
            self._edge(found, index, file)
        for node, _ in self._references(part, part.attributes.get("sink", "")):
            found = self._find(part, node)
            if found is not None and part.name != "in":
                self._edge(index, found, f"{self.trace.names[index]}#{part.attributes.get('name', '')}")

    def _edge(self, source: int, target: int, file: str) -> None:
        self.trace.parents[target].append(source)
        self._reads[target].append(file)

    def _references(self, part: Element, text: str) -> Iterator[tuple[str, str]]:
        """Give the (node, port) pairs that a source or sink names; a malformed one is complained about."""
        position, depth, wants_entry = 0, 0, True
        while position < len(text):
            match = _REFERENCE.match(text, position) or _OTHER.match(text, position)
            mark = "" if match is None else match[0]
            if match is not None and match.lastindex == 2 and wants_entry:
                yield match[1], match[2]
                wants_entry = False
            elif mark == "(" and wants_entry:
                depth += 1
            elif mark == ")" and depth > 0 and not wants_entry:
                depth -= 1
            elif mark == ";" and depth > 0 and not wants_entry:
                wants_entry = True
            elif not mark.isspace():
                break
            position += len(mark)
        if text and (position < len(text) or depth > 0 or wants_entry):
            rule = "a port is NODE#PORT, an entry NODE#PORT[0], a container (NODE#PORT;NODE#PORT)"
            self.complaints.add(f"{shorten(repr(text), 60)}", rule=rule, line=part.line)

    def _find(self, part: Element, ident: str) -> int | None:
        index = self._index_of.get(ident)
        if index is None and ident:
            close = nearest(ident, self._index_of) if len(self.complaints.problems) < _HINTS else None
            advice = f"did you mean {close!r}?" if close else "name the id of a node in this file"
            self.complaints.add(f"no node {shorten(ident, 40)!r}", advice=advice, line=part.line)
        return index

    def _required(self, element: Element, key: str) -> str:
        value = element.attributes.get(key, "").strip()
        if not value:
            what, rule = f"{element.name} without {key}", f"every {element.name} has the attribute {key}"
            self.complaints.add(what, rule=rule, line=element.line)
        return value
