"""``weft tune``: compare the settings of a search planner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import stage

if TYPE_CHECKING:
    from weft.reports.tuning import TuningResult


_FOLDER = Path(".weft") / "tune"


@click.command("tune")
@options.workflow_argument
@options.on_platform
@click.option(
    "--planner",
    default="genetic",
    show_default=True,
    metavar="NAME[:OPTION=VALUE...]",
    help="Planner to tune: genetic, moldable-genetic or annealing, with options.",
)
@click.option(
    "--grid",
    metavar="FILE",
    help="File with the values of options to try; without it, only the named planner is run.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=30,
    metavar="NUMBER",
    show_default=True,
    help="Number of runs of every experiment.",
)
@options.measured_objective("Objective of the search")
@click.option(
    "--reference",
    default="best",
    metavar="VALUE",
    show_default=True,
    help="What precision and success refer to: best (of all runs), bound (lower bound of the makespan), a "
    "number, or the name of a planner.",
)
@click.option(
    "--tolerance",
    type=float,
    default=0.0,
    metavar="SHARE",
    show_default=True,
    help="Relative distance from the reference up to which a run is a success.",
)
@click.option("--stop-at-reference", is_flag=True, help="End a run when it reaches the reference.")
@click.option(
    "--plan-steps",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Maximal number of schedules that a run evaluates (default: the limit of the planner).",
)
@options.seed("Seed of all random numbers; the same seed gives the same table.")
@options.planning_workers
@click.option("--fresh", is_flag=True, help="Discard stored runs.")
@options.parameters
@click.option(
    "--out", metavar="FILE", help="Write the experiments: .csv (one line each) or .json (every run)."
)
@options.verbose
@options.read_format
@options.as_json
def command(
    workflow: str,
    *,
    on: str,
    out: str | None,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Run the search of a planner on WORKFLOW with every setting of a grid, and show which one is best.

    The table shows the precision P (distance from the reference), the improvement I over the first
    generation, the number of evaluated schedules, the share of successful runs, and the median generation in
    which the best plan was found, as in the tuning studies of the papers. Every run is stored in .weft/tune
    when it ends, so an interrupted command continues where it stopped.
    """
    options.check_plan_files(workflow, on, out, None, as_json=as_json)
    with stage("loading"):
        from weft.api.tune import tune
        from weft.backends.layout import refuse_links
        from weft.cli.reproduce import repetition_progress
        from weft.formats.files import read_workflow_file

        refuse_links(_FOLDER.parent.parent)
    with stage(f"reading {workflow}"):
        loaded = read_workflow_file(workflow, format_name=format_name)
    with stage(f"tuning {how['planner']} on {loaded.name}") as line:
        try:
            made = tune(loaded, on=on, **how, folder=_FOLDER, progress=repetition_progress(line))
        except KeyboardInterrupt:
            click.echo(
                f"completed runs are stored ({_FOLDER}); repeat the same command to continue", err=True
            )
            raise
    if made.reused:
        click.echo(
            f"note: the stored results of {made.reused} runs were reused; --fresh runs them again", err=True
        )
    if out is not None:
        from weft.reports.tuning import tuning_csv

        options.save_result(out, csv=lambda: tuning_csv(made), record=made.as_record)
    if as_json:
        options.print_json(made.as_record())
    elif out != "-":
        _show(made, verbose=verbose)
        options.print_written(out)


def _show(made: TuningResult, *, verbose: bool) -> None:
    from weft.reports.tuning import experiment_table, hidden_text, reference_text, tuning_title, value_table

    click.echo(tuning_title(made))
    click.echo(reference_text(made))
    click.echo()
    options.print_lines(experiment_table(made, verbose=verbose).lines())
    if not verbose and (text := hidden_text(made)):
        click.echo(text)
    if (values := value_table(made)) is not None:
        click.echo()
        options.print_lines(values.lines())
