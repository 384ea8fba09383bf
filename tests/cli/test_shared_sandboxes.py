"""Sandboxes that several projects share, or that outlive ``.weft``: no task finds files of another project."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cli.projects import Project
from cli.shell import refused
from patience import PATIENCE_S
from weft.backends.attempt import backend
from weft.backends.attempt.attempt import AttemptRecords
from weft.backends.layout import ProjectLayout

# The program finds files that another attempt has left in its directory.
WORKFLOW = """\
weft: 1
name: work
tasks:
  find: {command: "ls > found; echo NAME > left; cat left > kept", outputs: [found, kept]}
  read: {command: "cat kept common > copied", inputs: [kept, {file: common, shared: true}], outputs: [copied]}
"""


def make_project(base: Project, name: str, sandbox: Path) -> Project:
    folder = base.folder / name
    folder.mkdir(exist_ok=True)
    made = Project(folder, base._capture)
    made.write("work.yaml", WORKFLOW.replace("NAME", name))
    made.write("common", "same content\n")
    made.write("box.yaml", f"weft: 1\nmachines:\n  m: {{backend: {{kind: local, sandbox: {sandbox}}}}}\n")
    return made


def run(project: Project, *more: str) -> str:
    files = str(project.folder / "work.yaml"), "--on", str(project.folder / "box.yaml")
    done = project.weft("run", *files, "--project", str(project.folder), *more)
    assert done.code == 0, done
    return done.out


def working_directory(project: Project, sandbox: Path) -> Path:
    """Return the working directory of the first attempt of a project."""
    found = [path.parent for path in sandbox.rglob("left") if path.read_text() == f"{project.folder.name}\n"]
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def test_projects_that_share_a_sandbox_do_not_see_files_of_each_other(
    project: Project, sandbox: Path
) -> None:
    for name in ("one", "two"):
        made = make_project(project, name, sandbox)
        run(made)
        # The declared output itself is listed, because the shell creates it first.
        assert (made.folder / "copied").read_text() == f"{name}\nsame content\n"
        assert (working_directory(made, sandbox) / "found").read_text() == "found\n"


def test_directories_of_runs_before_the_state_was_deleted_are_not_reused(
    project: Project, sandbox: Path
) -> None:
    made = make_project(project, "one", sandbox)
    run(made)
    shutil.rmtree(made.folder / ".weft")
    made.write("work.yaml", WORKFLOW.replace("NAME", "again"))
    run(made)
    (found,) = [path.parent for path in sandbox.rglob("left") if path.read_text() == "again\n"]
    assert (found / "found").read_text() == "found\n"
    assert (made.folder / "copied").read_text() == "again\nsame content\n"


def test_clean_removes_only_files_of_its_own_project(project: Project, sandbox: Path) -> None:
    one, two = (make_project(project, name, sandbox) for name in ("one", "two"))
    run(one)
    run(two)
    foreign = sandbox / "1" / "0"  # as an older version of weft has named its directories
    foreign.mkdir(parents=True)
    (foreign / "precious").write_text("of another project\n")
    assert one.weft("clean", "--all", "--project", str(one.folder)).code == 0
    assert not [path for path in sandbox.rglob("left") if path.read_text() == "one\n"]
    assert (foreign / "precious").exists()
    assert (working_directory(two, sandbox) / "kept").read_text() == "two\n"
    assert len(list(sandbox.glob("*/cache"))) == 1, "the cache of the other project stays"
    assert "2 of them reused" in run(two)


def test_clean_removes_the_project_folder_in_a_sandbox_when_its_last_files_are_removed(
    project: Project, sandbox: Path
) -> None:
    one = make_project(project, "one", sandbox)
    run(one)
    assert one.weft("clean", "--all", "--project", str(one.folder)).code == 0
    assert list(sandbox.iterdir()) == []


def test_working_directories_identify_project_and_attempt_and_are_private(
    project: Project, sandbox: Path
) -> None:
    one = make_project(project, "one", sandbox)
    run(one)
    place = working_directory(one, sandbox).relative_to(sandbox)
    assert re.fullmatch(r"[0-9a-f]{16}/1/0-[0-9a-f]{16}", str(place))
    assert (sandbox / place.parts[0]).stat().st_mode & 0o777 == 0o700
    records = [path.name for path in (one.folder / ".weft/attempts/1").iterdir()]
    assert place.name in records
    assert one.weft("logs", "find", "--project", str(one.folder)).code == 0


def test_without_project_identities_in_paths_projects_would_see_files_of_each_other(
    project: Project, sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With numbers alone, as weft once named directories, the second project finds files of the first."""
    monkeypatch.setattr(ProjectLayout, "own_sandbox", lambda self, machine, _: self.sandbox(machine))
    monkeypatch.setattr(backend, "attempt_folder", lambda attempt, _: str(attempt))
    monkeypatch.setattr(
        AttemptRecords, "make_workdir", lambda _, path, **__: Path(path).mkdir(parents=True, exist_ok=True)
    )
    for name in ("one", "two"):
        run(make_project(project, name, sandbox))
    assert (sandbox / "1" / "0" / "found").read_text() == "found\nkept\nleft\n"


def copy_of(made: Project, name: str) -> Project:
    folder = made.folder.with_name(name)
    shutil.copytree(made.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("socket"))
    return Project(folder, made._capture)


def test_clean_in_a_copy_keeps_directories_of_the_original(project: Project, sandbox: Path) -> None:
    original = make_project(project, "one", sandbox)
    run(original)
    copy = copy_of(original, "copy")
    run(original, "--fresh")
    files = {path: path.read_bytes() for path in sandbox.rglob("*") if path.is_file()}
    done = copy.weft("clean", "--all", "--project", str(copy.folder))
    assert done.code == 0, done
    assert (
        f"copied or moved from '{original.folder}', and the project there may use it; --force removes it"
        in done.out
    )
    assert {path: path.read_bytes() for path in sandbox.rglob("*") if path.is_file()} == files
    assert "2 of them reused" in run(original)
    found = copy.json("clean", "--all", "-n", "--force", "--project", str(copy.folder))
    assert (len(found["folders"]) > 0, found["shared"]) == (True, {})
    assert copy.weft("clean", "--all", "--force", "--project", str(copy.folder)).code == 0
    assert not [path for path in files if path.exists() and "/1/" in str(path)]


def test_a_run_in_a_copy_has_directories_of_its_own(project: Project, sandbox: Path) -> None:
    original = make_project(project, "one", sandbox)
    run(original)
    copy = copy_of(original, "copy")
    assert "2 of them reused" in run(copy), "outputs of the original can be reused"
    run(copy, "--fresh")
    run(original, "--fresh")
    first, second = sorted(sandbox.iterdir(), key=lambda path: not (path / "1").exists())
    assert {path.name for path in first.iterdir()} >= {"1", "2"}
    assert {path.name for path in second.iterdir()} >= {"3"}
    done = copy.weft("clean", "--all", "--project", str(copy.folder))
    assert (done.code, second.exists()) == (0, False)
    assert f"kept '{first}'" in done.out
    assert (first / "1").exists()
    assert (first / "2").exists()
    assert original.weft("clean", "--all", "--project", str(original.folder)).code == 0
    assert not first.exists()


def test_renamed_or_restored_project_does_not_count_as_a_copy(project: Project, sandbox: Path) -> None:
    made = make_project(project, "one", sandbox)
    run(made)
    made.folder.rename(made.folder.with_name("two"))
    moved = Project(made.folder.with_name("two"), made._capture)
    run(moved, "--fresh")
    saved = moved.folder.with_name("saved")
    shutil.copytree(moved.folder / ".weft", saved, ignore=shutil.ignore_patterns("socket"))
    shutil.rmtree(moved.folder / ".weft")
    shutil.copytree(saved, moved.folder / ".weft")
    run(moved, "--fresh")
    assert len(list(sandbox.iterdir())) == 1
    done = moved.weft("clean", "--all", "--project", str(moved.folder))
    assert (done.code, "kept" in done.out) == (0, False)
    assert list(sandbox.iterdir()) == []


def test_clean_in_a_copy_removes_directories_inside_the_copy(project: Project) -> None:
    original = make_project(project, "one", Path("box"))
    run(original)
    copy = copy_of(original, "copy")
    run(copy, "--fresh")
    assert copy.weft("clean", "--all", "--project", str(copy.folder)).code == 0
    assert not list((copy.folder / "box").rglob("left"))
    assert list((original.folder / "box").rglob("left"))


def test_unfinished_run_is_not_resumed_in_a_copy_while_the_original_exists(
    project: Project, sandbox: Path
) -> None:
    original = make_project(project, "one", sandbox)
    original.write(
        "work.yaml", "weft: 1\nname: w\ntasks: {a: {command: exit 1, on_failure: hold, retries: 0}}\n"
    )
    files = str(original.folder / "work.yaml"), "--on", str(original.folder / "box.yaml")
    assert original.weft("run", *files, "--project", str(original.folder)).code == 1
    copy = copy_of(original, "copy")
    for words in (
        ("resume",),
        ("run", str(copy.folder / "work.yaml"), "--on", str(copy.folder / "box.yaml")),
    ):
        refused(
            copy.weft(*words, "--project", str(copy.folder)), 2,
            f"run 1 was started in '{original.folder}', of which this project is a copy", str(sandbox), "weft run --fresh",
        )  # fmt: skip
    done = copy.weft("clean", "--project", str(copy.folder))
    assert "may use it" not in done.out, "unfinished runs are kept"
    assert f"kept unfinished run 1; `weft resume 1` or `weft cancel 1` in '{original.folder}'" in done.out
    fresh = "run", str(copy.folder / "work.yaml"), "--on", str(copy.folder / "box.yaml"), "--fresh"
    assert copy.weft(*fresh, "--project", str(copy.folder)).code == 1
    assert original.weft("resume", "--project", str(original.folder)).code == 1
    shutil.rmtree(original.folder)
    assert copy.weft("resume", "1", "--project", str(copy.folder)).code == 1, "it runs and fails as before"
    done = copy.weft("clean", "--project", str(copy.folder))
    assert "kept unfinished run 1; `weft resume 1` or `weft cancel 1` ends it" in done.out
    assert copy.weft("cancel", "1", "--project", str(copy.folder)).code == 0
    assert "run 1;" not in copy.weft("clean", "--project", str(copy.folder)).out


def test_commands_in_a_copy_do_not_take_the_engine_of_the_original_for_their_own(project: Project) -> None:
    original = Project(project.folder / "one", project._capture)
    original.folder.mkdir()
    go = project.folder / "go"
    original.write(
        "flow.yaml",
        f'weft: 1\ntasks: {{a: {{command: "echo on; until test -e {go}; do sleep 0.05; done"}}}}\n',
    )
    engine = original.start("run", "flow.yaml", "-q")
    try:
        original.running(engine, "on")
        copy = copy_of(original, "copy")
        there = ("--project", str(copy.folder))
        found = copy.json("status", *there)
        assert (found["state"], found["engine"]) == ("interrupted", None)
        refused(copy.weft("stop", *there), 1, "no engine is running in this project")
        refused(copy.weft("hold", "a", *there), 1, "no engine is running in this project")
        assert original.json("status", "--project", str(original.folder))["state"] == "running"
        go.touch()
        assert engine.wait(PATIENCE_S) == 0
    finally:
        original.end(engine)
