"""The expression language of requirements, ranks, work formulas and conditions.

``parse`` turns text into a checked expression. ``evaluate`` returns the value of an expression in one
context. ``evaluate_columns`` returns an array with its values in many contexts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.expressions.evaluation import (
    evaluate,
    evaluate_boolean,
    evaluate_number,
    infer_kind,
    limit_document_entries,
)
from weft.expressions.parser import Expression, find_unknown_names, parse
from weft.expressions.values import ExpressionError, Value, ValueKind

if TYPE_CHECKING:
    from weft.expressions.columns import evaluate_columns

__all__ = [
    "Expression",
    "ExpressionError",
    "Value",
    "ValueKind",
    "evaluate",
    "evaluate_boolean",
    "evaluate_columns",
    "evaluate_number",
    "find_unknown_names",
    "infer_kind",
    "limit_document_entries",
    "parse",
]


def __getattr__(name: str) -> Any:
    # NumPy is imported by the first evaluation over columns, not by every command that parses an expression.
    if name == "evaluate_columns":
        from weft.expressions.columns import evaluate_columns

        return evaluate_columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
