"""Kinds of tasks known by a number, such as the input size: which tasks are theirs, and the number."""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from weft.predictors.predictor import Flags, Subject
from weft.workflow.records.task import Task
from weft.workflow.unfolding.task_graph import COMPUTE, TaskGraph

__all__ = ["number", "tasks_of"]


def tasks_of(graph: TaskGraph, kinds: Container[str], parameter: str | None) -> Flags:
    """Take the compute tasks of these kinds that have the parameter, by their sweep or by the workflow."""

    def known(task: Task) -> bool:
        swept = task.sweep is not None and parameter in task.sweep.names
        return task.name in kinds and (parameter is None or swept or parameter in graph.params)

    by_template = np.array([known(task) for task in graph.workflow.tasks], dtype=np.bool_)
    return np.asarray(by_template[graph.template] & (graph.kind == COMPUTE))


def number(subject: Subject, parameter: str) -> float | None:
    """Give the value of a parameter if it is a finite number."""
    value = subject.parameters.get(parameter)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
