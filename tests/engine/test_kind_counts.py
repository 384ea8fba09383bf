"""Tasks are counted by kind; every iteration of a loop that has begun counts."""

from __future__ import annotations

import weft
from driven_engine import platform_of
from reports.executed_journals import journal_of
from weft.engine.history import History
from weft.engine.kind_counts import count_kinds


def nested_loops():
    """Return a workflow whose inner loop of three iterations is repeated twice."""
    flow = weft.Builder("nested")
    flow.task("first", work=1)
    flow.task("inner", sweep={"k": "1..2"}, work=1, after=["first"])
    flow.task("test", work=1, after=["inner"])
    flow.task("outer", work=1, after=["test"])
    flow.task("last", work=1, after=["outer"])
    flow.loop("often", last="test", first="inner", max_iterations=3, on_exhausted="continue")
    flow.loop("twice", last="outer", first="first", max_iterations=2, on_exhausted="continue")
    return flow.build()


def test_task_counts_by_kind_never_decrease_and_equal_the_report_at_the_end():
    written = journal_of(nested_loops(), platform_of(1.0, 1.0), policy="fcfs")
    history, done, tasks = History(), [0], [0]
    for entry, state in written.replay():
        history.take(entry, state)
        counts = list(count_kinds(state.runs[0], history))
        done.append(sum(count.done for count in counts))
        tasks.append(sum(count.tasks for count in counts))
    assert done == sorted(done)
    assert tasks == sorted(tasks)
    expected = {"first": 2, "inner": 12, "test": 6, "outer": 2, "last": 1}
    assert {count.kind: count.done for count in counts} == expected
    assert done[-1] == tasks[-1] == history.runs[0].tasks == 23
    assert {kind.kind: kind.completed for kind in written.executed().kinds} == expected
