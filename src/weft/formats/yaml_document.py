"""YAML and JSON text as a tree of nodes that know their line and column."""

from __future__ import annotations

import re
from typing import Any

import yaml

from weft.documents import Document
from weft.errors import InvalidInput
from weft.formats.yaml_problems import checked_text, reworded
from weft.formats.yaml_tree import TreeBuilder

__all__ = ["parse_document"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HALVES = re.compile(r"((?<!\\)(?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def parse_document(text: str, file: str | None) -> Document:
    """Read one YAML or JSON document; whatever is wrong with it becomes an InvalidInput with its place."""
    text = _joined(checked_text(text, file))
    builder = TreeBuilder(file)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise InvalidInput([*builder.problems, reworded(error, text, file)]) from None
    return Document(file=file, root=builder.finish())


def _joined(text: str) -> str:
    """Replace JSON's escape of one character as two halves, which YAML does not know, by the character."""
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return _HALVES.sub(lambda pair: pair[1] + _character(int(pair[2], 16), int(pair[3], 16)), text)


def _character(high: int, low: int) -> str:
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
