"""Programs of services: a task that names only a service runs the program stated for this service.

Programs are stated in the platform file (``services`` of the platform or of a machine), or in a file of
services beside the workflow. For a task with ports (``attributes.ports``, see ``diet_ports``) the command of
the service may contain a field ``{NAME}`` for each port; shell text that sets the values of the ports
precedes the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from weft.documents import Reader
from weft.errors import InvalidInput, Problem, SourceLocation, shorten, suggest
from weft.fields import Field, Record, version_field
from weft.formats.files import open_source
from weft.formats.format import SourceFile
from weft.platform.file_format import PROGRAMS
from weft.platform.machine import ServiceProgram
from weft.platform.platform import Platform
from weft.workflow.shell_text import FieldPlace, ShellField, expansion, split_shell_text
from weft.workflow.task import JobSpec, Task, TaskKind
from weft.workflow.templates import TemplateField, is_late, list_fields, split_template
from weft.workflow.workflow import Workflow

_FILE = Record("a file of services", (
    version_field(required=True),
    Field("services", PROGRAMS, "programs by the names of their services", required=True,
          advice="add `services:` with `NAME: {command: ...}` in it"),
))  # fmt: skip


def load_services_beside(source: SourceFile) -> tuple[dict[str, ServiceProgram], str]:
    """Return the programs in ``STEM.services.yaml`` or ``services.yaml`` beside a workflow file.

    The result is (programs by service, name of the file). If neither file exists, the programs are empty and
    the name is that of ``services.yaml``.
    """
    folder = Path(source.name).parent
    for name in (f"{source.stem}.services.yaml", "services.yaml"):
        if (folder / name).is_file():
            found = open_source(folder / name)
            return read_services(found), found.name
    return {}, str(folder / "services.yaml")


def read_services(source: SourceFile) -> dict[str, ServiceProgram]:
    """Return the programs in a file of services, by service. Raises InvalidInput."""
    from weft.formats.yaml_document import parse_document

    document = parse_document(source.text(), source.name)
    assert document.root is not None, "parse_document returns a root or raises"
    reader = Reader()
    stated: dict[str, ServiceProgram] = _FILE.read(reader, document.root).get("services", {})
    reader.finish(document)
    return stated


def bind_services(workflow: Workflow, platform: Platform) -> Workflow:
    """Return the workflow with the programs that a platform states for the services of its tasks.

    A task that has a program keeps it. If the program of a service is known and no machine names the service,
    the task may run on every machine. Raises InvalidInput if machines state different programs for a service.
    """
    if not any(task.service is not None for task in workflow.tasks):
        return workflow
    offered = {name for machine in platform.machines for name in (*machine.services, *machine.speeds)}
    offered |= {share.service for share in platform.virtual}
    programs = dict(platform.services)
    for machine in platform.machines:
        for name, program in machine.programs.items():
            if programs.setdefault(name, program) != program:
                raise _refuse_difference(name, machine.name, platform)
    file = (platform.document.file if platform.document else None) or ""
    bound = tuple(_bind_task(task, programs, offered, workflow.params, file) for task in workflow.tasks)
    return replace(workflow, tasks=bound)


def _refuse_difference(service: str, machine: str, platform: Platform) -> InvalidInput:
    return InvalidInput(
        f"machine {shorten(machine)!r} has another program for service {shorten(service)!r} than others",
        rule="a service must have the same program on all machines",
        advice="write one command that contains {machine.name} or {machine.arch}",
        path=("machines", machine, "services", service),
        location=SourceLocation(file=platform.document.file) if platform.document else None,
    )


def _bind_task(
    task: Task,
    programs: Mapping[str, ServiceProgram],
    offered: Collection[str],
    params: Collection[str],
    file: str,
) -> Task:
    if task.service is None or task.kind is not TaskKind.COMPUTE:
        return task
    has_program = STATED_IN in task.attributes or (task.job and (task.job.command or task.job.call))
    if not has_program and task.service in programs:
        task = add_program(task, programs[task.service], params, file)
    elif not has_program or "ports" not in task.attributes:
        return task
    return task if task.service in offered else replace(task, service=None)


STATED_IN = "program_stated_in"
"""Attribute of a task with a port without data: the file that states the program of its service."""


def add_program(task: Task, program: ServiceProgram, params: Collection[str], file: str) -> Task:
    """Return a task with the program of its service.

    A task with a port without data (``attributes.unbound``) gets the work of the program and the attribute
    ``STATED_IN``, but no command: it can be planned and simulated only. ``params``: names of the workflow's
    parameters; ``file``: the file that states the program, for messages. Raises InvalidInput if a field of
    the command is unknown, or is in a place of the shell text where fields are not allowed.
    """
    work = program.work if task.work is None and task.seconds is None else task.work
    if "unbound" in task.attributes:
        return replace(task, work=work, attributes={**task.attributes, STATED_IN: file})
    command: str | tuple[str, ...] = program.command
    ports = task.attributes.get("ports")
    if isinstance(ports, Mapping):
        names = list(ports["names"])
        text = command if isinstance(command, str) else " ".join(map(_quote_word, command))
        if problems := [*_find_unknown(text, names, task, params), *_find_misplaced(text, names, task)]:
            location = SourceLocation(file=file) if file else None
            raise InvalidInput([replace(problem, location=location) for problem in problems])
        command = f"{ports['setup']}\n{_insert_ports(text, names)}"
    job = replace(
        task.job or JobSpec(), command=command, env={**program.env, **(task.job.env if task.job else {})}
    )
    return replace(task, job=job, work=work)


def _find_unknown(
    command: str, ports: Collection[str], task: Task, params: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each field of a command that is no port, parameter or name that weft defines."""
    known = {*ports, *params, *(task.sweep.names if task.sweep else ())}
    for name in dict.fromkeys(each.name for each in list_fields(command)):
        if name not in known and not is_late(name):
            what = f"service {task.service}: {{{shorten(name, 40)}}} is no port of {shorten(task.name, 40)!r}"
            rule = "names in braces are ports, parameters, sweep variables or names that weft defines"
            advice = suggest(
                name, ports, f"ports: {', '.join(ports)}; write {{{{ and }}}} for literal braces"
            )
            yield Problem(what=what, rule=rule, advice=advice)


def _find_misplaced(command: str, ports: Collection[str], task: Task) -> Iterator[Problem]:
    for each in split_shell_text(command).refusals:
        if each.name.split(".")[0] in ports:
            yield Problem(what=f"service {task.service}: {{{each.name}}}: {each.what}", advice=each.advice)


def _insert_ports(command: str, ports: Collection[str]) -> str:
    """Return the command with each field of a port replaced by an expansion of its shell variable."""
    split = split_shell_text(command)
    places = (piece for piece in split.pieces if isinstance(piece, ShellField))
    numbers: dict[str, None] = {}
    text = "".join(_insert_piece(piece, ports, places, numbers) for piece in split_template(command))
    # In arithmetic, a shell may evaluate text that is not a number as code.
    checks = "".join(
        f'case "${{{name}}}" in ""|-|?*-*|*[!0-9-]*) echo "{name}: not a whole number" >&2; exit 1;; esac\n'
        for name in numbers
    )
    return checks + text


def _insert_piece(
    piece: str | TemplateField,
    ports: Collection[str],
    places: Iterator[ShellField],
    numbers: dict[str, None],
) -> str:
    if not isinstance(piece, TemplateField):
        return piece
    if piece.raw:
        return f"{{{piece.name}:raw}}"
    place = next(places).place
    name, _, form = piece.name.partition(".")
    if name not in ports or form not in ("", "file", "value"):
        return f"{{{piece.name}}}"
    variable = f"port_{name}_{form}" if form else f"port_{name}"
    if place is FieldPlace.NUMBER:
        numbers[variable] = None
        return f"(${{{variable}}})"
    return expansion(place, variable)


def _quote_word(word: str) -> str:
    """Return a word of a command list as quoted shell text; fields are kept."""
    pieces = (
        f"{{{piece.name}}}" if isinstance(piece, TemplateField) else shlex.quote(piece)
        for piece in split_template(word)
    )
    return "".join(pieces) or "''"
