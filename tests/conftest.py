"""Fixtures for all tests: the directories of the benchmark data and of the papers' figures."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
from collections.abc import Generator
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import settings

from dask_clusters import dask_cluster
from slurm_cluster import fragile_cluster, shared_slurm_cluster, slurm16_cluster, slurm_cluster
from ssh_hosts import ssh_hosts

__all__ = [
    "dask_cluster",
    "fragile_cluster",
    "shared_slurm_cluster",
    "slurm16_cluster",
    "slurm_cluster",
    "ssh_hosts",
]

# One budget for all property tests: `make properties EXAMPLES=1000` draws more, and other, examples.
settings.register_profile("budget", max_examples=30, deadline=None, derandomize=True)
if "WEFT_EXAMPLES" in os.environ:
    settings.register_profile("thorough", max_examples=int(os.environ["WEFT_EXAMPLES"]), deadline=None)
settings.load_profile("thorough" if "WEFT_EXAMPLES" in os.environ else "budget")

PROJECT = Path(__file__).parents[1]
SERVICES = ("dask_cluster", "slurm_cluster", "ssh_hosts")
"""Words in files whose tests wait for real services."""


def pytest_configure() -> None:
    """Give all tests the same terminal, and SIGINT and SIGHUP, which ``make test &`` or ``nohup`` ignore."""
    os.environ["TERM"] = "xterm"  # lines of progress are redrawn
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)  # pytest itself continues to ignore it


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that contain the mark if real-time tests alone are run: importing all takes seconds."""
    if config.option.markexpr != "real_time" or not collection_path.match("test_*.py"):
        return None
    return "real_time" not in collection_path.read_text(encoding="utf-8") or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect in one worker after the other, so that only the first one compiles the test modules."""
    with (PROJECT / "tests" / "conftest.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files for parallel processes: alternately one that waits for services and one that computes.

    The waiting ones start first, so that at the end no process waits alone. Files with more tests come first.
    """
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    ordered = sorted(files, key=lambda path: -len(files[path]))
    waiting = [path for path in ordered if _waits_for_services(path)]
    computing = [path for path in ordered if path not in set(waiting)]
    pairs = zip_longest(waiting, computing)
    items[:] = [item for pair in pairs for path in pair if path is not None for item in files[path]]


def _waits_for_services(path: Path) -> bool:
    texts = [
        file.read_text(encoding="utf-8") for file in (path, path.with_name("conftest.py")) if file.exists()
    ]
    return path.parents[0] != PROJECT / "tests" and any(name in text for name in SERVICES for text in texts)


def pytest_collection_finish() -> None:
    """Exclude the imported modules and collected tests from garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()


def _folder(variable: str, beside: str) -> Path:
    """Return a data directory given by an environment variable or beside the project; skip if it is
    missing.
    """
    folder = Path(os.environ.get(variable) or PROJECT.parent / "shared" / beside)
    if not folder.is_dir():
        pytest.skip(f"no data: set {variable} to their folder")
    return folder


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """Return the directory of the public benchmark data."""
    return _folder("WEFT_BENCH_DATA", "data")


@pytest.fixture(scope="session")
def spec_data() -> Path:
    """Return the directory of the expected figures of the papers."""
    return PROJECT / "tests" / "published" / "figures"
