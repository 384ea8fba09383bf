"""``weft plan``: predict time and cost and show the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import print_chart, stage
from weft.units import format_count

if TYPE_CHECKING:
    from weft.api.plan import PlannedWorkflow
    from weft.workflow.workflow import Workflow


@click.command("plan")
@options.workflow_argument
@options.on_platform
@click.option(
    "--planner",
    metavar="NAME[:OPTION=VALUE...]",
    help="Planner; `weft planners` lists them, `weft planners NAME` lists its options (default: that of the "
    "settings of WORKFLOW, else auto).",
)
@options.objective
@options.seed("Seed of randomised planners.")
@click.option(
    "--choose",
    type=click.IntRange(min=1),
    metavar="POINT",
    help="Use this point of the front last shown by `weft pareto` for WORKFLOW and PLATFORM.",
)
@options.planning_budget()
@options.planning_workers
@options.parameters
@options.predictions
@click.option(
    "--out", metavar="FILE", help="Write the schedule: .json (everything) or .csv (one line per task)."
)
@click.option("--html", metavar="FILE", help="Write the chart as an HTML page.")
@click.option("--chart/--no-chart", default=True, help="Draw the chart in the terminal.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflow: str,
    *,
    on: str,
    planner: str | None,
    objective: str | None,
    alpha: float | None,
    choose: int | None,
    out: str | None,
    html: str | None,
    chart: bool,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Predict how long WORKFLOW takes on a platform, what it costs, and where its tasks run.

    WORKFLOW is a file in any format of `weft formats`, or - for the standard input; for --out and --html, -
    is the standard output. Search planners, such as the default, stop after --plan-time, with Ctrl-C (the
    best plan found is shown), or when the plan is optimal. Planner, objective, limits and budget that no
    option states are those of the settings of WORKFLOW, as in `weft run`. Exit code 3: no plan exists, or
    the plan exceeds the deadline or the maximal cost; the message says by how much.
    """
    options.check_plan_files(workflow, on, out, html, as_json=as_json)
    if choose is not None and (planner, objective, alpha) != (None, None, None):
        raise click.UsageError("--choose uses a stored plan: omit --planner, --objective and --alpha.")
    with stage("loading"):
        from weft.api.plan import plan
        from weft.api.request import DEFAULT_PLANNER
        from weft.formats.files import load_platform, read_workflow_file

        how["on"] = load_platform(on)
    with stage(f"reading {workflow}"):
        loaded = read_workflow_file(workflow, format_name=format_name)
    if choose is None:
        name = planner or loaded.settings.get("planner") or DEFAULT_PLANNER
        with stage(f"planning {len(loaded.tasks)} task descriptions with {name}") as line:
            planned = plan(
                loaded,
                planner=planner,
                objective=objective,
                alpha=alpha,
                **how,
                progress=line.on_progress,
            )
    else:
        planned = _choose_plan(loaded, choose, how)
    if out is not None:
        from weft.api.plan import schedule_csv

        options.save_result(out, csv=lambda: schedule_csv(planned.schedule), record=planned.as_record)
    if html is not None:
        from weft.api.plan import render_plan
        from weft.formats.files import save_report

        save_report(render_plan(planned), html)
    if as_json:
        options.print_json(planned.as_record())
    elif "-" not in (out, html):
        show(planned, chart=chart, verbose=verbose)
        options.print_written(out, html)


def _choose_plan(loaded: Workflow, number: int, how: dict[str, Any]) -> PlannedWorkflow:
    from weft.cli.pareto import front_progress

    with stage(f"the front of {loaded.name}") as line:
        from weft.api.pareto import choose

        return choose(loaded, number, **how, progress=front_progress(line))


def show(planned: PlannedWorkflow, *, chart: bool, verbose: bool) -> None:
    """Print a plan: summary, Gantt chart (if ``chart``) and notes; ``verbose``: with complete lists."""
    from weft.api.plan import plan_facts, plan_view

    graph = planned.graph
    click.echo(
        f"{planned.workflow.name}: {format_count(len(graph), 'task')}, "
        f"{format_count(graph.edge_count, 'edge')} "
        f"on {planned.instance.platform.name}; {planned.planner} took {planned.planning_s:.3g} s"
    )
    options.print_pairs(plan_facts(planned), "  ")
    if chart:
        print_chart(plan_view(planned))
    options.print_lines(f"note: {note}" for note in planned.list_notes(verbose=verbose))
