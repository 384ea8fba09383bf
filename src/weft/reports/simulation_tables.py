"""The tables of a simulation as texts, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.engine.history.happenings import Moved, RunStory
from weft.engine.history.history import History
from weft.engine.history.measures import Use
from weft.reports.comparison_tables import Table
from weft.studies.statistics import Summary
from weft.units import format_seconds

__all__ = ["failure_table", "migration_table", "run_table", "slowdown_table", "use_table"]

_NOTHING = "-"


def run_table(runs: Iterable[RunStory]) -> Table:
    """Give a row for each run: when it came, when and how it ended, and its slowdown."""
    rows = [
        (
            str(run.index),
            run.workflow,
            run.owner or _NOTHING,
            run.outcome or "not over",
            _loops(run.iterations),
            str(run.tasks),
            format_seconds(run.arrival_s),
            _NOTHING if run.ended_s is None else format_seconds(run.ended_s),
            format_seconds(run.alone_s),
            _NOTHING if run.slowdown is None else f"{run.slowdown:.2f}",
        )
        for run in runs
    ]
    heading = (
        "run", "workflow", "owner", "outcome", "loops", "tasks", "arrival", "end", "alone", "slowdown",
    )  # fmt: skip
    return Table(heading=heading, rows=tuple(rows), texts=5)


def _loops(iterations: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}x" for name, count in iterations.items()) or _NOTHING


def slowdown_table(slowdowns: Iterable[tuple[str, Summary]]) -> Table:
    """Give a row for each application: what its box plot shows."""
    rows = [
        (
            name,
            str(found.number),
            *(
                f"{value:.2f}"
                for value in (
                    found.least,
                    found.lower_quartile,
                    found.median,
                    found.upper_quartile,
                    found.most,
                    found.mean,
                )
            ),
        )
        for name, found in slowdowns
    ]
    heading = ("application", "runs", "least", "quarter", "median", "3 quarters", "most", "mean")
    return Table(heading=heading, rows=tuple(rows), texts=1)


def use_table(uses: Iterable[Use]) -> Table:
    """Give a row for each machine."""
    rows = [
        (
            use.machine,
            f"{use.share:.1%}",
            str(use.attempts),
            f"{use.busy_node_s:,.6g}",
            f"{use.replicated_node_s:,.6g}",
            format_seconds(use.down_s) if use.down_s else _NOTHING,
        )
        for use in uses
    ]
    heading = ("machine", "used", "attempts", "node-seconds", "replicated", "down")
    return Table(heading=heading, rows=tuple(rows), texts=1)


def migration_table(moves: Iterable[Moved], machines: tuple[str, ...]) -> Table:
    """Give a row for each migration, in the order in which they were decided."""
    rows = [
        (
            str(move.run),
            move.task if move.iteration == 1 else f"{move.task}#{move.iteration}",
            machines[move.source],
            machines[move.target],
            f"{move.reason} (called off)" if move.off else move.reason,
            format_seconds(move.at_s),
            f"{move.restart_from:.0%}" if move.restart_from else _NOTHING,
        )
        for move in moves
    ]
    return Table(heading=("run", "task", "from", "to", "reason", "at", "spared"), rows=tuple(rows), texts=5)


def failure_table(history: History) -> Table:
    """Give a row for each failure."""
    rows = [
        (
            str(failure.run),
            failure.task,
            failure.cause,
            "for good" if failure.for_good else "tried again",
            failure.reason,
            format_seconds(failure.at_s),
        )
        for failure in history.failures
    ]
    return Table(heading=("run", "task", "cause", "then", "why", "at"), rows=tuple(rows), texts=5)
