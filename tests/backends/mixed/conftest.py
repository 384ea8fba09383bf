"""Fixtures: two real ssh hosts and two Dask workers beside a real Slurm and this computer."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from dask_clusters import DaskProcesses, dask_processes
from ssh_hosts import SshHosts, start_ssh_hosts


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshHosts]:
    """Return two hosts; a test that kills one restarts it."""
    with start_ssh_hosts(tmp_path_factory.mktemp("ssh"), 2) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Generator[DaskProcesses]:
    """Return two workers with disks of their own; a test that kills one restarts it."""
    with dask_processes(tmp_path_factory.mktemp("dask"), ("worker1", "worker2")) as found:
        yield found
