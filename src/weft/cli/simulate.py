"""``weft simulate``: simulate runs with perturbed machines and arriving workflows."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import ProgressLine, stage
from weft.units import format_count, format_seconds

if TYPE_CHECKING:
    from weft.api.simulation import SimulatedRuns, SimulationProgress


_SHOWN = 20
"""Maximal number of table rows printed."""

_PAUSE_S = 0.1


@click.command("simulate")
@click.argument("workflows", nargs=-1, type=click.Path(path_type=str), metavar="WORKFLOW...")
@options.on_platform
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
    "--scenario",
    metavar="FILE",
    help="Scenario with the actual behaviour (default: everything as estimated).",
)
@click.option(
    "--preset",
    default="default",
    show_default=True,
    metavar="NAME",
    help="Adaptation settings: default, patient (no migration of slow tasks), s1, s3.",
)
@options.seed("Seed of the scenario and of randomised planners.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Number of consecutive seeds; shows median and spread.",
)
@click.option(
    "--plan-steps",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="NUMBER",
    help="Step budget of search planners for each plan.",
)
@options.parameters
@click.option("--journal", metavar="FILE", help="Write the journal, for `weft replay` and `weft explain`.")
@click.option("--html", metavar="FILE", help="Write charts and tables as an HTML page.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write one line per attempt (CSV).")
@click.option("--chart/--no-chart", default=True, help="Draw the chart in the terminal.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflows: tuple[str, ...],
    platform: str,
    policy: str,
    planner: str,
    scenario: str | None,
    preset: str,
    seed: int,
    repeat: int,
    plan_steps: int,
    params: tuple[str, ...],
    params_file: str | None,
    journal: str | None,
    html: str | None,
    csv_file: str | None,
    chart: bool,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Simulate every WORKFLOW, submitted at time 0, and the arrivals of a scenario on a platform.

    The engine is the one of real runs. For WORKFLOW, --on and --scenario, - is the standard input; for --html
    and --csv, the standard output. With --repeat, --html and --csv show the first seed. Exit code 1: some run
    failed or cannot continue, and the notes say why; 3: some task can run on no machine.
    """
    _check_streams((*workflows, platform, scenario), as_json=as_json, html=html, csv_file=csv_file)
    if journal is not None and (repeat > 1 or journal == "-"):
        raise click.UsageError("--journal needs a file and holds one simulation: omit --repeat.")
    with stage("loading"):
        from weft.api.simulation import simulate
    with stage("simulating") as line:
        simulated = simulate(
            workflows,
            on=platform,
            policy=policy,
            planner=planner,
            scenario=scenario,
            preset=preset,
            seed=seed,
            repeat=repeat,
            plan_steps=plan_steps,
            params=options.given_params(params, params_file),
            format_name=format_name,
            journal=journal,
            progress=_progress_callback(line),
        )
    _write(simulated, html, csv_file)
    if as_json:
        options.print_json(simulated.as_record())
    elif "-" not in (html, csv_file):
        _show(
            simulated,
            chart=chart,
            verbose=verbose,
            written=[name for name in (journal, html, csv_file) if name],
        )
    if simulated.outcome != "completed":
        raise click.exceptions.Exit(1)


def _check_streams(
    read: tuple[str | None, ...], *, as_json: bool, html: str | None, csv_file: str | None
) -> None:
    """Raise UsageError if two inputs or two outputs use the same stream."""
    if read.count("-") > 1:
        raise click.UsageError("Only one of WORKFLOW..., --on and --scenario can be the standard input.")
    wanted = {"--json": as_json, "--html -": html == "-", "--csv -": csv_file == "-"}
    printing = [name for name, given in wanted.items() if given]
    if len(printing) > 1:
        raise click.UsageError(f"{' and '.join(printing)} cannot share the standard output.")


def _progress_callback(line: ProgressLine) -> SimulationProgress | None:
    """Return a callback that shows the progress; None without a terminal."""
    if line.news is None:
        return None
    shown_s = 0.0

    def show(entries: int, now_s: float, active: int) -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s >= _PAUSE_S:
            shown_s = time.monotonic()
            line.say(
                f"{format_seconds(now_s)}, {entries:,} events, {format_count(active, 'active workflow')}"
            )

    return show


def _write(simulated: SimulatedRuns, html: str | None, csv_file: str | None) -> None:
    from weft.formats.files import save_text

    if html is not None:
        from weft.api.simulation import render_simulation

        save_text(render_simulation(simulated), html)
    if csv_file is not None:
        from weft.reports.simulation import attempts_csv

        run = simulated.first
        save_text(attempts_csv(run.history, run.machine_names), csv_file)


def _show(simulated: SimulatedRuns, *, chart: bool, verbose: bool, written: list[str]) -> None:
    from weft.api.simulation import simulation_facts, simulation_notes, simulation_title, spread_facts

    click.echo(f"{simulation_title(simulated)}; scenario {simulated.scenario}, preset {simulated.preset}")
    if len(simulated.runs) > 1:
        seeds = f"seeds {simulated.first.seed} to {simulated.runs[-1].seed}"
        click.echo(f"{format_count(len(simulated.runs), 'simulation')}, {seeds}:")
        _facts(spread_facts(simulated))
        click.echo(f"the first of them, seed {simulated.first.seed}:")
    _facts(simulation_facts(simulated.first))
    _tables(simulated, verbose=verbose)
    if chart:
        _chart(simulated)
    for note in simulation_notes(simulated.first):
        click.echo(f"note: {note}")
    for name in written:
        click.echo(f"wrote {name}")


def _facts(facts: list[tuple[str, str]]) -> None:
    label_width = max(len(label) for label, _ in facts)
    for label, text in facts:
        click.echo(f"  {label:<{label_width}}  {text}")


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
        for text in lines[:most]:
            click.echo(f"  {text}")
        if len(lines) > most:
            click.echo(f"  … {len(lines) - most} more")


def _chart(simulated: SimulatedRuns) -> None:
    from weft.api.simulation import simulation_view
    from weft.cli.terminal import colored, width
    from weft.reports import REPORTS
    from weft.reports.simulation import simulation_chart

    utf8 = "utf" in (sys.stdout.encoding or "").lower()
    gantt = REPORTS.load("gantt-text")()
    drawn = gantt.render(
        simulation_chart(simulation_view(simulated)),
        width=width(),
        color=colored(),
        ascii=not utf8,
        heading=False,
    )
    click.echo()
    click.echo(drawn, color=colored())
