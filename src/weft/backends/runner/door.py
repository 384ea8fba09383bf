"""The door of a runner: the socket at which its engine speaks to it, one JSON object per line.

Whoever connects is a stranger until the first line shows the token; a second engine with the token takes the
place of the first. Lines out are gathered and sent at once; what a slow engine does not take yet waits.
Read by the runner only: no other part of weft, and only light modules.
"""

from __future__ import annotations

import hmac
import json
import os
import select
import socket

from weft.backends.runner.records import Record

__all__ = ["Door"]

_MOST_STRANGERS = 8
_LONGEST_GREETING_BYTES = 1 << 22
"""An environment is at most a few megabytes; a stranger does not fill our memory."""
_PART_BYTES = 1 << 18

_decode = json.JSONDecoder().decode


class _Caller:
    """One connection."""

    __slots__ = ("incoming", "socket")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.incoming = b""


class Door:
    """The listening socket, the strangers before it and the one engine inside."""

    def __init__(self, folder: int, token: str) -> None:
        self._folder = folder
        self._token = token.encode()
        self._callers: dict[int, _Caller] = {}
        self._engine: _Caller | None = None
        self._outgoing: list[str] = []
        self._unsent = b""
        self._listener = self._listen()
        self.poll = select.poll()
        self.poll.register(self._listener, select.POLLIN)

    def _listen(self) -> socket.socket:
        """Bind by way of the open directory: a socket's path holds 107 characters, and may not be enough."""
        self._remove()
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o077)
        try:
            listener.bind(f"/proc/self/fd/{self._folder}/socket")
        finally:
            os.umask(mask)
        listener.listen(128)
        listener.setblocking(False)
        return listener

    def _remove(self) -> None:
        try:
            os.unlink("socket", dir_fd=self._folder)
        except FileNotFoundError:
            return

    @property
    def engine_is_here(self) -> bool:
        """Tell whether an engine is connected."""
        return self._engine is not None

    def close(self) -> None:
        """Shut the door, and let nobody wait before it."""
        self._remove()
        self._listener.close()
        for caller in list(self._callers.values()):
            self._drop(caller)

    def tell(self, text: str) -> None:
        """Say an encoded message to the engine; nobody hears it where none is here."""
        if self._engine is not None:
            self._outgoing.append(text)

    def flush(self) -> None:
        """Send what was said."""
        engine = self._engine
        if engine is None:
            return
        if self._outgoing:
            self._outgoing.append("")
            self._unsent += "\n".join(self._outgoing).encode()
            self._outgoing.clear()
        if not self._unsent:
            return
        try:
            sent = engine.socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(engine)
            return
        was_waiting = sent < len(self._unsent)
        self._unsent = self._unsent[sent:]
        self.poll.modify(engine.socket, select.POLLIN | (select.POLLOUT if was_waiting else 0))

    def hear(self, descriptor: int) -> list[Record]:
        """Take what has come in on one socket and give the messages of the engine, greetings included."""
        if descriptor == self._listener.fileno():
            self._accept()
            return []
        caller = self._callers.get(descriptor)
        return self._receive(caller) if caller is not None else []

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it has gone again, or there are too many open files: it may come back
        connection.setblocking(False)
        strangers = [caller for caller in self._callers.values() if caller is not self._engine]
        if len(strangers) >= _MOST_STRANGERS:
            self._drop(strangers[0])
        self._callers[connection.fileno()] = _Caller(connection)
        self.poll.register(connection, select.POLLIN)

    def _receive(self, caller: _Caller) -> list[Record]:
        try:
            part = caller.socket.recv(_PART_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            part = b""
        lines = (caller.incoming + part).split(b"\n")
        caller.incoming = lines.pop()
        messages: list[Record] = []
        for line in lines:
            if caller is not self._engine and not self._admit(caller, line):
                self._drop(caller)
                return messages
            messages.append(_message(line))
        if not part or (caller is not self._engine and len(caller.incoming) > _LONGEST_GREETING_BYTES):
            self._drop(caller)
        return messages

    def _admit(self, caller: _Caller, line: bytes) -> bool:
        """Let a stranger in who shows the token; the engine that was here before goes."""
        token = _message(line).get("token")
        if not isinstance(token, str) or not hmac.compare_digest(token.encode(), self._token):
            return False
        if self._engine is not None:
            self._drop(self._engine)
        self._engine = caller
        return True

    def _drop(self, caller: _Caller) -> None:
        self._callers.pop(caller.socket.fileno(), None)
        self.poll.unregister(caller.socket)
        caller.socket.close()
        if caller is self._engine:
            self._engine = None
            self._outgoing.clear()
            self._unsent = b""


def _message(line: bytes) -> Record:
    """Read one line; what is no object says so of itself."""
    try:
        message = _decode(line.decode())
    except ValueError as error:
        message = {"do": "", "problem": f"not JSON: {error}"}
    return message if isinstance(message, dict) else {"do": "", "problem": "not an object"}
