"""Evaluation of an expression over many rows: thousands of machines, or all points of a sweep.

Each row gets the value that ``evaluate`` gives. A subexpression is evaluated only for the rows that need it,
and once if it is equal for all rows. The functions ``fast_...`` use NumPy. They return None if the result of
NumPy could differ from that of ``evaluate`` in any row: other types, integers that could overflow or lose
digits, a zero divisor, an infinite result. In these cases the operators for single values are applied row by
row, which raises the error if there is one. Fractional powers and logarithms are not vectorised, because
NumPy may differ from Python in the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.expressions import tree
from weft.expressions.evaluation import IN_CONSTANT_TIME, Allowance, infer_kind
from weft.expressions.operations import (
    FUNCTIONS,
    MAX_ENTRIES,
    Function,
    apply_arithmetic,
    apply_sign,
    compare,
    take_entry,
    to_condition,
)
from weft.expressions.parser import Expression
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

Array: TypeAlias = npt.NDArray[Any]
Column: TypeAlias = Array | Value
"""One value per row, or one value for all rows."""

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
    """Return an array of floats, integers or booleans if all values have this one type, else of objects."""
    if (types := set(map(type, values))) == {float} or types == {bool}:
        return np.array(values)
    if types == {int} and min(values) >= -_INT64 and max(values) < _INT64:  # type: ignore[type-var, operator]
        return np.array(values, dtype=np.int64)
    return _as_objects(values)


def _as_objects(values: Sequence[Value]) -> Array:
    """Return an array of objects, set one by one because NumPy would turn lists into a second dimension."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _kind(operand: Column) -> str:
    """Return ``i`` or ``f`` for integers or floats that NumPy represents, ``U`` for strings, else ``""``."""
    if isinstance(operand, np.ndarray):
        return operand.dtype.kind if operand.dtype.kind in "ifU" else ""
    if type(operand) is int:
        return "i" if abs(operand) <= _EXACT else ""
    if type(operand) is float:
        return "f"
    # NumPy drops trailing NULs of strings, so a string with a NUL is left to Python.
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
    """Return the result of an arithmetic operator per row; None if NumPy's result could differ."""
    kinds = _kind(left) + _kind(right)
    if operator == "**" and kinds == "ii" and type(right) is int:
        return _integer_power(left, right)
    if operator not in _OPERATORS or len(kinds) != 2 or "U" in kinds:
        return None
    if operator in ("/", "//", "%") and np.any(np.equal(right, 0)):  # type: ignore[arg-type]
        return None
    if kinds == "ii" and operator != "/":
        return _integer_arithmetic(operator, left, right)
    if operator in ("//", "%") or not _exact_as_floats(kinds, (left, right)):
        return None
    with np.errstate(all="ignore"):
        result: Array = _OPERATORS[operator](left, right)
    if np.isinf(result).any():
        return None
    unknown = np.isnan(left) | np.isnan(right)  # type: ignore[arg-type]
    return result if np.array_equal(np.isnan(result), np.broadcast_to(unknown, result.shape)) else None


def _integer_arithmetic(operator: str, left: Any, right: Any) -> Array | None:
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
    """Return for each row whether a comparison holds (false for NaN); None if NumPy's result could differ."""
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
    """Return a column of numbers with the sign ``-`` or ``+`` applied; None for other operands."""
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


def _rounding(function: Callable[[Any], Any]) -> Callable[[Column], Array | None]:
    def apply(operand: Column) -> Array | None:
        if not isinstance(operand, np.ndarray) or operand.dtype.kind not in "if":
            return None
        if operand.dtype.kind == "i":
            return operand
        within = np.abs(operand) <= _EXACT
        return function(operand).astype(np.int64) if within.all() else None

    return apply


def _extreme(better: Callable[[Any, Any], Any]) -> Callable[..., Array | None]:
    # Of equal values the first is taken, as in Python; a NaN in any column makes the row NaN.
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
    "ceil": _rounding(np.ceil),
    "floor": _rounding(np.floor),
    "sqrt": _square_root,
    "min": _extreme(np.less),
    "max": _extreme(np.greater),
}
"""Functions with a vectorised form; the others are applied row by row."""


_NOTHING: Mapping[str, Any] = {}


def evaluate_columns(
    expression: Expression,
    columns: Mapping[str, Array],
    length: int,
    constants: Mapping[str, Any] = _NOTHING,
) -> Array:
    """Return one value per row as an array of float64, int64, bool or object (strings and mixed types).

    ``columns`` maps names to arrays of ``length`` values. ``constants`` maps names to values that hold for
    all rows.
    """
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
    """Return a column of integers, floats and unknowns as floats, unless an integer would lose digits."""
    if result.dtype.kind == "U":
        return result.astype(object)
    if result.dtype != object:
        return result
    for value in result:
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float)):
            return result
        if isinstance(value, int) and abs(value) > _EXACT:
            return result
    return np.array([np.nan if value is None else value for value in result], dtype=np.float64)


def _by_rows(function: Callable[..., Value], *operands: Column) -> Column:
    """Apply a function of single values to each row; call it only once if no operand is a column."""
    if not any(isinstance(operand, np.ndarray) for operand in operands):
        return function(*operands)
    lists = [operand.tolist() if isinstance(operand, np.ndarray) else repeat(operand) for operand in operands]
    return pack([function(*values) for values in zip(*lists, strict=False)])


def _load_column(column: Array, name: str, length: int) -> Array:
    """Return a column of the caller in a supported type; raise Refusal for another type or length."""
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
        rule="columns contain numbers, strings or truth values",
    )


class _ColumnEvaluation:
    """Evaluates one expression; its methods return the values of a node for the given rows."""

    def __init__(self, columns: Mapping[str, Array], constants: Mapping[str, Any], length: int) -> None:
        self._columns = columns
        self._constants = constants
        self._length = length
        self._cache: dict[str, Array] = {}
        self._allowance = Allowance(5 * MAX_ENTRIES, 5 * MAX_ENTRIES)

    def value(self, node: tree.ExpressionNode, rows: Array) -> Column:
        """Return the values of a node; a Refusal that has no column gets the column of this node."""
        try:
            return self._apply(node, rows)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _apply(self, node: tree.ExpressionNode, rows: Array) -> Column:
        match node:
            case tree.Literal(value=value):
                return value
            case tree.Name():
                return self._name(node, rows)
            case tree.Binary(operator=operator, left=left, right=right):
                operands = self.value(left, rows), self.value(right, rows)
                return _apply(fast_arithmetic, apply_arithmetic, operator, *operands)
            case tree.Compare():
                return self._comparison(node, rows)
            case tree.Logical():
                return self._logical(node, rows)
            case tree.Unary(operator="not", operand=operand):
                condition = self._truth(operand, rows)
                return ~condition if isinstance(condition, np.ndarray) else not condition
            case tree.Unary(operator=operator, operand=operand):
                return _apply(fast_sign, apply_sign, operator, self.value(operand, rows))
            case tree.Conditional():
                return self._conditional(node, rows)
            case tree.Index(target=target, key=key):
                return _by_rows(take_entry, self.value(target, rows), self.value(key, rows))
            case tree.ListOf(items=items):
                return _by_rows(lambda *values: list(values), *(self.value(item, rows) for item in items))
            case tree.FunctionCall():
                return self._call(node, rows)

    def _name(self, node: tree.Name, rows: Array) -> Column:
        name = node.name
        if name in self._columns:
            return self._column(name)[rows]
        first, *rest = name.split(".")
        if rest and first in self._columns:
            return _by_rows(lambda value: self._nested_value(node, value, rest), self._column(first)[rows])
        if (value := find_variable(name, self._constants)) is not MISSING:
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

    def _nested_value(self, node: tree.Name, value: Value, parts: list[str]) -> Value:
        if (found := find_nested(value, parts)) is not MISSING:
            return to_value(found)
        if node.optional:
            return None
        raise self._unknown(node.name)

    def _unknown(self, name: str) -> Refusal:
        return unknown_name(name, [*self._columns, *self._constants])

    def _truth(self, node: tree.ExpressionNode, rows: Array) -> Column:
        value = self.value(node, rows)
        if isinstance(value, np.ndarray) and value.dtype == bool:
            return value
        try:
            return _by_rows(to_condition, value)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _comparison(self, node: tree.Compare, rows: Array) -> Column:
        """Return for each row whether all comparisons of a chain hold, such as ``a < b <= c``.

        For each row the evaluation ends at the first comparison that is false.
        """
        result = np.ones(len(rows), dtype=bool)
        alive = np.arange(len(rows))
        left = self.value(node.operands[0], rows)
        for operator, operand, column in zip(node.operators, node.operands[1:], node.columns, strict=True):
            right = self.value(operand, rows[alive])
            try:
                verdict = _apply(fast_compare, self._compare_once, operator, left, right)
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

    def _logical(self, node: tree.Logical, rows: Array) -> Column:
        """Return the values of ``and`` or ``or``; each operand is evaluated only for undecided rows."""
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

    def _conditional(self, node: tree.Conditional, rows: Array) -> Column:
        condition = self._truth(node.condition, rows)
        if not isinstance(condition, np.ndarray):
            return self.value(node.then if condition else node.otherwise, rows)
        if condition.all() or not condition.any():
            return self.value(node.then if condition[0] else node.otherwise, rows)
        then = _spread(self.value(node.then, rows[condition]), int(condition.sum()))
        otherwise = _spread(self.value(node.otherwise, rows[~condition]), int((~condition).sum()))
        same = then.dtype == otherwise.dtype
        result = np.empty(len(rows), dtype=then.dtype if same else object)
        # Different types are kept as objects: 1 and 1.0 are printed differently.
        result[condition] = then if same else _as_objects(then.tolist())
        result[~condition] = otherwise if same else _as_objects(otherwise.tolist())
        return result

    def _call(self, node: tree.FunctionCall, rows: Array) -> Column:
        function = FUNCTIONS[node.function]
        if function.deferred:
            return function()
        values = [self.value(argument, rows) for argument in node.arguments]
        fast = FAST_FUNCTIONS.get(node.function)
        columns = any(isinstance(value, np.ndarray) for value in values)
        if fast is not None and columns and (result := fast(*values)) is not None:
            return result
        try:
            return _by_rows(partial(self._call_once, function), *values)
        except Refusal as refusal:
            if refusal.argument is not None:
                refusal.at(node.arguments[refusal.argument].column)
            raise

    def _call_once(self, function: Function, *values: Value) -> Value:
        if function.name not in IN_CONSTANT_TIME:
            self._allowance.count_reads(*values)
        return self._allowance.spend(function(*values))

    def _compare_once(self, operator: str, left: Value, right: Value) -> bool:
        self._allowance.count_reads(left, right)
        return compare(operator, left, right)


def _apply(
    fast: Callable[..., Array | None], single: Callable[..., Value], operator: str, *operands: Column
) -> Column:
    """Return the result of an operator: over whole columns if that is exact, else row by row."""
    columns = any(isinstance(operand, np.ndarray) for operand in operands)
    if columns and (result := fast(operator, *operands)) is not None:
        return result
    return _by_rows(lambda *ones: single(operator, *ones), *operands)
