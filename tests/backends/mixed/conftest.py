"""Fixtures: two real ssh hosts beside a real Slurm and this computer."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ssh_hosts import SshHosts, start_ssh_hosts


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshHosts]:
    """Return two hosts; a test that kills one restarts it."""
    with start_ssh_hosts(tmp_path_factory.mktemp("ssh"), 2) as hosts:
        yield hosts
