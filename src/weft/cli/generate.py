"""``weft generate``: generate random workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import stage

if TYPE_CHECKING:
    from weft.workflow.generators.generator import GeneratedWorkflow


@click.command("generate")
@click.argument("kind", required=False)
@click.option(
    "-s",
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the generator; may be repeated.",
)
@options.seed("Seed of all random numbers; the same seed gives the same workflow.")
@click.option("-o", "--out", default="-", metavar="FILE", help="Output file (default: standard output).")
@click.option("--platform-out", metavar="FILE", help="Write the platform of the workflow to this file.")
@click.option("--to", "to_name", metavar="FORMAT", help="Format of FILE (default: by its suffix).")
@click.option("--list", "listing", is_flag=True, help="List the kinds with their parameters.")
@options.as_json
def command(
    kind: str | None,
    settings: tuple[str, ...],
    seed: int,
    out: str,
    platform_out: str | None,
    to_name: str | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Generate a random workflow of a KIND, and the platform it is meant for.

    Without KIND, or with --list, list the kinds and their parameters. For -o and --platform-out, - is the
    standard output. Example: weft generate montage -s tasks=100 -o montage.yaml
    """
    if kind is None or listing:
        _list(kind, as_json=as_json)
        return
    outputs = {"the workflow": out == "-", "--platform-out -": platform_out == "-", "--json": as_json}
    options.check_streams((), "", outputs, advice="; write the workflow with -o FILE")
    options.check_outputs({"--out": out, "--platform-out": platform_out})
    given = _given(settings)
    with stage(f"generating {kind}"):
        from weft.api.generate import generate
        from weft.formats.files import find_writer, save_text

        writer = find_writer(out, "weft" if out == "-" and to_name is None else to_name)
        made = generate(kind, seed=seed, **given)
        text = writer.write(made.workflow)
        platform = None if platform_out is None else _platform_text(kind, made)
    save_text(text, out)
    if platform_out is not None and platform is not None:
        save_text(platform, platform_out)
    if as_json:
        options.print_json(
            {
                "kind": kind,
                "seed": seed,
                "workflow": made.workflow.name,
                "out": out,
                "format": writer.name,
                "platform_out": platform_out,
            }
        )
    elif "-" not in (out, platform_out):
        _print_written(made, out, platform_out)


def _given(settings: tuple[str, ...]) -> dict[str, str]:
    from weft.errors import InvalidInput, Problem, shorten

    found: dict[str, str] = {}
    problems: list[Problem] = []
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            problems.append(Problem(what=f"-s {shorten(repr(item))}", rule="must be NAME=VALUE"))
        found[name.strip()] = value.strip()
    if problems:
        raise InvalidInput(problems)
    return found


def _platform_text(kind: str, made: GeneratedWorkflow) -> str:
    from weft.errors import InvalidInput
    from weft.formats.native import write_platform

    if made.platform is None:
        advice = "omit --platform-out, or set the number of machines"
        raise InvalidInput(f"the generated workflow of kind {kind} has no platform", advice=advice)
    return write_platform(made.platform)


def _print_written(made: GeneratedWorkflow, out: str, platform_out: str | None) -> None:
    click.echo(f"wrote {out} ({made.workflow.name})")
    if platform_out is not None:
        click.echo(f"wrote {platform_out} (platform of the workflow)")
    elif made.platform is not None:
        click.echo("note: the workflow has a platform; --platform-out FILE writes it")


def _list(kind: str | None, *, as_json: bool) -> None:
    """Print the parameters of one kind of workflow; of all kinds if ``kind`` is None."""
    from weft.workflow.generators import GENERATORS
    from weft.workflow.generators.generator import list_parameters

    kinds = dict(sorted(GENERATORS.load_each())) if kind is None else {kind: GENERATORS.load(kind)}
    if as_json:
        options.print_json(
            [
                {
                    "name": name,
                    "title": entry.title,
                    "parameters": [s.as_record() for s in list_parameters(entry)],
                }
                for name, entry in kinds.items()
            ]
        )
        return
    for name, entry in kinds.items():
        click.echo(f"{name}: {entry.title}")
        settings = list_parameters(entry)
        width = max(len(setting.text) for setting in settings)
        for setting in settings:
            click.echo(f"  {setting.text:<{width}}  {setting.meaning}")
            if setting.choices:
                click.echo(f"  {'':<{width}}  one of {', '.join(setting.choices)}")
