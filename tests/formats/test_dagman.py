"""DAGMan files over GridWay templates: published graphs, scripts and retries, rejected statements."""

import shutil

import pytest

from graph_edges import edges_of
from weft.errors import InvalidInput
from weft.formats.dagman import Dagman
from weft.formats.files import load_workflow, read_workflow_file
from weft.formats.format import SourceFile
from weft.workflow.task import Input, TaskKind
from weft.workflow.unfold import unfold

ECHO = "EXECUTABLE = /bin/echo\n"


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.jt").write_text(ECHO)
    return tmp_path


def read(folder, text):
    path = folder / "graph.dag"
    path.write_text(text)
    return read_workflow_file(path)


def refusals(folder, text):
    with pytest.raises(InvalidInput) as caught:
        read(folder, text)
    return caught.value.problems


@pytest.fixture
def published(bench_data, tmp_path):
    """Return a function that copies a graph, with its templates under the names that the graph uses."""

    def place(graph, prefix):
        source = bench_data / "gridway-examples"
        for path in source.glob(f"{prefix}_?.jt"):
            shutil.copy(path, tmp_path / path.name.removeprefix(f"{prefix}_"))
        return shutil.copy(source / graph, tmp_path)

    return place


def test_published_diamond_graph_is_read(published):
    graph = unfold(load_workflow(published("workflow.dag", "workflow")))
    edges = {(source, target) for source, target, *_ in edges_of(graph)}
    assert edges == {("A", "B"), ("A", "C"), ("B", "D"), ("C", "D")}
    last = graph.workflow.tasks[-1]
    assert last.job.command == "./sum out.B out.C"
    assert last.inputs == (Input(file="sum"), Input(file="out.B"), Input(file="out.C"))


def test_published_graph_with_done_jobs_is_read(published):
    workflow = load_workflow(published("complex.dag", "dagman"))
    tasks = {task.name: task for task in workflow.tasks}
    assert "".join(tasks) == "ABCDEFGHIJK"
    assert "".join(name for name, task in tasks.items() if task.kind is TaskKind.VIRTUAL) == "ABCD"
    assert [dependency.task for dependency in tasks["J"].after] == ["F", "K", "I"]
    assert tasks["E"].job.prolog == "./pre.sh"
    assert tasks["E"].inputs == (Input(file="pre.sh"),)
    assert tasks["K"].job.command == "/bin/echo I am the output of job K"


def test_every_missing_template_of_a_graph_is_reported(bench_data):
    path = bench_data / "gridway-examples" / "workflow.dag"
    with pytest.raises(InvalidInput) as caught:
        read_workflow_file(path)
    assert [problem.location.line for problem in caught.value.problems] == [3, 4, 5, 6]
    assert "the template of job A" in str(caught.value)


def test_job_names_ignore_case_and_may_be_used_before_the_job(folder):
    workflow = read(folder, "parent x child Y\nretry Y 2\nJob X a.jt\nJOB Y b.jt noop\nCONFIG x\n")
    first, second = workflow.tasks
    assert [dependency.task for dependency in second.after] == ["X"]
    assert (first.kind, second.kind) == (TaskKind.COMPUTE, TaskKind.VIRTUAL)
    assert first.recovery.retries is None


def test_retries_and_scripts_extend_the_template(folder):
    (folder / "a.jt").write_text(ECHO + "PRE_WRAPPER = /opt/own\nNUMBER_OF_RETRIES = 9\nINPUT_FILES = s.sh\n")
    (task,) = read(folder, "JOB X a.jt\nRETRY X 2\nSCRIPT PRE X s.sh {1} two\n").tasks
    assert task.recovery.retries == 2
    assert task.job.prolog == "./s.sh {{1}} two && /opt/own"
    assert task.inputs == (Input(file="s.sh"),)


def test_array_job_in_a_graph_keeps_its_size(folder):
    (folder / "a.jt").write_text(ECHO + "TOTAL_TASKS = 3\nARGUMENTS = ${TASK_ID} ${TOTAL_TASKS}\n")
    (folder / "b.jt").write_text(ECHO + "ARGUMENTS = ${TASK_ID} ${TOTAL_TASKS}\n")
    workflow = read(folder, "JOB X a.jt\nJOB Y b.jt\nPARENT X CHILD Y\n")
    assert workflow.params == {}
    assert list(unfold(workflow).names) == ["X[0]", "X[1]", "X[2]", "Y"]
    assert [task.job.command for task in workflow.tasks] == ["/bin/echo {task_id} 3", "/bin/echo 0 1"]


def test_job_ids_make_file_names_unique_in_a_graph(folder):
    (folder / "a.jt").write_text(ECHO + "STDOUT_FILE = out.${JOB_ID}\n")
    workflow = load_workflow_of(folder, "JOB X a.jt\nJOB Y a.jt\n")
    assert [task.outputs[0].file for task in workflow.tasks] == ["out.X", "out.Y"]


def load_workflow_of(folder, text):
    (folder / "graph.dag").write_text(text)
    return load_workflow(folder / "graph.dag")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("JOB X a.jt\nJOB x b.jt", 2, "a second job x"),
        ("JOB X", 1, "must be JOB NAME FILE"),
        ("JOB X a.jt DIR there", 1, "'DIR' in JOB X"),
        ("JOB X a.jt\nPARENT X CHILD", 2, "PARENT without parents or children"),
        ("JOB first a.jt\nPARENT first CHILD frist", 2, "no job 'frist'; did you mean 'first'?"),
        ("JOB X a.jt\nSCRIPT POST X p.sh", 2, "make it a job of its own"),
        ("JOB X a.jt\nRETRY X 3 UNLESS-EXIT 2", 2, "RETRY JOB NUMBER"),
        ("JOB X a.jt\nSUBDAG EXTERNAL Y y.dag", 2, "a statement SUBDAG"),
        ("JOB X a.jt\nPARNT X CHILD X", 2, "did you mean 'PARENT'?"),
        ("JOB X d.jt", 1, "no file"),
        ("JOB X .", 1, "is a directory"),
        ("# nothing", None, "no jobs"),
    ],
)
def test_error_about_an_invalid_graph_names_the_line(folder, text, line, words):
    with pytest.raises(InvalidInput) as caught:
        Dagman().read(SourceFile(name=str(folder / "graph.dag"), data=text.encode()))
    (problem, *_) = caught.value.problems
    assert problem.location.line == line
    assert words in str(problem)


def test_error_about_a_cycle_in_dagman_lists_its_jobs(folder):
    text = "JOB X a.jt\nJOB Y b.jt\nPARENT X CHILD Y\nPARENT Y CHILD X\n"
    assert "wait for each other: Y -> X -> Y" in str(refusals(folder, text)[0])


def test_problems_of_a_template_name_the_template_file_and_the_line(folder):
    (folder / "b.jt").write_text(ECHO + "COLOUR = red\nRANK = )\n")
    problems = refusals(folder, "JOB X a.jt\nJOB Y b.jt\n")
    places = [(problem.location.file, problem.location.line) for problem in problems]
    assert places == [(str(folder / "b.jt"), 2), (str(folder / "b.jt"), 3)]


def test_input_with_another_name_than_the_output_of_its_producer_is_rejected(folder):
    (folder / "a.jt").write_text(ECHO + "OUTPUT_FILES = raw result\n")
    (folder / "b.jt").write_text(ECHO + "INPUT_FILES = result\n")
    (folder / "c.jt").write_text(ECHO + "INPUT_FILES = result mine\n")
    assert unfold(read(folder, "JOB X a.jt\nJOB Y b.jt\n")).edge_count == 1
    (problem,) = refusals(folder, "JOB X a.jt\nJOB Y c.jt\n")
    assert "Y reads 'result' of X under the name 'mine'" in problem.what


def test_writing_dagman_is_rejected(folder):
    with pytest.raises(InvalidInput, match="cannot be written"):
        Dagman().write(read(folder, "JOB X a.jt\n"))
