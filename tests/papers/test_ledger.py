"""Ledgers keep every run, even if the process was killed while writing."""

from __future__ import annotations

import json

import pytest

from papers.toy_reproduction import Toy
from weft.papers.repetition import ResultLedger, ledger_path, source_digest


@pytest.fixture
def ledger(tmp_path):
    return ResultLedger(tmp_path / "deep" / "runs.jsonl")


def test_added_runs_are_readable_at_once_and_after_reopening(ledger):
    assert ledger.read() == {}
    with ledger:
        ledger.add(("a", 0), {"x": 0.1})
        assert ResultLedger(ledger.path).read() == {("a", 0): {"x": 0.1}}
    with ledger:
        ledger.add(("a", 1), {"x": 1e-17})
    assert ledger.read() == {("a", 0): {"x": 0.1}, ("a", 1): {"x": 1e-17}}


@pytest.mark.parametrize("kept", range(1, 45))
def test_incomplete_ledger_line_is_skipped(ledger, kept):
    with ledger:
        ledger.add(("a", 0), {"x": 1.0})
        ledger.add(("a", 1), {"x": 2.0})
    whole = ledger.path.read_bytes()
    first = whole.index(b"\n") + 1
    ledger.path.write_bytes(whole[: first + kept])
    assert set(ledger.read()) == {("a", 0)}
    with ledger:
        ledger.add(("a", 2), {"x": 3.0})
    assert ledger.read() == {("a", 0): {"x": 1.0}, ("a", 2): {"x": 3.0}}


def test_first_of_several_ledger_lines_of_a_run_is_used(ledger):
    for value in (1.0, 2.0):
        with ledger:
            ledger.add(("a", 0), {"x": value})
    assert ledger.read() == {("a", 0): {"x": 1.0}}


def test_invalid_ledger_lines_are_skipped(ledger):
    ledger.path.parent.mkdir()
    lines = ["[]", "7", "{}", json.dumps({"cell": "a", "repetition": "x", "measures": {}}), "\x00"]
    ledger.path.write_text("\n".join(lines))
    assert ledger.read() == {}


def test_nan_in_a_ledger_is_refused(ledger):
    with pytest.raises(ValueError, match="JSON"), ledger:
        ledger.add(("a", 0), {"x": float("nan")})
    assert ledger.read() == {}


def test_ledger_can_be_deleted_twice(ledger):
    with ledger:
        ledger.add(("a", 0), {"x": 1.0})
    ledger.delete()
    ledger.delete()
    assert ledger.read() == {}


def test_every_seed_and_code_version_has_its_own_ledger_file(tmp_path):
    toy = Toy()
    first, other = (ledger_path(tmp_path, toy, seed) for seed in (3, 4))
    assert first.name == f"toy-3-{source_digest(Toy.__module__)}.jsonl"
    assert other.name.startswith("toy-4-")
