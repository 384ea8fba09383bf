"""DIET's workflow files in XML, read only: docs/papers/many-workflows.md, section 4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from weft.errors import shorten, suggest
from weft.formats.diet_functional import read_functional
from weft.formats.diet_ports import PortParts, PortSetup, find_wrong_value, port_bytes, quote_template
from weft.formats.format import (
    ProblemCollector,
    ReadOnlyFormat,
    SourceFile,
    file_error,
    pause_garbage_collection,
)
from weft.formats.graph import RecordedWorkflow, escape_braces
from weft.formats.services import add_program, load_services_beside
from weft.formats.xml_document import XmlElement, read_xml_tree
from weft.urls import is_url
from weft.workflow.workflow import Workflow

_PARTS = ("arg", "in", "inOut", "out", "prec")
_REFERENCE = re.compile(r"([^\s();\[\]#]+)#([^\s();\[\]#]+)(?:\[[0-9]+\])*")
_OTHER = re.compile(r"\s+|[();]")
_SOURCE_PART = re.compile(r"[^\s();\[\]#]+#[^\s();\[\]#]+(?:\[[0-9]+\])*|[()]")
_FILE_VALUE = "file->"
_MOST_NESTED = 50


def _read_dag(root: XmlElement, problems: ProblemCollector) -> Workflow:
    """Return the workflow of a ``dag`` element. Raises InvalidInput."""
    dag = _DagReader(problems)
    for element in root.children:
        if element.name == "node":
            dag.add(element)
        else:
            dag.add_unknown(element, ("node",), "a dag consists of node elements")
    if not root.children:
        problems.add("no nodes", rule="a workflow must have at least one node", line=root.line)
    dag.connect()
    problems.finish()
    made = dag.trace.workflow(problems.source, name=root.attributes.get("name"))
    tasks = zip(made.tasks, dag.services, strict=True)
    return replace(made, tasks=tuple([replace(task, service=service) for task, service in tasks]))


class _DagReader:
    """Reads the nodes of a dag, then adds edges and the shell text that sets up the ports of each node."""

    def __init__(self, problems: ProblemCollector) -> None:
        self.problems = problems
        self.trace = RecordedWorkflow()
        self.services: list[str | None] = []
        self._index_of: dict[str, int] = {}
        self._reads: list[list[str]] = []
        self._outputs: dict[str, str] = {}
        """File of each writing port (``n1#out``); for a container a folder, whose name ends with ``/``."""
        self._nodes: list[XmlElement] = []

    def add(self, node: XmlElement) -> None:
        """Add one node with its outputs; ``connect`` later adds the edges of all nodes."""
        trace, index = self.trace, len(self.trace.names)
        ident, path = self._required(node, "id"), self._required(node, "path")
        if self._index_of.setdefault(ident, index) != index:
            what = f"a second node {shorten(ident, 40)!r}"
            self.problems.add(what, rule="ids of nodes must be unique", line=node.line)
        writes: list[str] = []
        for part in node.children:
            if part.name not in _PARTS:
                self.add_unknown(part, _PARTS, f"a node consists of the elements {', '.join(_PARTS)}")
            elif part.name != "prec":
                port = f"{ident}#{self._required(part, 'name')}"
                if part.name in ("out", "inOut"):
                    self._add_output(part, port, writes)
        kept = {key: value for key, value in node.attributes.items() if key not in ("id", "path")}
        arguments = {
            part.attributes.get("name", ""): {
                key: text for key, text in part.attributes.items() if key != "name"
            }
            for part in node.children
            if part.name == "arg"
        }
        trace.names.append(ident)
        trace.parents.append([])
        self._reads.append([])
        trace.reads.append(self._reads[index])
        trace.writes.append(writes)
        trace.work.append(None)
        trace.jobs.append(None)
        trace.attributes.append(kept | {"program": path} | ({"arguments": arguments} if arguments else {}))
        self.services.append(path or None)
        self._nodes.append(node)

    def add_unknown(self, element: XmlElement, known: tuple[str, ...], rule: str) -> None:
        """Add a problem for an unexpected element; ``known`` are the expected elements."""
        advice, what = suggest(element.name, known), f"element {shorten(element.name, 40)}"
        self.problems.add(what, rule=rule, advice=advice, line=element.line)

    def connect(self) -> None:
        """Add the edges between all nodes, and the setup of their ports."""
        for index, node in enumerate(self._nodes):
            setup = PortSetup()
            for part in node.children:
                if part.name == "prec":
                    before = self._find(part, self._required(part, "id"))
                    self.trace.parents[index] += [] if before is None else [before]
                elif part.name == "arg":
                    self._connect_constant(index, part, setup)
                elif part.name in _PARTS:
                    self._connect_port(index, part, setup)
            self.trace.attributes[index] = {**self.trace.attributes[index], "ports": setup.ports()}

    def _add_output(self, part: XmlElement, port: str, writes: list[str]) -> None:
        file = port if part.attributes.get("depth", "0") == "0" else f"{port}/"
        self._outputs[port] = file
        writes.append(file)
        if (size := port_bytes(part.attributes)) is not None:
            self.trace.sizes[file] = size

    def _connect_constant(self, index: int, part: XmlElement, setup: PortSetup) -> None:
        """Add a port that reads a constant; if the constant names a file, the file becomes an input."""
        value = part.attributes.get("value", "")
        named = value.removeprefix(_FILE_VALUE)
        if not named or (named == value and part.attributes.get("type") != "DIET_FILE"):
            self._check_value(part, value)
            setup.read_constant(part, value)
            return
        file = named
        if named.startswith("/") or is_url(named):
            file = f"{self.trace.names[index]}#{part.attributes.get('name', '')}.{PurePosixPath(named).name}"
            self.trace.sources[file] = named
        self._reads[index].append(file)
        setup.read_file(part, quote_template(escape_braces(file)))

    def _check_value(self, part: XmlElement, value: str) -> None:
        """Add a problem if the value of a constant does not match its type."""
        kind = part.attributes.get("type", "")
        if kind == "DIET_FILE":
            what, rule = "without a file name", 'its type is DIET_FILE: must be value="NAME"'
        elif (wrong := find_wrong_value(value, part.attributes)) is not None:
            what, rule = f"with the value {shorten(wrong[0], 40)!r}", f"its type is {wrong[1]}"
        else:
            return
        what = f"arg {shorten(part.attributes.get('name', ''), 40)!r} {what}"
        self.problems.add(what, rule=rule, line=part.line)

    def _connect_port(self, index: int, part: XmlElement, setup: PortSetup) -> None:
        reads, source = part.name in ("in", "inOut"), part.attributes.get("source")
        if reads and not source:
            what = f"{part.name} {shorten(part.attributes.get('name', ''), 40)!r} without source"
            advice = 'name the port it reads: source="NODE#PORT"; a constant is an arg'
            self.problems.add(what, rule="an in port reads another port", advice=advice, line=part.line)
        for node, port in self._references(part, source or "") if reads else ():
            if (found := self._find(part, node)) is None:
                continue
            file = f"{node}#{port}"
            if file not in self._outputs:
                what, rule = f"no port {shorten(file, 60)}", "a source must be an out or inOut of a node"
                self.problems.add(what, rule=rule, line=part.line)
            self._edge(found, index, self._outputs.get(file, file))
        if reads and source and not self.problems.found:
            self._add_reader(part, source, setup)
        own = f"{self.trace.names[index]}#{part.attributes.get('name', '')}"
        if part.name != "in":
            setup.write(part, quote_template(escape_braces(own)), reads=part.name == "inOut")
        for node, _ in self._references(part, part.attributes.get("sink", "")):
            if (found := self._find(part, node)) is not None and part.name != "in":
                self._edge(index, found, self._outputs[own])

    def _add_reader(self, part: XmlElement, source: str, setup: PortSetup) -> None:
        """Add the setup of a port that reads another port, an entry of a container, or several ports."""
        parts = _parse_parts(iter(_SOURCE_PART.findall(source)))
        if len(parts) == 1 and isinstance(parts[0], str):
            setup.read_file(part, parts[0])
        else:
            setup.read_parts(part, parts[0])

    def _edge(self, source: int, target: int, file: str) -> None:
        self.trace.parents[target].append(source)
        self._reads[target].append(file)

    def _references(self, part: XmlElement, text: str) -> Iterator[tuple[str, str]]:
        """Yield the (node, port) pairs in the text of a source or sink; add a problem if it is malformed."""
        position, depth, expects_entry = 0, 0, True
        while position < len(text):
            match = _REFERENCE.match(text, position) or _OTHER.match(text, position)
            mark = "" if match is None else match[0]
            if match is not None and match.lastindex == 2 and expects_entry:
                yield match[1], match[2]
                expects_entry = False
            elif mark == "(" and expects_entry and depth < _MOST_NESTED:
                depth += 1
            elif mark == ")" and depth > 0 and not expects_entry:
                depth -= 1
            elif mark == ";" and depth > 0 and not expects_entry:
                expects_entry = True
            elif not mark.isspace():
                break
            position += len(mark)
        if text and (position < len(text) or depth > 0 or expects_entry):
            rule = "a port is NODE#PORT, an entry NODE#PORT[0], a container (NODE#PORT;NODE#PORT)"
            self.problems.add(f"{shorten(repr(text), 60)}", rule=rule, line=part.line)

    def _find(self, part: XmlElement, ident: str) -> int | None:
        if (index := self._index_of.get(ident)) is None and ident:
            advice = self.problems.suggest(ident, self._index_of, "name the id of a node in this file")
            self.problems.add(f"no node {shorten(ident, 40)!r}", advice=advice, line=part.line)
        return index

    def _required(self, element: XmlElement, key: str) -> str:
        if not (value := element.attributes.get(key, "").strip()):
            rule = f"every {element.name} must have the attribute {key}"
            self.problems.add(f"{element.name} without {key}", rule=rule, line=element.line)
        return value


def _parse_parts(marks: Iterator[str]) -> list[PortParts]:
    """Return the entries of a valid source up to the next unmatched ``)`` or the end of ``marks``.

    A port becomes a quoted path, a container becomes a list of its entries.
    """
    found: list[PortParts] = []
    for mark in marks:
        if mark == ")":
            break
        if mark == "(":
            found.append(_parse_parts(marks))
        else:
            port, *entries = re.split(r"[\[\]]+", mark.rstrip("]"))
            path = quote_template(escape_braces(port))
            found.append(path + "".join(f"/{entry}" for entry in entries))
    return found


# Atomic groups: without them the time for a file of many instructions would grow exponentially.
_ROOT = re.compile(
    r"\s*(?>(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)\s*)*+<(?:dag|workflow|data)[\s>/]", re.DOTALL
)


class Diet(ReadOnlyFormat):
    """Workflows of DIET: graphs of its workflow agent, and functional workflows.

    A ``dag`` lists nodes. Each node is a task of the service that its ``path`` names, ports make data edges,
    and ``prec`` is pure precedence. ``<in source="n1#out"/>`` reads a port of another node, an entry of a
    container (``n1#out[0]``), or a container of several ports (``(n1#out;n2#out)``); ``<out sink="n2#in"/>``
    states the same edge at its other end. The data of the port ``out`` of node ``n1`` are in the file
    ``n1#out``. An ``arg`` is a constant; constants that name files become inputs, and all constants are kept
    as attributes.

    A ``workflow`` (the functional language Gwendia) describes processors over streams of data, which become
    sweeps. The number of items of a source is the parameter ``NAME_items``; its default is that of the data
    file beside the workflow, else 1. A processor runs once for every combination of items that its iteration
    strategy gives: a sweep over ``i``, ``j``, ... A port that is deeper than its data gathers all items of
    the innermost axis; a port that is less deep splits a container whose size ``card`` states. For a
    container without ``card`` another task lists its entries, and a sweep reads these lines. Loops and
    conditions become loops and conditional dependencies. What cannot be unfolded, such as a loop inside a
    loop, a filter or a sub-workflow, is an error.

    Neither kind of file states how long services take; the platform does.
    """

    name = "diet"
    title = "DIET workflow (XML: dag, or functional workflow)"
    extensions: tuple[str, ...] = (".xml",)

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is XML whose first element is ``dag``, ``workflow`` or ``data``."""
        return _ROOT.match(source.head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a file. Raises InvalidInput."""
        with pause_garbage_collection():
            workflow = self._read(source)
        services, file = load_services_beside(source)
        tasks = tuple(
            add_program(task, services[task.service], workflow.params, file)
            if task.service in services
            else task
            for task in workflow.tasks
        )
        return replace(workflow, tasks=tasks, services_file=file)

    def _read(self, source: SourceFile) -> Workflow:
        root = read_xml_tree(source)
        problems = ProblemCollector(source)
        if root.name == "dag":
            return _read_dag(root, problems)
        if root.name == "workflow":
            return read_functional(root, problems)
        if root.name == "data":
            what, rule = "input data of a functional workflow (element data)", "it holds no tasks"
            advice = "read the workflow file, and set the number of items by -p NAME_items=N"
        else:
            what = f"the first element is {shorten(root.name, 40)!r}"
            rule, advice = "a DIET file holds one dag or one workflow", ""
        raise file_error(source, what, rule=rule, advice=advice, line=root.line)
