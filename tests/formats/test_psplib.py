"""PSPLIB: jobs with modes become tasks with node counts, resources and budgets; damaged input is rejected."""

from __future__ import annotations

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from weft.api.plan import plan
from weft.errors import Infeasible, InvalidInput
from weft.formats.files import load_platform
from weft.formats.format import SourceFile
from weft.formats.psplib import Psplib
from weft.workflow.checks import check
from weft.workflow.task import Dependency, MeasuredSeconds, Task, TaskKind
from weft.workflow.unfold import unfold

SMALL = """\
************************************************************************
file with basedata            : mm_.bas
************************************************************************
projects                      :  1
jobs (incl. supersource/sink ):  5
horizon                       :  77
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  1   N
  - doubly constrained        :  0   D
************************************************************************
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
    1     3      0       17        9       17
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        3          1           4
   3        1          1           4
   4        2          1           5
   5        1          0        \

************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2  N 1
------------------------------------------------------------------------
  1      1     0       0    0    0
  2      1     1       7    0    7
         2     4       0    4    7
         3     6       0    3    7
  3      1     2       3    3    0
  4      1     5       2    0    0
         2     9       2    0    3
  5      1     0       0    0    0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2  N 1
   11    9   12
************************************************************************
"""


def source(text=SMALL, name="small.mm"):
    return SourceFile(name=name, data=text.encode())


def read(text=SMALL):
    return Psplib().read(source(text))


def test_jobs_become_tasks_and_modes_become_node_counts():
    workflow = read()
    assert workflow.name == "small"
    assert workflow.budgets == {"n1": 12}
    assert workflow.tasks == (
        Task(name="1", kind=TaskKind.VIRTUAL),
        Task(
            name="2",
            after=(Dependency(task="1"),),
            work=1,
            nodes=(1, 2, 3),
            speedup=MeasuredSeconds(seconds={1: 1.0, 2: 4.0, 3: 6.0}),
            resources={"r1": {1: 7, 2: 0, 3: 0}, "r2": {1: 0, 2: 4, 3: 3}},
            consumes={"n1": 7},
        ),
        Task(name="3", after=(Dependency(task="1"),), work=2, resources={"r1": 3, "r2": 3}),
        Task(
            name="4",
            after=(Dependency(task="2"), Dependency(task="3")),
            work=5,
            nodes=(1, 2),
            speedup=MeasuredSeconds(seconds={1: 5.0, 2: 9.0}),
            resources={"r1": 2},
            consumes={"n1": {1: 0, 2: 3}},
        ),
        Task(name="5", kind=TaskKind.VIRTUAL, after=(Dependency(task="4"),)),
    )


def test_psplib_workflow_is_valid_and_has_amounts_for_every_mode():
    workflow = read()
    check(workflow)
    graph = unfold(workflow)
    assert graph.resource_names == ("r1", "r2")
    assert [graph.demand_of(1, count).tolist() for count in (1, 2, 3)] == [[7, 0], [0, 4], [0, 3]]
    assert [graph.consumption_of(3, count).tolist() for count in (1, 2)] == [[0], [3]]


def test_machine_has_the_renewable_resources_and_enough_nodes():
    platform = Psplib().read_platform(source())
    (machine,) = platform.machines
    assert (platform.name, machine.name) == ("small", "project")
    assert machine.resources == {"r1": 11.0, "r2": 9.0}
    assert machine.nodes >= 3 + 1 + 2
    assert list(platform.find_problems()) == []


def test_metrics_of_a_psplib_project_count_concurrent_jobs_as_nodes(tmp_path):
    (tmp_path / "small.mm").write_text(SMALL)
    found = plan(tmp_path / "small.mm", on=tmp_path / "small.mm", plan_steps=500).metrics
    assert found.machines_used == 1
    assert found.nodes_used > 1
    assert 0 < found.efficiency <= 1
    assert found.overhead_s >= 0


def test_error_about_an_unsuitable_platform_names_the_needed_resources_and_a_suitable_file(tmp_path):
    (tmp_path / "small.mm").write_text(SMALL)
    with pytest.raises(Infeasible) as error:
        plan(tmp_path / "small.mm", on="identical:2")
    assert "resources: {r1: 3, r2: 3}" in str(error.value)
    assert str(error.value).endswith(f"--on {tmp_path / 'small.mm'}")


def test_psplib_file_can_be_used_as_the_platform(tmp_path):
    path = tmp_path / "small.mm"
    path.write_text(SMALL)
    assert load_platform(path) == Psplib().read_platform(source())


def test_psplib_files_with_other_headings_tabs_and_line_ends_are_read():
    other = SMALL.replace("RESOURCEAVAILABILITIES:", "RESOURCE AVAILABILITIES").replace("duration", "dur")
    assert read(other.replace("  ", "\t")) == read()
    assert read(SMALL.replace("\n", "\r\n")) == read()


def test_only_jobs_without_time_and_amounts_are_dummies():
    workflow = read(SMALL.replace("  1      1     0       0    0    0", "  1      1     0       0    1    0"))
    assert workflow.tasks[0] == Task(name="1", work=0, resources={"r2": 1})


def test_a_project_without_non_renewable_resources_has_no_budget():
    single = """\
PRECEDENCE RELATIONS:
   1        1          1           2
   2        1          0
REQUESTS/DURATIONS:
  1      1     4       5
  2      1     3       0
RESOURCEAVAILABILITIES:
  R 1
    6
"""
    workflow = read(single)
    assert workflow.budgets == {}
    assert [task.resources for task in workflow.tasks] == [{"r1": 5}, {}]


THIRD = "   3        1          1           4"
REFUSED = [
    ("PRECEDENCE RELATIONS:", "PRECEDENCE:", "the section PRECEDENCERELATIONS is missing", None),
    ("RESOURCEAVAILABILITIES:", "RESOURCES:", "the section RESOURCEAVAILABILITIES is missing", None),
    ("   11    9   12", "   11    9", "the totals of 3 resources are '11 9'", "11    9"),
    ("   11    9   12", "   11    9   1x", "the totals of 3 resources are '11 9 1x'", "11    9   1x"),
    ("N 1\n   11", "D 1\n   11", "the file has a doubly constrained resource (D)", "R 1  R 2  D 1"),
    ("2     4       0    4    7", "2     4       0    4", "a line with 4 numbers", "2     4       0    4"),
    ("2     4       0    4    7", "3     4       0    4    7", "mode 3", "3     4       0    4    7"),
    ("2     4       0    4    7", "2     q       0    4    7", "'q'", "2     q       0    4    7"),
    ("  3      1     2 ", "  2      1     2 ", "a second job 2", "2      1     2 "),
    ("2     9       2", "2     0       2", "job 4 has a mode of duration 0", "4        2          1"),
    (
        THIRD,
        "   3        1          2           4",
        "a line with 4 numbers",
        "3        1          2           4",
    ),
    (
        THIRD,
        "   3        2          1           4",
        "job 3 has 1 modes, but this line states 2",
        "3        2 ",
    ),
    (THIRD, "   3        1          1           9", "job 3 has the successor 9", "3        1          1"),
    (THIRD, "   3        1          1           1", "tasks wait for each other: 3 -> 1 -> 3", None),
    (THIRD, "   2        3          1           4", "a second job 2", "2        3          1           4"),
    (THIRD + "\n", "", "job 1 has the successor 3", "1        1          2           2   3"),
]


@pytest.mark.parametrize(("old", "new", "what", "where"), REFUSED)
def test_problems_of_psplib_files_name_the_line(old, new, what, where):
    text = SMALL.replace(old, new)
    with pytest.raises(InvalidInput) as caught:
        read(text)
    problem = caught.value.problems[0]
    assert (problem.what, problem.location.file) == (what, "small.mm")
    if where is None:
        assert problem.location.line is None
    else:
        assert where in text.splitlines()[problem.location.line - 1]


def test_psplib_file_is_recognised_by_its_tables_and_cannot_be_written():
    assert Psplib().recognises(source())
    assert not Psplib().recognises(source("PRECEDENCE of tasks"))
    with pytest.raises(InvalidInput, match="cannot be written as psplib"):
        Psplib().write(read())


@given(damaged([SMALL.encode()]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(lambda found: Psplib().read(SourceFile(name="small.mm", data=found)), data)
