"""Both forms of the kernels on one drawn example: to draw it takes longer than to plan it twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

__all__ = ["in_both_forms"]


def in_both_forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Choose one form after the other and give its name; the choice ends with the test."""
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        yield form
