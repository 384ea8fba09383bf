"""``weft pareto``: plans that trade time against cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, stage
from weft.units import format_count

if TYPE_CHECKING:
    from weft.api.pareto import Front, Preset
    from weft.planners.pareto_front import Against
    from weft.planners.pareto_search import FrontProgress


@click.command("pareto")
@options.workflow_argument
@options.on_platform
@click.option(
    "--against",
    type=click.Choice(["cost", "idle"]),
    default="cost",
    show_default=True,
    help="Measure traded against time: the cost, or the idle share of node-time.",
)
@click.option(
    "--points",
    type=click.IntRange(min=2),
    default=10,
    metavar="NUMBER",
    show_default=True,
    help="Maximal number of points; about as many weights of time are searched.",
)
@click.option(
    "--preset",
    type=click.Choice(["s2"]),
    help="Published procedure: s2 runs the genetic search 20 times for each of five alphas.",
)
@click.option("--deadline", metavar="TIME", help="Exclude longer plans: 90, 1h30m or D-HH:MM:SS.")
@click.option("--max-cost", type=float, metavar="PRICE", help="Exclude more expensive plans.")
@options.seed("Seed of all random numbers.")
@click.option(
    "--plan-time",
    metavar="SECONDS",
    help="Search time for all points together: 30 or 1m30s (default: 10).",
)
@click.option(
    "--plan-steps",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Stop after this many steps instead of a time; the front is reproducible.",
)
@options.planning_workers
@options.parameters
@click.option(
    "--out", metavar="FILE", help="Write the front: .json (everything) or .csv (one line per point)."
)
@click.option("--html", metavar="FILE", help="Write chart and table as an HTML page.")
@options.read_format
@options.as_json
def command(
    workflow: str,
    platform: str,
    against: Against,
    points: int,
    preset: Preset | None,
    deadline: str | None,
    max_cost: float | None,
    seed: int,
    plan_time: str | None,
    plan_steps: int | None,
    workers: int,
    cluster: str | None,
    params: tuple[str, ...],
    params_file: str | None,
    out: str | None,
    html: str | None,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Show plans of WORKFLOW that trade time against cost; no plan is both faster and cheaper than another.

    Every plan is verified and shown with its node counts. The front is stored in .weft/fronts for `weft plan
    WORKFLOW --on PLATFORM --choose POINT`. Ctrl-C stops the search and shows the front found so far. Exit
    code 3: no plan meets the deadline or the maximal cost.
    """
    _check_streams(workflow, platform, as_json=as_json, out=out, html=html)
    deadline_s = options.given_seconds("--deadline", deadline)
    plan_time_s = options.given_seconds("--plan-time", plan_time)
    with stage("loading"):
        from weft.api.pareto import pareto, save_front
        from weft.formats.files import load_platform, read_workflow_file

        machines = load_platform(platform)
    with stage(f"reading {workflow}"):
        loaded = read_workflow_file(workflow, format_name=format_name)
    with stage(f"the front of {loaded.name}") as line:
        front = pareto(
            loaded, on=machines, against=against, points=points, preset=preset, deadline_s=deadline_s,
            max_cost=max_cost, seed=seed, params=options.given_params(params, params_file),
            plan_time_s=plan_time_s, plan_steps=plan_steps, workers=workers, cluster=cluster,
            progress=front_progress(line),
        )  # fmt: skip
    try:
        save_front(front)
    except OSError as error:
        click.echo(f"note: the front could not be stored for --choose: {error.strerror or error}", err=True)
    _write(front, out, html)
    if as_json:
        options.print_json(front.as_record())
    elif "-" not in (out, html):
        _show(front, [name for name in (out, html) if name])


def front_progress(line: ProgressLine) -> Callable[[FrontProgress], None] | None:
    """Return a callback that shows the progress of the front; None without a terminal."""
    if line.news is None:
        return None

    def show(progress: FrontProgress) -> None:
        text = f"{progress.done} of {progress.of} weights, {format_count(progress.points, 'point')}"
        line.say(f"{text}, {progress.filled:.0%} filled" if progress.filled else text)

    return show


def _check_streams(workflow: str, platform: str, *, as_json: bool, out: str | None, html: str | None) -> None:
    """Raise UsageError if two inputs or two outputs use the same stream, or a suffix is unknown."""
    if workflow == platform == "-":
        raise click.UsageError("WORKFLOW and --on cannot both be the standard input.")
    wanted = {"--json": as_json, "--out -": out == "-", "--html -": html == "-"}
    printing = [name for name, given in wanted.items() if given]
    if len(printing) > 1:
        raise click.UsageError(f"{' and '.join(printing)} cannot share the standard output.")
    if out not in (None, "-") and Path(str(out)).suffix not in (".json", ".csv"):
        raise click.UsageError(f"--out {out!r} must end in .json or .csv.")


def _write(front: Front, out: str | None, html: str | None) -> None:
    from weft.formats.files import save_text

    if out is not None and Path(out).suffix == ".csv":
        from weft.reports.pareto import front_csv

        save_text(front_csv(front.view), out)
    elif out is not None:
        save_text(options.json_text(front.as_record()) + "\n", out)
    if html is not None:
        from weft.reports.pareto import front_html

        save_text(front_html(front.view), html)


def _show(front: Front, written: list[str]) -> None:
    from weft.cli.terminal import width
    from weft.reports.pareto import front_lines

    view = front.view
    found = f"{format_count(len(front), 'point')} in {front.planning_s:.3g} s"
    click.echo(f"{view.title}; {found}")
    click.echo()
    utf8 = "utf" in (sys.stdout.encoding or "").lower()
    for line in front_lines(view, width=width(), ascii_only=not utf8):
        click.echo(line)
    click.echo()
    for note in front.notes:
        click.echo(f"note: {note}")
    for name in written:
        click.echo(f"wrote {name}")
