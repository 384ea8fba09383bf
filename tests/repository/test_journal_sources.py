"""A journal is located by the name of a file, a database or a project."""

from __future__ import annotations

import json

import pytest

from journal_writer import header, journal, write
from weft.api.journal import explain_task, replay_journal
from weft.cli.main import weft as command
from weft.errors import InvalidInput
from weft.repository.database import open_database
from weft.repository.journal_store import find_journal, open_journal_file, read_journal_file
from weft.repository.runs import RunTable


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project with two runs: that of the journal, and one of an execution that never started."""
    folder = tmp_path_factory.mktemp("project")
    write(folder)
    with open_database(folder / ".weft" / "weft.db") as database:
        runs = RunTable(database)
        for execution in (7, 1):
            runs.add(execution=execution, position=0, workflow="wien2k", owner="ada", tasks=9, at_s=1.0)
        database.commit()
    return folder


def test_project_can_be_named_in_three_ways(project):
    for name in (project, project / ".weft", project / ".weft" / "weft.db", str(project)):
        found = find_journal(name)
        assert (found.position, found.journal.entries) == (0, journal().entries)


def test_journal_file_is_read(tmp_path):
    expected, file = journal(), tmp_path / "run.jsonl"
    engine = expected.engine()
    engine.state.plans.update(expected.plans)
    with open_journal_file(file, header()) as writer:
        for entry in expected.entries:
            engine.apply(entry.event, entry.now, entry.commands)
            writer.write(entry, engine.state)
    found = find_journal(file, 2)
    assert (found.position, found.journal.entries) == (2, expected.entries)
    assert read_journal_file(file).plans == expected.plans


def test_journals_of_files_and_projects_are_replayed_and_explained(project):
    assert replay_journal(project).replayed.same
    assert replay_journal(project, run=2).replayed.same
    assert not replay_journal(project, policy="fcfs").replayed.same
    assert explain_task(project, "lapw1[3]").state == "completed"
    assert explain_task(project, "lapw1[3]", run=2, at_s=0.0).state != "completed"


def test_missing_journal_is_reported(project, tmp_path):
    with pytest.raises(InvalidInput, match="no run 3"):
        find_journal(project, 3)
    with pytest.raises(InvalidInput, match="no execution 7"):
        find_journal(project, 1)
    with pytest.raises(InvalidInput, match="no runs in"):
        find_journal(tmp_path)
    with pytest.raises(InvalidInput, match="no file"):
        find_journal(tmp_path / "nothing.jsonl")
    with pytest.raises(InvalidInput, match="the file name is empty"):
        find_journal("")


def test_replay_and_explain_accept_a_project(project, capsys):
    command.main(["replay", str(project), "--run", "2", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["same"] is True
    command.main(["explain", str(project / ".weft" / "weft.db"), "lapw1[3]"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("lapw1[3] of run 2 (wien2k) is completed at ")
