"""``weft completion``: print the completion script of a shell."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    For bash: weft completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    from weft.cli.main import weft

    if (found := get_completion_class(shell)) is None:
        raise click.ClickException(f"there is no completion script for the shell {shell!r}")
    click.echo(found(weft, {}, "weft", "_WEFT_COMPLETE").source())
