"""What the operators do with single values: arithmetic with bounds, comparison, truth, indexing.

Every result is bounded (integers in bits, strings in characters, floats by being finite), so that no text
makes evaluation slow, however it is written.
"""

from __future__ import annotations

import math
import operator as standard
from collections.abc import Callable, Mapping
from typing import Any, cast

from weft.errors import nearest, shorten
from weft.expressions.failure import Refusal
from weft.expressions.kinds import Kind, Value, describe, kind_of, plain

__all__ = [
    "MAX_BITS",
    "MAX_EXPONENT",
    "MAX_STRING",
    "arithmetic",
    "bounded",
    "compare",
    "index",
    "sign",
    "truth",
]

MAX_BITS = 4096
"""Bits an integer may have."""
MAX_EXPONENT = 1024
"""How large an exponent may be, either way."""
MAX_STRING = 10_000
"""Characters that joining strings may give."""

_NUMERIC = (Kind.NUMBER, Kind.UNKNOWN)
_TEXTUAL = (Kind.STRING, Kind.UNKNOWN)


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Apply ``+ - * / // % **``; strings can be joined with ``+``; an unknown operand gives NaN."""
    kinds = kind_of(left), kind_of(right)
    if kinds == (Kind.NUMBER, Kind.NUMBER):
        return _calculate(operator, cast("float", left), cast("float", right))
    if operator == "+" and kinds == (Kind.STRING, Kind.STRING):
        return _join(cast("str", left), cast("str", right))
    if all(kind in _NUMERIC for kind in kinds) or (
        operator == "+" and all(kind in _TEXTUAL for kind in kinds)
    ):
        return math.nan
    raise Refusal(
        f"`{operator}` between {describe(left)} and {describe(right)}",
        rule="arithmetic takes two numbers" + (" or, with +, two strings" if operator == "+" else ""),
        advice="check the names and types of the operands",
    )


def _calculate(operator: str, left: float, right: float) -> float:
    bounded(left)
    bounded(right)
    try:
        result = _CALCULATIONS[operator](left, right)
    except ZeroDivisionError:
        advice = "guard it, for example `a / b if b != 0 else 0`"
        raise Refusal("division by zero", advice=advice) from None
    except OverflowError:
        raise _too_large() from None
    return bounded(result, left, right)


def _power(base: float, exponent: float) -> float:
    if not -MAX_EXPONENT <= exponent <= MAX_EXPONENT:
        rule = f"exponents lie between -{MAX_EXPONENT} and {MAX_EXPONENT}"
        raise Refusal(f"the exponent of ** is {describe(exponent)}", rule=rule)
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > MAX_BITS:
        raise _too_large()
    result = base**exponent
    if isinstance(result, complex):
        raise Refusal(f"a negative number to the power {exponent} has no real value")
    return cast("float", result)


_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": standard.add,
    "-": standard.sub,
    "*": standard.mul,
    "/": standard.truediv,
    "//": standard.floordiv,
    "%": standard.mod,
    "**": _power,
}


def bounded(result: float, *operands: float) -> float:
    """Give the result back, or refuse one that outgrew its operands."""
    if isinstance(result, int):
        if result.bit_length() > MAX_BITS:
            raise _too_large()
    elif math.isinf(result) and not any(isinstance(value, float) and math.isinf(value) for value in operands):
        if operands:
            raise _too_large()
    elif math.isnan(result):
        raise Refusal("the result is not a number", advice="check for infinite operands")
    return result


def _too_large() -> Refusal:
    rule = f"integers have at most {MAX_BITS} bits, other numbers stay below 1.8e308"
    return Refusal("the result is too large", rule=rule, advice="use smaller units, such as 1e9 operations")


def _join(left: str, right: str) -> str:
    if len(left) + len(right) > MAX_STRING:
        raise Refusal("the joined string is too long", rule=f"strings have at most {MAX_STRING} characters")
    return left + right


def sign(operator: str, operand: Value) -> Value:
    """Apply ``-`` or ``+`` to one operand."""
    kind = kind_of(operand)
    if kind is Kind.UNKNOWN:
        return math.nan
    if kind is not Kind.NUMBER:
        raise Refusal(f"`{operator}` before {describe(operand)}", rule="a sign takes a number")
    number = bounded(cast("float", operand))
    return -number if operator == "-" else number


def truth(value: Value) -> bool:
    """Read a value as a condition; unknown counts as false."""
    kind = kind_of(value)
    if kind is Kind.BOOLEAN:
        return bool(value)
    if kind is Kind.UNKNOWN:
        return False
    advice = (
        "compare it, for example `x != 0`" if kind is Kind.NUMBER else "compare it, for example `x == ...`"
    )
    raise Refusal(
        f"{describe(value)} used as a condition", rule="conditions are true or false", advice=advice
    )


def compare(operator: str, left: Value, right: Value) -> bool:
    """Apply a comparison; with an unknown side every one of them is false, ``!=`` and ``not in`` too."""
    kinds = kind_of(left), kind_of(right)
    if Kind.UNKNOWN in kinds:
        return False
    try:
        if operator in _ORDERINGS:
            return _order(operator, left, right, kinds)
        if operator in ("==", "!="):
            return _equal(left, right) == (operator == "==")
        return _contains(right, left) == (operator == "in")
    except RecursionError:
        raise Refusal("the lists to compare are nested too deeply") from None


_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": standard.lt,
    "<=": standard.le,
    ">": standard.gt,
    ">=": standard.ge,
}


def _order(operator: str, left: Value, right: Value, kinds: tuple[Kind, Kind]) -> bool:
    if kinds in ((Kind.NUMBER, Kind.NUMBER), (Kind.STRING, Kind.STRING)):
        return _ORDERINGS[operator](left, right)
    raise Refusal(
        f"`{operator}` between {describe(left)} and {describe(right)}",
        rule="only two numbers or two strings have an order",
        advice="compare values of one kind; == and != take any",
    )


def _equal(left: Value, right: Value) -> bool:
    kind = kind_of(left)
    if kind is Kind.UNKNOWN or kind is not kind_of(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _equal(plain(one), plain(other)) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _equal(plain(left[key]), plain(right[key])) for key in left
        )
    return left == right


def _contains(container: Value, item: Value) -> bool:
    if isinstance(container, list):
        return any(_equal(plain(entry), item) for entry in container)
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if isinstance(container, Mapping):
        return isinstance(item, str | int | float) and item in container
    raise Refusal(
        f"`in` between {describe(item)} and {describe(container)}",
        rule="`in` looks for a value in a list, a string in a string, or a key in a mapping",
    )


def index(target: Value, key: Value) -> Value:
    """Take one entry: of a list by position (from 0, or from the end), of a mapping by key."""
    if Kind.UNKNOWN in (kind_of(target), kind_of(key)):
        return None
    if isinstance(target, list):
        return _entry(target, key)
    if not isinstance(target, Mapping):
        raise Refusal(f"{describe(target)} has no entries", rule="only lists and mappings can be indexed")
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise Refusal(f"{describe(key)} used as a key", rule="keys are strings or numbers")
    if key not in target:
        close = nearest(str(key), [entry for entry in target if isinstance(entry, str)])
        advice = f"did you mean {close!r}?" if close else f"known: {shorten(', '.join(map(str, target)))}"
        raise Refusal(f"no entry {shorten(repr(key), 40)} in the mapping", advice=advice)
    return plain(target[key])


def _entry(target: list[Any], position: Value) -> Value:
    if isinstance(position, bool) or not isinstance(position, int):
        advice = "round it with int(...)" if isinstance(position, float) else ""
        raise Refusal(
            f"{describe(position)} used as a position", rule="positions are whole numbers", advice=advice
        )
    if not -len(target) <= position < len(target):
        rule = (
            f"a list of {len(target)} has positions 0 to {len(target) - 1}" if target else "the list is empty"
        )
        raise Refusal(f"position {describe(position)} is outside the list", rule=rule, advice="count from 0")
    return plain(target[position])
