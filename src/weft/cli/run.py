"""``weft run``: execute workflows."""

from __future__ import annotations

import click

from weft.cli import options
from weft.cli.terminal import stage


@click.command("run")
@click.argument("workflows", nargs=-1, type=click.Path(path_type=str), metavar="WORKFLOW...")
@options.on_platform
@click.option("--arrivals", metavar="FILE", help="Scenario file whose `arrivals` arrive during the run.")
@click.option("-n", "--dry-run", is_flag=True, help="Only plan; run and write nothing.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Use at most this many nodes per machine.",
)
@click.option(
    "-k", "--keep-going", is_flag=True, help="Continue with tasks that do not depend on a failed one."
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Number of retries for any cause, unless a task states its own.",
)
@click.option(
    "--until", multiple=True, metavar="TASK", help="Run only TASK and its predecessors; may be repeated."
)
@click.option(
    "--policy",
    default="plan",
    show_default=True,
    metavar="NAME[:OPTION=VALUE...]",
    help="Policy that makes the decisions; `weft policies` lists them.",
)
@click.option(
    "--planner",
    default="heft",
    show_default=True,
    metavar="NAME[:OPTION=VALUE...]",
    help="Planner for policies that follow a plan; `weft planners` lists them.",
)
@click.option(
    "--preset",
    default="default",
    show_default=True,
    metavar="NAME",
    help="Adaptation settings: default, patient (no migration of slow tasks), s1, s3.",
)
@options.planning_budget
@options.seed("Seed of randomised planners and of arrivals.")
@options.parameters
@click.option("--fresh", is_flag=True, help="Start a new run: reuse no results and resume no unfinished run.")
@click.option("--report", metavar="FILE", help="Also write the HTML report to this file.")
@click.option("--trace", metavar="FILE", help="Also write the attempts as a Nextflow trace to this file.")
@options.project
@options.read_format
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@options.as_json
def command(
    workflows: tuple[str, ...],
    platform: str,
    arrivals: str | None,
    dry_run: bool,
    jobs: int | None,
    keep_going: bool,
    retries: int | None,
    until: tuple[str, ...],
    policy: str,
    planner: str,
    preset: str,
    plan_time: str | None,
    plan_steps: int | None,
    seed: int,
    params: tuple[str, ...],
    params_file: str | None,
    fresh: bool,
    report: str | None,
    trace: str | None,
    project: str | None,
    format_name: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run every WORKFLOW on this computer and reuse valid results of earlier runs.

    State is stored in .weft of the project directory. After an interruption the same command resumes the run.
    Ctrl-C stops all programs in order (exit code 75, `weft resume` continues); a second Ctrl-C exits
    immediately. Exit code 1: a task failed; 3: some task can run on no machine; 4: another engine is running
    in the project.
    """
    if not workflows and arrivals is None:
        raise click.UsageError("Give a WORKFLOW, or --arrivals FILE.")
    wanted = {"--json": as_json, "--report -": report == "-", "--trace -": trace == "-"}
    printing = [name for name, given in wanted.items() if given]
    if len(printing) > 1:
        raise click.UsageError(f"{' and '.join(printing)} cannot share the standard output.")
    how = {
        "on": platform, "project": project, "planner": planner, "until": until, "most_nodes": jobs,
        "plan_time_s": options.given_seconds("--plan-time", plan_time), "plan_steps": plan_steps,
        "seed": seed, "format_name": format_name,
        "params": options.given_params(params, params_file),
    }  # fmt: skip
    if dry_run:
        _dry(workflows, as_json=as_json, **how)
        return
    with stage("loading"):
        from weft.api.run import run
        from weft.cli.driver import drive_run
    printed = "-" in (report, trace)
    drive_run(
        run, as_json=as_json, quiet=quiet or printed, report=report, trace=trace, workflows=workflows,
        policy=policy, preset=preset, arrivals=arrivals, keep_going=keep_going, retries=retries, fresh=fresh,
        **how,
    )  # fmt: skip


def _dry(workflows: tuple[str, ...], *, as_json: bool, **how: object) -> None:
    if not workflows:
        raise click.UsageError("--dry-run needs a WORKFLOW.")
    with stage("planning"):
        from weft.api.run import plan_dry_run
        from weft.cli.plan import show

        plans = plan_dry_run(workflows, **how)  # type: ignore[arg-type]  # the options of this command
    if as_json:
        options.print_json([planned.as_record() for planned in plans])
        return
    for planned in plans:
        show(planned, chart=True, written=[])
