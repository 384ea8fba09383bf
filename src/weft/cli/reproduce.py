"""``weft reproduce``: run the experiments of the papers and compare the figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, ascii_only, stage, width
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.papers.repetition import ReproductionProgress, ReproductionResult, ResultLedger
    from weft.papers.reproduction import Reproduction, ResultRow


_FOLDER = Path(".weft") / "reproduce"


@click.command("reproduce")
@click.argument("name", required=False)
@click.option(
    "--full", is_flag=True, help="Run the complete grid as far as feasible; takes minutes, s1-tuning hours."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Runs per setting (default: as required by the tolerances).",
)
@options.seed("Seed of all random numbers; the same seed gives the same table.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="NUMBER",
    show_default=True,
    help="Run on this many local processes.",
)
@click.option("--fresh", is_flag=True, help="Delete the stored results of earlier calls and repeat all runs.")
@options.as_json
def command(
    name: str | None, full: bool, runs: int | None, seed: int, workers: int, fresh: bool, as_json: bool
) -> None:
    """Run the experiment NAME of a paper and compare its figures with the published ones.

    Without NAME, list the experiments. Every run is stored in .weft/reproduce when it ends, so an interrupted
    experiment continues where it stopped. Exit code 1: a figure is outside its tolerance.
    """
    if name is None:
        from weft.papers import REPRODUCTIONS

        options.print_titles(REPRODUCTIONS, as_json=as_json)
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
    if made.reused:
        text = f"note: the stored results of {made.reused} of {made.runs} runs were reused"
        click.echo(f"{text} ({ledger.path}); --fresh runs them again", err=True)
    if as_json:
        options.print_json(_record(reproduction, made, full=full, seed=seed))
    else:
        _show(reproduction, made, full=full, seed=seed)
    _judge(made, runs)


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
                report=repetition_progress(line),
            )
        except KeyboardInterrupt:
            click.echo(
                f"completed runs are stored ({ledger.path}); repeat the same command to continue", err=True
            )
            raise


def repetition_progress(line: ProgressLine) -> Callable[[ReproductionProgress], None] | None:
    """Return a callback that shows the completed runs and the time left; None without a terminal."""
    if line.on_progress is None:
        return None
    begun_s = time.monotonic()

    def detail(advance: ReproductionProgress) -> str:
        text = f"{advance.done:,} of {advance.total:,} runs"
        if advance.work_done <= 0:
            return text
        left_s = (time.monotonic() - begun_s) * advance.work_left / advance.work_done
        return f"{text}, about {format_seconds(left_s)} left"

    return lambda advance: line.say_if_due(lambda: detail(advance))


def _show(reproduction: Reproduction, made: ReproductionResult, *, full: bool, seed: int) -> None:
    from weft.reports.text import TextTable, shown_width

    click.echo(reproduction.title)
    click.echo(f"{'complete' if full else 'quick'}: {made.runs:,} runs, seed {seed}")
    heading = ("figure", "paper", "prototype", "ours", "runs", "tolerance")
    # One table for all rows aligns the columns; the headings are printed in between.
    aligned = TextTable(heading=heading, rows=tuple(map(_cells, made.rows)), texts=1).lines()
    width = max(map(shown_width, aligned))
    click.echo()
    click.echo(aligned[0])
    table = None
    for row, text in zip(made.rows, aligned[1:], strict=True):
        if row.table != table:
            table = row.table
            click.echo(f"\n{table}")
        click.echo(f"{text}{' ' * (width - shown_width(text))}  {_verdict(row)}")
    _draw(made)


def _draw(made: ReproductionResult) -> None:
    from weft.reports.paper_charts import chart_lines

    for chart in made.charts:
        click.echo()
        options.print_lines(chart_lines(chart, width=width(), ascii_only=ascii_only()))


def _verdict(row: ResultRow) -> str:
    """Return a text that says whether a row is within its tolerance, or why that is not decided."""
    if row.within is not None:
        return f"{'ok' if row.within else 'OUTSIDE'} {row.accepts}"
    if row.band is None:
        return f"not judged: {row.why}"
    return f"{'disturbed' if row.disturbed else 'chance'} {row.accepts}"


def _cells(row: ResultRow) -> tuple[str, ...]:
    tolerance = "" if row.band is None else row.band.text(row.unit)
    known = (row.paper or "-", row.prototype or "-")
    return (f"  {row.figure}", *known, row.text, f"{row.runs:,}", tolerance)


def _record(
    reproduction: Reproduction, made: ReproductionResult, *, full: bool, seed: int
) -> dict[str, object]:
    return {
        "name": reproduction.name,
        "title": reproduction.title,
        "full": full,
        "seed": seed,
        "runs": made.runs,
        "taken_over": made.reused,
        "within": not made.outside,
        "rows": [row.as_record() for row in made.rows],
        "charts": [chart.as_record() for chart in made.charts],
    }


def _judge(made: ReproductionResult, runs: int | None) -> None:
    """Print the figures outside their tolerances, and exit with code 1 if there are any.

    Figures that are outside their tolerance by chance, or because other programs loaded the host, are printed
    too, but do not change the exit code.
    """
    if made.disturbed:
        ids = ", ".join(dict.fromkeys(row.accepts for row in made.disturbed))
        click.echo(
            f"disturbed: {len(made.disturbed)} results ({ids}) are outside their tolerance, but other "
            "programs disturbed all attempts; repeat with --fresh on an idle host",
            err=True,
        )
    if made.by_chance:
        ids = ", ".join(dict.fromkeys(row.accepts for row in made.by_chance))
        click.echo(
            f"chance: {len(made.by_chance)} results ({ids}) are outside their tolerance, but by less than "
            "two standard errors, so they are not judged; repeat with --full or a larger number of --runs",
            err=True,
        )
    for row in made.outside:
        assert row.band is not None
        tolerance = row.band.text(row.unit)
        what = f"{row.accepts}: {row.table}: {row.figure} is {row.text}"
        click.echo(f"outside: {what}; the tolerance is {tolerance}", err=True)
    if made.outside and runs is not None:
        click.echo(
            f"note: the tolerances are for at least 12 runs per setting, and --runs was {runs}", err=True
        )
    if made.outside:
        raise click.exceptions.Exit(1)
