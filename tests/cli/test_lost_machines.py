"""Runs whose machines are lost, join, are measured or never meet a requirement, on the command line."""

from __future__ import annotations

import json
import time

from cli.projects import Project, wait_for
from patience import PATIENCE_S
from weft.api.run import run
from weft.cli.driver import RunDriver

ONE = """\
weft: 1
machines:
  only: {{nodes: 1, backend: {{kind: local, sandbox: {sandbox}}}}}
"""
SHORT = """\
weft: 1
name: short
tasks:
  a: {command: "echo {machine.name}", work: 1s}
"""
LONG = """\
weft: 1
name: long
tasks:
  a: {command: "echo began; exec sleep 600", work: 8s}
  b: {command: "echo b", work: 1s, after: a}
"""


def test_a_run_fails_when_its_only_machine_stays_lost(project: Project):
    project.write("long.yaml", LONG)
    sandbox = project.folder / "disk"
    project.write("one.yaml", ONE.format(sandbox=sandbox))
    process = project.start("run", "long.yaml", "--on", "one.yaml", "--set", "timeouts.machines=4s")
    try:
        project.running(process, "began")
        sandbox.rename(project.folder / "gone")
        sandbox.touch()
        wait_for(lambda: "only" not in str(project.json("status")["running"]))
        assert "time left unknown (all machines are lost)" in project.weft("status").out
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert process.returncode == 1
    assert "the run cannot continue: run 1: a (ready) waits for a machine: only: is lost: its sandbox" in err
    assert "outcome        failed" in out
    assert project.json("report")["outcome"] == "failed"


def test_failure_message_of_a_run_names_the_requirement_that_was_never_met(project: Project):
    project.write(
        "never.yaml",
        'weft: 1\nname: never\ntasks:\n  q: {command: "true", work: 1s, requirements: "free_memory > 900*TB"}\n',
    )
    ran = project.weft("run", "never.yaml", "--on", "machines.yaml", "--set", "timeouts.machines=2s")
    assert ran.code == 1
    assert "outcome        failed" in ran.out
    reason = "left, right: does not meet the requirements free_memory > 900 * TB now"
    assert reason in ran.err
    explained = project.weft("explain", "q").out
    assert reason in explained
    assert "gpus" not in explained
    conditions = project.json("explain", "q")["candidates"][0]["conditions"]
    assert [each["name"] for each in conditions if not each["holds"]] == ["requirements"]
    assert [each["text"] for each in conditions if each["holds"] and "free_memory" in each["text"]] == []


def test_explanation_of_a_transfer_does_not_list_resources_as_missing(project: Project):
    project.write(
        "move.yaml",
        """\
weft: 1
name: move
tasks:
  make: {command: "echo x > x", outputs: [x], machine: A, work: 1s}
  mv: {kind: transfer, from: A, to: B, file: x}
  use: {command: "cat {inputs}", inputs: [x], machine: B, work: 1s, requirements: "name == 'right'"}
""",
    )
    assert project.weft("run", "move.yaml", "--on", "machines.yaml", "--preset", "s3").code == 0
    explained = project.weft("explain", "mv").out
    assert "left: no, another task of the same abstract machine cannot use it" in explained
    assert "gpus" not in explained


def test_a_machine_whose_sandbox_is_unusable_from_the_start_is_lost(project: Project):
    project.write("short.yaml", SHORT)
    sandbox = project.write("disk", "")
    one = ONE.format(sandbox=sandbox)
    project.write("one.yaml", one)
    project.write("two.yaml", f"{one}  other: {{speed: 0.5, backend: {{kind: local}}}}\n")
    moved = project.json("run", "short.yaml", "--on", "two.yaml")
    assert moved["outcome"] == "completed"
    assert project.weft("logs", "a").out.splitlines()[-1] == "other"
    assert f"machine only is lost: its sandbox {sandbox} cannot be written" in project.weft(
        "report"
    ).out.replace("\n  ", " ")
    alone = project.weft("run", "short.yaml", "--fresh", "--on", "one.yaml")
    assert alone.code == 1
    assert (
        f"a (ready) waits for a machine: only: is lost: its sandbox {sandbox} cannot be written" in alone.err
    )


def test_request_to_open_a_lost_machine_reports_that_the_machine_is_lost(project: Project):
    until = f"until test -e {project.folder}/go; do sleep 0.1; done"
    busy = f"  b: {{command: '{until}', requirements: name == 'other'}}\n"
    project.write("short.yaml", SHORT.replace('}"', "}\", requirements: name == 'only'") + busy)
    sandbox = project.write("disk", "")
    project.write("two.yaml", ONE.format(sandbox=sandbox) + "  other: {backend: {kind: local}}\n")
    process = project.start("run", "short.yaml", "--on", "two.yaml")
    try:
        wait_for(lambda: "is lost" in project.weft("machines", "ls").out)
        assert project.weft("machines", "drain", "only").code == 0
        opened = project.weft("machines", "drain", "only", "--undo")
        message = f"only is open, but no task starts there while it is lost: its sandbox {sandbox}"
        assert opened.out.startswith(message)
        assert project.weft("machines", "drain", "only").code == 0
        assert project.json("machines", "drain", "only", "--undo")["text"].startswith(message)
        sandbox.unlink()
        wait_for(lambda: "is lost" not in project.weft("machines", "ls").out)
        project.write("go", "")
        process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert process.returncode == 0


def test_elapsed_time_is_not_reset_when_a_machine_joins(project: Project):
    project.write(
        "wait.yaml",
        f"""\
weft: 1
name: wait
tasks:
  a: {{command: "until [ -e {project.folder}/joined ]; do sleep 0.05; done", work: 1s}}
""",
    )
    driver, began, joining = RunDriver(quiet=True), [], []

    def watch(execution):
        listeners = driver.watch(execution)
        began.append(driver.view.began_s)
        return listeners

    def interrupted():
        if not joining and project.programs():
            joining.append(project.start("machines", "add", "third"))
        if len(began) > 1:
            project.write("joined", "")
        return False

    try:
        ran = run("wait.yaml", on="machines.yaml", watch=watch, interrupted=interrupted)
    finally:
        for process in joining:
            project.end(process)
    assert ran.outcome == "completed"
    assert len(began) == 2
    assert began[0] == began[1]


def test_events_of_a_run_contain_machine_measurements(project: Project):
    project.write("short.yaml", SHORT)
    assert project.weft("run", "short.yaml", "--on", "machines.yaml", "--set", "state_every=1s").code == 0
    events = [json.loads(line) for line in project.weft("report", "--events", "-").out.splitlines()]
    measured = [each for each in events if each["what"] == "machine-measured"]
    assert {each["machine"] for each in measured} == {"left", "right"}
    assert all(each["load"] >= 0.0 and each["free_memory_bytes"] > 0.0 for each in measured)


def test_outputs_lost_with_a_machine_are_produced_again_on_another_machine(project: Project):
    sandbox = project.folder / "disk"
    project.write("two.yaml", ONE.format(sandbox=sandbox) + "  other: {speed: 0.5, backend: {kind: local}}\n")
    project.write(
        "chain.yaml",
        f"""\
weft: 1
name: chain
tasks:
  p: {{command: "echo one > o", outputs: [o], work: 1s}}
  a:
    command: "echo began; until test -e {project.folder}/go; do sleep 0.05; done"
    after: p
    work: 1s
    requirements: name == 'other'
  z: {{command: "cat o", inputs: [o], after: a, work: 8s}}
""",
    )
    process = project.start("run", "chain.yaml", "--on", "two.yaml")
    try:
        project.running(process, "began")
        sandbox.rename(project.folder / "gone")
        sandbox.touch()
        project.write("go", "")
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert process.returncode == 0, out
    assert "its outputs were on only, which is lost" in project.weft("explain", "p").out
    # The whole history: on a busy host, z may have more attempts than the short form shows.
    assert "it is on only, which is lost" in project.weft("explain", "z", "-v").out
    assert project.weft("logs", "z").out.splitlines()[-1] == "one"


def test_a_sandbox_that_can_never_be_created_is_refused(project: Project):
    file = project.write("notes", "a file, no directory\n")
    project.write("long.yaml", LONG)
    wrong = {"/proc/mistyped/x": "No such file or directory", file: "it is not a directory",
             file / "box": "Not a directory"}  # fmt: skip
    for sandbox, why in wrong.items():
        project.write("one.yaml", ONE.format(sandbox=sandbox))
        checked = project.weft("check", "long.yaml", "--on", "one.yaml")
        assert checked.code == 2
        said = " ".join(checked.err.split())
        assert f"machine 'only': its sandbox {sandbox} cannot be written: {why}" in said
    box = project.folder / "new" / "box"
    project.write("one.yaml", ONE.format(sandbox=box))
    assert project.weft("check", "long.yaml", "--on", "one.yaml").code == 0
    assert not box.parent.exists()
    assert not list(project.folder.glob(".weft-*"))
    process = project.start("run", "long.yaml", "--on", "one.yaml")
    try:
        project.running(process, "began")
        added = project.weft("machines", "add", "b", "backend={kind: local, sandbox: /proc/nope}")
        assert added.code == 2
        assert "machine 'b': its sandbox /proc/nope cannot be written" in " ".join(added.err.split())
        refused = project.weft("machines", "add", "b", "nodes=x")
        assert (refused.code, refused.err.startswith("error: machines.b.nodes: ")) == (2, True), refused.err
        assert [each["name"] for each in project.json("machines", "ls")["machines"]] == ["only"]
    finally:
        project.end(process)


def test_running_task_does_not_migrate_to_a_machine_that_cannot_be_used(project: Project):
    project.write("long.yaml", LONG)
    sandbox = project.write("disk", "")
    slow = f"  slow: {{speed: 0.5, backend: {{kind: local, sandbox: {sandbox}}}}}\n"
    project.write("two.yaml", ONE.format(sandbox=project.folder / "box") + slow)
    process = project.start("run", "long.yaml", "--on", "two.yaml")
    why = f"slow is lost: its sandbox {sandbox} cannot be written: it is not a directory"
    try:
        project.running(process, "began")
        for words in ([], ["--to", "slow"]):
            moved = project.weft("migrate", "a", *words)
            assert moved.code == 1
            assert moved.out == ""
            assert why in " ".join(moved.err.split())
        assert [each["attempt"] for each in project.json("status")["running"]] == [0]
        assert project.json("report")["migrations"] == []
    finally:
        project.end(process)


def test_the_only_usable_machine_is_not_removed_while_programs_run_there(project: Project):
    project.write("long.yaml", LONG)
    project.write(
        "two.yaml", ONE.format(sandbox=project.folder / "box") + "  next: {backend: {kind: local}}\n"
    )
    process = project.start("run", "long.yaml", "--on", "two.yaml")
    try:
        project.running(process, "began")
        here = project.json("status")["running"][0]["machine"]
        other = "next" if here == "only" else "only"
        assert project.weft("machines", "remove", other).code == 0  # nothing runs there
        refused = project.weft("machines", "remove", here)
        assert refused.code == 1
        assert f"{here} is the only machine that can be used, and programs run there" in refused.err
        assert "`weft stop`" in refused.err
        states = {each["name"]: each["state"] for each in project.json("machines", "ls")["machines"]}
        assert states == {here: "open", other: "removed"}
        assert [each["attempt"] for each in project.json("status")["running"]] == [0]
        assert project.weft("machines", "drain", other, "--undo").code == 0
        assert project.weft("machines", "remove", here).code == 0
        wait_for(lambda: [each["machine"] for each in project.json("status")["running"]] == [other])
    finally:
        project.end(process)


def test_loss_of_a_machine_is_shown_once_although_other_machines_join_later(project: Project):
    project.write(
        "long.yaml", LONG.replace("exec sleep 600", f"until test -e {project.folder}/go; do sleep 0.1; done")
    )
    sandbox = project.write("disk", "")
    slow = f"  slow: {{speed: 0.5, backend: {{kind: local, sandbox: {sandbox}}}}}\n"
    project.write("two.yaml", ONE.format(sandbox=project.folder / "box") + slow)
    process = project.start("run", "long.yaml", "--on", "two.yaml")
    try:
        project.running(process, "began")
        assert project.weft("migrate", "a").code == 1
        wait_for(lambda: "slow is lost" in project.weft("machines", "ls").out)
        assert project.weft("machines", "add", "third").code == 0
        assert project.weft("machines", "remove", "slow").code == 0
        assert project.weft("machines", "add", "fourth").code == 0
        assert "is lost" not in project.weft("machines", "ls").out
        time.sleep(1.5)  # the new execution checks lost machines once a second
        project.write("go", "")
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        project.end(process)
    assert process.returncode == 0
    assert [text.count("machine slow is lost") for text in (out, err)] == [1, 1]
    assert project.weft("report").out.count("machine slow is lost") == 1


def test_tasks_that_never_started_on_a_lost_machine_do_not_count_as_failed(project: Project):
    project.write(
        "many.yaml", "weft: 1\nname: many\ntasks:\n  x: {sweep: {k: 1..3}, command: 'true', seconds: 1}\n"
    )
    sandbox = project.write("disk", "")
    project.write("one.yaml", ONE.format(sandbox=sandbox))
    process = project.start("run", "many.yaml", "--on", "one.yaml")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "machine only is lost" in err
    assert "failed" not in err
    assert "x[1], x[2], x[3] (ready) wait for a machine: only: is lost" in err
    report = project.json("report")
    assert report["failures"] == []
    assert {(each["ending"], each["started_s"]) for each in report["attempts"]} == {("withdrawn", None)}
    assert "failed" not in project.weft("explain", "x[1]").out


STAGED = """\
weft: 1
name: staged
tasks:
  p: {command: "echo one > o", outputs: {o: 10MB}, work: 1s, requirements: name == 'other'}
  q: {command: "echo two > u; sleep 1", outputs: [u], after: p, work: 1s, requirements: name == 'other'}
  z: {command: "cat o u", inputs: [o, u], work: 8s}
"""


def test_tasks_being_sent_to_a_lost_machine_run_elsewhere_without_a_retry(project: Project):
    sandbox = project.write("disk", "")
    fast = ONE.format(sandbox=sandbox).replace("nodes: 1", "speed: 4")
    project.write("two.yaml", f"{fast}  other: {{backend: {{kind: local}}}}\n")
    project.write("staged.yaml", STAGED)
    project.write("short.yaml", SHORT)
    for name, task in (("staged", "z"), ("short", "a")):
        ran = project.weft("run", f"{name}.yaml", "--on", "two.yaml", "--retries", "0")
        assert ran.code == 0, ran.err
        assert "machine only is lost" in ran.err
        assert "failed" not in ran.err
        report = project.json("report")
        assert report["failures"] == []
        tried = [(each["machine"], each["ending"]) for each in report["attempts"] if each["task"] == task]
        assert tried == [("only", "withdrawn"), ("other", "completed")]
        assert ": only is lost" in project.weft("explain", task, "-v").out
