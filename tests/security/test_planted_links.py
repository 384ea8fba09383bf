"""Links that a task plants where weft writes next: no file outside is read or written through them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.warm_process import weft
from security.hostile_project import Place
from weft.api.functions.call import _build_workflow, task
from weft.api.project import OpenProject
from weft.api.report import write_reports
from weft.backends.layout import ProjectLayout
from weft.errors import WeftError
from weft.formats.files import save_text
from weft.runtime import lock

_TASKS = {"a": {"command": "echo made > made", "outputs": ["made"]}}
_PLANTS: list[Callable[[Path, Path], None]] = [Path.symlink_to, Path.hardlink_to]
_REPORTS = ("report.html", "trace.tsv", "events.jsonl", "wfformat.json")


def plant(place: Path, target: Path, how: Callable[[Path, Path], None]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    how(place, target)


@pytest.mark.parametrize("how", _PLANTS)
def test_writing_a_report_replaces_a_planted_link_at_its_path(
    place: Place, how: Callable[[Path, Path], None]
) -> None:
    reports = place.project / ".weft" / "reports" / "1"
    links = "; ".join(f"ln {'-s' if how is Path.symlink_to else ''} {place.outside}/canary {reports}/{name}"
                      for name in _REPORTS)  # fmt: skip
    ran = place.run({"a": {"command": f"mkdir -p {reports}; {links}; echo made > made", "outputs": ["made"]}})
    assert ran.completed
    ran.write_reports()
    for name in _REPORTS:
        assert not (reports / name).is_symlink()
        assert (reports / name).stat().st_nlink == 1
        assert (reports / name).read_text() != "sings\n"


def test_reports_are_not_written_through_a_linked_folder(place: Place) -> None:
    ran = place.run(_TASKS)
    with OpenProject.at(str(place.project)) as opened:
        plant(place.project / ".weft" / "reports" / "1", place.outside / "folder", Path.symlink_to)
        with pytest.raises(WeftError, match=r"cannot create .*reports/1' is a link or not a directory"):
            write_reports(opened, ran.execution)
    with pytest.raises(WeftError, match="is a symbolic link"):
        ran.write_reports()


@pytest.mark.parametrize("name", ["lock", "weft.db", "weft.db-wal", "weft.db-shm"])
@pytest.mark.parametrize("how", _PLANTS)
def test_engine_stops_if_a_file_of_its_state_was_replaced_by_a_link(
    place: Place, name: str, how: Callable[[Path, Path], None]
) -> None:
    place.run(_TASKS)
    plant(place.project / ".weft" / name, place.outside / "canary", how)
    with pytest.raises(WeftError, match=rf"{name}'?.* (symbolic link to|has further hard links)"):
        place.run(_TASKS)


@pytest.mark.parametrize("name", ["weft.db-wal", "weft.db-shm"])
def test_database_file_with_further_hard_links_is_not_read(place: Place, name: str) -> None:
    place.run(_TASKS)
    plant(place.project / ".weft" / name, place.outside / "canary", Path.hardlink_to)
    with pytest.raises(WeftError, match="has further hard links; replace it by a copy"):
        OpenProject.at(str(place.project))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_database_that_is_not_a_regular_file_is_refused_by_every_command(
    place: Place, make: Callable[[Path], None]
) -> None:
    place.run(_TASKS)
    (place.project / ".weft" / "weft.db").unlink()
    make(place.project / ".weft" / "weft.db")
    for words in (("status",), ("clean",), ("ls",), ("report",), ("replay", "."), ("run", "flow.yaml")):
        done = weft(*words, folder=place.project)
        assert done.code in (1, 2), (words, done)
        assert "weft.db: it is a link or not a regular file; move it away" in done.err, words


@pytest.mark.parametrize("how", _PLANTS)
def test_lock_without_flock_is_not_written_through_a_link(
    place: Place, how: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refused)
    plant(place.project / ".weft" / f"lock.{os.getpid()}", place.outside / "canary", how)
    with lock.Lock(place.project / ".weft" / "lock"):
        assert (place.project / ".weft" / "lock").read_text().startswith("{")


def double(value: int) -> int:
    return 2 * value


@pytest.mark.parametrize("how", _PLANTS)
def test_writing_files_of_python_calls_replaces_planted_links_at_their_paths(
    place: Place, how: Callable[[Path, Path], None]
) -> None:
    layout = ProjectLayout(place.project)
    folder = layout.home / "functions"
    _build_workflow([task(double)(1)], "calls", layout)
    for file in list(folder.iterdir()):
        plant(file, place.outside / "canary", how)
    _build_workflow([task(double)(1)], "calls", layout)
    for file in folder.iterdir():
        assert not file.is_symlink()
        assert file.stat().st_nlink == 1


def test_a_file_for_the_user_is_not_written_through_a_link(place: Place) -> None:
    target = place.project / "report.html"
    plant(target, place.outside / "canary", Path.symlink_to)
    with pytest.raises(WeftError, match=r"cannot write .*symbolic link to .*canary.*name the file itself"):
        save_text("text", target)
    plant(target, place.outside / "canary", Path.hardlink_to)
    save_text("text", target)
    assert target.read_text() == "text"
