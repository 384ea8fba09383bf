"""``weft pareto``: plans that trade time against cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, ascii_only, stage, width
from weft.units import format_count

if TYPE_CHECKING:
    from weft.api.pareto import Front
    from weft.planners.pareto_search import FrontProgress


@click.command("pareto")
@options.workflow_argument
@options.on_platform
@click.option(
    "--against",
    default="cost",
    metavar="MEASURE",
    show_default=True,
    help="Measure traded against time: cost, idle (the idle share of node-time), or a formula over "
    'quantities of the schedule, such as "node_seconds + 60*machines_used".',
)
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=10,
    metavar="NUMBER",
    show_default=True,
    help="Maximal number of points (not used with --preset); the search uses about as many weights of time.",
)
@click.option(
    "--preset",
    type=click.Choice(["s2"]),
    help="Published procedure: s2 runs the genetic search 20 times for each of five alphas, and shows the "
    "front of each.",
)
@click.option(
    "--deadline",
    "deadline_s",
    callback=options.read_seconds,
    metavar="TIME",
    help="Exclude longer plans: 90, 1h30m or D-HH:MM:SS.",
)
@click.option("--max-cost", type=float, metavar="PRICE", help="Exclude more expensive plans.")
@options.seed("Seed of all random numbers.")
@options.planning_budget("Search time for all points together: 30 or 1m30s (default: 10).", result="front")
@options.planning_workers
@options.parameters
@options.predictions
@click.option(
    "--out", metavar="FILE", help="Write the front: .json (everything) or .csv (one line per point)."
)
@click.option("--html", metavar="FILE", help="Write chart and table as an HTML page.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflow: str,
    *,
    on: str,
    out: str | None,
    html: str | None,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Show plans of WORKFLOW that trade time against cost; no plan is both faster and cheaper than another.

    Every plan is verified and shown with its node counts. The front is stored in .weft/fronts for `weft plan
    WORKFLOW --on PLATFORM --choose POINT`. Ctrl-C stops the search and shows the front found so far. Exit
    code 3: no plan meets the deadline or the maximal cost.
    """
    options.check_plan_files(workflow, on, out, html, as_json=as_json)
    with stage("loading"):
        from weft.api.pareto import pareto, save_front
        from weft.formats.files import load_platform, read_workflow_file

        machines = load_platform(on)
    with stage(f"reading {workflow}"):
        loaded = read_workflow_file(workflow, format_name=format_name)
    with stage(f"the front of {loaded.name}") as line:
        front = pareto(loaded, on=machines, **how, progress=front_progress(line))
    try:
        save_front(front)
    except OSError as error:
        click.echo(f"note: the front could not be stored for --choose: {error.strerror or error}", err=True)
    if out is not None:
        from weft.reports.pareto import front_csv

        options.save_result(out, csv=lambda: front_csv(front.view), record=front.as_record)
    if html is not None:
        from weft.formats.files import save_report
        from weft.reports.pareto import front_html

        save_report(front_html(front.view), html)
    if as_json:
        options.print_json(front.as_record())
    elif "-" not in (out, html):
        _show(front, verbose=verbose)
        options.print_written(out, html)


def front_progress(line: ProgressLine) -> Callable[[FrontProgress], None] | None:
    """Return a callback that shows the progress of the search for a front; None without a terminal."""
    if line.on_progress is None:
        return None

    def show(progress: FrontProgress) -> None:
        text = f"{progress.done} of {progress.of} weights, {format_count(progress.points, 'point')}"
        line.say(f"{text}, {progress.filled:.0%} of the area dominated" if progress.filled else text)

    return show


def _show(front: Front, *, verbose: bool) -> None:
    from weft.reports.pareto import front_lines

    click.echo(f"{front.view.title}; {format_count(len(front), 'point')} in {front.planning_s:.3g} s")
    click.echo()
    options.print_lines(front_lines(front.view, width=None if verbose else width(), ascii_only=ascii_only()))
    click.echo()
    options.print_lines(f"note: {note}" for note in front.notes)
