"""A reproduction that takes no time: its measures show which random numbers a run had."""

from __future__ import annotations

import os
from typing import ClassVar

from weft.studies.reproduction import Band, Cell, Row

__all__ = ["Toy"]


class Toy:
    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "two cells"

    def cells(self, *, full):
        cells = [
            Cell(name="small", settings={"least": 0}, runs=4),
            Cell(name="large", settings={"least": 10}, runs=2),
        ]
        return [*cells, Cell(name="grid", settings={"least": 5}, runs=1)] if full else cells

    def run(self, cell, rng):
        return {"drawn": cell.settings["least"] + float(rng.random()), "process": float(os.getpid())}

    def rows(self, results, *, full):
        names = ["small", "large", *(["grid"] if full else [])]
        band = Band(most=5.0)
        return [
            Row(table="drawn", figure=name, ours=results.summary(name, "drawn").mean,
                runs=len(results.of(name, "drawn")), band=band, accepts="A0.0")
            for name in names
        ]  # fmt: skip
