"""The preloaded library of the chaos tests (``shim.c``): compiled on first use, and controlled by a shared page."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
ERRNOS = ("EIO", "ENOSPC", "EAGAIN", "EINTR", "ENOMEM", "EMFILE")
ENGINE, RUNNER, TASK = 1, 2, 4
"""Roles of processes whose calls can fail; their sum means several."""
_SIZE = 4096
_OFFSETS = {
    "clock_offset_ns": (64, "q"), "no_flock": (72, "i"), "fail_roles": (76, "i"), "fail_every": (80, "i"),
    "fail_first": (84, "i"), "fail_left": (88, "q"), "fail_errno": (152, "i"), "boot": (160, "64s"),
    "trace": (224, "512s"), "roots": (736, "1024s"), "witness": (1760, "512s"),
}  # fmt: skip
_FAILED = 96


def compiler() -> str | None:
    """Return the C compiler; None: there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@cache
def library() -> Path:
    """Compile the library and return its path; one of the same source is used again."""
    found = compiler()
    assert found is not None, "the chaos tests need a C compiler: install cc"
    name = f"weft-shim-{os.getuid()}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    path = Path(tempfile.gettempdir()) / name
    if not path.exists():
        new = path.with_suffix(f".{os.getpid()}")
        command = [found, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(new), str(SOURCE), "-ldl", "-pthread"]
        subprocess.run(command, check=True)
        new.rename(path)
    return path


class Control:
    """The page through which a test controls the library in all processes that have mapped it."""

    def __init__(self, path: Path, *, roots: Sequence[Path] = (), witness: Path | None = None) -> None:
        self.path = path
        path.write_bytes(bytes(_SIZE))
        assert ctypes.CDLL(str(library())).chaos_create(str(path).encode()) == 0
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _SIZE)
        self.set(
            roots=":".join(map(str, roots)), witness="" if witness is None else str(witness), fail_errno=-1
        )

    def set(self, **values: int | str) -> None:
        """Change settings; processes see them at their next call."""
        for name, value in values.items():
            offset, kind = _OFFSETS[name]
            struct.pack_into(kind, self._page, offset, value.encode() if isinstance(value, str) else value)

    def environment(self) -> dict[str, str]:
        """Return the variables of an engine that uses the library with this page."""
        return {"LD_PRELOAD": str(library()), "CHAOS_SHIM": str(self.path)}

    def failed(self) -> dict[str, int]:
        """Return how many calls have failed, by errno."""
        counts = struct.unpack_from(f"{len(ERRNOS)}q", self._page, _FAILED)
        return {name: count for name, count in zip(ERRNOS, counts, strict=True) if count}

    def close(self) -> None:
        """Unmap the page."""
        self._page.close()
