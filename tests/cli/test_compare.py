"""``weft compare``: tables, files and rejected input."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from cli.shell import HELLO, refused
from cli.shell import weft as new_weft
from cli.warm_process import weft
from weft.planners import PLANNERS

COMPARE = ("compare", "hello.yaml", "--on", "grid.yaml", "--planner", "heft")
ALL = ("compare", "hello.yaml", "--on", "grid.yaml", "--plan-steps", "20")

USAGE = {
    ("compare",): ["Missing argument 'WORKFLOW...'"],
    (*COMPARE, "--seed", "-1"): ["--seed", "-1"],
    (*COMPARE, "--plan-steps", "0"): ["--plan-steps", "0"],
    (*COMPARE, "--json", "--csv", "-"): ["--json and --csv -"],
    (*COMPARE, "--csv", "-", "--html", "-"): ["--csv - and --html -"],
    ("compare", "-", "-"): ["standard input"],
    ("compare", "-", "--on", "-"): ["standard input"],
}
VALUES = {
    (*COMPARE, "--planner", "hefd"): ["planner 'hefd'", "did you mean 'heft'?"],
    (*COMPARE, "--planner", ""): ["planner ''"],
    (*COMPARE, "--planner", "heft:zzz=1"): ["'heft'", "no option 'zzz'"],
    (*COMPARE, "--plan-time", "0"): ["planning time of 0 s", "above 0"],
    (*COMPARE, "--plan-time", "3", "--plan-steps", "3"): ["3 s and 3 planning steps", "only one"],
    (*COMPARE, "nothing.yaml"): ["no file 'nothing.yaml'"],
    (*COMPARE, "--from", "dxa"): ["format 'dxa'", "did you mean 'dax'?"],
    (*COMPARE, "-p", "sedes=3"): ["'sedes'", "seeds"],
    (*COMPARE, "--csv", "nowhere/x.csv"): ["nowhere/x.csv"],
    (*COMPARE, "--html", "nowhere/x.html"): ["nowhere/x.html"],
    ("compare", "hello.yaml", "--on", "identicl:3"): ["identicl:3"],
    (*COMPARE, "--policy", "m-x"): ["unknown policy 'm-x'"],
    (*COMPARE, "--baseline", "policy:x"): ["unknown policy 'x'"],
}


def short(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("arguments", USAGE, ids=short)
def test_wrong_arguments_of_compare_are_usage_errors(arguments: tuple[str, ...], folder: Path) -> None:
    lines = refused(weft(*arguments, folder=folder), 2, *USAGE[arguments])
    assert lines[0].startswith("Usage: weft compare")


@pytest.mark.parametrize("arguments", VALUES, ids=short)
def test_wrong_option_values_of_compare_are_rejected(arguments: tuple[str, ...], folder: Path) -> None:
    assert len(refused(weft(*arguments, folder=folder), 2, *VALUES[arguments])) == 1


def test_a_task_that_cannot_run_is_infeasible(folder: Path) -> None:
    (folder / "wide.yaml").write_text("weft: 1\nname: wide\ntasks: {a: {work: 1, nodes: 99}}\n")
    lines = refused(weft(*COMPARE, "wide.yaml", folder=folder), 3, "wide: ", "no machine can run a")
    assert len(lines) == 1


def test_compare_prints_tables(folder: Path) -> None:
    (folder / "chain.yaml").write_text(
        "weft: 1\nname: chain\ntasks: {a: {work: 2}, b: {work: 4, after: a}}\n"
    )
    shown = new_weft(*COMPARE, "chain.yaml", folder=folder)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "2 workflows on grid, 1 planner"
    assert re.fullmatch(r"workflow +planner +makespan +gap +ratio +time", lines[2])
    assert re.fullmatch(r"hello \(6 tasks\) +heft +[\d.]+ s +\* +[\d.]+% +1\.000 +[\d.]+ m?s", lines[3])
    assert re.fullmatch(r"chain \(2 tasks\) +heft +3 s +\* +0\.0% +1\.000 +[\d.]+ m?s", lines[4])
    assert re.fullmatch(r"planner +wins +mean ratio +planned +time", lines[6])
    assert re.fullmatch(r"heft +2 +1\.000 +2 of 2 +[\d.]+ m?s", lines[7])


def test_compare_uses_all_supported_planners_by_default(folder: Path) -> None:
    record = json.loads(new_weft(*ALL, "--json", folder=folder).out)
    names = {standing["planner"] for standing in record["planners"]}
    assert "heft" in names
    assert names <= set(PLANNERS)
    everything = new_weft(*ALL, "--planner", "all", "--json", folder=folder)
    listed = {standing["planner"] for standing in json.loads(everything.out)["planners"]}
    assert listed == set(PLANNERS)


def test_compare_shows_policies_and_the_mean_percentage_of_the_baseline(folder: Path) -> None:
    arguments = ("compare", "hello.yaml", "--on", "grid.yaml", "--planner", "shuffle", "--policy", "m-s,pm-s")
    shown = weft(*arguments, folder=folder).out.splitlines()
    assert shown[0] == "1 workflow on grid, 1 planner and 2 policies"
    assert re.fullmatch(r"workflow +planner +makespan +gap +ratio +of shuffle +time", shown[2])
    assert sum("policy:m-s" in line for line in shown) == 2
    assert re.fullmatch(r"planner +wins \(BDT\) +mean ratio +ASE +planned +time", shown[7])
    record = json.loads(weft(*arguments, "--json", folder=folder).out)
    assert record["baseline"] == "shuffle"
    assert [each["kind"] for each in record["workflows"][0]["results"]] == ["planner", "policy", "policy"]
    assert {each["planner"]: each["ase_percent"] for each in record["planners"]}["shuffle"] == 100


def test_compare_and_plan_give_the_same_makespan_and_gap(folder: Path) -> None:
    record = json.loads(weft(*COMPARE, "--json", folder=folder).out)
    planned = json.loads(weft("plan", "hello.yaml", "--on", "grid.yaml", "--json", folder=folder).out)
    (results,) = record["workflows"]
    (result,) = results["results"]
    assert result["makespan_s"] == planned["makespan_s"]
    assert result["gap"] == pytest.approx(planned["gap"])
    assert (results["tasks"], results["edges"]) == (planned["tasks"], planned["edges"])


def test_compare_reads_a_workflow_from_standard_input(folder: Path) -> None:
    shown = new_weft(
        "compare", "-", "--on", "grid.yaml", "--planner", "heft", folder=folder, given=HELLO.encode()
    )
    assert "hello (6 tasks)" in shown.out


def test_compare_accepts_parameters(folder: Path) -> None:
    record = json.loads(weft(*COMPARE, "-p", "seeds=1", "--json", folder=folder).out)
    assert record["workflows"][0]["tasks"] == 3


def test_compare_writes_csv_and_html(folder: Path) -> None:
    shown = weft(*COMPARE, "--csv", "c.csv", "--html", "c.html", folder=folder)
    assert shown.out.endswith("wrote c.csv\nwrote c.html\n")
    (row,) = csv.DictReader((folder / "c.csv").read_text().splitlines())
    assert (row["workflow"], row["planner"], row["wins"]) == ("hello", "heft", "1")
    printed = weft(*COMPARE, "--csv", "-", folder=folder).out.splitlines()
    assert len(printed) == 2
    page = (folder / "c.html").read_text()
    assert "hello (6 tasks)" in page
    assert not re.search(r"""(src|href)=["']?https?:""", page)
