from __future__ import annotations

import weft
from weft.reports.shape import draw_levels, measure_shape, shape_lines
from weft.workflow.task import Dependency, Task
from weft.workflow.workflow import Workflow


def _looping():
    flow = weft.Builder("shape", params={"n": 3})
    first = flow.task("first", work=2, outputs={"x": "5MB"})
    many = flow.task("many", sweep={"k": "1..n"}, inputs=["x"], work="10*k", nodes=[1, 2], machine="m{k}")
    flow.task("more", sweep={"k": "1..n"}, after=many["k"], machine="m{k}", work=1)
    last = flow.task("last", after="more")
    flow.task("wait", kind="virtual", after=last)
    flow.loop("again", last=last, first=first, until="last.exit_code == 0")
    return weft.unfold(flow.build())


def test_shape_of_a_workflow_counts_tasks_work_and_the_longest_path():
    shape = measure_shape(_looping())
    assert (shape.tasks, shape.compute_tasks, shape.virtual_tasks, shape.descriptions) == (9, 8, 1, 5)
    assert (shape.edges, shape.depth, shape.width) == (10, 5, 3)
    assert shape.work_s == 2 + 10 + 20 + 30 + 3
    assert shape.unknown_work == 1
    assert shape.critical_path_s == 2 + 30 + 1
    assert shape.critical_path[:3] == ("first", "many[3]", "more[3]")
    assert shape.moldable_tasks == 3
    assert shape.abstract_machines == 3
    assert shape.data_bytes == 3 * 5e6
    assert shape.loops == ("again",)


def test_summary_lines_name_unknown_values_and_use_the_singular():
    text = "\n".join(shape_lines(measure_shape(_looping())))
    assert "unknown work   1 task without a stated time" in text
    alone = shape_lines(measure_shape(weft.unfold(Workflow(name="one", tasks=(Task(name="a", work=1),)))))
    assert alone[0] == "one: 1 task (1 compute) from 1 description, 0 edges"


def test_picture_shows_loops_and_counts_equal_tasks():
    assert draw_levels(_looping()).splitlines() == [
        "    1  [↺ first]",
        "    2  [many ×3]",
        "    3  [more ×3]",
        "    4  [last ↩ again until last.exit_code == 0]",
        "    5  [wait]",
    ]


def test_tasks_of_a_trace_are_grouped_by_program():
    tasks = (
        *(Task(name=f"id{i}", work=1, attributes={"program": "align"}) for i in range(3)),
        Task(name="id9", work=1, after=(Dependency(task="id0"),), attributes={"program": "merge"}),
    )
    graph = weft.unfold(Workflow(name="trace", tasks=tasks))
    assert draw_levels(graph).splitlines() == ["    1  [align ×3]", "    2  [merge]"]
