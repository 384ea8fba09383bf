"""``weft tune``: tables, files, stored runs and rejected input."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from cli.shell import refused
from cli.shell import weft as new_weft
from cli.warm_process import weft

TUNE = (
    "tune", "hello.yaml", "--on", "grid.yaml", "--planner", "genetic:preset=s1-tuned,generations=4",
    "--grid", "knobs.yaml", "--repeat", "2",
)  # fmt: skip
KNOBS = "weft: 1\ngrid: {population: [4, 8], elitist: [true, false]}\n"

VALUES = {
    ("tune", "hello.yaml", "--planner", "heft"): ["'heft' is not an optimiser"],
    (*TUNE, "--grid", "nothing.yaml"): ["no file 'nothing.yaml'"],
    (*TUNE, "--grid", "hello.yaml"): ["unknown key 'tasks'"],
    (*TUNE, "--objective", "foo + 1"): ["unknown name 'foo'", "a formula may use"],
    (*TUNE, "--reference", "hefd"): ["did you mean 'heft'?"],
    (*TUNE, "--stop-at-reference"): ["known only after the last run"],
    (*TUNE, "--out", "nowhere/x.csv"): ["nowhere/x.csv"],
}


@pytest.fixture
def knobs(folder: Path) -> Path:
    (folder / "knobs.yaml").write_text(KNOBS)
    return folder


@pytest.mark.parametrize("arguments", VALUES, ids=lambda given: " ".join(given)[-40:])
def test_wrong_option_values_of_tune_are_rejected(arguments: tuple[str, ...], knobs: Path) -> None:
    refused(weft(*arguments, folder=knobs), 2, *VALUES[arguments])


def test_tables_are_printed_and_finished_runs_reused(knobs: Path) -> None:
    shown = new_weft(*TUNE, folder=knobs)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == (
        "hello on grid, genetic:preset=s1-tuned,generations=4: 4 experiments of 2 runs, seed 0"
    )
    assert re.fullmatch(r"reference [\d.]+ \(the best of all runs\); success: a run reaches it", lines[1])
    assert lines[3].split() == [
        "options", "mean", "makespan", "best", "P", "I", "visited", "success", "generation",
    ]  # fmt: skip
    assert sum(line.startswith("population=") for line in lines) == 4
    assert any(line.startswith("elitist ") for line in lines)
    again = weft(*TUNE, folder=knobs)
    assert again.out == shown.out
    assert "the stored results of 8 runs were reused" in again.err


def test_tune_prints_json_and_writes_csv_and_json_files(knobs: Path) -> None:
    record = json.loads(weft(*TUNE, "--json", folder=knobs).out)
    assert record["experiments"][0]["options"] == {"population": 4, "elitist": True}
    assert record["experiments"][0]["visited"]["number"] == 2
    weft(*TUNE, "--out", "t.csv", folder=knobs)
    rows = list(csv.DictReader((knobs / "t.csv").read_text().splitlines()))
    assert [row["population"] for row in rows] == ["4", "4", "8", "8"]
    assert float(rows[0]["mean_value"]) == record["experiments"][0]["value"]["mean"]
    weft(*TUNE, "--out", "t.json", folder=knobs)
    stored = json.loads((knobs / "t.json").read_text())
    assert stored["experiments"] == record["experiments"]


def test_grid_files_are_checked_and_have_a_schema(knobs: Path) -> None:
    assert weft("check", "knobs.yaml", folder=knobs).out == (
        "knobs.yaml: a tuning grid of 4 experiments for genetic, moldable-genetic; no problems found\n"
    )
    (knobs / "bad.yaml").write_text("weft: 1\ngrid: {population: []}\nvary: none\n")
    lines = refused(
        weft("check", "bad.yaml", folder=knobs), 2, "option 'population' has no values", "all, alone"
    )
    assert len(lines) == 2
    schema = json.loads(weft("schema", "grid", folder=knobs).out)
    assert set(schema["properties"]) == {"weft", "vary", "grid"}
