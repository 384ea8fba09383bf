"""A process that has imported weft and forks for each requested command.

``cli.warm_process`` starts it with the number of a listening socket. A client requests one command by one JSON
message, which carries the three streams, and receives the exit code; if it disconnects before, the command is
killed. The server writes a line when it is ready, and ends at the end of its standard input.
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
EXCLUDED = "weft.planners.exact."
"""Prefix of modules that are not imported: they load a solver, which makes every fork slower."""

Request = tuple[dict[str, Any], list[int]]


def load() -> None:
    """Import every module of weft."""
    import weft

    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        if not module.name.startswith(EXCLUDED) and not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # pages shared with the forks stay shared


def serve(listener: socket.socket) -> Request | None:
    """Fork for each command; return the request in the child, and None at the end in the parent."""
    children: dict[int, tuple[int, socket.socket]] = {}  # process and connection, by process handle
    while True:
        clients = {client.fileno(): handle for handle, (_, client) in children.items()}
        ready, _, _ = select([sys.stdin, listener, *children, *clients], [], [])
        if listener in ready:
            client, _ = listener.accept()
            request, streams, *_ = socket.recv_fds(client, LONGEST_REQUEST_BYTES, 3)
            child = os.fork()
            if child == 0:
                for handle, (_, other) in children.items():
                    os.close(handle)
                    other.close()
                client.close()
                return json.loads(request), streams
            for stream in streams:
                os.close(stream)
            children[os.pidfd_open(child)] = child, client
        for handle in {*ready} & {*children}:
            child, client = children.pop(handle)
            os.close(handle)
            _, status = os.waitpid(child, 0)
            with client, suppress(BrokenPipeError):  # the client may have closed the connection
                client.send(str(os.waitstatus_to_exitcode(status)).encode())
        for number in {*ready} & {*clients}:  # the client closed the connection
            if clients[number] in children:
                os.kill(children[clients[number]][0], signal.SIGKILL)
        if sys.stdin in ready:
            return None


def open_stream(number: int) -> None:
    """Open a standard stream as Python does at start; the descriptor may now be a pipe."""
    name = ("stdin", "stdout", "stderr")[number]
    old = getattr(sys, name)
    new = open(  # noqa: SIM115 - open until the process ends
        number, "r" if number == 0 else "w", encoding=old.encoding, errors=old.errors, closefd=False
    )
    if number:
        new.reconfigure(line_buffering=number == 2 or new.isatty())
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


def run_as_weft(request: dict[str, Any], streams: list[int]) -> int:
    """Run ``python -m weft`` in this process with the given streams, folder, variables and arguments;
    return the exit code.
    """
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


def exit_quickly(code: int) -> None:
    """Exit without destroying the loaded modules, which would take longer than most commands."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    load()
    print("ready", flush=True)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        requested = serve(listener)
    if requested is not None:
        exit_quickly(run_as_weft(*requested))
