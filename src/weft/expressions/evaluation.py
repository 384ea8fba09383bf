"""Evaluation of an expression in one context, and inference of its kind without a context.

Evaluation short-circuits as Python does. Inference finds type errors when a file is read instead of during
the run; a name without a declared kind is UNKNOWN, and an unknown kind is never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from weft.expressions import tree
from weft.expressions.operations import (
    FUNCTIONS,
    MAX_ENTRIES,
    apply_arithmetic,
    apply_sign,
    compare,
    take_entry,
    to_condition,
)
from weft.expressions.parser import Expression
from weft.expressions.values import Refusal, Value, ValueKind, describe, kind_of, look_up


def evaluate(expression: Expression, context: Mapping[str, Any]) -> Value:
    """Return the value of an expression; names are looked up in the context, then in ``BUILT_IN``."""
    try:
        return _Evaluation(context).value(expression.tree)
    except Refusal as refusal:
        raise refusal.error(expression.source) from None


def evaluate_number(expression: Expression, context: Mapping[str, Any]) -> float:
    """Return the value of an expression as a number, NaN if it is unknown; other kinds are an error."""
    value = evaluate(expression, context)
    if (kind := kind_of(value)) is ValueKind.UNKNOWN:
        return math.nan
    if kind is ValueKind.NUMBER:
        return cast("float", value)
    raise Refusal(f"the result is {describe(value)}", rule="a number is needed").error(expression.source)


def evaluate_boolean(expression: Expression, context: Mapping[str, Any]) -> bool:
    """Return the truth value of an expression, False if it is unknown; other kinds are an error."""
    value = evaluate(expression, context)
    try:
        return to_condition(value)
    except Refusal as refusal:
        raise refusal.at(expression.tree.column).error(expression.source) from None


_MAX_READ_ENTRIES = 2 * MAX_ENTRIES
"""Maximum number of list entries that the functions and comparisons of one evaluation may read in total."""
_MAX_DOCUMENT_ENTRIES = 10 * MAX_ENTRIES
"""Maximum number of list entries that all evaluations for one document may create and read in total."""
IN_CONSTANT_TIME = ("len", "default")
"""Functions that do not read the entries of their arguments."""


class Allowance:
    """Limits how many list entries evaluations create (to bound memory) and read (to bound time)."""

    def __init__(self, made: int = MAX_ENTRIES, read: int = _MAX_READ_ENTRIES) -> None:
        self._made = made
        self._read = read

    def spend(self, value: Value) -> Value:
        """Return the value unchanged; count its entries if it is a list.

        Raises Refusal if all lists together have too many entries.
        """
        if isinstance(value, list):
            self._made -= len(value)
            if self._made < 0:
                raise Refusal(
                    "the lists have too many entries in total",
                    rule=f"all lists together must have at most {MAX_ENTRIES} entries",
                )
            self._count_in_document(len(value))
        return value

    def count_reads(self, *values: Value) -> None:
        """Count the entries of the given lists and mappings as read.

        Raises Refusal if the total number of entries that were read is too large.
        """
        self._count_in_document(0)  # raises if an earlier evaluation has exceeded the limit
        if not any(isinstance(value, list | Mapping) for value in values):
            return
        known: dict[int, int] = {}
        try:
            entries = sum(_count_entries(value, known) for value in values)
        except RecursionError:
            raise Refusal("the lists are nested too deeply") from None
        self._read -= entries
        if self._read < 0:
            rule = f"all functions and comparisons together may read at most {_MAX_READ_ENTRIES} entries"
            raise Refusal("the expression reads too many list entries", rule=rule)
        self._count_in_document(entries)

    def _count_in_document(self, entries: int) -> None:
        document = _DOCUMENT.get()
        if document is not None:
            document.entries += entries
            if document.entries > _MAX_DOCUMENT_ENTRIES:
                rule = (
                    f"all expressions of a document together may use at most {_MAX_DOCUMENT_ENTRIES} entries"
                )
                advice = "compute the value once, as a parameter"
                raise Refusal("the expressions use too many list entries in total", rule=rule, advice=advice)


_SIMPLE_TYPES = frozenset((int, float, str, bool, type(None)))


def _count_entries(value: Value, known: dict[int, int]) -> int:
    """Return the number of entries of a list or mapping and of all values in it.

    ``known`` caches the counts of values by ``id``.
    """
    if not isinstance(value, list | Mapping):
        return 0
    if (entries := known.get(id(value))) is None:
        inside = value.values() if isinstance(value, Mapping) else value
        entries = len(value)
        if not _SIMPLE_TYPES.issuperset(map(type, inside)):
            entries += sum(_count_entries(each, known) for each in inside)
        known[id(value)] = entries
    return entries


class _DocumentEntries:
    """Counter of the list entries that all evaluations for one document have created or read."""

    entries = 0


_DOCUMENT: ContextVar[_DocumentEntries | None] = ContextVar("document", default=None)


@contextmanager
def limit_document_entries() -> Iterator[None]:
    """Limit the list entries that all evaluations in a ``with`` block create and read in total.

    Nested blocks share the limit of the outermost block.
    """
    if _DOCUMENT.get() is not None:
        yield
        return
    before = _DOCUMENT.set(_DocumentEntries())
    try:
        yield
    finally:
        _DOCUMENT.reset(before)


class _Evaluation:
    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._allowance = Allowance()

    def value(self, node: tree.ExpressionNode) -> Value:
        """Return the value of a node; a Refusal that has no column gets the column of this node."""
        try:
            return self._apply(node)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _apply(self, node: tree.ExpressionNode) -> Value:
        match node:
            case tree.Literal(value=value):
                return value
            case tree.Name(name=name, optional=optional):
                return look_up(name, self._context, optional=optional)
            case tree.Binary(operator=operator, left=left, right=right):
                return apply_arithmetic(operator, self.value(left), self.value(right))
            case tree.Compare():
                return self._comparison(node)
            case tree.Logical(operator=operator, operands=operands):
                settled = operator == "or"
                return settled if any(self._truth(part) == settled for part in operands) else not settled
            case tree.Unary(operator="not", operand=operand):
                return not self._truth(operand)
            case tree.Unary(operator=operator, operand=operand):
                return apply_sign(operator, self.value(operand))
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self._truth(condition) else otherwise)
            case tree.Index(target=target, key=key):
                return take_entry(self.value(target), self.value(key))
            case tree.ListOf(items=items):
                return [self.value(item) for item in items]
            case tree.FunctionCall():
                return self._call(node)

    def _truth(self, node: tree.ExpressionNode) -> bool:
        value = self.value(node)
        try:
            return to_condition(value)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _comparison(self, node: tree.Compare) -> bool:
        left = self.value(node.operands[0])
        for operator, operand, column in zip(node.operators, node.operands[1:], node.columns, strict=True):
            right = self.value(operand)
            try:
                self._allowance.count_reads(left, right)
                if not compare(operator, left, right):
                    return False
            except Refusal as refusal:
                raise refusal.at(column) from None
            left = right
        return True

    def _call(self, node: tree.FunctionCall) -> Value:
        function = FUNCTIONS[node.function]
        if function.deferred:
            return function()
        values = [self.value(argument) for argument in node.arguments]
        try:
            if node.function not in IN_CONSTANT_TIME:
                self._allowance.count_reads(*values)
            return self._allowance.spend(function(*values))
        except Refusal as refusal:
            if refusal.argument is not None:
                refusal.at(node.arguments[refusal.argument].column)
            raise


_NUMERIC = {ValueKind.NUMBER, ValueKind.UNKNOWN}
_TEXTUAL = {ValueKind.STRING, ValueKind.UNKNOWN}
_ORDERINGS = ("<", "<=", ">", ">=")


def infer_kind(expression: Expression, types: Mapping[str, ValueKind]) -> ValueKind:
    """Return the kind of an expression; raise ExpressionError if the kind of an operand is not allowed."""
    try:
        return _Inference(types).kind(expression.tree)
    except Refusal as refusal:
        raise refusal.error(expression.source) from None


class _Inference:
    def __init__(self, types: Mapping[str, ValueKind]) -> None:
        self._types = types

    def kind(self, node: tree.ExpressionNode) -> ValueKind:
        """Return the kind of a node; a Refusal that has no column gets the column of this node."""
        try:
            return self._infer(node)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _infer(self, node: tree.ExpressionNode) -> ValueKind:
        match node:
            case tree.Literal(value=value):
                return kind_of(value)
            case tree.Name(name=name):
                return self._types.get(name, ValueKind.UNKNOWN)
            case tree.ListOf(items=items):
                for item in items:
                    self.kind(item)
                return ValueKind.LIST
            case tree.Unary(operator="not", operand=operand):
                return self._condition(operand)
            case tree.Unary(operator=operator, operand=operand):
                return _sign_kind(operator, self.kind(operand))
            case tree.Binary(operator=operator, left=left, right=right):
                return _arithmetic_kind(operator, self.kind(left), self.kind(right))
            case tree.Compare():
                return self._comparison(node)
            case tree.Logical(operands=operands):
                for operand in operands:
                    self._condition(operand)
                return ValueKind.BOOLEAN
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._condition(condition)
                first, second = self.kind(then), self.kind(otherwise)
                return first if first is second else ValueKind.UNKNOWN
            case tree.Index(target=target, key=key):
                return _entry_kind(self.kind(target), self.kind(key))
            case tree.FunctionCall():
                return self._call(node)

    def _condition(self, node: tree.ExpressionNode) -> ValueKind:
        if (kind := self.kind(node)) not in (ValueKind.BOOLEAN, ValueKind.UNKNOWN):
            rule, advice = "conditions are true or false", "compare it, for example `x != 0`"
            raise Refusal(f"a {kind.value} is used as a condition", rule=rule, advice=advice).at(node.column)
        return ValueKind.BOOLEAN

    def _comparison(self, node: tree.Compare) -> ValueKind:
        kinds = [self.kind(operand) for operand in node.operands]
        for place, (operator, column) in enumerate(zip(node.operators, node.columns, strict=True)):
            try:
                _check_comparison(operator, kinds[place], kinds[place + 1])
            except Refusal as refusal:
                raise refusal.at(column) from None
        return ValueKind.BOOLEAN

    def _call(self, node: tree.FunctionCall) -> ValueKind:
        function = FUNCTIONS[node.function]
        for position, argument in enumerate(node.arguments):
            kind = self.kind(argument)
            try:
                function.check_kind(position, kind, f"a {kind.value}")
            except Refusal as refusal:
                raise refusal.at(argument.column) from None
        return function.gives


def _sign_kind(operator: str, kind: ValueKind) -> ValueKind:
    if kind not in _NUMERIC:
        raise Refusal(f"`{operator}` before a {kind.value}", rule="unary + and - need a number")
    return ValueKind.NUMBER


def _arithmetic_kind(operator: str, left: ValueKind, right: ValueKind) -> ValueKind:
    if operator == "+" and left in _TEXTUAL and right in _TEXTUAL:
        return ValueKind.STRING if ValueKind.STRING in (left, right) else ValueKind.UNKNOWN
    if left in _NUMERIC and right in _NUMERIC:
        return (
            ValueKind.UNKNOWN if operator == "+" and left is right is ValueKind.UNKNOWN else ValueKind.NUMBER
        )
    rule = "arithmetic takes two numbers" + (" or, with +, two strings" if operator == "+" else "")
    advice = "check the names and types of the operands"
    raise Refusal(f"`{operator}` between a {left.value} and a {right.value}", rule=rule, advice=advice)


def _check_comparison(operator: str, left: ValueKind, right: ValueKind) -> None:
    if operator in _ORDERINGS:
        fits = {left, right} <= _NUMERIC or {left, right} <= _TEXTUAL
        rule = "only two numbers or two strings have an order"
    elif operator in ("in", "not in"):
        fits = right in (ValueKind.LIST, ValueKind.MAPPING, ValueKind.UNKNOWN) or (
            right is ValueKind.STRING and left in _TEXTUAL
        )
        rule = "`in` looks for a value in a list, a string in a string, or a key in a mapping"
    else:
        return
    if not fits:
        raise Refusal(f"`{operator}` between a {left.value} and a {right.value}", rule=rule)


def _entry_kind(target: ValueKind, key: ValueKind) -> ValueKind:
    if target not in (ValueKind.LIST, ValueKind.MAPPING, ValueKind.UNKNOWN):
        raise Refusal(f"a {target.value} has no entries", rule="only lists and mappings can be indexed")
    if target is ValueKind.LIST and key not in _NUMERIC:
        raise Refusal(f"a {key.value} is used as a position", rule="positions in a list are whole numbers")
    return ValueKind.UNKNOWN
