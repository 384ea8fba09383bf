"""Compiled and plain kernels on one drawn example, because drawing takes longer than planning twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weft.schedule.schedule import Schedule

__all__ = ["columns", "in_both_forms"]


def in_both_forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Select one form after the other and yield its name; restore the selection after the test."""
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        yield form


def columns(schedule: Schedule) -> list[list[float]]:
    """Return machines, node counts, starts and finishes of a schedule as lists, to compare two schedules."""
    return [
        column.tolist() for column in (schedule.machine, schedule.nodes, schedule.start_s, schedule.finish_s)
    ]
