"""``weft sites``: detect machines for a platform file, prove that they work, and measure them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.sites import DetectedSite, MachineCheck

_out = click.option("--out", metavar="FILE", help="Write the platform to FILE (default: print it).")


@click.group("sites")
def command() -> None:
    """Detect machines, and check and measure those of a platform file."""


@command.group("detect")
def detect() -> None:
    """Write a platform file with the machines that are found here or on a host."""


@detect.command("local")
@_out
@options.as_json
def local(out: str | None, as_json: bool) -> None:
    """Describe this computer: its usable cores are nodes, its memory is shared by all tasks."""
    from weft.api.sites import detect_local

    options.check_outputs({"--out": out})
    _write(detect_local(), out, as_json=as_json)


@detect.command("ssh")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--user", metavar="NAME", help="User on the hosts (default: as in the ssh configuration).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port (default: as in the ssh configuration).")
@click.option("--identity", metavar="FILE", help="Private key (default: as in the ssh configuration).")
@click.option("--config", metavar="FILE", help="ssh configuration (default: ~/.ssh/config).")
@click.option("--python", metavar="PROGRAM", help="Python on the hosts (default: python3).")
@click.option("--sandbox", metavar="DIR", help="Directory on the hosts (default: ~/.cache/weft/sandbox).")
@_out
@options.as_json
def ssh(hosts: tuple[str, ...], out: str | None, as_json: bool, **settings: str | int | None) -> None:
    """Describe hosts that are reached by ssh: cores, memory, architecture.

    Exit code 1: a host cannot be reached, refuses the key, or has no Python 3.8.
    """
    from weft.api.sites import detect_ssh

    options.check_outputs({"--out": out})
    stated = {key: value for key, value in settings.items() if value is not None}
    _write(detect_ssh(hosts, stated), out, as_json=as_json)


@detect.command("slurm")
@click.option(
    "--partition", "partitions", multiple=True, metavar="NAME",
    help="Describe this partition; may be repeated (default: all that share no nodes).",
)  # fmt: skip
@click.option("--via", metavar="HOST", help="Login node that is reached by ssh (default: this computer).")
@click.option("--user", metavar="NAME", help="User on the login node (default: as in the ssh configuration).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port (default: as in the ssh configuration).")
@click.option("--identity", metavar="FILE", help="Private key (default: as in the ssh configuration).")
@click.option("--config", metavar="FILE", help="ssh configuration (default: ~/.ssh/config).")
@click.option("--sandbox", metavar="DIR", help="Directory on the file system of the cluster, for --via.")
@_out
@options.as_json
def slurm(
    partitions: tuple[str, ...], via: str | None, out: str | None, as_json: bool, **settings: str | int | None
) -> None:
    """Describe the partitions of the Slurm cluster of this login node, or of another one.

    Each kind of nodes is a machine, with nodes, cores, memory_per_node, GPUs, features and the longest job as
    attributes. Exit code 2: Slurm is not installed, or there is no such partition; 1: Slurm or the login node
    does not answer.
    """
    from weft.api.sites import detect_slurm

    options.check_outputs({"--out": out})
    stated = {key: value for key, value in settings.items() if value is not None}
    if stated and via is None:
        raise click.UsageError(f"--{next(iter(stated))} needs --via HOST")
    _write(detect_slurm(partitions, via, stated), out, as_json=as_json)


@detect.command("dask")
@click.argument("scheduler", metavar="SCHEDULER")
@click.option("--group", is_flag=True, help="Describe alike workers that see this folder as one machine.")
@_out
@options.as_json
def dask(scheduler: str, out: str | None, *, group: bool, as_json: bool) -> None:
    """Describe the named workers of a Dask cluster: threads, memory limit, GPUs and other resources.

    SCHEDULER is its address, such as tcp://HOST:8786. Workers that see the current folder at the same path
    get `shared: true`. Exit code 2: the address is invalid, or Dask is not installed; 1: the scheduler does
    not answer, or has no worker with a name.
    """
    from weft.api.sites import detect_dask

    options.check_outputs({"--out": out})
    _write(detect_dask(scheduler, Path.cwd(), group=group), out, as_json=as_json)


def _write(found: DetectedSite, out: str | None, *, as_json: bool) -> None:
    from weft.formats.files import save_report
    from weft.formats.native import write_platform
    from weft.platform.file_format import platform_document

    text = write_platform(found.platform)
    if out is not None:
        save_report(text, out)
    if as_json:
        record = {"file": out, "notes": list(found.notes), "platform": platform_document(found.platform)}
        options.print_json(record)
        return
    if out is None:
        click.echo(text, nl=False)
    else:
        options.print_written(out)
    for note in found.notes:
        click.echo(f"note: {note}", err=out is None)


@command.command("check")
@click.argument("platform", metavar="PLATFORM")
@click.option(
    "--machine", "machines", multiple=True, metavar="NAME",
    help="Check only this machine; may be repeated.",
)  # fmt: skip
@click.option("--size", default="16MB", show_default=True, help="Size of the file that is copied.")
@click.option(
    "--timeout", "timeout_s", default="5m", show_default=True, metavar="TIME",
    callback=options.read_seconds, help="Give a machine up after this time.",
)  # fmt: skip
@click.option(
    "--out", metavar="FILE",
    help="Write the measured platform to FILE (default: PLATFORM with the ending .measured.yaml).",
)  # fmt: skip
@options.as_json
def check(
    platform: str, machines: tuple[str, ...], size: str, timeout_s: float, out: str | None, as_json: bool
) -> None:
    """Prove by small programs that every machine works, and measure it.

    Programs are started, a file is sent, and a copy of it comes back. Speed (relative to the first machine),
    time to start a program and bandwidth of staging are measured and written to a platform file, from which
    plans and predictions read them. Temporary files are in the current folder; for Slurm without `via` it
    must be on the file system of the cluster. Exit code 1: a machine did not run the programs; 2: the file
    is invalid.
    """
    from weft.api.sites import check_site
    from weft.formats.files import load_platform, save_report
    from weft.formats.native import write_platform

    target = out if out is not None else _measured_name(platform)
    options.check_outputs({"--out": target})
    found = check_site(
        load_platform(platform),
        Path.cwd(),
        only=machines,
        size=size,
        timeout_s=timeout_s,
        watch=lambda name: None if as_json else click.echo(f"checking {name} ...", err=True),
    )
    written = target if any(not each.problem for each in found.checks) else None
    if written is not None:
        save_report(write_platform(found.platform), written)
    if as_json:
        options.print_json({"file": written, "machines": [_describe(each) for each in found.checks]})
    else:
        options.print_lines(_table(found.checks))
        if written is not None:
            options.print_written(written)
        else:
            click.echo("no machine ran the programs: no file is written")
    if not found.is_usable:
        raise click.exceptions.Exit(1)


def _measured_name(platform: str) -> str:
    path = Path(platform)
    is_file = path.suffix in (".yaml", ".yml")
    return str(path.with_name(f"{path.stem}.measured.yaml")) if is_file else "machines.measured.yaml"


def _describe(check: MachineCheck) -> dict[str, object]:
    return {**asdict(check), "works": not check.problem}


def _table(checks: tuple[MachineCheck, ...]) -> list[str]:
    from weft.reports.text import TextTable, printable
    from weft.units import format_bytes

    first = next((check.seconds for check in checks if check.seconds is not None), None)
    rows = []
    for each in checks:
        speed = "-" if first is None or each.seconds is None else f"{first / each.seconds:.3g}"
        start = "-" if each.startup_s is None else f"{each.startup_s:.3g} s"
        rate = "-" if each.bandwidth_Bps is None else f"{format_bytes(each.bandwidth_Bps)}/s"
        state = "failed" if each.problem else "works"
        rows.append((printable(each.machine), each.kind, state, speed, start, rate))
    heading = ("machine", "kind", "state", "speed", "start", "staging")
    problems = [f"{printable(each.machine)}: {printable(each.problem)}" for each in checks if each.problem]
    return [*TextTable(heading=heading, rows=tuple(rows), texts=3).lines(), *problems]
