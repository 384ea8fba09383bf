"""``weft simulate``, ``weft replay`` and ``weft explain``: output, files and rejected input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from cli.shell import refused
from cli.shell import weft as new_weft
from cli.warm_process import weft

SIMULATE = ("simulate", "hello.yaml", "--on", "grid.yaml")

LOST = """\
weft: 1
failures: [{machine: fast, at: 30s}, {machine: slow, at: 40s}]
"""

USAGE = {
    (*SIMULATE, "--repeat", "0"): ["--repeat", "0"],
    (*SIMULATE, "--seed", "-1"): ["--seed", "-1"],
    (*SIMULATE, "--journal", "j", "--repeat", "2"): ["--journal", "--repeat"],
    (*SIMULATE, "--journal", "-"): ["--journal"],
    (*SIMULATE, "--json", "--html", "-"): ["--json and --html -"],
    (*SIMULATE, "--csv", "-", "--html", "-"): ["--html - and --csv -"],
    ("simulate", "-", "--on", "-"): ["standard input"],
    ("simulate", "-", "--scenario", "-"): ["standard input"],
    ("replay",): ["Missing argument 'JOURNAL'"],
    ("explain",): ["Missing argument '[JOURNAL] TASK'"],
    ("explain", "j", "t", "--run", "-1"): ["--run"],
}
VALUES = {
    ("simulate", "--on", "grid.yaml"): ["no workflow to simulate"],
    (*SIMULATE, "--policy", "fcsf"): ["policy 'fcsf'", "did you mean 'fcfs'?"],
    (*SIMULATE, "--planner", "hefd"): ["planner 'hefd'", "did you mean 'heft'?"],
    (*SIMULATE, "--preset", "s9"): ["preset 's9'", "known: default"],
    (*SIMULATE, "--scenario", "nothing.yaml"): ["no file 'nothing.yaml'"],
    (*SIMULATE, "--scenario", "wrong.yaml"): ["wrong.yaml:2:", "no machine 'fats'", "did you mean 'fast'?"],
    (*SIMULATE, "-p", "sedes=3"): ["'sedes'", "seeds"],
    (*SIMULATE, "--journal", "nowhere/j"): ["nowhere/j"],
    (*SIMULATE, "--html", "nowhere/x.html"): ["nowhere/x.html"],
    ("replay", "nothing"): ["no file 'nothing'"],
    ("replay", "hello.yaml"): ["hello.yaml:1", "not a journal: not valid JSON"],
    ("explain", "j"): ["no runs in", "--project DIR"],
    ("explain", "hello.yaml", "run"): ["not a journal: not valid JSON"],
    ("explain", "hello.yaml", "run", "--at", "soon"): ["--at 'soon'"],
}


def short(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("arguments", USAGE, ids=short)
def test_wrong_arguments_of_simulate_are_usage_errors(arguments: tuple[str, ...], folder: Path) -> None:
    lines = refused(weft(*arguments, folder=folder), 2, *USAGE[arguments])
    assert lines[0].startswith(f"Usage: weft {arguments[0]}")


@pytest.mark.parametrize("arguments", VALUES, ids=short)
def test_wrong_option_values_of_simulate_are_rejected(arguments: tuple[str, ...], folder: Path) -> None:
    (folder / "wrong.yaml").write_text("weft: 1\nfailures: [{machine: fats, at: 3}]\n")
    assert len(refused(weft(*arguments, folder=folder), 2, *VALUES[arguments])) == 1


def test_a_task_that_cannot_run_is_infeasible(folder: Path) -> None:
    (folder / "wide.yaml").write_text("weft: 1\nname: wide\ntasks: {a: {work: 1, nodes: 99}}\n")
    found = weft("simulate", "wide.yaml", "--on", "grid.yaml", folder=folder)
    assert found.code == 3
    assert len(refused(found, 3, "wide: ", "no machine can run a")) == 1


def test_a_run_is_shown_written_replayed_and_explained(folder: Path) -> None:
    files = ("--journal", "run.jsonl", "--html", "run.html", "--csv", "run.csv")
    shown = new_weft(*SIMULATE, "--policy", "fcfs", *files, folder=folder)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("hello on grid, policy fcfs; scenario as-believed, preset default\n")
    for word in (
        "end ",
        "lower bound",
        "slowdown",
        "migrations",
        "replicated work",
        "nodes busy",
        "wrote run.csv",
    ):
        assert word in shown.out
    assert (folder / "run.html").read_text().startswith("<!DOCTYPE html>")
    assert len(list(csv.DictReader((folder / "run.csv").read_text().splitlines()))) == 6

    again = new_weft("replay", "run.jsonl", folder=folder)
    assert (again.code, again.out.split(" ", 1)[1]) == (0, "entries, same commands\n")
    other = new_weft("replay", "run.jsonl", "--policy", "plan", "--json", folder=folder)
    assert other.code == 0
    assert json.loads(other.out)["same"] is False

    reported = new_weft("explain", "run.jsonl", "run[1]", "--at", "40", folder=folder)
    assert reported.code == 0
    assert reported.out.startswith("run[1] of run 0 (hello) is running at 40 s\n")
    assert " * fast: " in reported.out
    record = json.loads(
        new_weft("explain", "run.jsonl", "collect", "--at", "40", "--json", folder=folder).out
    )
    assert record["state"] == "waiting"
    assert record["waits_for"][0].startswith("run[1], which is ")


def test_replay_of_an_altered_journal_fails(folder: Path) -> None:
    weft(*SIMULATE, "--policy", "fcfs", "--journal", "run.jsonl", folder=folder)
    journal = folder / "run.jsonl"
    journal.write_text(journal.read_text().replace('"machine":0', '"machine":1', 1))
    found = weft("replay", "run.jsonl", folder=folder)
    assert found.code == 1
    assert "differs:" in found.out
    assert "  - " in found.out
    assert "  + " in found.out


def test_simulate_reports_the_reason_of_a_standstill(folder: Path) -> None:
    (folder / "lost.yaml").write_text(LOST)
    found = weft(*SIMULATE, "--scenario", "lost.yaml", "--no-chart", folder=folder)
    assert found.code == 1
    assert "outcome          stuck" in found.out
    assert "note: standstill: run 0: prepare (ready) waits for a machine" in found.out
    assert "fast, slow: is down" in found.out


def test_simulate_exits_with_1_after_a_permanent_failure(folder: Path) -> None:
    (folder / "bad.yaml").write_text("weft: 1\nexit_codes: {prepare: [3]}\n")
    found = weft(*SIMULATE, "--scenario", "bad.yaml", "--json", folder=folder)
    assert found.code == 1
    record = json.loads(found.out)
    assert record["outcome"] == "failed"
    assert record["simulations"][0]["failures"][0]["cause"] == "error"


def test_error_about_an_invalid_placement_names_the_policy(folder: Path) -> None:
    """The error names the policy of another package and the task that it placed on a busy machine."""
    (folder / "greedy.py").write_text(
        "from weft.policies.multi_workflow import Fcfs\n"
        "from weft.policies.policy import Place\n"
        "class Greedy(Fcfs):\n"
        "    name = 'greedy'\n"
        "    def decide(self, view):\n"
        "        for run in view.runs:\n"
        "            for task in list(run.ready):\n"
        "                yield Place(run=run.index, task=task, machine=1)\n"
    )
    package = folder / "greedy-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: greedy\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[weft.policies]\ngreedy = greedy:Greedy\n")
    found = new_weft(*SIMULATE, "--policy", "greedy", "--no-chart", folder=folder, PYTHONPATH=str(folder))
    assert found.code == 1
    (line,) = refused(found, 1, "policy 'greedy' places task 'run[2]' on machine 'slow'")
    assert "the machine is busy" in line


def test_repetitions_show_medians_and_spread(folder: Path) -> None:
    (folder / "noise.yaml").write_text("weft: 1\ndurations: {noise: 0.3}\n")
    found = weft(*SIMULATE, "--scenario", "noise.yaml", "--repeat", "4", "--no-chart", folder=folder)
    assert found.code == 0
    assert "4 simulations, seeds 0 to 3:" in found.out
    assert "outcomes         4 completed" in found.out
    assert "median " in found.out


def test_equal_seeds_give_equal_journals(folder: Path) -> None:
    (folder / "noise.yaml").write_text(
        "weft: 1\ndurations: {noise: 0.3}\nfailures: [{machine: slow, mtbf: 1m, repair: 9s}]\n"
    )
    written = []
    for number in ("1", "7"):
        name = f"{number}.jsonl"
        new_weft(
            *SIMULATE, "--scenario", "noise.yaml", "--journal", name, folder=folder, PYTHONHASHSEED=number
        )
        written.append((folder / name).read_text())
    assert written[0] == written[1]
    assert written[0].count("\n") > 10
