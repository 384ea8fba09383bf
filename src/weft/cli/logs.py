"""``weft logs``: print the output of a task."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.output import write_exactly
from weft.redaction import redact, redact_start, tail_bytes

if TYPE_CHECKING:
    from weft.api.project import JournalFollower, OpenProject
    from weft.api.report import TaskLog
    from weft.engine.history import AttemptRecord
    from weft.repository.runs import RunRecord


_PAUSE_S = 0.2
_MOST_BYTES = 10_000_000
"""Maximal number of bytes per stream that `--json` prints."""


@click.command("logs")
@click.argument("task")
@click.option("-f", "--follow", is_flag=True, help="Print new output until the attempt ends.")
@options.run_option
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Attempt number of the task, from 1 (default: the last).",
)
@click.option("--stderr", is_flag=True, help="Print the standard error.")
@click.option(
    "--module",
    type=click.Choice(["prolog", "epilog", "evaluator"]),
    help="Print the output of this module of the task instead.",
)
@options.project
@options.as_json
def command(
    task: str,
    follow: bool,
    run: int | None,
    attempt: int | None,
    stderr: bool,
    module: str | None,
    project: str | None,
    as_json: bool,
) -> None:
    """Print the standard output of TASK, or with --stderr its standard error.

    TASK is a name such as lapw0 or 'lapw1[3]'. 'conv#2' is the second iteration of a task in a loop;
    'conv#2.1' is the first iteration of an inner loop within the second iteration of the outer loop. If the
    printed stream is empty and the other stream is not, a note says so.
    """
    from weft.api.project import OpenProject, follow_run
    from weft.api.report import TaskLog, find_attempt
    from weft.repository.products import find_source_run

    with OpenProject.at(project) as opened:
        found, followed = follow_run(opened, run)
        tried = find_attempt(followed, found, task, attempt)
        records = opened.records(found.execution, tried.number)
        prefix = f"{module}." if module else ""
        out, err = TaskLog(records / f"{prefix}out"), TaskLog(records / f"{prefix}err")
        if as_json:
            if follow:
                raise click.UsageError("--json prints one object: omit --follow.")
            options.print_json(_record(followed, found, tried, out, err, str(records)))
            return
        log, other = (err, out) if stderr else (out, err)
        printer = _LogPrinter(log)
        printer.print_more()
        while follow and _is_running(opened, found, followed, tried):
            time.sleep(_PAUSE_S)
            printer.print_more()
        printer.print_more(last=True)
        source = None
        if (earlier := tried.reused_from) is not None:
            source = find_source_run(opened.database, found.execution, tried.number, earlier)
    if log.offset == 0:
        _explain_missing_output(tried, other, source, stderr=stderr)


def _is_running(
    opened: OpenProject, found: RunRecord, followed: JournalFollower, tried: AttemptRecord
) -> bool:
    followed.catch_up()
    return (
        tried.ended_s is None
        and not tried.ending
        and opened.state_of(opened.runs.run(found.number)) == "running"
    )


_LONGEST_LINE_BYTES = 1 << 20


class _LogPrinter:
    """Prints a log without secrets, in whole lines, because an incomplete line may end within a secret."""

    def __init__(self, log: TaskLog) -> None:
        self._log = log
        self._rest = b""

    def print_more(self, *, last: bool = False) -> None:
        """Print the complete lines written since the last call; ``last``: print an incomplete line, too."""
        for data in self._log.more():
            lines, end, rest = (self._rest + data).rpartition(b"\n")
            self._rest = rest
            self._print(lines + end)
            if len(rest) > tail_bytes(_LONGEST_LINE_BYTES):
                # The end of this part may contain the beginning of a secret.
                shown = redact(rest.decode(errors="surrogateescape"))
                cut = max(0, len(shown) - tail_bytes(0))
                self._rest = shown[cut:].encode(errors="surrogateescape")
                self._print(shown[:cut].encode(errors="surrogateescape"))
        if last:
            self._print(self._rest)
            self._rest = b""

    def _print(self, data: bytes) -> None:
        text = redact(data.decode(errors="surrogateescape"))
        if sys.stdout.isatty():
            click.echo(text.encode(errors="surrogateescape").decode(errors="replace"), nl=False)
        else:
            write_exactly(text.encode(errors="surrogateescape"))


def _explain_missing_output(
    tried: AttemptRecord, other: TaskLog, source: int | None, *, stderr: bool
) -> None:
    """Print why an attempt has no output.

    ``source`` is the number of the run whose outputs the attempt reuses; None if that run is unknown.
    ``other`` is the log of the stream that was not printed.
    """
    name, option = ("standard output", "omit --stderr") if stderr else ("standard error", "--stderr shows it")
    if tried.reused_from is not None:
        earlier, number = ("an earlier run", "") if source is None else (f"run {source}", f" {source}")
        text = f"no output: the task was reused from {earlier} (select it with --run{number})"
        click.echo(text, err=True)
    elif any(other.more()):
        click.echo(f"no output; the {name} of the task is not empty: {option}", err=True)
    elif tried.is_transfer:
        click.echo("no output: a transfer copies a file and runs no program", err=True)
    elif tried.cause == "staging":
        click.echo("no output: staging failed, so the task did not run", err=True)
    elif tried.ended_s is not None and not other.path.parent.exists():
        click.echo("no output: `weft clean` has removed the logs", err=True)
    else:
        click.echo("no output", err=True)


def _record(
    followed: JournalFollower, run: RunRecord, tried: AttemptRecord, out: TaskLog, err: TaskLog, records: str
) -> dict[str, Any]:
    names = tuple(machine.name for machine in followed.state.machines)

    def text(log: TaskLog) -> str:
        found, read_bytes = b"", tail_bytes(_MOST_BYTES)
        for data in log.more():
            found += data
            if len(found) >= read_bytes:
                break
        is_whole = len(found) < read_bytes
        return redact_start(found.decode("utf-8", errors="replace"), _MOST_BYTES, is_whole=is_whole)

    followed.history.measure_useful_work()
    attempt = tried.as_record(names) | {"run": run.number}
    return {"attempt": attempt, "records": records, "out": text(out), "err": text(err)}
