"""The command ``weft``: load the subcommand and turn errors into messages and exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from weft import __version__
from weft.cli.output import ensure_utf8_names, prepare_streams
from weft.errors import InvalidInput, WeftError, nearest, shorten
from weft.redaction import redact
from weft.registry import find_foreign_entry

if TYPE_CHECKING:
    from types import TracebackType


COMMANDS = {
    "cancel": "Cancel a run: stop its programs and keep its results.",
    "check": "Report all problems of files: workflows, platforms, scenarios, profiles and others.",
    "clean": "Remove sandboxes, records and checkpoints of finished runs.",
    "compare": "Compare planners on workflows.",
    "completion": "Print the completion script of a shell.",
    "convert": "Convert a workflow to another format.",
    "explain": "Explain the state of a task, at any time of a journal.",
    "formats": "List the file formats.",
    "generate": "Generate a random workflow and its platform.",
    "hold": "Hold tasks of a running workflow until they are released.",
    "logs": "Print the output of a task.",
    "ls": "List the runs of a project.",
    "machines": "Show the machines of a run, and add, drain or remove some during the run.",
    "migrate": "Move a running task to another machine.",
    "pareto": "Show plans that trade time against cost.",
    "plan": "Predict time and cost of a workflow, and show the schedule.",
    "planners": "List the planners and their options.",
    "policies": "List the policies and their options.",
    "release": "Release held tasks.",
    "replay": "Replay a journal and compare the commands.",
    "report": "Report on a run, as text, HTML page, trace, events or WfFormat.",
    "reproduce": "Run the experiments of the papers and compare the figures.",
    "resume": "Resume an interrupted or stopped run.",
    "run": "Run workflows and reuse valid results of earlier runs.",
    "schema": "Print the JSON Schema of the file formats, for editors.",
    "settings": "Show the settings of a run, where each comes from, and what it means.",
    "show": "Show the shape of a workflow: tasks, edges, width, depth, work.",
    "sites": "Detect machines, and check and measure those of a platform file.",
    "simulate": "Simulate runs with perturbed machines and arriving workflows.",
    "status": "Show the progress of a run: tasks by kind, running tasks, time left.",
    "stop": "Stop the engine gracefully; `weft resume` continues its runs.",
    "tune": "Compare the settings of a search planner.",
    "watch": "Follow a run until it ends.",
}
"""One-line help text of every command, by its name."""

SHARED_MODULES = {
    "cancel": "control", "formats": "registries", "hold": "control", "migrate": "control",
    "planners": "registries", "policies": "registries", "release": "control", "stop": "control",
}  # fmt: skip
"""Module of each command that shares a module with others, by name of the command.

Every other command is the function ``command`` in the module of its name.
"""

_GC_THRESHOLD = 250_000
"""Number of new objects between two garbage collections of the youngest generation."""

_LOG_LEVELS = click.Choice(("debug", "info", "warning", "error"), case_sensitive=False)
_LOG_VARIABLE = "WEFT_LOG"

_COMPLETING = "_WEFT_COMPLETE"
"""Environment variable set by the shell to request completions."""


class _LazyGroup(click.Group):
    """Group of commands that imports a command's module on first use, so that ``weft --help`` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"weft.cli.{SHARED_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name if cmd_name in SHARED_MODULES else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        close = None if name in COMMANDS or ctx.resilient_parsing else nearest(name, COMMANDS)
        if close is None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}. Did you mean {close!r}?", ctx)


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="weft %(version)s")
@click.option(
    "--log-level",
    type=_LOG_LEVELS,
    help="Write log messages of this level and above to the standard error (default: $WEFT_LOG, else none).",
)
def weft(log_level: str | None) -> None:
    """Predict, plan and run scientific workflows on heterogeneous machines.

    A first plan: weft plan WORKFLOW --on identical:4
    """
    if log_level is None and (value := os.environ.get(_LOG_VARIABLE)):
        try:
            log_level = _LOG_LEVELS.convert(value, None, None)
        except click.BadParameter as error:
            error.param_hint = _LOG_VARIABLE
            raise
    if log_level is not None:
        _start_logging(log_level)


def _start_logging(level: str) -> None:
    """Write the messages of the loggers ``weft.*`` to the standard error."""
    import logging

    class RedactingFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return redact(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("weft")
    logger.handlers = [handler]
    logger.setLevel(level.upper())


def _print_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected exception without secrets; used as ``sys.excepthook``."""
    import traceback

    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; docs/reference/commands.md lists the exit codes."""
    if arguments is None:
        ensure_utf8_names()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Imports create many objects and no garbage; frequent collections took an eighth of a short run.
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    if _COMPLETING in os.environ:  # before the streams are replaced, because click writes bytes here
        weft.main(args=given, prog_name="weft", complete_var=_COMPLETING)
    prepare_streams()
    sys.excepthook = _print_crash
    code = _run(given)
    gc.freeze()  # or garbage collections at exit traverse all objects several times
    sys.exit(code)


def _run(given: list[str]) -> int:
    """Run a command, print errors, and return the exit code.

    Interrupts and closed pipes are handled here, because click has different exit codes for them.
    """
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
            _report(error, as_json="--json" in given, verbose=bool({"-v", "--verbose"} & set(given)))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except RecursionError:
        click.echo("error: the input is too deeply nested", err=True)
        return 2
    except MemoryError:
        click.echo("error: not enough memory; use a smaller input, or raise `ulimit -v`", err=True)
        return 2
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError):
            return 0  # the reader of the output (head, less) has closed the pipe
        if error.errno == errno.EMFILE:
            click.echo("error: too many open files; raise `ulimit -n`", err=True)
            return 2
        click.echo(f"error: {shorten(error.filename or 'the output')}: {error.strerror or error}", err=True)
        return 2
    except Exception as error:
        if _lacks_memory(error):
            what = "not enough memory to load a library"
            click.echo(f"error: {what}; raise `ulimit -v`, or end other processes", err=True)
            return 1
        if _lacks_threads(error):
            what, advice = "the limit of processes is reached", "raise `ulimit -u`"
            if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
                what, advice = "the limit of processes or memory is reached", f"{advice} or `ulimit -v`"
            more = f"{advice}, or end other processes, then `weft resume`"
            click.echo(f"error: no thread can be started: {what}; {more}", err=True)
            return 1
        if (entry := find_foreign_entry(error.__traceback__)) is None:
            raise
        _report_foreign(entry, error)
        return 1
    return 0


def _lacks_memory(error: BaseException | None) -> bool:
    """Return whether an exception or one of its causes is a lack of memory, also while loading a library."""
    while error is not None and not isinstance(error, MemoryError):
        texts = ("failed to map segment", "cannot allocate memory")
        if isinstance(error, ImportError) and any(text in str(error).lower() for text in texts):
            return True
        error = error.__cause__ or error.__context__
    return error is not None


def _lacks_threads(error: Exception) -> bool:
    """Return whether the exception says that Python could not start a thread."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't start new thread")


def _report_foreign(entry: str, error: Exception) -> None:
    """Print an exception that a registry entry of another package raised; log the traceback (level debug)."""
    import logging

    advice = "`weft --log-level debug` shows the traceback"
    click.echo(redact(f"error: {entry} failed: {type(error).__name__}: {error}; {advice}"), err=True)
    logging.getLogger("weft.registry").debug("traceback of %s", entry, exc_info=error)


@contextmanager
def _ignore_broken_pipe() -> Iterator[None]:
    """Context manager that suppresses BrokenPipeError and drops further output after it."""
    try:
        yield
        sys.stderr.flush()
    except BrokenPipeError:
        _drop_output()
        _drop_output(sys.stderr)


def _drop_output(stream: TextIO | None = None) -> None:
    """Redirect a stream (default: the standard output) to /dev/null, so that a flush at exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, (stream or sys.stdout).fileno())


_SHOWN = 30
"""Maximal number of problems that are printed without ``-v``."""


def _report(error: WeftError, *, as_json: bool, verbose: bool) -> None:
    from weft.units import format_count

    problems = error.problems if isinstance(error, InvalidInput) else ()
    if as_json:
        record = {"error": str(error), "problems": [problem.as_record() for problem in problems]}
        click.echo(redact(json.dumps(record, indent=2)))
    if not problems:
        click.echo(redact(f"error: {error}"), err=True)
    shown = problems[: None if verbose else _SHOWN]
    for problem in shown:
        click.echo(redact(f"error: {problem}"), err=True)
    if rest := len(problems) - len(shown):
        click.echo(f"… and {format_count(rest, 'more problem')}", err=True)


if __name__ == "__main__":
    main()
