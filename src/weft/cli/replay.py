"""``weft replay``: process the events of a journal again and compare the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.cli.terminal import stage
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.engine.replay import ReplayResult


_SHOWN = 20


@click.command("replay")
@click.argument("journal", type=click.Path(path_type=str))
@click.option(
    "--policy",
    metavar="NAME[:OPTION=VALUE...]",
    help="Decide with another policy (what-if); differences are then no error.",
)
@click.option(
    "--run",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Run number in a project, as shown by `weft ls` (default: the last run).",
)
@options.verbose
@options.as_json
def command(journal: str, policy: str | None, run: int | None, verbose: bool, as_json: bool) -> None:
    """Process the events of JOURNAL with a new engine and compare its commands with the recorded ones.

    JOURNAL is a file written by `weft simulate --journal`, or a project with runs (its folder or the database
    in .weft). Exit code 0: equal; 1: different, and the first entry that differs is shown command by command.
    With --policy the exit code is always 0: the first different decision is the result, and the events after
    it are no longer meaningful.
    """
    with stage("loading"):
        from weft.api.journal import replay_journal
    with stage(f"replaying {journal}"):
        found = replay_journal(journal, policy=policy, run=run)
    if as_json:
        options.print_json(found.as_record())
    else:
        _show(found.replayed, found.policy, None if verbose else _SHOWN)
    if not found.replayed.same and policy is None:
        raise click.exceptions.Exit(1)


def _show(replayed: ReplayResult, policy: str, most: int | None) -> None:
    from weft.engine.journal import encode_message

    if replayed.same:
        many = "1 entry" if replayed.entries == 1 else f"{replayed.entries} entries"
        click.echo(f"{many}, same commands")
        return
    first = replayed.differences[0]
    click.echo(
        f"{first.sequence} of {replayed.total} entries are the same under {policy}; entry {first.sequence} "
        f"({first.event} at {format_seconds(first.now)}) differs:"
    )
    for difference in replayed.differences[:most]:
        for sign, command in (("-", difference.expected), ("+", difference.got)):
            if command is not None:
                name, fields = encode_message(command)
                listed = ", ".join(f"{key}={value!r}" for key, value in fields.items())
                click.echo(f"  {sign} {difference.position}: {name}({listed})")
    if most is not None and len(replayed.differences) > most:
        click.echo(f"  … {len(replayed.differences) - most} more")
