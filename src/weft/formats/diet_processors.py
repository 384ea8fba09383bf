"""The processors of a functional workflow of DIET: their services and ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weft.errors import nearest, shorten
from weft.formats.complaints import Complaints
from weft.formats.xml_elements import Element

__all__ = ["Processor", "read_processors"]

_SECTIONS = ("include", "interface", "processors", "links")
_REFUSED = {
    "include": "other files are not read in",
    "loop": "how often it runs depends on values that only the run knows",
    "condition": "which branch is taken depends on values that only the run knows",
    "merge": "two streams in one have no common numbering",
    "filter": "what passes depends on values that only the run knows",
    "subWorkflow": "workflows inside workflows are not read",
    "beanshell": "a script of the workflow agent is no service",
    "gasw": "a descriptor of another system is no service",
}
"""Elements of the language that cannot be unfolded, and why."""
_ADVICE = {"loop": "write the loop in weft's own format, with until or max_iterations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """One processor: what it calls, what it reads and writes, how it goes over its data."""

    name: str
    element: Element
    service: str | None
    reads: Mapping[str, Element]
    writes: Mapping[str, Element]
    strategy: Element | None
    attributes: Mapping[str, object] = field(default_factory=dict)

    def ports(self, part: str) -> Mapping[str, Element]:
        """Give the ports of one side: ``reads`` or ``writes``."""
        return self.reads if part == "reads" else self.writes

    def depth(self, port: Element, complaints: Complaints) -> int:
        """Give the nesting of a port's data; 0: single values."""
        text = port.attributes.get("depth", "0")
        if len(text) < 3 and text.isdecimal():
            return int(text)
        what = f"depth={shorten(text, 40)!r} of {self.name}"
        complaints.add(what, rule="must be a whole number, at least 0", line=port.line)
        return 0


def read_processors(root: Element, complaints: Complaints) -> dict[str, Processor]:
    """Read what a workflow lists; what cannot be unfolded is complained about."""
    found: dict[str, Processor] = {}
    for section in root.children:
        if section.name not in _SECTIONS or section.name in _REFUSED:
            _complain(section, complaints, _SECTIONS)
    for element in _processors(root):
        if element.name != "processor":
            _complain(element, complaints, ("processor",))
            continue
        processor = _processor(element, complaints)
        if processor.name in found:
            what = f"processor {shorten(processor.name, 40)!r} again"
            complaints.add(what, rule="names of processors are unique", line=element.line)
        found[processor.name] = processor
    if not found:
        complaints.add("no processors", rule="a workflow has at least one processor", line=root.line)
    return found


def _processors(root: Element) -> Iterator[Element]:
    return (child for element in root.children if element.name == "processors" for child in element.children)


def _processor(element: Element, complaints: Complaints) -> Processor:
    reads: dict[str, Element] = {}
    writes: dict[str, Element] = {}
    strategy: Element | None = None
    call: Element | None = None
    known = ("param", "in", "inOut", "out", "iterationstrategy", "diet")
    for part in element.children:
        if part.name in ("param", "in", "inOut"):
            reads[_named(part, complaints)] = part
        if part.name in ("out", "inOut"):
            writes[_named(part, complaints)] = part
        if part.name == "iterationstrategy":
            strategy = part
        elif part.name == "diet":
            call = part
        elif part.name not in known:
            _complain(part, complaints, known)
    attributes: dict[str, object] = {}
    if call is None:
        what = f"processor {shorten(element.attributes.get('name', ''), 40)!r} without a service"
        complaints.add(what, rule='a processor holds <diet path="SERVICE"/>', line=element.line)
    else:
        attributes = {key: value for key, value in call.attributes.items() if key != "path"}
        attributes["program"] = _named(call, complaints, "path")
    return Processor(
        name=_named(element, complaints),
        element=element,
        service=None if call is None else call.attributes.get("path"),
        reads=reads,
        writes=writes,
        strategy=strategy,
        attributes=attributes,
    )


def _named(element: Element, complaints: Complaints, key: str = "name") -> str:
    value = element.attributes.get(key, "")
    if not value:
        what, rule = f"{element.name} without {key}", f"every {element.name} has the attribute {key}"
        complaints.add(what, rule=rule, line=element.line)
    return value


def _complain(element: Element, complaints: Complaints, known: tuple[str, ...]) -> None:
    name = element.attributes.get("name") or element.attributes.get("file")
    what = f"element {shorten(element.name, 40)}" + (f" {shorten(name, 40)!r}" if name else "")
    if element.name in _REFUSED:
        advice = _ADVICE.get(element.name, "")
        complaints.add(what, rule=_REFUSED[element.name], advice=advice, line=element.line)
        return
    close = nearest(element.name, known)
    advice = f"did you mean {close}?" if close else f"known: {', '.join(known)}"
    complaints.add(what, rule="it has no meaning here", advice=advice, line=element.line)
