"""``weft settings``: show the settings of a run and where each comes from."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from weft.cli import options


@click.command("settings")
@click.argument("workflow", required=False, type=click.Path(path_type=str))
@click.option("--task", metavar="TASK", help="Show the settings of this task of WORKFLOW.")
@options.settings
@click.option("--changed", is_flag=True, help="Show only settings that differ from the default.")
@options.verbose
@options.read_format
@options.as_json
def command(
    workflow: str | None,
    *,
    task: str | None,
    preset: str,
    profile: str | None,
    settings: dict[str, Any] | None,
    changed: bool,
    verbose: bool,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Show the settings of a run of WORKFLOW, and where each is set.

    Later sources override earlier ones: default, --preset, `settings:` of the workflow, --profile, the task,
    --set. A profile is a file with `weft: 1` and `profile: {settings: {...}}`; one that is stored as
    ~/.config/weft/profiles/NAME.yaml is found by its name. With -v the meaning of every setting is printed.
    """
    from weft.api.settings import find_profile, list_settings, load_layers
    from weft.formats.files import read_workflow_file

    flow = None if workflow is None else read_workflow_file(workflow, format_name=format_name)
    found = find_profile(profile)
    layers = load_layers(preset=preset, profile=found, settings=settings)
    rows = list_settings(layers, preset=preset, profile=found, workflow=flow, task=task)
    rows = [row for row in rows if row.changed] if changed else rows
    if as_json:
        options.print_json([asdict(row) for row in rows])
        return
    width = max((len(row.key) for row in rows), default=0)
    shown = {row.key: _value_text(row.value) for row in rows}
    middle = max((len(text) for text in shown.values()), default=0)
    for row in rows:
        note = f" ({row.note})" if row.note else ""
        click.echo(f"{row.key:<{width}}  {shown[row.key]:<{middle}}  {row.origin}{note}")
        if verbose:
            click.echo(f"    {row.help.replace('`', '')}")
    if not rows:
        click.echo("every setting has its default")


def _value_text(value: object) -> str:
    """Return a value as text: a string unchanged, any other value as JSON without quotes."""
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")
