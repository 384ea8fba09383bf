"""GridWay job templates: every keyword, the published templates, reported mistakes."""

import subprocess

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from weft.errors import InvalidInput
from weft.expressions import parse
from weft.formats.files import detect_format
from weft.formats.format import SourceFile
from weft.formats.gridway import GridWay
from weft.instance import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.checks import check
from weft.workflow.task import Checkpoint, Input, JobSpec, Output, Recovery
from weft.workflow.templates import fill_template
from weft.workflow.unfold import unfold

WHOLE = b"""
# A template with every keyword.
NAME = search
EXECUTABLE = bin.${GW_ARCH}
ARGUMENTS = -n $GW_TASK_ID ${HOME}/x '{a}' ${GW_RESTARTED}
ENVIRONMENT = MODE="fast, safe", DIR /tmp , HOST=${HOSTNAME}
INPUT_FILES = seq.${TASK_ID} seq, http://host/db/pdb.gz [shared compressed size=12.2MB], /etc/hosts, plain
OUTPUT_FILES = best best.$ARCH.${TASK_ID}, log.$GW_TASK_ID, /var/log/x, far gsiftp://host/tmp/${MODE}
STDIN_FILE = file:///home/me/in.txt
STDOUT_FILE = out.${JOB_ID}
STDERR_FILE = /tmp/err
RESTART_FILES = state, state.${TASK_ID}
CHECKPOINT_INTERVAL = 60
CHECKPOINT_URL = gsiftp://store/dir
REQUIREMENTS = CPU_MHZ > 1000
RANK = CPU_MHZ
RESCHEDULING_INTERVAL = 30
RESCHEDULING_THRESHOLD = 300
SUSPENSION_TIMEOUT = 600.5
CPULOAD_THRESHOLD = 50
MONITOR = watch.sh
PERFORMANCE_PROFILE = profile.txt
PROFILE_THRESHOLD = 8
RESCHEDULE_ON_FAILURE = yes
NUMBER_OF_RETRIES = 3
WRAPPER = tools/wrap.sh
PRE_WRAPPER = /opt/prepare
PRE_WRAPPER_ARGUMENTS = --quick ${ARCH}
TYPE = "mpi"
NP = 4
DEADLINE = 2:00
TOTAL_TASKS = 3
"""


def read(data, name="job.jt"):
    return GridWay().read(SourceFile(name=name, data=data))


def job(text):
    return read(b"EXECUTABLE = /bin/x\n" + text.encode()).tasks[0]


def refusal(data):
    with pytest.raises(InvalidInput) as caught:
        read(data)
    return caught.value.problems[0]


def test_every_gridway_keyword_is_translated():
    workflow = read(WHOLE)
    (task,) = workflow.tasks
    check(workflow)
    assert (workflow.name, workflow.params, task.name) == ("job", {"total_tasks": 3}, "search")
    assert task.job == JobSpec(
        command='env HOST="{machine.name}" ./bin.{machine.arch} '
        "-n {task_id} ${HOME-}/x '{{a}}' ${GW_RESTARTED:-0} "
        "&& mv best best.{machine.arch}.{task_id} && mv far far.{task_id}",
        env={"MODE": "fast, safe", "DIR": "/tmp"},
        stdin="in.txt",
        stdout="out.search.{task_id}",
        stderr="err.{task_id}",
        prolog="/opt/prepare --quick {machine.arch}",
        wrapper="tools/wrap.sh",
        evaluator='./watch.sh "$WEFT_PID"',
    )
    assert task.inputs == (
        Input(file="bin.{machine.arch}"),
        Input(file="seq", source="seq.{task_id}"),
        Input(file="pdb.gz", source="http://host/db/pdb.gz", shared=True, compressed=True, size=12.2e6),
        Input(file="plain"),
        Input(file="in.txt", source="file:///home/me/in.txt"),
        Input(file="tools/wrap.sh"),
        Input(file="watch.sh"),
    )
    assert task.outputs == (
        Output(file="best.{machine.arch}.{task_id}"),
        Output(file="log.{task_id}"),
        Output(file="far.{task_id}", target="gsiftp://host/tmp/fast, safe"),
        Output(file="out.search.{task_id}"),
        Output(file="err.{task_id}", target="/tmp/err"),
    )
    assert task.recovery == Recovery(
        checkpoint=Checkpoint(files=("state", "state.{task_id}"), every=60, url="gsiftp://store/dir"),
        progress="profile.txt",
        retries=3,
        on_failure="reschedule",
    )
    assert task.requirements == parse("default(CPU_MHZ, 0) > 1000")
    assert task.rank == parse("default(CPU_MHZ, 0)")
    assert task.nodes == (4,)
    assert task.settings == {
        "better_every_s": 30,
        "better_until_s": 300,
        "suspension_timeout_s": 600.5,
        "iteration_limit_s": 8,
        "evaluator_timeout_s": None,
    }
    assert workflow.settings == {"deadline_s": 7200}
    assert task.attributes == {"CPULOAD_THRESHOLD": 50, "files_on_machine": ["/etc/hosts", "/var/log/x"]}


def test_value_0_disables_a_limit_as_in_gridway():
    task = job("RESCHEDULING_INTERVAL = 0\nSUSPENSION_TIMEOUT = 0\nCPULOAD_THRESHOLD = 0\nDEADLINE = 0")
    assert task.settings == {"better_every_s": None, "suspension_timeout_s": None}
    assert task.job.evaluator is None


def test_rescheduling_threshold_limits_the_time_in_which_better_machines_are_searched():
    assert job("RESCHEDULING_INTERVAL = 60").settings == {"better_every_s": 60, "better_until_s": 300}
    assert job("RESCHEDULING_THRESHOLD = 60").settings == {}


@pytest.mark.parametrize(
    ("text", "evaluator"),
    [
        ("CPULOAD_THRESHOLD = 30", "cpu:30%"),
        ("MONITOR = libexec/gw_monitor.sh", "cpu:50%"),
        ("MONITOR = libexec/gw_monitor.sh\nCPULOAD_THRESHOLD = 20", "cpu:20%"),
        ("MONITOR = /opt/m\nCPULOAD_THRESHOLD = 20", '/opt/m "$WEFT_PID"'),
        ("", None),
    ],
)
def test_monitor_and_load_become_the_evaluator(text, evaluator):
    assert job(text).job.evaluator == evaluator


@pytest.mark.parametrize(("text", "seconds"), [("90", 5400), ("2:30", 9000), ("1:00:00", 86400)])
def test_deadline_is_days_hours_and_minutes(text, seconds):
    workflow = read(f"EXECUTABLE = /bin/x\nDEADLINE = {text}\n".encode())
    assert workflow.settings == {"deadline_s": seconds}


def test_unset_variables_in_arguments_are_empty_and_random_is_a_number():
    command = job("ARGUMENTS = $NO_SUCH ${ALSO:-x} $RANDOM").job.command
    ran = subprocess.run(
        ["/bin/sh", "-eu", "-c", command.replace("/bin/x", "echo")], capture_output=True, check=True
    )
    words = ran.stdout.split()
    assert (words[0], words[1].isdigit(), len(words)) == (b"x", True, 2)


def test_name_of_the_program_contains_the_architecture_of_the_chosen_machine():
    """A3.8: the variable is replaced by the architecture of the chosen machine."""
    (task,) = read(b"EXECUTABLE = bin.${GW_ARCH}\n").tasks
    filled = [fill_template(task.job.command, {"machine.arch": arch}) for arch in ("alpha", "i686")]
    assert filled == ["./bin.alpha", "./bin.i686"]
    assert [fill_template(given.file, {"machine.arch": "alpha"}) for given in task.inputs] == ["bin.alpha"]


def test_array_job_is_a_sweep_from_0():
    template = b"EXECUTABLE = /bin/x\nARGUMENTS = ${TASK_ID} ${TOTAL_TASKS}\nSTDOUT_FILE = o.${TASK_ID}\n"
    assert list(unfold(read(template)).names) == ["job[0]"]
    graph = unfold(read(template + b"TOTAL_TASKS = 3\n"))
    assert list(graph.names) == ["job[0]", "job[1]", "job[2]"]
    assert read(template).tasks[0].job.command == "/bin/x {task_id} {total_tasks}"


def test_template_without_array_variables_is_one_task():
    task = job("STDOUT_FILE = o.${JOB_ID}.${ARRAY_ID}")
    assert task.sweep is None
    assert task.job.stdout == "o.job.job"


def test_renamed_output_is_moved_by_the_command():
    task = job("ARGUMENTS = 3\nOUTPUT_FILES = res res.${JOB_ID}, same same, raw /tmp/raw")
    assert task.job.command == "/bin/x 3 && mv res res.job"
    assert task.outputs == (
        Output(file="res.job"),
        Output(file="same"),
        Output(file="raw", target="/tmp/raw"),
    )


def test_shared_file_is_one_input_of_all_tasks():
    """Basis of A3.7: the array job names one file, marked as shared."""
    task = job("INPUT_FILES = pdb [shared], seq.${TASK_ID}\nTOTAL_TASKS = 5")
    assert task.inputs == (Input(file="pdb", shared=True), Input(file="seq.{task_id}"))


def test_template_without_restart_files_has_no_checkpoint():
    """Basis of A3.9: a job without restart files starts from the beginning."""
    assert job("CHECKPOINT_INTERVAL = 60").recovery.checkpoint is None
    assert job("RESTART_FILES = a").recovery.checkpoint == Checkpoint(files=("a",), every=300)
    assert job("RESTART_FILES = a\nCHECKPOINT_INTERVAL = 0").recovery.checkpoint == Checkpoint(files=("a",))


@pytest.mark.parametrize(("word", "rule"), [("no", "hold"), ("YES", "reschedule")])
def test_action_after_the_last_retry_is_translated(word, rule):
    assert job(f"RESCHEDULE_ON_FAILURE = {word}").recovery.on_failure == rule


def test_default_wrapper_of_gridway_is_dropped():
    assert job("WRAPPER = libexec/gw_wrapper.sh").job.wrapper is None


def test_mpi_job_has_its_processors_and_mpirun():
    assert job("NP = 1").nodes == (1,)
    task = job("TYPE = mpi\nNP = 4")
    assert (task.nodes, task.job.wrapper) == ((4,), "mpirun -n {nodes}")
    assert job("TYPE = mpi\nNP = 4\nWRAPPER = /opt/wrap").job.wrapper == "/opt/wrap"


def test_requirements_select_machines():
    workflow = read(b'EXECUTABLE = /bin/x\nREQUIREMENTS = CPU_MHZ > 1000 & LRMS_TYPE != "fork"\n')
    machines = (
        Machine(name="slow", attributes={"CPU_MHZ": 500, "LRMS_TYPE": "pbs"}),
        Machine(name="fit", attributes={"CPU_MHZ": 2400, "LRMS_TYPE": "pbs"}),
        Machine(name="silent", attributes={"CPU_MHZ": 2400}),
    )
    made = compile_instance(unfold(workflow), Platform(name="p", machines=machines))
    assert [machines[index].name for index in made.candidates_of(0)] == ["fit"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("ARGUMENT = 1", 2, "unknown keyword ARGUMENT; did you mean 'ARGUMENTS'?"),
        ("just words", 2, "KEYWORD = value"),
        ("RANK = 1\nRANK = 2", 3, "a second RANK"),
        ("\n\nRANK = CPU_MHZ +", 4, "the end is not expected in RANK"),
        ("NP = 4", 2, "NP is the number of processors of an MPI job; add TYPE = mpi"),
        ("DEADLINE = tomorrow", 2, "must be [[DAYS:]HOURS:]MINUTES"),
        ("NUMBER_OF_RETRIES = many", 2, "must be a whole number, at least 0"),
        ("TOTAL_TASKS = 0", 2, "at least 1"),
        ("SUSPENSION_TIMEOUT = -1", 2, "must be a number, at least 0"),
        ("RESCHEDULE_ON_FAILURE = maybe", 2, "must be yes or no"),
        ("TYPE = multiple", 2, "must be single or mpi"),
        ("JOB_DEPENDENCIES = 3 4", 2, "list the templates in a DAGMan file"),
        ("RESTART_FILES = gsiftp://h/f", 2, "under CHECKPOINT_URL"),
        ("CHECKPOINT_URL = kept", 2, "CHECKPOINT_URL = kept without RESTART_FILES"),
        ("INPUT_FILES = a b c", 2, "an entry has one name, or two"),
        ("INPUT_FILES = /a b", 2, "write file:///a b"),
        ("INPUT_FILES = http://host/", 2, "names no file"),
        ("INPUT_FILES = a [public]", 2, "must be shared, compressed or size=BYTES"),
        ("INPUT_FILES = a [size=big]", 2, "a number of bytes"),
        ("OUTPUT_FILES = /a b", 2, "is not moved"),
        ("OUTPUT_FILES = http://h/a", 2, "write NAME URL"),
        ("STDOUT_FILE = o.${TASKID}", 2, "did you mean 'TASK_ID'?"),
        ("STDOUT_FILE = o.${RESTARTED}", 2, "unknown variable ${RESTARTED}"),
        ("ARGUMENTS = ${PARAM}", 2, "use ${TASK_ID}"),
        ("ENVIRONMENT = 1A=2", 2, "NAME=value"),
    ],
)
def test_error_about_an_invalid_template_names_the_line(text, line, words):
    problem = refusal(b"EXECUTABLE = x\n" + text.encode())
    assert problem.location.line == line
    assert words in str(problem)


@pytest.mark.parametrize("data", [b"", b"RANK = 1", b"EXECUTABLE ="])
def test_template_without_a_program_is_rejected(data):
    assert refusal(data).location.file == "job.jt"


def test_all_problems_of_a_template_are_reported_together():
    with pytest.raises(InvalidInput) as caught:
        read(b"EXECUTABLE = x\nNP = 0\nTYPE = mpi\nRANK = )\nCOLOUR = red\n")
    assert [problem.location.line for problem in caught.value.problems] == [5, 2, 4]


def test_writing_gridway_is_rejected():
    with pytest.raises(InvalidInput, match="cannot be written"):
        GridWay().write(read(WHOLE))


@given(damaged([WHOLE]))
def test_damaged_template_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


def test_published_templates_are_read(bench_data):
    refused = {}
    templates = sorted((bench_data / "gridway-examples").glob("*.jt"))
    for path in templates:
        source = SourceFile(name=path.name, data=path.read_bytes())
        assert detect_format(source).name == "gridway"
        try:
            check(GridWay().read(source))
        except InvalidInput as error:
            refused[path.name] = str(error)
    assert len(templates) == 33
    assert refused.keys() == {"test_checkpoint_gsiftp.jt"}
    assert "restart files are files of the job" in refused["test_checkpoint_gsiftp.jt"]


def test_published_requirement_of_an_mpi_job_is_translated(bench_data):
    path = bench_data / "gridway-examples" / "mpi.jt"
    (task,) = read(path.read_bytes()).tasks
    assert task.requirements == parse('default(LRMS_TYPE, null) != "Fork" and matches(name, "*.lrz.de")')
    assert task.rank == parse("default(CPU_MHZ, 0) + default(QUEUE_FREENODECOUNT, free_nodes)")
