"""``weft run``: execute workflows."""

from __future__ import annotations

from typing import Any

import click

from weft.cli import options
from weft.cli.terminal import stage


@click.command("run")
@options.workflows_argument()
@options.on_backend
@click.option("--arrivals", metavar="FILE", help="Scenario file with `arrivals` during the run.")
@click.option("-n", "--dry-run", is_flag=True, help="Only plan: run no task and write no file.")
@click.option(
    "-j",
    "--jobs",
    "most_nodes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Use at most this many nodes per machine.",
)
@click.option(
    "-k",
    "--keep-going",
    is_flag=True,
    help="Continue with tasks that do not depend on a failed one, unless it states `on_failure` itself.",
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
    "--isolate",
    type=click.Choice(["none", "bubblewrap", "unshare"]),
    help="Isolate tasks that do not state `isolate`: they can use only declared files and no network.",
)
@options.policy
@options.planner
@options.objective
@options.named_plan
@options.settings
@options.planning_budget()
@options.seed("Seed of randomised planners and of arrivals.")
@options.parameters
@options.predictions
@click.option("--fresh", is_flag=True, help="Start a new run: reuse no results and resume no unfinished run.")
@options.execution_files
@options.project
@options.read_format
@options.quiet
@options.verbose
@options.as_json
def command(
    workflows: tuple[str, ...],
    *,
    arrivals: str | None,
    dry_run: bool,
    keep_going: bool,
    retries: int | None,
    isolate: str | None,
    policy: str | None,
    preset: str,
    profile: str | None,
    settings: dict[str, Any] | None,
    fresh: bool,
    report: str | None,
    trace: str | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **planning: Any,
) -> None:
    """Run every WORKFLOW on the machines of a platform and reuse valid results of earlier runs.

    State is stored in .weft of the project directory. After an interruption the same command resumes the run.
    Ctrl-C stops all programs gracefully (exit code 75, `weft resume` continues); a second Ctrl-C exits
    immediately. Exit code 1: a task failed; 3: some task can run on no machine; 4: another engine is running
    in the project.
    """
    if not workflows and arrivals is None:
        raise click.UsageError("Give a WORKFLOW, or --arrivals FILE.")
    options.check_files((), "", {"--report": report, "--trace": trace}, as_json=as_json)
    if dry_run:
        _dry(
            workflows, verbose=verbose, as_json=as_json, policy=policy, preset=preset, profile=profile,
            settings=settings, arrivals=arrivals, keep_going=keep_going, retries=retries, isolate=isolate,
            **planning,
        )  # fmt: skip
        return
    with stage("loading"):
        options.load_numpy()
        from weft.api.run import run
        from weft.cli.driver import drive_run
    drive_run(
        run, as_json=as_json, quiet=quiet, verbose=verbose, report=report, trace=trace, workflows=workflows,
        policy=policy, preset=preset, profile=profile, settings=settings, arrivals=arrivals,
        keep_going=keep_going, retries=retries, fresh=fresh, isolate=isolate, **planning,
    )  # fmt: skip


def _dry(workflows: tuple[str, ...], *, verbose: bool, as_json: bool, **planning: Any) -> None:
    with stage("planning"):
        from weft.api.run import plan_dry_run
        from weft.cli.plan import show

        plans = plan_dry_run(workflows, **planning)
    if as_json:
        options.print_json([planned.as_record() for planned in plans])
        return
    for planned in plans:
        show(planned, chart=True, verbose=verbose)
