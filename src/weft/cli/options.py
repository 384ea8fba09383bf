"""Options shared by several commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from weft.errors import InvalidInput, shorten
from weft.units import parse_seconds

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

workflow_argument: _Decorator = click.argument("workflow", type=click.Path(path_type=str))
on_platform: _Decorator = click.option(
    "--on",
    "platform",
    default="local",
    show_default=True,
    metavar="PLATFORM",
    help="A platform file, or identical:N, cluster:N, local, random:N.",
)
project: _Decorator = click.option(
    "--project",
    metavar="DIR",
    help="Directory that contains .weft (default: the nearest parent directory with one).",
)
run_argument: _Decorator = click.argument("run", required=False, type=click.IntRange(min=1))
run_option: _Decorator = click.option(
    "--run",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Run number as shown by `weft ls` (default: the last run).",
)
as_json: _Decorator = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
verbose: _Decorator = click.option(
    "-v", "--verbose", is_flag=True, help="Print complete lists instead of their first entries."
)
read_format: _Decorator = click.option(
    "--from", "format_name", metavar="FORMAT", help="Format of the input (default: detected by its content)."
)


def parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-p name=value`` and ``--params-file``."""
    function = click.option(
        "--params-file",
        type=click.Path(path_type=str),
        metavar="FILE",
        help="Parameters from a YAML or JSON file.",
    )(function)
    return click.option(
        "-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter."
    )(function)


def seed(meaning: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--seed`` with a help text."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0, max=2**64 - 1),
        default=0,
        metavar="NUMBER",
        show_default=True,
        help=meaning,
    )


def planning_budget(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--plan-time`` and ``--plan-steps``, the budget of search planners."""
    function = click.option(
        "--plan-steps",
        type=click.IntRange(min=1),
        metavar="NUMBER",
        help="Stop after this many steps instead of a time; the plan is reproducible.",
    )(function)
    return click.option(
        "--plan-time",
        metavar="SECONDS",
        help="Time budget of search planners: 10 or 1m30s (default: 2).",
    )(function)


def planning_workers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--workers`` and ``--cluster``, the workers of search planners."""
    function = click.option(
        "--cluster",
        metavar="tcp://HOST:PORT",
        help="Search on the workers of a Dask cluster: the address of its scheduler.",
    )(function)
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=1,
        metavar="NUMBER",
        show_default=True,
        help="Search on this many local processes.",
    )(function)


def given_seconds(option: str, text: str | None) -> float | None:
    """Parse the time given to an option."""
    if text is None:
        return None
    if (seconds := parse_seconds(text)) is None:
        what, rule = f"{option} {shorten(text)!r}", "must be a time, at least 0"
        raise InvalidInput(what, rule=rule, advice="write 90, 1h30m or 0-01:30:00")
    return seconds


def given_params(params: tuple[str, ...], params_file: str | None) -> dict[str, Any]:
    """Read parameters from a file and from the command line, which has precedence."""
    if not params and params_file is None:
        return {}  # avoid loading the YAML parser
    from weft.documents import Reader
    from weft.formats.files import open_source
    from weft.formats.yaml_document import parse_document
    from weft.workflow.file_format import read_parameter

    reader = Reader()
    found: dict[str, Any] = {}
    if params_file is not None:
        document = parse_document(open_source(params_file).text(), params_file)
        if document.root is not None:
            for name, node in reader.mapping(document.root).items():
                found[name] = read_parameter(reader, node)
    for item in params:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InvalidInput(f"-p {item!r}", rule="must be NAME=VALUE")
        root = parse_document(text, f"-p {name}").root if text else None
        found[name] = read_parameter(reader, root) if root is not None else ""
    reader.finish()
    return found


def print_json(record: object) -> None:
    """Print one JSON object."""
    click.echo(json_text(record))


def json_text(record: object) -> str:
    """Return JSON in which infinite numbers and NaN are null."""
    return json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, Path) else value
