"""Montage-like workflows: mosaics of the sky from many overlapping images.

Every image is projected (mProjectPP). The differences of overlapping images are fitted (mDiffFit), the fits
collected (mConcatFit) and combined into a background model (mBgModel), which corrects every image
(mBackground). Then a table of images is written (mImgtbl), and the images are added (mAdd), shrunk (mShrink)
and rendered (mJPEG). Structure, times and sizes follow the profiles of G. Juve, A. Chervenak, E. Deelman, S.
Bharathi, G. Mehta, K. Vahi, Characterizing and profiling scientific workflows, FGCS 29(3), 2013, section 3.1,
and the synthetic workflows that the authors published: 25 tasks stand for 5 images and 9 overlaps, 100 tasks
for 16 images and 62 overlaps.

Deviations: images have one size and lie on a square grid, where the nearest pairs overlap, on average at most
four per image; mAdd reads the corrected images and their table, as the program does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.platform.machine import MOST_MACHINES
from weft.workflow.builder import Builder
from weft.workflow.generators.generator import (
    LARGEST,
    MOST_TASKS,
    GeneratedWorkflow,
    check_parameters,
    draw_around,
    draw_platform,
    parameter,
    round_digits,
)

_SINGLE = 6
"""Number of single tasks: mConcatFit, mBgModel, mImgtbl, mAdd, mShrink and mJPEG."""
_OVERLAPS_PER_IMAGE = 4
_REACH = 3
"""Maximum distance of overlapping images on the grid; sufficient for every number of tasks."""
_LEAST_TASKS = 17
"""Minimum number of tasks (four images in a chain); with fewer, an image may have no overlap."""

_PROJECT_S, _DIFFERENCE_S, _BACKGROUND_S = 13.5, 10.6, 10.7
_CONCAT_S_PER_OVERLAP, _MODEL_S_PER_IMAGE, _TABLE_S_PER_IMAGE = 0.08, 0.33, 0.45
_ADD_S_PER_IMAGE, _SHRINK_S_PER_IMAGE, _JPEG_S_PER_IMAGE = 0.6, 0.43, 0.05
_IMAGE_BYTES, _DIFFERENCE_BYTES, _FIT_BYTES, _LINE_BYTES = 4.2e6, 2.9e5, 270, 200
_SHRINKING, _JPEG_COMPRESSION = 25, 160

_HEADER = {"file": "region.hdr", "size": 304}
_KINDS = ("", "_area")
"""Suffixes of an image and of the file with the areas of its pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Montage:
    """A mosaic of overlapping images."""

    name: ClassVar[str] = "montage"
    title: ClassVar[str] = "Montage-like mosaic of images (Juve and others 2013)"

    tasks: int = parameter(100, "tasks in total", _LEAST_TASKS, MOST_TASKS)
    work_spread: float = parameter(0.1, "maximum relative deviation of work from its mean", 0, 1)
    work_factor: float = parameter(1.0, "factor of all work", 0, LARGEST)
    data_factor: float = parameter(1.0, "factor of all image sizes", 0, LARGEST)
    machines: int = parameter(8, "machines of the platform; 0: no platform", 0, MOST_MACHINES)
    heterogeneity: float = parameter(4.0, "speed of the fastest machine; the slowest has 1", 1, LARGEST)

    def __post_init__(self) -> None:
        check_parameters(self)

    def generate(self, rng: np.random.Generator) -> GeneratedWorkflow:
        """Return a mosaic of images on a grid with random work."""
        images, overlaps = count_images_and_overlaps(self.tasks)
        flow = Builder(f"montage-{self.tasks}", params=self._numbers(rng, images, overlaps))
        self._fit(flow, images, find_overlaps(images, overlaps))
        self._correct(flow, images, overlaps)
        self._add(flow, images)
        workflow = replace(flow.build(), document=None)
        platform = draw_platform(rng, self.machines, self.heterogeneity)
        return GeneratedWorkflow(workflow=workflow, platform=platform)

    def _numbers(self, rng: np.random.Generator, images: int, overlaps: int) -> dict[str, object]:
        """Return the random work per task of the three programs that run once per image or overlap."""
        return {
            "project_s": draw_around(rng, self._work(_PROJECT_S), self.work_spread, images),
            "difference_s": draw_around(rng, self._work(_DIFFERENCE_S), self.work_spread, overlaps),
            "background_s": draw_around(rng, self._work(_BACKGROUND_S), self.work_spread, images),
        }

    def _work(self, seconds: float) -> float:
        return round_digits(self.work_factor * seconds)

    def _size(self, size_bytes: float) -> int:
        return round(self.data_factor * size_bytes)

    def _fit(self, flow: Builder, images: int, pairs: list[tuple[int, int]]) -> None:
        """Add the tasks that project images and fit the differences of overlapping pairs."""
        raw = {"file": "{image}.fits", "size": self._size(_IMAGE_BYTES)}
        flow.task(
            "mProjectPP",
            sweep={"image": f"1..{images}"},
            inputs=[_HEADER, raw],
            outputs={f"p{{image}}{kind}.fits": self._size(_IMAGE_BYTES) for kind in _KINDS},
            work="project_s[image - 1]",
        )
        flow.task(
            "mDiffFit",
            sweep={
                "pair": f"1..{len(pairs)}",
                "first": [first for first, _ in pairs],
                "second": [second for _, second in pairs],
                "zip": True,
            },
            inputs=[f"p{{{which}}}{kind}.fits" for which in ("first", "second") for kind in _KINDS],
            outputs={"fit.{pair}.txt": _FIT_BYTES, "diff.{pair}.fits": self._size(_DIFFERENCE_BYTES)},
            work="difference_s[pair - 1]",
        )

    def _correct(self, flow: Builder, images: int, overlaps: int) -> None:
        """Add the tasks that model the background and subtract it from every image."""
        flow.task(
            "mConcatFit",
            inputs=[f"fit.{pair}.txt" for pair in range(1, overlaps + 1)],
            outputs={"fits.tbl": _LINE_BYTES * overlaps},
            work=self._work(_CONCAT_S_PER_OVERLAP * overlaps),
        )
        flow.task(
            "mBgModel",
            inputs=["fits.tbl"],
            outputs={"corrections.tbl": _LINE_BYTES * images},
            work=self._work(_MODEL_S_PER_IMAGE * images),
        )
        flow.task(
            "mBackground",
            sweep={"image": f"1..{images}"},
            inputs=[*(f"p{{image}}{kind}.fits" for kind in _KINDS), "corrections.tbl"],
            outputs={f"c{{image}}{kind}.fits": self._size(_IMAGE_BYTES) for kind in _KINDS},
            work="background_s[image - 1]",
        )

    def _add(self, flow: Builder, images: int) -> None:
        """Add the tasks that combine the corrected images into a mosaic and a picture."""
        corrected = [f"c{image}{kind}.fits" for image in range(1, images + 1) for kind in _KINDS]
        mosaic_bytes = images * self._size(_IMAGE_BYTES)
        flow.task(
            "mImgtbl",
            inputs=corrected,
            outputs={"images.tbl": _LINE_BYTES * images},
            work=self._work(_TABLE_S_PER_IMAGE * images),
        )
        flow.task(
            "mAdd",
            inputs=[_HEADER, "images.tbl", *corrected],
            outputs={f"mosaic{kind}.fits": mosaic_bytes for kind in _KINDS},
            work=self._work(_ADD_S_PER_IMAGE * images),
        )
        flow.task(
            "mShrink",
            inputs=["mosaic.fits"],
            outputs={"shrunken.fits": mosaic_bytes // _SHRINKING},
            work=self._work(_SHRINK_S_PER_IMAGE * images),
        )
        flow.task(
            "mJPEG",
            inputs=["shrunken.fits"],
            outputs={"mosaic.jpg": mosaic_bytes // _JPEG_COMPRESSION},
            work=self._work(_JPEG_S_PER_IMAGE * images),
        )


def count_images_and_overlaps(tasks: int) -> tuple[int, int]:
    """Return the numbers of images and overlaps for a number of tasks, with as few images as possible."""
    images = 1
    while (overlaps := tasks - _SINGLE - 2 * images) > min(
        images * (images - 1) // 2, _OVERLAPS_PER_IMAGE * images
    ):
        images += 1
    return images, overlaps


def find_overlaps(images: int, overlaps: int) -> list[tuple[int, int]]:
    """Return the ``overlaps`` nearest pairs of images, numbered from 1, row by row, on a square grid."""
    columns = math.isqrt(images - 1) + 1
    steps = [(down, right) for down in range(_REACH + 1) for right in range(-_REACH, _REACH + 1)]
    pairs: list[tuple[int, int]] = []
    for down, right in sorted(steps, key=lambda step: (step[0] ** 2 + step[1] ** 2, step)):
        for image in range(images if (down, right) > (0, 0) else 0):
            other = image + down * columns + right
            if 0 <= image % columns + right < columns and other < images:
                pairs.append((image + 1, other + 1))
    return sorted(pairs[:overlaps])
