"""Files left by killed processes are removed, those of living ones are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.package import environment
from patience import PATIENCE_S
from weft.backends.attempt import temporary_files
from weft.backends.attempt.safe_paths import open_directory
from weft.backends.attempt.staging import clone_or_copy
from weft.backends.attempt.temporary_files import remove_stale, remove_stale_below, temporary_name

_COPY = """
import sys, time
from pathlib import Path
from weft.backends.attempt import staging
def wait(*_, **__):
    print("copies", flush=True)
    time.sleep(1000)
staging.transfer = wait
staging.clone_or_copy(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[2])
"""


def start_copy(source: Path, name: str, target: Path) -> subprocess.Popen[str]:
    """Start a process that is in the middle of copying a file or directory."""
    words = [sys.executable, "-c", _COPY, str(source), name, str(target)]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "copies\n"
    return process


def temporary(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".weft-new-")]


@pytest.mark.parametrize("how", ["next copy", "clean"])
@pytest.mark.parametrize("name", ["f", "d"])
def test_temporary_copy_left_by_a_killed_process_is_removed(grounds, name: str, how: str) -> None:
    (grounds.work / "d").mkdir()
    for path in (grounds.work / "f", grounds.work / "d" / "f"):
        path.write_text("text")
    with start_copy(grounds.work, name, grounds.other) as process:
        assert len(temporary(grounds.other)) == 1
        remove_stale_below(grounds.other)
        clone_or_copy(grounds.work, "f", grounds.other, "other")
        assert len(temporary(grounds.other)) == 1, "its process lives"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        temporary_files._checked.clear()  # as another process
        if how == "clean":
            remove_stale_below(grounds.other.parent)
        else:
            clone_or_copy(grounds.work, name, grounds.other, name)
    assert temporary(grounds.other) == []


def test_temporary_files_of_unknown_processes_are_kept_for_a_week(grounds) -> None:
    own = temporary_name()
    host, boot, process, start, number = own.removeprefix(".weft-new-").split("-")
    alive = [
        own,
        f".weft-new-00000000-{boot}-{process}-{start}-1",
        f".weft-new-00000000-00000000-1-1-{number}",
        ".weft-new-17-3",
        ".weft-news",
    ]
    stale = [
        f".weft-new-{host}-{boot}-{process}-{int(start) + 1}-1",
        f".weft-new-{host}-{boot}-999999999-{start}-1",
        f".weft-new-{host}-00000000-{process}-{start}-1",
    ]
    old = [".weft-new-17-4", f".weft-new-00000000-{boot}-{process}-{start}-9"]
    for name in (*alive, *stale, *old):
        (grounds.other / name).write_text("")
    for name in old:
        os.utime(grounds.other / name, (1, 1))
    with open_directory(grounds.other, ()) as directory:
        remove_stale(directory)
    assert sorted(path.name for path in grounds.other.iterdir()) == sorted(alive)
    for name in alive:
        (grounds.other / name).unlink()


def test_removal_of_temporary_files_does_not_follow_links(grounds) -> None:
    name = f"{temporary_name().rsplit('-', 2)[0]}-1-1"
    (grounds.outside / "deep").rename(grounds.other / "deep")
    (grounds.other / "deep" / name).write_text("mine")
    (grounds.work / "way").symlink_to(grounds.other)
    remove_stale_below(grounds.work)
    assert (grounds.other / "deep" / name).exists()
    (grounds.other / "deep" / name).unlink()
    (grounds.other / "deep" / name).symlink_to(grounds.canary)
    remove_stale_below(grounds.other)
    assert not (grounds.other / "deep" / name).is_symlink()
    (grounds.other / "deep").rename(grounds.outside / "deep")
    for path in (grounds.outside / "deep", grounds.outside):
        os.utime(path, ns=(1_000_000_000_000_000_000, 1_000_000_000_000_000_000))
