"""Branches and loops (dynamic-grid.md, sections 2 and 10, and adaptive-jobs.md, section 6, in docs/papers).

If the condition of a dependency is false, the dependent task is skipped, and so is every task with only
skipped predecessors. The condition of a loop is evaluated when the last task of the loop has completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.engine.context import DecisionContext
from weft.engine.messages import EndLoop, RepeatLoop, ReportCondition, Settle
from weft.engine.reactions.failures import stop_run
from weft.engine.reactions.replanning import replan_on_iteration
from weft.engine.state.compiled import LoopState
from weft.engine.state.run import RunState
from weft.engine.states import Cause, TaskState
from weft.errors import InvalidInput
from weft.expressions import Expression, evaluate_boolean

_SKIPPABLE = (TaskState.WAITING, TaskState.READY)
_COMPLETED = TaskState.COMPLETED  # faster to read than the member of the class


def complete_task(context: DecisionContext, run: RunState, task: int) -> None:
    """Complete a task, evaluate the conditions on its outgoing edges, and repeat or end its loops."""
    compiled, loops = run.compiled, run.loops
    if compiled.graph.edge_condition:
        inside = task in loops.around
        edges = zip(compiled.after(task), compiled.edges_after(task), strict=True)
        now = [(after, edge) for after, edge in edges if not (inside and loops.waits_for_end(task, after))]
        _decide_branches(context, run, task, now)
    context.emit(Settle(run=run.index, task=task, state=_COMPLETED))
    if task in loops.ended_by:
        _judge_loops(context, run, task)


def skip_task(context: DecisionContext, run: RunState, task: int, reason: str) -> None:
    """Skip a waiting or ready task, and every task after it whose predecessors are all skipped."""
    if run.state[task] not in _SKIPPABLE:
        return
    context.settle(run, task, TaskState.SKIPPED, reason=reason)
    compiled = run.compiled
    for successor in compiled.after(task):
        if run.state[successor] in _SKIPPABLE and all(
            run.state[predecessor] == TaskState.SKIPPED for predecessor in compiled.before(successor)
        ):
            skip_task(context, run, successor, reason)
    if task in run.loops.ended_by:
        body = run.loops.bodies[run.loops.ended_by[task]]
        _exit_loop(context, run, body, "its last task was left out")


def _decide_branches(
    context: DecisionContext, run: RunState, task: int, edges: Iterable[tuple[int, int]]
) -> None:
    conditions = run.compiled.graph.edge_condition
    for successor, edge in edges:
        condition = conditions.get(edge)
        if condition is not None and not _evaluate_condition(
            context, run, condition, _outcome_names(run, task)
        ):
            skip_task(context, run, successor, f"{condition} does not hold for {run.name(task)}")


def _outcome_names(run: RunState, task: int) -> dict[str, Any]:
    """Return the names and values that a condition on the outcome of a task may use."""
    outcome = run.facts_of(task).outcome
    if outcome is None:
        return {}
    names: dict[str, Any] = {"exit_code": outcome.exit_code, "result": dict(outcome.result)}
    names.update({f"result.{key}": value for key, value in outcome.result.items()})
    return names


def _evaluate_condition(
    context: DecisionContext, run: RunState, condition: Expression, names: dict[str, Any]
) -> bool:
    try:
        return evaluate_boolean(condition, {**run.compiled.graph.params, **names})
    except InvalidInput as error:
        context.emit(ReportCondition(run=run.index, reason=f"{condition} counts as false: {error}"))
        return False


def _judge_loops(context: DecisionContext, run: RunState, task: int) -> None:
    """Repeat or end the loops of which this task is a last task, from the innermost loop outwards.

    If a loop does not end now, the loops around it are not considered.
    """
    for index in run.loops.around[task]:
        body = run.loops.bodies[index]
        if body.left:
            continue  # its last task ran again because its outputs were lost
        if task not in body.lasts or any(run.state[last] != TaskState.COMPLETED for last in body.lasts):
            return
        if not _judge_loop(context, run, body, task):
            return


def _judge_loop(context: DecisionContext, run: RunState, body: LoopState, task: int) -> bool:
    """Repeat or end a loop after an iteration; return whether it ended."""
    loop = body.loop
    if loop.until is not None and all(
        _evaluate_condition(context, run, loop.until, _loop_names(run, body, last)) for last in body.lasts
    ):
        _exit_loop(context, run, body, f"{loop.until} after {body.iteration} iterations")
        return True
    if body.most is not None and body.iteration >= body.most:
        if loop.until is None or loop.on_exhausted == "continue":
            _exit_loop(context, run, body, f"max_iterations {body.most} reached")
            return True
        reason = (
            f"loop {loop.name} has not converged after {body.most} iterations: {loop.until} does not hold"
        )
        context.settle(run, task, TaskState.FAILED, cause=Cause.ERROR, reason=reason)
        stop_run(context, run, reason)
        return False
    context.emit(RepeatLoop(run=run.index, body=body.index, iteration=body.iteration + 1))
    replan_on_iteration(context, run)
    return False


def _loop_names(run: RunState, body: LoopState, last: int) -> dict[str, Any]:
    """Return the names and values that the ``until`` condition of a loop may use.

    These are the iteration, the sweep variables of the task ``last``, and the outcomes of the body's tasks.
    In names that refer to the outcome of ``last``, the task name may be omitted.
    """
    names = _outcome_names(run, last)
    names["iteration"] = body.iteration
    point = dict(run.compiled.graph.context(last))
    for task in body.tasks:
        outcome = run.facts_of(task).outcome
        if outcome is None:
            continue
        name = run.compiled.graph.description(task).name
        names[f"{name}.exit_code"] = outcome.exit_code
        names.update({f"{name}.result.{key}": value for key, value in outcome.result.items()})
    return {**point, **names}


def _exit_loop(context: DecisionContext, run: RunState, body: LoopState, reason: str) -> None:
    if run.compiled.graph.edge_condition:
        for task, successor in body.leaving:
            edge = run.compiled.edge(task, successor)
            _decide_branches(context, run, task, ((successor, edge),))
    context.emit(EndLoop(run=run.index, body=body.index, reason=reason))
