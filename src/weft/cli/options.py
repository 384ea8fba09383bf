"""Options shared by several commands."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import escape_json
from weft.errors import InvalidInput, shorten
from weft.redaction import redact
from weft.units import parse_seconds

if TYPE_CHECKING:
    from weft.registry import Registry

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _combine(*decorators: _Decorator) -> _Decorator:
    """Return a decorator that adds several options; help texts show them in this order."""
    return lambda function: functools.reduce(lambda inner, add: add(inner), reversed(decorators), function)


workflow_argument: _Decorator = click.argument("workflow", type=click.Path(path_type=str))


_PLATFORM_HELP = "A platform file, or identical:N, cluster:N, local, random:N"
on_platform: _Decorator = click.option(
    "--on", default="local", show_default=True, metavar="PLATFORM", help=f"{_PLATFORM_HELP}."
)
on_simulated: _Decorator = click.option(
    "--on", metavar="PLATFORM", help=f"{_PLATFORM_HELP} (default: the profile's platform, else local)."
)
on_backend: _Decorator = click.option(
    "--on",
    metavar="PLATFORM",
    help="Platform file whose machines have a `backend`, or local: this computer (default: the platform "
    "of the profile, else local).",
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
policy: _Decorator = click.option(
    "--policy",
    metavar="NAME[:OPTION=VALUE...]",
    help="Policy that makes the decisions; `weft policies` lists them (default: plan).",
)
planner: _Decorator = click.option(
    "--planner",
    metavar="NAME[:OPTION=VALUE...]",
    help="Planner for policies that follow a plan; `weft planners` lists them (default: auto).",
)
quiet: _Decorator = click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
execution_files = _combine(
    click.option("--report", metavar="FILE", help="Also write the HTML report to this file."),
    click.option("--trace", metavar="FILE", help="Also write the attempts as a Nextflow trace to this file."),
)
planning_workers = _combine(
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=1,
        metavar="NUMBER",
        show_default=True,
        help="Search on this many local processes.",
    ),
    click.option(
        "--cluster",
        metavar="tcp://HOST:PORT",
        help="Search on the workers of a Dask cluster: the address of its scheduler.",
    ),
)


def read_seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:  # noqa: ARG001
    """Callback of ``click.option``: return the value of a time option in seconds, None if not given."""
    if text is None:
        return None
    if (seconds := parse_seconds(text)) is None:
        what, rule = f"{parameter.opts[0]} {shorten(text)!r}", "must be a time of at least 0 seconds"
        raise InvalidInput(what, rule=rule, advice="write 90, 1h30m or 0-01:30:00")
    return seconds


_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Load NumPy without the threads of its linear algebra library, unless the user has set their number.

    A run does not use these threads; their start takes a tenth of the processor time of a short run. The
    variable is removed again, because programs inherit the environment.
    """
    if _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401 -- for its effect
    finally:
        del os.environ[_BLAS_THREADS]


def workflows_argument(*, required: bool = False) -> _Decorator:
    """Return a decorator that adds the argument ``WORKFLOW...``."""
    metavar = "WORKFLOW..." if required else "[WORKFLOW]..."
    return click.argument(
        "workflows", nargs=-1, required=required, type=click.Path(path_type=str), metavar=metavar
    )


def parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``-p NAME=VALUE`` and ``--params-file``, passed on as one dictionary ``params``."""

    @click.option(
        "-p",
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a parameter of the workflow; may be repeated.",
    )
    @click.option(
        "--params-file",
        type=click.Path(path_type=str),
        metavar="FILE",
        help="Parameters from a YAML or JSON file.",
    )
    @functools.wraps(function)
    def read(*, params: tuple[str, ...], params_file: str | None, **others: Any) -> Any:
        return function(params=_read_params(params, params_file), **others)

    return read


def settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--preset``, ``--profile`` and ``--set``; the values of ``--set`` are passed as ``settings``."""

    @click.option(
        "--preset",
        default="default",
        show_default=True,
        metavar="NAME",
        help="Settings that ship with weft: default, patient (no migration of slow tasks), s1, s3.",
    )
    @click.option(
        "--profile",
        metavar="FILE",
        help="File with settings, or its name in the folder for profiles (see `weft settings --help`).",
    )
    @click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        help="Change a setting, such as migration.gain=0.1; `weft settings` lists them; may be repeated.",
    )
    @functools.wraps(function)
    def read(*, assignments: tuple[str, ...], **others: Any) -> Any:
        return function(settings=_read_assignments(assignments), **others)

    return read


def _read_assignments(assignments: tuple[str, ...]) -> dict[str, Any] | None:
    if not assignments:
        return None  # avoid loading the YAML parser
    from weft.formats.profiles import read_assignments
    from weft.workflow.settings import write_settings

    return write_settings(read_assignments(assignments))


_OBJECTIVE_HELP = """{}: makespan, cost, local, on-demand, static, static-literal,
static-idle-fraction, speedup, efficiency, communication, synchronisation, overhead, lost-parallelism,
throughput. Or a formula over quantities of the schedule, such as "makespan + 0.1*cost" (the reference of the
commands lists them). It is an error if the planner does not support it (default: makespan)."""
_ALPHA: _Decorator = click.option(
    "--alpha",
    type=float,
    metavar="NUMBER",
    help="Weight of time (1) against cost (0) in on-demand and static objectives (default: 0.5).",
)


def measured_objective(meaning: str) -> _Decorator:
    """Return a decorator that adds ``--objective`` and ``--alpha``; ``meaning`` begins the help text."""
    text = _OBJECTIVE_HELP.format(meaning)
    return _combine(click.option("--objective", default="makespan", metavar="NAME", help=text), _ALPHA)


def objective(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--objective``, ``--alpha``, ``--deadline`` and ``--max-cost``."""
    add = _combine(
        click.option("--objective", metavar="NAME", help=_OBJECTIVE_HELP.format("Objective of the plan")),
        _ALPHA,
        click.option(
            "--deadline",
            "deadline_s",
            callback=read_seconds,
            metavar="TIME",
            help="Maximal makespan: 90, 1h30m or D-HH:MM:SS; exit code 3 if exceeded.",
        ),
        click.option(
            "--max-cost",
            type=float,
            metavar="PRICE",
            help="Maximal price of all node-hours; exit code 3 if exceeded.",
        ),
    )
    return add(function)


def named_plan(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--plan`` and ``--choose``, which name the first plan of a run."""
    add = _combine(
        click.option(
            "--plan",
            metavar="FILE.json",
            help="Start with the plan in this file of `weft plan --out`; only for one WORKFLOW.",
        ),
        click.option(
            "--choose",
            type=click.IntRange(min=1),
            metavar="POINT",
            help="Start with the plan of this point of the last `weft pareto` front; only for one WORKFLOW.",
        ),
    )
    return add(function)


predictions: _Decorator = click.option(
    "--predictions",
    multiple=True,
    metavar="FILE",
    help="CSV or YAML file with measured times, which replace those of WORKFLOW; may be repeated.",
)


def seed(meaning: str) -> _Decorator:
    """Return a decorator that adds the option ``--seed`` with this help text."""
    return click.option(
        "--seed",
        type=click.IntRange(min=0, max=2**64 - 1),
        default=0,
        metavar="NUMBER",
        show_default=True,
        help=meaning,
    )


def planning_budget(
    time_help: str = "Time budget of search planners: 10 or 1m30s (default: 2).", *, result: str = "plan"
) -> _Decorator:
    """Return a decorator that adds ``--plan-time`` and ``--plan-steps``, the budget of search planners."""
    steps_help = f"Stop after this many steps instead of a time; the {result} is reproducible."
    return _combine(
        click.option("--plan-time", "plan_time_s", callback=read_seconds, metavar="SECONDS", help=time_help),
        click.option("--plan-steps", type=click.IntRange(min=1), metavar="NUMBER", help=steps_help),
    )


def check_files(
    inputs: tuple[str | None, ...], names: str, outputs: Mapping[str, str | None], *, as_json: bool
) -> None:
    """Check input and output files before a command starts: ``check_streams`` and ``check_outputs``.

    ``names`` begins the message about inputs. ``outputs`` maps each option to the file that it writes.
    """
    printed = {f"{option} -": file == "-" for option, file in outputs.items()}
    check_streams(inputs, names, {"--json": as_json, **printed})
    check_outputs(outputs)


def check_streams(
    inputs: tuple[str | None, ...], names: str, outputs: Mapping[str, bool], *, advice: str = ""
) -> None:
    """Raise UsageError if two inputs are the standard input, or two outputs the standard output.

    ``names`` begins the message about inputs. ``outputs`` maps each option to whether it writes to the
    standard output.
    """
    if inputs.count("-") > 1:
        raise click.UsageError(f"{names} be the standard input.")
    printing = [name for name, printed in outputs.items() if printed]
    if len(printing) > 1:
        raise click.UsageError(f"{' and '.join(printing)} cannot share the standard output{advice}.")


def check_outputs(outputs: Mapping[str, str | None]) -> None:
    """Raise InvalidInput if a file cannot be written, and UsageError if two options name the same file.

    Commands check their files first, because their work may take hours. ``outputs`` maps options to files.
    """
    places: dict[str, str] = {}
    for option, file in outputs.items():
        if file is None or file == "-":
            continue
        _check_output(option, file)
        other = places.setdefault(os.path.realpath(file), option)
        if other != option and (Path(file).is_file() or not Path(file).exists()):
            raise click.UsageError(f"{other} and {option} cannot both write {file!r}.")


def _check_output(option: str, file: str) -> None:
    """Raise InvalidInput if a file cannot be written, or is inside ``.weft``."""
    from weft.private_files import STATE_FOLDER, check_target

    why = advice = ""
    try:
        place = Path(os.path.relpath(os.path.realpath(Path(file).parent)))
        if STATE_FOLDER in (*place.parts, Path(file).name):
            why, advice = f"weft keeps its own state in {STATE_FOLDER}", "name a file outside of it"
        else:
            check_target(Path(file))
    except FileNotFoundError as error:
        why, advice = error.strerror or str(error), "create it, or name a file in another folder"
    except OSError as error:
        why = error.strerror or str(error)
    except ValueError as error:  # a NUL character
        why = str(error)
    if why:
        raise InvalidInput(f"{option}: cannot write {file!r}: {why}", advice=advice)


def check_plan_files(workflow: str, on: str, out: str | None, html: str | None, *, as_json: bool) -> None:
    """Check the files of a planning command; raise UsageError if the suffix of ``--out`` is unknown."""
    if out not in (None, "-") and Path(str(out)).suffix not in (".json", ".csv"):
        raise click.UsageError(f"--out {out!r} must end in .json or .csv.")
    outputs = {"--out": out, "--html": html}
    check_files((workflow, on), "WORKFLOW and --on cannot both", outputs, as_json=as_json)


def _read_params(params: tuple[str, ...], params_file: str | None) -> dict[str, Any]:
    """Return the parameters in a file and on the command line; the command line has precedence."""
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
    """Print a record as JSON; infinite numbers and NaN are null."""
    click.echo(redact(json_text(record)))


def print_lines(lines: Iterable[str], indent: str = "") -> None:
    """Print lines of text, each after ``indent``."""
    for line in lines:
        click.echo(redact(indent + line))


def print_written(*files: str | None) -> None:
    """Print the names of the files that were written."""
    print_lines(f"wrote {name}" for name in files if name)


def print_titles(registry: Registry, *, as_json: bool) -> None:
    """Print the names and titles of the entries of a registry, as text or JSON."""
    titles = {name: title for name, _, title in registry.load_titled()}
    if as_json:
        print_json([{"name": name, "title": title} for name, title in titles.items()])
    else:
        print_pairs(titles.items())


def print_pairs(pairs: Iterable[tuple[str, str]], indent: str = "") -> None:
    """Print (label, text) pairs as two columns."""
    rows = list(pairs)
    width = max(len(label) for label, _ in rows)
    print_lines((f"{label:<{width}}  {text}" for label, text in rows), indent)


def save_result(out: str, *, csv: Callable[[], str], record: Callable[[], object]) -> None:
    """Write a result to a file: ``csv()`` if its suffix is ``.csv``, else ``record()`` as JSON."""
    from weft.formats.files import save_report

    save_report(csv() if Path(out).suffix == ".csv" else json_text(record()) + "\n", out)


def json_text(record: object) -> str:
    """Return a record as JSON text; infinite numbers and NaN are null."""
    return escape_json(json.dumps(_finite(record), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, Path) else value
