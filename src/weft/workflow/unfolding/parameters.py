"""Parameters: formulas over other parameters are evaluated in the order they need each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import InvalidInput, Problem, nearest
from weft.expressions import Expression, Value, evaluate
from weft.workflow.records.workflow import Parameter, Workflow
from weft.workflow.unfolding.cycles import find_cycle, topological_order

__all__ = ["evaluate_params", "with_params"]


def evaluate_params(params: Mapping[str, Parameter]) -> tuple[dict[str, Value], list[Problem]]:
    """Give every parameter its value, and the problems of those that have none."""
    values: dict[str, Value] = {k: v for k, v in params.items() if not isinstance(v, Expression)}
    formulas = [(name, formula) for name, formula in params.items() if isinstance(formula, Expression)]
    if not formulas:
        return values, []
    needed_by = _needed_by(formulas)
    order = topological_order(needed_by)
    if order is None:
        first, *rest = find_cycle(needed_by) or [0]
        names = [formulas[index][0] for index in (first, *reversed(rest))]
        what = f"parameters that need each other: {', '.join(names[:8])}"
        return values, [Problem(what=what, rule="a formula cannot need itself", path=("params", names[0]))]
    problems: list[Problem] = []
    failed: set[str] = set()
    for name, formula in map(formulas.__getitem__, order):
        if not failed.isdisjoint(_needs(formula)):
            failed.add(name)
            continue
        try:
            values[name] = evaluate(formula, values)
        except InvalidInput as error:
            failed.add(name)
            problems += [replace(problem, path=("params", name)) for problem in error.problems]
    return {name: values[name] for name in params if name in values}, problems


def _needed_by(formulas: list[tuple[str, Expression]]) -> list[list[int]]:
    index = {name: position for position, (name, _) in enumerate(formulas)}
    successors: list[list[int]] = [[] for _ in formulas]
    for position, (_, formula) in enumerate(formulas):
        for name in _needs(formula):
            if name in index:
                successors[index[name]].append(position)
    return successors


def _needs(formula: Expression) -> dict[str, None]:
    """Name the parameters a formula needs, each once and in order."""
    return dict.fromkeys(name.partition(".")[0] for name in formula.names)


def with_params(workflow: Workflow, changes: Mapping[str, Parameter]) -> Workflow:
    """Give a workflow other values for some of its parameters; unknown names are an error."""
    problems = []
    for name in changes:
        if name not in workflow.params:
            close = nearest(name, workflow.params)
            known = ", ".join(list(workflow.params)[:20]) or "none"
            advice = f"did you mean {close!r}?" if close else f"its parameters: {known}"
            problems.append(
                Problem(what=f"workflow {workflow.name} has no parameter {name!r}", advice=advice)
            )
    if problems:
        raise InvalidInput(problems)
    return replace(workflow, params={**workflow.params, **changes})
