"""What stands in the terminal at the end of a run: how it went, kind by kind, and every failure with its log.

Names and texts that tasks chose are shown, never obeyed: control characters become question marks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from weft.reports.comparison_tables import Table
from weft.reports.execution import ExecutedRun, ToldFailure
from weft.reports.execution_facts import facts_of, notes_of
from weft.reports.execution_tables import kind_table, promise_table
from weft.reports.labels import fitted, printable
from weft.units import counted

__all__ = ["execution_lines", "failure_lines"]

_SHOWN_KINDS = 20
_SHOWN_FAILURES = 5
_LOG_LINES = 5
_UNLIKELY = ("taken over", "failed", "moved", "CPU", "memory", "P50", "most", "estimate", "ratio")
"""Columns that are left out where no row has anything in them."""
_LEAST_WIDTH = 40


def execution_lines(executed: ExecutedRun, *, width: int = 100, ascii_only: bool = False) -> list[str]:
    """Sum a run up, in lines of at most so many columns."""
    lines = [executed.title]
    facts = facts_of(executed)
    room = max(len(label) for label, _ in facts)
    lines += [f"  {label:<{room}}  {text}" for label, text in facts]
    if executed.several and executed.verdicts:
        lines += ["", *_table(promise_table(executed))]
    if executed.kinds:
        lines += ["", *_table(_without_empty(kind_table(executed)))]
    told = [f"note: {note}" for note in notes_of(executed)] + failure_lines(executed)
    # Tables are cut where there is no room; what went wrong is told to its end.
    wrapped = [part for line in told for part in _wrapped(line, width, ascii_only=ascii_only)]
    return [*(_fitted(line, width, ascii_only=ascii_only) for line in lines), *wrapped]


def failure_lines(executed: ExecutedRun) -> list[str]:
    """Repeat cause, last lines and log of the failures; those for good before those that were tried again."""
    told = sorted(executed.failures, key=lambda each: not each.failed.for_good)
    lines = [line for each in told[:_SHOWN_FAILURES] for line in _failure(each, executed)]
    rest = len(told) - _SHOWN_FAILURES
    return [*lines, f"… and {counted(rest, 'more failure')}"] if rest > 0 else lines


def _failure(each: ToldFailure, executed: ExecutedRun) -> Iterator[str]:
    where = "" if each.attempt is None else f" on {executed.machine_names[each.attempt.machine]}"
    run = f"run {executed.number(each.failed.run)}: " if executed.several else ""
    yield ""
    yield f"{run}{each.headline}{where}"
    told = each.failed.reason
    yield from (f"  {text}" for text in (told, "" if each.text in told else each.text) if text)
    if each.log is not None:
        yield from (f"  | {line}" for line in each.log.lines[-_LOG_LINES:])
        yield f"  log: {each.log.path}"


def _table(table: Table) -> list[str]:
    lines = [f"  {line}" for line in table.lines()]
    rest = len(lines) - _SHOWN_KINDS - 1
    return [*lines[: _SHOWN_KINDS + 1], f"  … {rest} more"] if rest > 0 else lines


def _without_empty(table: Table) -> Table:
    """Leave out columns that say nothing."""
    columns = list(zip(table.heading, *table.rows, strict=True))
    kept = [column for column in columns if column[0] not in _UNLIKELY or set(column[1:]) - {"-"}]
    heading, *rows = zip(*kept, strict=True)
    return Table(heading=heading, rows=tuple(rows), texts=table.texts)


def _wrapped(line: str, width: int, *, ascii_only: bool) -> list[str]:
    text = printable(line, ascii_only=ascii_only)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, max(width, _LEAST_WIDTH), subsequent_indent=indent, break_on_hyphens=False
    ) or [""]


def _fitted(line: str, width: int, *, ascii_only: bool) -> str:
    return fitted(printable(line), max(width, _LEAST_WIDTH), ascii_only=ascii_only).rstrip()
