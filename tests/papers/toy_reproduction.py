"""A reproduction without computation: its measures are the random numbers of a run."""

from __future__ import annotations

import os
from typing import ClassVar

from weft.papers.reproduction import ExperimentCell, ResultRow, ToleranceBand

__all__ = ["Toy"]


class Toy:
    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "two cells"

    def cells(self, *, full):
        cells = [
            ExperimentCell(name="small", settings={"least": 0}, runs=4),
            ExperimentCell(name="large", settings={"least": 10}, runs=2),
        ]
        return [*cells, ExperimentCell(name="grid", settings={"least": 5}, runs=1)] if full else cells

    def run(self, cell, rng):
        return {"drawn": cell.settings["least"] + float(rng.random()), "process": float(os.getpid())}

    def rows(self, results, *, full):
        names = ["small", "large", *(["grid"] if full else [])]
        band = ToleranceBand(most=5.0)
        return [
            ResultRow(table="drawn", figure=name, ours=results.summary(name, "drawn").mean,
                runs=len(results.of(name, "drawn")), band=band, accepts="A0.0")
            for name in names
        ]  # fmt: skip
