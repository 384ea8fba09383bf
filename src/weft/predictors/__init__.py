"""How long things take: the shelf of predictors. Read ``predictor.py``, the contract, first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["PREDICTORS"]

PREDICTORS = Shelf(
    "weft.predictors",
    "predictor",
    {
        "assumed": "weft.predictors.assumed:Assumed",
        "default": "weft.predictors.chain:default_chain",
        "explicit": "weft.predictors.explicit:ExplicitSeconds",
        "performance": "weft.predictors.performance:PerformanceTable",
        "regression": "weft.predictors.regression:Regression",
        "work": "weft.predictors.work:WorkOverSpeed",
    },
)
