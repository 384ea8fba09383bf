"""XML as a tree of elements that know their lines, for files that are small beside what they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from weft.formats.format import Source
from weft.formats.xml_source import parse_xml

__all__ = ["Element", "read_elements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element; text between elements is not kept."""

    name: str
    """Without its prefix."""
    attributes: Mapping[str, str]
    line: int | None
    children: list[Element] = field(default_factory=list)


def read_elements(source: Source) -> Element:
    """Read a file whole. Raises InvalidInput where it is not XML."""
    tree = _Tree()
    parse_xml(source, tree, names_grammar=True)
    assert tree.root is not None, "well-formed XML has a first element"
    return tree.root


class _Tree(ContentHandler):
    """Builds the tree as elements pass by; a stack instead of recursion, since nesting has no bound."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 -- named by xml.sax
        """Keep what knows the current line."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl[str]) -> None:  # noqa: N802 -- named by xml.sax
        """Hang an element below the one that is open."""
        line = None if self._locator is None else self._locator.getLineNumber()
        element = Element(name=name.rpartition(":")[2], attributes=dict(attrs.items()), line=line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def endElement(self, name: str) -> None:  # noqa: ARG002, N802 -- named by xml.sax
        """Close the element that was opened last."""
        self._open.pop()
