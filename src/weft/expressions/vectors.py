"""Operators over whole columns at once, wherever NumPy gives exactly what single values give.

Every function here returns None when it cannot promise that: strange types, numbers that could overflow or
lose digits, a zero divisor, an infinite result. The caller then goes row by row with the operators for single
values, which also find the right words for what is wrong. Broken powers and logarithms are not here, since
NumPy's may differ from Python's in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.expressions.kinds import Value

__all__ = [
    "FAST_FUNCTIONS",
    "Array",
    "Column",
    "as_objects",
    "fast_arithmetic",
    "fast_compare",
    "fast_sign",
    "pack",
]

Array: TypeAlias = npt.NDArray[Any]
Column: TypeAlias = Array | Value
"""One value per row, or one value for all of them."""

_EXACT = 2**53
_INT64 = 2**63

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def pack(values: Sequence[Value]) -> Array:
    """Make a column of values: of numbers or truth values if all are of one type, else of objects."""
    types = set(map(type, values))
    if types == {float} or types == {bool}:
        return np.array(values)
    if types == {int} and min(values) >= -_INT64 and max(values) < _INT64:  # type: ignore[type-var, operator]
        return np.array(values, dtype=np.int64)
    return as_objects(values)


def as_objects(values: Sequence[Value]) -> Array:
    """Make a column of objects; entry by entry, for NumPy would turn lists into a second dimension."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _kind(operand: Column) -> str:
    """Tell ``i`` or ``f`` for integers or floats that NumPy can work on, ``U`` for strings, else nothing."""
    if isinstance(operand, np.ndarray):
        return operand.dtype.kind if operand.dtype.kind in "ifU" else ""
    if type(operand) is int:
        return "i" if abs(operand) <= _EXACT else ""
    if type(operand) is float:
        return "f"
    # NumPy drops trailing NULs of strings in its own string columns, so a string with one is left to Python.
    return "U" if type(operand) is str and "\0" not in operand else ""


def _largest(operand: Any) -> int:
    if isinstance(operand, np.ndarray):
        return max(abs(int(operand.max())), abs(int(operand.min())))
    return abs(int(operand))


def _exact_as_floats(kinds: str, operands: tuple[Any, Any]) -> bool:
    return all(
        kind == "f" or _largest(operand) <= _EXACT for kind, operand in zip(kinds, operands, strict=True)
    )


def fast_arithmetic(operator: str, left: Column, right: Column) -> Array | None:
    """Calculate ``+ - * /`` of numbers, ``// % **`` of integers."""
    kinds = _kind(left) + _kind(right)
    if operator == "**" and kinds == "ii" and type(right) is int:
        return _integer_power(left, right)
    if operator not in _OPERATORS or len(kinds) != 2 or "U" in kinds:
        return None
    if operator in ("/", "//", "%") and np.any(np.equal(right, 0)):  # type: ignore[arg-type]
        return None
    if kinds == "ii" and operator != "/":
        return _of_integers(operator, left, right)
    if operator in ("//", "%") or not _exact_as_floats(kinds, (left, right)):
        return None
    with np.errstate(all="ignore"):
        result: Array = _OPERATORS[operator](left, right)
    if np.isinf(result).any():
        return None
    unknown = np.isnan(left) | np.isnan(right)  # type: ignore[arg-type]
    return result if np.array_equal(np.isnan(result), np.broadcast_to(unknown, result.shape)) else None


def _of_integers(operator: str, left: Any, right: Any) -> Array | None:
    one, other = _largest(left), _largest(right)
    reach = one * other if operator == "*" else one + other
    if reach >= _INT64:
        return None
    result: Array = _OPERATORS[operator](left, right)
    return result


def _integer_power(base: Any, exponent: int) -> Array | None:
    if not 0 <= exponent < 64 or _largest(base) ** exponent >= _INT64:
        return None
    result: Array = np.power(base, exponent)
    return result


def fast_compare(operator: str, left: Column, right: Column) -> Array | None:
    """Compare numbers with numbers and strings with strings; NaN makes it false."""
    kinds = _kind(left) + _kind(right)
    if operator not in _COMPARISONS or kinds not in ("ii", "if", "fi", "ff", "UU"):
        return None
    if kinds in ("if", "fi") and not _exact_as_floats(kinds, (left, right)):
        return None
    result: Array = _COMPARISONS[operator](left, right)
    if operator == "!=" and "f" in kinds:
        result = result & ~(np.isnan(left) | np.isnan(right))  # type: ignore[arg-type]
    return result


def fast_sign(operator: str, operand: Column) -> Array | None:
    """Negate a column of numbers."""
    kind = _kind(operand)
    if (
        not isinstance(operand, np.ndarray)
        or kind not in ("i", "f")
        or (kind == "i" and _largest(operand) >= _INT64)
    ):
        return None
    return -operand if operator == "-" else operand


def _absolute(operand: Column) -> Array | None:
    negated = fast_sign("-", operand)
    return None if negated is None else np.abs(operand)  # type: ignore[arg-type]


def _square_root(operand: Column) -> Array | None:
    if not isinstance(operand, np.ndarray) or operand.dtype.kind != "f" or np.any(operand < 0):
        return None
    return np.sqrt(operand)


def _whole(function: Callable[[Any], Any]) -> Callable[[Column], Array | None]:
    def apply(operand: Column) -> Array | None:
        if not isinstance(operand, np.ndarray) or operand.dtype.kind not in "if":
            return None
        if operand.dtype.kind == "i":
            return operand
        within = np.abs(operand) <= _EXACT
        return function(operand).astype(np.int64) if within.all() else None

    return apply


def _extreme(better: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    # The first of equals wins, as in Python; NaN in any column makes the row unknown.
    def apply(*operands: Column) -> Array | None:
        kinds = {_kind(operand) for operand in operands}
        if kinds not in ({"i"}, {"f"}) or len(operands) < 2:
            return None
        best: Any = operands[0]
        for operand in operands[1:]:
            best = np.where(better(operand, best) | np.not_equal(operand, operand), operand, best)  # type: ignore[arg-type]
        return np.asarray(best)

    return apply


FAST_FUNCTIONS: dict[str, Callable[..., Array | None]] = {
    "abs": _absolute,
    "ceil": _whole(np.ceil),
    "floor": _whole(np.floor),
    "sqrt": _square_root,
    "min": _extreme(np.less),
    "max": _extreme(np.greater),
}
"""Functions with a form over columns; the others go row by row."""
