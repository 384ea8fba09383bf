"""``weft simulate``: simulate runs with perturbed machines and arriving workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, print_chart, stage
from weft.units import format_count, format_seconds

if TYPE_CHECKING:
    from weft.api.simulation import SimulatedRuns, SimulationProgress


_SHOWN = 20
"""Maximal number of rows printed per table."""


@click.command("simulate")
@options.workflows_argument()
@options.on_simulated
@options.policy
@options.planner
@options.objective
@options.named_plan
@click.option(
    "--scenario",
    metavar="FILE",
    help="Scenario with the actual behaviour. Default: all times are as estimated and all exit codes are 0, "
    "so a loop that repeats until a success runs once.",
)
@options.settings
@options.seed("Seed of the scenario and of randomised planners.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Number of consecutive seeds; shows median and spread.",
)
@options.planning_budget(result="simulation")
@options.parameters
@options.predictions
@click.option("--journal", metavar="FILE", help="Write the journal, for `weft replay` and `weft explain`.")
@click.option("--html", metavar="FILE", help="Write charts and tables as an HTML page.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write one line per attempt (CSV).")
@click.option("--chart/--no-chart", default=True, help="Draw the chart in the terminal.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflows: tuple[str, ...],
    *,
    on: str | None,
    scenario: str | None,
    repeat: int,
    journal: str | None,
    html: str | None,
    csv_file: str | None,
    chart: bool,
    verbose: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Simulate every WORKFLOW, submitted at time 0, and the arrivals of a scenario on a platform.

    The engine is the one of real runs. For WORKFLOW, --on and --scenario, - is the standard input; for --html
    and --csv, the standard output. With --repeat, --html and --csv show the first seed. Exit code 1: some run
    failed or cannot continue, and the notes say why; 3: some task can run on no machine.
    """
    if journal is not None and (repeat > 1 or journal == "-"):
        raise click.UsageError("--journal needs a file and holds one simulation: omit --repeat.")
    outputs = {"--journal": journal, "--html": html, "--csv": csv_file}
    inputs = (*workflows, on, scenario)
    options.check_files(inputs, "Only one of WORKFLOW..., --on and --scenario can", outputs, as_json=as_json)
    with stage("loading"):
        from weft.api.simulation import simulate
    with stage("simulating") as line:
        simulated = simulate(
            workflows, on=on, scenario=scenario, repeat=repeat, journal=journal, **how,
            progress=_progress_callback(line),
        )  # fmt: skip
    _write(simulated, html, csv_file)
    if as_json:
        options.print_json(simulated.as_record())
    elif "-" not in (html, csv_file):
        _show(simulated, chart=chart, verbose=verbose)
        options.print_written(journal, html, csv_file)
    if simulated.outcome != "completed":
        raise click.exceptions.Exit(1)


def _progress_callback(line: ProgressLine) -> SimulationProgress | None:
    """Return a callback that shows the progress of the simulation; None without a terminal."""
    if line.on_progress is None:
        return None
    return lambda entries, now_s, active: line.say_if_due(
        lambda: f"{format_seconds(now_s)}, {entries:,} events, {format_count(active, 'active workflow')}"
    )


def _write(simulated: SimulatedRuns, html: str | None, csv_file: str | None) -> None:
    from weft.formats.files import save_report

    if html is not None:
        from weft.api.simulation import render_simulation

        save_report(render_simulation(simulated), html)
    if csv_file is not None:
        from weft.reports.simulation import attempts_csv

        run = simulated.first
        save_report(attempts_csv(run.history, run.machine_names), csv_file)


def _show(simulated: SimulatedRuns, *, chart: bool, verbose: bool) -> None:
    from weft.api.simulation import simulation_facts, simulation_notes, simulation_title, spread_facts

    click.echo(f"{simulation_title(simulated)}; scenario {simulated.scenario}, preset {simulated.preset}")
    if len(simulated.runs) > 1:
        seeds = f"seeds {simulated.first.seed} to {simulated.runs[-1].seed}"
        click.echo(f"{format_count(len(simulated.runs), 'simulation')}, {seeds}:")
        options.print_pairs(spread_facts(simulated), "  ")
        click.echo(f"the first of them, seed {simulated.first.seed}:")
    options.print_pairs(simulation_facts(simulated.first), "  ")
    _tables(simulated, verbose=verbose)
    if chart:
        from weft.api.simulation import simulation_view
        from weft.reports.simulation import simulation_chart

        print_chart(simulation_chart(simulation_view(simulated)))
    options.print_lines(f"note: {note}" for note in simulation_notes(simulated.first))


def _tables(simulated: SimulatedRuns, *, verbose: bool) -> None:
    from weft.reports.simulation import failure_table, migration_table, run_table, slowdown_table, use_table

    run = simulated.first
    history = run.history
    tables = [run_table(history.runs)]
    if len(history.runs) > 1 and run.slowdown_of:
        tables.append(slowdown_table(run.slowdown_of.items()))
    if history.moves:
        tables.append(migration_table(history.moves, run.machine_names))
    if history.failures:
        tables.append(failure_table(history))
    tables.append(use_table(run.uses))
    for table in tables:
        click.echo()
        lines = table.lines()
        most = len(lines) if verbose else _SHOWN + 1
        options.print_lines(lines[:most], "  ")
        if len(lines) > most:
            click.echo(f"  … {len(lines) - most} more")
