"""``weft schema``: print the JSON Schema of the file formats."""

from __future__ import annotations

import click


@click.command("schema")
@click.argument("kind", type=click.Choice(["workflow", "platform", "profile", "scenario", "grid"]))
def command(kind: str) -> None:
    """Print the JSON Schema of workflow, platform, profile, scenario or tuning-grid files.

    For an editor with the YAML language server, put this above the file: # yaml-language-server:
    $schema=workflow.json
    """
    if kind == "scenario":
        # The package formats may not import the simulation, so this schema is generated here.
        import json

        from weft.backends.simulation.scenario_reader import scenario_schema

        click.echo(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))
        return
    if kind == "grid":
        import json

        from weft.formats.schema import add_schema_header
        from weft.planners.tuning import GRID

        click.echo(json.dumps(add_schema_header("grid", GRID.shape()), indent=2, ensure_ascii=False))
        return
    from weft.formats.schema import schema_text

    click.echo(schema_text(kind), nl=False)
