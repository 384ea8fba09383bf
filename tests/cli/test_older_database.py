"""Projects of version 1 of the database are read without conversion, and converted by the next engine."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from architecture.package import ROOT
from cli.projects import Project
from weft.repository.database import SCHEMA_VERSION

DUMP = ROOT / "tests" / "repository" / "version_1.sql"
MADE = {"1/0/x": "hello\n", "1/1/y": "hello\nmore\n", "2/0/one": "one\n"}
"""Products in the dump, by execution, attempt and name."""
FILES = {
    "m.yaml": "weft: 1\nmachines:\n  m: {nodes: 1, memory: 1GB, backend: {kind: local}}\n",
    "tiny.yaml": """\
weft: 1
name: tiny
tasks:
  a: {command: "echo made a; echo hello > x", outputs: [x]}
  b: {command: "cat x > y; echo more >> y", inputs: [x], outputs: [y]}
""",
}


def database(project: Project) -> Path:
    return project.folder / ".weft/weft.db"


def version(project: Project) -> int:
    with sqlite3.connect(database(project)) as opened:
        (found,) = opened.execute("PRAGMA user_version").fetchone()
    opened.close()
    return int(found)


@pytest.fixture
def older(project: Project) -> Project:
    """Return a project with a completed and an interrupted run, as version 1 has left it."""
    (project.folder / ".weft").mkdir(mode=0o700)
    with sqlite3.connect(database(project)) as opened:
        opened.executescript(DUMP.read_text())
        opened.execute(f"PRAGMA application_id={0x77656674}")
        opened.execute("PRAGMA user_version=1")
        times = dict(opened.execute("SELECT name, modified_ns FROM made_file").fetchall())
    opened.close()
    for name, text in MADE.items():
        path = project.folder / ".weft/sandbox/m" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        os.utime(path, ns=(times[path.name], times[path.name]))
    records = project.folder / ".weft/attempts/1/0"
    records.mkdir(parents=True)
    (records / "out").write_text("made a\n")
    for name, text in FILES.items():
        project.write(name, text)
    return project


def test_older_project_is_read_and_not_changed(older: Project) -> None:
    before = database(older).read_bytes()
    assert [run["state"] for run in older.json("ls")] == ["completed", "interrupted"]
    assert older.weft("logs", "a", "--run", "1").out == "made a\n"
    assert older.json("status", "2")["state"] == "interrupted"
    assert older.weft("report", "1").code == 0
    assert older.weft("explain", "second").code == 0
    assert older.weft("clean", "--dry-run").code == 0
    assert (version(older), database(older).read_bytes()) == (1, before)


def test_older_run_is_resumed_and_its_results_are_used(older: Project) -> None:
    done = older.weft("resume")
    assert done.code == 0, done
    assert version(older) == SCHEMA_VERSION
    # The older version had assigned the attempt, so it has no nonce.
    (made,) = older.folder.glob(".weft/sandbox/m/*/2/2/two")
    assert made.read_text() == "one\n"
    assert older.weft("logs", "a", "--run", "1").out == "made a\n"
    assert older.weft("logs", "second", "--run", "2").out == "waiting\n"


def test_results_of_an_older_run_are_reused_if_their_content_matches_the_record(older: Project) -> None:
    done = older.weft("run", "tiny.yaml", "--on", "m.yaml")
    assert (done.code, "2 of them reused" in done.out) == (0, True), done


def test_changed_result_of_an_older_run_is_not_reused(older: Project) -> None:
    path = older.folder / ".weft/sandbox/m/1/0/x"
    status = path.stat()
    path.write_text("HELLO\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = older.weft("run", "tiny.yaml", "--on", "m.yaml")
    assert done.code == 0, done
    assert (older.folder / "y").read_text() == "hello\nmore\n"
    assert "a: 1 stale (its outputs were modified or removed)" in done.out


def test_clean_removes_directories_of_the_older_version_inside_the_project(older: Project) -> None:
    assert older.weft("clean", "1").code == 0
    assert not (older.folder / ".weft/sandbox/m/1").exists()
    assert (older.folder / ".weft/sandbox/m/2/0/one").exists()


def test_database_of_the_previous_version_is_read_and_then_converted(project: Project) -> None:
    """Version 2 lacks one column; its finished run is shown, and a new run reuses the results."""
    for name, text in FILES.items():
        project.write(name, text)
    assert project.weft("run", "tiny.yaml", "--on", "m.yaml").code == 0
    with sqlite3.connect(database(project)) as opened:
        opened.execute("ALTER TABLE product DROP COLUMN counters")
        opened.execute("PRAGMA user_version=2")
    opened.close()
    assert [run["state"] for run in project.json("ls")] == ["completed"]
    assert project.weft("report", "1").code == 0
    assert version(project) == 2
    done = project.weft("run", "tiny.yaml", "--on", "m.yaml")
    assert (done.code, "2 of them reused" in done.out) == (0, True), done
    assert version(project) == SCHEMA_VERSION
