"""A rendered job: everything that is needed to run the program of one attempt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from weft.message import message
from weft.workflow.records.job import Environment

__all__ = ["RenderedJob"]

_is_plain = re.compile(r"[A-Za-z0-9_@%+=:,./-]+").fullmatch


@message
class RenderedJob:
    """The command of an attempt and its surroundings, every name filled in."""

    task: str
    """The task's name."""
    argv: tuple[str, ...] | None
    """What is executed, in ``workdir``; None: there is nothing to execute."""
    env: Mapping[str, str]
    """Variables that are added to the environment."""
    workdir: str
    stdin: str | None
    stdout: str
    stderr: str
    streams: tuple[str, ...] = ()
    """The streams that are files of the task's own directory: their folders are made before it starts."""
    words: tuple[str, ...] = ()
    """Files of the workflow's folder that the command names: they are brought along, under these names."""
    body: str | None = None
    """What the shell is given; None: it runs without a shell."""
    needs_script: bool = False
    """Whether ``argv`` runs ``command.sh``, because the line is too long to be handed over."""
    command: str = ""
    """The command as the fingerprint sees it: without what differs between attempts of one task."""
    declared: Mapping[str, str]
    """The environment variables that the task states."""
    environment: Environment | None = None
    outputs: tuple[str, ...] = ()
    version: str = ""
    identity: str = ""
    """Which task of which workflow it is, and in which iteration."""

    @property
    def script(self) -> str:
        """Give the text of ``command.sh``: what a user can run by hand to do the same."""
        lines = ["#!/bin/sh", f"# task {_one_line(self.task)}"]
        if self.argv is None:
            return "\n".join([*lines, "# nothing to execute", ""])
        lines.append(f"cd {shlex.quote(self.workdir)}")
        # Most need no quotes, and to find that out so is quicker.
        lines += [
            f"export {name}={value if _is_plain(value) else shlex.quote(value)}"
            for name, value in self.env.items()
        ]
        if self.body is None:
            lines.append(f"exec {shlex.join(self.argv)}")
        else:
            lines.append(self.body)
        return "\n".join([*lines, ""])


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)
