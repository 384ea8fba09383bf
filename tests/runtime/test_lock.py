"""Only one engine holds the lock of a project; the lock of an ended process is free."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from architecture.package import environment
from weft.errors import Locked, WeftError
from weft.runtime import lock as module
from weft.runtime.lock import Lock, LockOwner, find_holder

HOLDING = """if True:
    import os, sys, time
    from pathlib import Path
    from weft.errors import Locked
    from weft.runtime import lock
    if sys.argv[2] == "by name":
        def refused(*_):
            raise OSError(37, "No locks available")
        lock.fcntl.flock = refused
    try:
        held = lock.Lock(Path(sys.argv[1]), ["weft", "run", "a file.yaml"])
    except Locked as error:
        print(error, flush=True)
        sys.exit(error.exit_code)
    if sys.argv[2] == "forks" and os.fork() == 0:
        os.close(1)
        time.sleep(60)
    print("held", flush=True)
    sys.stdin.read()
    held.release()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "project" / ".weft" / "lock"


@pytest.fixture(params=["flock", "by name"])
def locking(request, monkeypatch):
    """Return the kind of lock on each kind of file system: with and without flock."""
    if request.param == "by name":

        def refused(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(module.fcntl, "flock", refused)
    return request.param


def started(path, locking):
    """Start an engine that holds the lock until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path), locking],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True,
    )  # fmt: skip


@pytest.fixture
def other(path, locking):
    """Return another engine that holds the lock."""
    child = started(path, locking)
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_the_error_names_the_engine_that_holds_the_lock(path, other):
    with pytest.raises(Locked) as caught:
        Lock(path)
    assert caught.value.exit_code == 4
    text = str(caught.value)
    assert f"process {other.pid} on " in text
    assert "`weft run 'a file.yaml'` of " in text
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text)
    assert text.startswith(f"{path.parents[1]}: ")
    assert find_holder(path).pid == other.pid


def test_the_lock_is_free_after_release(path, other):
    other.communicate("")
    assert find_holder(path) is None
    with Lock(path) as mine:
        assert mine.previous_owner is None
        assert find_holder(path) == mine.owner
    assert find_holder(path) is None


def test_a_copy_of_a_kernel_lock_is_not_held(path, tmp_path):
    """The engine of a project must not be taken for the engine of a copy of the project."""
    copy = tmp_path / "copy" / ".weft" / "lock"
    copy.parent.mkdir(parents=True, mode=0o700)
    with Lock(path) as original:
        shutil.copy(path, copy)
        assert find_holder(path) == original.owner
        assert find_holder(copy) is None
        with Lock(copy) as mine:
            assert find_holder(copy) == mine.owner
        assert find_holder(path) == original.owner


def test_the_lock_of_a_killed_process_can_be_acquired(path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert find_holder(path) is None
    with Lock(path, ["weft", "resume"]) as mine:
        assert mine.previous_owner.pid == other.pid
        assert mine.previous_owner.command == "weft run 'a file.yaml'"
        assert find_holder(path).command == "weft resume"


def test_a_zombie_process_does_not_hold_the_lock(path, other):
    """A process that has ended keeps its pid until its parent waits for it."""
    other.send_signal(signal.SIGKILL)
    while "Z" not in Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2]:
        time.sleep(0.005)
    with Lock(path) as mine:
        assert mine.previous_owner.pid == other.pid


def test_a_stopped_process_still_holds_the_lock(path, other):
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(Locked, match=f"process {other.pid}"):
        Lock(path)


def test_only_one_of_many_processes_acquires_the_lock(path, locking):
    """All start at the same time, with the lock file of a process that has ended."""
    first = started(path, locking)
    first.stdout.readline()
    first.kill()
    first.communicate()
    children = [started(path, locking) for _ in range(5)]
    words = [child.stdout.readline() for child in children]
    for child in children:
        child.communicate("")
    assert sorted(child.returncode for child in children) == [0, 4, 4, 4, 4]
    assert words.count("held\n") == 1
    assert [file.name for file in path.parent.iterdir()] in (["lock"], []), "nothing stays behind"


def test_one_process_cannot_acquire_the_lock_twice(path, locking):
    with Lock(path):
        with pytest.raises(Locked):
            Lock(path)
        assert find_holder(path) is not None
    Lock(path).release()


def test_a_forked_child_does_not_hold_the_lock(path):
    """The engine is killed while its forked child keeps running."""
    child = started(path, "forks")
    try:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(Locked):
            Lock(path)
        child.kill()
        child.wait()
        with Lock(path) as mine:
            assert mine.previous_owner.pid == child.pid
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_process_with_a_reused_pid_is_not_the_owner_of_the_lock(path, locking):
    mine = LockOwner.this_process(["weft"])
    assert mine.alive
    stale = [
        replace(mine, start_ticks=mine.start_ticks - 1),
        replace(mine, boot="another"),
        replace(mine, pid=2**22 + 1),
    ]
    assert [each.alive for each in stale] == [False, False, False]
    path.parent.mkdir(parents=True)
    for each in stale:
        path.write_text(each.as_text())
        assert find_holder(path) is None
        with Lock(path) as held:
            assert held.previous_owner == each


def test_without_flock_a_lock_owner_on_another_host_counts_as_running(path, locking):
    """Processes of another host cannot be checked; a kernel lock is reliable."""
    stranger = replace(LockOwner.this_process([]), host="elsewhere", command="")
    path.parent.mkdir(parents=True)
    path.write_text(stranger.as_text())
    if locking == "flock":
        assert Lock(path).previous_owner == stranger
    else:
        with pytest.raises(Locked, match="on elsewhere"):
            Lock(path)


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", '{"pid": 1}', "\x00" * 100, "9" * 100_000])
def test_invalid_content_of_the_lock_file_does_not_block_the_lock(path, locking, text):
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert find_holder(path) is None
    with Lock(path) as mine:
        assert mine.previous_owner is None
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_lock_file_with_values_of_a_wrong_type_is_read_as_a_lock_without_owner(path):
    record = json.loads(LockOwner.this_process([]).as_text())
    for name in record:
        assert LockOwner.of_text(json.dumps(record | {name: None})) is None
    assert LockOwner.of_text(json.dumps(record)) is not None


def test_the_lock_works_on_file_systems_without_hard_links(path, monkeypatch):
    def refused(code):
        def refuse(*_):
            raise OSError(code, os.strerror(code))

        return refuse

    monkeypatch.setattr(module.fcntl, "flock", refused(errno.ENOSYS))
    monkeypatch.setattr(module.os, "link", refused(errno.EPERM))
    with Lock(path) as mine:
        assert find_holder(path) == mine.owner
        with pytest.raises(Locked):
            Lock(path)
    assert list(path.parent.iterdir()) == []


def test_an_unwritable_lock_file_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WeftError, match="cannot lock the project"):
        Lock(tmp_path / "file" / "lock")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WeftError, match="cannot lock the project"):
        Lock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_releasing_the_lock_twice_is_allowed(path, locking):
    first = Lock(path)
    first.release()
    second = Lock(path)
    first.release()
    assert find_holder(path) == second.owner
    with pytest.raises(Locked):
        Lock(path)
    second.release()


def test_a_failing_disk_does_not_prevent_the_release_of_the_lock(path, monkeypatch):
    held = Lock(path)

    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module.os, "ftruncate", failing)
    held.release()
    monkeypatch.undo()
    Lock(path).release()
