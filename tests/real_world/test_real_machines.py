"""Machines of real runs that are loaded, lost and come back, compared with the simulated runs."""

from __future__ import annotations

import json
import os
import signal
from itertools import count
from pathlib import Path

import pytest

import weft
from cli.projects import Project
from cli.warm_process import weft as weft_command
from published.real_time import require_quiet_host
from real_world.disturbed_runs import busy_loops, entries_of, run_disturbed, wait_for, wait_until
from weft.api.project import OpenProject
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.replay import replay
from weft.papers.runs import repeat_if_disturbed
from weft.repository.journal_store import JournalStore
from weft.runtime.driver import PlannerThread

MACHINES = """
weft: 1
machines:
  first: {speed: 2, backend: {kind: local, sandbox: FOLDER/box-first}}
  second: {backend: {kind: local, sandbox: FOLDER/box-second}}
"""

LOST = """
weft: 1
name: lost
tasks:
  long:
    command: "touch FOLDER/started; test -e FOLDER/again || { touch FOLDER/again; sleep 30; }"
    work: 20
  back: {command: "true", work: 1, requirements: name == "first", after: long}
"""


def prepare(folder: Path, workflow: str, machines: str = MACHINES) -> tuple[Path, Path]:
    (folder / "flow.yaml").write_text(workflow.replace("FOLDER", str(folder)))
    (folder / "machines.yaml").write_text(machines.replace("FOLDER", str(folder)))
    return folder / "flow.yaml", folder / "machines.yaml"


def story(history):
    """Return task and machine of every attempt and how it ended, in the order of decisions."""
    return [(each.label, each.machine, each.ending, each.cause) for each in history.attempts.values()]


def test_task_of_a_lost_machine_continues_elsewhere_and_the_machine_returns(tmp_path):
    flow, machines = prepare(tmp_path, LOST)
    box, away = tmp_path / "box-first", tmp_path / "away"

    def lose() -> None:
        box.rename(away)
        wait_for(tmp_path / "box-second")
        away.rename(box)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "again", action=lose)
    assert ran.completed, str(ran)
    changes = [e.event for e in entries_of(ran) if isinstance(e.event, ev.MachineChanged)]
    assert [(each.machine, each.up) for each in changes] == [(0, False), (0, True)]
    assert "box-first has disappeared" in changes[0].reason
    real = ran.report.executed.history
    assert [(task, machine) for task, machine, _, _ in story(real)] == [("long", 0), ("long", 1), ("back", 0)]
    (tmp_path / "truth.yaml").write_text("weft: 1\nfailures: [{machine: first, at: 1, repair: 3}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    assert simulated.outcome == "completed"
    assert story(simulated.history) == story(real)


SILENT = """
weft: 1
name: silent
tasks:
  long: {command: "touch FOLDER/started; sleep 9; touch FOLDER/ended", work: 18}
"""


def test_program_of_a_silent_runner_is_reattached_and_not_started_again(tmp_path, capsys):
    flow, machines = prepare(tmp_path, SILENT)

    def stop_runner() -> None:
        (record,) = tmp_path.glob(".weft/runners/*/first/pid")
        os.kill(json.loads(record.read_text().partition(" ")[2])["pid"], signal.SIGSTOP)

    settings = {"probe_every": "1s", "contract": "none"}
    ran = run_disturbed(flow, on=machines, when=tmp_path / "started", action=stop_runner, settings=settings)
    assert ran.completed, str(ran)
    (tmp_path / "truth.yaml").write_text("weft: 1\nsilences: [{machine: first, at: 1, what: job-manager}]\n")
    simulated = weft.simulate(
        flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50, settings=settings
    ).first
    assert story(simulated.history) == story(ran.report.executed.history)
    commands = [command for entry in entries_of(ran) for command in entry.commands]
    assert [type(each).__name__ for each in commands].count("ReattachJob") == 1
    told = Project(tmp_path, capsys).weft("explain", "long", "-v", "--project", str(tmp_path)).out
    assert "its runner did not respond, but its machine did: the runner was reconnected" in told


def test_real_run_and_simulation_do_not_use_a_machine_that_denies_access(tmp_path):
    text = "weft: 1\nname: short\ntasks: {work: {command: 'true', work: 1}}\n"
    flow, machines = prepare(tmp_path, text, MACHINES.replace("box-first", "file/box"))
    (tmp_path / "file").write_text("not a folder")
    settings = {"authorise": True}
    ran = weft.run(flow, on=machines, project=tmp_path, plan_steps=50, settings=settings)
    (tmp_path / "truth.yaml").write_text("weft: 1\ndenied: [first]\n")
    truth = tmp_path / "truth.yaml"
    simulated = weft.simulate(flow, on=machines, scenario=truth, plan_steps=50, settings=settings).first
    assert story(ran.report.executed.history) == story(simulated.history) == [("work", 1, "completed", "")]


WAITING = """
weft: 1
name: waiting
tasks:
  a:
    command: |
      touch FOLDER/{i}-on-$(echo $PWD | grep -o 'box-[a-z]*')
      until test -e FOLDER/go-{i}; do sleep 0.1; done
    seconds: 10
    sweep: {i: 1..3}
"""


def let_end(folder: Path) -> None:
    """Let the programs of WAITING end."""
    for each in (1, 2, 3):
        (folder / f"go-{each}").touch()


@pytest.mark.parametrize("inputs", ["", "    inputs: [{file: db, from: FOLDER/db}]\n"])
def test_task_queued_elsewhere_uses_a_machine_that_came_back(tmp_path, inputs):
    """Its migration, which the new plan calls off, is not announced, although its inputs were copied."""
    (tmp_path / "db").write_text("x")
    flow, machines = prepare(tmp_path, WAITING + inputs, TWO)
    started = tmp_path / "2-on-box-second"

    def lose() -> None:
        try:
            started.unlink()
            (tmp_path / "box-second").rename(tmp_path / "away")  # it is created again at the next check
            wait_for(started)
        finally:
            let_end(tmp_path)

    ran = run_disturbed(flow, on=machines, when=started, action=lose)
    assert ran.completed, str(ran)
    changes = [e.event for e in entries_of(ran) if isinstance(e.event, ev.MachineChanged)]
    assert [(each.machine, each.up) for each in changes] == [(1, False), (1, True)]
    (tmp_path / "truth.yaml").write_text("weft: 1\nfailures: [{machine: second, at: 1, repair: 2}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    assert simulated.outcome == "completed"
    for history in (ran.report.executed.history, simulated.history):
        begun = [each for each in history.attempts.values() if each.started_s is not None]
        assert [each.machine for each in begun if each.label == "a[2]"] == [1, 1]
        assert [(move.label, move.off_reason) for move in history.moves] == [("a[2]", "the new plan")]
        assert not history.begun_moves
        assert not history.cancelled_moves


def test_queued_task_uses_a_machine_whose_state_is_measured_when_it_has_come_back(tmp_path):
    flow, machines = prepare(tmp_path, f"{WAITING}settings: {{state_every: 1s}}\n", TWO)
    started = tmp_path / "2-on-box-second"

    def lose() -> None:
        try:
            started.unlink()
            (tmp_path / "box-second").rename(tmp_path / "away")
            wait_for(started)
        finally:
            let_end(tmp_path)

    ran = run_disturbed(flow, on=machines, when=started, action=lose)
    assert ran.completed, str(ran)
    (tmp_path / "truth.yaml").write_text("weft: 1\nfailures: [{machine: second, at: 1, repair: 2}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    for history in (ran.report.executed.history, simulated.history):
        begun = [each for each in history.attempts.values() if each.started_s is not None]
        assert [each.machine for each in begun if each.label == "a[2]"] == [1, 1]


def test_queued_task_uses_the_machine_that_became_free_by_a_migration_of_the_user(tmp_path):
    flow, machines = prepare(tmp_path, WAITING, TWO)
    said = []

    def move() -> None:
        wait_for(tmp_path / "1-on-box-first")
        said.append(weft_command("migrate", "a[2]", "--to", "first", folder=tmp_path))
        (tmp_path / "go-1").touch()
        try:
            wait_for(tmp_path / "2-on-box-first")
            wait_for(tmp_path / "3-on-box-second")
        finally:
            let_end(tmp_path)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "2-on-box-second", action=move)
    assert (said[0].code, said[0].err) == (0, "")
    assert ran.completed, str(ran)
    assert places(ran, tmp_path) == {"a[1]": ["first"], "a[2]": ["second", "first"], "a[3]": ["second"]}


def test_reason_of_a_lost_machine_says_that_its_sandbox_is_not_a_directory(tmp_path):
    flow, machines = prepare(tmp_path, LOST)
    box, away = tmp_path / "box-first", tmp_path / "away"

    def lose() -> None:
        box.rename(away)
        box.write_text("")
        wait_for(tmp_path / "box-second")
        box.unlink()
        away.rename(box)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "again", action=lose)
    lost = [
        e.event.reason for e in entries_of(ran) if isinstance(e.event, ev.MachineChanged) and not e.event.up
    ]
    assert "box-first was replaced by something that is no directory" in lost[0]


def test_explanation_of_a_retry_says_that_the_task_had_failed_on_the_machine(real, capsys):
    real.write("machines.yaml", "machines: {one: {backend: {kind: local}}}\n")
    real.write("flow.yaml", "tasks: {a: {command: 'exit 1', retries: 2}}\n")
    assert not real.run("flow.yaml").completed
    told = Project(real.folder, capsys).weft("explain", "a", "-v").out.splitlines()
    bound = [line for line in told if " bound to " in line or " sent to the queue of " in line]
    assert [line.endswith("it had failed there before)") for line in bound] == [False, True, True]


LOADED = """
weft: 1
name: loaded
tasks:
  go: {command: "true", work: 0.1, requirements: name == "second"}
  choose: {command: "true", work: 1, rank: -load, after: go}
"""


@pytest.mark.real_time
def test_real_run_with_measured_load_has_the_same_placements_as_the_simulation(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    pinned = MACHINES
    for name, core in zip(("first", "second"), cores, strict=False):
        pinned = pinned.replace(f"box-{name}", f"box-{name}, cores: [{core}]")
    folders = count()

    def run_loaded():
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        flow, machines = prepare(folder, LOADED, pinned)
        with busy_loops(8, cores[0]):
            return flow, machines, weft.run(flow, on=machines, project=folder, plan_steps=50)

    (flow, machines, ran), share = repeat_if_disturbed(run_loaded)
    require_quiet_host(share)
    assert ran.completed, str(ran)
    real = ran.report.executed.history
    assert [(task, machine) for task, machine, _, _ in story(real)] == [("go", 1), ("choose", 1)]
    measured = [each.event for each in entries_of(ran) if isinstance(each.event, ev.Fetched)]
    first = next(each for each in measured if each.machine == 0)
    assert first.load >= 6.0
    assert first.free_memory_bytes > 0
    assert first.free_disk_bytes > 0
    (tmp_path / "truth.yaml").write_text("weft: 1\nloads: [{machine: first, processes: 8}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    assert story(simulated.history) == story(real)
    reasons = [each.reason for each in simulated.history.attempts.values()]
    assert reasons[1].startswith("highest rank of the free machines")
    assert [each.reason.partition(":")[0] for each in real.attempts.values()] == [
        reason.partition(":")[0] for reason in reasons
    ]


STALLED = """
weft: 1
name: stalled
tasks:
  steps:
    command: >-
      echo 1/10 > "$WEFT_PROGRESS_FILE"; test {machine.name} = second || sleep 30
    work: 0.2
    contract: {factor: 0.5, grace: 0.1}
"""


def test_task_leaves_a_machine_on_which_it_is_slower_than_the_load_of_the_host_explains(tmp_path):
    core = min(os.sched_getaffinity(0))
    flow, machines = prepare(
        tmp_path, STALLED, MACHINES.replace("kind: local", f"kind: local, cores: [{core}]")
    )
    with busy_loops(2, core):
        ran = weft.run(
            flow,
            on=machines,
            project=tmp_path,
            plan_steps=50,
            settings={"state_every": "1s", "poll_every": "0.2s"},
        )
    assert ran.completed, str(ran)
    told = [(machine, ending) for _, machine, ending, _ in story(ran.report.executed.history)]
    assert told == [(0, "migrated"), (1, "completed")]
    events = [each.event for each in entries_of(ran)]
    checked = next(number for number, each in enumerate(events) if isinstance(each, ev.Progressed))
    measured = [each for each in events[:checked] if isinstance(each, ev.Fetched)]
    assert {each.machine for each in measured} == {0, 1}
    assert all(each.speed_factor < 1.0 for each in measured), "both machines were loaded from the start"


ONE = """
weft: 1
machines:
  first: {backend: {kind: local, sandbox: FOLDER/box-first}}
"""
TWO = ONE + "  second: {backend: {kind: local, sandbox: FOLDER/box-second}}\n"

MANY = """
weft: 1
name: many
tasks:
  a:
    command: "touch FOLDER/started; until test -e FOLDER/go; do sleep 0.1; done"
    seconds: 5
    sweep: {i: 1..3}
"""


def places(ran, folder: Path) -> dict[str, list[str]]:
    """Return the machines of all attempts of each task."""
    names = [each["machine"] for each in ran.report.executed.as_record()["machines"]]
    found: dict[str, list[str]] = {}
    for attempt in ran.report.executed.history.attempts.values():
        if attempt.started_s is not None:
            found.setdefault(attempt.label, []).append(names[attempt.machine])
    return found


def test_machines_join_a_real_run_from_the_command_line_and_from_its_file(tmp_path):
    flow, machines = prepare(tmp_path, MANY, ONE)
    said = []

    def change() -> None:
        said.append(weft_command("machines", "add", "third", "nodes=2", folder=tmp_path))
        said.append(weft_command("machines", "add", "third", folder=tmp_path))
        machines.write_text(TWO.replace("FOLDER", str(tmp_path)))
        said.append(weft_command("machines", "reload", folder=tmp_path))
        said.append(weft_command("machines", "ls", "--json", folder=tmp_path))
        (tmp_path / "go").touch()

    ran = run_disturbed(flow, on=machines, when=tmp_path / "started", action=change)
    assert ran.completed, str(ran)
    added, twice, reloaded, listed = said
    assert (added.code, added.out) == (0, "third joined\n")
    assert twice.code == 2
    assert twice.err == (
        "error: machine 'third' is already part of run 1; names of machines are unique; give the new machine "
        "another name, or use `weft machines drain third --undo`\n"
    )
    # The file has no third machine, so it is removed again.
    removed = f"third is removed: {machines} does not list it"
    assert (reloaded.code, reloaded.out) == (0, f"second joined\n{removed}\n")
    late = weft_command("machines", "reload", folder=tmp_path)
    assert (late.code, late.out) == (1, "")
    assert late.err.startswith("error: no engine is running in this project; machines can be changed only")
    states = {each["name"]: each["state"] for each in json.loads(listed.out)["machines"]}
    assert states == {"first": "open", "third": "removed", "second": "open"}
    found = places(ran, tmp_path)
    assert found["a[1]"] == ["first"]  # its program ran on while machines joined
    assert {each[-1] for each in found.values()} == {"first", "second"}
    changes = ran.report.executed.history.machine_changes
    assert [(each.machine, each.text) for each in changes] == [
        (1, "joined"),
        (2, "joined"),
        (1, "is removed"),
    ]
    with OpenProject.at(str(tmp_path)) as opened:
        journal = JournalStore(opened.database).read(ran.execution)
    assert replay(journal.engine(), journal.entries, journal.plans).differences == ()


def test_drained_machine_completes_its_task_and_gets_no_further_task(tmp_path):
    flow, machines = prepare(tmp_path, MANY, TWO)
    said = []

    def drain() -> None:
        said.append(weft_command("machines", "drain", "first", folder=tmp_path))
        said.append(weft_command("machines", "drain", "first", folder=tmp_path))
        said.append(weft_command("machines", "drain", "frist", folder=tmp_path))
        (tmp_path / "go").touch()

    ran = run_disturbed(flow, on=machines, when=tmp_path / "started", action=drain)
    assert ran.completed, str(ran)
    assert [each.code for each in said] == [0, 1, 2]
    assert said[1].err == "error: first is drained already\n"
    assert said[2].err == "error: run 1 has no machine 'frist'; did you mean 'first'?\n"
    found = places(ran, tmp_path)
    assert sorted(each for attempts in found.values() for each in attempts) == ["first", "second", "second"]


def test_task_leaves_a_removed_machine(tmp_path):
    flow, machines = prepare(tmp_path, MANY.replace("sweep: {i: 1..3}", "requirements: cores >= 1"), TWO)

    said = []

    def remove() -> None:
        said.append(weft_command("machines", "remove", "first", folder=tmp_path))
        (tmp_path / "go").touch()

    ran = run_disturbed(flow, on=machines, when=tmp_path / "started", action=remove)
    assert (said[0].code, said[0].err) == (0, "")
    assert ran.completed, str(ran)
    assert places(ran, tmp_path) == {"a": ["first", "second"]}
    assert [each.reason for each in ran.report.executed.history.moves] == ["user"]


@pytest.mark.parametrize("way", ["drain", "remove", "reload"])
def test_waiting_tasks_start_on_a_machine_that_was_closed_and_is_opened_again(tmp_path, way):
    """The other machine is busy until a waiting task has started on the reopened machine."""
    flow, machines = prepare(tmp_path, WAITING, TWO)
    said = []

    def weft_machines(*arguments: str) -> None:
        said.append(weft_command("machines", *arguments, folder=tmp_path))

    def state() -> str:
        return json.loads(weft_command("explain", "a[2]", "--json", folder=tmp_path).out)["state"]

    def change() -> None:
        try:
            wait_for(tmp_path / "1-on-box-first")
            if way == "reload":
                machines.write_text(ONE.replace("FOLDER", str(tmp_path)))
                weft_machines("reload")
                machines.write_text(TWO.replace("FOLDER", str(tmp_path)))
            else:
                weft_machines(way, "second")
            if way == "drain":
                (tmp_path / "go-2").touch()  # it completes on the drained machine
                wait_until(lambda: state() == "completed")
            else:
                wait_until(lambda: state() in ("ready", "scheduled"))
                (tmp_path / "2-on-box-second").unlink()
            weft_machines(*(["reload"] if way == "reload" else ["drain", "second", "--undo"]))
            waiting = [tmp_path / f"{each}-on-box-second" for each in ("3" if way == "drain" else "23")]
            wait_until(lambda: any(each.exists() for each in waiting))
        finally:
            let_end(tmp_path)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "2-on-box-second", action=change)
    assert [(each.code, each.err) for each in said] == [(0, "")] * 2
    assert ran.completed, str(ran)
    history = ran.report.executed.history
    text = "is drained" if way == "drain" else "is removed"
    assert [(each.machine, each.text) for each in history.machine_changes] == [(1, text), (1, "is open")]
    opened_s = history.machine_changes[1].at_s
    busy, *others = [each for each in history.attempts.values() if each.started_s is not None]
    later = min((each for each in others if each.started_s >= opened_s), key=lambda each: each.started_s)
    assert (busy.label, busy.machine, later.machine) == ("a[1]", 0, 1)
    assert later.started_s < busy.ended_s


def test_machine_that_is_opened_while_a_plan_is_made_gets_waiting_tasks(tmp_path, monkeypatch):
    """The plan requested when the machine was drained arrives after the machine was opened again."""
    flow, machines = prepare(tmp_path, WAITING, TWO)
    plan = PlannerThread._plan

    def plan_later(self, request, command, number, arrival_s):
        if number == 2:
            wait_for(tmp_path / "opened")
        return plan(self, request, command, number, arrival_s)

    monkeypatch.setattr(PlannerThread, "_plan", plan_later)

    def change() -> None:
        try:
            assert weft_command("machines", "drain", "second", folder=tmp_path).code == 0
            (tmp_path / "go-2").touch()  # it completes on the drained machine
            assert weft_command("machines", "drain", "second", "--undo", folder=tmp_path).code == 0
            (tmp_path / "opened").touch()
            wait_for(tmp_path / "3-on-box-second")
        finally:
            (tmp_path / "opened").touch()
            let_end(tmp_path)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "2-on-box-second", action=change)
    assert ran.completed, str(ran)
    commands = [each for entry in entries_of(ran) for each in entry.commands]
    assert [each.reason for each in commands if isinstance(each, cm.PostponeReplan)] == ["machines changed"]


def test_changed_definition_of_a_machine_of_the_run_is_refused_and_changes_nothing(tmp_path):
    flow, machines = prepare(tmp_path, MANY, ONE)
    said = []

    def change() -> None:
        machines.write_text(TWO.replace("FOLDER", str(tmp_path)).replace("{backend", "{speed: 3, backend"))
        said.append(weft_command("machines", "reload", folder=tmp_path))
        said.append(weft_command("machines", "add", "x", "nods=2", folder=tmp_path))
        (tmp_path / "go").touch()

    ran = run_disturbed(flow, on=machines, when=tmp_path / "started", action=change)
    assert ran.completed, str(ran)
    assert [each.code for each in said] == [2, 2]
    assert "describes machine 'first' differently from the run; during a run" in said[0].err
    assert "unknown key 'nods'; did you mean 'nodes'?" in said[1].err
    assert ran.report.executed.history.machine_changes == []


def test_machines_of_a_run_without_an_engine_are_shown_but_not_changed(tmp_path):
    flow, machines = prepare(tmp_path, MANY, ONE)
    (tmp_path / "go").touch()
    assert weft.run(flow, on=machines, project=tmp_path, plan_steps=50).completed
    shown = weft_command("machines", "ls", folder=tmp_path)
    assert "  speed factor  " in shown.out.splitlines()[0]
    assert [line.split()[:4] for line in shown.out.splitlines()[1:]] == [["first", "open", "1", "1"]]
    refused = weft_command("machines", "drain", "first", folder=tmp_path)
    assert refused.code == 1
    assert "no engine is running in this project" in refused.err
