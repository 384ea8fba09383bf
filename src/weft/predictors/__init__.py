"""Predictors of run times, selected by name. The interface is in ``predictor.py``."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["PREDICTORS"]

PREDICTORS = Registry(
    "weft.predictors",
    "predictor",
    {
        "assumed": "weft.predictors.work:AssumedWork",
        "default": "weft.predictors.chain:default_chain",
        "explicit": "weft.predictors.explicit:ExplicitSeconds",
        "measurements": "weft.predictors.measurements:Measurements",
        "performance": "weft.predictors.performance:PerformanceTable",
        "regression": "weft.predictors.regression:Regression",
        "work": "weft.predictors.work:WorkOverSpeed",
    },
)
