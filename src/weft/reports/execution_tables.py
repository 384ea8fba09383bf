"""The tables of an executed run as texts, for the terminal and for pages."""

from __future__ import annotations

from dataclasses import replace

from weft.engine.history.happenings import Tried
from weft.engine.remaining.promises import Promise
from weft.reports.comparison_tables import Table
from weft.reports.execution import ExecutedRun
from weft.reports.execution_path import PathStep
from weft.reports.execution_promise import Deviation
from weft.reports.promise_text import time_text
from weft.reports.simulation_tables import migration_table
from weft.units import format_bytes, format_seconds

__all__ = ["attempt_label", "deviation_table", "kind_table", "moved_table", "path_table", "promise_table"]

_NOTHING = "-"
_NOTABLE = 0.01
"""By which share of its planned time a task must differ to be listed."""
_LINKS = {
    "data": "data of",
    "iteration": "next iteration after",
    "retry": "next try after",
    "nodes": "nodes of",
    "arrival": "the run began",
}


def promise_table(executed: ExecutedRun) -> Table:
    """Give a row for each run that had a promise."""
    rows = [
        (
            str(executed.number(each.run)),
            each.workflow,
            each.word,
            _promised(each.promise),
            "unknown" if each.at_most_s is None else format_seconds(each.at_most_s),
            format_seconds(each.took_s),
            each.change_text or _NOTHING,
        )
        for each in executed.verdicts
    ]
    heading = ("run", "workflow", "promise", "P50", "P90", "took", "change")
    return Table(heading=heading, rows=tuple(rows), texts=3)


def _promised(promise: Promise) -> str:
    return time_text(promise) if promise.p50_s is None else format_seconds(promise.p50_s)


def deviation_table(executed: ExecutedRun) -> Table:
    """Give a row for each task that ran elsewhere or clearly longer or shorter than planned."""
    names = executed.machine_names
    rows = [
        (
            _label(each.task, each.iteration),
            names[each.planned_machine],
            names[each.machine] if each.machine != each.planned_machine else "as planned",
            format_seconds(each.planned_s),
            format_seconds(each.took_s),
            _signed(each.longer_s),
            _signed(each.late_s),
        )
        for each in executed.deviations
        if _notable(each)
    ]
    heading = ("task", "planned on", "ran on", "planned", "ran", "longer", "ended later")
    return Table(heading=heading, rows=tuple(rows), texts=3)


def _notable(each: Deviation) -> bool:
    return each.machine != each.planned_machine or abs(each.longer_s) > _NOTABLE * each.planned_s


def _signed(seconds: float) -> str:
    return ("" if seconds < 0 else "+") + format_seconds(seconds)


def path_table(executed: ExecutedRun) -> Table:
    """Give a row for each attempt on the critical path, by time."""
    rows = [
        (
            attempt_label(step.attempt, executed),
            executed.machine_names[step.attempt.machine],
            _why(step, executed),
            _span(step.staged_s),
            _span(step.waited_s),
            _span(step.ran_s),
            format_seconds(step.end_s - executed.origin_s),
        )
        for step in executed.path.steps
    ]
    heading = ("task", "machine", "began after", "staging", "waiting", "running", "ended at")
    return Table(heading=heading, rows=tuple(rows), texts=3)


def _why(step: PathStep, executed: ExecutedRun) -> str:
    if step.after is None:
        return _LINKS[step.link]
    return f"{_LINKS[step.link]} {attempt_label(step.after, executed)}"


def _span(seconds: float) -> str:
    return format_seconds(seconds) if seconds > 0 else _NOTHING


def _label(task: str, iteration: int) -> str:
    return task if iteration == 1 else f"{task}#{iteration}"


def attempt_label(attempt: Tried, executed: ExecutedRun) -> str:
    """Name an attempt's task; of another run than the only one that is shown, with its run."""
    label = _label(attempt.task, attempt.iteration)
    own = not executed.several and attempt.run == executed.stories[0].index
    return label if own else f"{executed.number(attempt.run)}:{label}"


def kind_table(executed: ExecutedRun) -> Table:
    """Give a row for each kind of task."""
    rows = [
        (
            f"{kind.workflow}: {kind.kind}" if executed.several else kind.kind,
            f"{kind.completed}/{kind.tasks}",
            str(kind.taken_over or _NOTHING),
            str(kind.failed or _NOTHING),
            str(kind.moved or _NOTHING),
            *(_known_s(value) for value in (kind.mean_s, kind.p50_s, kind.p90_s, kind.most_s)),
            _known_s(kind.estimate_s),
            _NOTHING if kind.ratio is None else f"{kind.ratio:.2f}",
            _NOTHING if kind.cpu_share is None else f"{kind.cpu_share:.0%}",
            _NOTHING if kind.max_rss_bytes is None else format_bytes(kind.max_rss_bytes),
        )
        for kind in executed.kinds
    ]
    heading = (
        "kind", "done", "taken over", "failed", "moved", "mean", "P50", "P90", "most", "estimate", "ratio",
        "CPU", "memory",
    )  # fmt: skip
    return Table(heading=heading, rows=tuple(rows), texts=1)


def _known_s(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_seconds(seconds)


def moved_table(executed: ExecutedRun) -> Table:
    """Give a row for each migration, its time counted from the first arrival."""
    moves = [replace(move, at_s=move.at_s - executed.origin_s) for move in executed.moves]
    return migration_table(moves, executed.machine_names)
