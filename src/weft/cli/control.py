"""What ``cancel``, ``hold``, ``release`` and ``migrate`` share: a request to the engine, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli import options

if TYPE_CHECKING:
    from weft.api.project import OpenProject
    from weft.repository.runs import RunRecord

__all__ = ["send_requests"]


def send_requests(
    place: OpenProject,
    what: str,
    run: RunRecord,
    *,
    tasks: tuple[str, ...] = (),
    machine: str | None = None,
    as_json: bool,
    done: str,
) -> None:
    """Ask for something, for each task or for the whole run, and print what the engine answers.

    ``done`` says what has happened if it was granted. Exit code 1: it was refused, or nobody answered.
    """
    from weft.api.project import RequestReply, send_request

    named: tuple[str | None, ...] = tasks or (None,)
    answers: list[tuple[str | None, RequestReply]] = []
    for task in named:
        answers.append((task, send_request(place, what, run, task=task, machine=machine)))
        if not answers[-1][1].heard:
            break  # the others would not be heard either
    if as_json:
        records = [
            {"task": task, "granted": each.granted, "heard": each.heard, "text": each.text}
            for task, each in answers
        ]
        options.print_json({"run": run.number, "asked": what, "answers": records})
    for task, answer in answers:
        of = f"{task} of run {run.number}" if task else f"run {run.number}"
        if not answer.granted:
            resume = "" if answer.heard else _advice(place, run)
            click.echo(f"error: {what} {of}: {answer.text}{resume}", err=True)
        elif not as_json:
            click.echo(f"{of} {done}")
    if not all(answer.granted for _, answer in answers):
        raise click.exceptions.Exit(1)


def _advice(place: OpenProject, run: RunRecord) -> str:
    if place.engine is not None:
        return "; it may hang: `weft status` names it"
    return (
        "; `weft resume` goes on with the run" if place.resumable(run) else f"; the run is over ({run.state})"
    )
