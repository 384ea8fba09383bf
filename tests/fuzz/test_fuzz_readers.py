"""Every reader accepts or refuses damaged input: a bounded form of ``make fuzz``, without coverage."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import PACKAGE, environment
from fuzz import campaign as campaign_module
from fuzz.block_coverage import SeenBlocks
from fuzz.campaign import (
    CORPUS,
    MOST_CORPUS_BYTES,
    Campaign,
    CaseTimeout,
    cpu_limit,
    judge_again,
    load_corpus,
    save_corpus,
)
from fuzz.mutation import MOST_BYTES, Mutator
from fuzz.targets import Target, all_targets, run_case
from weft.errors import InvalidInput
from weft.formats import FORMATS

TESTS = Path(__file__).parents[1]
CASES = 40
"""Mutated cases per reader; the time limit of the test suite allows no more."""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    variables = environment(PYTHONPATH=f"{PACKAGE.parent}:{TESTS}")
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=TESTS, env=variables, capture_output=True, text=True, check=False)


def test_the_corpus_and_a_few_mutations_of_it_are_read_or_refused() -> None:
    done = run_python("-m", "fuzz.long_form", "--cases", str(CASES))
    assert done.stdout, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    assert summary["findings"] == []
    assert done.returncode == 0
    assert set(summary["cases by reader"]) == {target.name for target in all_targets()}
    assert min(summary["cases by reader"].values()) >= CASES
    assert 0 < summary["accepted"] < summary["cases"]
    assert summary["peak memory (MB)"] < 500


def test_every_registered_format_has_a_fuzz_target() -> None:
    targets = {target.name for target in all_targets()}
    assert {f"format-{name}" for name in FORMATS} <= targets


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_every_reader_accepts_at_least_one_of_its_seed_inputs(target: Target) -> None:
    """Mutations of inputs that are all refused would not reach the code behind the first check."""
    assert any(run_case(target, data) for data in target.seeds)


def test_every_corpus_file_belongs_to_a_fuzz_target_and_the_corpus_is_small() -> None:
    files = sorted(CORPUS.glob("*.json"))
    assert {file.stem for file in files} <= {target.name for target in all_targets()}
    assert sum(file.stat().st_size for file in files) <= MOST_CORPUS_BYTES


_BLOCKS = """
from fuzz.block_coverage import SeenBlocks, instrument_weft
instrument_weft()
from weft.units import parse_seconds
seen = SeenBlocks()
seen.take_new()
for text in ("90", "90", "1:30:00", "90", "1h30m"):
    parse_seconds(text)
    print(seen.take_new() > 0, end=" ")
"""


def test_first_execution_of_a_code_block_is_detected() -> None:
    done = run_python("-c", _BLOCKS)
    assert done.stdout.split() == ["True", "False", "True", "False", "True"], done.stderr


def test_a_guided_campaign_counts_its_cases_and_keeps_new_inputs() -> None:
    done = run_python("-m", "fuzz.long_form", "--minutes", "0.03", "--only", "expression", "lock")
    assert done.stdout, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    assert summary["cases"] > 10
    assert summary["kept"] > 0


def explode(data: bytes) -> None:
    if b"hang" in data:
        while True:
            pass
    if b"7" in data:
        raise KeyError("unexpected")
    if b"0" in data:
        raise InvalidInput("refused")


def test_a_campaign_reports_errors_by_kind_with_the_shortest_input() -> None:
    campaign = Campaign(Target("none", explode, (b"7 in a long text", b"7", b"0", b"1")), random.Random(1))
    campaign.replay()
    campaign.run(cases=50)
    (finding,) = campaign.found.values()
    assert finding.data == b"7"
    assert "KeyError" in finding.kind
    assert campaign.cases == 54


def test_a_case_that_hangs_is_stopped() -> None:
    with pytest.raises(CaseTimeout), cpu_limit(0.2):
        explode(b"hang")


_MILLION = b"weft: 1\nname: n\ntasks:\n  a: {work: k, sweep: {k: 1..1000000}}\n"


def test_a_case_too_slow_under_tracing_is_judged_again_in_a_new_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = next(each for each in all_targets() if each.name == "format-weft")
    monkeypatch.setattr(campaign_module, "MOST_CPU_S", 0.02)
    for seen, findings in ((SeenBlocks(), []), (None, ["CaseTimeout at time limit"])):
        campaign = Campaign(target._replace(seeds=(_MILLION,)), random.Random(1), seen)
        campaign.corpus = [_MILLION]
        campaign.replay()
        assert list(campaign.found) == findings
        assert campaign.judged_again == (seen is not None)


def test_a_case_that_exceeds_a_limit_in_a_new_process_too_is_a_finding() -> None:
    finding = judge_again("format-weft", _MILLION, cpu_s=0.02)
    assert finding is not None
    assert finding.kind == "CaseTimeout at time limit"
    assert judge_again("format-weft", _MILLION) is None


def test_memory_of_a_campaign_is_limited() -> None:
    script = "from fuzz.campaign import limit_memory; limit_memory(); bytearray(2_000_000_000)"
    assert "MemoryError" in run_python("-c", script).stderr


def test_refused_input_is_not_reported_as_an_error() -> None:
    target = Target("none", explode, ())
    assert not run_case(target, b"0")
    assert run_case(target, b"1")


def test_mutations_are_repeatable_and_bounded() -> None:
    seeds = [b'{"a": [1, {"b": "x"}]}', b"weft: 1\nname: n\n"]

    def draw() -> list[bytes]:
        mutator = Mutator(random.Random(7), seeds)
        return [mutator.mutate(seeds[number % 2], seeds) for number in range(500)]

    first = draw()
    assert first == draw()
    assert max(map(len, first)) <= MOST_BYTES
    assert len(set(first)) > 400


def test_a_stored_corpus_is_read_back(tmp_path: Path) -> None:
    inputs = [b"", bytes(range(256)), b"line\nother"]
    save_corpus("x", inputs, tmp_path)
    assert load_corpus("x", tmp_path) == inputs
    assert load_corpus("y", tmp_path) == []
