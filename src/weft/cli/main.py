"""The command ``weft``: finds the subcommand, loads only that one, turns errors into messages and codes."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from weft import __version__
from weft.errors import InvalidInput, WeftError, nearest, shorten

__all__ = ["COMMANDS", "main", "weft"]

COMMANDS = {
    "cancel": "End a run: its programs are ended, what it has made stays.",
    "check": "Say everything that is wrong with a workflow or platform file.",
    "clean": "Remove what finished runs have left in sandboxes and records.",
    "compare": "Plan workflows with several planners and set the results side by side.",
    "completion": "Print the completion script for a shell.",
    "convert": "Read a workflow in one format and write it in another.",
    "explain": "Say why a task of a run is where it is, at any time of its journal.",
    "formats": "List the file formats.",
    "generate": "Make a random workflow of a kind, and the platform it is meant for.",
    "hold": "Let tasks of a running workflow wait until they are released.",
    "logs": "Print what a task's program wrote.",
    "ls": "List the runs of a project.",
    "migrate": "Move a running task to another machine.",
    "pareto": "Show what time costs: plans of which none is both faster and cheaper than another.",
    "plan": "Say before the run how long it takes, what it costs, and where tasks go.",
    "planners": "List the planners.",
    "policies": "List the policies.",
    "release": "Let tasks go on that were held.",
    "replay": "Decide a journal again and compare the commands.",
    "report": "Say how a run went; write it as a page, trace, events or WfFormat.",
    "reproduce": "Run the experiments of the papers again and set their figures beside ours.",
    "resume": "Go on with a run that was interrupted or stopped.",
    "run": "Execute workflows on this computer, with everything that is still valid taken over.",
    "schema": "Print the JSON Schema of the file formats, for editors.",
    "show": "Show the shape of a workflow: tasks, edges, width, depth, work, critical path.",
    "simulate": "Show how runs go under a policy when machines slow down, fail and are shared.",
    "status": "Say how far a run is: tasks by kind, what runs where, time left.",
    "watch": "Follow a run until it ends.",
}
"""Every command with its one line of help; the rest of it stands in ``weft/cli/NAME.py``."""

_COMPLETING = "_WEFT_COMPLETE"
"""Set by the shell when it asks for completions."""


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that ``--help`` stays light."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"weft.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        close = nearest(name, COMMANDS)
        if close is None or close == name or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}. Did you mean {close!r}?", ctx)


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="weft %(version)s")
def weft() -> None:
    """Predict, plan and run scientific workflows on unlike machines.

    A first plan: weft plan WORKFLOW --on identical:4
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code that says how it went (docs: exit codes)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    if _COMPLETING in os.environ:
        weft.main(args=given, prog_name="weft", complete_var=_COMPLETING)
    sys.exit(_run(given))


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: `weft ... >&-`
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show an arrow gets a question mark, not an error.
        sys.stdout.reconfigure(errors="replace")


def _run(given: list[str]) -> int:
    """Run a command without click's own handling of interrupts and pipes, whose exit codes are not ours."""
    try:
        with weft.make_context("weft", given) as context:
            weft.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        with _ignore_broken_pipe():
            error.show()
        return 2
    except WeftError as error:
        with _ignore_broken_pipe():
            _report(error, as_json="--json" in given)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except (RecursionError, MemoryError) as error:
        click.echo(f"error: the input is too large or too deeply nested ({type(error).__name__})", err=True)
        return 2
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError):
            return 0  # the reader of our output (head, less) has enough: not an error of ours
        click.echo(f"error: {shorten(error.filename or 'the output')}: {error.strerror or error}", err=True)
        return 2
    return 0


@contextmanager
def _ignore_broken_pipe() -> Iterator[None]:
    """Write messages that somebody may not read to the end."""
    try:
        yield
        sys.stderr.flush()
    except BrokenPipeError:
        _drop_output()
        _drop_output(sys.stderr)


def _drop_output(stream: TextIO | None = None) -> None:
    """Let nothing that is still unwritten fail again when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, (stream or sys.stdout).fileno())


_SHOWN = 30
"""Problems printed at once; the rest is counted."""


def _report(error: WeftError, *, as_json: bool) -> None:
    problems = error.problems if isinstance(error, InvalidInput) else ()
    if as_json:
        record = {"error": str(error), "problems": [problem.as_record() for problem in problems]}
        click.echo(json.dumps(record, indent=2))
    if not problems:
        click.echo(f"error: {error}", err=True)
    for problem in problems[:_SHOWN]:
        click.echo(f"error: {problem}", err=True)
    if len(problems) > _SHOWN:
        click.echo(f"… and {len(problems) - _SHOWN} more problems", err=True)


if __name__ == "__main__":
    main()
