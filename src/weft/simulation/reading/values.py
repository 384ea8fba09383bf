"""Values of a scenario: times, shares, ranges to draw from, names of machines, entries with required keys."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from weft.braces import expand_braces
from weft.documents import Node, Reader
from weft.simulation.scenario import Span
from weft.units import parse_seconds
from weft.workflow.reading.values import split_range

__all__ = [
    "read_entry",
    "read_machines",
    "read_number",
    "read_patterns",
    "read_seconds",
    "read_seconds_span",
    "read_span",
    "refuse_together",
]

_Parse = Callable[[str], float | None]


def read_entry(
    reader: Reader, node: Node, keys: Mapping[str, str], needed: Sequence[str] = ()
) -> dict[str, Node]:
    """Read the keys of an entry; one without a value counts as not written, a needed one is missed."""
    written = reader.mapping(node, keys)
    entries = {key: value for key, value in written.items() if value.value is not None}
    for key in needed:
        if key not in entries and isinstance(node.value, dict):
            reader.complain(node, f"an entry without the key {key!r}", rule=f"it needs {keys[key]!r}")
    return entries


def refuse_together(
    reader: Reader, node: Node, entries: Mapping[str, Node], keys: Sequence[str], rule: str
) -> None:
    """Complain if more than one of some keys is written."""
    found = [key for key in keys if key in entries]
    if len(found) > 1:
        reader.complain(node, f"{' and '.join(map(repr, found))} in one entry", rule=rule, advice="keep one")


def read_seconds(reader: Reader, node: Node | None, default_s: float, *, above_0: bool = False) -> float:
    """Read a time: ``90``, ``1h30m``."""
    if node is None:
        return default_s
    wanted = f"a time such as 90, 90s or 1h30m, {'above 0' if above_0 else 'at least 0'}"
    found = _quantity(reader, node, parse_seconds, wanted, 0.0, above_0)
    return default_s if found is None else found


def read_number(reader: Reader, node: Node | None, default: float, *, least: float, most: float = math.inf,
                above: bool = False) -> float:  # fmt: skip
    """Read a plain number within bounds."""
    if node is None:
        return default
    wanted = f"a number {'above' if above else 'at least'} {least:g}"
    wanted += f" and at most {most:g}" if math.isfinite(most) else ""
    found = _quantity(reader, node, None, wanted, least, above)
    if found is not None and found > most:
        reader.complain(node, f"{node.shown()} is not allowed", rule=f"must be {wanted}")
        return default
    return default if found is None else found


def _quantity(
    reader: Reader, node: Node, parse: _Parse | None, wanted: str, least: float, above: bool
) -> float | None:
    found: float | None = None
    if isinstance(node.value, str) and parse is not None:
        found = parse(node.value)
    elif isinstance(node.value, int | float) and not isinstance(node.value, bool):
        found = float(node.value) if abs(node.value) < _MOST else None
    else:
        reader.wanted(node, wanted)
        return None
    if found is None or not found >= least or (above and found == least):
        reader.complain(node, f"{node.shown()} is not allowed", rule=f"must be {wanted}")
        return None
    return found


_MOST = 1e300
"""Numbers beyond are slips."""


def read_seconds_span(reader: Reader, node: Node | None, default_s: float) -> Span:
    """Read a time or a range of times: ``100s..600s``."""
    wanted = "a time, or a range such as 100s..600s, at least 0"
    return _span(reader, node, parse_seconds, wanted, 0.0, default_s)


def read_span(reader: Reader, node: Node | None, *, least: float, default: float) -> Span:
    """Read a number or a range of numbers: ``3..10``."""
    wanted = f"a number, or a range such as 3..10, at least {least:g}"
    return _span(reader, node, _number, wanted, least, default)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _span(
    reader: Reader, node: Node | None, parse: _Parse, wanted: str, least: float, default: float
) -> Span:
    if node is None:
        return Span(low=default, high=default)
    halves = split_range(node.value) if isinstance(node.value, str) else None
    if halves is None:
        single = _quantity(reader, node, parse, wanted, least, above=False)
        return Span(low=single, high=single) if single is not None else Span(low=default, high=default)
    low, high = (parse(half.strip()) for half in halves)
    if low is None or high is None or not least <= low <= high:
        advice = (
            "the smaller bound comes first" if low is not None and high is not None and low > high else ""
        )
        reader.complain(node, f"range {node.shown()} is not allowed", rule=f"must be {wanted}", advice=advice)
        return Span(low=default, high=default)
    return Span(low=low, high=high)


def read_machines(
    reader: Reader, node: Node, entries: Mapping[str, Node], default: str | None = None
) -> tuple[str, ...]:
    """Read which machines an entry is about: ``machine``, or ``machines`` with ranges written out."""
    refuse_together(reader, node, entries, ("machine", "machines"), "an entry names its machines once")
    at = entries.get("machines", entries.get("machine"))
    if at is None:
        if default is not None:
            return (default,)
        if isinstance(node.value, dict):
            advice = "add `machine: NAME`, or `machines:` with names or wildcards"
            reader.complain(node, "an entry without machines", advice=advice)
        return ()
    if isinstance(at.value, list) and not at.value:
        reader.complain(at, "no machine is named", advice='name one, or write "*" for all')
    return read_patterns(reader, at)


def read_patterns(reader: Reader, node: Node) -> tuple[str, ...]:
    """Read names and wildcards of machines, ranges written out."""
    names: list[str] = []
    for item in reader.listing(node):
        text = reader.text(item)
        expanded = None if text is None else reader.guard(item, functools.partial(expand_braces, text))
        names += expanded or []
    return tuple(names)
