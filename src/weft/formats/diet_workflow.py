"""The functional workflows of DIET (the language Gwendia): processors over streams, unfolded into sweeps.

How many items a source has stands in another file; here it is a parameter, ``NAME_items`` (1 unless
``-p NAME_items=N`` says otherwise). A processor runs once for every item that its iteration strategy gives: a
sweep over ``i``, ``j``, ... A port that is deeper than what arrives gathers all items of the innermost axis;
one that is less deep takes a container apart, if ``card`` says how many entries it has. Loops, conditions and
containers of unknown size depend on values that only the run knows: they are refused by name and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weft.documents import Document
from weft.errors import nearest, shorten
from weft.expressions import Expression, parse
from weft.formats.complaints import Complaints
from weft.formats.diet_iteration import Axes, Iteration, iterate
from weft.formats.diet_ports import port_bytes
from weft.formats.diet_processors import Processor, read_processors
from weft.formats.ordering import refuse_cycle
from weft.formats.trace import literal
from weft.formats.xml_elements import Element
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import ALL, Dependency, IndexRange
from weft.workflow.records.sweep import Range, Sweep
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow

__all__ = ["read_functional"]

_VARIABLES = "ijklmnpqrs"
_UNNAMEABLE = re.compile(r"\W")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feed:
    """What arrives at a port: from which processor, and how it is numbered."""

    axes: Axes
    producer: str | None = None
    """None: a source or a constant."""
    port: str = ""
    gathered: int = 0
    """Axes of the producer that end up in one container."""
    split: bool = False
    """The last axis counts the entries of a container."""


def read_functional(root: Element, complaints: Complaints) -> Workflow:
    """Make a workflow of a ``workflow`` element. Raises InvalidInput."""
    source = complaints.source
    processors = read_processors(root, complaints)
    complaints.finish()
    unfolding = _Unfolding(root, processors, complaints)
    complaints.finish()
    tasks = unfolding.tasks()
    complaints.finish()
    sources = ", ".join(unfolding.items)
    return Workflow(
        name=root.attributes.get("name") or source.stem,
        tasks=tuple(tasks),
        params=dict.fromkeys(unfolding.items.values(), 1),
        description=f"functional workflow over {sources}; -p NAME_items=N says how many" if sources else None,
        document=Document(file=source.name),
    )


class _Unfolding:
    """The processors, the links between their ports, and the axes that follow from them."""

    def __init__(self, root: Element, processors: Mapping[str, Processor], complaints: Complaints) -> None:
        self.complaints = complaints
        self.processors = processors
        self.items: dict[str, str] = {}
        """Of every source: the parameter that counts its items."""
        self._constants: set[str] = set()
        self._sinks: set[str] = set()
        self._links: dict[tuple[str, str], tuple[str, str]] = {}
        """Of every port that reads: the processor and port, or the source, that it reads."""
        self._read_interface(root)
        for element in _below(root, "links"):
            self._read_link(element)

    def _read_interface(self, root: Element) -> None:
        for element in _below(root, "interface"):
            name = element.attributes.get("name", "")
            if element.name == "source" and name:
                self.items[name] = f"{_UNNAMEABLE.sub('_', name)}_items"
            elif element.name == "constant" and name:
                self._constants.add(name)
            elif element.name == "sink" and name:
                self._sinks.add(name)
            else:
                rule = "an interface holds elements source, sink and constant with names"
                what = f"element {shorten(element.name, 40)} in interface"
                self.complaints.add(what, rule=rule, line=element.line)

    def _read_link(self, element: Element) -> None:
        start, end = element.attributes.get("from", ""), element.attributes.get("to", "")
        if element.name != "link" or not start or not end:
            what = f"element {shorten(element.name, 40)} in links"
            self.complaints.add(what, rule='a link is <link from="..." to="..."/>', line=element.line)
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
            self.complaints.add(what, rule=rule, advice=advice, line=element.line)
        reader, _, port = end.partition(":")
        name, _, written = start.partition(":")
        if port and self._links.setdefault((reader, port), (name, written)) != (name, written):
            what, rule = f"a second link to {shorten(end, 60)!r}", "a port reads from one place"
            self.complaints.add(what, rule=rule, line=element.line)

    def tasks(self) -> list[Task]:
        """Make the tasks: a processor's axes follow from those before it."""
        names = list(self.processors)
        position = {name: index for index, name in enumerate(names)}
        parents: list[list[int]] = [[] for _ in names]
        for (reader, _), (start, _) in self._links.items():
            if start in position:
                parents[position[reader]].append(position[start])
        made: dict[str, Task] = {}
        axes: dict[str, Axes] = {}
        for index in refuse_cycle(self.complaints.source, names, parents):
            processor = self.processors[names[index]]
            feeds = {port: self._feed(processor, port, axes) for port in processor.reads}
            iteration = iterate(
                processor.strategy,
                {port: feed.axes for port, feed in feeds.items()},
                processor.element,
                self.complaints,
            )
            if len(iteration.axes) > len(_VARIABLES):
                what = f"{processor.name} runs over {len(iteration.axes)} levels"
                self.complaints.add(what, rule=f"at most {len(_VARIABLES)}", line=processor.element.line)
            self.complaints.finish()
            axes[processor.name] = iteration.axes
            made[processor.name] = self._task(processor, feeds, iteration, axes)
        return [made[name] for name in names]

    def _feed(self, processor: Processor, port: str, axes: Mapping[str, Axes]) -> _Feed:
        """Find what arrives at a port, and how its nesting differs from what the port takes."""
        element = processor.reads[port]
        start, written = self._links.get((processor.name, port), ("", ""))
        if start in self.items:
            return _Feed(axes=(self.items[start],))
        if start not in self.processors:
            if start not in self._constants:
                what = f"port {shorten(processor.name, 40)}:{shorten(port, 40)} without a link"
                self.complaints.add(what, rule="every port that reads is linked", line=element.line)
            return _Feed(axes=())
        output = self.processors[start].writes[written]
        deeper = processor.depth(element, self.complaints) - processor.depth(output, self.complaints)
        above = axes[start]
        if deeper == 0:
            return _Feed(axes=above, producer=start, port=written)
        if 0 < deeper <= len(above):
            return _Feed(axes=above[:-deeper], producer=start, port=written, gathered=deeper)
        if deeper == -1 and output.attributes.get("card", "").isdecimal():
            count = output.attributes["card"]
            return _Feed(axes=(*above, count), producer=start, port=written, split=True)
        self._refuse_nesting(processor, port, output, deeper)
        return _Feed(axes=(), producer=start, port=written)

    def _refuse_nesting(self, processor: Processor, port: str, output: Element, deeper: int) -> None:
        name = shorten(output.attributes.get("name", ""), 40)
        if deeper < 0:
            what = f"{output.name} {name!r} gives a container whose size only the run knows"
            rule = f"{shorten(processor.name, 40)}:{shorten(port, 40)} takes its entries one by one"
            advice = 'say how many entries it has: card="2" (one level at most)'
        else:
            what = f"{shorten(processor.name, 40)}:{shorten(port, 40)} gathers {deeper} levels of {name!r}"
            rule, advice = "there are not so many", "lower the depth of the port"
        self.complaints.add(what, rule=rule, advice=advice, line=output.line)

    def _task(
        self,
        processor: Processor,
        feeds: Mapping[str, _Feed],
        iteration: Iteration,
        axes: Mapping[str, Axes],
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


def _below(root: Element, name: str) -> Iterator[Element]:
    return (child for element in root.children if element.name == name for child in element.children)


def _values(variable: str, count: str) -> tuple[str, Range]:
    return variable, Range(low=parse("0"), high=parse(f"{count} - 1"))


def _dependency(feed: _Feed, kept: list[str], count: int) -> Dependency:
    assert feed.producer is not None
    index: tuple[Expression | IndexRange | str, ...] = tuple(map(parse, kept)) + (ALL,) * feed.gathered
    return Dependency(task=feed.producer, index=index if count else None)


def _file(processor: str, port: str, variables: str | list[str]) -> str:
    return literal(f"{processor}#{port}") + "".join(f".{{{variable}}}" for variable in variables)
