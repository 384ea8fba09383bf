"""One safe language for requirements, ranks, work formulas and conditions.

Text becomes a checked tree, and a tree with a context becomes a value, or an array for many contexts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.expressions.evaluation import evaluate, evaluate_boolean, evaluate_number, infer_kind
from weft.expressions.expression import Expression, find_unknown_names, parse, rename
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
    "parse",
    "rename",
]


def __getattr__(name: str) -> Any:
    # NumPy is loaded by the first evaluation over columns, not by every command that reads an expression.
    if name == "evaluate_columns":
        from weft.expressions.columns import evaluate_columns

        return evaluate_columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
