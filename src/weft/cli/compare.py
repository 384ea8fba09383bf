"""``weft compare``: compare planners on workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import stage

if TYPE_CHECKING:
    from weft.reports.comparison import PlannerComparison


@click.command("compare")
@click.argument("workflows", nargs=-1, required=True, type=click.Path(path_type=str), metavar="WORKFLOW...")
@options.on_platform
@click.option(
    "--planner",
    "planners",
    multiple=True,
    metavar="NAME,NAME...",
    help="Planners with options NAME:OPTION=VALUE, or all; default: all that can plan the workflows.",
)
@options.seed("Seed of randomised planners.")
@options.planning_budget
@options.parameters
@click.option("--csv", "csv_file", metavar="FILE", help="Write one line per workflow and planner.")
@click.option("--html", "html_file", metavar="FILE", help="Write the tables as an HTML page.")
@options.read_format
@options.as_json
def command(
    workflows: tuple[str, ...],
    platform: str,
    planners: tuple[str, ...],
    seed: int,
    plan_time: str | None,
    plan_steps: int | None,
    params: tuple[str, ...],
    params_file: str | None,
    csv_file: str | None,
    html_file: str | None,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Plan every WORKFLOW with every planner and show makespan, gap, time and wins.

    Every schedule is verified. A planner that cannot plan a workflow is shown as - with the reason below. For
    WORKFLOW and --on, - is the standard input; for --csv and --html, the standard output.
    """
    _check_streams(workflows, platform, as_json=as_json, csv_file=csv_file, html_file=html_file)
    plan_time_s = options.given_seconds("--plan-time", plan_time)
    with stage("loading"):
        from weft.api.compare import compare
    compared = compare(
        workflows,
        on=platform,
        planners=",".join(planners) if planners else (),
        seed=seed,
        params=options.given_params(params, params_file),
        format_name=format_name,
        plan_time_s=plan_time_s,
        plan_steps=plan_steps,
        progress=stage,
    )
    _write(compared, csv_file, html_file)
    if as_json:
        options.print_json(compared.as_record())
    elif "-" not in (csv_file, html_file):
        _show(compared, [name for name in (csv_file, html_file) if name])


def _check_streams(
    workflows: tuple[str, ...], platform: str, *, as_json: bool, csv_file: str | None, html_file: str | None
) -> None:
    """Raise UsageError if two inputs or two outputs use the same stream."""
    if (*workflows, platform).count("-") > 1:
        raise click.UsageError("Only one of WORKFLOW... and --on can be the standard input.")
    wanted = {"--json": as_json, "--csv -": csv_file == "-", "--html -": html_file == "-"}
    printing = [name for name, given in wanted.items() if given]
    if len(printing) > 1:
        raise click.UsageError(f"{' and '.join(printing)} cannot share the standard output.")


def _write(compared: PlannerComparison, csv_file: str | None, html_file: str | None) -> None:
    from weft.formats.files import save_text

    if csv_file is not None:
        from weft.reports.comparison import comparison_csv

        save_text(comparison_csv(compared), csv_file)
    if html_file is not None:
        from weft.reports.comparison import comparison_html

        save_text(comparison_html(compared), html_file)


def _show(compared: PlannerComparison, written: list[str]) -> None:
    from weft.reports.comparison import comparison_title, refusal_lines, result_table, standing_table

    click.echo(comparison_title(compared))
    click.echo()
    for table in (result_table(compared), standing_table(compared)):
        for line in table.lines():
            click.echo(line)
        click.echo()
    for line in refusal_lines(compared):
        click.echo(f"no plan: {line}")
    for name in written:
        click.echo(f"wrote {name}")
