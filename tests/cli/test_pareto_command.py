"""``weft pareto`` and ``weft plan --choose``: output, files and rejected input."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from cli.shell import refused
from cli.shell import weft as new_weft
from cli.warm_process import weft

PARETO = ("pareto", "hello.yaml", "--on", "grid.yaml")
QUICK = (*PARETO, "--plan-steps", "200", "--points", "4")
CHOOSE = ("plan", "hello.yaml", "--on", "grid.yaml", "--choose")

USAGE = {
    ("pareto",): ["Missing argument 'WORKFLOW'"],
    (*PARETO, "--points", "1"): ["--points", "1"],
    (*PARETO, "--preset", "s9"): ["--preset", "s9"],
    (*PARETO, "--json", "--html", "-"): ["--json and --html -"],
    (*PARETO, "--out", "front.txt"): [".json or .csv"],
    ("pareto", "-", "--on", "-"): ["standard input"],
    (*CHOOSE, "0"): ["--choose", "0"],
    (*CHOOSE, "1", "--planner", "heft"): ["omit --planner"],
}
VALUES = {
    (*PARETO, "--plan-time", "soon"): ["--plan-time 'soon'"],
    (*PARETO, "--plan-time", "1", "--plan-steps", "3"): ["only one of them"],
    (*PARETO, "--preset", "s2"): ["preset 's2'", "one machine"],
    (*PARETO, "--against", "fame"): ["time cannot be traded against 'fame'", "cost, idle, or a formula"],
    (*PARETO, "--against", "cost +"): ["invalid syntax"],
    (*PARETO, "-p", "sedes=3"): ["'sedes'", "seeds"],
    (*QUICK, "--html", "nowhere/x.html"): ["nowhere/x.html"],
}


def short(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("arguments", USAGE, ids=short)
def test_wrong_arguments_of_pareto_are_usage_errors(arguments: tuple[str, ...], folder: Path) -> None:
    lines = refused(weft(*arguments, folder=folder), 2, *USAGE[arguments])
    assert lines[0].startswith(f"Usage: weft {arguments[0]}")


@pytest.mark.parametrize("arguments", VALUES, ids=short)
def test_wrong_option_values_of_pareto_are_rejected(arguments: tuple[str, ...], folder: Path) -> None:
    assert len(refused(weft(*arguments, folder=folder), 2, *VALUES[arguments])) == 1


def test_pareto_prints_only_the_page_on_request(folder: Path) -> None:
    page = weft(*QUICK, "--html", "-", folder=folder).out.strip()
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>")


def test_pareto_is_infeasible_when_no_plan_meets_the_limits(folder: Path) -> None:
    reported = refused(
        weft(*QUICK, "--deadline", "1m", folder=folder), 3, "no plan can meet the deadline of 60 s"
    )
    assert len(reported) == 1


def test_pareto_prints_a_table_and_plan_can_choose_a_point_from_that_table(folder: Path) -> None:
    shown = new_weft(*QUICK, folder=folder)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert re.fullmatch(r"hello on grid: time against cost; \d points in [\d.]+ s", lines[0])
    assert lines[2].split() == ["point", "time", "longer", "cost", "idle", "alpha", "tasks"]
    points = [line.split() for line in lines[3 : lines.index("", 3)]]
    assert [point[0] for point in points] == [str(number) for number in range(1, len(points) + 1)]
    assert len(points) > 1
    (kept,) = (folder / ".weft" / "fronts").iterdir()
    known = json.loads(kept.read_text())["points"]
    assert len(known) == len(points)
    chosen = json.loads(new_weft(*CHOOSE, "2", "--json", folder=folder).out)
    assert chosen["makespan_s"] == known[1]["makespan_s"]
    assert chosen["cost"] == pytest.approx(known[1]["amount"])
    refused(new_weft(*CHOOSE, "77", folder=folder), 2, "point 77", f"it has {len(known)} points")


def test_option_choose_computes_a_front_if_none_is_stored(folder: Path) -> None:
    shown = weft(*CHOOSE, "1", "--plan-steps", "200", "--no-chart", folder=folder)
    assert shown.code == 0
    assert re.search(r"note: point 1 of \d+ of the front of time against cost", shown.out)
    assert len(list((folder / ".weft" / "fronts").iterdir())) == 1


def test_front_is_the_same_under_every_hash_seed(folder: Path) -> None:
    found = [
        json.loads(new_weft(*QUICK, "--json", folder=folder, PYTHONHASHSEED=seed).out) for seed in ("0", "77")
    ]
    for record in found:
        del record["planning_s"]
    assert found[0] == found[1]


def test_the_pareto_json_file_has_the_documented_contents(folder: Path) -> None:
    shown = weft(*QUICK, "--against", "idle", "--out", "f.csv", "--html", "f.html", folder=folder)
    assert shown.out.endswith("wrote f.csv\nwrote f.html\n")
    assert weft(*QUICK, "--against", "idle", "--out", "f.json", folder=folder).code == 0
    rows = list(csv.DictReader((folder / "f.csv").read_text().splitlines()))
    record = json.loads((folder / "f.json").read_text())
    assert [float(row["idle_share"]) for row in rows] == [point["idle_share"] for point in record["points"]]
    assert (folder / "f.html").read_text().startswith("<!DOCTYPE html>")


def test_an_unwritable_folder_for_the_front_is_noted(folder: Path) -> None:
    (folder / ".weft").write_text("not a folder")
    shown = weft(*QUICK, folder=folder)
    assert shown.code == 0
    assert shown.err.startswith("note: the front could not be stored")
    assert "time against cost" in shown.out
