"""``weft reproduce``: the papers' experiments, run again, with their figures beside ours."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, stage, width

if TYPE_CHECKING:
    from weft.papers.repetition import ReproductionProgress, ReproductionResult, ResultLedger
    from weft.papers.reproduction import Reproduction, ResultRow

__all__ = ["command"]

_FOLDER = Path(".weft") / "reproduce"
_PAUSE_S = 0.1
"""News that come faster than anybody reads are left out."""


@click.command("reproduce")
@click.argument("name", required=False)
@click.option(
    "--full",
    is_flag=True,
    help="Run the complete grid, or as much of it as can be run: minutes, for s1-tuning hours.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Run every setting so many times; if not given, as the tolerances need it.",
)
@options.seed("Seed of all random numbers; the same seed gives the same table.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="NUMBER",
    show_default=True,
    help="Run on so many processes of this host.",
)
@click.option("--fresh", is_flag=True, help="Forget the runs made before.")
@options.as_json
def command(
    name: str | None, full: bool, runs: int | None, seed: int, workers: int, fresh: bool, as_json: bool
) -> None:
    """Run the experiment NAME of a paper again and set its figures beside ours.

    Without NAME the experiments are listed. Every run is kept in .weft/reproduce as soon as it is made: what
    was ended goes on where it was. The exit code is 1 if a figure lies outside its tolerance.
    """
    if name is None:
        _list(as_json=as_json)
        return
    with stage(f"{name}: loading") as line:
        from weft.backends.layout import refuse_links
        from weft.papers import REPRODUCTIONS
        from weft.papers.repetition import ResultLedger, ledger_path

        reproduction: Reproduction = REPRODUCTIONS.load(name)()
        refuse_links(_FOLDER.parent.parent)
        ledger = ResultLedger(ledger_path(_FOLDER, reproduction, seed))
        if fresh:
            ledger.delete()
        line.text = name
        made = _run_reproduction(reproduction, ledger, line, full=full, runs=runs, seed=seed, workers=workers)
    if made.taken_over:
        told = f"note: {made.taken_over} of {made.runs} runs were made before"
        click.echo(f"{told} ({ledger.path}); --fresh makes them again", err=True)
    if as_json:
        options.print_json(_record(reproduction, made, full=full, seed=seed))
    else:
        _show(reproduction, made, full=full, seed=seed)
    _judge(made, runs)


def _list(*, as_json: bool) -> None:
    from weft.papers import REPRODUCTIONS

    titles = {name: REPRODUCTIONS.load(name).title for name in REPRODUCTIONS}
    if as_json:
        options.print_json([{"name": name, "title": title} for name, title in titles.items()])
        return
    width = max(len(name) for name in titles)
    for name, title in titles.items():
        click.echo(f"{name:<{width}}  {title}")


def _run_reproduction(
    reproduction: Reproduction,
    ledger: ResultLedger,
    line: ProgressLine,
    *,
    full: bool,
    runs: int | None,
    seed: int,
    workers: int,
) -> ReproductionResult:
    from weft.papers.repetition import reproduce
    from weft.pools.pool import make_pool

    with make_pool("serial" if workers == 1 else f"processes:{workers}") as pool:
        try:
            return reproduce(
                reproduction,
                ledger,
                full=full,
                runs=runs,
                seed=seed,
                pool=pool,
                tell=None if line.news is None else _RemainingTime(line).tell,
            )
        except KeyboardInterrupt:
            click.echo(f"the runs made so far are kept ({ledger.path}); the same command goes on", err=True)
            raise


class _RemainingTime:
    """Says how long it will still take, from how long it took."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._begun_s = time.monotonic()
        self._told_s = 0.0

    def tell(self, advance: ReproductionProgress) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < _PAUSE_S:
            return
        from weft.units import format_seconds

        self._told_s = now_s
        told = f"{advance.done:,} of {advance.total:,} runs"
        if advance.work_done > 0:
            left_s = (now_s - self._begun_s) * advance.work_left / advance.work_done
            told += f", about {format_seconds(left_s)} left"
        self._line.say(told)


def _show(reproduction: Reproduction, made: ReproductionResult, *, full: bool, seed: int) -> None:
    from weft.reports.comparison import TextTable

    click.echo(reproduction.title)
    click.echo(f"{'complete' if full else 'quick'}: {made.runs:,} runs, seed {seed}")
    heading = ("figure", "paper", "prototype", "ours", "runs", "tolerance", "")
    # One table for all, so that columns stand below each other; headings are put in between.
    lines = TextTable(heading=heading, rows=tuple(map(_cells, made.rows)), texts=1).lines()
    click.echo()
    click.echo(lines[0])
    table = None
    for row, text in zip(made.rows, lines[1:], strict=True):
        if row.table != table:
            table = row.table
            click.echo(f"\n{table}")
        click.echo(text)
    _draw(made)


def _draw(made: ReproductionResult) -> None:
    from weft.reports.paper_charts import chart_lines

    utf8 = "utf" in (sys.stdout.encoding or "").lower()
    for chart in made.charts:
        click.echo()
        for line in chart_lines(chart, width=width(), ascii_only=not utf8):
            click.echo(line)


def _cells(row: ResultRow) -> tuple[str, ...]:
    verdict = {None: "", True: f"ok {row.accepts}", False: f"OUTSIDE {row.accepts}"}[row.within]
    tolerance = "" if row.band is None else row.band.text(row.unit)
    known = (row.paper or "-", row.prototype or "-")
    return (f"  {row.figure}", *known, row.text, f"{row.runs:,}", tolerance, verdict)


def _record(
    reproduction: Reproduction, made: ReproductionResult, *, full: bool, seed: int
) -> dict[str, object]:
    return {
        "name": reproduction.name,
        "title": reproduction.title,
        "full": full,
        "seed": seed,
        "runs": made.runs,
        "taken_over": made.taken_over,
        "within": not made.outside,
        "rows": [row.as_record() for row in made.rows],
        "charts": [chart.as_record() for chart in made.charts],
    }


def _judge(made: ReproductionResult, runs: int | None) -> None:
    """Name the figures outside their tolerances, and end with 1 if there are any."""
    for row in made.outside:
        assert row.band is not None
        tolerance = row.band.text(row.unit)
        what = f"{row.accepts}: {row.table}: {row.figure} is {row.text}"
        click.echo(f"outside: {what}; the tolerance is {tolerance}", err=True)
    if made.outside and runs is not None:
        click.echo(f"note: the tolerances are for at least 12 runs each, and --runs was {runs}", err=True)
    if made.outside:
        raise click.exceptions.Exit(1)
