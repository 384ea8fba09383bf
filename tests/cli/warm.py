"""The command in a process of its own that has already imported weft.

Importing weft takes ten times as long as rejecting a file. The process is a fork of ``forking`` with its own
folder, variables, streams and exit code. The start of the interpreter is not tested here: ``cli.shell.weft``
starts a new one.
"""

from __future__ import annotations

import atexit
import shlex
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from architecture.package import environment
from cli.asking import ask
from cli.shell import Outcome, text

__all__ = ["program", "weft"]

PATIENCE_S = 60
"""Longer than any command may take."""
READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")
"""Prefixes of variables that Python reads at start; they cannot be set here."""


@cache
def _waiting() -> str:
    """Start the server once; return the path of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="weft-warm-")
    path = str(Path(folder.name) / "door")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(path)
        door.listen()
        process = subprocess.Popen(
            [sys.executable, _beside("forking.py"), str(door.fileno())],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[door.fileno()],
        )

    def end() -> None:
        process.communicate()  # closes its standard input
        folder.cleanup()

    atexit.register(end)
    return path


def _beside(name: str) -> str:
    return str(Path(__file__).with_name(name))


def weft(*arguments: str, folder: Path, **variables: str) -> Outcome:
    """Run ``weft`` in a folder."""
    assert not [name for name in variables if name.startswith(READ_BY_PYTHON)]
    request = {"arguments": arguments, "folder": str(folder), "variables": environment(**variables)}
    with (
        Path("/dev/null").open("rb") as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        ask(_waiting(), request, [stream.fileno() for stream in (given, out, err)]) as asking,
    ):
        asking.settimeout(PATIENCE_S)
        answer = asking.recv(100)
        assert answer, "the process that is copied has ended: see its standard error"
        out.seek(0)
        err.seek(0)
        return Outcome(code=int(answer), out=text(out.read()), err=text(err.read()))


def program() -> str:
    """Return a shell script that acts as ``weft``."""
    asking = shlex.join([sys.executable, "-I", "-S", _beside("asking.py"), _waiting()])
    return f'#!/bin/sh\nexec {asking} "$@"\n'
