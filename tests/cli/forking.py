"""A Python that has loaded all of weft and waits: each command asked for is a copy of it that becomes ``weft``.

``cli.warm`` runs it as a program, with the number of a socket that listens. A connection asks for one command with one message of
JSON, which brings the three streams along, and gets the exit code; where it is closed before, the command is killed.
The end of the standard input is the end of it all.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from select import select
from typing import Any

__all__: list[str] = []

LONGEST_REQUEST_BYTES = 1 << 20
SELDOM = "weft.planners.exact."
"""Loads the solver, which makes every copy larger and is hardly ever asked for."""

Request = tuple[dict[str, Any], list[int]]


def load() -> None:
    """Import every module of weft."""
    import weft

    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.startswith(SELDOM) and not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # what is shared with the copies stays shared


def serve(door: socket.socket) -> Request | None:
    """Copy this process for each command; give, in the copy only, what is asked for. Nothing at the end."""
    living: dict[int, tuple[int, socket.socket]] = {}  # process and who asked, by the handle of the process
    while True:
        askers = {asker.fileno(): handle for handle, (_, asker) in living.items()}
        ready, _, _ = select([sys.stdin, door, *living, *askers], [], [])
        if door in ready:
            asker, _ = door.accept()
            request, streams, *_ = socket.recv_fds(asker, LONGEST_REQUEST_BYTES, 3)
            child = os.fork()
            if child == 0:
                for handle, (_, other) in living.items():
                    os.close(handle)
                    other.close()
                asker.close()
                return json.loads(request), streams
            for stream in streams:
                os.close(stream)
            living[os.pidfd_open(child)] = child, asker
        for handle in {*ready} & {*living}:
            child, asker = living.pop(handle)
            os.close(handle)
            _, status = os.waitpid(child, 0)
            with asker, suppress(BrokenPipeError):  # who asked may have gone
                asker.send(str(os.waitstatus_to_exitcode(status)).encode())
        for number in {*ready} & {*askers}:  # nothing more is asked: it has gone
            if askers[number] in living:
                os.kill(living[askers[number]][0], signal.SIGKILL)
        if sys.stdin in ready:
            return None


def open_stream(number: int) -> None:
    """Open a standard stream as Python does when it starts: what is behind it now may be no file but a pipe."""
    name = ("stdin", "stdout", "stderr")[number]
    old = getattr(sys, name)
    new = open(  # noqa: SIM115 - as long as the process lives
        number, "r" if number == 0 else "w", encoding=old.encoding, errors=old.errors, closefd=False
    )
    if number:
        new.reconfigure(line_buffering=number == 2 or new.isatty())
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


def become(request: dict[str, Any], streams: list[int]) -> int:
    """Be ``python -m weft``: its streams, folder, variables and arguments. Gives its exit code."""
    for own, given in enumerate(streams):
        os.dup2(given, own)
        os.close(given)
        open_stream(own)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.path[0] = request["folder"]
    sys.argv[1:] = request["arguments"]
    try:
        runpy.run_module("weft", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def leave(code: int) -> None:
    """End as Python does, but do not take apart what was loaded: that takes longer than most commands."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    load()
    with socket.socket(fileno=int(sys.argv[1])) as door:
        asked = serve(door)
    if asked is not None:
        leave(become(*asked))
