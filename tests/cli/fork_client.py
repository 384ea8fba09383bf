"""Act as ``weft`` in a shell: forward the command to ``fork_server`` over the socket given as first argument."""

from __future__ import annotations

import json
import os
import socket
import sys

__all__ = ["send_command"]


def send_command(path: str, request: dict[str, object], streams: list[int]) -> socket.socket:
    """Send a command with its streams; return the connection that receives the exit code."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    socket.send_fds(connection, [json.dumps(request).encode()], streams)
    return connection


if __name__ == "__main__":
    here = os.getcwd()  # noqa: PTH109 - importing pathlib would double the time of this program
    requested = {"arguments": sys.argv[2:], "folder": here, "variables": dict(os.environ)}
    code = int(send_command(sys.argv[1], requested, [0, 1, 2]).recv(100))
    sys.exit(code if code >= 0 else 128 - code)
