"""Act as ``weft`` in a shell: forward the command to ``forking`` over the socket given as first argument."""

from __future__ import annotations

import json
import os
import socket
import sys

__all__ = ["ask"]


def ask(path: str, request: dict[str, object], streams: list[int]) -> socket.socket:
    """Send a command with its streams; return the connection that delivers the exit code."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.connect(path)
    socket.send_fds(asking, [json.dumps(request).encode()], streams)
    return asking


if __name__ == "__main__":
    here = os.getcwd()  # noqa: PTH109 - to load pathlib takes as long as all of this
    asked = {"arguments": sys.argv[2:], "folder": here, "variables": dict(os.environ)}
    code = int(ask(sys.argv[1], asked, [0, 1, 2]).recv(100))
    sys.exit(code if code >= 0 else 128 - code)
