"""Rollback: the state of a project is replaced by an older copy, as a restored backup or a lost tail does."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

from chaos.evidence import add_loss
from chaos.power import RecordedRun
from chaos.scene import Scene

_DATABASE = ("weft.db", "weft.db-wal", "weft.db-shm")


def restore_copy(recorded: RecordedRun, cut: int) -> Scene:
    """Restore the ``.weft`` of a finished run from a copy made at an operation, and let an engine finish it.

    It is done in the folder of the run, because paths of sandboxes outside the project are absolute.
    """
    scene, disk = recorded.scene, recorded.disk
    for name in ("notes", "sandbox", "project"):
        folder = scene.project.parent / name
        shutil.rmtree(folder)
        disk.whole(disk.last).write_to(folder, instead_of=folder)
    state = scene.project / ".weft"
    shutil.rmtree(state)
    disk.whole(cut).write_to(state, instead_of=state)
    add_loss(scene.notes, "restored")
    scene.finish()
    return scene


def lose_tail(scene: Scene, rnd: random.Random, *, whole: bool) -> bool:
    """Kill an engine, restore an earlier database while its programs run, and resume; return whether it was done.

    ``whole``: the other files of ``.weft`` are restored too.
    """
    if not _dies(scene, f"committed:{rnd.randint(2, 6)}"):
        return False
    copy_database(scene, whole=whole)
    if not _dies(scene, f"committed:{rnd.randint(2, 9)}"):
        return False
    time.sleep(0.1 + 0.2 * rnd.random())  # the runners process the orders of the dead engine
    add_loss(scene.notes, "restored")
    restore_database(scene)
    return True


def copy_database(scene: Scene, *, whole: bool = False) -> None:
    """Copy the database of a scene without engine; ``whole``: with all other files of ``.weft``."""
    state, copy = scene.project / ".weft", scene.notes.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in [path.name for path in state.iterdir()] if whole else _DATABASE:
        _copy(state / name, copy / name)


def restore_database(scene: Scene) -> None:
    """Replace the database, and what else was copied, by the copy."""
    state, copy = scene.project / ".weft", scene.notes.parent / "copy"
    for name in _DATABASE:
        (state / name).unlink(missing_ok=True)
    for path in copy.iterdir():
        if path.name not in ("runners", "sandbox", "lock"):  # sockets and directories of running programs
            if path.is_dir():
                shutil.rmtree(state / path.name)
            _copy(path, state / path.name)


def _dies(scene: Scene, failpoint: str) -> bool:
    """Let an engine die at a commit; return False if the run was over before."""
    return scene.live(failpoint=failpoint).wait(60.0) == -signal.SIGKILL


def _copy(path: Path, into: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, into, symlinks=True, ignore=lambda *_: ("socket",))
    elif path.is_file():
        shutil.copy2(path, into)
