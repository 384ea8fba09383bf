"""Where machine code is kept, so that a kernel is compiled once per processor type and version of weft.

Numba notices a change only in the file of the function it compiles, not in the kernels that it calls; so the
folder is named after the content of *all* kernel files. It lies in the user's cache; where that cannot be
written (a service without a home, a read-only container) in a private temporary folder; where nothing can be
written, machine code is made anew in every process.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

__all__ = ["caching", "folder", "holds"]


@cache
def folder() -> Path | None:
    """Give the folder for machine code of this version on this processor; None: none can be written."""
    for base in (_of_user(), _temporary()):
        if base is not None:
            found = base / "kernels" / _digest()
            if _writable(found):
                return found
    return None


def _of_user() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(named) if named else Path.home() / ".cache") / "weft"
    except RuntimeError:  # no home
        return None


def _temporary() -> Path | None:
    """Give a folder that belongs to us alone: machine code that others could write must not be run."""
    base = Path(tempfile.gettempdir()) / f"weft-{os.getuid()}"
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return base if private else None


def _writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def _digest() -> str:
    import llvmlite.binding
    import numba

    found = hashlib.sha256(f"{numba.__version__} {llvmlite.binding.get_host_cpu_name()}".encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def holds(name: str) -> bool:
    """Say whether machine code of a kernel lies in the folder."""
    found = folder()
    return found is not None and any(found.rglob(f"*.{name}-*.nbi"))


@contextmanager
def caching() -> Iterator[bool]:
    """Make numba use the folder for what is declared meanwhile; gives whether there is one."""
    import numba

    found = folder()
    before = numba.config.CACHE_DIR
    if found is not None:
        numba.config.CACHE_DIR = str(found)
    try:
        yield found is not None
    finally:
        numba.config.CACHE_DIR = before
