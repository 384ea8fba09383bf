"""Hashing and copying of large files stops when a task is cancelled or the engine stops.

A sparse file of 4 TB takes over an hour to hash and no space. The events must come long before.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend_project import TIMEOUT_S, BackendProject
from backends.attempt.web_server import Site
from weft.backends.attempt.content import Interrupted, interruptible
from weft.backends.attempt.external_files import InputSource, fetch, publish
from weft.backends.attempt.staging import clone_or_copy, collect_outputs
from weft.backends.file_record import FileRecord
from weft.engine import messages as cm
from weft.engine import messages as ev

SIZE = 4 << 40
TASKS = {
    "make": {"command": f"truncate -s {SIZE} out", "outputs": ["out"], "work": 1},
    "write": {"command": "echo small > small", "outputs": {"small": {"to": "published"}}, "work": 1},
    "read": {"command": "true", "inputs": ["big"], "work": 1},
}


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[BackendProject]:
    make_large(tmp_path / "big")
    made = BackendProject("local", tmp_path, TASKS)
    made.backend._grace_s = 0.1
    yield made
    made.close()


def wait_until(project: BackendProject, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end
        assert not [event for event in project.backend.poll(0.05) if isinstance(event, ev.Ended)]


def is_hashed(project: BackendProject) -> bool:
    """Return whether the output was made read-only, which is done before it is hashed."""
    found = list(project.folder.glob(".weft/sandbox/m0/**/out"))
    return bool(found) and not found[0].stat().st_mode & 0o200


def cancel(project: BackendProject, reason: str) -> None:
    project.backend.execute([cm.Cancel(attempt=1, machine=0, reason=reason)])


def test_cancel_does_not_wait_for_the_hash_of_an_output(project: BackendProject) -> None:
    project.start(1, "make")
    wait_until(project, lambda: is_hashed(project))
    cancel(project, cm.STOPPED)
    assert project.end().cause == "cancelled"
    assert not project.backend.busy


def test_cancel_does_not_wait_for_the_copy_of_an_input(project: BackendProject) -> None:
    project.start(1, "read")
    wait_until(project, lambda: bool(list(project.folder.glob(".weft/sandbox/m0/**/.weft-new-*"))))
    cancel(project, "held")
    assert project.end().cause == "cancelled"
    assert not list(project.folder.glob(".weft/sandbox/m0/**/.weft-new-*"))


def test_small_output_of_an_ended_task_is_published_although_the_run_was_stopped(
    project: BackendProject,
) -> None:
    """A run is also stopped because another task has failed; results that take little time are kept."""
    project.backend._grace_s = TIMEOUT_S
    project.start(1, "write")
    assert project.end().exit_code == 0
    cancel(project, cm.STOPPED)
    project.backend.execute([cm.StageOut(attempt=1, machine=0)])
    (event,) = project.wait_for(ev.StagedOut)
    assert event.problem == ""
    assert (project.folder / "published").read_text() == "small\n"


def test_migration_request_does_not_cancel_an_attempt_whose_program_has_ended(
    project: BackendProject,
) -> None:
    """Its outputs are complete, so the engine uses them instead of running it elsewhere."""
    project.start(1, "make")
    wait_until(project, lambda: is_hashed(project))
    cancel(project, "the new plan")
    assert not [event for event in project.poll_for(0.5) if isinstance(event, ev.Ended)]
    assert project.backend.busy
    cancel(project, cm.STOPPED)
    assert project.end().cause == "cancelled"


def test_output_not_hashed_when_the_engine_stops_is_hashed_by_the_next_engine(
    project: BackendProject,
) -> None:
    project.start(1, "make")
    wait_until(project, lambda: is_hashed(project))
    project.backend.halt(0.2)
    wait_until(project, lambda: not project.backend.busy)
    project.backend.close(stop=True)
    (out,) = project.folder.glob(".weft/sandbox/m0/**/out")
    out.chmod(0o600)
    out.write_text("small enough\n")
    project.open()
    place = project.place(1, "make")
    project.backend.find([project.recovered(1, "make")])
    project.backend.execute([cm.Assign(**place), cm.Start(**place)])
    ended = project.end()
    assert (ended.cause, ended.exit_code) == ("", 0)


@pytest.mark.parametrize("what", ["download", "upload", "upload to a file system"])
def test_transfer_can_be_interrupted(grounds, site: Site, what: str) -> None:
    site.files["/f"] = bytes(20_000_000)
    (grounds.work / "f").write_bytes(bytes(20_000_000))
    (file,) = collect_outputs(grounds.work, ["f"])
    actions: dict[str, Callable[[], object]] = {
        "download": lambda: fetch(InputSource(f"{site.url}/f", grounds.work), grounds.other, "f"),
        "upload": lambda: publish(grounds.work, file, f"{site.url}/up", folder=grounds.other),
        "upload to a file system": lambda: publish(grounds.work, file, "memory://up", folder=grounds.other),
    }
    # The content of an output is not read again before it is sent, so all checks are those of the transfer.
    answers = iter([False, False])
    with pytest.raises(Interrupted), interruptible(lambda: next(answers, True)):
        actions[what]()
    assert list(grounds.other.iterdir()) == []
    assert "/up" not in site.files


@pytest.mark.parametrize("what", ["hash", "copy", "publish", "fetch", "decompress"])
def test_every_function_that_reads_content_can_be_interrupted(grounds, what: str) -> None:
    make_large(grounds.work / "f")
    file = FileRecord(name="f", size_bytes=SIZE, digest="0" * 40)
    (grounds.work / "g.gz").write_bytes(gzip.compress(b"text"))
    work, other = grounds.work, grounds.other
    actions: dict[str, Callable[[], object]] = {
        "hash": lambda: collect_outputs(work, ["f"]),
        "copy": lambda: clone_or_copy(work, "f", other, "f"),
        "publish": lambda: publish(work, file, "f", folder=other),
        "fetch": lambda: fetch(InputSource("f", work), other, "f"),
        "decompress": lambda: fetch(InputSource("g.gz", work, compressed=True), other, "g.gz"),
    }
    first = iter([False] if what != "decompress" else [])  # interrupted after the first chunk
    with pytest.raises(Interrupted), interruptible(lambda: next(first, True)):
        actions[what]()
    assert list(other.iterdir()) == []
