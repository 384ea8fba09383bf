"""Outputs are published as copies to the stated target only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backends.attempt.web_server import Site
from weft.backends.attempt.external_files import publish
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import collect_outputs, is_intact
from weft.backends.file_record import FileRecord


@pytest.fixture
def made(grounds) -> tuple[FileRecord, ...]:
    (grounds.work / "plots" / "old").mkdir(parents=True)
    for name in ("result.csv", "plots/a.png", "plots/old/b.png"):
        (grounds.work / name).write_text(name)
    return collect_outputs(grounds.work, ["result.csv", "plots"], read_only=True)


def test_published_file_is_an_independent_copy(grounds, made) -> None:
    assert publish(grounds.work, made[0], "out/result.csv", folder=grounds.other) == 10
    result = grounds.other / "out" / "result.csv"
    assert stat.S_IMODE(result.stat().st_mode) & 0o200
    result.write_text("edited")
    assert is_intact(grounds.work, made[0], thorough=True)
    assert publish(grounds.work, made[0], "out/", folder=grounds.other) == 10
    assert result.read_text() == "result.csv"


def test_publishing_leaves_an_equal_file_unchanged(grounds, made) -> None:
    publish(grounds.work, made[0], "result.csv", folder=grounds.other)
    os.utime(grounds.other / "result.csv", ns=(5, 5))
    assert publish(grounds.work, made[0], "result.csv", folder=grounds.other) == 0
    assert (grounds.other / "result.csv").stat().st_mtime_ns == 5


def test_published_directory_is_merged(grounds, made) -> None:
    (grounds.other / "plots").mkdir()
    (grounds.other / "plots" / "notes.txt").write_text("mine")
    assert publish(grounds.work, made[1], "plots", folder=grounds.other) == len(
        "plots/a.png" + "plots/old/b.png"
    )
    found = sorted(
        str(path.relative_to(grounds.other)) for path in grounds.other.rglob("*") if path.is_file()
    )
    assert found == ["plots/a.png", "plots/notes.txt", "plots/old/b.png"]
    (grounds.other / "plots" / "a.png").write_text("edited")
    assert is_intact(grounds.work, made[1], thorough=True)


@pytest.mark.parametrize(
    "target", ["../outside/canary", "out/canary", "out/deep/new", "a/../../outside/x", ""]
)
def test_relative_target_stays_in_the_project(grounds, made, target: str) -> None:
    (grounds.other / "out").symlink_to(grounds.outside)
    for file in made:
        with pytest.raises(StagingProblem):
            publish(grounds.work, file, target, folder=grounds.other)


def test_link_at_the_target_is_replaced(grounds, made) -> None:
    (grounds.other / "result.csv").symlink_to(grounds.canary)
    publish(grounds.work, made[0], "result.csv", folder=grounds.other)
    assert not (grounds.other / "result.csv").is_symlink()
    assert (grounds.other / "result.csv").read_text() == "result.csv"


def test_publish_target_may_be_any_absolute_path_or_file_url(grounds, made, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    publish(grounds.work, made[0], str(tmp_path / "alias" / "new" / "r"), folder=grounds.other)
    publish(grounds.work, made[0], (tmp_path / "alias" / "s").as_uri(), folder=grounds.other)
    assert (
        (tmp_path / "real" / "new" / "r").read_text() == (tmp_path / "real" / "s").read_text() == "result.csv"
    )


def test_modified_output_is_not_published(grounds, made) -> None:
    for name in ("result.csv", "plots/a.png"):
        (grounds.work / name).chmod(0o644)
        (grounds.work / name).write_text("x" * (grounds.work / name).stat().st_size)
    for file in made:
        for target in ("r", "memory://publishing/r"):
            with pytest.raises(StagingProblem, match="it was modified"):
                publish(grounds.work, file, target, folder=grounds.other)
    assert list(grounds.other.iterdir()) == []


def test_outputs_are_published_to_urls(grounds, made, site: Site) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    assert publish(grounds.work, made[0], "memory://publishing/deep/r", folder=grounds.other) == 10
    publish(grounds.work, made[1], "memory://publishing/plots", folder=grounds.other)
    assert memory.cat("/publishing/deep/r") == b"result.csv"
    assert memory.cat("/publishing/plots/old/b.png") == b"plots/old/b.png"
    memory.rm("/publishing", recursive=True)
    publish(grounds.work, made[0], f"{site.url}/up/", folder=grounds.other)
    assert site.files["/up/result.csv"] == b"result.csv"
    with pytest.raises(StagingProblem, match="cannot be published"):
        publish(grounds.work, made[0], "http://127.0.0.1:9/r", folder=grounds.other)
    assert list(grounds.other.iterdir()) == []
