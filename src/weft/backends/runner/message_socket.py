"""Socket between engine and runner, used by both: one message per line, without blocking.

This module is loaded by the runner: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import socket

PROTOCOL = 2
"""Version of the message protocol; a runner with another version is replaced."""
_PART_BYTES = 1 << 18


class MessageSocket:
    """A connection, its unsent messages and the incomplete last line that was received."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.incoming = b""
        self._outgoing: list[str] = []
        self._unsent = b""

    def send(self, text: str) -> None:
        """Queue an encoded message; ``flush`` sends all queued messages together."""
        self._outgoing.append(text)

    def flush(self) -> bool:
        """Send as much as the socket accepts now; return whether all messages were sent. Raises OSError."""
        if self._outgoing:
            self._outgoing.append("")
            self._unsent += "\n".join(self._outgoing).encode()
            self._outgoing.clear()
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> list[bytes] | None:
        """Return the lines received; None if the connection is closed."""
        try:
            part = self.socket.recv(_PART_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            part = b""
        if not part:
            return None
        lines = (self.incoming + part).split(b"\n")
        self.incoming = lines.pop()
        return lines
