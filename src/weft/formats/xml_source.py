"""XML that is read safely: entities are refused, files that it names are never opened."""

from __future__ import annotations

import io
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges
from xml.sax.xmlreader import InputSource

import defusedxml.sax
from defusedxml.common import DefusedXmlException

from weft.errors import shorten
from weft.formats.format import Source, damaged

__all__ = ["parse_xml"]


def parse_xml(source: Source, handler: ContentHandler, *, names_grammar: bool = False) -> None:
    """Feed a file to a handler. Raises InvalidInput where it is not XML.

    ``names_grammar``: the file may name its grammar (``<!DOCTYPE dag SYSTEM "dag.dtd">``); it is not opened.
    """
    if not source.data.strip():
        raise damaged(source, "the file is empty")
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
        raise damaged(source, what, rule="entities are not read: they can be bombs") from None
    except SAXParseException as error:
        line, column = error.getLineNumber(), (error.getColumnNumber() or 0) + 1
        what = f"not well-formed XML: {error.getMessage()}"
        raise damaged(source, what, line=line, column=column) from None
    except (SAXException, LookupError, ValueError) as error:
        raise damaged(source, f"not XML: {shorten(str(error))}") from None
