"""Parameters: formulas over other parameters are evaluated in the order they need each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import InvalidInput, Problem, nearest
from weft.expressions import Expression, Value, evaluate
from weft.workflow.records.workflow import Parameter, Workflow

__all__ = ["evaluate_params", "with_params"]


def evaluate_params(params: Mapping[str, Parameter]) -> tuple[dict[str, Value], list[Problem]]:
    """Give every parameter its value, and the problems of those that have none."""
    values: dict[str, Value] = {k: v for k, v in params.items() if not isinstance(v, Expression)}
    waiting = {name: formula for name, formula in params.items() if isinstance(formula, Expression)}
    problems: list[Problem] = []
    failed: set[str] = set()
    while waiting:
        ready = [name for name in waiting if not _needs(waiting[name]) & waiting.keys()]
        if not ready:
            names = ", ".join(waiting)
            problems.append(
                Problem(what=f"parameters that need each other: {names}", rule="a formula cannot need itself",
                        path=("params", next(iter(waiting))))
            )  # fmt: skip
            break
        for name in ready:
            formula = waiting.pop(name)
            if _needs(formula) & failed:
                failed.add(name)
                continue
            try:
                values[name] = evaluate(formula, values)
            except InvalidInput as error:
                failed.add(name)
                problems += [replace(problem, path=("params", name)) for problem in error.problems]
    return {name: values[name] for name in params if name in values}, problems


def _needs(formula: Expression) -> set[str]:
    return {name.partition(".")[0] for name in formula.names}


def with_params(workflow: Workflow, changes: Mapping[str, Parameter]) -> Workflow:
    """Give a workflow other values for some of its parameters; unknown names are an error."""
    problems = []
    for name in changes:
        if name not in workflow.params:
            close = nearest(name, workflow.params)
            known = ", ".join(workflow.params) or "none"
            advice = f"did you mean {close!r}?" if close else f"its parameters: {known}"
            problems.append(
                Problem(what=f"workflow {workflow.name} has no parameter {name!r}", advice=advice)
            )
    if problems:
        raise InvalidInput(problems)
    return replace(workflow, params={**workflow.params, **changes})
