"""The value of an expression in one context: a walk over the tree, with Python's short circuits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from weft.expressions.expression import Expression
from weft.expressions.failure import Refusal
from weft.expressions.functions import FUNCTIONS, MAX_ENTRIES
from weft.expressions.kinds import Kind, Value, describe, kind_of
from weft.expressions.names import look_up
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

__all__ = ["Allowance", "evaluate", "evaluate_boolean", "evaluate_number"]


def evaluate(expression: Expression, context: Mapping[str, Any]) -> Value:
    """Give the value of an expression; names are looked up in the context, then among the units."""
    try:
        return _Evaluation(context).value(expression.tree)
    except Refusal as refusal:
        raise refusal.error(expression.source) from None


def evaluate_number(expression: Expression, context: Mapping[str, Any]) -> float:
    """Give the value of an expression that must be a number; an unknown one is NaN."""
    value = evaluate(expression, context)
    kind = kind_of(value)
    if kind is Kind.UNKNOWN:
        return math.nan
    if kind is Kind.NUMBER:
        return cast("float", value)
    raise Refusal(f"the result is {describe(value)}", rule="a number is needed").error(expression.source)


def evaluate_boolean(expression: Expression, context: Mapping[str, Any]) -> bool:
    """Give the value of an expression that must be true or false; an unknown one is false."""
    value = evaluate(expression, context)
    try:
        return truth(value)
    except Refusal as refusal:
        raise refusal.at(expression.tree.column).error(expression.source) from None


class Allowance:
    """How many list entries functions may still make; together, or many ranges could fill the memory."""

    def __init__(self, entries: int = MAX_ENTRIES) -> None:
        self._left = entries

    def spend(self, value: Value) -> Value:
        """Count the entries of a new list and give it back."""
        if isinstance(value, list):
            self._left -= len(value)
            if self._left < 0:
                raise Refusal("the lists made are too long together", rule=f"at most {MAX_ENTRIES} entries")
        return value


class _Evaluation:
    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._allowance = Allowance()

    def value(self, node: Node) -> Value:
        """Evaluate one node; a refusal from inside learns the column on its way out."""
        try:
            return self._apply(node)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _apply(self, node: Node) -> Value:
        match node:
            case Literal(value=value):
                return value
            case Name(name=name, optional=optional):
                return look_up(name, self._context, optional=optional)
            case Binary(operator=operator, left=left, right=right):
                return arithmetic(operator, self.value(left), self.value(right))
            case Comparison():
                return self._comparison(node)
            case Logical(operator=operator, operands=operands):
                settled = operator == "or"
                return settled if any(self._truth(part) == settled for part in operands) else not settled
            case Unary(operator="not", operand=operand):
                return not self._truth(operand)
            case Unary(operator=operator, operand=operand):
                return sign(operator, self.value(operand))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self._truth(condition) else otherwise)
            case Index(target=target, key=key):
                return index(self.value(target), self.value(key))
            case ListOf(items=items):
                return [self.value(item) for item in items]
            case Call():
                return self._call(node)

    def _truth(self, node: Node) -> bool:
        value = self.value(node)
        try:
            return truth(value)
        except Refusal as refusal:
            raise refusal.at(node.column) from None

    def _comparison(self, node: Comparison) -> bool:
        left = self.value(node.operands[0])
        for operator, operand, column in zip(node.operators, node.operands[1:], node.columns, strict=True):
            right = self.value(operand)
            try:
                if not compare(operator, left, right):
                    return False
            except Refusal as refusal:
                raise refusal.at(column) from None
            left = right
        return True

    def _call(self, node: Call) -> Value:
        function = FUNCTIONS[node.function]
        if function.deferred:
            return function()
        values = [self.value(argument) for argument in node.arguments]
        try:
            return self._allowance.spend(function(*values))
        except Refusal as refusal:
            if refusal.argument is not None:
                refusal.at(node.arguments[refusal.argument].column)
            raise
