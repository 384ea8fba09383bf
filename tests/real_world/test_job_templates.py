"""GridWay job templates with all groups of keywords: planned, simulated and run, with their outputs."""

from __future__ import annotations

import gzip

import pytest

import weft

MACHINES = """\
machines:
  slow: {nodes: 2, arch: x86_64, attributes: {CPU_MHZ: 1200}, backend: {kind: local}}
  fast: {nodes: 2, arch: x86_64, attributes: {CPU_MHZ: 2400}, backend: {kind: local}}
"""
PROGRAMS = {
    "add": 'n=0; while read -r line; do n=$((n+line)); done; echo "sum $n"; echo "read" >&2',
    "copy.x86_64": 'cat "$1" > "$2"',
    "twice": 'touch tried; [ -e "$FOLDER/failed" ] || { touch "$FOLDER/failed"; exit 1; }; echo done',
    "steps": 'n=$(cat state 2> /dev/null || echo 0); echo $((n+1)) > state; echo "$GW_RESTARTED $n"; [ "$n" = 2 ] || exit 85',
    "prepare": 'echo "prepared $1 $GW_JOB_ID" > ready',
    "count": 'for i in 1 2 3 4; do echo "$i/4" > profile; done; echo "$GW_HOSTNAME"',
    "bin/mpirun": '[ "$1" = -n ]; n="$2"; shift 2; for i in $(seq "$n"); do RANK=$i "$@"; done',
    "part": 'cat "$1"; echo "$2 of $3"',
    "wrap": 'echo "[ $("$@") ]"',
}
FILES = {"numbers": "1\n2\n3\n", "part.0": "a\n", "part.1": "b\n", "part.2": "c\n"}

TEMPLATES = {
    "streams": (
        """\
EXECUTABLE = add
STDIN_FILE = numbers
STDOUT_FILE = sum.${JOB_ID}
STDERR_FILE = log.${JOB_ID}
""",
        {"sum.streams": "sum 6\n", "log.streams": "read\n"},
    ),
    "array": (
        """\
EXECUTABLE = part
ARGUMENTS = part.${TASK_ID} ${TASK_ID} ${TOTAL_TASKS}
INPUT_FILES = part.${TASK_ID}
STDOUT_FILE = out.${TASK_ID}
TOTAL_TASKS = 3
""",
        {"out.0": "a\n0 of 3\n", "out.1": "b\n1 of 3\n", "out.2": "c\n2 of 3\n"},
    ),
    "environment": (
        """\
EXECUTABLE = /bin/sh
ARGUMENTS = -c 'echo $A $B $NOT_SET.'
STDOUT_FILE = out
ENVIRONMENT = A = "one two", B=job-${JOB_ID}
""",
        {"out": "one two job-environment .\n"},
    ),
    "files": (
        """\
EXECUTABLE = copy.${ARCH}
ARGUMENTS = here there
INPUT_FILES = numbers here
OUTPUT_FILES = there result.txt
""",
        {"result.txt": "1\n2\n3\n"},
    ),
    "compressed": (
        """\
EXECUTABLE = add
INPUT_FILES = many.gz [compressed]
ARGUMENTS = < many
STDOUT_FILE = out
""",
        {"out": "sum 10\n"},
    ),
    "prepared": (
        """\
EXECUTABLE = /bin/cat
ARGUMENTS = ready
PRE_WRAPPER = prepare
PRE_WRAPPER_ARGUMENTS = well
STDOUT_FILE = out
""",
        {"out": "prepared well prepared\n"},
    ),
    "wrapped": (
        """\
EXECUTABLE = /bin/echo
ARGUMENTS = inside
WRAPPER = wrap
STDOUT_FILE = out
""",
        {"out": "[ inside ]\n"},
    ),
    "parallel": (
        """\
EXECUTABLE = /bin/echo
ARGUMENTS = rank $RANK
TYPE = mpi
NP = 2
STDOUT_FILE = out
""",
        {"out": "rank 1\nrank 2\n"},
    ),
    "restarted": (
        """\
EXECUTABLE = steps
RESTART_FILES = state
CHECKPOINT_INTERVAL = 60
CHECKPOINT_URL = kept
STDOUT_FILE = out
""",
        {"out": "2 2\n"},
    ),
    "retried": (
        """\
EXECUTABLE = twice
NUMBER_OF_RETRIES = 1
RESCHEDULE_ON_FAILURE = no
SUSPENSION_TIMEOUT = 60
OUTPUT_FILES = tried
STDOUT_FILE = out
DEADLINE = 1:00
""",
        {"out": "done\n", "tried": ""},
    ),
    "monitored": (
        """\
EXECUTABLE = count
REQUIREMENTS = CPU_MHZ > 1000 & ARCH = "x86*"
RANK = CPU_MHZ
STDOUT_FILE = out
PERFORMANCE_PROFILE = profile
PROFILE_THRESHOLD = 60
CPULOAD_THRESHOLD = 1
RESCHEDULING_INTERVAL = 60
""",
        {"out": "fast\n"},
    ),
}
"""By name: the template, and the files that it must leave in the folder, with their content."""


@pytest.fixture
def folder(real, monkeypatch):
    for name, text in PROGRAMS.items():
        real.write(name, f"#!/bin/sh -e\n{text}\n").chmod(0o755)
    for name, text in FILES.items():
        real.write(name, text)
    (real.folder / "many.gz").write_bytes(gzip.compress(b"4\n6\n"))
    real.write("machines.yaml", MACHINES)
    monkeypatch.setenv("PATH", str(real.folder / "bin"), prepend=":")
    monkeypatch.setenv("FOLDER", str(real.folder))
    return real


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_is_planned_simulated_and_run(folder, name):
    text, expected = TEMPLATES[name]
    template = folder.write(f"{name}.jt", text)
    planned = weft.plan(template, on=folder.folder / "machines.yaml", planner="heft")
    assert planned.verify() == []
    simulated = folder.simulate(f"{name}.jt")
    ran = folder.run(f"{name}.jt")
    assert ran.outcome == simulated.outcome == "completed"
    assert {file: folder.text(file) for file in expected} == expected
    assert completed(folder.history) == completed(simulated.history)
    assert len(completed(folder.history)) == len(planned.graph)


def completed(history):
    """Return name and node count of the tasks that have completed, and their machine if the rank decides."""
    return sorted(
        (each.task, each.count, each.machine if each.task == "monitored" else None)
        for each in history.attempts.values()
        if each.ending == "completed"
    )
