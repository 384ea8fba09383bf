"""Disturbances of real runs and of simulated ones: the same decisions for the same reasons.

Every case is one workflow on two machines of this computer. The program causes the disturbance by itself, on
the machine ``first``; the scenario describes the same disturbance to the simulation.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from backends.attempt.web_server import serving
from cli.projects import Project
from published.real_time import require_quiet_host
from real_world.real_project import RealProject
from weft.backends.simulation.scenario import FAILURE_WORDS
from weft.backends.simulation.scenario_reader import SCENARIO
from weft.engine import messages as ev
from weft.papers.runs import repeat_if_disturbed

MACHINES = """
machines:
  first: {speed: 2, backend: {kind: local}}
  second: {speed: 1, backend: {kind: local}}
"""
STEPS = 40
PROGRAM = """
there={machine.name} n=0
if [ -f restart ]; then n=$(cat restart); fi
while [ $n -lt 40 ]; do
  if [ $there = second ]; then sleep 0.02; else %s; fi
  n=$((n + 1)); echo $n > new; mv new restart; echo $n/40 > "$WEFT_PROGRESS_FILE"
done
echo $there $WEFT_ATTEMPT > out
"""


def steps(disturbance: str) -> str:
    """Return a task with a program of 40 steps, in each of which the machine ``first`` has a disturbance."""
    lines = "\n".join(f"      {line}" for line in (PROGRAM % disturbance).strip().splitlines())
    return f"""
tasks:
  work:
    command: |
{lines}
    outputs: [out]
    checkpoint: {{files: [restart]}}
    work: 4s
"""


@dataclass(frozen=True)
class Case:
    """One disturbance: the workflow of the real run, and the scenario of the simulated one."""

    workflow: str
    scenario: str
    settings: dict[str, Any] = field(default_factory=dict)
    migrations: tuple[tuple[str, ...], ...] = ()
    """Expected migrations: task, machine before, machine after, reason."""
    causes: tuple[str, ...] = ()
    """Expected causes of failed attempts."""
    outcome: str = "completed"
    tasks: tuple[str, ...] = ()
    """Expected tasks, where equal tasks run in any order on any machine."""
    restarts: bool = False
    """Whether the last attempt continues from restart files."""


CONTRACT = {"contract": {"factor": 0.5, "grace": 0.2}, "poll_every": 0.2, "migration": {"when": "always"}}
CASES = {
    "slow machine": Case(
        workflow=steps("sleep 1"),
        scenario="perturbations: [{machine: first, slowdown: 20}]",
        settings=CONTRACT,
        migrations=(("work", "first", "second", "performance"),),
    ),
    "competing load": Case(
        workflow=steps("sleep 0.5"),
        scenario="loads: [{machine: first, processes: 9}]",
        settings=CONTRACT,
        migrations=(("work", "first", "second", "performance"),),
    ),
    "suspension": Case(
        workflow=steps("sleep 0.02; if [ $n -eq 10 ]; then kill -STOP $$; fi"),
        scenario="suspensions: [{task: work, at: 0.5}]",
        settings={"timeouts": {"suspended": 0.2}},
        migrations=(("work", "first", "second", "suspension"),),
        restarts=True,
    ),
    "self-migration": Case(
        workflow=steps("sleep 0.02; if [ $n -eq 20 ]; then echo 'speed < 2' > gw_reqs; sleep 600; fi"),
        scenario="requirements: [{task: work, after: 0.5, expression: speed < 2}]\nprofiles: {work: 40}",
        settings={"poll_every": 0.2, "contract": 50},
        migrations=(("work", "first", "second", "self-migration"),),
        restarts=True,
    ),
    "preempted program": Case(
        workflow=steps("sleep 0.02; if [ $n -eq 10 ]; then echo 11 > restart; kill -KILL $$; fi").replace(
            "[restart]", "[restart], every: 0.1s"
        ),
        scenario="cancellations: [{task: work, at: 0.5}]",
        causes=("preempted",),
        restarts=True,
    ),
    "no exit code": Case(
        workflow=steps("true")
        + """    on_failure: reschedule
    wrapper: sh -c 'if [ $1 = first ]; then exit 0; fi; shift; exec "$@"' wrapper {machine.name}
""",
        scenario="exit_codes: {work: [no-exit-code, 0]}",
        migrations=(("work", "first", "second", "failure"),),
        causes=("wrapper",),
    ),
    "failing program": Case(
        workflow=steps("exit 3") + "    on_failure: reschedule\n",
        scenario="exit_codes: {work: [3, 0]}",
        migrations=(("work", "first", "second", "failure"),),
        causes=("error",),
    ),
    "failing program without a retry": Case(
        workflow=steps("exit 3"),
        scenario="exit_codes: {work: [3]}",
        causes=("error",),
        outcome="failed",
    ),
    "time limit": Case(
        workflow=steps("sleep 0.2")
        + "    time_limit: 1s\n    requirements: name == 'first'\n    retries: 1\n",
        scenario="durations: {bias: 100}",
        causes=("timeout", "timeout"),
        outcome="failed",
        restarts=True,
    ),
    "checkpointed by the program": Case(
        workflow=steps("sleep 0.02; if [ $n -eq 10 ]; then echo 11 > restart; exit 85; fi").replace(
            "[restart]", "[restart], every: 0.1s"
        ),
        scenario="exit_codes: {work: [85, 0]}",
        restarts=True,
    ),
    "restarted by the program": Case(
        workflow=steps("if [ $n$WEFT_ATTEMPT = 101 ]; then exit 99; fi"),
        scenario="exit_codes: {work: [99, 0]}",
    ),
    "better machine": Case(
        workflow="""
tasks:
  block: {command: "sleep 0.5", work: 4s, requirements: speed == 2}
  work:
    command: |
      if [ {machine.name} = second ]; then echo 5/10 > "$WEFT_PROGRESS_FILE"; echo 5 > restart; sleep 600; fi
      echo {machine.name} $WEFT_ATTEMPT > out
    outputs: [out]
    checkpoint: {files: [restart]}
    work: 40s
""",
        scenario="durations: {tasks: {block: {bias: 0.25}}}",
        settings={"migration": {"search_every": 0.3, "gain": 0.1}, "policy": "rank"},
        migrations=(("work", "second", "first", "better-machine"),),
    ),
    "program beyond its memory": Case(
        workflow=f"""
tasks:
  work:
    command: [{sys.executable}, -c, "import time, os; x = bytearray(200_000_000 if os.environ['WEFT_ATTEMPT'] == '1' else 1); \
      time.sleep(600 if len(x) > 1 else 0); open('out', 'w').write('first ' + os.environ['WEFT_ATTEMPT'])"]
    outputs: [out]
    memory: 100MB
    requirements: name == 'first'
    work: 4s
""",
        scenario="exit_codes: {work: [oom, 0]}",
        causes=("oom",),
    ),
    "sweep that grows": Case(
        workflow="""
tasks:
  list: {command: "printf '1\\n2\\n3\\n' > names", outputs: [names], work: 1s}
  each: {sweep: {name: 'lines("names")'}, command: "echo {name} > part.{name}", outputs: ["part.{name}"], work: 1s}
""",
        scenario="lines: {names: 3}",
        tasks=("each[1]", "each[2]", "each[3]", "list"),
    ),
    "loop until a result": Case(
        workflow="""
tasks:
  step: {command: 'echo "{\\"left\\": $((3 - WEFT_ITERATION))}" > "$WEFT_RESULT_FILE"', work: 1s}
loops:
  again: {from: step, to: step, until: step.result.left <= 0, max_iterations: 9}
""",
        scenario="results: {step: [{left: 2}, {left: 1}, {left: 0}]}",
        tasks=("step", "step", "step"),
    ),
}


def story(history, machines):
    """Return what was decided: migrations with their reasons, causes of failures, attempts and outcome."""
    attempts = list(history.attempts.values())
    return {
        "migrations": tuple(
            (each.task, machines[each.source], machines[each.target], each.reason)
            for each in history.moves
            if not each.off
        ),
        "causes": tuple(each.cause for each in attempts if each.cause),
        "attempts": [(each.task, machines[each.machine], each.ending) for each in attempts],
        "restarts": attempts[-1].restart_from > 0,
        "outcomes": [each.outcome for each in history.runs],
    }


def both_stories(real, case):
    """Return what happened in the real run, and what the simulation of the same files predicts."""
    real.write("machines.yaml", MACHINES)
    real.write("flow.yaml", case.workflow)
    real.write("scenario.yaml", case.scenario)
    simulated = real.simulate("flow.yaml", scenario=real.folder / "scenario.yaml", settings=case.settings)
    real.run("flow.yaml", settings=case.settings)
    names = ("first", "second")
    return story(real.history, names), story(simulated.history, names)


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if not case.tasks and case.settings is not CONTRACT]
)
def test_real_and_simulated_runs_make_the_same_decisions(real, name):
    check_decisions(real, CASES[name], *both_stories(real, CASES[name]))


@pytest.mark.real_time
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.settings is CONTRACT])
def test_real_and_simulated_runs_detect_the_same_violations_of_contracts(tmp_path, monkeypatch, name):
    """Contracts judge the speed of a program: with other load, the program violates them on each machine."""
    case, folders = CASES[name], count()

    def run_both():
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        monkeypatch.chdir(folder)
        real = RealProject(folder)
        return real, *both_stories(real, case)

    (real, happened, foreseen), share = repeat_if_disturbed(run_both)
    require_quiet_host(share)
    check_decisions(real, case, happened, foreseen)


def check_decisions(real, case, happened, foreseen):
    """Check what happened in the real run against the simulation and against the case."""
    assert happened == foreseen
    assert happened["migrations"] == case.migrations
    assert happened["causes"] == case.causes
    assert happened["outcomes"] == [case.outcome]
    if case.restarts:
        assert happened["restarts"]
    if case.outcome == "completed":
        where, starts = real.text("out").split()
        tried = [machine for task, machine, _ in happened["attempts"] if task == "work"]
        assert (where, int(starts)) == (tried[-1], len(tried))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.tasks])
def test_real_and_simulated_runs_complete_the_same_tasks(real, name):
    for found in both_stories(real, CASES[name]):
        completed = [task for task, _, ending in found["attempts"] if ending == "completed"]
        assert tuple(sorted(completed)) == CASES[name].tasks
        assert found["outcomes"] == ["completed"]
        assert found["causes"] == ()


def test_explanation_of_a_rescheduled_task_names_the_failure(real, capsys):
    real.write("machines.yaml", MACHINES)
    real.write("flow.yaml", CASES["failing program"].workflow)
    assert real.run("flow.yaml").completed
    text = Project(real.folder, capsys).weft("explain", "work").out
    assert "first: no, the task failed there" in text
    assert "it failed there: earliest finish of the others" in text
    assert "second: yes" in text


REAL_COUNTERPARTS = {
    "arrivals": "test_real_arrivals.py",
    "durations": "time limit",
    "perturbations": "slow machine",
    "failures": "test_real_machines.py",
    "loads": "competing load",
    "silences": "test_real_machines.py",
    "suspensions": "suspension",
    "cancellations": "preempted program",
    "requirements": "self-migration",
    "exit_codes": "failing program",
    "results": "loop until a result",
    "iterations": "test_nested_loops.py",
    "lines": "sweep that grows",
    "profiles": "self-migration",
    "denied": "test_real_machines.py",
}
"""By key of a scenario: the case above, or the module that compares real and simulated runs."""
ONLY_SIMULATED = {"network", "overhead_per_task", "stage_latency", "replanning"}
"""Keys that state a duration which a real run simply takes, so that there is nothing to decide."""


def test_every_scenario_key_is_tested_in_a_real_run_or_listed_as_simulated_only():
    described = {field.key for field in SCENARIO.fields} - {"weft", "name", "description"}
    assert described == REAL_COUNTERPARTS.keys() | ONLY_SIMULATED
    for key, place in REAL_COUNTERPARTS.items():
        compared = CASES[place].scenario if place in CASES else Path(__file__).with_name(place).read_text()
        assert f"{key}:" in compared, f"{place} does not use the key {key}"


FETCHED = """
tasks:
  work: {command: "cat in > out", inputs: [{file: in, from: URL/in}], outputs: [out], work: 4s}
"""


def test_task_whose_input_cannot_be_fetched_is_tried_on_the_other_machine_as_in_the_simulation(real):
    """The web server refuses the first request."""
    with serving() as site:
        site.files["/in"], site.refused["/in"] = b"x", 503
        real.write("machines.yaml", MACHINES)
        real.write("flow.yaml", FETCHED.replace("URL", site.url))
        real.write("scenario.yaml", "exit_codes: {work: [staging, 0]}")
        simulated = real.simulate("flow.yaml", scenario=real.folder / "scenario.yaml")

        def note(entry, _):
            if isinstance(entry.event, ev.StagedIn) and entry.event.problem:
                site.refused.clear()

        real.run("flow.yaml", note=note)
    happened, foreseen = (story(each, ("first", "second")) for each in (real.history, simulated.history))
    # The real attempt fails before its program starts, so its task has not run on the first machine.
    assert [happened.pop("migrations"), foreseen.pop("migrations")] == [
        (),
        (("work", "first", "second", "failure"),),
    ]
    assert happened == foreseen
    assert happened["causes"] == ("staging",)
    assert happened["attempts"] == [("work", "first", "failed"), ("work", "second", "completed")]
    assert real.text("out") == "x"


def test_every_kind_of_failure_in_a_scenario_is_compared_with_a_real_run():
    """Besides exit codes; ``staging`` is compared above."""
    compared = " ".join(case.scenario for case in CASES.values())
    assert {word for word in FAILURE_WORDS if word in compared} == set(FAILURE_WORDS) - {
        "staging",
        "preempted",
    }
    assert "cancellations" in compared, "programs that the machine has preempted"
