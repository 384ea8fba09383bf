"""Journal files contain enough to rebuild, replay and explain a run; damage is reported with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from architecture.package import ROOT
from state_digest import digest_state
from weft.api.journal import explain_task, explanation_lines, replay_journal
from weft.engine.replay import rebuild
from weft.errors import InvalidInput
from weft.formats.files import load_platform, load_workflow
from weft.formats.profiles import list_presets, preset_settings
from weft.repository.journal import JournalHeader
from weft.repository.journal_store import read_journal_file as read_journal

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Return the journal file of a workflow with a loop, simulated on a grid under the policy ``plan``."""
    file = tmp_path_factory.mktemp("journal") / "wien2k.jsonl"
    weft.simulate(EXAMPLES / "wien2k.yaml", on=EXAMPLES / "grid.yaml", policy="plan", journal=file)
    return file


def test_a_journal_replays_to_the_same_commands(journal):
    found = replay_journal(journal)
    assert found.replayed.same
    assert found.as_record()["entries"] == found.replayed.entries > 20


def test_final_state_is_rebuilt_from_the_journal(journal):
    read = read_journal(journal)
    engine = rebuild(read.engine(), read.entries, read.plans)
    (run,) = engine.state.runs
    assert (run.ending, run.unfinished, engine.state.attempts) == ("completed", 0, {})


def test_state_is_rebuilt_from_the_last_snapshot_for_every_prefix(tmp_path, monkeypatch):
    """For every prefix of a journal, rebuilding from a snapshot gives the state that replaying gives."""
    monkeypatch.setattr("weft.repository.journal_store.SNAPSHOT_EVERY", 20)
    file = tmp_path / "short.jsonl"
    weft.simulate(EXAMPLES / "wien2k.yaml", on=EXAMPLES / "grid.yaml", policy="plan", journal=file)
    read = read_journal(file)
    assert list(read.snapshots) == list(range(19, len(read.entries), 20))
    for entries in (5, 20, 21, 39, 60, len(read.entries)):
        slowly = rebuild(read.engine(), read.entries[:entries], read.plans)
        assert digest_state(read.rebuilt(entries).state) == digest_state(slowly.state)
    assert replay_journal(file).replayed.same
    assert list(explanation_lines(explain_task(file, "lapw1[3]")))


def test_plans_precede_the_entries_that_name_them(journal):
    seen = set()
    for line in journal.read_text().splitlines()[1:]:
        record = json.loads(line)
        if "plan" in record:
            assert record["plan"] not in seen, "kept once"
            seen.add(record["plan"])
        elif record["event"][0] == "PlanReady":
            assert record["event"][1]["plan"] in seen
    assert seen


def test_replay_with_another_policy_lists_differences(journal):
    found = replay_journal(journal, policy="fcfs")
    assert not found.replayed.same
    assert found.as_record()["recorded_policy"] == "plan"


def test_explain_lists_the_decisions_about_a_task(journal):
    lines = list(explanation_lines(explain_task(journal, "lapw1[3]")))
    assert lines[0].startswith("lapw1[3] of run 0 (wien2k) is completed at ")
    assert any(line.startswith(" * ") for line in lines), "the chosen machine is marked"
    copying = replace(explain_task(journal, "lapw1[3]"), state="epilog")
    assert " is copying its outputs at " in next(explanation_lines(copying))


@pytest.mark.parametrize(
    "name", ["hello", "wien2k", "moldable", "docking", "pipeline", "transfers", "shares"]
)
def test_workflow_and_platform_of_every_example_are_restored_from_the_journal_header(name):
    """A stored workflow unfolds to the same tasks on the same platform."""
    try:
        workflow = load_workflow(EXAMPLES / f"{name}.yaml")
    except InvalidInput:
        pytest.skip("a platform")
    platform = load_platform(EXAMPLES / "grid.yaml")
    for settings in map(preset_settings, list_presets()):
        header = JournalHeader(
            policy="fcfs",
            settings=settings,
            seed=3,
            planner="heft",
            platform=platform,
            workflows={"w": workflow},
        )
        back = JournalHeader.of_record(json.loads(json.dumps(header.as_record())))
        assert back.settings == settings
        assert back.platform == platform
        assert weft.unfold(back.workflows["w"]).names == weft.unfold(workflow).names
        assert back.workflows["w"].loops == workflow.loops


def damaged(journal: Path, folder: Path, change) -> Path:
    lines = journal.read_text().splitlines()
    file = folder / "damaged.jsonl"
    file.write_text("\n".join(change(lines)) + "\n")
    return file


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (
            lambda lines: [*lines[:5], lines[5][:40], *lines[6:]],
            6,
            "journal damaged at line 6: not valid JSON",
        ),
        (
            lambda lines: [*lines[:3], "[1, 2]", *lines[3:]],
            4,
            "journal damaged at line 4: a line must be a JSON object",
        ),
        (lambda lines: lines[1:], 1, "not a journal: 'kind' is missing"),
        (lambda lines: ['{"kind": "diary"}', *lines[1:]], 1, "diary"),
        (lambda lines: [lines[0].replace('"schema":2', '"schema":9'), *lines[1:]], 1, "schema 9"),
        (lambda lines: [lines[0].replace('"gain":', '"profit":'), *lines[1:]], 1, "profit"),
        (
            lambda lines: [*lines, '{"n":1,"now":1,"event":["Wish",{}],"commands":[]}'],
            None,
            "unknown type 'Wish'",
        ),
    ],
)
def test_error_about_a_damaged_journal_names_the_line(journal, tmp_path, change, line, words):
    file = damaged(journal, tmp_path, change)
    with pytest.raises(InvalidInput) as caught:
        read_journal(file)
    (problem,) = caught.value.problems
    assert words in str(problem)
    if line is not None:
        assert problem.location.line == line


def test_empty_file_is_rejected_as_a_journal(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidInput, match="the file is empty"):
        read_journal(tmp_path / "empty")


def test_an_unwritable_journal_is_rejected_before_the_run(tmp_path):
    with pytest.raises(InvalidInput, match="cannot write"):
        weft.simulate(EXAMPLES / "hello.yaml", on="identical:2", journal=tmp_path / "nowhere" / "j")
