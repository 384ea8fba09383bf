"""The state folder: every command rejects a link in place of it, and gives advice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.projects import Project, wait_for
from cli.shell import refused

WORKFLOW = """\
weft: 1
name: small
tasks:
  a: {command: "echo made > made", outputs: [made]}
"""
COMMANDS = [
    ("run", "w.yaml"),
    ("run", "w.yaml", "-n"),
    ("resume",),
    ("status",),
    ("watch",),
    ("ls",),
    ("logs", "a"),
    ("explain", "a"),
    ("report",),
    ("replay", "."),
    ("replay", ".weft"),
    ("cancel",),
    ("stop",),
    ("hold", "a"),
    ("release", "a"),
    ("migrate", "a", "--to", "local"),
    ("clean",),
    ("reproduce", "s4-samples"),
]


def folder_state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return names, types, times and contents of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mtime_ns, status.st_ino, content)
    return found


@pytest.fixture
def ran(project: Project) -> Project:
    project.write("w.yaml", WORKFLOW)
    assert project.weft("run", "w.yaml").code == 0
    # The runner exits after the command; the socket is the last of its files that it removes.
    wait_for(lambda: not list(project.folder.glob(".weft/runners/*/*/socket")))
    return project


def test_a_link_instead_of_the_state_folder_is_rejected(
    ran: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "state"
    (ran.folder / ".weft").rename(elsewhere)
    (ran.folder / ".weft").symlink_to(elsewhere)
    before = folder_state(elsewhere)
    for command in COMMANDS:
        refused(ran.weft(*command), 2, ".weft' is a symbolic link to ", str(elsewhere), "remove the link")
    assert folder_state(elsewhere) == before


@pytest.mark.parametrize("part", ["attempts", "sandbox/local", "runners/1", "reports/1", "weft.db"])
def test_a_link_instead_of_a_subfolder_is_rejected(
    ran: Project, tmp_path_factory: pytest.TempPathFactory, part: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "part"
    (ran.folder / ".weft" / part).rename(elsewhere)
    (ran.folder / ".weft" / part).symlink_to(elsewhere)
    before = folder_state(elsewhere.parent)
    words = ["`sandbox: DIR`"] if part.startswith("sandbox") else []
    for command in COMMANDS:
        refused(ran.weft(*command), 2, f".weft/{part}' is a symbolic link to ", "remove the link", *words)
    assert folder_state(elsewhere.parent) == before


def test_a_project_path_that_is_not_a_directory_is_rejected(project: Project) -> None:
    project.write("w.yaml", WORKFLOW)
    project.write(".weft", "mine\n")
    refused(project.weft("run", "w.yaml"), 2, ".weft' is not a directory", "rename or remove it", "--project")
    assert (project.folder / ".weft").read_text() == "mine\n"
    (project.folder / ".weft").unlink()
    os.mkfifo(project.folder / ".weft")
    refused(project.weft("run", "w.yaml"), 2, ".weft' is not a directory")
    (project.folder / ".weft").unlink()
    (project.folder / ".weft").symlink_to("nowhere")
    refused(project.weft("run", "w.yaml"), 2, ".weft' is a symbolic link to 'nowhere'")
    assert not (project.folder / "nowhere").exists()


def test_a_project_reached_over_a_link_is_accepted(ran: Project, tmp_path: Path) -> None:
    (tmp_path / "there").symlink_to(ran.folder)
    assert ran.weft("status", "--project", str(tmp_path / "there")).code == 0
