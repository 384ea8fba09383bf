"""DIET's workflow files in XML, read only: task graphs, and functional workflows in the language Gwendia.

docs/papers/many-workflows.md, section 4. Processors over streams of data become sweeps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from weft.documents import Document
from weft.errors import nearest, shorten, suggest
from weft.expressions import Expression, parse
from weft.formats.diet_ports import (
    ConditionError,
    Data,
    PortParts,
    PortSetup,
    assign_ports,
    count_items,
    evaluate_text,
    find_wrong_value,
    load_data_beside,
    name_port,
    port_bytes,
    quote_template,
)
from weft.formats.format import (
    ProblemCollector,
    ReadOnlyFormat,
    SourceFile,
    file_error,
    pause_garbage_collection,
)
from weft.formats.graph import RecordedWorkflow, check_acyclic, escape_braces
from weft.formats.services import add_program, load_services_beside
from weft.formats.xml_document import XmlElement, read_xml_tree
from weft.units import format_count
from weft.urls import is_url
from weft.workflow.quantity import Range, Sweep, Values
from weft.workflow.task import ALL, Dependency, IndexRange, Input, JobSpec, Output, Task
from weft.workflow.workflow import Loop, Parameter, Workflow

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


_SECTIONS = ("include", "interface", "processors", "links")
_REFUSED = {
    "include": "other files are not included",
    "filter": "the language does not define which items pass",
    "subWorkflow": "nested workflows are not supported",
    "beanshell": "scripts of the workflow agent are not services",
    "gasw": "descriptors of other systems are not services",
}
"""Elements that cannot be unfolded, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DietProcessor:
    """One processor, or a step of a loop, condition or merge, with its ports and iteration strategy.

    A loop has three steps. ``NAME`` evaluates the condition with the initial values, ``NAME_check`` evaluates
    it at the end of every iteration; both write the data for the next iteration and the final data.
    ``NAME_end`` copies the final data to the ports of the loop. If several processors read the data of an
    iteration, a step ``NAME_head`` precedes them. A merge has one step for each of its inputs. The names of
    the files that a step writes begin with ``files``, so that several steps can write the same file.
    """

    name: str
    element: XmlElement
    kind: str = "processor"
    """``processor``, ``start``, ``head``, ``check``, ``end``, ``condition`` or ``merge``."""
    files: str
    service: str | None = None
    reads: Mapping[str, XmlElement] = field(default_factory=dict)
    writes: Mapping[str, XmlElement] = field(default_factory=dict)
    strategy: XmlElement | None = None
    attributes: Mapping[str, object] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Return the name of the XML element, in which characters invalid in a variable name are replaced."""
        return name_port(self.element.attributes.get("name", ""))

    @property
    def loop(self) -> str:
        """Return the name of the workflow loop that is made from this step's ``loop`` element."""
        return f"{self.owner}_loop"

    def ports(self, part: str) -> Mapping[str, XmlElement]:
        """Return by name the ports that read data (``part="reads"``) or write data (``part="writes"``)."""
        return self.reads if part == "reads" else self.writes

    def parts(self, *names: str) -> dict[str, XmlElement]:
        """Return the child elements with these tags, by their attribute ``name``."""
        return {part.attributes.get("name", ""): part for part in self.element.children if part.name in names}

    def text(self, name: str) -> str:
        """Return the text of the first child element with the tag ``name``; "" if there is none."""
        return next((part.text.strip() for part in self.element.children if part.name == name), "")

    def depth(self, port: XmlElement, problems: ProblemCollector) -> int:
        """Return the nesting depth of a port's data; 0 for single values."""
        text = port.attributes.get("depth", "0")
        if len(text) < 3 and text.isdecimal():
            return int(text)
        what = f"depth={shorten(text, 40)!r} of {self.name}"
        problems.add(what, rule="must be a whole number, at least 0", line=port.line)
        return 0


_CONTENTS = {
    "processor": ("param", "in", "inOut", "out", "iterationstrategy", "diet"),
    "loop": ("in", "out", "inLoop", "outLoop", "while", "do", "iterationstrategy"),
    "condition": ("in", "outThen", "outElse", "if", "then", "else", "iterationstrategy"),
    "merge": ("in", "out"),
}


def _read_processors(root: XmlElement, problems: ProblemCollector) -> dict[str, _DietProcessor]:
    """Return all steps by name; add a problem for every element that cannot be unfolded."""
    found: dict[str, _DietProcessor] = {}
    for section in root.children:
        if section.name not in _SECTIONS or section.name in _REFUSED:
            _add_unknown_element(section, problems, _SECTIONS)
    for element in _children_of(root, "processors"):
        if element.name not in _CONTENTS:
            _add_unknown_element(element, problems, tuple(_CONTENTS))
            continue
        for part in element.children:
            if part.name not in _CONTENTS[element.name]:
                _add_unknown_element(part, problems, _CONTENTS[element.name])
            elif part.name in _PORTS:
                _read_name(part, problems)
        for step in _read_steps(element, problems):
            if step.name in found:
                what = f"a second processor {shorten(step.name, 40)!r}"
                problems.add(what, rule="names of processors must be unique", line=element.line)
            found[step.name] = step
    if not found:
        problems.add("no processors", rule="a workflow must have at least one processor", line=root.line)
    return found


_PORTS = ("param", "in", "inOut", "out", "inLoop", "outLoop", "outThen", "outElse")


def _read_steps(element: XmlElement, problems: ProblemCollector) -> list[_DietProcessor]:
    name = _read_name(element, problems)
    if element.name == "processor":
        return [_read_processor(name, element, problems)]
    name = name_port(name)  # conditions of weft refer to it
    strategy = next((part for part in element.children if part.name == "iterationstrategy"), None)
    base = _DietProcessor(name=name, element=element, files=name, strategy=strategy)
    reads, out = base.parts("in"), base.parts("out")
    if element.name == "condition":
        writes = base.parts("outThen", "outElse")
        return [replace(base, kind="condition", reads=reads, writes=writes)]
    if element.name == "merge":
        return _read_merge(base, reads, out, problems)
    inside, again = base.parts("inLoop"), base.parts("outLoop")
    _check_loop(base, problems)
    end = replace(base, name=f"{name}_end", kind="end", files=f"{name}_end", writes=out)
    return [
        replace(base, kind="start", reads=reads, writes=again | out),
        replace(base, name=f"{name}_check", kind="check", reads=inside, writes=again | out),
        *([end] if out else []),
    ]


def _read_merge(
    base: _DietProcessor,
    reads: Mapping[str, XmlElement],
    out: Mapping[str, XmlElement],
    problems: ProblemCollector,
) -> list[_DietProcessor]:
    if len(reads) != 2 or len(out) != 1:
        what = f"merge {shorten(base.name, 40)!r} with {len(reads)} in and {len(out)} out ports"
        problems.add(what, rule="a merge has two in ports and one out port", line=base.element.line)
        return []
    return [
        replace(base, name=f"{base.name}_{number}", kind="merge", reads={port: part}, writes=out)
        for number, (port, part) in enumerate(reads.items(), 1)
    ]


def _check_loop(base: _DietProcessor, problems: ProblemCollector) -> None:
    """Add a problem if a port inLoop or outLoop names no port of the loop, or if the loop has none."""
    for inner, outer, key in (("inLoop", "in", "init"), ("outLoop", "out", "final")):
        known = base.parts(outer)
        for name, part in base.parts(inner).items():
            if part.attributes.get(key, "") not in known:
                what = f"{inner} {shorten(name, 40)!r} with {key}={part.attributes.get(key, '')!r}"
                problems.add(what, rule=f"{key} must name a port {outer} of the loop", line=part.line)
        if not base.parts(inner):
            what = f"loop {shorten(base.name, 40)!r} without {inner}"
            problems.add(what, rule="a loop has ports inLoop and outLoop", line=base.element.line)


def _read_processor(name: str, element: XmlElement, problems: ProblemCollector) -> _DietProcessor:
    base = _DietProcessor(name=name, element=element, files=name)
    calls = [part for part in element.children if part.name == "diet"]
    attributes: dict[str, object] = {}
    if not calls:
        what = f"processor {shorten(name, 40)!r} without a service"
        problems.add(what, rule='a processor must contain <diet path="SERVICE"/>', line=element.line)
    else:
        attributes = {key: value for key, value in calls[-1].attributes.items() if key != "path"}
        attributes["program"] = _read_name(calls[-1], problems, "path")
    return replace(
        base,
        service=calls[-1].attributes.get("path") if calls else None,
        reads=base.parts("param", "in", "inOut"),
        writes=base.parts("out", "inOut"),
        strategy=next((part for part in element.children if part.name == "iterationstrategy"), None),
        attributes=attributes,
    )


def _read_name(element: XmlElement, problems: ProblemCollector, key: str = "name") -> str:
    if not (value := element.attributes.get(key, "")):
        what, rule = f"{element.name} without {key}", f"every {element.name} must have the attribute {key}"
        problems.add(what, rule=rule, line=element.line)
    return value


def _add_unknown_element(element: XmlElement, problems: ProblemCollector, known: tuple[str, ...]) -> None:
    name = element.attributes.get("name") or element.attributes.get("file")
    what = f"element {shorten(element.name, 40)}" + (f" {shorten(name, 40)!r}" if name else "")
    if element.name in _REFUSED:
        problems.add(what, rule=_REFUSED[element.name], line=element.line)
        return
    advice = suggest(element.name, known, f"known: {', '.join(known)}")
    problems.add(what, rule="this element is not allowed here", advice=advice, line=element.line)


_Axes = tuple[str, ...]
"""For each axis of a sweep: an expression for its number of values."""

_MAX_STRATEGY_DEPTH = 20
_UNSUPPORTED_STRATEGIES = ("flatcross", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class _IterationAxes:
    """The sweep axes of a processor. ``places`` maps each port to the positions of its axes in ``axes``."""

    axes: _Axes
    places: Mapping[str, tuple[int, ...]]


def _combine_ports(
    strategy: XmlElement | None, ports: Mapping[str, _Axes], owner: XmlElement, problems: ProblemCollector
) -> _IterationAxes:
    """Return the axes of a processor: those of its ports, combined by the iteration strategy.

    ``dot`` pairs the items of ports by position, ``cross`` takes every combination; both can be nested.
    Without a strategy the ports are paired, as in DIET. A problem is added if ports cannot be combined.
    """
    single = {
        name: _IterationAxes(axes=axes, places={name: tuple(range(len(axes)))})
        for name, axes in ports.items()
    }
    if strategy is None:
        return _pair_axes(list(single.values()), owner, problems)
    reader = _StrategyReader(single, problems)
    made = [reader.combine(element, 0) for element in strategy.children]
    if len(made) != 1:
        rule = "an iterationstrategy must contain one element dot or cross"
        problems.add(f"{len(made)} elements in iterationstrategy", rule=rule, line=strategy.line)
        return _pair_axes([], owner, problems)
    return reader.with_constants(made[0], strategy)


def _pair_axes(
    parts: Sequence[_IterationAxes], element: XmlElement, problems: ProblemCollector
) -> _IterationAxes:
    """Return the common axes of ports whose items are paired by position; constants have no axes."""
    axes: _Axes = ()
    for part in parts:
        if not axes:
            axes = part.axes
        elif part.axes and len(part.axes) != len(axes):
            what = f"ports paired over {len(axes)} and {len(part.axes)} levels in {_show_element(element)}"
            rule = "only data of the same nesting can be paired"
            problems.add(what, rule=rule, advice="use cross", line=element.line)
        elif part.axes and part.axes != axes and any(map(_is_grown, (*axes, *part.axes))):
            what = f"entries of containers of unknown size are paired with others in {_show_element(element)}"
            problems.add(what, rule="their number is not known before the run", line=element.line)
        elif part.axes:
            pairs = zip(axes, part.axes, strict=True)
            axes = tuple(one if one == other else f"min({one}, {other})" for one, other in pairs)
    return _IterationAxes(
        axes=axes, places={port: place for part in parts for port, place in part.places.items()}
    )


def _cross_axes(parts: Sequence[_IterationAxes]) -> _IterationAxes:
    axes: _Axes = ()
    places: dict[str, tuple[int, ...]] = {}
    for part in parts:
        for port, place in part.places.items():
            places[port] = tuple(len(axes) + position for position in place)
        axes += part.axes
    return _IterationAxes(axes=axes, places=places)


def _is_grown(axis: str) -> bool:
    """Return whether the values of an axis are read during the run from the lines of a file."""
    return axis.startswith("lines(")


def _show_element(element: XmlElement) -> str:
    name = element.attributes.get("name")
    return f"{element.name} {shorten(name, 40)!r}" if name else element.name


@dataclass(slots=True)
class _StrategyReader:
    """Reads the elements of one iteration strategy, which names every port once."""

    ports: Mapping[str, _IterationAxes]
    problems: ProblemCollector
    named: set[str] = field(default_factory=set)

    def combine(self, element: XmlElement, depth: int) -> _IterationAxes:
        """Return the axes of the ports in an element ``port``, ``dot`` or ``cross``."""
        if element.name == "port":
            return self._port(element)
        if element.name not in ("dot", "cross") or depth > _MAX_STRATEGY_DEPTH:
            known = element.name in _UNSUPPORTED_STRATEGIES
            rule = "it cannot be unfolded" if known else "strategies consist of dot and cross"
            self.problems.add(f"element {shorten(element.name, 40)}", rule=rule, line=element.line)
            return _IterationAxes(axes=(), places={})
        parts = [self.combine(child, depth + 1) for child in element.children]
        return _cross_axes(parts) if element.name == "cross" else _pair_axes(parts, element, self.problems)

    def with_constants(self, made: _IterationAxes, strategy: XmlElement) -> _IterationAxes:
        """Return the axes with the ports added that the strategy does not name; these must read constants."""
        places = dict(made.places)
        for name, port in self.ports.items():
            if name not in self.named and port.axes:
                what = f"port {shorten(name, 40)!r} is not in the iterationstrategy"
                self.problems.add(what, rule="a strategy must name every port", line=strategy.line)
            places.setdefault(name, ())
        return _IterationAxes(axes=made.axes, places=places)

    def _port(self, element: XmlElement) -> _IterationAxes:
        name = element.attributes.get("name", "")
        if name not in self.ports or name in self.named:
            close = nearest(name, self.ports)
            advice = f"did you mean {close!r}?" if close and close != name else ""
            what = f"port {shorten(name, 40)!r} in the iterationstrategy"
            rule = "a strategy must name every port that reads, once"
            self.problems.add(what, rule=rule, advice=advice, line=element.line)
            return _IterationAxes(axes=(), places={})
        self.named.add(name)
        return self.ports[name]


_VARIABLES = "ijklmnpqrs"
_FALSE = 3
"""Exit code of a condition that is false; it differs from the exit codes of a failed shell or awk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    """A condition under which a task runs.

    If ``holds``, the task runs if the condition of the step ``step`` is true, otherwise if it is false.
    """

    step: str
    holds: bool
    index: tuple[str, ...]
    """For each axis of ``step``: the sweep variable of the guarded task that selects the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PortFeed:
    """The data that a port reads: the processor or source that provides them, and their axes."""

    axes: _Axes
    source: str = ""
    """Name of the source or constant, if no processor writes the data."""
    producer: str | None = None
    """Name of the processor that writes the data."""
    port: str = ""
    gathered: int = 0
    """Number of innermost axes of the producer whose items are gathered in one container."""
    split: bool = False
    """Whether the last axis runs over the entries of each container of the producer."""
    entries: str = ""
    """Name of the task that lists the entries of containers of unknown size."""


def _read_functional(root: XmlElement, problems: ProblemCollector) -> Workflow:
    """Return the workflow of a ``workflow`` element. Raises InvalidInput."""
    source = problems.source
    processors = _read_processors(root, problems)
    problems.finish()
    unfolding = _FunctionalReader(root, processors, problems, load_data_beside(source))
    problems.finish()
    tasks = unfolding.tasks()
    problems.finish()
    sources = ", ".join(unfolding.items)
    return Workflow(
        name=root.attributes.get("name") or source.stem,
        tasks=tuple(tasks),
        loops=tuple(unfolding.loops),
        params=unfolding.params(),
        description=f"functional workflow over {sources}; -p NAME_items=N sets the number of items"
        if sources
        else None,
        document=Document(file=source.name),
    )


class _FunctionalReader:
    """Converts the processors of a functional workflow to tasks; axes follow from the links of ports."""

    def __init__(
        self,
        root: XmlElement,
        processors: Mapping[str, _DietProcessor],
        problems: ProblemCollector,
        data: Mapping[str, list[Data]],
    ) -> None:
        self.problems = problems
        self.processors = dict(processors)
        self.items: dict[str, str] = {}
        """Name of the parameter that states the number of items of a source, by source."""
        self.loops: list[Loop] = []
        self._data = data
        self._constants: dict[str, XmlElement] = {}
        self._sinks: set[str] = set()
        self._links: dict[tuple[str, str], tuple[str, str]] = {}
        """Writing (processor, port), by reading (processor, port); a source or constant is (name, "")."""
        self._results: dict[tuple[str, str], str] = {}
        """Name of the sink that receives the data of a writing (processor, port)."""
        self._axes: dict[str, _Axes] = {}
        self._guards: dict[str, tuple[_Guard, ...]] = {}
        self._entries: dict[str, str] = {}
        """Step that writes containers of unknown size, by the axis that runs over their entries."""
        self._made: dict[str, list[Task]] = {}
        """Tasks by the processor to which they belong."""
        self._bodies: dict[str, set[str]] = {}
        """Steps of the body of a loop, between start and check, by the name of the start."""
        self._read_interface(root)
        for element in _children_of(root, "links"):
            self._read_link(element)
        read = {writer for writer, _ in (*self._links.values(), *self._results)}
        self.processors = {
            name: step for name, step in processors.items() if step.kind != "end" or name in read
        }
        for step in list(self.processors.values()):
            if step.kind == "start":
                self._add_head(step)

    def _add_head(self, start: _DietProcessor) -> None:
        """Add a step ``head`` to a loop in which several processors read the data of an iteration.

        In weft only the first task of a loop can read data of the previous iteration.
        """
        again = start.parts("outLoop")
        readers = [
            reader for reader, (step, port) in self._links.items() if step == start.name and port in again
        ]
        if len({step for step, _ in readers}) < 2:
            return
        name = f"{start.name}_head"
        self.processors[name] = replace(
            start, name=name, kind="head", files=name, reads=again, writes=again, strategy=None
        )
        for reader in readers:
            self._links[reader] = (name, self._links[reader][1])
        self._links |= {(name, port): (start.name, port) for port in again}

    def params(self) -> dict[str, Parameter]:
        """Return the parameters ``NAME_items``: numbers of items in the data file; 1 without a data file."""
        return {name: len(self._data.get(source, "1")) for source, name in self.items.items()}

    def _read_interface(self, root: XmlElement) -> None:
        for element in _children_of(root, "interface"):
            name = element.attributes.get("name", "")
            if element.name == "source" and name:
                self.items[name] = f"{name_port(name)}_items"
            elif element.name == "constant" and name:
                self._constants[name] = element
            elif element.name == "sink" and name:
                self._sinks.add(name)
            else:
                rule = "an interface consists of named elements source, sink and constant"
                what = f"element {shorten(element.name, 40)} in interface"
                self.problems.add(what, rule=rule, line=element.line)

    def _find_step(self, name: str, port: str, part: str) -> str:
        """Return the step of the element ``name`` that has the port; ``name`` itself if no step has it."""
        own = name_port(name)
        for step in (f"{own}_end", name, own, f"{own}_check", f"{own}_1", f"{own}_2"):
            found = self.processors.get(step)
            if (
                found is not None
                and port in found.ports(part)
                and found.element.attributes.get("name") == name
            ):
                return step
        return name

    def _read_link(self, element: XmlElement) -> None:
        start, end = element.attributes.get("from", ""), element.attributes.get("to", "")
        if element.name != "link" or not start or not end:
            what = f"element {shorten(element.name, 40)} in links"
            self.problems.add(what, rule='a link is <link from="..." to="..."/>', line=element.line)
            return
        known = [*self.items, *self._constants, *self._sinks]
        places = []
        for end_point, part in ((start, "writes"), (end, "reads")):
            name, _, port = end_point.partition(":")
            step = self._find_step(name, port, part)
            places.append((step, port))
            processor = self.processors.get(step)
            if port in (processor.ports(part) if processor is not None else ()) or (
                not port and name in known
            ):
                continue
            ports = (f"{one.name}:{name}" for one in self.processors.values() for name in one.ports(part))
            close = nearest(end_point, [*known, *ports])
            advice = f"did you mean {close!r}?" if close else ""
            what = f"no port {shorten(end_point, 60)!r} that {part}"
            rule = "a link goes from a source or NAME:PORT to NAME:PORT or a sink"
            self.problems.add(what, rule=rule, advice=advice, line=element.line)
        writer, reader = places
        if not reader[1]:
            self._results.setdefault(writer, reader[0])
        elif self._links.setdefault(reader, writer) != writer:
            what, rule = f"a second link to {shorten(end, 60)!r}", "a port can have one link"
            self.problems.add(what, rule=rule, line=element.line)

    def tasks(self) -> list[Task]:
        """Return the tasks, in the order of the file."""
        names = list(self.processors)
        position = {name: index for index, name in enumerate(names)}
        parents = [sorted({position[above] for above in self._above(name)}) for name in names]
        order = check_acyclic(self.problems.source, names, parents)
        self._find_bodies([names[index] for index in order])
        for index in order:
            processor = self.processors[names[index]]
            feeds = {port: self._feed(processor, port) for port in processor.reads}
            iteration = self._iterate(processor, feeds)
            self.problems.finish()
            self._axes[processor.name] = iteration.axes
            self._made.setdefault(processor.name, []).append(self._task(processor, feeds, iteration))
        for start in self._bodies:
            self._add_loop(self.processors[start])
        for name in names:
            if self.processors[name].kind == "merge" and name.endswith("_1"):
                self._check_merge(self.processors[name])
        return [task for name in names for task in self._made[name]]

    def _above(self, name: str) -> Iterator[str]:
        """Yield the direct predecessors of a step within one iteration."""
        step = self.processors[name]
        if step.kind in ("check", "end"):
            yield step.owner
        if step.kind == "end":
            yield f"{step.owner}_check"
        for port in step.reads:
            writer = self._links.get((name, port), ("", ""))[0]
            if writer in self.processors:
                yield writer
                if self.processors[writer].kind == "merge":
                    yield from self._merge_steps(writer)

    def _merge_steps(self, merge: str) -> list[str]:
        files = self.processors[merge].files
        return [one.name for one in self.processors.values() if one.kind == "merge" and one.files == files]

    def _check_merge(self, first: _DietProcessor) -> None:
        """Add a problem unless the two inputs of a merge are the two branches of one condition."""
        one, other = self._merge_steps(first.name)
        opposite = {replace(guard, holds=not guard.holds) for guard in self._guards[other]}
        if self._axes[one] == self._axes[other] and opposite & set(self._guards[one]):
            return
        what = f"merge {shorten(first.owner, 40)!r} of streams that are not the branches of one condition"
        rule = "other streams have no common numbering"
        self.problems.add(what, rule=rule, line=first.element.line)

    def _find_bodies(self, order: Sequence[str]) -> None:
        """Store the steps between the start and the check of every loop; reject loops inside loops."""
        below: dict[str, set[str]] = {}
        for name in order:
            step = self.processors[name]
            below[name] = {start for above in self._above(name) for start in below.get(above, ())}
            if step.kind == "end":
                below[name].discard(step.owner)
            if step.kind == "start":
                if inside := sorted(below[name]):
                    what = f"loop {shorten(name, 40)!r} is inside or after the body of loop {inside[0]!r}"
                    advice = "read the data from an out port of the first loop"
                    rule = "loops inside loops are not supported"
                    self.problems.add(what, rule=rule, advice=advice, line=step.element.line)
                below[name] = {name}
                self._bodies[name] = set()
        for start in self._bodies:
            pending = [f"{start}_check"]
            while pending:
                for above in self._above(pending.pop()):
                    if start in below[above] and above != start and above not in self._bodies[start]:
                        self._bodies[start].add(above)
                        pending.append(above)
            if not self._bodies[start]:
                what = f"loop {shorten(start, 40)!r} without a body"
                rule = "links lead from its outLoop ports through processors to its inLoop ports"
                self.problems.add(what, rule=rule, line=self.processors[start].element.line)
        self.problems.finish()

    def _iterate(self, processor: _DietProcessor, feeds: Mapping[str, _PortFeed]) -> _IterationAxes:
        if processor.kind not in ("check", "end"):
            ports = {port: feed.axes for port, feed in feeds.items()}
            found = _combine_ports(processor.strategy, ports, processor.element, self.problems)
        else:
            axes = self._axes[processor.owner]
            for port, feed in feeds.items():
                if feed.axes != axes:
                    what = (
                        f"{processor.element.attributes['name']}:{port} gets data of {len(feed.axes)} levels"
                    )
                    rule = f"the loop runs over {len(axes)}"
                    self.problems.add(what, rule=rule, line=processor.reads[port].line)
            found = _IterationAxes(axes=axes, places=dict.fromkeys(feeds, tuple(range(len(axes)))))
        self._check_pairs(processor, found.axes)
        if len(found.axes) > len(_VARIABLES) or (len(found.axes) > 1 and any(map(_is_grown, found.axes))):
            what = f"{processor.name} runs over {len(found.axes)} levels"
            rule = f"at most {len(_VARIABLES)} levels are supported, and one of containers of unknown size"
            self.problems.add(what, rule=rule, line=processor.element.line)
        return found

    def _check_pairs(self, processor: _DietProcessor, axes: _Axes) -> None:
        """Add a problem if lists of different lengths are paired, because some items would be lost."""
        lengths = {
            name: (source, len(self._data[source]))
            for source, name in self.items.items()
            if source in self._data
        }
        for axis in axes:
            words = re.findall(r"\w+", axis) if axis.startswith("min(") else []
            stated = {f"source {lengths[word][0]!r}": lengths[word][1] for word in words if word in lengths}
            stated |= {f"a container of {word}": int(word) for word in words if word.isdecimal()}
            if len(set(stated.values())) > 1:
                counts = ", ".join(
                    f"{format_count(count, 'item')} of {name}" for name, count in stated.items()
                )
                what = f"{_show_element(processor.element)} pairs lists of different lengths: {counts}"
                rule = "a dot pairs the items by number, and none may be left over"
                advice = "give the sources equally many items in the data file, or use cross"
                self.problems.add(what, rule=rule, advice=advice, line=processor.element.line)

    def _feed(self, processor: _DietProcessor, port: str) -> _PortFeed:
        """Return the data that a port reads.

        Axes are added or removed so that the depth of the data is that of the port.
        """
        element = processor.reads[port]
        depth = processor.depth(element, self.problems)
        start, written = self._links.get((processor.name, port), ("", ""))
        if start in self.items:
            return _PortFeed(axes=self._item_axes(start, depth, element), source=start)
        if start not in self.processors:
            if start not in self._constants:
                what = f"port {shorten(processor.name, 40)}:{shorten(port, 40)} without a link"
                self.problems.add(what, rule="every port that reads must have a link", line=element.line)
            return _PortFeed(axes=(), source=start)
        output = self.processors[start].writes[written]
        deeper = depth - processor.depth(output, self.problems)
        above = self._axes[start]
        if deeper == 0:
            return _PortFeed(axes=above, producer=start, port=written)
        if 0 < deeper <= len(above) and not (any(map(_is_grown, above)) and not self._is_flat(above)):
            return _PortFeed(axes=above[:-deeper], producer=start, port=written, gathered=deeper)
        if deeper == -1 and output.attributes.get("card", "").isdecimal():
            count = output.attributes["card"]
            return _PortFeed(axes=(*above, count), producer=start, port=written, split=True)
        if deeper == -1 and not any(map(_is_grown, above)):
            entries = self._list_entries(self.processors[start], written)
            axis = f"lines({entries}.{entries}_list)"
            self._entries[axis] = start
            return _PortFeed(axes=(axis,), entries=entries)
        self._refuse_nesting(processor, port, output, deeper)
        return _PortFeed(axes=(), producer=start, port=written)

    def _is_flat(self, axes: _Axes) -> bool:
        """Return whether every axis of unknown length runs over the entries of a single container."""
        return all(not self._axes[self._entries[axis]] for axis in axes if _is_grown(axis))

    def _item_axes(self, source: str, depth: int, port: XmlElement) -> _Axes:
        """Return the axes over which a port with this depth reads a source; one axis without a data file."""
        if (items := self._data.get(source)) is None:
            return (self.items[source],)
        counts = count_items(items, depth)
        if counts is None:
            what = f"the data of source {shorten(source, 40)!r} do not fit a port of depth {depth}"
            rule = "a list holds the items, and lists of equal length their entries"
            self.problems.add(what, rule=rule, line=port.line)
            return ()
        return (self.items[source], *map(str, counts[1:]))

    def _list_entries(self, producer: _DietProcessor, port: str) -> str:
        """Add a task that lists the entries of all containers of a port; return the name of this task."""
        name = name_port(f"{producer.name}_{port}_entries")
        tasks = self._made[producer.name]
        if any(task.name == name for task in tasks):
            return name
        count = len(self._axes[producer.name])
        base = escape_braces(f"{producer.files}#{port}")
        pattern = '"$base".*' if count else '"$base"'
        keys = " ".join(f"-k {number},{number}n" for number in range(1, count + 2))
        lines = [
            f"mkdir -p {name}_all; base={quote_template(base)}",
            f'for f in {pattern}; do for g in "$f"/*; do',
            f'k=${{f#"$base"}}.${{g##*/}}; k=${{k#.}}; cp -R "$g" "{name}_all/$k"; echo "$k"',
            f"done; done | sort -t . {keys} > {name}_list",
        ]
        tasks.append(
            Task(
                name=name,
                after=(Dependency(task=producer.name, index=(ALL,) * count or None),),
                inputs=(Input(file=base + (".*" * count or "/")),),
                outputs=(Output(file=f"{name}_list"), Output(file=f"{name}_all/")),
                job=JobSpec(command="\n".join(lines)),
            )
        )
        self._guards[name] = ()
        return name

    def _refuse_nesting(self, processor: _DietProcessor, port: str, output: XmlElement, deeper: int) -> None:
        name = shorten(output.attributes.get("name", ""), 40)
        if deeper < 0:
            what = f"{output.name} {name!r} writes a container of unknown size"
            rule = f"{shorten(processor.name, 40)}:{shorten(port, 40)} reads its entries one by one"
            advice = 'state the number of entries: card="2" (one level at most)'
        else:
            what = f"{shorten(processor.name, 40)}:{shorten(port, 40)} gathers {deeper} levels of {name!r}"
            rule, advice = "the data have fewer levels", "lower the depth of the port"
        self.problems.add(what, rule=rule, advice=advice, line=output.line)

    def _task(
        self, processor: _DietProcessor, feeds: Mapping[str, _PortFeed], iteration: _IterationAxes
    ) -> Task:
        own = _VARIABLES[: len(iteration.axes)]
        builder = _StepBuilder(self, processor, own)
        for port, feed in feeds.items():
            builder.add_feed(port, feed, [own[place] for place in iteration.places[port]])
        return builder.task(iteration.axes)

    def _add_loop(self, start: _DietProcessor) -> None:
        (first,) = (name for name in self._bodies[start.name] if start.name in self._above(name))
        until = parse(f"{start.name}_check.exit_code == {_FALSE}")
        self.loops.append(Loop(name=start.loop, last=f"{start.name}_check", first=first, until=until))

    # Methods for _StepBuilder.

    def axes_of(self, name: str) -> _Axes:
        """Return the axes of a step."""
        return self._axes[name]

    def guards_of(self, name: str) -> tuple[_Guard, ...]:
        """Return the conditions under which a step runs."""
        return self._guards.get(name, ())

    def set_guards(self, name: str, guards: Collection[_Guard]) -> None:
        """Store the conditions under which a step runs."""
        self._guards[name] = tuple(guards)

    def data_of(self, source: str) -> list[Data] | None:
        """Return the items of a source; None if the data file is missing or does not have the source."""
        return self._data.get(source)

    def describe_missing(self, source: str) -> str:
        """Return a message which says that the data file is missing, or does not have the source."""
        if not self._data:
            return f"source {source} has no data; add a file data.xml beside the workflow"
        listed = f"it names {', '.join(sorted(self._data))}"
        return f"source {source} has no data in the data file; {suggest(source, self._data, listed)}"

    def constant(self, name: str) -> XmlElement:
        """Return the element of a constant."""
        return self._constants[name]

    def merge_steps(self, merge: str) -> list[str]:
        """Return all steps of the merge to which the step ``merge`` belongs."""
        return self._merge_steps(merge)

    def sink_of(self, step: str, port: str) -> str | None:
        """Return the name of the sink that receives the data of a port; None if no sink does.

        All steps of a merge have the same sink.
        """
        steps = self._merge_steps(step) if self.processors[step].kind == "merge" else [step]
        return next((self._results[one, port] for one in steps if (one, port) in self._results), None)

    def is_used(self, step: _DietProcessor, port: str) -> bool:
        """Return whether the data of a port are an output of the task.

        They are an output if a link leads from the port, or if the workflow has no links to sinks at all.
        Other data stay in the directory of the task.
        """
        used = (*self._links.values(), *self._results)
        return not self._results or any(
            port == name and writer in self.processors and self.processors[writer].element is step.element
            for writer, name in used
        )

    def loop_left(self, writer: str, reader: str) -> str | None:
        """Return the start of the loop that contains the writer but not the reader; None if there is none."""
        for start, body in self._bodies.items():
            if writer in body and reader not in body and reader != f"{start}_check":
                return start
        return None


class _StepBuilder:
    """Builds the task of one step: dependencies, files, and the setup of its ports."""

    def __init__(self, reader: _FunctionalReader, step: _DietProcessor, own: str) -> None:
        self._reader = reader
        self._step = step
        self._own = own
        self._setup = PortSetup()
        self._after: dict[Dependency, None] = {}
        self._inputs: dict[str, Input] = {}
        self._guards: dict[_Guard, None] = {}
        self._unbound = ""

    def add_feed(self, port: str, feed: _PortFeed, variables: list[str]) -> None:
        """Add a port that reads data. ``variables`` are the sweep variables for the axes of the data."""
        elements = [self._step.reads[port]]
        if self._step.kind == "start":
            inner = self._step.parts("inLoop").values()
            elements = [part for part in inner if part.attributes.get("init") == port]
        if feed.entries:
            name = feed.entries
            self._after[Dependency(task=name)] = None
            self._inputs |= {file: Input(file=file) for file in (f"{name}_list", f"{name}_all/")}
            path = f"./{name}_all/{{{variables[0]}}}"
        elif feed.producer is None:
            for element in elements:
                self._add_source(element, feed, variables)
            return
        else:
            path = self._add_producer(feed, variables)
        for element in elements:
            if feed.gathered:
                self._setup.gather(element, path, feed.gathered)
            else:
                self._setup.read_file(element, path)

    def _add_producer(self, feed: _PortFeed, variables: list[str]) -> str:
        """Add the producer as a dependency and its data as an input; return the data's path as shell text."""
        assert feed.producer is not None
        writer = self._reader.processors[feed.producer]
        count = len(self._reader.axes_of(feed.producer))
        kept = variables[: count - feed.gathered]
        for name in self._reader.merge_steps(writer.name) if writer.kind == "merge" else [writer.name]:
            self._after[_dependency(name, kept, feed.gathered, count)] = None
        if (start := self._reader.loop_left(writer.name, self._step.name)) is not None:
            loop = self._reader.processors[start].loop
            self._after[_dependency(loop, kept, feed.gathered, count)] = None
        self._inherit_guards(writer, feed, kept)
        is_container = writer.writes[feed.port].attributes.get("depth", "0") != "0"
        file = _file(writer.files, feed.port, kept)
        name = file + (".*" * feed.gathered or "/" * is_container)
        self._inputs[name] = Input(file=name)
        path = quote_template(file)
        return f"{path}/{{{variables[-1]}}}" if feed.split else path

    def _inherit_guards(self, writer: _DietProcessor, feed: _PortFeed, kept: list[str]) -> None:
        """Add the conditions under which the writer produces data to those of this task.

        Conditions that depend on a gathered axis are left out.
        """
        places = dict(zip(_VARIABLES, kept, strict=False))
        guards = list(self._reader.guards_of(writer.name))
        if writer.kind == "merge":
            guards = _common_guards(
                [self._reader.guards_of(name) for name in self._reader.merge_steps(writer.name)]
            )
        own = tuple(_VARIABLES[: len(self._reader.axes_of(writer.name))])
        if writer.kind == "start":
            guards.append(_Guard(step=writer.name, holds=True, index=own))
        elif writer.kind == "condition":
            holds = feed.port in writer.parts("outThen")
            guards.append(_Guard(step=writer.name, holds=holds, index=own))
        for guard in guards:
            if all(variable in places for variable in guard.index):
                self._guards[replace(guard, index=tuple(places[each] for each in guard.index))] = None

    def _add_source(self, element: XmlElement, feed: _PortFeed, variables: list[str]) -> None:
        is_file = element.attributes.get("type") == "DIET_FILE"
        if feed.source not in self._reader.items:
            data: list[Data] = [self._reader.constant(feed.source).attributes.get("value", "")]
            self._check_values(element, data, f"constant {shorten(feed.source, 40)!r}")
            self._setup.read_constant(element, self._localise(data, is_file)[0], is_file=is_file)
            return
        found = self._reader.data_of(feed.source)
        if found is None:
            self._unbound = self._reader.describe_missing(feed.source)
            return
        self._check_values(element, found, f"source {shorten(feed.source, 40)!r}")
        items = self._localise(found, is_file)
        self._setup.read_items(element, items, variables, feed.source, is_file=is_file)

    def _check_values(self, port: XmlElement, data: list[Data], origin: str) -> None:
        """Add a problem if a value of a source or constant does not match the type of the reading port."""
        if (wrong := find_wrong_value(data, port.attributes)) is not None:
            what = f"the value {shorten(wrong[0], 40)!r} of {origin}"
            rule = f"{self._step.name}:{port.attributes.get('name', '')} has type {wrong[1]}"
            self._reader.problems.add(what, rule=rule, line=port.line)

    def _localise(self, data: list[Data], is_file: bool) -> list[Data]:
        """Declare the files that data name as inputs; return the data with names in the task directory.

        If ``is_file`` is False, return the data unchanged.
        """
        if not is_file:
            return data
        found: list[Data] = []
        for each in data:
            if isinstance(each, list):
                found.append(self._localise(each, is_file))
                continue
            is_far = each.startswith("/") or is_url(each)
            name = self._free_name(PurePosixPath(each).name, each) if is_far else each
            self._inputs[name] = Input(
                file=escape_braces(name), source=escape_braces(each) if is_far else None
            )
            found.append(name)
        return found

    def _free_name(self, name: str, source: str) -> str:
        """Return a name for an external file that no input of this task from another source has."""
        taken, number = name, 1
        while (used := self._inputs.get(taken)) is not None and used.source != escape_braces(source):
            number += 1
            taken = f"{number}-{name}"
        return taken

    def task(self, axes: _Axes) -> Task:
        """Return the task of the step, with a sweep over ``axes``."""
        step, own = self._step, self._own
        self._complete_loop_end()
        self._reader.set_guards(step.name, self._guards)
        after = [each for each in self._after if not any(_covers(guard, each) for guard in self._guards)]
        after += [_guard_dependency(guard) for guard in self._guards]
        attributes = dict(step.attributes)
        if step.kind == "processor":
            for port, element in step.writes.items():
                path = quote_template(_file(step.files, port, own))
                self._setup.write(element, path, reads=element.name == "inOut")
            attributes["ports"] = self._setup.ports()
        if self._unbound:
            attributes["unbound"] = self._unbound
        return Task(
            name=step.name,
            sweep=Sweep(variables=tuple(map(_values, own, axes))) if own else None,
            after=tuple(after),
            inputs=tuple(self._inputs.values()),
            outputs=tuple(
                self._output(port, element)
                for port, element in step.writes.items()
                if self._reader.is_used(step, port)
            ),
            service=step.service,
            job=self._job(),
            outcomes=(0, _FALSE) if step.kind in ("start", "check", "condition") else (),
            attributes=attributes,
        )

    def _output(self, port: str, element: XmlElement) -> Output:
        is_container = element.attributes.get("depth", "0") != "0"
        end = "/" if is_container else ""
        sink = self._reader.sink_of(self._step.name, port)
        return Output(
            file=_file(self._step.files, port, self._own) + end,
            size=port_bytes(element.attributes),
            target=None if sink is None else _name(sink, self._own),
        )

    def _complete_loop_end(self) -> None:
        """Set the dependencies, guards and inputs of the end of a loop; do nothing for other steps."""
        step = self._step
        if step.kind != "end":
            return
        start = step.owner
        index = tuple(map(parse, self._own)) or None
        self._after = {Dependency(task=start, index=index): None}
        self._after[Dependency(task=self._reader.processors[start].loop, index=index)] = None
        self._guards = dict.fromkeys(self._reader.guards_of(start))
        for port, element in step.writes.items():
            if not self._reader.is_used(step, port):
                continue
            end = "/" if element.attributes.get("depth", "0") != "0" else ""
            file = _file(start, port, self._own) + end
            self._inputs[file] = Input(file=file)

    def _job(self) -> JobSpec | None:
        """Return the job of a step of a loop, condition or merge.

        None for a processor, whose program is stated elsewhere, and for a step that reads a source without
        data.
        """
        step, setup = self._step, self._setup
        if step.kind == "processor" or self._unbound:
            return None
        paths = {port: quote_template(_file(step.files, port, self._own)) for port in step.writes}
        lines = list(setup.lines)
        try:
            if step.kind in ("start", "check"):
                lines += _loop_lines(step, paths)
            elif step.kind == "condition":
                lines += _condition_lines(step, paths)
            elif step.kind == "merge":
                (port,) = step.reads
                lines += [f'cp -R "$port_{name_port(port)}_file" {path}' for path in paths.values()]
            elif step.kind == "head":
                lines += [f'cp -R "$port_{name_port(port)}_file" {path}' for port, path in paths.items()]
            else:
                lines += [
                    f"cp -R {quote_template(_file(step.owner, port, self._own))} {path}"
                    for port, path in paths.items()
                    if self._reader.is_used(step, port)
                ]
        except ConditionError as error:
            what = f"{step.element.name} {shorten(step.name, 40)!r}: {error}"
            rule = "conditions consist of comparisons and arithmetic of ports and constants"
            self._reader.problems.add(what, rule=rule, line=step.element.line)
        return JobSpec(command="\n".join(lines))


def _loop_lines(step: _DietProcessor, paths: Mapping[str, str]) -> list[str]:
    ports, again = step.parts("inLoop"), step.parts("outLoop")
    lines = assign_ports(step.text("do"), ports, {port: paths[port] for port in again})
    for port, part in again.items():
        lines.append(f"cp -R {paths[port]} {paths[part.attributes['final']]}")
    return [*lines, *_decide_lines(step.text("while"), ports)]


def _condition_lines(step: _DietProcessor, paths: Mapping[str, str]) -> list[str]:
    ports, lines = step.reads, list[str]()
    for branch, kind in (("then", "outThen"), ("else", "outElse")):
        lines += assign_ports(step.text(branch), ports, {port: paths[port] for port in step.parts(kind)})
    return [*lines, *_decide_lines(step.text("if"), ports)]


def _decide_lines(condition: str, ports: Mapping[str, XmlElement]) -> list[str]:
    """Return shell lines that end with exit code 0 if a condition holds, else with ``_FALSE``."""
    if not condition:
        raise ConditionError("the condition is missing")
    text = evaluate_text(condition, ports, "print (%s) ? 1 : 0")
    return [f"holds=$(\n{text}\n)", f'[ "$holds" = 1 ] || exit {_FALSE}']


def _common_guards(guards: Sequence[tuple[_Guard, ...]]) -> list[_Guard]:
    return [guard for guard in guards[0] if all(guard in each for each in guards[1:])]


def _guard_dependency(guard: _Guard) -> Dependency:
    index = tuple(map(parse, guard.index)) or None
    return Dependency(
        task=guard.step, index=index, condition=parse(f"exit_code == {0 if guard.holds else _FALSE}")
    )


def _covers(guard: _Guard, dependency: Dependency) -> bool:
    """Return whether a dependency is the one that a guard implies, but without its condition."""
    return dependency == replace(_guard_dependency(guard), condition=None)


def _children_of(root: XmlElement, name: str) -> Iterator[XmlElement]:
    return (child for element in root.children if element.name == name for child in element.children)


def _values(variable: str, count: str) -> tuple[str, Values]:
    if _is_grown(count):
        return variable, parse(count)
    return variable, Range(low=parse("0"), high=parse(f"{count} - 1"))


def _dependency(task: str, kept: list[str], gathered: int, count: int) -> Dependency:
    index: tuple[Expression | IndexRange | str, ...] = tuple(map(parse, kept)) + (ALL,) * gathered
    return Dependency(task=task, index=index if count else None)


def _name(name: str, variables: str | list[str]) -> str:
    return escape_braces(name) + "".join(f".{{{variable}}}" for variable in variables)


def _file(processor: str, port: str, variables: str | list[str]) -> str:
    return _name(f"{processor}#{port}", variables)


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
            return _read_functional(root, problems)
        if root.name == "data":
            what, rule = "input data of a functional workflow (element data)", "it holds no tasks"
            advice = "read the workflow file, and set the number of items by -p NAME_items=N"
        else:
            what = f"the first element is {shorten(root.name, 40)!r}"
            rule, advice = "a DIET file holds one dag or one workflow", ""
        raise file_error(source, what, rule=rule, advice=advice, line=root.line)
