"""Safe parsing of XML files into parser events, or into a tree of elements with their lines."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges
from xml.sax.xmlreader import AttributesImpl, InputSource, Locator

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from weft.errors import shorten
from weft.formats.format import SourceFile, file_error


def parse_xml(source: SourceFile, handler: ContentHandler, *, names_grammar: bool = False) -> None:
    """Send the parser events of a file to a handler. Raises InvalidInput if the file is not valid XML.

    Entities are refused, and files that a document names are never opened.

    With ``names_grammar`` the file may name a grammar (``<!DOCTYPE dag SYSTEM "dag.dtd">``); the grammar is
    not opened.
    """
    if not source.data.strip():
        raise file_error(source, "the file is empty")
    parser = defusedxml.sax.make_parser()
    parser.setContentHandler(handler)
    if names_grammar:
        parser.forbid_external = False
        parser.setFeature(feature_external_ges, False)
    given = InputSource()
    given.setByteStream(io.BytesIO(source.data))
    try:
        parser.parse(given)
    except DefusedXmlException as error:
        what = f"the XML declares entities ({type(error).__name__})"
        raise file_error(
            source, what, rule="entities are not allowed: they can expand without bound"
        ) from None
    except SAXParseException as error:
        line, column = error.getLineNumber(), (error.getColumnNumber() or 0) + 1
        what = f"not well-formed XML: {error.getMessage()}"
        raise file_error(source, what, line=line, column=column) from None
    except (SAXException, LookupError, ValueError) as error:
        raise file_error(source, f"not XML: {shorten(str(error))}") from None


@dataclass(slots=True, kw_only=True)
class XmlElement:
    """One element; ``text`` is its text before the first child element."""

    name: str
    """The name without its namespace prefix."""
    attributes: Mapping[str, str]
    line: int | None
    children: list[XmlElement] = field(default_factory=list)
    text: str = ""


def read_xml_tree(source: SourceFile) -> XmlElement:
    """Return the root element of a file. Raises InvalidInput if it is not XML."""
    tree = _XmlTreeBuilder()
    parse_xml(source, tree, names_grammar=True)
    assert tree.root is not None, "well-formed XML has a first element"
    return tree.root


class _XmlTreeBuilder(ContentHandler):
    """Builds the tree with a stack instead of recursion, since the nesting is not bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.root: XmlElement | None = None
        self._open: list[XmlElement] = []
        self._locator: Locator | None = None

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 -- named by xml.sax
        """Store the locator, which has the current line."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl[str]) -> None:  # noqa: N802 -- named by xml.sax
        """Add an element as a child of the innermost open element."""
        line = None if self._locator is None else self._locator.getLineNumber()
        element = XmlElement(name=name.rpartition(":")[2], attributes=dict(attrs.items()), line=line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def characters(self, content: str) -> None:
        """Add text to the innermost open element, unless it has children."""
        if self._open and not self._open[-1].children and not content.isspace():
            self._open[-1].text += content

    def endElement(self, name: str) -> None:  # noqa: ARG002, N802 -- named by xml.sax
        """Close the innermost open element."""
        self._open.pop()
