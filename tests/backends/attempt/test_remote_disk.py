"""Files of a machine with a disk of its own that several threads receive at the same time."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.backends.attempt.host_files import HostFiles
from weft.backends.attempt.remote_disk import RemoteDisk
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
    disk = RemoteDisk(SlowAccess(), "disk", str(tmp_path / "sandbox"), "own", tmp_path / "mirror")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: disk.pull(each, each.files[0]), products * 2))
    assert [(folder / "out").read_text() for folder in found] == 4 * ["the same\n"]
