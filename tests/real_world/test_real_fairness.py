"""Several workflows in one real run: the default policy is fair, and every view shows the slowdowns."""

from __future__ import annotations

import math
import re

import pytest

import weft
from cli.projects import Project
from weft.api.project import OpenProject
from weft.papers.statistics import summarise
from weft.repository.journal_store import JournalStore

MACHINES = "machines: {m: {backend: {kind: local}}}\n"
FLOW = 'name: {name}\ntasks: {{a: {{work: 0.05s, command: "sleep 0.05"}}, b: {{work: 0.05s, after: a, command: "sleep 0.05"}}}}\n'
LIST = """\
arrivals:
  - {workflow: one.yaml, count: 2, every: 0.02s}
  - {workflow: two.yaml, at: 0.01s}
"""


@pytest.fixture
def several(real):
    real.write("machines.yaml", MACHINES)
    for name in ("one", "two"):
        real.write(f"{name}.yaml", FLOW.format(name=name))
    real.write("list.yaml", LIST)
    return real


def policy_of(folder, number=None):
    with OpenProject.at(str(folder)) as opened:
        run = opened.runs.run(number)
        return JournalStore(opened.database).header(run.execution).policy


@pytest.mark.parametrize(
    ("workflows", "options", "policy"),
    [
        (["one.yaml"], {}, "plan"),
        (["one.yaml", "two.yaml"], {}, "foft"),
        (["one.yaml", "two.yaml"], {"planner": "heft"}, "shared-plans"),
        (["one.yaml", "two.yaml"], {"preset": "s1"}, "shared-plans"),
        (["one.yaml", "two.yaml"], {"policy": "fcfs"}, "fcfs"),
        ([], {"arrivals": "list.yaml"}, "foft"),
    ],
)
def test_the_default_policy_of_several_runs_is_fair(several, workflows, options, policy):
    assert several.run(*workflows, **options).completed
    assert policy_of(several.folder) == policy
    given = {"scenario" if name == "arrivals" else name: value for name, value in options.items()}
    simulated = weft.simulate(workflows, on="machines.yaml", **given)
    assert simulated.policy == policy


def test_real_runs_take_turns_like_simulated_ones(real):
    """Copying the outputs of an ended program does not count as work that its run still has to do."""
    real.write("machines.yaml", "machines: {a: {backend: {kind: local}}, b: {backend: {kind: local}}}\n")
    for name in ("one", "two"):
        sweep = '{sweep: {k: 1..4}, work: 1s, outputs: ["o.{k}"], command: "sleep 1; echo {k} > o.{k}"}'
        real.write(f"{name}/{name}.yaml", f"name: {name}\ntasks:\n  t: {sweep}\n")
    workflows = ("one/one.yaml", "two/two.yaml")
    assert real.run(*workflows).completed
    simulated = real.simulate(*workflows).history
    # Later, both runs have the same slowdown except for milliseconds.
    for history in (real.history, simulated):
        starts = sorted(history.attempts.values(), key=lambda attempt: attempt.started_s)
        assert [attempt.run for attempt in starts][:4] == [0, 0, 1, 1]


def test_every_view_shows_the_slowdowns_of_several_runs(several, capsys):
    shell = Project(several.folder, capsys)
    done = shell.weft("run", "--arrivals", "list.yaml", "--on", "machines.yaml")
    assert done.code == 0, done
    assert "slowdown" in done.out
    assert "standard deviation" in done.out
    assert "mean absolute deviation" in done.out
    with OpenProject.at(str(several.folder)) as opened:
        listed = [run.slowdown for run in opened.runs.all()]
    assert all(value is not None and value > 0 for value in listed)
    shown = shell.json("ls")
    assert [each["slowdown"] for each in shown] == pytest.approx(listed)
    status = shell.json("status", "1")
    assert status["slowdown"] == pytest.approx(listed[0])
    assert status["slowdowns"]["one.yaml"]["number"] == 2
    text = shell.weft("status", "1").out
    assert f"slowdown: {listed[0]:.3g}" in text
    assert "slowdown of 3 of 3 runs: " in text
    shown = shell.weft("report", "1").out
    assert re.search(rf"^  slowdown +{listed[0]:.3g}; 3 of 3 runs: \S+ on average, ", shown, re.MULTILINE)
    assert re.search(r"^  fairness +standard deviation ", shown, re.MULTILINE)
    assert shell.json("report", "1")["slowdown_of_all_runs"]["number"] == 3
    applications = done.out[done.out.index("  application ") :].splitlines()[1:3]
    assert [line.split()[:2] for line in applications] == [["one.yaml", "2"], ["two.yaml", "1"]]
    page = next(several.folder.glob(".weft/reports/*/report.html")).read_text()
    for words in ("<h2>Slowdown</h2>", "By application", "Active workflows", "Ready tasks", "mean deviation"):
        assert words in page


def test_slowdown_figures_of_a_report_are_computed_from_its_runs(several):
    ran = several.run(arrivals="list.yaml")
    record = ran.report.executed.as_record()
    values = [run["slowdown"] for run in record["runs"]]
    found = summarise(values)
    mean = sum(values) / 3
    assert record["slowdown"]["mean"] == pytest.approx(mean)
    assert record["slowdown"]["standard_deviation"] == pytest.approx(
        math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
    )
    assert record["slowdown"]["mean_absolute_deviation"] == pytest.approx(
        sum(abs(value - mean) for value in values) / 3
    )
    assert record["slowdown"]["median"] == found.median
    assert set(record["slowdowns"]) == {"one.yaml", "two.yaml"}
    active = record["active"]
    assert max(value for _, value in active) <= 3
    assert active[-1][1] == 0
    assert record["ready"][-1][1] == 0


def test_a_resumed_execution_has_the_slowdowns_of_all_its_runs(several):
    """The first run ends under one engine, the second under the next."""
    several.write("slow.yaml", f'tasks: {{wait: {{work: 0.1s, command: "test -e {several.folder}/go"}}}}\n')
    several.write("list.yaml", "arrivals: [{workflow: one.yaml}, {workflow: slow.yaml, at: 0.3s}]\n")
    ran = several.run(arrivals="list.yaml", settings={"on_failure": "hold"})
    assert ran.outcome == "stopped"
    several.write("go", "")
    resumed = weft.resume(project=several.folder)
    assert resumed.completed
    assert [run.slowdown is not None for run in resumed.runs] == [True, True]
