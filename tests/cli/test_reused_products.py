"""Results of earlier runs are reused only with all their declared outputs."""

from __future__ import annotations

import sqlite3

import pytest

from cli.projects import Project

WORKFLOW = """\
weft: 1
name: made
tasks:
  make: {command: "echo a > a; echo b > b; mkdir -p d/e; echo c > d/e/c; echo x > f.1", outputs: [a, b, d/, "f.*"]}
"""


def run(project: Project) -> str:
    done = project.weft("run", "made.yaml")
    assert done.code == 0, done
    return done.out


@pytest.fixture
def made(project: Project) -> Project:
    project.write("made.yaml", WORKFLOW)
    run(project)
    return project


def test_complete_product_is_reused(made: Project) -> None:
    assert "1 of them reused" in run(made)


@pytest.mark.parametrize("name", ["b", "d", "f.1"])
def test_product_that_lacks_a_declared_output_is_not_reused(made: Project, name: str) -> None:
    with sqlite3.connect(made.folder / ".weft/weft.db") as database:
        assert database.execute("DELETE FROM made_file WHERE name = ?", (name,)).rowcount == 1
    database.close()
    assert "reused" not in run(made)
    with sqlite3.connect(made.folder / ".weft/weft.db") as database:
        (count,) = database.execute("SELECT count(*) FROM made_file WHERE name = ?", (name,)).fetchone()
    database.close()
    assert count == 1


def test_product_whose_output_was_removed_is_not_reused(made: Project) -> None:
    (kept,) = made.folder.glob(".weft/sandbox/*/*/1/0-*/b")
    kept.unlink()
    assert "1 stale (its outputs were modified or removed)" in run(made)


def test_product_recorded_by_another_version_is_called_so(made: Project) -> None:
    """The rule of the fingerprint changed between the versions; nothing in the workflow has changed."""
    with sqlite3.connect(made.folder / ".weft/weft.db") as database:
        assert database.execute("UPDATE product SET fingerprint = 'of another rule'").rowcount == 1
    database.close()
    assert "  make: 1 stale (it was recorded by another version of weft)" in run(made).splitlines()
