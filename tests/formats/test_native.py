"""Names of tasks in written files: unwritable ones are replaced, with their references."""

from __future__ import annotations

from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, replace_unwritable_names
from weft.workflow.checks import check_and_unfold
from weft.workflow.task import Dependency, Task
from weft.workflow.workflow import Workflow


def _flow(*tasks: Task) -> Workflow:
    return Workflow(name="foreign", tasks=tasks)


def test_unwritable_task_names_are_replaced_also_where_other_tasks_refer_to_them():
    flow = _flow(
        Task(name="a[1]", work=3),
        Task(name="a_1_", work=1),
        Task(name="b,{x}", work=4, after=(Dependency(task="a[1]"),)),
    )
    text = WeftYaml().write(flow)
    read = WeftYaml().read(SourceFile(name="written", data=text.encode()))
    graph = check_and_unfold(read)
    assert graph.names == ("a_1__2", "a_1_", "b__x_")
    assert graph.predecessors(2).tolist() == [0]
    assert graph.work.tolist() == [3.0, 1.0, 4.0]


def test_writable_names_are_kept():
    flow = _flow(Task(name="a", work=3), Task(name="b-1.x", work=4))
    assert replace_unwritable_names(flow) is flow
