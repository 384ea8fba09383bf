"""``weft clean``: removed and kept files."""

from __future__ import annotations

import re
from pathlib import Path

from cli.projects import Project, wait_for
from cli.shell import refused
from patience import PATIENCE_S
from weft.backends.attempt.temporary_files import temporary_name


def left(project: Project) -> set[str]:
    """Return the remaining folders of executions."""
    home = project.folder / ".weft"
    found = [*home.glob("sandbox/*/*/[0-9]*"), *home.glob("attempts/*"), *home.glob("runners/*")]
    return {re.sub("local/[0-9a-f]{16}/", "local/OWN/", str(path.relative_to(home))) for path in found}


def test_finished_runs_are_cleaned_and_results_stay(project: Project) -> None:
    for _ in range(2):
        assert project.weft("run", "tiny.yaml", "-q").code == 0
    before = left(project)
    assert {"sandbox/local/OWN/1", "attempts/1", "runners/1", "sandbox/local/OWN/2"} <= before
    dry = project.weft("clean", "--dry-run")
    assert "would remove" in dry.out
    assert left(project) == before
    record = project.json("clean", "1")
    assert record["runs"] == [1]
    assert record["files"] > 0
    # The second run reuses the outputs of the first, so they are kept.
    assert left(project) == {each for each in before if not each.endswith("1")} | {"sandbox/local/OWN/1"}
    again = project.weft("run", "tiny.yaml")
    assert again.code == 0
    assert "5 of them reused" in again.out
    assert project.weft("clean").code == 0
    assert left(project) == set()
    assert (project.folder / "z").exists()
    assert len(project.json("ls")) == 3
    assert project.weft("report", "1").code == 0
    assert "would remove 0 files" in project.weft("clean", "-n").out
    assert "removed 0 files" in project.weft("clean").out


def test_results_can_be_kept_for_later_runs(project: Project) -> None:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    assert project.weft("clean", "--keep-results").code == 0
    assert not (project.folder / ".weft/attempts/1").exists()
    assert "5 of them reused" in project.weft("run", "tiny.yaml").out


def test_clean_all_removes_reports_and_caches_too(project: Project) -> None:
    project.write("in.txt", "1\n")
    project.write(
        "cached.yaml",
        "weft: 1\nname: cached\n"
        "tasks: {a: {command: 'cat in.txt', inputs: [{file: in.txt, from: in.txt, shared: true}]}}\n",
    )
    assert project.weft("run", "cached.yaml", "-q").code == 0
    home = project.folder / ".weft"
    assert list(home.glob("sandbox/local/*/cache/*"))
    assert project.weft("clean", "--all").code == 0
    assert not (home / "reports/1").exists()
    assert not list(home.glob("sandbox/local/*"))
    assert (project.folder / "in.txt").read_text() == "1\n"


def test_file_of_a_killed_process_is_removed_from_the_project(project: Project) -> None:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    host, boot = temporary_name().removeprefix(".weft-new-").split("-")[:2]
    (project.folder / "results").mkdir()
    killed = project.folder / "results" / f".weft-new-{host}-{boot}-999999999-1-1"
    other = project.folder / "results" / f".weft-new-00000000-{boot}-999999999-1-1"
    for path in (killed, other):
        path.write_text("half")
    assert project.weft("clean", "--dry-run").code == 0
    assert killed.exists()
    assert project.weft("clean").code == 0
    assert (killed.exists(), other.exists()) == (False, True)


def test_removed_logs_are_not_reported_as_empty(project: Project) -> None:
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    assert project.weft("logs", "a").out == "made a\n"
    assert project.weft("clean").code == 0
    assert project.weft("logs", "a").err == "no output: `weft clean` has removed the logs\n"


def test_links_out_of_the_sandbox_are_removed_and_not_followed(project: Project) -> None:
    outside = project.folder / "outside"
    outside.mkdir()
    canary = outside / "canary"
    canary.write_text("alive")
    assert project.weft("run", "tiny.yaml", "-q").code == 0
    (work,) = project.folder.glob(".weft/sandbox/local/*/1")
    (own,) = work.glob("0-*")
    (own / "way-out").symlink_to(outside)
    (work / "way-out").symlink_to(outside)
    records = project.folder / ".weft/attempts/1"
    moved = project.folder / "moved"
    records.rename(moved)
    records.symlink_to(moved)
    assert project.weft("clean").code == 0
    assert canary.read_text() == "alive"
    assert moved.is_dir()
    assert left(project) == set()


def test_running_and_resumable_runs_are_kept(project: Project) -> None:
    project.write("slow.yaml", "weft: 1\nname: slow\ntasks: {a: {command: 'echo on; sleep 60', work: 60}}\n")
    process = project.start("run", "slow.yaml")
    try:
        project.running(process, "on")
        refused(project.weft("clean"), 4, "the project is locked by", "weft run slow.yaml")
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 75
        refused(project.weft("clean", "1"), 2, "not finished", "`weft cancel 1`")
        kept = project.weft("clean")
        assert "kept unfinished run 1" in kept.out
        assert Path(project.folder / ".weft/attempts/1").exists()
        assert project.weft("cancel").code == 0
        wait_for(lambda: project.weft("clean", "1").code == 0)
        assert left(project) == set()
    finally:
        project.end(process)


UNFINISHED = """\
weft: 1
name: unfinished
tasks:
  bad: {command: "echo junk > junk; exit 1"}
  saved: {command: "echo s > state; exit 1", checkpoint: {files: [state]}}
  late: {command: "echo on; while [ ! -e FOLDER/go ]; do sleep 0.05; done; echo made > late", outputs: [late]}
"""


def test_unfinished_run_keeps_what_it_needs(project: Project) -> None:
    """Directories of failed attempts go; those of a living program, an unrecorded success, restart files stay."""
    project.write("unfinished.yaml", UNFINISHED.replace("FOLDER", str(project.folder)))
    process = project.start("run", "--keep-going", "unfinished.yaml")
    try:
        project.running(process, "on")
        wait_for(lambda: len(project.json("status")["failures"]) == 2)
        process.kill()
        process.wait()
        record = project.json("clean")
        assert (record["attempts"], record["runs"], record["kept"]) == (1, [], [1])
        (work,) = project.folder.glob(".weft/sandbox/local/*/1")
        assert {path.name for path in work.glob("*/*")} == {"state"}
        assert len(list(work.iterdir())) == 2, "the directories of `saved` and `late`"
        (project.folder / "go").touch()
        wait_for(lambda: list(work.glob("*/late")) and not project.programs())
        assert project.json("clean")["attempts"] == 0
        assert project.weft("resume").code == 1
        assert (project.folder / "late").read_text() == "made\n"
    finally:
        project.end(process)
