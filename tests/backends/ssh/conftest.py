"""Fixtures of tests with real ssh hosts."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from ssh_hosts import SshHosts
from ssh_projects import write_grid
from weft.backends.ssh.connection import HostConnections


@pytest.fixture
def connections() -> Generator[HostConnections]:
    found = HostConnections()
    yield found
    found.close()


@pytest.fixture
def grid(ssh_hosts: SshHosts, tmp_path: Path) -> Path:
    """Return a project with a platform ``grid.yaml``, of which each host is a machine."""
    write_grid(tmp_path, ssh_hosts, silence=15)
    (tmp_path / "data.txt").write_text("some words here\n")
    return tmp_path
