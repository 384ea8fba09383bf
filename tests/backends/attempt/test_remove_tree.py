"""A tree is removed whatever a task has left in it, without touching anything outside."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from architecture.package import environment
from patience import PATIENCE_S
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.trees import remove_tree

_SWAPS = 40
"""Number of times that directories are replaced by links per removal."""


def fill(folder: Path, outside: Path) -> None:
    (folder / "a" / "b" / "c").mkdir(parents=True)
    (folder / "a" / "b" / "c" / "file").write_text("x")
    (folder / "a" / "empty").mkdir()
    (folder / "a" / "b" / "out").symlink_to(outside)
    (folder / "a" / "canary").symlink_to(outside / "canary")
    (folder / "a" / "loop").symlink_to(".")
    os.mkfifo(folder / "a" / "fifo")
    (folder / "a" / "line\nbreak 'quote").write_text("x")
    (folder / "a" / ".weft-removed-0").mkdir()
    (folder / "a" / ".weft-removed-0" / "x").write_text("taken")
    Path(os.fsdecode(os.fsencode(folder) + b"/a/\xff\xfe")).write_text("no UTF-8")


def test_all_kinds_of_entries_are_removed(grounds) -> None:
    fill(grounds.work, grounds.outside)
    os.link(grounds.canary, grounds.work / "a" / "hard")
    remove_tree(grounds.work, "a")
    assert list(grounds.work.iterdir()) == []
    remove_tree(grounds.work, "a")
    remove_tree(grounds.work, "nor/this")


def test_link_is_removed_and_not_followed(grounds) -> None:
    (grounds.work / "link").symlink_to(grounds.outside)
    with pytest.raises(StagingProblem):
        remove_tree(grounds.work, "link/deep")
    remove_tree(grounds.work, "link")
    assert not (grounds.work / "link").is_symlink()


@pytest.mark.parametrize("name", ["..", "../outside", "a/../../outside", "/", "", "."])
def test_removal_refuses_names_that_leave_the_root(grounds, name: str) -> None:
    with pytest.raises(StagingProblem):
        remove_tree(grounds.work, name)


def test_tree_deeper_than_the_path_limit_is_removed(grounds) -> None:
    fd = os.open(grounds.work, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    remove_tree(grounds.work, "deeper")
    assert list(grounds.work.iterdir()) == []


CLOSED = """
import os, sys
from pathlib import Path
from weft.backends.attempt.trees import remove_tree
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
root = Path(sys.argv[1])
(root / "a/b/c").mkdir(parents=True)
(root / "a/b/c/f").write_text("x")
(root / "a/f").write_text("x")
for name, mode in (("a/f", 0), ("a/b/c", 0), ("a/b", 0o500), ("a", 0o100)):
    (root / name).chmod(mode)
remove_tree(root, "a")
sys.stdout.write(str(sorted(root.iterdir())))
"""


def test_tree_without_permissions_is_removed() -> None:
    # Not as root, because permissions do not restrict root; below a directory that another user can reach.
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        root = Path(os.path.realpath(above)) / "root"
        root.mkdir()
        root.chmod(0o777)
        command = [sys.executable, "-c", CLOSED, str(root)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert (done.stdout, done.returncode) == ("[]", 0), done.stderr


def test_links_created_during_the_removal_are_not_followed(grounds) -> None:
    """A task keeps replacing directories by external links while its tree is removed."""
    stop = threading.Event()
    # Each removal permits some replacements: without a limit, a tree on a busy machine grows faster than it is
    # removed, and the test does not end.
    permitted = threading.Semaphore(0)

    def swap() -> None:
        tree = grounds.work / "t"
        number = 0
        while permitted.acquire() and not stop.is_set():
            number += 1
            name = tree / ("x", "y")[number % 2]
            with suppress(OSError):
                (tree / f"new{number}" / "deep").mkdir(parents=True)
                (tree / f"new{number}" / "deep" / "second").touch()
                (tree / f"new{number}").rename(name)
                name.rename(tree / f"old{number}")
                name.symlink_to(grounds.outside)
                (tree / f"old{number}" / "deep").rename(tree / f"deep{number}")
                (tree / f"old{number}" / "deep").symlink_to(grounds.outside / "deep")
                name.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    rounds = removed = 0
    try:
        while rounds < 150:
            rounds += 1
            permitted.release(_SWAPS)
            with suppress(StagingProblem):  # The removal may give up while the task keeps writing.
                remove_tree(grounds.work, "t")
                removed += 1
    finally:
        stop.set()
        permitted.release()
        swapper.join()
    remove_tree(grounds.work, "t")
    assert removed > 0
    assert not (grounds.work / "t").exists()
