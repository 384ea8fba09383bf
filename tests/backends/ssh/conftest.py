"""Fixtures of tests with real ssh hosts."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from weft.backends.ssh.connection import HostConnections


@pytest.fixture
def connections() -> Generator[HostConnections]:
    found = HostConnections()
    yield found
    found.close()
