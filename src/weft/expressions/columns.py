"""Operators over whole columns at once, wherever NumPy gives exactly what single values give.

Every function here returns None when it cannot promise that: strange types, numbers that could overflow or
lose digits, a zero divisor, an infinite result. The caller then goes row by row with the operators for single
values, which also find the right words for what is wrong. Broken powers and logarithms are not here, since
NumPy's may differ from Python's in the last bit.

The values of an expression over many rows at once: thousands of machines, or all points of a sweep.

Gives row by row what ``evaluate`` gives: a part is evaluated only for the rows that reach it, by NumPy where
that is exact (``vectors``), else value by value. A part that is the same for all rows is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.expressions.evaluation import Allowance, infer_kind
from weft.expressions.expression import Expression
from weft.expressions.operations import (
    FUNCTIONS,
    MAX_ENTRIES,
    apply_arithmetic,
    apply_sign,
    compare,
    take_entry,
    to_condition,
)
from weft.expressions.tree import (
    Binary,
    Compare,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Logical,
    Name,
    Unary,
)
from weft.expressions.values import (
    BUILT_IN,
    MISSING,
    Refusal,
    Value,
    ValueKind,
    find_nested,
    find_variable,
    to_value,
    unknown_name,
)

__all__ = [
    "FAST_FUNCTIONS",
    "Array",
    "Column",
    "as_objects",
    "evaluate_columns",
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


_EXACT_INTEGER = 2**53
_NOTHING: Mapping[str, Any] = {}


def evaluate_columns(
    expression: Expression,
    columns: Mapping[str, Array],
    length: int,
    constants: Mapping[str, Any] = _NOTHING,
) -> Array:
    """Give one value per row as an array of float64, int64, bool or (strings and mixtures) object."""
    if length == 0:
        kinds = {ValueKind.BOOLEAN: bool, ValueKind.NUMBER: np.float64, ValueKind.UNKNOWN: np.float64}
        return np.empty(0, dtype=kinds.get(infer_kind(expression, {}), object))
    try:
        value = _ColumnEvaluation(columns, constants, length).value(expression.tree, np.arange(length))
    except Refusal as refusal:
        raise refusal.error(expression.source) from None
    return _to_floats(_spread(value, length))


def _spread(value: Column, length: int) -> Array:
    return value if isinstance(value, np.ndarray) else pack([value] * length)


def _to_floats(result: Array) -> Array:
    """Turn a mixture of integers, floats and unknowns into floats, if none of them loses digits."""
    if result.dtype.kind == "U":
        return result.astype(object)
    if result.dtype != object:
        return result
    for value in result:
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float)):
            return result
        if isinstance(value, int) and abs(value) > _EXACT_INTEGER:
            return result
    return np.array([np.nan if value is None else value for value in result], dtype=np.float64)


def _by_rows(function: Callable[..., Value], *operands: Column) -> Column:
    """Apply a function of single values; once, if no operand is a column."""
    if not any(isinstance(operand, np.ndarray) for operand in operands):
        return function(*operands)
    lists = [operand.tolist() if isinstance(operand, np.ndarray) else repeat(operand) for operand in operands]
    return pack([function(*values) for values in zip(*lists, strict=False)])


def _load_column(column: Array, name: str, length: int) -> Array:
    """Check a column from outside and bring it to one of the types we work on."""
    array = np.asarray(column)
    if array.shape != (length,):
        raise Refusal(f"the column {name!r} has the shape {array.shape}", rule=f"{length} values are needed")
    if array.dtype.kind in "iu":
        return array.astype(np.int64) if array.dtype != np.uint64 else pack(array.tolist())
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        return pack([to_value(value) for value in array.tolist()])
    if array.dtype.kind in "bU":
        return array
    raise Refusal(
        f"the column {name!r} has the type {array.dtype}",
        rule="columns hold numbers, strings or truth values",
    )


class _ColumnEvaluation:
    """One evaluation; every method takes the rows it is asked for and gives a value for each of them."""

    def __init__(self, columns: Mapping[str, Array], constants: Mapping[str, Any], length: int) -> None:
        self._columns = columns
        self._constants = constants
        self._length = length
        self._cache: dict[str, Array] = {}
        self._allowance = Allowance(5 * MAX_ENTRIES)

    def value(self, node: ExpressionNode, rows: Array) -> Column:
        """Evaluate one node; a refusal from inside learns the column on its way out."""
        try:
            return self._apply(node, rows)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _apply(self, node: ExpressionNode, rows: Array) -> Column:
        match node:
            case Literal(value=value):
                return value
            case Name():
                return self._name(node, rows)
            case Binary(operator=operator, left=left, right=right):
                return _arithmetic(operator, self.value(left, rows), self.value(right, rows))
            case Compare():
                return self._comparison(node, rows)
            case Logical():
                return self._logical(node, rows)
            case Unary(operator="not", operand=operand):
                condition = self._truth(operand, rows)
                return ~condition if isinstance(condition, np.ndarray) else not condition
            case Unary(operator=operator, operand=operand):
                return _sign(operator, self.value(operand, rows))
            case Conditional():
                return self._conditional(node, rows)
            case Index(target=target, key=key):
                return _by_rows(take_entry, self.value(target, rows), self.value(key, rows))
            case ListOf(items=items):
                return _by_rows(lambda *values: list(values), *(self.value(item, rows) for item in items))
            case FunctionCall():
                return self._call(node, rows)

    def _name(self, node: Name, rows: Array) -> Column:
        name = node.name
        if name in self._columns:
            return self._column(name)[rows]
        first, *rest = name.split(".")
        if rest and first in self._columns:
            return _by_rows(lambda value: self._below(node, value, rest), self._column(first)[rows])
        value = find_variable(name, self._constants)
        if value is not MISSING:
            return to_value(value)
        if name in BUILT_IN:
            return BUILT_IN[name]
        if node.optional:
            return None
        raise self._unknown(name)

    def _column(self, name: str) -> Array:
        if name not in self._cache:
            self._cache[name] = _load_column(self._columns[name], name, self._length)
        return self._cache[name]

    def _below(self, node: Name, value: Value, parts: list[str]) -> Value:
        found = find_nested(value, parts)
        if found is not MISSING:
            return to_value(found)
        if node.optional:
            return None
        raise self._unknown(node.name)

    def _unknown(self, name: str) -> Refusal:
        return unknown_name(name, [*self._columns, *self._constants])

    def _truth(self, node: ExpressionNode, rows: Array) -> Column:
        value = self.value(node, rows)
        if isinstance(value, np.ndarray) and value.dtype == bool:
            return value
        try:
            return _by_rows(to_condition, value)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _comparison(self, node: Compare, rows: Array) -> Column:
        """Compare along the chain; a row that is settled leaves it."""
        result = np.ones(len(rows), dtype=bool)
        alive = np.arange(len(rows))
        left = self.value(node.operands[0], rows)
        for operator, operand, column in zip(node.operators, node.operands[1:], node.columns, strict=True):
            right = self.value(operand, rows[alive])
            try:
                verdict = _compare(operator, left, right)
            except Refusal as refusal:
                raise refusal.at(column) from None
            if not isinstance(verdict, np.ndarray):
                if not verdict:
                    result[alive] = False
                    break
                left = right
                continue
            result[alive[~verdict]] = False
            alive = alive[verdict]
            if len(alive) == 0:
                break
            left = right[verdict] if isinstance(right, np.ndarray) else right
        return result

    def _logical(self, node: Logical, rows: Array) -> Column:
        """Ask operand after operand, each only for the rows that are not settled yet."""
        settled = node.operator == "or"
        result = np.full(len(rows), not settled)
        open_rows = np.arange(len(rows))
        for operand in node.operands:
            verdict = self._truth(operand, rows[open_rows])
            settles = _spread(verdict, len(open_rows)) == settled
            result[open_rows[settles]] = settled
            open_rows = open_rows[~settles]
            if len(open_rows) == 0:
                break
        return result

    def _conditional(self, node: Conditional, rows: Array) -> Column:
        condition = self._truth(node.condition, rows)
        if not isinstance(condition, np.ndarray):
            return self.value(node.then if condition else node.otherwise, rows)
        if condition.all() or not condition.any():
            return self.value(node.then if condition[0] else node.otherwise, rows)
        then = _spread(self.value(node.then, rows[condition]), int(condition.sum()))
        otherwise = _spread(self.value(node.otherwise, rows[~condition]), int((~condition).sum()))
        same = then.dtype == otherwise.dtype
        result = np.empty(len(rows), dtype=then.dtype if same else object)
        # Unlike types stay what they are, as objects: 1 and 1.0 are printed differently.
        result[condition] = then if same else as_objects(then.tolist())
        result[~condition] = otherwise if same else as_objects(otherwise.tolist())
        return result

    def _call(self, node: FunctionCall, rows: Array) -> Column:
        function = FUNCTIONS[node.function]
        if function.deferred:
            return function()
        values = [self.value(argument, rows) for argument in node.arguments]
        fast = FAST_FUNCTIONS.get(node.function)
        if fast is not None and any(isinstance(value, np.ndarray) for value in values):
            result = fast(*values)
            if result is not None:
                return result
        try:
            return _by_rows(lambda *ones: self._allowance.spend(function(*ones)), *values)
        except Refusal as refusal:
            if refusal.argument is not None:
                refusal.at(node.arguments[refusal.argument].column)
            raise


def _sign(operator: str, operand: Column) -> Column:
    result = fast_sign(operator, operand)
    return result if result is not None else _by_rows(lambda one: apply_sign(operator, one), operand)


def _arithmetic(operator: str, left: Column, right: Column) -> Column:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        result = fast_arithmetic(operator, left, right)
        if result is not None:
            return result
    return _by_rows(lambda one, other: apply_arithmetic(operator, one, other), left, right)


def _compare(operator: str, left: Column, right: Column) -> Column:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        result = fast_compare(operator, left, right)
        if result is not None:
            return result
    return _by_rows(lambda one, other: compare(operator, one, other), left, right)
