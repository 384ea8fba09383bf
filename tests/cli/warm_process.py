"""``weft`` commands in a forked process that has already imported weft.

Importing weft takes ten times as long as rejecting a file. The process is a fork of ``fork_server`` with its own
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
from cli.fork_client import send_command
from cli.shell import Outcome, text
from patience import PATIENCE_S

__all__ = ["program", "weft"]

READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")
"""Prefixes of variables that Python reads at start; they cannot be set here."""


@cache
def _server_socket() -> str:
    """Return the path of the socket of the server, which the first call starts."""
    folder = tempfile.TemporaryDirectory(prefix="weft-warm-")
    path = str(Path(folder.name) / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, _beside("fork_server.py"), str(listener.fileno())],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the fork server has not started: see its standard error"

    def end() -> None:
        process.communicate()  # closes its standard input
        folder.cleanup()

    atexit.register(end)
    return path


def _beside(name: str) -> str:
    return str(Path(__file__).with_name(name))


def weft(*arguments: str, folder: Path, given: bytes = b"", **variables: str) -> Outcome:
    """Run ``weft`` in a folder, in a fork of the server, and return its outcome."""
    assert not [name for name in variables if name.startswith(READ_BY_PYTHON)]
    request = {"arguments": arguments, "folder": str(folder), "variables": environment(**variables)}
    with (
        tempfile.TemporaryFile() as standard_input,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        standard_input.write(given)
        standard_input.seek(0)
        streams = [stream.fileno() for stream in (standard_input, out, err)]
        with send_command(_server_socket(), request, streams) as connection:
            connection.settimeout(PATIENCE_S)
            answer = connection.recv(100)
        assert answer, "the fork server has ended: see its standard error"
        out.seek(0)
        err.seek(0)
        return Outcome(code=int(answer), out=text(out.read()), err=text(err.read()))


def program() -> str:
    """Return a shell script that acts as ``weft``."""
    command = shlex.join([sys.executable, "-I", "-S", _beside("fork_client.py"), _server_socket()])
    return f'#!/bin/sh\nexec {command} "$@"\n'
