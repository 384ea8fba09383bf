"""How a processor of a functional workflow goes over the data at its ports: its iteration strategy.

What arrives at a port is numbered by some axes. ``dot`` pairs ports by position, ``cross`` takes every
combination; they nest. Without a strategy the ports are paired, as DIET does. The result says over which axes
the processor runs, and which of them each port follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import nearest, shorten
from weft.formats.complaints import Complaints
from weft.formats.xml_elements import Element

__all__ = ["Axes", "Iteration", "iterate"]

Axes = tuple[str, ...]
"""How many values there are along each axis, as expressions."""

_DEEPEST = 20
_UNREAD = ("flatcross", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """The axes of a processor, and for each port the positions of its own axes among them."""

    axes: Axes
    places: Mapping[str, tuple[int, ...]]


def iterate(
    strategy: Element | None, ports: Mapping[str, Axes], owner: Element, complaints: Complaints
) -> Iteration:
    """Combine the axes of all ports. What cannot be combined is complained about."""
    single = {name: _single(name, axes) for name, axes in ports.items()}
    if strategy is None:
        return _paired(list(single.values()), owner, complaints)
    reader = _Strategy(single, complaints)
    made = [reader.combine(element, 0) for element in strategy.children]
    if len(made) != 1:
        rule = "an iterationstrategy holds one element dot or cross"
        complaints.add(f"{len(made)} elements in iterationstrategy", rule=rule, line=strategy.line)
        return _paired([], owner, complaints)
    return reader.with_constants(made[0], strategy)


def _single(name: str, axes: Axes) -> Iteration:
    return Iteration(axes=axes, places={name: tuple(range(len(axes)))})


def _paired(parts: Sequence[Iteration], element: Element, complaints: Complaints) -> Iteration:
    """Pair by position; what has no axes is the same for all."""
    axes: Axes = ()
    for part in parts:
        if not axes:
            axes = part.axes
        elif part.axes and len(part.axes) != len(axes):
            what = f"ports paired over {len(axes)} and {len(part.axes)} levels in {_shown(element)}"
            rule = "only data of the same nesting are paired"
            complaints.add(what, rule=rule, advice="use cross", line=element.line)
        elif part.axes:
            axes = tuple(_shorter(one, other) for one, other in zip(axes, part.axes, strict=True))
    return Iteration(axes=axes, places={port: place for part in parts for port, place in part.places.items()})


def _shorter(one: str, other: str) -> str:
    return one if one == other else f"min({one}, {other})"


def _crossed(parts: Sequence[Iteration]) -> Iteration:
    axes: Axes = ()
    places: dict[str, tuple[int, ...]] = {}
    for part in parts:
        for port, place in part.places.items():
            places[port] = tuple(len(axes) + position for position in place)
        axes += part.axes
    return Iteration(axes=axes, places=places)


def _shown(element: Element) -> str:
    name = element.attributes.get("name")
    return f"{element.name} {shorten(name, 40)!r}" if name else element.name


class _Strategy:
    """Reads the elements of one strategy; every port is named once."""

    def __init__(self, ports: Mapping[str, Iteration], complaints: Complaints) -> None:
        self.ports = ports
        self.complaints = complaints
        self.named: set[str] = set()

    def combine(self, element: Element, depth: int) -> Iteration:
        """Combine what stands in an element."""
        if element.name == "port":
            return self._port(element)
        if element.name not in ("dot", "cross") or depth > _DEEPEST:
            rule = (
                "it cannot be unfolded" if element.name in _UNREAD else "strategies are made of dot and cross"
            )
            self.complaints.add(f"element {shorten(element.name, 40)}", rule=rule, line=element.line)
            return Iteration(axes=(), places={})
        parts = [self.combine(child, depth + 1) for child in element.children]
        return _crossed(parts) if element.name == "cross" else _paired(parts, element, self.complaints)

    def with_constants(self, made: Iteration, strategy: Element) -> Iteration:
        """Add the ports that the strategy does not name: allowed where their value is always the same."""
        places = dict(made.places)
        for name, port in self.ports.items():
            if name not in self.named and port.axes:
                what = f"port {shorten(name, 40)!r} is not in the iterationstrategy"
                self.complaints.add(what, rule="a strategy names every port", line=strategy.line)
            places.setdefault(name, ())
        return Iteration(axes=made.axes, places=places)

    def _port(self, element: Element) -> Iteration:
        name = element.attributes.get("name", "")
        if name not in self.ports or name in self.named:
            close = nearest(name, self.ports)
            advice = f"did you mean {close!r}?" if close and close != name else ""
            what = f"port {shorten(name, 40)!r} in the iterationstrategy"
            rule = "a strategy names every port that reads, once"
            self.complaints.add(what, rule=rule, advice=advice, line=element.line)
            return Iteration(axes=(), places={})
        self.named.add(name)
        return self.ports[name]
