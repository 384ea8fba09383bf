"""Reports of running programs reach the engine, however often it polls their progress."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from weft.api.journal import explain_task, explanation_lines
from weft.api.run import run
from weft.backends.attempt import completion
from weft.backends.attempt.attempt import ActiveAttempt
from weft.backends.attempt.completion import TaskMonitor
from weft.backends.attempt.task_files import Observation
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings

ASKING = replace(RunSettings(), poll_every_s=0.02, contract=1000.0)
"""Settings with progress polls that are far more frequent than the periodic observation of files."""
DEMAND = """
[ "$1" = large ] && exit 0
sleep 0.3
echo "memory >= 512*MB" > demand && mv demand gw_reqs
exec sleep 60
"""
NONSENSE = """
echo '__import__("os").system("touch pwned")' > demand && mv demand gw_reqs
sleep 0.3
[ ! -e pwned ]
"""
CHECKPOINT = """
echo "$WEFT_RESTART" >> kept
[ "$1" = large ] && { cp restart went_on; exit 0; }
trap 'echo 0.7 > "$WEFT_PROGRESS_FILE"; echo seven > restart; exit 85' TERM
echo 0.2 > "$WEFT_PROGRESS_FILE"
echo two > restart
sleep 0.3
echo "memory >= 512*MB" > demand && mv demand gw_reqs
while :; do sleep 0.05; done
"""


@pytest.fixture
def machines():
    made = (Machine(name="small", memory=256e6, speed=4.0), Machine(name="large", memory=1e9))
    return Platform(machines=tuple(replace(machine, backend={"kind": "local"}) for machine in made))


def run_script(script, machines, tmp_path, **facets):
    flow = Builder("news")
    flow.task("job", command=["sh", "-c", script, "job", "{machine.name}"], work=10, **facets)
    entries = []
    ran = run(
        flow,
        on=machines,
        project=tmp_path,
        policy="fcfs",
        settings=ASKING,
        watch=lambda _: [lambda entry, __: entries.append(entry)],
    )
    assert ran.ending.state == "completed"
    return entries


def commands(entries, kind):
    return [command for entry in entries for command in entry.commands if isinstance(command, kind)]


def test_requirement_written_by_a_program_is_reported_although_progress_is_probed_too(machines, tmp_path):
    entries = run_script(DEMAND, machines, tmp_path)
    assert [entry.event.requirements for entry in entries if isinstance(entry.event, ev.RequirementsChanged)]
    moved = [(each.machine, each.reason) for each in commands(entries, cm.Assign)]
    assert moved[0][0] == 0
    assert moved[1:] == [(1, "self-migration")]


def test_progress_of_a_task_without_a_contract_is_reported_without_polls(machines, tmp_path):
    flow = Builder("news")
    script = f"""
    echo 0.5 > "$WEFT_PROGRESS_FILE"
    until [ -e {tmp_path}/noted ]; do sleep 0.05; done
    """
    flow.task("job", command=["sh", "-c", script])
    entries = []

    def note(entry, _):
        entries.append(entry)
        if isinstance(entry.event, ev.Progressed):
            (tmp_path / "noted").touch()

    assert run(flow, on=machines, project=tmp_path, policy="fcfs", watch=lambda _: [note]).completed
    reports = [entry.event for entry in entries if isinstance(entry.event, ev.Progressed)]
    assert [(each.work_done, each.age_s is None) for each in reports] == [(0.5, False)]
    assert commands(entries, cm.Probe) == []


def test_invalid_requirement_is_reported_and_ignored(machines, tmp_path):
    entries = run_script(NONSENSE, machines, tmp_path)
    (note,) = commands(entries, cm.IgnoreRequirement)
    assert note.reason.startswith("ignored: gw_reqs contains '__import__(")
    assert len(commands(entries, cm.Assign)) == 1
    story = "\n".join(explanation_lines(explain_task(tmp_path, "job", run=1)))
    assert "it wrote a file that is ignored: gw_reqs contains" in story


def test_restart_files_are_not_requested_while_they_are_copied(monkeypatch):
    """A request would change the files, and the copy would be discarded: with a short interval, every copy."""
    clock, calls = SimpleNamespace(s=0.0), []
    monkeypatch.setattr(completion.time, "monotonic", lambda: clock.s)
    checkpoint = SimpleNamespace(every=1.0)
    compiled = SimpleNamespace(
        description=lambda _: SimpleNamespace(recovery=SimpleNamespace(checkpoint=checkpoint)),
        graph=SimpleNamespace(context=lambda _: {}),
        is_untimed=lambda _: False,
    )
    context = SimpleNamespace(compiled_workflow=lambda _: compiled, task_settings=lambda *_: RunSettings())
    attempt = ActiveAttempt(
        number=0, nonce="n", run=0, task=0, machine=0, nodes=1, count=1, workdir_path="", records_path=""
    )
    attempt.files = SimpleNamespace(observe=lambda: Observation(restart_changed=True))
    monitor = TaskMonitor(context, lambda _: calls.append("request"), lambda _: calls.append("copy"))
    monitor.add(attempt)

    def advance(until_s):
        calls.clear()
        while clock.s < until_s:
            clock.s += 0.125
            monitor.check()
        return calls

    assert advance(2.5) == ["request", "copy"]  # the copy is still being made
    assert advance(9.0) == []
    attempt.copying = False
    assert advance(10.0) == ["request", "copy"]


def test_restart_uses_the_last_reported_progress(machines, tmp_path):
    entries = run_script(
        CHECKPOINT, machines, tmp_path, checkpoint={"files": ["restart"]}, outputs=["went_on"]
    )
    kept = [entry.event.work_done for entry in entries if isinstance(entry.event, ev.Checkpointed)]
    assert kept[0] == 0.2
    assert [start.restart_from for start in commands(entries, cm.Start)] == [0.0, 0.7]
    assert (tmp_path / "went_on").read_text() == "seven\n"
