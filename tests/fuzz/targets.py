"""The readers of weft as fuzz targets: each takes bytes, and may raise nothing but WeftError.

Every registered format has a target by itself. A new reader of files, records or messages is one function and one
line in ``_targets``; ``test_fuzz_readers.py`` replays the corpus of every target.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from architecture.package import ROOT
from registries.test_formats import COMPANIONS, SAMPLES
from weft.api.functions.values import UnsupportedValue, decode_value, encode_value
from weft.api.journal import explain_task, explanation_lines, replay_journal
from weft.api.pareto import front_path, load_front, save_front
from weft.backends.attempt.checkpoints import find_maker, list_checkpoint, restore_checkpoint
from weft.backends.attempt.command import render_job
from weft.backends.attempt.task_files import parse_demand, parse_progress, read_result
from weft.backends.runner.processes import StartOrder
from weft.backends.runner.records import RecordLog, SealedRecords, encode_record
from weft.backends.runner.runner_link import read_message
from weft.backends.runner.runner_loop import EngineSocket
from weft.backends.simulation.scenario_reader import load_scenario
from weft.cli.main import weft as command_line
from weft.cli.output import escape_controls
from weft.engine.journal import decode_message, encode_message
from weft.engine.messages import Start
from weft.engine.state.plan import StoredPlan
from weft.engine.stored_fields import DAMAGE
from weft.errors import InvalidInput, WeftError
from weft.expressions import ValueKind, evaluate, evaluate_columns, infer_kind, parse
from weft.formats import FORMATS
from weft.formats.format import PlatformReader, SourceFile
from weft.formats.native import WeftYaml, read_platform_file, write_platform
from weft.formats.yaml_document import parse_document
from weft.instance import compile_instance
from weft.planners import PLANNERS
from weft.planners.tuning import find_planners, read_grid
from weft.platform.short_forms import parse_short_form
from weft.registry import make_by_name
from weft.repository.journal_store import read_journal_file
from weft.runtime.lock import LockOwner
from weft.schedule.objective import make_objective
from weft.units import format_seconds, parse_bytes, parse_rate, parse_seconds
from weft.workflow.checks import check_and_unfold
from weft.workflow.task_graph import TaskGraph
from weft.workflow.workflow import Workflow

_MOST_WRITTEN = 10_000
"""Workflows with more tasks are read and unfolded, but not written in their format."""
_MOST_TASKS = 300
"""Larger graphs are unfolded, but not drawn, planned or simulated: the time per case is limited."""


class Target(NamedTuple):
    """A reader with inputs to start from."""

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


@cache
def all_targets() -> tuple[Target, ...]:
    """Return the targets of all readers; the names of the formats start with ``format-``."""
    return (*_format_targets(), *_targets())


def _targets() -> Iterator[Target]:
    examples = {path.name: path.read_bytes() for path in sorted((ROOT / "examples").glob("*.yaml"))}
    workflows = tuple(text for name, text in examples.items() if b"\ntasks" in text)
    journals = tuple(path.read_bytes() for path in sorted((ROOT / "tests/engine/journals").glob("*.jsonl")))
    yield Target(
        "platform",
        _read_platform,
        (examples["grid.yaml"], examples["shares.yaml"], b"cluster:64", b"identical:4,speed=2"),
    )
    yield Target("scenario", _read_scenario, (examples["scenario.yaml"], _ARRIVALS, _FAULTS))
    yield Target("grid", _read_grid, _GRIDS)
    yield Target(
        "objective", _read_objective, (b"makespan + 0.1*cost", b"1 - efficiency", b"lost-parallelism")
    )
    yield Target("expression", _read_expression, tuple(text.encode() for text in _EXPRESSIONS))
    yield Target("plan", _plan, (*workflows[:6], *_NUMBERS))
    yield Target("simulation", _simulate, (SAMPLES["weft"] + b"\n---\n" + _FAULTS, *_NUMBERS))
    yield Target("journal", _read_journal, journals)
    yield Target("messages", _read_messages, _message_seeds(journals))
    yield Target("plan-record", _read_plan_record, _plan_seeds(journals))
    yield Target("database", _read_database, tuple(json.dumps(each).encode() for each in _DAMAGES))
    yield Target(
        "result",
        _read_result_files,
        (b'{"energy": -3.5, "name": "a", "done": true}', b"0.4\n", b'{"done": 0.4}', b"MEMORY > 3"),
    )
    yield Target("runner-records", _read_runner_records, _RECORDS)
    yield Target("socket", _read_socket, _MESSAGES)
    yield Target("runner-messages", _read_runner_messages, _REPORTS)
    yield Target("checkpoint", _read_checkpoint, _POINTERS)
    yield Target("front", _read_front, _front_seeds())
    yield Target("python-value", _read_python_value, _value_seeds())
    yield Target("command", _render_command, _COMMANDS)
    yield Target(
        "options",
        _read_options,
        (b"heft:averaging=self-loops", b"heft", b"1h30m", b"4GB", b"10MB/s", b"genetic:steps=20,islands=2"),
    )
    yield Target("lock", _read_lock, (LockOwner.this_process(("weft", "run")).as_text().encode(),))


def run_case(target: Target, data: bytes) -> bool:
    """Read one input; return whether it was accepted. Any error but WeftError propagates."""
    try:
        target.read(data)
    except WeftError as error:
        escape_controls(str(error)).encode()  # every message can be printed
        return False
    return True


# Files.


def _format_targets() -> Iterator[Target]:
    for name, kind in FORMATS.load_each():
        made = kind()
        if made.reads:
            yield Target(f"format-{name}", partial(_read_format, made), (SAMPLES.get(name, b"{}"),))
        else:
            yield Target(f"format-{name}", partial(_write_format, made), (SAMPLES["weft"],))


def _read_format(reader: Any, data: bytes) -> None:
    for name, content in COMPANIONS.items():
        if not (_folder() / name).exists():
            _file(name, content)
    source = SourceFile(name=str(_folder() / "input"), data=data)
    reader.recognises(source)
    if isinstance(reader, PlatformReader):
        with contextlib.suppress(WeftError):
            reader.read_platform(source)
    workflow = reader.read(source)
    if len(check_and_unfold(workflow)) <= _MOST_WRITTEN and reader.writes:
        reader.write(workflow)


def _write_format(writer: Any, data: bytes) -> None:
    workflow, graph = _read_workflow(data)
    if len(graph) <= _MOST_TASKS:
        writer.write(workflow)


def _read_workflow(data: bytes) -> tuple[Workflow, TaskGraph]:
    workflow = WeftYaml().read(SourceFile(name="input", data=data))
    return workflow, check_and_unfold(workflow)


def _read_platform(data: bytes) -> None:
    if b"\n" not in data and (found := parse_short_form(data.decode(errors="replace"))) is not None:
        write_platform(found)
        return
    write_platform(read_platform_file(SourceFile(name="input", data=data)))


_ARRIVALS = b"""weft: 1
arrivals:
  - {workflow: wien2k.yaml, at: 0s, owner: ann}
  - {mix: {docking.yaml: 3, moldable.yaml: 2}, every: 60s, from: 30s}
  - {workflow: gee.yaml, count: 100, poisson: 45s}
denied: ["altix{1..2}", "c*"]
lines: {parts: 3}
profiles: {lapw0: 7}
results: {first: [{energy: -3.5}]}
stage_latency: 2s
"""
_FAULTS = b"""weft: 1
durations: {noise: 0.1, bias: 1.05, tasks: {first: {bias: 2}}}
perturbations:
  - {machines: "*", every: 40s, slowdown: 3..10, lasting: 100s..600s}
  - {machine: a, at: 1s, slowdown: 2}
failures: [{machine: a, at: 2s, repair: 300s}, {machine: b, mtbf: 6h, repair: 10m}]
loads: [{machine: a, at: 1s, processes: 3, until: 200s}]
silences: [{machine: b, at: 1s, lasting: 20s, what: job-manager}]
exit_codes: {first: [1, 0], last: [oom, 0]}
overhead_per_task: 0.25s
"""


def _read_scenario(data: bytes) -> None:
    load_scenario(_file("scenario.yaml", data))


_GRIDS = (
    b"weft: 1\ngrid: {population: 50..200 step 50, elitist: [true, false], scaling: 2}\n",
    b"weft: 1\nvary: alone\ngrid: {selection: [rank, roulette], crossover-rate: 0.4..1 step 0.2}\n",
)


def _read_grid(data: bytes) -> None:
    grid = read_grid(parse_document(data.decode(errors="replace"), "grid.yaml"))
    if grid.count <= 50:
        find_planners("genetic", grid)


def _read_objective(data: bytes) -> None:
    make_objective(data.decode(errors="replace"))


# Expressions, plans and simulations.

_CONTEXT = {"a": 3, "b": 2.5, "t": "text", "l": [1, 2, 3], "m": {"k": 1}, "yes": True, "none": None}
_EXPRESSIONS = (
    "a + b * 2", "sum(range(1, 10)) / len(l)", 'startswith(t, "te") and not yes', "l[0] if a > 2 else m['k']",
    "memory >= 4*GB", "max(l) ** 2 // 3 % 7", "default(none, 3) in l", "round(sqrt(b), 2) == 1.58", "matches(t, 't*')",
)  # fmt: skip


def _read_expression(data: bytes) -> None:
    import numpy as np

    expression = parse(data.decode(errors="replace"))
    for use in (
        lambda: infer_kind(expression, {"a": ValueKind.NUMBER}),
        lambda: evaluate(expression, _CONTEXT),
        lambda: evaluate_columns(expression, {"a": np.arange(4), "b": np.ones(4)}, 4, _CONTEXT),
    ):
        with contextlib.suppress(WeftError):
            use()


_PLATFORM = b"""weft: 1
name: two
machines:
  a: {nodes: 4, speed: 1, price_per_node_hour: 2}
  b: {nodes: 1, speed: 2.5}
"""
_NUMBERS = tuple(
    b"weft: 1\nname: n\ntasks:\n  a: {work: %s, nodes: [1, 2]}\n  b: {work: 3, after: a}\n  c: {work: %s, after: [a]}\n"
    % (one, other)
    for one, other in ((b"1e20", b"1"), (b"5e-324", b"1"), (b"1e299", b"1e-300"))
)
_PLANNERS = ("heft", "heft-moldable", "annealing", "genetic", "weave", "minmin", "lookahead", "cheapest")


def _plan(data: bytes) -> None:
    import weft

    workflow = _small_workflow(data)
    planner = _PLANNERS[len(data) % len(_PLANNERS)]
    planned = weft.plan(workflow, on=_platform(), planner=planner, plan_steps=5)
    assert planned.lower_bound_s <= planned.makespan_s * (1 + 1e-6), "the bound is above the makespan"
    planned.verify()
    planned.as_record()


def _simulate(data: bytes) -> None:
    import weft

    described, _, scenario = data.partition(b"\n---\n")
    workflow = _small_workflow(described)
    weft.simulate(
        workflow,
        on=_platform(),
        scenario=_file("scenario.yaml", scenario) if scenario else None,
        plan_steps=5,
    )


@cache
def _platform() -> Any:
    return read_platform_file(SourceFile(name="platform", data=_PLATFORM))


def _small_workflow(data: bytes) -> Workflow:
    workflow, graph = _read_workflow(data)
    if len(graph) > _MOST_TASKS:
        raise InvalidInput("too many tasks for this target")
    compile_instance(graph, _platform())
    return workflow


# Journals and databases.


def _read_journal(data: bytes) -> None:
    journal = read_journal_file(SourceFile(name="journal.jsonl", data=data))
    with contextlib.suppress(WeftError):
        replay_journal(journal).as_record()
    for workflow in journal.header.workflows.values():
        for task in workflow.tasks[:2]:
            with contextlib.suppress(WeftError):
                list(explanation_lines(explain_task(journal, task.name), verbose=True))


def _message_seeds(journals: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return one encoded message of each type."""
    found: dict[str, bytes] = {}
    for line in b"\n".join(journals).split(b"\n"):
        record = json.loads(line) if line.strip() else {}
        for message in (record.get("event"), *record.get("commands", ())):
            if message:
                found.setdefault(message[0], json.dumps(message).encode())
    return tuple(found.values())


def _plan_seeds(journals: tuple[bytes, ...]) -> tuple[bytes, ...]:
    lines = [line for line in b"\n".join(journals).split(b"\n") if line.startswith(b'{"plan":')]
    return tuple(lines[:3])


def _read_messages(data: bytes) -> None:
    with contextlib.suppress(*DAMAGE):
        encode_message(decode_message(json.loads(data)))


def _read_plan_record(data: bytes) -> None:
    with contextlib.suppress(*DAMAGE):
        StoredPlan.of_record(json.loads(data)).as_record()


_READING = (
    ("ls",), ("status",), ("explain", "a"), ("report",), ("logs", "a"), ("status", "--json"), ("report", "--json"),
    ("report", "--trace", "-"), ("watch",), ("clean", "--dry-run"), ("explain", "b", "--json"), ("ls", "--json"),
)  # fmt: skip
_DAMAGES: tuple[dict[str, Any], ...] = (
    {"commands": [0, 1, 2, 3, 4], "set": [["run", "state", 0, "running"]], "bytes": []},
    {"commands": [5, 6, 7], "set": [["entry", "record", 3, '{"n": 3}']], "bytes": []},
    {"commands": [8, 9, 10, 11], "set": [], "bytes": [[100, "00ff"], [5000, "41"]]},
)


def _read_database(data: bytes) -> None:
    """Damage a copy of a project's database as the input describes, and run commands that read it."""
    try:
        wanted = json.loads(data)
        changes, patches = wanted.get("set", [])[:5], wanted.get("bytes", [])[:5]
        commands = [_READING[int(number) % len(_READING)] for number in wanted.get("commands", [])[:2]]
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return
    project = _project()
    file = project / ".weft/weft.db"
    for extra in ("-wal", "-shm"):
        file.with_name(file.name + extra).unlink(missing_ok=True)
    shutil.copyfile(project / "whole.db", file)
    _change_rows(file, changes)
    _change_bytes(file, patches)
    for words in commands or _READING[:1]:
        _run_command(words, project)


def _change_rows(file: Path, changes: list[Any]) -> None:
    database = sqlite3.connect(file, isolation_level=None)
    tables = [
        name
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    for change in changes:
        with contextlib.suppress(
            sqlite3.Error, ValueError, TypeError, OverflowError, LookupError, UnicodeError
        ):
            table, column, row, value = change
            name = table if table in tables else tables[hash_text(table) % len(tables)]
            described = list(database.execute(f"PRAGMA table_info({name})"))
            columns = [each[1] for each in described]
            identity = ", ".join(each[1] for each in described if each[5])
            key = column if column in columns else columns[hash_text(column) % len(columns)]
            count = database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            value = json.dumps(value) if isinstance(value, list | dict) else value
            chosen = f"({identity}) = (SELECT {identity} FROM {name} LIMIT 1 OFFSET ?)"
            database.execute(f"UPDATE {name} SET {key} = ? WHERE {chosen}", (value, int(row) % max(1, count)))
    database.close()


def hash_text(value: object) -> int:
    """Return a number that depends on the text of a value and not on the process."""
    return sum(map(ord, str(value)))


def _change_bytes(file: Path, patches: list[Any]) -> None:
    content = bytearray(file.read_bytes())
    for patch in patches:
        with contextlib.suppress(ValueError, TypeError, OverflowError, LookupError):
            at, new = int(patch[0]) % len(content), bytes.fromhex(patch[1])[:64]
            content[at : at + len(new)] = new
    file.write_bytes(content)


def _run_command(words: tuple[str, ...], project: Path) -> None:
    import click

    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        contextlib.suppress(click.exceptions.Exit, click.ClickException, OSError),
    ):
        command_line.main([*words, "--project", str(project)], standalone_mode=False)


@cache
def _project() -> Path:
    """Return a project with one finished run; ``whole.db`` is its database."""
    import weft

    project = _folder() / "project"
    project.mkdir()
    (project / "w.yaml").write_text(
        "weft: 1\nname: w\ntasks:\n  a: {command: 'echo a > f; echo note >&2', outputs: [f], work: 0.1s}\n"
        "  b: {command: 'cat f; exit 3', inputs: [f], work: 0.1s, retries: 1}\n  c: {after: b, command: 'true'}\n"
    )
    weft.run(project / "w.yaml", project=project)
    database = sqlite3.connect(project / ".weft/weft.db")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    shutil.copyfile(project / ".weft/weft.db", project / "whole.db")
    return project


# Files, records and messages of tasks and runners.


def _read_result_files(data: bytes) -> None:
    file = _file("result.json", data)
    with contextlib.suppress(WeftError):
        found = read_result(file.parent, file.name)
        json.dumps(found, ensure_ascii=False).encode()
    text = data.decode(errors="replace")
    for read in (
        parse_progress,
        partial(parse_demand, file="gw_reqs", wanted=ValueKind.BOOLEAN),
        partial(parse_demand, file="gw_rank", wanted=ValueKind.NUMBER),
    ):
        with contextlib.suppress(WeftError):
            read(text)


_TOKEN = "0" * 32
_RECORDS = tuple(
    encode_record(record).encode()
    for record in (
        {"attempt": 3, "pid": 7, "at": 1.5, "within": [1.0, 2.0], "reminder": "{}"},
        {
            "is": "ended",
            "attempt": 3,
            "code": 0,
            "signal": None,
            "cause": "",
            "text": "",
            "at": 1.0,
            "seconds": 1.0,
        },
        {"pid": 3, "began_ticks": 7, "boot": "x"},
        {"at": 1.0, "monotonic_s": 2.0, "running": 1},
    )
)


def _read_runner_records(data: bytes) -> None:
    """Read lines with a valid seal, as if a runner of another version or on a failing disk had written them."""
    folder = _folder() / "records"
    folder.mkdir(exist_ok=True)
    records = SealedRecords(str(folder), _TOKEN)
    try:
        for name in ("starts", "beat"):
            sealed = b"".join(records.sealed(name, line.decode("latin-1")) for line in data.split(b"\n")[:20])
            (folder / name).write_bytes(sealed + data)
        RecordLog.read(records, "starts")
        records.read_again("beat")
    finally:
        records.close()


_MESSAGES = tuple(
    json.dumps(message).encode() + b"\n"
    for message in (
        {"do": "hello", "token": _TOKEN, "env": {"PATH": "/bin"}, "cores": None},
        {
            "do": "start",
            "attempt": 3,
            "argv": ["true"],
            "env": {"A": "b"},
            "cwd": "/",
            "time_s": 3.5,
            "cores": [0],
        },
        {"do": "cancel", "attempt": 3, "grace_s": 1.0},
        {"do": "forget", "attempts": [1, 2]},
    )
)


def _read_socket(data: bytes) -> None:
    """Send bytes to the socket of a runner, from a stranger and from the engine; start nothing."""
    folder = _folder() / "socket"
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    runner = EngineSocket(descriptor, _TOKEN)
    try:
        for greeting in (b"", _MESSAGES[0]):
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(f"/proc/self/fd/{descriptor}/socket")
                caller.setblocking(False)
                with contextlib.suppress(OSError):
                    caller.sendall(greeting + data[:100_000] + b"\n")
            for message in _receive_all(runner):
                with contextlib.suppress(ValueError, TypeError):  # reported to the engine as a problem
                    StartOrder(message, 5.0)
    finally:
        runner.close()
        os.close(descriptor)


def _receive_all(runner: EngineSocket) -> Iterator[dict[str, Any]]:
    while ready := runner.poll.poll(0):
        for number, _ in ready:
            yield from runner.receive(number)


_REPORTS = tuple(
    json.dumps(message).encode()
    for message in (
        {
            "is": "here", "protocol": 2, "pid": 7, "problem": "", "ended": [{"attempt": 1, "nonce": "a", "code": 0}],
            "running": [{"attempt": 2, "nonce": "b", "pid": 8, "at": 1.0}], "starts": [{"attempt": 2, "nonce": "b"}],
        },
        {"is": "ended", "attempt": 3, "nonce": "c", "code": 1, "signal": None, "cause": "", "text": ""},
        {"is": "problem", "attempt": None, "text": "x"},
    )
)  # fmt: skip


def _read_runner_messages(data: bytes) -> None:
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):  # the engine takes the runner for gone
            message = read_message(line)
            assert isinstance(message["is"], str)


_POINTERS = (
    json.dumps(
        {
            "directory": "3", "attempt": 4, "nonce": "d",
            "files": [{"name": "a", "size_bytes": 3, "digest": "ff", "modified_ns": 5}],
        }
    ).encode(),
)  # fmt: skip


def _read_checkpoint(data: bytes) -> None:
    kept, workdir = _folder() / "kept", _folder() / "restored"
    for folder in (kept, workdir):
        folder.mkdir(exist_ok=True)
    (kept / "current").write_bytes(data)
    find_maker(kept)
    list_checkpoint(kept)
    with contextlib.suppress(WeftError):
        restore_checkpoint(kept, workdir)


@cache
def _front_workflow() -> Workflow:
    text = b"weft: 1\nname: f\ntasks:\n  a: {work: 5}\n  b: {work: 3, after: a}\n  c: {work: 2}\n"
    return _read_workflow(text)[0]


def _front_seeds() -> tuple[bytes, ...]:
    import weft

    front = weft.pareto(_front_workflow(), on=_platform(), plan_steps=20)
    return (save_front(front, _folder() / "fronts").read_bytes(),)


def _read_front(data: bytes) -> None:
    folder = _folder() / "fronts"
    folder.mkdir(exist_ok=True)
    front_path(_front_workflow(), _platform(), folder).write_bytes(data)
    load_front(_front_workflow(), on=_platform(), folder=folder)


def _value_seeds() -> tuple[bytes, ...]:
    import numpy as np

    values = (
        [1, 2.5, "a", None, {"k": [True]}],
        (1, 2, {3}),
        np.arange(4.0),
        {"a": np.ones((2, 2)), "b": b"x"},
    )
    return tuple(encode_value(value) for value in values)


def _read_python_value(data: bytes) -> None:
    with contextlib.suppress(UnsupportedValue):  # pickles are refused: they are code
        decode_value(data, lambda _: None)


# Commands and options.

_COMMANDS = tuple(
    json.dumps(each).encode()
    for each in (
        {"command": "echo {p} > {out}", "p": "a b", "result": 3},
        {"command": "awk '{{print $1}}' {inputs} # {p}", "p": "x; y", "result": "z"},
        {"command": 'sh -c "echo {first.result.r}"', "p": 1, "result": "`id`"},
        {"command": ["echo", "{p}", "{nodes}"], "p": 2.5, "result": True},
        {"command": "case {p} in (a|'b') cat <<E\n{p} $(( {nodes} ))\nE\n;; esac", "p": "a", "result": "E"},
        {
            "command": 'f() {{ a="$(b {p})"; }}; for i in {p}; do f \\\n 2>&1; done',
            "p": [1, "$(c)"],
            "result": "",
        },
        {"command": "{p:raw} `a` ${b:-c} {p}", "p": "'\"$", "result": 0},
        {"command": "echo {p} > o; echo {outputs} {nodes}", "p": "a b", "result": 3},
        {
            "command": "printf '%s' \"{p}\" '{first.result.r}' $(({nodes} + 1)) | awk '{{print $1}}' {inputs}",
            "p": "x; y",
            "result": "z",
        },
        {"command": "cat <<EOF\n{p} {machine.name}\nEOF\n", "p": 1, "result": "`id`"},
        {"command": ["echo", "{p}", "{nodes}", "{first.result.r}"], "p": 2.5, "result": True},
        {"command": "echo {p:raw} $(echo {first.exit_code}) # note", "p": "v", "result": 1},
    )
)


def _render_command(data: bytes) -> None:
    """Render the command of a task with a parameter and a result, as an attempt does."""
    try:
        given = json.loads(data)
        document = {
            "weft": 1, "name": "w", "params": {"p": given["p"]},
            "tasks": {
                "first": {"command": "true"},
                "second": {"command": given["command"], "after": "first", "outputs": ["o"]},
            },
        }  # fmt: skip
        result = {"exit_code": 0, "result": {"r": given["result"]}}
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    workflow, _ = _read_workflow(json.dumps(document).encode())
    compiled = _compile(workflow)
    start = Start(attempt=1, run=0, task=1, machine=0, nodes=1, count=1, iteration=1)
    job = render_job(
        compiled, start, _platform().machines[0], workdir="/w", records="/r", project=Path("/p"), folder=Path("/p"),
        results={"first": result},
    )  # fmt: skip
    json.dumps(job.argv)


def _compile(workflow: Workflow) -> Any:
    from weft.api.request import load_request
    from weft.engine.state.compiled import CompiledWorkflow

    return CompiledWorkflow("w", load_request(workflow, on=_platform()).instance)


def _read_options(data: bytes) -> None:
    text = data.decode(errors="replace")
    for parse_unit in (parse_seconds, parse_bytes, parse_rate):
        if (found := parse_unit(text)) is not None:
            format_seconds(found)
    make_by_name(PLANNERS, text)


def _read_lock(data: bytes) -> None:
    if (owner := LockOwner.of_text(data.decode(errors="replace"))) is not None:
        str(owner)
        assert isinstance(owner.alive, bool)


# Scratch files.


@cache
def _folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="weft-fuzz-"))
    import atexit

    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path
