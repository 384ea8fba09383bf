"""``weft machines``: show the machines of a run, and add, drain or remove some during the run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, NoReturn

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.machines import MachineStatus
    from weft.api.project import OpenProject
    from weft.engine.states import Admission
    from weft.repository.requests import RequestReply


@click.group("machines")
def command() -> None:
    """Show the machines of a run, and add, drain or remove some during the run."""


@command.command("ls")
@options.run_option
@options.project
@options.as_json
def list_(run: int | None, project: str | None, as_json: bool) -> None:
    """List the machines of the last run with their states, free nodes and measured values.

    States: open; unknown (its host does not answer); lost (its sandbox or runner does not work); drained;
    removed. Load, memory and disk are
    measured if `state_every` is set, or a requirement or rank uses them. `load` is the number of cores that
    other programs keep busy or wait for; `speed factor` is the estimated speed relative to that of the
    platform file.
    """
    from weft.api.machines import list_machines
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        found, machines = list_machines(opened, run)
    if as_json:
        options.print_json({"run": found.number, "machines": [asdict(each) for each in machines]})
        return
    from weft.reports.text import TextTable, printable

    heading = (
        "machine",
        "state",
        "nodes",
        "free",
        "running",
        "queued",
        "speed factor",
        "load",
        "memory",
        "disk",
    )
    rows = tuple((printable(each.name), each.state, *_measured(each)) for each in machines)
    options.print_lines(TextTable(heading=heading, rows=rows, texts=2).lines())
    options.print_lines(
        f"{printable(each.name)} is lost: {printable(each.reason)}" for each in machines if each.reason
    )
    options.print_lines(printable(f"{each.name} {each.silence}") for each in machines if each.silence)


def _measured(machine: MachineStatus) -> tuple[str, ...]:
    from weft.units import format_bytes

    memory, disk = machine.free_memory_bytes, machine.free_disk_bytes
    return (
        str(machine.nodes),
        str(machine.free_nodes),
        str(machine.running),
        str(machine.queued),
        f"{machine.speed_factor:.2g}",
        "-" if machine.load is None else f"{machine.load:.2f}",
        "-" if memory is None else format_bytes(memory),
        "-" if disk is None else format_bytes(disk),
    )


@command.command("add")
@click.argument("name")
@click.argument("description", nargs=-1, metavar="[KEY=VALUE]...")
@options.project
@options.as_json
def add(name: str, description: tuple[str, ...], project: str | None, as_json: bool) -> None:
    """Add the machine NAME to the current run; planning includes it immediately.

    KEY=VALUE are the keys of a machine in a platform file: nodes=4 speed=2 memory=8GB. Running programs
    continue. Exit code 2: the machine is already part of the run, or its description is invalid; 1: no engine
    is running.
    """
    from weft.api.machines import add_machine, read_description
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        reply = add_machine(opened, name, read_description(description))
    _print_reply(f"{name} joined", reply, as_json=as_json)


@command.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let tasks start on the machine again, even if it was removed.")
@options.project
@options.as_json
def drain(name: str, undo: bool, project: str | None, as_json: bool) -> None:
    """Start no more tasks on the machine NAME; tasks that are running there continue to their end.

    Exit code 2: the run has no such machine; 1: no engine is running, or the machine is drained already.
    """
    from weft.engine.states import Admission

    done = f"{name} is open" if undo else f"{name} is drained; `weft machines drain {name} --undo` opens it"
    _set_admission(project, name, Admission.OPEN if undo else Admission.DRAINED, done, as_json=as_json)


@command.command("remove")
@click.argument("name")
@options.project
@options.as_json
def remove(name: str, project: str | None, as_json: bool) -> None:
    """Start no more tasks on the machine NAME and move those that run there to other machines.

    The moved tasks restart from their last checkpoints. Exit code 2: the run has no such machine; 1: no
    engine is running, the machine is removed already, or programs run there and no other machine can be used;
    then nothing changes.
    """
    from weft.engine.states import Admission

    _set_admission(project, name, Admission.REMOVED, f"{name} is removed", as_json=as_json)


@command.command("reload")
@click.argument("file", required=False)
@options.project
@options.as_json
def reload(file: str | None, project: str | None, as_json: bool) -> None:
    """Read the platform FILE again; new machines join the run, and missing ones are removed.

    By default FILE is the platform file with which the run was started. The description of a machine of the
    run cannot be changed. A machine that `weft machines add` has added is removed, too, unless FILE lists it.
    Exit code 2: the file is invalid or changes a machine; then nothing is changed; 1: no engine is running.
    """
    from weft.api.machines import reload_machines
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        found = reload_machines(opened, file)
    texts = ([f"{', '.join(found.joined)} joined"] if found.joined else []) + [
        f"{name} is removed: {found.file} does not list it" for name in found.removed
    ]
    refused = [each for each in found.replies if not each.granted]
    reply = refused[0] if refused else None
    if as_json:
        record = {"file": found.file, "joined": list(found.joined), "removed": list(found.removed)}
        options.print_json(record | {"granted": reply is None, "text": "" if reply is None else reply.text})
    elif reply is None:
        options.print_lines(texts or [f"{found.file}: no machine was added or removed"])
    if reply is not None:
        _fail(reply)


def _set_admission(project: str | None, name: str, admission: Admission, done: str, *, as_json: bool) -> None:
    from weft.api.machines import set_admission
    from weft.api.project import OpenProject
    from weft.engine.states import Admission

    with OpenProject.at(project) as opened:
        reply = set_admission(opened, name, admission)
        if reply.granted and admission == Admission.OPEN:
            done += _describe_loss(opened, name)
    _print_reply(done, reply, as_json=as_json)


def _describe_loss(opened: OpenProject, name: str) -> str:
    """Return a text to append to the reply if a machine was opened again but is lost; else ""."""
    from weft.api.machines import list_machines

    lost = [each for each in list_machines(opened)[1] if each.name == name and each.state == "lost"]
    why = f": {lost[0].reason}" if lost and lost[0].reason else ""
    return f", but no task starts there while it is lost{why}" if lost else ""


def _print_reply(done: str, reply: RequestReply, *, as_json: bool) -> None:
    """Print ``done`` if a request was granted; else print the reason and exit with code 1."""
    from weft.reports.text import printable

    if as_json:
        text = done if reply.granted else reply.text
        options.print_json({"granted": reply.granted, "heard": reply.replied, "text": text})
    elif reply.granted:
        click.echo(printable(done))
    if not reply.granted:
        _fail(reply)


def _fail(reply: RequestReply) -> NoReturn:
    advice = "" if reply.replied else "; machines can be changed only during a run"
    click.echo(f"error: {reply.text}{advice}", err=True)
    raise click.exceptions.Exit(1)
