"""Compiled and plain kernels on one drawn example, because drawing takes longer than planning twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

__all__ = ["in_both_forms"]


def in_both_forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Select one form after the other and yield its name; restore the selection after the test."""
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        yield form
