"""``weft reproduce``: tables, rejected input, and resumption after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.shell import refused, start
from cli.shell import weft as new_weft
from cli.warm_process import weft
from patience import PATIENCE_S
from weft.papers import REPRODUCTIONS
from weft.papers.repetition import ResultLedger, ledger_path

QUICK = ("reproduce", "s2-alpha", "--runs", "1")
VALUES = {
    ("reproduce", "s1-tunning"): ["reproduction 's1-tunning'", "did you mean 's1-tuning'?"],
    ("reproduce", "zzz"): ["known: s1-", "s2-alpha, s2-local, s3-degradation, s3-requirements"],
}
USAGE = {
    (*QUICK[:2], "--runs", "0"): ["--runs", "0"],
    (*QUICK, "--workers", "0"): ["--workers", "0"],
    (*QUICK, "--seed", "-1"): ["--seed", "-1"],
    (*QUICK, "more"): ["more"],
}
GOOD = {
    "makespan_s": 1.0, "node_seconds": 1.0, "cost_percent": -40.0,
    "idle_percent": 30.0, "evaluations_to_best": 1.0, "visited": 1.0, "cpu_s": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("arguments", VALUES, ids=" ".join)
def test_unknown_names_of_experiments_are_rejected(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert len(refused(weft(*arguments, folder=tmp_path), 2, *VALUES[arguments])) == 1
    assert not (tmp_path / ".weft").exists()


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_arguments_of_reproduce_are_usage_errors(arguments: tuple[str, ...], tmp_path: Path) -> None:
    lines = refused(weft(*arguments, folder=tmp_path), 2, *USAGE[arguments])
    assert lines[0].startswith("Usage: weft reproduce")


def test_reproduce_lists_the_experiments(tmp_path: Path) -> None:
    shown = weft("reproduce", folder=tmp_path)
    assert [line.split()[0] for line in shown.out.splitlines()] == list(REPRODUCTIONS)
    listed = json.loads(weft("reproduce", "--json", folder=tmp_path).out)
    assert [record["name"] for record in listed] == list(REPRODUCTIONS)
    assert not (tmp_path / ".weft").exists()


def ledger_of(folder: Path) -> ResultLedger:
    return ResultLedger(ledger_path(folder / ".weft" / "reproduce", REPRODUCTIONS.load("s2-alpha")(), 0))


def prepare(folder: Path, **changed: float) -> None:
    """Store runs as if they had been executed, with other values for the first cell."""
    ledger = ledger_of(folder)
    with ledger:
        for number, cell in enumerate(REPRODUCTIONS.load("s2-alpha")().cells(full=False)):
            makespan = {"makespan_percent": -5.0 if cell.name.startswith("on-demand") else -20.0}
            ledger.add((cell.name, 0), GOOD | makespan | (changed if number == 0 else {}))


def test_reproduce_exits_with_0_when_figures_are_within_tolerance(tmp_path: Path) -> None:
    prepare(tmp_path)
    shown = weft(*QUICK, folder=tmp_path)
    assert shown.code == 0
    assert "the stored results of 22 of 22 runs were reused" in shown.err
    lines = shown.out.splitlines()
    assert lines[1] == "quick: 22 runs, seed 0"
    assert any(line.endswith("not judged: depends on this host") for line in lines)
    (row,) = [line for line in lines if line.startswith("  tree-15: cost against local") and "ok" in line]
    cells = "-37 % -39 % -40.0 % 1 -45 to -33 % ok A2.4"
    assert " ".join(row.split()[4:]) == cells
    assert "OUTSIDE" not in shown.out


def test_reproduce_names_a_figure_outside_its_tolerance(tmp_path: Path) -> None:
    prepare(tmp_path, cost_percent=-20.0)
    shown = weft(*QUICK, folder=tmp_path)
    assert shown.code == 1
    (line,) = [line for line in shown.err.splitlines() if line.startswith("outside: ")]
    for word in ("A2.4", "tree-15: cost against local is -20.0 %", "-45 to -33 %"):
        assert word in line
    assert shown.out.count("OUTSIDE") == 1
    record = json.loads(weft(*QUICK, "--json", folder=tmp_path).out)
    assert record["within"] is False
    (row,) = [row for row in record["rows"] if row["within"] is False]
    assert (row["ours"], row["least"], row["most"], row["acceptance"]) == (-20.0, -45.0, -33.0, "A2.4")


def decided(shown: str) -> list[dict[str, object]]:
    """Return the rows of a JSON output that do not depend on processor time."""
    return [row for row in json.loads(shown)["rows"] if not row["table"].startswith("processor time")]


def wait_for_runs(folder: Path, number: int, process: subprocess.Popen[bytes]) -> ResultLedger:
    """Wait until this many runs are stored."""
    ledger = ledger_of(folder)
    deadline_s = time.monotonic() + PATIENCE_S
    while len(ledger.read()) < number:
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return ledger


def stop_experiment(folder: Path, sign: signal.Signals) -> tuple[int, bytes, int]:
    """Stop an experiment by a signal; return exit code, error output and number of stored runs."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = start(*QUICK, folder=folder, **streams)
    ledger = wait_for_runs(folder, 3, process)
    process.send_signal(sign)
    _, reported = process.communicate(timeout=PATIENCE_S)
    return process.returncode, reported, len(ledger.read())


def test_a_killed_experiment_is_resumed_and_gives_the_same_rows(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    code, _, made = stop_experiment(folder, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert 3 <= made < 22
    again = weft(*QUICK, "--json", folder=folder)
    assert json.loads(again.out)["taken_over"] == made
    # In another folder, from the start, with two processes and another hash seed.
    prepare(tmp_path, cost_percent=-20.0)
    whole = new_weft(*QUICK, "--json", "--workers", "2", "--fresh", folder=tmp_path, PYTHONHASHSEED="7")
    assert json.loads(whole.out)["taken_over"] == 0
    assert decided(whole.out) == decided(again.out)
    assert len(decided(whole.out)) == 76
    assert whole.code == again.code


def test_an_interrupted_experiment_reports_its_stored_runs(tmp_path: Path) -> None:
    code, reported, made = stop_experiment(tmp_path, signal.SIGINT)
    assert (code, b"repeat the same command to continue" in reported) == (130, True)
    assert 3 <= made < 12
    assert {found["visited"] for found in ledger_of(tmp_path).read().values()} == {25_000}
