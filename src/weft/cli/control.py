"""``weft cancel``, ``hold``, ``release``, ``migrate`` and ``stop``: requests to a running engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options
from weft.units import format_bytes

if TYPE_CHECKING:
    from weft.api.project import OpenProject
    from weft.backends.layout import ProjectLayout
    from weft.repository.requests import RequestReply
    from weft.repository.runs import RunRecord


@click.command("cancel")
@options.run_argument
@options.project
@options.as_json
def cancel(run: int | None, project: str | None, as_json: bool) -> None:
    """Cancel RUN, or the last run: stop its programs and keep its results for later runs.

    A run whose engine was interrupted or died is cancelled too, and its remaining programs are stopped. To
    delay single tasks, use `weft hold`. If the disk is full, directories of failed attempts are removed
    first, as by `weft clean`. Exit code 1: the run has already ended, or its engine does not reply.
    """
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        found = opened.runs.run(run)
        if not (resumable := opened.resumable(found)):
            _send_requests(opened, "cancel", found, as_json=as_json, done="is cancelled")
    if resumable:  # after the database was closed, which on a full disk can be opened only once
        _cancel_without_engine(opened.layout, found, as_json=as_json)


@click.command("hold")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@options.run_option
@options.project
@options.as_json
def hold(tasks: tuple[str, ...], run: int | None, project: str | None, as_json: bool) -> None:
    """Hold every TASK that has not started until `weft release`; without TASK, all tasks of the run.

    TASK is a name such as lapw0 or 'lapw1[3]'; the name of a sweep selects all its tasks. Running tasks
    continue. Exit code 1: there is no such task, or no engine is running.
    """
    _request(project, "hold", run, tasks, as_json=as_json, done="is held; `weft release` releases it")


@click.command("release")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@options.run_option
@options.project
@options.as_json
def release(tasks: tuple[str, ...], run: int | None, project: str | None, as_json: bool) -> None:
    """Release every TASK that is held, or that failed and waits for the user; without TASK, all tasks.

    TASK is a name such as lapw0 or 'lapw1[3]'; the name of a sweep selects all its tasks. Exit code 1: there
    is no such task, or no engine is running.
    """
    _request(project, "release", run, tasks, as_json=as_json, done="is released")


@click.command("migrate")
@click.argument("task")
@click.option("--to", "machine", metavar="MACHINE", help="Target machine (default: the best one).")
@options.run_option
@options.project
@options.as_json
def migrate(task: str, machine: str | None, run: int | None, project: str | None, as_json: bool) -> None:
    """Move the running TASK to another machine, where it restarts from its last checkpoint.

    If MACHINE is busy, the task continues where it is; nodes of MACHINE that become free are kept for it, and
    it moves when there are enough. Exit code 1: the task is not running, no other machine can run it now, it
    cannot run on MACHINE, or no engine is running; then nothing changes.
    """
    where = f"is being moved to {machine or 'another machine'}"
    _request(project, "migrate", run, (task,), machine=machine, as_json=as_json, done=where)


@click.command("stop")
@options.project
@options.as_json
def stop(project: str | None, as_json: bool) -> None:
    """Stop the running engine gracefully, as Ctrl-C in its terminal does; `weft resume` continues.

    Programs get SIGTERM and have time to write restart files (`timeouts.ending`); then they are killed.
    The command returns when the engine has ended. Exit code 1: no engine is running, or it cannot be stopped
    from here.
    """
    from weft.api.project import OpenProject, stop_engine

    with OpenProject.at(project) as opened:
        stopped, problem = stop_engine(opened)
    if as_json:
        options.print_json({"stopped": stopped, "problem": problem})
    else:
        for number in stopped:
            click.echo(f"run {number} is stopped; `weft resume` continues it")
    if problem:
        click.echo(f"error: stop: {problem}", err=True)
        raise click.exceptions.Exit(1)


def _request(
    project: str | None,
    what: str,
    run: int | None,
    tasks: tuple[str, ...],
    *,
    machine: str | None = None,
    as_json: bool,
    done: str,
) -> None:
    from weft.api.project import OpenProject

    with OpenProject.at(project) as opened:
        found = opened.runs.run(run)
        _send_requests(opened, what, found, tasks=tasks, machine=machine, as_json=as_json, done=done)


def _cancel_without_engine(layout: ProjectLayout, found: RunRecord, *, as_json: bool) -> None:
    from weft.api.run import cancel_unfinished
    from weft.cli.driver import RunDriver

    driver = RunDriver(quiet=True)
    with driver.signals:
        ended, freed_bytes = cancel_unfinished(layout, found, interrupted=driver.signals)
    if as_json:
        answer = {"task": None, "granted": ended.state == "cancelled", "heard": False, "text": ended.state}
        freed = {"freed_bytes": freed_bytes} if freed_bytes else {}
        options.print_json({"run": found.number, "asked": "cancel", "answers": [answer], **freed})
    elif ended.state == "cancelled":
        click.echo(f"run {found.number} is cancelled; no engine was running")
        if freed_bytes:
            freed_text = format_bytes(freed_bytes)
            click.echo(f"the disk was full: removed {freed_text} in directories of failed attempts")
    if ended.state != "cancelled":
        click.echo(f"error: run {found.number} was not cancelled: it is {ended.state}", err=True)
        raise click.exceptions.Exit(1)


def _send_requests(
    opened: OpenProject,
    what: str,
    run: RunRecord,
    *,
    tasks: tuple[str, ...] = (),
    machine: str | None = None,
    as_json: bool,
    done: str,
) -> None:
    """Send a request for each task, or for the whole run, and print the replies.

    ``done`` is the text printed after the name of the task or run if a request is granted. Exit with code 1
    if a request was refused or got no reply.
    """
    from weft.api.project import send_request

    named: tuple[str | None, ...] = tasks or (None,)
    answers: list[tuple[str | None, RequestReply]] = []
    for task in named:
        answers.append((task, send_request(opened, what, run, task=task, machine=machine)))
        if not answers[-1][1].replied:
            break  # without an engine, the remaining requests would get no reply either
    if as_json:
        records = [
            {"task": task, "granted": each.granted, "heard": each.replied, "text": each.text}
            for task, each in answers
        ]
        options.print_json({"run": run.number, "asked": what, "answers": records})
    for task, answer in answers:
        of = f"{task} of run {run.number}" if task else f"run {run.number}"
        if not answer.granted:
            advice = "" if answer.replied else _advice(opened, run)
            reason = answer.text.removeprefix(f"{what}: ")  # stored texts begin with the request
            if what == "hold" and reason.startswith("it is "):
                advice = "; only a task that has not started can be held"
            click.echo(f"error: {what} {of}: {reason}{advice}", err=True)
        elif not as_json:
            click.echo(f"{of}: {answer.text}" if answer.text != "done" else f"{of} {done}")
    if not all(answer.granted for _, answer in answers):
        raise click.exceptions.Exit(1)


def _advice(opened: OpenProject, run: RunRecord) -> str:
    if opened.engine is not None:
        return "; `weft status` shows the process of the engine, which may hang"
    return (
        "; `weft resume` continues the run" if opened.resumable(run) else f"; the run has ended ({run.state})"
    )
