"""Restart files of real programs: requested, copied to the store, and used after every kind of end."""

from __future__ import annotations

import json
import signal

import pytest

from cli.projects import Project, wait_for
from weft.engine import messages
from weft.engine.states import UNKNOWN_SHARE

MACHINES = """\
machines:
  m1: {backend: {kind: local}}
  m2: {backend: {kind: local}}
"""
COUNTER = """\
#!/bin/sh
# Counts; writes its state when SIGUSR1 requests it, and on no other occasion.
trap 'echo $n > state.new; mv state.new state; echo saved >> "$LOG"' USR1
n=0
[ "$WEFT_RESTART" = 0 ] || n=$(cat state)
echo "start $WEFT_RESTART" >> "$LOG"
while [ "$WEFT_RESTART" = 0 ]; do
    n=$((n+1))
    sleep 0.05
    : AFTER
done
[ "$n" -gt 0 ]
echo "resumed" > out
"""
LOSE_MACHINE = """\
if [ -e "$PROJECT/.weft/checkpoints/1/0-0/current" ]; then
        {remove}
        read -r _ _ _ runner _ < /proc/$PPID/stat
        kill -9 "$runner"
        exec sleep 1000
    fi"""


@pytest.fixture
def counted(real):
    real.write("machines.yaml", MACHINES)
    return real


def counter(real, after=":", settings="{}", name="flow.yaml", **facets):
    """Write a workflow with one task ``a``, a counter that runs a line after each step until it is resumed."""
    path = real.write("counter", COUNTER.replace(": AFTER", after))
    path.chmod(0o755)
    task = {
        "command": "./counter",
        "outputs": ["out"],
        "rank": "1 if name == 'm1' else 0",
        "env": {"LOG": str(real.folder / "log"), "PROJECT": str(real.folder)},
        "checkpoint": {"files": ["state"]},
        **facets,
    }
    real.write(name, f"settings: {settings}\ntasks: {{a: {json.dumps(task)}}}\n")


def lines(real):
    return real.text("log").splitlines()


def run_noting(real, **options):
    """Run the workflow; return the events and commands about its restart files."""
    found = []

    def watch(entry, engine):
        found.extend(
            each
            for each in (entry.event, *entry.commands)
            if isinstance(each, messages.Checkpointed | messages.ReportModule)
        )

    ran = real.run("flow.yaml", note=watch, **options)
    assert ran.completed
    return found


def test_restart_files_copied_at_the_interval_are_used_after_the_machine_is_lost(counted):
    remove = 'rm -rf "$PWD"/*'
    counter(
        counted,
        LOSE_MACHINE.format(remove=remove),
        checkpoint={"files": ["state"], "every": "0.5s"},
        work="9s",
    )
    kept = [each for each in run_noting(counted) if isinstance(each, messages.Checkpointed)]
    assert 0.0 < kept[0].work_done < 1.0  # on a busy host the second attempt has time for another copy
    assert lines(counted)[:2] == ["start 0", "saved"]
    assert lines(counted)[-1] == "start 1"
    assert counted.text("out") == "resumed\n"
    assert [each.cause for each in counted.attempts("a")] == ["lost", ""]


def test_restart_files_are_requested_at_the_stated_interval(counted):
    """One gap of several is close to a second, however busy the host; an answer costs no time of its own."""
    counted.write(
        "prog.py",
        """\
import pathlib, signal, time
asked = []
signal.signal(signal.SIGUSR1, lambda *_: (asked.append(time.monotonic()), pathlib.Path("state").write_text(str(asked))))
while len(asked) < 5:
    time.sleep(0.01)
pathlib.Path("out").write_text(str(min(after - before for before, after in zip(asked, asked[1:]))))
""",
    )
    task = {
        "command": ["python3", "prog.py"],
        "inputs": ["prog.py"],
        "outputs": ["out"],
        "checkpoint": {"files": ["state"], "every": "1s"},
    }
    counted.write("flow.yaml", f"tasks: {{a: {json.dumps(task)}}}\n")
    assert counted.run("flow.yaml").completed
    assert float(counted.text("out")) < 1.5


def test_request_for_restart_files_is_repeated_until_the_program_handles_it(counted):
    """The first request comes while the program does not handle the signal yet; without another it never ends."""
    counted.write(
        "prog.py",
        """\
import pathlib, signal, time
time.sleep(2.5)
asked = []
signal.signal(signal.SIGUSR1, lambda *_: (asked.append(1), pathlib.Path("state").write_text(str(asked))))
end_s = time.monotonic() + 60
while not asked and time.monotonic() < end_s:
    time.sleep(0.01)
pathlib.Path("out").write_text(str(len(asked)))
""",
    )
    task = {
        "command": ["python3", "prog.py"],
        "inputs": ["prog.py"],
        "outputs": ["out"],
        "checkpoint": {"files": ["state"], "every": "1s"},
    }
    counted.write("flow.yaml", f"tasks: {{a: {json.dumps(task)}}}\n")
    assert counted.run("flow.yaml").completed
    assert counted.text("out") == "1"


@pytest.mark.parametrize("url", ["store", "memory://kept/{task}"])
def test_restart_files_copied_to_a_url_are_used_after_the_local_copies_were_removed(counted, url):
    remove = 'rm -rf "$PROJECT/.weft/checkpoints" "$PWD"/*'
    checkpoint = {"files": ["state"], "every": "0.5s", "url": url}
    uploaded = (
        "sleep 0.5; " if "://" in url else 'until ls "$PROJECT"/store/*/*/*/current; do sleep 0.05; done; '
    )
    counter(counted, LOSE_MACHINE.format(remove=uploaded + remove), checkpoint=checkpoint, work="9s")
    assert run_noting(counted)
    assert lines(counted)[-1] == "start 1"
    assert counted.text("out") == "resumed\n"
    assert not list(counted.folder.glob("store/*/*/*")), "copies of a completed task are removed"


def test_unwritable_store_of_restart_files_is_reported_and_the_task_continues(counted):
    counted.write("store", "a file")
    counter(
        counted,
        LOSE_MACHINE.format(remove="sleep 2"),  # until the store has refused a copy
        checkpoint={"files": ["state"], "every": "0.5s", "url": "store"},
    )
    (reported,) = [each for each in run_noting(counted) if isinstance(each, messages.ReportModule)]
    assert reported.module == "checkpoint"
    assert reported.reason.startswith("its restart files are not copied to the store: ")
    assert counted.text("out") == "resumed\n"


def test_store_of_an_unknown_kind_is_refused_before_the_run(counted, capsys):
    counter(counted, checkpoint={"files": ["state"], "url": "gsiftp://host/dir"})
    shell = Project(counted.folder, capsys)
    for command in (("check", "flow.yaml"), ("run", "flow.yaml", "--on", "machines.yaml")):
        refused = shell.weft(*command)
        assert refused.code == 2
        assert "checkpoint.url 'gsiftp://host/dir' of task 'a': Protocol not known: gsiftp" in refused.err
    assert not (counted.folder / ".weft").exists()


def test_program_is_asked_for_restart_files_before_it_migrates(counted):
    settings = "{poll_every: 0.3s, migration: {when: always}}"
    counter(counted, '[ "$n" -lt 5 ] || echo slow > gw_perf', settings)
    assert counted.run("flow.yaml").completed
    assert lines(counted) == ["start 0", "saved", "start 1"]
    first, second = counted.attempts("a")
    assert (first.ending, second.machine) == ("migrated", 1)
    assert second.restart_from > 0
    (run,) = counted.history.runs
    # It has no stated time: alone it takes what both attempts took, the first until its files were written.
    assert second.ran_s + 5 * 0.05 <= run.alone_s <= first.ran_s + second.ran_s + 1e-6


def test_program_is_asked_for_restart_files_before_its_time_limit(counted):
    counter(counted, settings="{timeouts: {ending: 0.5s}}", time_limit="1s")
    assert counted.run("flow.yaml").completed
    assert lines(counted) == ["start 0", "saved", "start 1"]
    assert [each.cause for each in counted.attempts("a")] == ["timeout", ""]


@pytest.mark.parametrize("how", ["signal", "command"])
def test_program_is_asked_for_restart_files_when_the_run_is_stopped(counted, capsys, how):
    counter(counted)
    shell = Project(counted.folder, capsys)
    ignored = signal.SIG_IGN if how == "command" else signal.default_int_handler  # as after `weft run &`
    process = shell.start(
        "run", "flow.yaml", "--on", "machines.yaml", "--quiet",
        preexec_fn=lambda: signal.signal(signal.SIGINT, ignored),
    )  # fmt: skip
    try:
        wait_for(lambda: (counted.folder / "log").exists())
        if how == "signal":
            process.send_signal(signal.SIGINT)
        else:
            assert "run 1 is stopped; `weft resume` continues it" in shell.weft("stop").out
        process.communicate(timeout=60)
        assert process.returncode == 75
        assert lines(counted) == ["start 0", "saved"]
    finally:
        shell.end(process)
    assert shell.weft("resume", "--quiet").code == 0
    assert lines(counted) == ["start 0", "saved", "start 1"]


def test_program_started_by_a_shell_has_the_whole_grace_period_to_write_restart_files(counted):
    slow = "#!/usr/bin/env python3\nimport signal, sys, time\n"
    slow += "def save(*_):\n    time.sleep(2.5)\n    open('state', 'w').write('7')\n    sys.exit(1)\n"
    slow += "signal.signal(signal.SIGTERM, save)\nopen('gw_perf', 'w').write('slow')\ntime.sleep(1000)\n"
    counted.write("slow", slow).chmod(0o755)
    settings = "{poll_every: 0.3s, migration: {when: always}, timeouts: {ending: 20s}}"
    counter(counted, settings=settings, command="if [ $WEFT_RESTART = 0 ]; then ./slow; fi; cat state > out")
    assert counted.run("flow.yaml").completed
    assert counted.text("out") == "7"


SILENT = """
there={machine.name} n=0
if [ -f state ]; then n=$(cat state); fi
while [ $n -lt 8 ]; do
  n=$((n + 1)); echo $n > new; mv new state
  if [ $there = slow ]; then sleep 1; else sleep 0.1; fi
done
echo $there $n > out
"""


def test_program_without_progress_reports_migrates_once_and_its_work_done_is_unknown(real, capsys):
    real.write(
        "machines.yaml",
        "machines:\n  slow: {speed: 2, backend: {kind: local}}\n  fast: {backend: {kind: local}}\n",
    )
    lines = "\n".join(f"      {line}" for line in SILENT.strip().splitlines())
    real.write(
        "flow.yaml",
        "settings: {contract: {factor: 0.5, grace: 0.1}, poll_every: 0.2, migration: {when: always}}\n"
        f"tasks:\n  work:\n    command: |\n{lines}\n"
        "    outputs: [out]\n    checkpoint: {files: [state]}\n    work: 2s\n",
    )
    assert real.run("flow.yaml").completed
    _, second = real.attempts("work")
    assert [move.reason for move in real.history.moves] == ["performance"]
    assert real.text("out") == "fast 8\n"
    assert 0.0 < second.restart_from <= UNKNOWN_SHARE, "the files are used, what they save is not known"
    assert second.seconds == pytest.approx(2.0), "so that the whole estimate applies"
    explained = Project(real.folder, capsys).weft("explain", "work").out
    assert "migrates from slow to fast (performance), from its restart files" in explained
    assert "100%" not in explained


def test_migrated_task_with_its_own_prolog_continues_from_its_restart_files(counted):
    settings = "{poll_every: 0.1s, contract: 50}"
    counter(counted, '[ "$n" -lt 5 ] || echo slow > gw_perf', settings, prolog="true")
    assert counted.run("flow.yaml").completed
    assert lines(counted) == ["start 0", "saved", "start 1"]
    assert counted.text("out") == "resumed\n"
