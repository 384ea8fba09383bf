"""STG: the published set, its two ways to count tasks, damaged input."""

import csv
import zipfile

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.stg import Stg
from weft.workflow.task import Dependency, TaskKind
from weft.workflow.unfold import unfold

SMALL = b"""# a remark
  3
  0  0  0
  1  5  1  0
  2  0  1  0
  3  4  2  1 2   # end of line
  4  0  1  3
# CP Length : 9
"""


def read(data, name="small.stg"):
    return Stg().read(SourceFile(name=name, data=data))


def refusal(data):
    with pytest.raises(InvalidInput) as caught:
        read(data)
    return caught.value.problems[0]


def critical_path(graph):
    finish = []
    for task in range(len(graph)):
        ready = max((finish[parent] for parent in graph.predecessors(task).tolist()), default=0.0)
        work = graph.work[task]
        finish.append(ready + (0.0 if work != work else work))
    return max(finish)


def test_stg_tasks_edges_and_dummies_are_read():
    workflow = read(SMALL)
    assert workflow.name == "small"
    assert [task.name for task in workflow.tasks] == ["0", "1", "2", "3", "4"]
    assert [task.kind for task in workflow.tasks] == [
        TaskKind.VIRTUAL,
        *[TaskKind.COMPUTE] * 3,
        TaskKind.VIRTUAL,
    ]
    assert [task.work for task in workflow.tasks] == [None, 5, 0, 4, None]
    assert workflow.tasks[3].after == (Dependency(task="1"), Dependency(task="2"))


def test_stg_header_may_count_the_dummies():
    assert len(read(SMALL.replace(b"  3\n", b"  5\n", 1)).tasks) == 5


def test_first_and_last_task_with_a_duration_are_not_dummies():
    kinds = [task.kind for task in read(b"2\n0 3 0\n1 4 1 0\n").tasks]
    assert kinds == [TaskKind.COMPUTE, TaskKind.COMPUTE]


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", None, "no lines"),
        (b"# only a remark\n", None, "no lines"),
        (b"x\n", 1, "number of tasks"),
        (b"3 4\n", 1, "number of tasks"),
        (b"-3\n", 1, "number of tasks"),
        (b"0\n", None, "no tasks"),
        (b"1\n0 0 0\n1 5\n2 0 1 1\n", 3, "only 2 numbers"),
        (b"1\n0 0 0\n1 5 2 0\n2 0 1 1\n", 3, "the line states 2"),
        (b"1\n0 0 0\n1 5 1 9\n2 0 1 1\n", 3, "waits for 9"),
        (b"1\n0 0 0\n1 five 1 0\n2 0 1 1\n", 3, "'five'"),
        (b"1\n0 0 0\n1 -5 1 0\n2 0 1 1\n", 3, "at least 0"),
        (b"1\n0 0 0\n1 5 1 0.5\n2 0 1 1\n", 3, "whole number"),
        (b"1\n0 0 0\n0 5 1 0\n2 0 1 0\n", 3, "the first is in line 2"),
        (b"1\n0 0 0\n1 " + b"9" * 5000 + b" 1 0\n2 0 1 1\n", 3, "whole number"),
        (b"7\n0 0 0\n1 5 1 0\n2 0 1 1\n", None, "must be 9 lines"),
        (b"1\n0 0 1 2\n1 5 1 0\n2 0 1 1\n", None, "wait for each other"),
    ],
)
def test_error_about_an_invalid_stg_file_names_the_line(data, line, words):
    problem = refusal(data)
    assert problem.location.line == line
    assert words in str(problem)


def test_stg_files_are_recognised_by_content():
    form = Stg()
    assert form.recognises(SourceFile(name="x.txt", data=SMALL))
    assert form.recognises(SourceFile(name="x.txt", data=b"1\r\n0 0 0\r\n"))
    for other in (
        b"",
        b"3\n",
        b"3\nabc",
        b"3 4 5\n1 2 3\n",
        b"{}",
        b"tasks:\n",
        b"\n" * 60000,
        b"#\n" * 30000,
    ):
        assert not form.recognises(SourceFile(name="x.stg", data=other))


def test_writing_stg_is_rejected():
    with pytest.raises(InvalidInput, match="cannot be written"):
        Stg().write(read(SMALL))


@given(damaged([SMALL]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


@pytest.mark.parametrize(
    ("name", "tasks", "length"), [("robot", 88, 569), ("sparse", 96, 122), ("fpppp", 334, 1062)]
)
def test_critical_paths_of_application_graphs_are_as_published(bench_data, name, tasks, length):
    path = bench_data / "stg" / "app" / f"{name}.stg"
    graph = unfold(read(path.read_bytes(), path.name))
    assert sum(task.kind is TaskKind.COMPUTE for task in graph.workflow.tasks) == tasks
    assert critical_path(graph) == length


def test_critical_paths_of_graphs_of_fifty_tasks_equal_their_footers(bench_data):
    """The footer of each file states tasks, edges and the length of the critical path."""
    read_files = 0
    with zipfile.ZipFile(bench_data / "stg" / "stg50.zip") as archive:
        for name in archive.namelist():
            if not name.endswith(".stg"):
                continue
            data = archive.read(name)
            graph = unfold(read(data, name))
            footer = {
                key.strip("# \t"): value.split()
                for key, _, value in (
                    line.partition(":") for line in data.decode().splitlines() if line.startswith("#")
                )
            }
            assert len(graph) == int(footer["Tasks"][0]) + 2, name
            assert critical_path(graph) == float(footer["CP Length"][0]), name
            read_files += 1
    assert read_files == 180


def test_sample_graphs_agree_with_the_bounds_of_the_published_table(bench_data):
    with (bench_data / "stg" / "reference.csv").open() as table:
        rows = {(row["file"], row["procs"]): row for row in csv.DictReader(table)}
    found = 0
    for path in sorted((bench_data / "stg" / "sample").glob("*.stg")):
        size, _, stem = path.stem.partition("_")
        row = rows.get((f"{size}/{stem}.stg", "2")) or rows.get((f"{size}/{stem}", "2"))
        graph = unfold(read(path.read_bytes(), path.name))
        if row is not None:
            found += 1
            work = sum(task.work or 0 for task in graph.workflow.tasks)
            assert max(critical_path(graph), -(-work // 2)) == float(row["trivial_lb"]), path.name
    assert found > 0
