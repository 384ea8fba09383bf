"""The text of a progress file: ``0.4``, ``40%``, ``3/10``, or JSON with S3's performance profile.

The last complete line counts; a file of one line may do without the end of line.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from weft.backends.jobs.problem import JobProblem
from weft.errors import shorten

__all__ = ["Progress", "parse_progress"]

_RULE = (
    "progress is written as 0.4, 40%, 3/10, or JSON with done, iterations, all_iterations, last_iteration_s"
)
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{0,15})?(?:[eE][+-]?[0-9]{1,2})?"
_SHARE = re.compile(rf"({_NUMBER}|\.[0-9]{{1,15}})\s*(%?)")
_STEPS = re.compile(rf"({_NUMBER})\s*/\s*({_NUMBER})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a program says it is; None: it does not say."""

    done: float | None = None
    """The share of the whole task's work."""
    iterations: int | None = None
    all_iterations: int | None = None
    last_iteration_s: float | None = None


def parse_progress(text: str) -> Progress | None:
    """Read the last complete line of a progress file; None: it says nothing yet."""
    whole, _, begun = text.rpartition("\n")
    lines = [line.strip() for line in (whole or begun).split("\n") if line.strip()]
    if not lines:
        return None
    line = lines[-1]
    if line.startswith("{"):
        return _from_json(line)
    if steps := _STEPS.fullmatch(line):
        return _from_steps(float(steps[1]), float(steps[2]), line)
    if share := _SHARE.fullmatch(line):
        return Progress(done=_share(float(share[1]) / (100.0 if share[2] else 1.0), line))
    raise _refused(line)


def _from_steps(done: float, whole: float, line: str) -> Progress:
    if not whole > 0 or done > whole:
        raise _refused(line)
    counted = done.is_integer() and whole.is_integer()
    return Progress(
        done=done / whole,
        iterations=int(done) if counted else None,
        all_iterations=int(whole) if counted else None,
    )


def _from_json(line: str) -> Progress:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _refused(line) from None
    done = _number(found, "done", line)
    iterations, everything = _number(found, "iterations", line), _number(found, "all_iterations", line)
    if done is None and iterations is not None and everything:
        done = iterations / everything
    return Progress(
        done=None if done is None else _share(done, line),
        iterations=None if iterations is None else int(iterations),
        all_iterations=None if everything is None else int(everything),
        last_iteration_s=_number(found, "last_iteration_s", line),
    )


def _number(found: dict[str, object], key: str, line: str) -> float | None:
    value = found.get(key)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < math.inf
        or value > 1e15
    ):
        raise _refused(line)
    return float(value)


def _share(value: float, line: str) -> float:
    if not 0 <= value <= 1:
        raise _refused(line)
    return value


def _refused(line: str) -> JobProblem:
    return JobProblem(f"progress {shorten(repr(line))} cannot be understood", rule=_RULE)
