"""Values as users write them: quantities, expressions, ranges, value sets, indexed names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from weft.documents import Node, Reader
from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, parse
from weft.units import parse_bytes, parse_seconds
from weft.workflow.records.dependency import ALL, IndexRange
from weft.workflow.records.quantity import Quantity
from weft.workflow.records.sweep import Range, Values

__all__ = [
    "Indices",
    "parse_reference",
    "read_bytes",
    "read_count",
    "read_expression",
    "read_parameter",
    "read_quantity",
    "read_range",
    "read_seconds",
    "read_values",
    "split_range",
]


Indices = tuple[Expression | IndexRange | str, ...]
"""What stands between the brackets of ``a[i, 2*j-1..2*j]``."""

_MOST = 1e300
"""Numbers beyond are slips, and would not fit into arrays."""
_MOST_DIGITS = 18


def _quantity(
    reader: Reader, node: Node, what: str, parse_unit: Callable[[str], float | None]
) -> Quantity | None:
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not -_MOST < value < _MOST:
            reader.complain(node, f"{node.shown()} is not allowed", rule=f"must be a finite number of {what}")
            return None
        return value
    if isinstance(value, str):
        number = parse_unit(value)
        if number is not None:
            return int(number) if number.is_integer() else number
        return read_expression(reader, node)
    reader.wanted(node, f"a number of {what}, a quantity with unit, or an expression")
    return None


def read_seconds(reader: Reader, node: Node) -> Quantity | None:
    """Read a time: ``90``, ``1h30m``, ``2*n``."""
    return _quantity(reader, node, "seconds", parse_seconds)


def read_bytes(reader: Reader, node: Node) -> Quantity | None:
    """Read a size: ``40MB``, ``200*n``."""
    return _quantity(reader, node, "bytes", parse_bytes)


def read_quantity(reader: Reader, node: Node) -> Quantity | None:
    """Read a pure number or an expression; a time counts as its seconds (work is seconds on speed 1)."""
    return _quantity(reader, node, "units", parse_seconds)


def read_count(reader: Reader, node: Node) -> Quantity | None:
    """Read a whole number or an expression."""
    return _quantity(reader, node, "units", _whole)


def _whole(text: str) -> float | None:
    text = text.strip()
    return float(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def read_expression(reader: Reader, node: Node) -> Expression | None:
    """Read an expression; a leading ``=`` is allowed."""
    if not isinstance(node.value, str | bool | int | float):
        reader.wanted(node, "an expression in text")
        return None
    text = node.value.strip().removeprefix("=") if isinstance(node.value, str) else str(node.value)
    found: Expression | None = reader.guard(node, lambda: parse(text))
    return found


def read_parameter(reader: Reader, node: Node) -> Value | Expression:
    """Read a parameter: a plain value, or a formula if it is text with a leading ``=``; None: unreadable."""
    if isinstance(node.value, str) and node.value.startswith("="):
        return read_expression(reader, node)
    plain: Value = node.plain()
    return plain


def split_range(text: str) -> tuple[str, str] | None:
    """Split ``low..high`` outside brackets and quotes; None if it is not a range."""
    cuts = _cuts(text, "..")
    return None if not cuts else (text[: cuts[0]], text[cuts[0] + 2 :])


def _cuts(text: str, separator: str) -> list[int]:
    """Find where a separator stands outside brackets and quotes."""
    depth, quote, cuts, position = 0, "", [], 0
    while position < len(text):
        char = text[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(separator, position):
            cuts.append(position)
            position += len(separator) - 1
        position += 1
    return cuts


def read_range(reader: Reader, node: Node, text: str) -> Range | None:
    """Read ``low..high`` or ``low..high step s``; None if the text is not a range or is wrong."""
    halves = split_range(text)
    if halves is None:
        return None
    high, word, step = halves[1].partition(" step ")
    ends = [reader.guard(node, partial(parse, part)) for part in (halves[0], high, *([step] if word else []))]
    if None in ends:
        return None
    return Range(low=ends[0], high=ends[1], step=ends[2] if word else None)


def read_values(reader: Reader, node: Node) -> Values | None:
    """Read the value set of a sweep variable: a list, a range, or an expression that gives a list."""
    if isinstance(node.value, list):
        return tuple(item.plain() for item in node.value)
    if isinstance(node.value, str):
        if split_range(node.value) is not None:
            return read_range(reader, node, node.value)
        return read_expression(reader, node)
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return (node.value,)
    reader.wanted(node, "a list, a range such as 1..50, or an expression", "write `name: [1, 2, 3]`")
    return None


def parse_reference(text: str) -> tuple[str, Indices | None]:
    """Split ``a[i, 2*j-1..2*j]`` into the task's name and its index."""
    text = text.strip()
    name, bracket, rest = text.partition("[")
    if not name.strip():
        raise InvalidInput(
            Problem(what=f"{shorten(text)!r} names no task", advice="write name or name[index]")
        )
    if not bracket:
        return text, None
    if not rest.endswith("]"):
        what = f"{shorten(text)!r} has no closing bracket"
        raise InvalidInput(Problem(what=what, advice="write name[index]"))
    inside = rest[:-1]
    cuts = [-1, *_cuts(inside, ","), len(inside)]
    parts = [inside[start + 1 : end].strip() for start, end in pairwise(cuts)]
    return name.strip(), tuple(_index(part, text) for part in parts)


def _index(part: str, text: str) -> Expression | IndexRange | str:
    if not part:
        raise InvalidInput(Problem(what=f"{shorten(text)!r} has an empty index", advice="write name[index]"))
    if part == ALL:
        return ALL
    halves = split_range(part)
    if halves is None:
        return parse(part)
    return IndexRange(low=parse(halves[0]), high=parse(halves[1]))
