"""Fixtures with real ssh hosts."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ssh_hosts import SshHosts, start_ssh_hosts
from weft.backends.ssh.connection import HostConnections


@pytest.fixture(scope="session")
def ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshHosts]:
    """Return four hosts; a test that kills one restarts it."""
    with start_ssh_hosts(tmp_path_factory.mktemp("ssh")) as hosts:
        yield hosts


@pytest.fixture
def connections() -> Generator[HostConnections]:
    found = HostConnections()
    yield found
    found.close()
