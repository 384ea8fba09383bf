"""``weft show``: show the shape of a workflow."""

from __future__ import annotations

from typing import Any

import click

from weft.cli import options


@click.command("show")
@options.workflow_argument
@options.parameters
@click.option("--picture/--no-picture", default=True, help="Draw the tasks level by level.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflow: str,
    params: dict[str, Any],
    picture: bool,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Show tasks, edges, width, depth, work and the critical path of WORKFLOW."""
    from weft.formats.files import read_workflow_file
    from weft.reports.shape import draw_levels, measure_shape, shape_lines
    from weft.workflow.checks import check_and_unfold
    from weft.workflow.workflow import set_params

    loaded = set_params(read_workflow_file(workflow, format_name=format_name), params)
    graph = check_and_unfold(loaded)
    shape = measure_shape(graph)
    if as_json:
        options.print_json(shape.as_record())
        return
    options.print_lines(shape_lines(shape, verbose=verbose))
    if picture:
        click.echo()
        click.echo(draw_levels(graph, verbose=verbose))
