"""A preloaded library that observes and disturbs the syncs and locks of a process (see ``sync_shim.c``)."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from architecture.package import environment

__all__ = ["shim_environment"]


@functools.cache
def _build() -> Path | None:
    """Return the compiled library; None if there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder = tempfile.mkdtemp(prefix="weft-shim-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder) / "sync_shim.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def shim_environment(**settings: object) -> dict[str, str]:
    """Return the environment of a process with the library; skip the test if it cannot be compiled."""
    if (library := _build()) is None:
        pytest.skip("no C compiler")
    return environment(LD_PRELOAD=str(library), **{key: str(value) for key, value in settings.items()})
