"""DIET's functional workflows (the language Gwendia): processors over streams of data become sweeps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.documents import Document
from weft.errors import nearest, shorten, suggest
from weft.expressions import Expression, parse
from weft.formats.diet_ports import port_bytes
from weft.formats.format import ProblemCollector
from weft.formats.graph import check_acyclic, escape_braces
from weft.formats.xml_document import XmlElement
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import ALL, Dependency, IndexRange, Input, Output, Task
from weft.workflow.workflow import Workflow

_SECTIONS = ("include", "interface", "processors", "links")
_REFUSED = {
    "include": "other files are not included",
    "loop": "the number of iterations depends on values of the run",
    "condition": "the branch depends on values of the run",
    "merge": "merged streams have no common numbering",
    "filter": "the items that pass depend on values of the run",
    "subWorkflow": "nested workflows are not supported",
    "beanshell": "scripts of the workflow agent are not services",
    "gasw": "descriptors of other systems are not services",
}
"""Elements that cannot be unfolded, with the reason."""
_ADVICE = {"loop": "write the loop in weft's own format, with until or max_iterations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DietProcessor:
    """One processor: its service, its ports and its iteration strategy."""

    name: str
    element: XmlElement
    service: str | None
    reads: Mapping[str, XmlElement]
    writes: Mapping[str, XmlElement]
    strategy: XmlElement | None
    attributes: Mapping[str, object] = field(default_factory=dict)

    def ports(self, part: str) -> Mapping[str, XmlElement]:
        """Return the ports of one side: ``reads`` or ``writes``."""
        return self.reads if part == "reads" else self.writes

    def depth(self, port: XmlElement, problems: ProblemCollector) -> int:
        """Return the nesting depth of a port's data; 0 for single values."""
        text = port.attributes.get("depth", "0")
        if len(text) < 3 and text.isdecimal():
            return int(text)
        what = f"depth={shorten(text, 40)!r} of {self.name}"
        problems.add(what, rule="must be a whole number, at least 0", line=port.line)
        return 0


def _read_processors(root: XmlElement, problems: ProblemCollector) -> dict[str, _DietProcessor]:
    """Return the processors by name; add a problem for every element that cannot be unfolded."""
    found: dict[str, _DietProcessor] = {}
    for section in root.children:
        if section.name not in _SECTIONS or section.name in _REFUSED:
            _add_unknown_element(section, problems, _SECTIONS)
    for element in _children_of(root, "processors"):
        if element.name != "processor":
            _add_unknown_element(element, problems, ("processor",))
            continue
        processor = _read_processor(element, problems)
        if processor.name in found:
            what = f"a second processor {shorten(processor.name, 40)!r}"
            problems.add(what, rule="names of processors must be unique", line=element.line)
        found[processor.name] = processor
    if not found:
        problems.add("no processors", rule="a workflow must have at least one processor", line=root.line)
    return found


def _read_processor(element: XmlElement, problems: ProblemCollector) -> _DietProcessor:
    reads: dict[str, XmlElement] = {}
    writes: dict[str, XmlElement] = {}
    strategy: XmlElement | None = None
    call: XmlElement | None = None
    known = ("param", "in", "inOut", "out", "iterationstrategy", "diet")
    for part in element.children:
        if part.name in ("param", "in", "inOut"):
            reads[_read_name(part, problems)] = part
        if part.name in ("out", "inOut"):
            writes[_read_name(part, problems)] = part
        if part.name == "iterationstrategy":
            strategy = part
        elif part.name == "diet":
            call = part
        elif part.name not in known:
            _add_unknown_element(part, problems, known)
    attributes: dict[str, object] = {}
    if call is None:
        what = f"processor {shorten(element.attributes.get('name', ''), 40)!r} without a service"
        problems.add(what, rule='a processor must contain <diet path="SERVICE"/>', line=element.line)
    else:
        attributes = {key: value for key, value in call.attributes.items() if key != "path"}
        attributes["program"] = _read_name(call, problems, "path")
    return _DietProcessor(
        name=_read_name(element, problems),
        element=element,
        service=None if call is None else call.attributes.get("path"),
        reads=reads,
        writes=writes,
        strategy=strategy,
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
        advice = _ADVICE.get(element.name, "")
        problems.add(what, rule=_REFUSED[element.name], advice=advice, line=element.line)
        return
    advice = suggest(element.name, known, f"known: {', '.join(known)}")
    problems.add(what, rule="this element is not allowed here", advice=advice, line=element.line)


_Axes = tuple[str, ...]
"""The number of values along each axis, as expressions."""

_MAX_STRATEGY_DEPTH = 20
_UNSUPPORTED_STRATEGIES = ("flatcross", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class _IterationAxes:
    """The axes of a processor, and for each port the positions of the port's axes in ``axes``."""

    axes: _Axes
    places: Mapping[str, tuple[int, ...]]


def _combine_ports(
    strategy: XmlElement | None, ports: Mapping[str, _Axes], owner: XmlElement, problems: ProblemCollector
) -> _IterationAxes:
    """Return the axes of all ports combined by the iteration strategy.

    ``dot`` pairs ports by position, ``cross`` takes every combination; they nest. Without a strategy the
    ports are paired, as in DIET. A combination that is not possible is added as a problem.
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
    """Return the axes of ports paired by position; a port without axes is a constant."""
    axes: _Axes = ()
    for part in parts:
        if not axes:
            axes = part.axes
        elif part.axes and len(part.axes) != len(axes):
            what = f"ports paired over {len(axes)} and {len(part.axes)} levels in {_show_element(element)}"
            rule = "only data of the same nesting can be paired"
            problems.add(what, rule=rule, advice="use cross", line=element.line)
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
        """Return the axes of the ports in an element, combined by its name (dot or cross)."""
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
        """Return the axes with the ports that the strategy omits, which must be constants, added."""
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
_UNNAMEABLE = re.compile(r"\W")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PortFeed:
    """The data of a port that reads: their producer and their axes."""

    axes: _Axes
    producer: str | None = None
    """Name of the processor that writes the data; None for a source or a constant."""
    port: str = ""
    gathered: int = 0
    """Number of innermost axes of the producer whose items are gathered in one container."""
    split: bool = False
    """Whether the last axis counts the entries of a container."""


def read_functional(root: XmlElement, problems: ProblemCollector) -> Workflow:
    """Return the workflow of a ``workflow`` element. Raises InvalidInput."""
    source = problems.source
    processors = _read_processors(root, problems)
    problems.finish()
    unfolding = _FunctionalReader(root, processors, problems)
    problems.finish()
    tasks = unfolding.tasks()
    problems.finish()
    sources = ", ".join(unfolding.items)
    return Workflow(
        name=root.attributes.get("name") or source.stem,
        tasks=tuple(tasks),
        params=dict.fromkeys(unfolding.items.values(), 1),
        description=f"functional workflow over {sources}; -p NAME_items=N sets the number of items"
        if sources
        else None,
        document=Document(file=source.name),
    )


class _FunctionalReader:
    """Derives the axes of the processors from the links between their ports."""

    def __init__(
        self, root: XmlElement, processors: Mapping[str, _DietProcessor], problems: ProblemCollector
    ) -> None:
        self.problems = problems
        self.processors = processors
        self.items: dict[str, str] = {}
        """By source: the name of the parameter with its number of items."""
        self._constants: set[str] = set()
        self._sinks: set[str] = set()
        self._links: dict[tuple[str, str], tuple[str, str]] = {}
        """By reading port (processor, port): the writing (processor, port), or a source."""
        self._read_interface(root)
        for element in _children_of(root, "links"):
            self._read_link(element)

    def _read_interface(self, root: XmlElement) -> None:
        for element in _children_of(root, "interface"):
            name = element.attributes.get("name", "")
            if element.name == "source" and name:
                self.items[name] = f"{_UNNAMEABLE.sub('_', name)}_items"
            elif element.name == "constant" and name:
                self._constants.add(name)
            elif element.name == "sink" and name:
                self._sinks.add(name)
            else:
                rule = "an interface consists of named elements source, sink and constant"
                what = f"element {shorten(element.name, 40)} in interface"
                self.problems.add(what, rule=rule, line=element.line)

    def _read_link(self, element: XmlElement) -> None:
        start, end = element.attributes.get("from", ""), element.attributes.get("to", "")
        if element.name != "link" or not start or not end:
            what = f"element {shorten(element.name, 40)} in links"
            self.problems.add(what, rule='a link is <link from="..." to="..."/>', line=element.line)
            return
        known = [*self.items, *self._constants, *self._sinks]
        for end_point, part in ((start, "writes"), (end, "reads")):
            name, _, port = end_point.partition(":")
            processor = self.processors.get(name)
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
        reader, _, port = end.partition(":")
        name, _, written = start.partition(":")
        if port and self._links.setdefault((reader, port), (name, written)) != (name, written):
            what, rule = f"a second link to {shorten(end, 60)!r}", "a port can have one link"
            self.problems.add(what, rule=rule, line=element.line)

    def tasks(self) -> list[Task]:
        """Return the tasks, in the order of the file."""
        names = list(self.processors)
        position = {name: index for index, name in enumerate(names)}
        parents: list[list[int]] = [[] for _ in names]
        for (reader, _), (start, _) in self._links.items():
            if start in position:
                parents[position[reader]].append(position[start])
        made: dict[str, Task] = {}
        axes: dict[str, _Axes] = {}
        for index in check_acyclic(self.problems.source, names, parents):
            processor = self.processors[names[index]]
            feeds = {port: self._feed(processor, port, axes) for port in processor.reads}
            iteration = _combine_ports(
                processor.strategy,
                {port: feed.axes for port, feed in feeds.items()},
                processor.element,
                self.problems,
            )
            if len(iteration.axes) > len(_VARIABLES):
                what = f"{processor.name} runs over {len(iteration.axes)} levels"
                rule = f"at most {len(_VARIABLES)} levels are supported"
                self.problems.add(what, rule=rule, line=processor.element.line)
            self.problems.finish()
            axes[processor.name] = iteration.axes
            made[processor.name] = self._task(processor, feeds, iteration, axes)
        return [made[name] for name in names]

    def _feed(self, processor: _DietProcessor, port: str, axes: Mapping[str, _Axes]) -> _PortFeed:
        """Return the data that a port reads: their producer, and their axes at the depth of the port."""
        element = processor.reads[port]
        start, written = self._links.get((processor.name, port), ("", ""))
        if start in self.items:
            return _PortFeed(axes=(self.items[start],))
        if start not in self.processors:
            if start not in self._constants:
                what = f"port {shorten(processor.name, 40)}:{shorten(port, 40)} without a link"
                self.problems.add(what, rule="every port that reads must have a link", line=element.line)
            return _PortFeed(axes=())
        output = self.processors[start].writes[written]
        deeper = processor.depth(element, self.problems) - processor.depth(output, self.problems)
        above = axes[start]
        if deeper == 0:
            return _PortFeed(axes=above, producer=start, port=written)
        if 0 < deeper <= len(above):
            return _PortFeed(axes=above[:-deeper], producer=start, port=written, gathered=deeper)
        if deeper == -1 and output.attributes.get("card", "").isdecimal():
            count = output.attributes["card"]
            return _PortFeed(axes=(*above, count), producer=start, port=written, split=True)
        self._refuse_nesting(processor, port, output, deeper)
        return _PortFeed(axes=(), producer=start, port=written)

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
        self,
        processor: _DietProcessor,
        feeds: Mapping[str, _PortFeed],
        iteration: _IterationAxes,
        axes: Mapping[str, _Axes],
    ) -> Task:
        own = _VARIABLES[: len(iteration.axes)]
        followed = {port: [own[place] for place in iteration.places[port]] for port in feeds}
        after: dict[Dependency, None] = {}
        inputs: dict[str, Input] = {}
        for port, feed in feeds.items():
            if feed.producer is not None:
                count = len(axes[feed.producer])
                kept = followed[port][: count - feed.gathered]
                after[_dependency(feed, kept, count)] = None
                if not feed.gathered:
                    file = _file(feed.producer, feed.port, kept)
                    inputs[file] = Input(file=file)
        return Task(
            name=processor.name,
            sweep=Sweep(variables=tuple(map(_values, own, iteration.axes))) if own else None,
            after=tuple(after),
            inputs=tuple(inputs.values()),
            outputs=tuple(
                Output(file=_file(processor.name, port, own), size=port_bytes(element.attributes))
                for port, element in processor.writes.items()
            ),
            service=processor.service,
            attributes=processor.attributes,
        )


def _children_of(root: XmlElement, name: str) -> Iterator[XmlElement]:
    return (child for element in root.children if element.name == name for child in element.children)


def _values(variable: str, count: str) -> tuple[str, Range]:
    return variable, Range(low=parse("0"), high=parse(f"{count} - 1"))


def _dependency(feed: _PortFeed, kept: list[str], count: int) -> Dependency:
    assert feed.producer is not None
    index: tuple[Expression | IndexRange | str, ...] = tuple(map(parse, kept)) + (ALL,) * feed.gathered
    return Dependency(task=feed.producer, index=index if count else None)


def _file(processor: str, port: str, variables: str | list[str]) -> str:
    return escape_braces(f"{processor}#{port}") + "".join(f".{{{variable}}}" for variable in variables)
