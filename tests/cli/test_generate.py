"""``weft generate``: output, lists and rejected input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.shell import refused
from cli.shell import weft as new_weft
from cli.warm_process import weft
from weft.formats.files import load_platform, load_workflow
from weft.workflow.generators import GENERATORS

BARRIER = ("generate", "barrier", "-s", "tasks=8")

USAGE = {
    (*BARRIER, "--sed", "3"): ["--sed", "--seed"],
    (*BARRIER, "--seed", "-1"): ["--seed", "-1"],
    (*BARRIER, "--json"): ["the workflow and --json", "-o FILE"],
    (*BARRIER, "--platform-out", "-"): ["the workflow and --platform-out -", "-o FILE"],
    (*BARRIER, "-o", "x.yaml", "--platform-out", "-", "--json"): ["--platform-out - and --json"],
    (*BARRIER, "extra"): ["extra"],
}
VALUES = {
    ("generate", "barier"): ["kind of workflow 'barier'", "did you mean 'barrier'?"],
    ("generate", "zzz", "--list"): ["kind of workflow 'zzz'", "known: barrier, "],
    ("generate", "barrier", "-s", "tasks"): ["-s 'tasks'", "NAME=VALUE"],
    ("generate", "barrier", "-s", "=8"): ["-s '=8'", "NAME=VALUE"],
    ("generate", "barrier", "-s", "tasks=7"): ["tasks of barrier is 7", "even number"],
    ("generate", "barrier", "-s", "tasks="): ["tasks=", "whole number"],
    ("generate", "barrier", "-s", "taks=8"): ["'taks'", "did you mean 'tasks'?"],
    ("generate", "layered", "-s", "tasks=" + "9" * 500): ["tasks=", "whole number"],
    (*BARRIER, "-o", "x.foo"): ["'.foo'", "--to"],
    (*BARRIER, "-o", "nowhere/x.yaml"): ["nowhere/x.yaml"],
    (*BARRIER, "-o", "x.yaml", "--platform-out", "nowhere/p.yaml"): ["nowhere/p.yaml"],
    (*BARRIER, "--to", "dxa"): ["format 'dxa'", "did you mean 'dax'?"],
    (*BARRIER, "--to", "dax"): ["'dax'", "not written"],
    ("generate", "layered", "-s", "machines=0", "--platform-out", "p.yaml"): ["has no platform"],
}


def short(value: object) -> str:
    return " ".join(value)[:60] if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("arguments", USAGE, ids=short)
def test_wrong_arguments_of_generate_are_usage_errors(arguments: tuple[str, ...], tmp_path: Path) -> None:
    lines = refused(weft(*arguments, folder=tmp_path), 2, *USAGE[arguments])
    assert lines[0].startswith("Usage: weft generate")


@pytest.mark.parametrize("arguments", VALUES, ids=short)
def test_wrong_option_values_of_generate_are_rejected(arguments: tuple[str, ...], tmp_path: Path) -> None:
    shown = weft(*arguments, folder=tmp_path)
    assert len(refused(shown, 2, *VALUES[arguments])) == 1


def test_the_workflow_is_printed_and_planned(tmp_path: Path) -> None:
    printed = new_weft(*BARRIER, "--seed", "4", folder=tmp_path)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("weft: 1\nname: barrier-8\n")
    given = printed.out.encode()
    record = json.loads(
        new_weft("plan", "-", "--on", "cluster:64", "--json", folder=tmp_path, given=given).out
    )
    assert (record["workflow"], record["tasks"], record["edges"]) == ("barrier-8", 8, 9)


def test_generated_workflow_depends_only_on_the_seed(tmp_path: Path) -> None:
    first, again, other = (
        new_weft(*BARRIER, "--seed", seed, folder=tmp_path, PYTHONHASHSEED=hashes).out
        for seed, hashes in (("1", "0"), ("1", "9"), ("2", "0"))
    )
    assert first == again
    assert first != other


def test_workflow_and_platform_are_written(tmp_path: Path) -> None:
    arguments = ("generate", "montage", "-s", "tasks=30", "-s", "machines=3")
    shown = weft(*arguments, "-o", "m.yaml", "--platform-out", "grid.yaml", folder=tmp_path)
    assert shown.out == "wrote m.yaml (montage-30)\nwrote grid.yaml (platform of the workflow)\n"
    assert load_workflow(tmp_path / "m.yaml").name == "montage-30"
    assert len(load_platform(tmp_path / "grid.yaml").machines) == 3
    planned = weft("plan", "m.yaml", "--on", "grid.yaml", "--no-chart", folder=tmp_path)
    assert planned.out.startswith("montage-30: 30 tasks, ")


def test_a_platform_that_is_not_written_is_mentioned(tmp_path: Path) -> None:
    shown = weft(*BARRIER, "-o", "b.yaml", folder=tmp_path)
    assert "--platform-out" in shown.out.splitlines()[1]
    alone = weft("generate", "layered", "-s", "machines=0", "-o", "l.yaml", folder=tmp_path)
    assert alone.out == "wrote l.yaml (layered-100)\n"


def test_platform_option_prints_only_the_platform(tmp_path: Path) -> None:
    shown = weft(*BARRIER, "-o", "b.yaml", "--platform-out", "-", folder=tmp_path)
    assert shown.out.startswith("weft: 1\n")
    assert "nodes: 64" in shown.out
    assert "wrote" not in shown.out


def test_output_format_follows_the_file_ending_or_the_option(tmp_path: Path) -> None:
    arguments = ("generate", "fork-join", "-s", "width=2", "-s", "stages=1")
    assert weft(*arguments, "-o", "x.json", folder=tmp_path).code == 0
    assert json.loads((tmp_path / "x.json").read_text())["schemaVersion"]
    assert weft(*arguments, "--to", "mermaid", folder=tmp_path).out.startswith("flowchart TD")


def test_generated_json_file_has_the_documented_contents(tmp_path: Path) -> None:
    record = json.loads(weft(*BARRIER, "-o", "b.yaml", "--json", folder=tmp_path).out)
    assert record == {
        "kind": "barrier", "seed": 0, "workflow": "barrier-8", "out": "b.yaml", "format": "weft",
        "platform_out": None,
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [("generate",), ("generate", "--list")])
def test_generate_lists_all_kinds(arguments: tuple[str, ...], tmp_path: Path) -> None:
    shown = weft(*arguments, folder=tmp_path)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")] == list(GENERATORS)
    records = json.loads(weft(*arguments, "--json", folder=tmp_path).out)
    assert [record["name"] for record in records] == list(GENERATORS)
    parameters = [f"{p['name']}=" for record in records for p in record["parameters"]]
    reported = [line.split()[0] for line in lines if line.startswith("  ") and "=" in line.split()[0]]
    assert [text.split("=")[0] + "=" for text in reported] == parameters


def test_generate_lists_the_options_of_one_kind(tmp_path: Path) -> None:
    shown = weft("generate", "sample-sweeps", "--list", folder=tmp_path)
    lines = shown.out.splitlines()
    assert lines[0].startswith("sample-sweeps: ")
    assert lines[1].split()[0] == "graph=ptg"
    assert "one of ptg, otg-a" in lines[2]
    (record,) = json.loads(weft("generate", "sample-sweeps", "--list", "--json", folder=tmp_path).out)
    assert "itg-b" in record["parameters"][0]["choices"]
