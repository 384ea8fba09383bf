"""Numbers of tasks by kind and state, for one run or for several runs of a workflow.

Tasks with equal ``Task.program`` are of one kind, for example the points of a sweep. A task in a loop counts
once per iteration: the history counts the finished iterations, the engine's state the current one. The number
of tasks grows when an iteration begins; the number of completed tasks never decreases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from weft.engine.history import History
from weft.engine.state.run import RunState
from weft.engine.states import TaskState
from weft.records import dataclass
from weft.workflow.task import TaskKind

_S = TaskState
_WAITING = (_S.WAITING, _S.READY, _S.SCHEDULED, _S.PROLOG, _S.SUBMITTED)
_RUNNING = (_S.RUNNING, _S.EPILOG, _S.MIGRATING, _S.SUSPENDED)
_DONE = (_S.COMPLETED, _S.SKIPPED)
_HELD = (_S.HELD, _S.STOPPED)
_STATES = len(TaskState)
_NUMBERS = ("tasks", "waiting", "running", "done", "taken_over", "failed", "held", "cancelled", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """Task counts of one kind in one run; a task in a loop counts once for every iteration that has begun."""

    run: int
    """Index of the run in the engine."""
    workflow: str
    kind: str
    tasks: int
    waiting: int
    running: int
    done: int
    """Number of completed, reused or skipped tasks."""
    taken_over: int
    """Number of ``done`` tasks whose outputs came from an earlier run."""
    failed: int
    held: int = 0
    """Number of tasks that wait for the user: held by request, or after a failure (``on_failure: hold``)."""
    cancelled: int = 0
    skipped: int = 0
    """Number of ``done`` tasks that did not run because a condition was false."""

    @property
    def completed(self) -> int:
        """Return the number of completed or reused tasks."""
        return self.done - self.skipped


def count_kinds(run: RunState, history: History) -> Iterator[KindCount]:
    """Yield the task counts of a run by kind, in the order of the workflow."""
    graph = run.compiled.graph
    templates = np.asarray(graph.template, dtype=np.int64)
    states = np.frombuffer(bytes(run.state), dtype=np.uint8)
    kinds = graph.workflow.tasks
    table = np.bincount(templates * _STATES + states, minlength=len(kinds) * _STATES)
    rows: dict[str, list[int]] = {}
    for kind, row in zip(kinds, table.reshape(-1, _STATES).tolist(), strict=True):
        if kind.kind is TaskKind.TRANSFER:  # it has no program and runs while its data are copied
            row[_S.RUNNING] += row[_S.PROLOG]
            row[_S.PROLOG] = 0
        if any(row):
            before = rows.get(kind.program)
            rows[kind.program] = row if before is None else [a + b for a, b in zip(before, row, strict=True)]
    for (name, state), number in history.past_iterations[run.index].items():
        rows[name][state] += number
    for name, row in rows.items():
        yield KindCount(
            run=run.index,
            workflow=run.compiled.key,
            kind=name,
            tasks=sum(row),
            waiting=_sum_states(row, _WAITING),
            running=_sum_states(row, _RUNNING),
            done=_sum_states(row, _DONE),
            taken_over=history.taken_over[run.index, name],
            failed=row[_S.FAILED],
            held=_sum_states(row, _HELD),
            cancelled=row[_S.CANCELLED],
            skipped=row[_S.SKIPPED],
        )


def _sum_states(row: list[int], states: tuple[TaskState, ...]) -> int:
    return sum(row[state] for state in states)


def sum_by_workflow(counts: Iterable[KindCount]) -> list[KindCount]:
    """Return, for every workflow and kind, the sums of the task counts over all runs of the workflow.

    The field ``run`` of a sum is the index of the first of these runs.
    """
    found: dict[tuple[str, str], KindCount] = {}
    for each in counts:
        if (before := found.get((each.workflow, each.kind))) is not None:
            both = {name: getattr(before, name) + getattr(each, name) for name in _NUMBERS}
            each = KindCount(run=before.run, workflow=each.workflow, kind=each.kind, **both)
        found[each.workflow, each.kind] = each
    return list(found.values())
