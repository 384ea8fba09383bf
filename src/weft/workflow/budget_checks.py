"""Checks of budgets: they are amounts, and tasks consume only what the workflow has a budget for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weft.errors import Path, Problem, nearest, shorten
from weft.workflow.records.quantity import constant
from weft.workflow.records.workflow import Workflow
from weft.workflow.task_checks import unknown_problems

__all__ = ["budget_problems"]


def budget_problems(workflow: Workflow) -> Iterator[Problem]:
    """List what is wrong with the budgets and with the tasks that consume them."""
    for name, budget in workflow.budgets.items():
        path: Path = ("budgets", name)
        yield from unknown_problems(budget, workflow.params, path)
        if not 0 <= (constant(budget) or 0) < math.inf:
            yield Problem(what=f"budget {budget}", rule="must be a number, at least 0", path=path)
    for task in workflow.tasks:
        for name in task.consumes:
            if name not in workflow.budgets:
                yield _unknown(workflow, task.name, name)


def _unknown(workflow: Workflow, task: str, name: str) -> Problem:
    close = nearest(name, workflow.budgets)
    advice = f"did you mean {close!r}?" if close else f"add `budgets: {{{shorten(name)}: AMOUNT}}`"
    what = f"{task} consumes {shorten(repr(name))}, of which there is no budget"
    rule = "tasks consume what stands under `budgets:` of the workflow"
    return Problem(what=what, rule=rule, advice=advice, path=("tasks", task, "consumes", name))
