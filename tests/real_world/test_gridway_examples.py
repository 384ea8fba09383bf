"""GridWay's own examples, run to the end that GridWay documents for them, with small programs."""

from __future__ import annotations

import shutil

import pytest

from cli.projects import Project

MACHINES = """\
machines:
  m1.lrz.de: {arch: x86, attributes: {CPU_MHZ: 2400, LRMS_TYPE: pbs}, backend: {kind: local}}
  m2.lrz.de: {arch: x86, attributes: {CPU_MHZ: 1200, LRMS_TYPE: pbs}, backend: {kind: local}}
"""
PROGRAMS = {
    "script.sh": 'env > env.txt; i=0; while [ $i -lt $1 ]; do echo $i >> outfile; i=$((i+1)); done; echo "$VAL1"',
    "exit_with.sh": "exit $1",
    "normal_execution.sh": 'echo "$VAL1 $VAL2 $VAL4" > "$LOG"',
    "pre_wrapper.sh": "echo prepared > wrappertoken",
    "pre_wrapper_script.sh": 'cp wrappertoken "$LOG"',
    "sum": 'value() { if [ -e "$1" ]; then cat "$1"; else echo "$1"; fi; }; echo $(($(value $1) + $(value $2)))',
    "pi": 'echo "$GW_TASK_ID of $GW_TOTAL_TASKS: $*"',
    "mpi": 'echo "$RANKS ranks"',
    "bin/mpirun": '[ "$1" = -n ]; export RANKS="$2"; shift 2; exec "$@"',
    "pre.sh": 'echo prepared > "$LOG"',
}


@pytest.fixture
def examples(real, bench_data, monkeypatch):
    source = bench_data / "gridway-examples"
    for path in (*source.glob("*.jt"), *source.glob("*.dag")):
        shutil.copy(path, real.folder)
    for name, text in PROGRAMS.items():
        real.write(name, f"#!/bin/sh -e\n{text}\n").chmod(0o755)
    for name in ("pi.c", "wrappertoken"):
        real.write(name, "raw\n")
    real.write("machines.yaml", MACHINES)
    monkeypatch.setenv("PATH", str(real.folder / "bin"), prepend=":")
    monkeypatch.setenv("LOG", str(real.folder / "log"))
    return real


def use_templates(real, prefix):
    """Give the templates of a graph the names that the graph uses."""
    for path in real.folder.glob(f"{prefix}_?.jt"):
        path.rename(real.folder / path.name.removeprefix(f"{prefix}_"))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("ls", {"ls.err.ls": ""}),
        ("mpi", {"stdout.mpi": "1 ranks\n", "stderr.mpi": ""}),
        ("sleep", {"oosleep": "example\n", "outfile": "".join(f"{i}\n" for i in range(10))}),
        ("test_checkpoint", {"ootest_checkpoint": "example\n"}),
        ("test_normal_execution", {"log": "example other 234\n"}),
        ("test_pre_wrapper", {"log": "prepared\n", "wrappertoken": "raw\n"}),
    ],
)
def test_example_completes_with_the_expected_files(examples, name, files):
    assert examples.run(f"{name}.jt").completed
    assert {file: examples.text(file) for file in files} == files
    ended = examples.attempt(name)
    assert ended.machine == 0  # the rank of all of them begins with CPU_MHZ


def test_variables_of_gridway_reach_the_program(examples):
    assert examples.run("sleep.jt").completed
    seen = dict(line.partition("=")[::2] for line in examples.text("env.txt.sleep").splitlines())
    expected = {"GW_JOB_ID": "sleep", "GW_HOSTNAME": "m1.lrz.de", "GW_ARCH": "x86", "GW_CPU_MHZ": "2400",
                "GW_RESTARTED": "0", "GW_RESTART_FILES": "outfile", "VAL2": "other", "VAL4": "234"}  # fmt: skip
    assert {name: seen.get(name) for name in expected} == expected


def test_array_example_runs_with_the_given_number_of_tasks(examples):
    assert examples.run("pi.jt", params={"total_tasks": 4}).completed
    assert [examples.text(f"stdout_file.{i}") for i in range(4)] == [
        f"{i} of 4: {i} 4 100000\n" for i in range(4)
    ]


@pytest.mark.parametrize(
    ("name", "cause", "attempts"),
    [
        ("test_failed_execution_no_reschedule", "error", 1),
        ("test_epilog_output_nr", "error", 1),
        ("test_epilog_output_r", "error", 2),
        ("test_prolog_input_nr", "staging", 1),
        ("test_prolog_stdin_nr", "staging", 1),
    ],
)
def test_failed_job_that_is_not_rescheduled_is_held(examples, name, cause, attempts):
    ran = examples.run(f"{name}.jt")
    assert ran.outcome == "stopped"
    assert [each.cause for each in examples.attempts(name)][-1] == cause
    if cause == "error":
        assert len(examples.attempts(name)) == attempts


def test_held_job_is_released_by_resume(examples, capsys):
    shell = Project(examples.folder, capsys)
    name = "test_failed_execution_no_reschedule"
    held = shell.weft("run", f"{name}.jt", "--on", "machines.yaml", "--quiet")
    assert (held.code, f"{name} failed, is held until `weft resume` (error)" in held.err) == (1, True)
    assert [(each["held"], each["failed"]) for each in shell.json("status")["kinds"]] == [(1, 0)]
    assert "it became held" in shell.weft("explain", name).out
    examples.write("exit_with.sh", "#!/bin/sh\nexit 0\n")
    assert shell.weft("resume", "--quiet").code == 0


def test_rescheduled_job_is_tried_once_on_each_machine_and_then_fails(examples):
    name = "test_failed_execution_reschedule"
    assert examples.run(f"{name}.jt").outcome == "failed"
    tried = examples.attempts(name)
    assert {each.cause for each in tried} == {"error"}
    assert len({each.machine for each in tried}) == len(tried) == 2, "each machine is tried once"


def test_error_about_an_example_with_a_gsiftp_url_names_the_url(examples, capsys):
    shell = Project(examples.folder, capsys)
    refused = shell.weft("check", "test_checkpoint_gsiftp.jt")
    assert (refused.code, "gsiftp://draco.dacya.ucm.es" in refused.err) == (2, True)


def test_example_with_a_missing_program_is_refused(examples, capsys):
    refused = Project(examples.folder, capsys).weft("run", "test_prolog_ex_nr.jt", "--on", "machines.yaml")
    assert (refused.code, "a program of task 'test_prolog_ex_nr', does not exist" in refused.err) == (2, True)


def test_graph_examples_run_in_the_order_of_their_dependencies(examples):
    use_templates(examples, "workflow")
    assert examples.run("workflow.dag").completed
    drawn = (int(examples.text("out.D")) - 2) / 2
    assert drawn.is_integer()
    use_templates(examples, "dagman")
    assert examples.run("complex.dag").completed
    assert examples.text("log") == "prepared\n"
    started = sorted(examples.history.attempts.values(), key=lambda each: each.started_s)
    assert "".join(each.task for each in started) in ("EGHKIFJ", "EGKHIFJ")


def test_monitor_of_a_template_runs_during_the_job_and_can_cause_its_migration(examples):
    monitor = 'kill -0 "$1"; [ "$GW_HOSTNAME" = m2.lrz.de ] || echo slow > gw_perf; sleep 1000'
    examples.write("monitor.sh", f"#!/bin/sh -e\n{monitor}\n").chmod(0o755)
    waits = 'until [ "$GW_HOSTNAME" = m2.lrz.de ]; do sleep 0.05; done; echo "$GW_HOSTNAME" > out'
    examples.write("waits.sh", f"#!/bin/sh\n{waits}\n").chmod(0o755)
    examples.write(
        "watched.jt",
        "EXECUTABLE = waits.sh\nRANK = CPU_MHZ\nMONITOR = monitor.sh\nOUTPUT_FILES = out\n",
    )
    settings = {"poll_every": "0.3s", "migration": {"when": "always"}, "timeouts": {"ending": "0.2s"}}
    assert examples.run("watched.jt", settings=settings).completed
    assert examples.text("out") == "m2.lrz.de\n"
    assert [each.left_for for each in examples.attempts("watched")] == ["performance", ""]
