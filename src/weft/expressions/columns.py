"""The values of an expression over many rows at once: thousands of machines, or all points of a sweep.

Gives row by row what ``evaluate`` gives: a part is evaluated only for the rows that reach it, by NumPy where
that is exact (``vectors``), else value by value. A part that is the same for all rows is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from weft.expressions.evaluation import Allowance
from weft.expressions.expression import Expression
from weft.expressions.failure import Refusal
from weft.expressions.functions import FUNCTIONS, MAX_ENTRIES
from weft.expressions.inference import infer
from weft.expressions.kinds import Kind, Value, plain
from weft.expressions.names import BUILT_IN, MISSING, find, unknown_name, walk_down
from weft.expressions.nodes import (
    Binary,
    Call,
    Comparison,
    Conditional,
    Index,
    ListOf,
    Literal,
    Logical,
    Name,
    Node,
    Unary,
)
from weft.expressions.operators import arithmetic, compare, index, sign, truth
from weft.expressions.vectors import (
    FAST_FUNCTIONS,
    Array,
    Column,
    as_objects,
    fast_arithmetic,
    fast_compare,
    fast_sign,
    pack,
)

__all__ = ["evaluate_columns"]

_EXACT = 2**53
_NOTHING: Mapping[str, Any] = {}


def evaluate_columns(
    expression: Expression,
    columns: Mapping[str, Array],
    length: int,
    constants: Mapping[str, Any] = _NOTHING,
) -> Array:
    """Give one value per row as an array of float64, int64, bool or (strings and mixtures) object."""
    if length == 0:
        kinds = {Kind.BOOLEAN: bool, Kind.NUMBER: np.float64, Kind.UNKNOWN: np.float64}
        return np.empty(0, dtype=kinds.get(infer(expression, {}), object))
    try:
        value = _Columns(columns, constants, length).value(expression.tree, np.arange(length))
    except Refusal as refusal:
        raise refusal.error(expression.source) from None
    return _finished(_spread(value, length))


def _spread(value: Column, length: int) -> Array:
    return value if isinstance(value, np.ndarray) else pack([value] * length)


def _finished(result: Array) -> Array:
    """Turn a mixture of integers, floats and unknowns into floats, if none of them loses digits."""
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
    """Apply a function of single values; once, if no operand is a column."""
    if not any(isinstance(operand, np.ndarray) for operand in operands):
        return function(*operands)
    lists = [operand.tolist() if isinstance(operand, np.ndarray) else repeat(operand) for operand in operands]
    return pack([function(*values) for values in zip(*lists, strict=False)])


def _loaded(column: Array, name: str, length: int) -> Array:
    """Check a column from outside and bring it to one of the types we work on."""
    array = np.asarray(column)
    if array.shape != (length,):
        raise Refusal(f"the column {name!r} has the shape {array.shape}", rule=f"{length} values are needed")
    if array.dtype.kind in "iu":
        return array.astype(np.int64) if array.dtype != np.uint64 else pack(array.tolist())
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        return pack([plain(value) for value in array.tolist()])
    if array.dtype.kind in "bU":
        return array
    raise Refusal(
        f"the column {name!r} has the type {array.dtype}",
        rule="columns hold numbers, strings or truth values",
    )


class _Columns:
    """One evaluation; every method takes the rows it is asked for and gives a value for each of them."""

    def __init__(self, columns: Mapping[str, Array], constants: Mapping[str, Any], length: int) -> None:
        self._columns = columns
        self._constants = constants
        self._length = length
        self._cache: dict[str, Array] = {}
        self._allowance = Allowance(5 * MAX_ENTRIES)

    def value(self, node: Node, rows: Array) -> Column:
        """Evaluate one node; a refusal from inside learns the column on its way out."""
        try:
            return self._apply(node, rows)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _apply(self, node: Node, rows: Array) -> Column:
        match node:
            case Literal(value=value):
                return value
            case Name():
                return self._name(node, rows)
            case Binary(operator=operator, left=left, right=right):
                return _arithmetic(operator, self.value(left, rows), self.value(right, rows))
            case Comparison():
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
                return _by_rows(index, self.value(target, rows), self.value(key, rows))
            case ListOf(items=items):
                return _by_rows(lambda *values: list(values), *(self.value(item, rows) for item in items))
            case Call():
                return self._call(node, rows)

    def _name(self, node: Name, rows: Array) -> Column:
        name = node.name
        if name in self._columns:
            return self._column(name)[rows]
        first, *rest = name.split(".")
        if rest and first in self._columns:
            return _by_rows(lambda value: self._below(node, value, rest), self._column(first)[rows])
        value = find(name, self._constants)
        if value is not MISSING:
            return plain(value)
        if name in BUILT_IN:
            return BUILT_IN[name]
        if node.optional:
            return None
        raise self._unknown(name)

    def _column(self, name: str) -> Array:
        if name not in self._cache:
            self._cache[name] = _loaded(self._columns[name], name, self._length)
        return self._cache[name]

    def _below(self, node: Name, value: Value, parts: list[str]) -> Value:
        found = walk_down(value, parts)
        if found is not MISSING:
            return plain(found)
        if node.optional:
            return None
        raise self._unknown(node.name)

    def _unknown(self, name: str) -> Refusal:
        return unknown_name(name, [*self._columns, *self._constants])

    def _truth(self, node: Node, rows: Array) -> Column:
        value = self.value(node, rows)
        if isinstance(value, np.ndarray) and value.dtype == bool:
            return value
        try:
            return _by_rows(truth, value)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _comparison(self, node: Comparison, rows: Array) -> Column:
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

    def _call(self, node: Call, rows: Array) -> Column:
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
    return result if result is not None else _by_rows(lambda one: sign(operator, one), operand)


def _arithmetic(operator: str, left: Column, right: Column) -> Column:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        result = fast_arithmetic(operator, left, right)
        if result is not None:
            return result
    return _by_rows(lambda one, other: arithmetic(operator, one, other), left, right)


def _compare(operator: str, left: Column, right: Column) -> Column:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        result = fast_compare(operator, left, right)
        if result is not None:
            return result
    return _by_rows(lambda one, other: compare(operator, one, other), left, right)
