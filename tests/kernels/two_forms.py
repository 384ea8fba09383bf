"""Both forms of kernels on one drawn example: drawing takes longer than planning it twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

__all__ = ["in_both_forms"]


def in_both_forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Select one form after the other and yield its name; the selection ends with the test."""
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        yield form
