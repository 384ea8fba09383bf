"""Files of a machine with a disk of its own that several threads receive at the same time."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.backends.attempt.host_files import HostFiles
from weft.backends.attempt.remote_disk import RemoteDisk
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import measure_file
from weft.backends.backend import Product


class SlowAccess:
    """Access to a directory as to a host; two threads that receive at once receive the same moment."""

    def __init__(self) -> None:
        self._files = HostFiles()
        self._together = threading.Barrier(2)

    def call(self, operation: str, **arguments: Any) -> Any:
        return getattr(self._files, operation)(**arguments)

    def send(self, local: Path, remote: str) -> None:
        shutil.copyfile(local, remote)

    def receive(self, remote: str, local: Path) -> None:
        shutil.copyfile(remote, local)
        with suppress(threading.BrokenBarrierError):
            self._together.wait(1.0)


def product_of(root: Path, name: str) -> Product:
    files = (measure_file(root, name),)
    return Product(
        execution=1, run=0, task=0, name="a", kind="a", workflow="w", attempt=0, directory=f"disk{root}", files=files
    )  # fmt: skip


def test_threads_receive_files_of_equal_content_one_after_the_other(tmp_path: Path) -> None:
    products = []
    for folder in ("one", "other"):
        root = tmp_path / "sandbox" / folder
        root.mkdir(parents=True)
        (root / "out").write_text("the same\n")
        products.append(product_of(root, "out"))
    disk = RemoteDisk(SlowAccess(), ("disk", "disk"), str(tmp_path / "sandbox"), "own", tmp_path / "mirror")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: disk.pull(each, each.files[0]), products * 2))
    assert [(folder / "out").read_text() for folder in found] == 4 * ["the same\n"]


class SharedAccess(SlowAccess):
    """Access to a directory that two projects use; both have sent a file before one of them is placed."""

    def __init__(self, together: threading.Barrier) -> None:
        super().__init__()
        self._arrived = together

    def call(self, operation: str, **arguments: Any) -> Any:
        if operation == "place":
            self._arrived.wait(60.0)
        return super().call(operation, **arguments)

    def send(self, local: Path, remote: str) -> None:
        self._arrived.wait(60.0)
        super().send(local, remote)


def test_projects_with_one_sandbox_send_files_of_equal_content_at_the_same_time(tmp_path: Path) -> None:
    together, content = threading.Barrier(2), os.urandom(9 << 20)
    sandbox = str(tmp_path / "sandbox")

    def push(project: str) -> bytes:
        mirror = tmp_path / project
        attempt: Any = SimpleNamespace(
            number=0,
            workdir=mirror / project / "1/0-aa",
            workdir_path=str(mirror / project / "1/0-aa"),
            workdir_lock=threading.Lock(),
            has_host_workdir=False,
        )
        attempt.workdir.mkdir(parents=True)
        (attempt.workdir / "data").write_bytes(content)
        disk = RemoteDisk(SharedAccess(together), ("disk", "disk"), sandbox, project, mirror)
        assert disk.push(attempt) == len(content)
        return (Path(disk.workdir(attempt)) / "data").read_bytes()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(push, ("one", "two"))) == [content, content]


def test_file_without_space_for_it_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(StagingProblem, match=r"'data' cannot be sent: it has \d+ MB, but the disk of"):
        HostFiles().find_arrived(str(tmp_path), ["d"], name="data", size_bytes=2 * free + (1 << 30))
    HostFiles().check_space(str(tmp_path))
