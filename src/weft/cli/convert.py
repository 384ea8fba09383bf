"""``weft convert``: convert a workflow to another format."""

from __future__ import annotations

from typing import Any

import click

from weft.cli import options


@click.command("convert")
@click.argument("source", metavar="IN", type=click.Path(path_type=str))
@click.argument("target", metavar="OUT", type=click.Path(path_type=str))
@options.read_format
@click.option("--to", "to_name", metavar="FORMAT", help="Format of OUT (default: by its suffix).")
@options.parameters
@options.as_json
def command(
    source: str,
    target: str,
    format_name: str | None,
    to_name: str | None,
    params: dict[str, Any],
    as_json: bool,
) -> None:
    """Read the workflow IN and write it to OUT (- is the standard input or output).

    The format of IN is detected by its content, that of OUT by its suffix; `weft formats` lists the formats.
    """
    options.check_outputs({"OUT": target})
    from weft.formats.files import find_writer, load_workflow, save_workflow
    from weft.workflow.workflow import set_params

    writer = find_writer(target, to_name)
    workflow = set_params(load_workflow(source, format_name=format_name), params)
    save_workflow(workflow, target, format_name=to_name)
    if target == "-":
        return
    if as_json:
        options.print_json({"in": source, "out": target, "format": writer.name, "tasks": len(workflow.tasks)})
    else:
        click.echo(f"wrote {target} ({writer.title})")
