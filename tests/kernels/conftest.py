"""The fixture that runs a test of a kernel in both of its forms."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["plain", "compiled"])
def form(request, monkeypatch):
    """Select plain or compiled kernels; return the name of the form."""
    monkeypatch.setenv("WEFT_KERNELS", request.param)
    return request.param
