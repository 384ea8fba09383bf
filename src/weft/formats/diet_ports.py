"""Ports of DIET: how large what passes through them is, as far as its type tells."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["port_bytes"]

_COUNT = re.compile(r"[0-9]{1,9}")
_BYTES: Mapping[str, float] = {
    "DIET_CHAR": 1,
    "DIET_SHORT": 2,
    "DIET_INT": 4,
    "DIET_LONGINT": 8,
    "DIET_FLOAT": 4,
    "DIET_DOUBLE": 8,
    "DIET_SCOMPLEX": 8,
    "DIET_DCOMPLEX": 16,
}
_COUNTS = {"DIET_VECTOR": ("size",), "DIET_MATRIX": ("nb_rows", "nb_cols")}
"""What says how many values a type holds."""


def port_bytes(attributes: Mapping[str, str]) -> float | None:
    """Give the bytes of one value of a port; None: strings, files and containers may have any size."""
    kind = attributes.get("type", "")
    if attributes.get("depth", "0") != "0":
        return None
    if kind not in _COUNTS:
        return _BYTES.get(kind)
    total = _BYTES.get(attributes.get("base_type", ""))
    for key in _COUNTS[kind]:
        count = attributes.get(key, "")
        if total is None or not _COUNT.fullmatch(count):
            return None
        total *= int(count)
    return total
