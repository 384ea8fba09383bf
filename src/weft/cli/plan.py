"""``weft plan``: predict time and cost and show the schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import stage
from weft.units import format_count

if TYPE_CHECKING:
    from weft.api.plan import PlannedWorkflow
    from weft.workflow.workflow import Workflow


_OBJECTIVE_HELP = """Objective of the plan: makespan, cost, local, on-demand, static, static-literal,
static-idle-fraction, speedup, efficiency, communication, synchronisation, overhead, lost-parallelism,
throughput. A planner that does not support it says so."""


@click.command("plan")
@options.workflow_argument
@options.on_platform
@click.option(
    "--planner",
    default="auto",
    show_default=True,
    metavar="NAME[:OPTION=VALUE...]",
    help="Planner; `weft planners` lists them, `weft planners NAME` lists its options.",
)
@click.option("--objective", default="makespan", metavar="NAME", show_default=True, help=_OBJECTIVE_HELP)
@click.option(
    "--alpha",
    type=float,
    metavar="NUMBER",
    help="Weight of time (1) against cost (0) in on-demand and static objectives (default: 0.5).",
)
@click.option(
    "--deadline",
    metavar="TIME",
    help="Maximal makespan: 90, 1h30m or D-HH:MM:SS; exit code 3 if exceeded.",
)
@click.option(
    "--max-cost",
    type=float,
    metavar="PRICE",
    help="Maximal price of all node-hours; exit code 3 if exceeded.",
)
@options.seed("Seed of randomised planners.")
@click.option(
    "--choose",
    type=click.IntRange(min=1),
    metavar="POINT",
    help="Use this point of the front last shown by `weft pareto` for WORKFLOW and PLATFORM.",
)
@options.planning_budget
@options.planning_workers
@options.parameters
@click.option(
    "--out", metavar="FILE", help="Write the schedule: .json (everything) or .csv (one line per task)."
)
@click.option("--html", metavar="FILE", help="Write the chart as an HTML page.")
@click.option("--chart/--no-chart", default=True, help="Draw the chart in the terminal.")
@options.read_format
@options.as_json
def command(
    workflow: str,
    platform: str,
    planner: str,
    objective: str,
    alpha: float | None,
    deadline: str | None,
    max_cost: float | None,
    seed: int,
    choose: int | None,
    plan_time: str | None,
    plan_steps: int | None,
    workers: int,
    cluster: str | None,
    params: tuple[str, ...],
    params_file: str | None,
    out: str | None,
    html: str | None,
    chart: bool,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Predict how long WORKFLOW takes on a platform, what it costs, and where its tasks run.

    WORKFLOW is a file in any format of `weft formats`, or - for the standard input; for --out and --html, -
    is the standard output. Search planners, such as the default, stop after --plan-time, with Ctrl-C (the
    best plan found is shown), or when the plan is optimal. Exit code 3: no plan exists, or the plan exceeds
    the deadline or the maximal cost; the message says by how much.
    """
    _check_streams(workflow, platform, as_json=as_json, out=out, html=html)
    if choose is not None and (planner, objective, alpha) != ("auto", "makespan", None):
        raise click.UsageError("--choose uses a stored plan: omit --planner, --objective and --alpha.")
    deadline_s = options.given_seconds("--deadline", deadline)
    plan_time_s = options.given_seconds("--plan-time", plan_time)
    with stage("loading"):
        from weft.api.plan import plan
        from weft.formats.files import load_platform, read_workflow_file

        machines = load_platform(platform)
    with stage(f"reading {workflow}"):
        loaded = read_workflow_file(workflow, format_name=format_name)
    how: dict[str, Any] = {
        "on": machines, "deadline_s": deadline_s, "max_cost": max_cost, "seed": seed,
        "params": options.given_params(params, params_file), "plan_time_s": plan_time_s,
        "plan_steps": plan_steps, "workers": workers, "cluster": cluster,
    }  # fmt: skip
    if choose is None:
        with stage(f"planning {len(loaded.tasks)} task descriptions with {planner}") as line:
            planned = plan(
                loaded, planner=planner, objective=objective, alpha=alpha, **how, progress=line.news
            )
    else:
        planned = _choose_plan(loaded, choose, how)
    if out is not None:
        _write(planned, out)
    if html is not None:
        from weft.api.plan import render_plan
        from weft.formats.files import save_text

        save_text(render_plan(planned), html)
    if as_json:
        options.print_json(planned.as_record())
    elif "-" not in (out, html):
        show(planned, chart=chart, written=[name for name in (out, html) if name])


def _choose_plan(loaded: Workflow, number: int, how: dict[str, Any]) -> PlannedWorkflow:
    from weft.cli.pareto import front_progress

    with stage(f"the front of {loaded.name}") as line:
        from weft.api.pareto import choose

        return choose(loaded, number, **how, progress=front_progress(line))


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


def _write(planned: PlannedWorkflow, out: str) -> None:
    from weft.formats.files import save_text

    if Path(out).suffix == ".csv":
        from weft.api.plan import schedule_csv

        save_text(schedule_csv(planned.schedule), out)
    else:
        save_text(options.json_text(planned.as_record()) + "\n", out)


def show(planned: PlannedWorkflow, *, chart: bool, written: list[str]) -> None:
    """Print a plan: numbers, chart and notes."""
    from weft.api.plan import plan_facts, plan_view

    graph = planned.graph
    click.echo(
        f"{planned.workflow.name}: {format_count(len(graph), 'task')}, "
        f"{format_count(graph.edge_count, 'edge')} "
        f"on {planned.instance.platform.name}; {planned.planner} took {planned.planning_s:.3g} s"
    )
    label_width = max(len(label) for label, _ in plan_facts(planned))
    for label, text in plan_facts(planned):
        click.echo(f"  {label:<{label_width}}  {text}")
    if chart:
        from weft.cli.terminal import colored, width
        from weft.reports import REPORTS

        click.echo()
        gantt = REPORTS.load("gantt-text")()
        utf8 = "utf" in (sys.stdout.encoding or "").lower()
        chart_text = gantt.render(
            plan_view(planned), width=width(), color=colored(), ascii=not utf8, heading=False
        )
        click.echo(chart_text, color=colored())
    for note in planned.notes:
        click.echo(f"note: {note}")
    for name in written:
        click.echo(f"wrote {name}")
