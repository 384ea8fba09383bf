"""``weft compare``: compare planners and policies on workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import stage

if TYPE_CHECKING:
    from weft.reports.comparison import PlannerComparison


@click.command("compare")
@options.workflows_argument(required=True)
@options.on_platform
@click.option(
    "--planner",
    "planners",
    multiple=True,
    metavar="NAME,NAME...",
    help="Planners, with options as in NAME:OPTION=VALUE, or all. Default: all that can plan a WORKFLOW; "
    "none if --policy is given.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME,NAME...",
    help="Policies with options, or all; each is applied in a simulated run on the platform.",
)
@click.option(
    "--baseline",
    metavar="NAME",
    help="Planner or policy:NAME whose makespan is 100 % (column ASE); default: shuffle, if it is compared.",
)
@options.measured_objective("What is compared")
@options.seed("Seed of randomised planners.")
@options.planning_budget()
@options.parameters
@click.option("--csv", "csv_file", metavar="FILE", help="Write one line per workflow and planner.")
@click.option("--html", "html_file", metavar="FILE", help="Write the tables as an HTML page.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflows: tuple[str, ...],
    *,
    on: str,
    planners: tuple[str, ...],
    policies: tuple[str, ...],
    csv_file: str | None,
    html_file: str | None,
    verbose: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Plan every WORKFLOW with every planner, simulate it under every policy, and show the makespans.

    The tables also show gap, planning time and wins. With a baseline they show ASE, the mean makespan in
    percent of the makespan of the baseline. (ASE, and BDT for wins, are measures of T. Ma and R. Buyya.)
    Every schedule is verified. A planner that cannot plan a workflow is shown as -, and the reason is printed
    below the table. For WORKFLOW and --on, - is the standard input; for --csv and --html, the standard
    output.
    """
    outputs = {"--csv": csv_file, "--html": html_file}
    options.check_files((*workflows, on), "Only one of WORKFLOW... and --on can", outputs, as_json=as_json)
    with stage("loading"):
        from weft.api.compare import compare
    chosen, simulated = (",".join(names) if names else () for names in (planners, policies))
    compared = compare(workflows, on=on, planners=chosen, policies=simulated, **how, progress=stage)
    _write(compared, csv_file, html_file)
    if as_json:
        options.print_json(compared.as_record())
    elif "-" not in (csv_file, html_file):
        _show(compared, verbose=verbose)
        options.print_written(csv_file, html_file)


def _write(compared: PlannerComparison, csv_file: str | None, html_file: str | None) -> None:
    from weft.formats.files import save_report

    if csv_file is not None:
        from weft.reports.comparison import comparison_csv

        save_report(comparison_csv(compared), csv_file)
    if html_file is not None:
        from weft.reports.comparison import comparison_html

        save_report(comparison_html(compared), html_file)


def _show(compared: PlannerComparison, *, verbose: bool) -> None:
    from weft.reports.comparison import comparison_title, refusal_lines, result_table, standing_table

    click.echo(comparison_title(compared))
    click.echo()
    for table in (result_table(compared), standing_table(compared)):
        options.print_lines(table.lines())
        click.echo()
    options.print_lines(f"no plan: {line}" for line in refusal_lines(compared, verbose=verbose))
