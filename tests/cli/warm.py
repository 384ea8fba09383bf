"""The command in a process of its own whose Python has loaded weft already: for tests of what it says.

To load weft takes ten times as long as to refuse a file. The process is a copy of one that waits (``forking``): its
folder, variables, streams and exit code are its own, and what hangs or crashes is only itself. What Python does when it
starts is not seen here: ``cli.shell.weft`` starts a new one.
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
"""More than any of these may take."""
READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")
"""Variables that matter when Python starts begin with these; none of them can be given here."""


@cache
def _waiting() -> str:
    """Start the process that is copied, once; give the path of its socket."""
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
    """Give a shell script that is ``weft``."""
    asking = shlex.join([sys.executable, "-I", "-S", _beside("asking.py"), _waiting()])
    return f'#!/bin/sh\nexec {asking} "$@"\n'
