"""Functions that tests call as tasks. Every task process imports this module, so it imports nothing heavy."""

from __future__ import annotations

import math
import os

from weft.api import task

__all__ = ["OFFSET", "double", "fails", "total", "where"]

OFFSET = 100


@task(work=0.1)
def double(x, by=2):
    return x * by


@task
def total(values, extra=None):
    return helper(values) + OFFSET, extra


def helper(values):
    return math.fsum(values)


@task
def where():
    return os.getpid(), os.environ["WEFT_TASK"]


@task
def fails(x):
    raise KeyError("no", x)
