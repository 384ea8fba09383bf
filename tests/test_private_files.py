"""Files that weft creates are written through no link and cannot be read by other users."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft import private_files
from weft.private_files import (
    UnsafeFile,
    close_to_others,
    make_folder,
    open_in_place,
    open_stream,
    prepare_file,
    read_state,
    set_in_use,
    write_file,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def write_stream(path: Path, content: bytes) -> None:
    with open_stream(path) as stream:
        stream.write(content)


@pytest.fixture(params=["file", "stream"])
def write(request: pytest.FixtureRequest) -> Callable[[Path, bytes], None]:
    return write_file if request.param == "file" else write_stream


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_folder(tmp_path / ".weft")
    return tmp_path / ".weft"


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "canary"
    path.write_text("sings\n")
    path.chmod(0o644)
    yield path
    assert path.read_text() == "sings\n"
    assert mode(path) == 0o644


def test_state_is_private_whatever_the_umask(tmp_path: Path, umask: int, write) -> None:
    make_folder(tmp_path / "a" / ".weft" / "reports" / "1")
    write(tmp_path / "a" / ".weft" / "reports" / "1" / "report.html", b"text")
    prepare_file(tmp_path / "a" / ".weft" / "weft.db")
    os.close(open_in_place(tmp_path / "a" / ".weft" / "lock"))
    for path in (tmp_path / "a" / ".weft").rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(tmp_path / "a" / ".weft") == 0o700
    assert mode(tmp_path / "a") == 0o777 & ~umask


def test_a_users_file_follows_the_umask_and_keeps_its_permissions(tmp_path: Path, umask: int) -> None:
    write_file(tmp_path / "new", b"text")
    assert mode(tmp_path / "new") == 0o666 & ~umask
    (tmp_path / "new").chmod(0o640)
    write_file(tmp_path / "new", b"more")
    assert mode(tmp_path / "new") == 0o640
    assert (tmp_path / "new").read_bytes() == b"more"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_stream_file_is_private_under_every_umask_and_after_replacing_a_public_file(
    tmp_path: Path, umask: int
) -> None:
    write_stream(tmp_path / "new", b"text")
    assert mode(tmp_path / "new") == 0o600
    (tmp_path / "new").chmod(0o644)
    write_stream(tmp_path / "new", b"more")
    assert mode(tmp_path / "new") == 0o600
    assert (tmp_path / "new").read_bytes() == b"more"


@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to])
def test_a_link_in_the_state_folder_is_replaced(home: Path, canary: Path, plant, write) -> None:
    plant(home / "report.html", canary)
    write(home / "report.html", b"text")
    assert (home / "report.html").read_bytes() == b"text"
    assert not (home / "report.html").is_symlink()
    assert mode(home / "report.html") == 0o600


def test_link_in_place_of_a_folder_inside_the_state_folder_is_refused(
    home: Path, tmp_path: Path, write
) -> None:
    (tmp_path / "outside").mkdir()
    (home / "reports").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeFile, match="reports' is a link or not a directory"):
        write(home / "reports" / "report.html", b"text")
    with pytest.raises(UnsafeFile):
        make_folder(home / "reports" / "1")
    assert not list((tmp_path / "outside").iterdir())


def test_a_link_instead_of_the_state_folder_is_refused(tmp_path: Path, write) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / ".weft").symlink_to(tmp_path / "outside")
    for act in (lambda: write(tmp_path / ".weft" / "x", b""), lambda: open_in_place(tmp_path / ".weft" / "lock"),
                lambda: prepare_file(tmp_path / ".weft" / "weft.db")):  # fmt: skip
        with pytest.raises(UnsafeFile):
            act()
    assert not list((tmp_path / "outside").iterdir())


def test_symlink_in_place_of_a_user_file_is_refused_and_the_message_names_its_target(
    tmp_path: Path, canary: Path, write
) -> None:
    (tmp_path / "report.html").symlink_to(canary)
    with pytest.raises(UnsafeFile, match=r"symbolic link to '.*canary', which is not followed"):
        write(tmp_path / "report.html", b"text")
    assert (tmp_path / "report.html").is_symlink()


def test_link_in_a_folder_whose_name_starts_with_dev_is_refused(
    tmp_path: Path, canary: Path, write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "_IN_PLACE", (str(tmp_path / "dev"),))
    (tmp_path / "development").mkdir()
    (tmp_path / "development" / "report.html").symlink_to(canary)
    with pytest.raises(UnsafeFile, match="which is not followed"):
        write(tmp_path / "development" / "report.html", b"text")


def test_a_users_folder_may_be_reached_through_a_link(tmp_path: Path, write) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")
    write(tmp_path / "here" / "plan.json", b"text")
    assert (tmp_path / "there" / "plan.json").read_bytes() == b"text"


def test_writing_a_user_file_does_not_change_other_hard_links_of_it(
    tmp_path: Path, canary: Path, write
) -> None:
    (tmp_path / "report.html").hardlink_to(canary)
    write(tmp_path / "report.html", b"text")
    assert (tmp_path / "report.html").read_bytes() == b"text"


def test_devices_and_pipes_are_written_in_place(tmp_path: Path, write) -> None:
    write(Path("/dev/null"), b"text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    reading, writing = os.pipe()
    write(Path(f"/dev/fd/{writing}"), b"piped")
    os.close(writing)
    assert os.read(reading, 100) == b"piped"
    os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"through")
    reader.join()
    assert found == [b"through"]


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "folder", b"text")
    with pytest.raises(IsADirectoryError):
        open_stream(tmp_path / "folder")
    with pytest.raises(TypeError):
        write_file(tmp_path / "text", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_state_folder_in_use_that_was_moved_is_not_created_again(tmp_path: Path) -> None:
    home = tmp_path / "a" / ".weft"
    make_folder(home / "reports")
    set_in_use(home, in_use=True)
    make_folder(home / "attempts" / "1")
    home.rename(tmp_path / "taken")
    for folder in (home, home / "attempts", home / "attempts" / "2"):
        with pytest.raises(FileNotFoundError):
            make_folder(folder)
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        make_folder(home / "attempts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "taken"]
    assert list((tmp_path / "b").iterdir()) == []
    set_in_use(home, in_use=False)
    make_folder(home / "attempts")
    assert (home / "attempts").is_dir()


def test_existing_folders_of_the_state_become_private(home: Path) -> None:
    folder = home / "reports" / "1"
    folder.mkdir(parents=True)
    for each in (folder.parent, folder):
        each.chmod(0o755)
    make_folder(folder)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder.parent, folder)] == [0o700, 0o700]


def test_a_lock_is_opened_without_truncation(home: Path) -> None:
    (home / "lock").write_text("owner")
    (home / "lock").chmod(0o644)
    os.close(open_in_place(home / "lock"))
    assert (home / "lock").read_text() == "owner"
    assert mode(home / "lock") == 0o600


@pytest.mark.parametrize("prepare", [open_in_place, prepare_file])
def test_a_lock_or_database_that_is_a_link_is_refused(home: Path, canary: Path, prepare) -> None:
    for plant, why in ((Path.symlink_to, "a link"), (Path.hardlink_to, "hard links")):
        plant(home / "lock", canary)
        with pytest.raises(UnsafeFile, match=why):
            prepare(home / "lock")
        (home / "lock").unlink()
    os.mkfifo(home / "lock")
    with pytest.raises(UnsafeFile, match="not a regular file"):
        prepare(home / "lock")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to create a file of another user")
def test_a_lock_of_another_user_is_refused(home: Path) -> None:
    (home / "lock").touch()
    os.chown(home / "lock", 65534, 65534)
    with pytest.raises(UnsafeFile, match=r"belongs to another user \(65534\)"):
        open_in_place(home / "lock")


def test_permissions_of_other_users_are_removed_and_a_second_call_changes_nothing(home: Path) -> None:
    home.chmod(0o755)
    assert close_to_others(home)
    assert mode(home) == 0o700
    assert not close_to_others(home)


def test_reading_of_state_follows_no_link(home: Path, canary: Path) -> None:
    write_file(home / "lock", b"owner")
    assert read_state(home / "lock", 3) == b"own"
    (home / "link").symlink_to(canary)
    os.mkfifo(home / "pipe")
    for name in ("link", "pipe", "none"):
        with pytest.raises(OSError):
            read_state(home / name, 100)
