"""Connections to ssh hosts: commands, long-lived line channels and files.

One background thread runs an event loop for the connections to all hosts; other threads call the methods of
``HostConnection``. Keys, agent and host keys are those of the user's ssh configuration. Passwords are never
used, and an unknown or changed host key is refused.
"""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import re
import shlex
import signal
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import asyncssh

from weft.backends.ssh.host import HostError, HostFailure, HostSettings

_Result = TypeVar("_Result")

CONNECT_TIMEOUT_S = 30.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_BLOCK_BYTES = 128 << 10
_WINDOW = 32
"""Blocks of a file under way at the same time."""
_UNREAD_BYTES = 16 << 20
"""A channel stops reading when its user has not taken this many bytes."""
_STDERR_BYTES = 8 << 10
_LONGEST_KEEPALIVE_S = 5.0
"""Longest time between two messages that test a connection; it is lost when the third is not answered."""
_DEEPEST_JUMP = 8
_SSH_PORT = 22


class ConnectionState(StrEnum):
    """State of the connection to a host."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


class CommandResult(NamedTuple):
    """Result of a command: the exit code, or minus the number of the signal that ended it, and its output."""

    code: int
    out: bytes
    err: bytes


class HostConnections:
    """Connections to hosts, one per settings, and the thread of their event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._hosts: dict[HostSettings, HostConnection] = {}

    def host(self, settings: HostSettings) -> HostConnection:
        """Return the connection for these settings; the first call starts the thread."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="weft-ssh", daemon=True)
                self._thread.start()
            if settings not in self._hosts:
                self._hosts[settings] = HostConnection(settings, self._loop)
            return self._hosts[settings]

    def close(self) -> None:
        """Close all connections and stop the thread."""
        with self._lock:
            for host in self._hosts.values():
                host.close()
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None
            for host in self._hosts.values():
                os.close(host.fileno())
            self._hosts.clear()


class HostConnection:
    """Connection to one host. All methods may be called from any thread except that of the event loop.

    Every failure is a ``HostError``. ``state`` and ``error`` (why the connection was lost) can be read at
    any time; ``fileno()`` becomes readable when the state changes, until ``take_state()`` is called.
    """

    def __init__(self, settings: HostSettings, loop: asyncio.AbstractEventLoop) -> None:
        self.settings = settings
        self.state = ConnectionState.CLOSED
        self.error: HostError | None = None
        self._loop = loop
        self._changed = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._hops: list[asyncssh.SSHClientConnection] = []
        self._sftp: asyncssh.SFTPClient | None = None
        self._connecting = asyncio.Lock()
        self._starting_sftp = asyncio.Lock()
        self._reconnecting: asyncio.Task[None] | None = None
        self._attempts: set[Future[None]] = set()
        """The calls of ``connect`` that have not returned."""

    @property
    def is_connected(self) -> bool:
        """Return whether the host is connected, as far as is known."""
        return self.state is ConnectionState.CONNECTED

    def fileno(self) -> int:
        """Return the descriptor that is readable after a change of state."""
        return self._changed

    def take_state(self) -> ConnectionState:
        """Return the state; the descriptor is not readable until the next change."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._changed)
        return self.state

    def connect(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Connect now, unless connected."""
        if self.state is ConnectionState.CONNECTED:
            return  # each operation asks; the thread of the connections need not be woken
        attempt = self._submit(self._connect(timeout_s))
        self._attempts.add(attempt)
        try:
            attempt.result()
        except CancelledError:
            raise HostError(self.settings.host, HostFailure.LOST, "weft stops connecting") from None
        finally:
            self._attempts.discard(attempt)

    def stop_connecting(self) -> None:
        """Let all calls of ``connect`` fail at once."""
        for attempt in list(self._attempts):
            attempt.cancel()

    def reconnect(
        self, first_pause_s: float = FIRST_PAUSE_S, longest_pause_s: float = LONGEST_PAUSE_S
    ) -> None:
        """Try to connect in the background, with pauses that double, until it works or cannot work.

        A refused key or a wrong host key ends the attempts; the state is then ``LOST`` again.
        """

        async def start() -> None:
            if self._reconnecting is None or self._reconnecting.done():
                self._reconnecting = asyncio.ensure_future(self._reconnect(first_pause_s, longest_pause_s))

        self._call(start())

    def run(self, argv: Sequence[str], input: bytes = b"", timeout_s: float | None = None) -> CommandResult:  # noqa: A002
        """Run a short command and return its exit code and output."""
        return self._call(self._run(argv, input, timeout_s))

    def open_lines(self, argv: Sequence[str]) -> LineChannel:
        """Start a program and return the channel to its standard input and output."""
        return self._call(self._open_lines(argv))

    def put(
        self,
        local: Path,
        remote: str,
        *,
        resume: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a file to the host and return the number of bytes sent.

        Bytes that the remote file already has are not sent again: the caller compares checksums.
        ``progress`` is called in the thread of the event loop with the number of bytes there.
        """
        return self._call(self._put(local, remote, resume, progress or _ignore))

    def get(
        self,
        remote: str,
        local: Path,
        *,
        resume: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a file from the host, like ``put``, and return the number of bytes received."""
        return self._call(self._get(remote, local, resume, progress or _ignore))

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents; one that exists is kept."""
        self._call(self._make_folder(path))

    def close(self) -> None:
        """Close the connection; its channels end."""
        self._call(self._close())

    def _call(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return self._submit(coroutine).result()

    def _submit(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # another thread has closed all connections
            coroutine.close()
            why = "weft has closed its connections"
            raise HostError(self.settings.host, HostFailure.LOST, why) from None

    def _set_state(self, state: ConnectionState, error: HostError | None = None) -> None:
        self.error = error
        self.state = state
        os.eventfd_write(self._changed, 1)

    async def _connect(self, timeout_s: float) -> None:
        async with self._connecting:
            if self.state is ConnectionState.CONNECTED:
                return
            self._set_state(ConnectionState.CONNECTING)
            try:
                async with asyncio.timeout(timeout_s):
                    self._hops = await _open_hops(self.settings, self._note_loss)
            except TimeoutError as error:
                what, advice = (
                    f"no answer within {timeout_s:g} s",
                    "check that the host runs and can be reached",
                )
                failure = HostError(self.settings.host, HostFailure.TIMED_OUT, what, advice)
                self._set_state(ConnectionState.LOST, failure)
                raise failure from error
            except BaseException as error:
                failure = error if isinstance(error, HostError) else self._explain(error)
                self._set_state(ConnectionState.LOST, failure)
                raise
            self._set_state(ConnectionState.CONNECTED)
            if self._hops[-1].is_closed():  # its loss was reported before this connection was the current one
                self._note_loss(None)

    async def _reconnect(self, pause_s: float, longest_pause_s: float) -> None:
        while True:
            try:
                return await self._connect(CONNECT_TIMEOUT_S)
            except HostError as error:
                if error.cause.is_permanent:
                    return None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_pause_s)

    def _note_loss(self, error: Exception | None) -> None:
        if self.state is ConnectionState.CONNECTED:
            self._sftp = None
            _abort(self._hops)
            self._set_state(ConnectionState.LOST, self._explain(error))

    async def _close(self) -> None:
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._reconnecting
            self._reconnecting = None
        self._set_state(ConnectionState.CLOSED)
        self._sftp = None
        hops, self._hops = self._hops, []
        _abort(hops)
        for hop in hops:
            await hop.wait_closed()

    def _connection(self) -> asyncssh.SSHClientConnection:
        if self.state is not ConnectionState.CONNECTED:
            what = "there is no connection to it"
            raise self.error or HostError(self.settings.host, HostFailure.LOST, what)
        return self._hops[-1]

    async def _run(self, argv: Sequence[str], data: bytes, timeout_s: float | None) -> CommandResult:
        connection = self._connection()
        try:
            async with asyncio.timeout(timeout_s):
                done = await connection.run(_command_line(argv), input=data, encoding=None)
        except (OSError, asyncssh.Error) as error:
            raise self._explain(error) from error
        out, err = _as_bytes(done.stdout), _as_bytes(done.stderr)
        code = _exit_code(done.exit_status, done.exit_signal)
        if code is None:
            what = f"the connection was lost while `{argv[0]}` ran"
            raise self.error or HostError(self.settings.host, HostFailure.LOST, what)
        if code == _NOT_FOUND:
            raise _no_command(self.settings.host, argv, err)
        return CommandResult(code, out, err)

    async def _open_lines(self, argv: Sequence[str]) -> LineChannel:
        connection = self._connection()
        channel = LineChannel(self, self._loop, argv)
        try:
            await connection.create_session(lambda: _LineSession(channel), _command_line(argv), encoding=None)
        except (OSError, asyncssh.Error) as error:
            channel.close()
            raise self._explain(error) from error
        return channel

    async def _files(self) -> asyncssh.SFTPClient:
        async with self._starting_sftp:
            if self._sftp is None:
                self._sftp = await self._connection().start_sftp_client()
            return self._sftp

    async def _make_folder(self, path: str) -> None:
        try:
            await (await self._files()).makedirs(path, exist_ok=True)
        except (OSError, asyncssh.Error) as error:
            raise await self._explain_file(error, path) from error

    async def _put(self, local: Path, remote: str, resume: bool, progress: Callable[[int], None]) -> int:
        try:
            files = await self._files()
            with local.open("rb") as source:
                return await self._send(files, source, remote, resume, progress)
        except (OSError, asyncssh.Error) as error:
            raise await self._explain_file(error, remote) from error

    async def _send(
        self,
        files: asyncssh.SFTPClient,
        source: BinaryIO,
        remote: str,
        resume: bool,
        progress: Callable[[int], None],
    ) -> int:
        start = await _size(files, remote) if resume else 0
        if start > os.fstat(source.fileno()).st_size:
            start = 0
        flags = asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | (0 if start else asyncssh.FXF_TRUNC)
        async with files.open(remote, flags, encoding=None) as target:
            position = done = source.seek(start)

            def write_next() -> tuple[int, Awaitable[int]] | None:
                nonlocal position
                if not (block := source.read(_BLOCK_BYTES)):
                    return None
                position += len(block)
                return position, target.write(block, position - len(block))

            def note(reached: int, _: int) -> None:
                nonlocal done
                done = reached
                progress(done)

            try:
                await _pipeline(write_next, note)
            except asyncssh.SFTPFailure:
                await target.truncate(done)  # blocks after the failed one would leave a hole
                raise
        return position - start

    async def _get(self, remote: str, local: Path, resume: bool, progress: Callable[[int], None]) -> int:
        try:
            files = await self._files()
            async with files.open(remote, asyncssh.FXF_READ, encoding=None) as source:
                size = (await source.stat()).size or 0
                with local.open("ab" if resume else "wb") as target:
                    start = target.tell()
                    if start > size:
                        start = target.seek(0)
                        target.truncate()
                    await _receive(source, target, start, size, progress)
            return size - start
        except (OSError, asyncssh.Error) as error:
            raise await self._explain_file(error, remote) from error

    def _explain(self, error: BaseException | None) -> HostError:
        return _explain(self.settings.host, error)

    async def _explain_file(self, error: Exception, path: str) -> HostError:
        """Return the error of a file operation. OpenSSH reports a full disk only as a failure: look at it."""
        host = self.settings.host
        if self.state is not ConnectionState.CONNECTED and self.error is not None:
            return self.error
        if isinstance(error, asyncssh.SFTPFailure) and await self._is_disk_full(path):
            error = asyncssh.SFTPNoSpaceOnFilesystem("no space")
        for kind, (cause, what, advice) in _FILE_FAILURES.items():
            if isinstance(error, kind):
                return HostError(host, cause, what.format(path=path), advice)
        if isinstance(error, OSError | asyncssh.SFTPError):
            return HostError(host, HostFailure.FILE, f"{path}: {error}")
        return self._explain(error)

    async def _is_disk_full(self, path: str) -> bool:
        try:
            disk = await (await self._files()).statvfs(os.path.dirname(path) or ".")  # noqa: PTH120
        except (OSError, asyncssh.Error):
            return False
        return disk.bavail * disk.frsize < _BLOCK_BYTES or disk.favail == 0 < disk.files


class LineChannel:
    """Lines to and from a program on a host. ``fileno()`` is readable while there is something to receive.

    After the end ``exit_code`` is set, or ``error`` if the connection was lost or the program does not exist.
    """

    def __init__(
        self, connection: HostConnection, loop: asyncio.AbstractEventLoop, argv: Sequence[str]
    ) -> None:
        self.exit_code: int | None = None
        self.error: HostError | None = None
        self.stderr = b""
        self._connection = connection
        self._argv = argv
        self._loop = loop
        self._lock = threading.Lock()
        self._readable = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lines: list[bytes] = []
        self._rest: list[bytes] = []
        self._unread_bytes = 0
        self._outgoing: list[bytes] = []
        self._ended = False
        self._closed = False
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None

    def fileno(self) -> int:
        """Return the descriptor for ``select.poll``."""
        return self._readable

    def send(self, line: bytes) -> None:
        """Send a line, given without its end. Lines sent after the program has ended are dropped."""
        with self._lock:
            self._outgoing.append(line)
            if len(self._outgoing) > 1 or self._ended:
                return
        self._post(self._flush)

    def receive(self) -> list[bytes] | None:
        """Return the lines that arrived, without their ends; None after the last one."""
        with self._lock:
            if self._ended and not self._lines:
                return None
            lines, self._lines = self._lines, []
            if not self._ended:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._readable)
            resume, self._unread_bytes = self._unread_bytes > _UNREAD_BYTES, 0
        if resume:
            self._post(self._resume)
        return lines

    def close(self) -> None:
        """Close the channel and its descriptor; the program gets an end of file."""
        with self._lock:
            if self._closed:
                return
            self._closed = self._ended = True
            os.close(self._readable)
        self._post(self._close_channel)

    def _post(self, callback: Callable[[], None]) -> None:
        """Call a function in the thread of the connections, unless they were all closed meanwhile."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def _resume(self) -> None:
        if self._channel is not None:
            self._channel.resume_reading()

    def _flush(self) -> None:
        with self._lock:
            lines, self._outgoing = self._outgoing, []
        if self._channel is not None and not self._ended:
            with suppress(OSError):  # the end of the channel is reported to the reader
                self._channel.write(b"".join([line + b"\n" for line in lines]))

    def attach(self, channel: asyncssh.SSHClientChannel[bytes]) -> None:
        """Set the channel; called by the event loop."""
        self._channel = channel

    def add(self, data: bytes) -> None:
        """Take output of the program; called by the event loop."""
        *complete, rest = data.split(b"\n")
        if complete:
            complete[0] = b"".join([*self._rest, complete[0]])
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        with self._lock:
            if self._closed or not complete:
                return
            self._lines += complete
            self._unread_bytes += len(data)
            os.eventfd_write(self._readable, 1)
            pause = self._unread_bytes > _UNREAD_BYTES
        if pause and self._channel is not None:
            self._channel.pause_reading()

    def end(self, code: int | None, error: Exception | None) -> None:
        """Note the end of the program or of the connection; called by the event loop."""
        host = self._connection.settings.host
        if code == _NOT_FOUND:
            self.error = _no_command(host, self._argv, self.stderr)
        elif code is None:
            self.error = self._connection.error or _explain(host, error)
        with self._lock:
            self.exit_code = code
            self._ended = True
            if not self._closed:
                os.eventfd_write(self._readable, 1)


class _LineSession(asyncssh.SSHClientSession[bytes]):
    """Passes what asyncssh reports about a channel on to its ``LineChannel``."""

    def __init__(self, lines: LineChannel) -> None:
        self._lines = lines
        self._code: int | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._lines.attach(chan)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is None:
            self._lines.add(data)
        else:
            self._lines.stderr = (self._lines.stderr + data)[-_STDERR_BYTES:]

    def exit_status_received(self, status: int) -> None:
        self._code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._code = _exit_code(None, (signal, core_dumped, msg, lang))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lines.end(self._code, exc)


class _Client(asyncssh.SSHClient):
    """Remembers the host key that was refused, and reports the loss of the connection."""

    def __init__(self, on_loss: Callable[[Exception | None], None]) -> None:
        self._on_loss = on_loss
        self.refused_key: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        self.refused_key = key
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_loss(exc)


async def _open_hops(
    settings: HostSettings, on_loss: Callable[[Exception | None], None], depth: int = 0
) -> list[asyncssh.SSHClientConnection]:
    """Return the connections to the jump hosts and, last, to the host."""
    hops: list[asyncssh.SSHClientConnection] = []
    try:
        config = _read_config(settings)
        jumps = config.get("ProxyJump")
        for jump in str(jumps).split(",") if jumps else ():
            if depth == _DEEPEST_JUMP:
                raise ValueError(f"ProxyJump {jumps} leads through more than {_DEEPEST_JUMP} hosts")
            via = _parse_jump(jump, settings)
            try:
                if hops:
                    hops.append(await _open_hop(via, _read_config(via), hops[-1], on_loss))
                else:
                    hops += await _open_hops(via, on_loss, depth + 1)
            except (OSError, ValueError, HostError, asyncssh.Error) as error:
                if isinstance(error, TimeoutError):
                    raise
                found = _explain(via.host, error)
                what = f"the host {via.host} before it (ProxyJump): {found.text}"
                raise HostError(settings.host, found.cause, what) from error
        hops.append(await _open_hop(settings, config, hops[-1] if hops else None, on_loss))
    except BaseException as error:
        _abort(hops)
        if isinstance(error, OSError | ValueError | asyncssh.Error) and not isinstance(error, TimeoutError):
            raise _explain(settings.host, error) from error
        raise
    return hops


def _parse_jump(text: str, settings: HostSettings) -> HostSettings:
    """Return the settings of a jump host: ``[ssh://][user@]host[:port]``."""
    user, _, place = text.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
    host, colon, port = place.rpartition(":") if place.count(":") == 1 or "]:" in place else (place, "", "")
    if not host or (colon and not port.isdecimal()):
        raise ValueError(f"ProxyJump {text.strip()!r} is not [USER@]HOST[:PORT]")
    return HostSettings(
        host=host.strip("[]"),
        user=user or None,
        port=int(port) if colon else None,
        config=settings.config,
        identity=settings.identity,
        silence_s=settings.silence_s,
    )


_SSH = (
    "ssh", "-a", "-T", "-x", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
    "-o", "UpdateHostKeys=no", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5",
    "-o", "ServerAliveCountMax=3", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes",
    "-o", "PermitLocalCommand=no", "-o", "LogLevel=ERROR",
)  # fmt: skip
"""Command of a host that connects to another one without questions, agent or unknown host keys."""


def list_routes(settings: HostSettings) -> list[list[str]]:
    """Return commands by which another host may reach a host: by its address, and by its name there."""
    config = _read_config(settings)
    user = settings.user or config.get("User") or getpass.getuser()
    port, address = settings.port or config.get("Port") or _SSH_PORT, config.get("Hostname") or settings.host
    found = [[*_SSH, "-l", user, "-p", str(port), str(address)]]
    if address != settings.host:
        found.append([*_SSH, settings.host])
    return [command for command in found if not command[-1].startswith("-")]


def _config_files(settings: HostSettings) -> list[str]:
    if settings.config is not None:
        return [settings.config]
    files = (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))
    return [str(file) for file in files if os.access(file, os.R_OK)]


def _destination(settings: HostSettings) -> dict[str, Any]:
    options: dict[str, Any] = {"host": settings.host, "config": _config_files(settings)}
    if settings.user is not None:
        options["username"] = settings.user
    if settings.port is not None:
        options["port"] = settings.port
    return options


def _read_config(settings: HostSettings) -> Any:
    """Return the ssh configuration for a host, without loading keys."""
    options = asyncssh.SSHClientConnectionOptions(
        **_destination(settings), client_keys=None, known_hosts=b"", tunnel=None
    )
    return options.config


async def _open_hop(
    settings: HostSettings,
    config: Any,
    tunnel: asyncssh.SSHClientConnection | None,
    on_loss: Callable[[Exception | None], None],
) -> asyncssh.SSHClientConnection:
    known_hosts = _load_known_hosts(settings.host, config)
    client = _Client(on_loss)
    try:
        return await asyncssh.connect(
            **_destination(settings),
            tunnel=tunnel,
            known_hosts=known_hosts,
            client_keys=_client_keys(settings, config),
            ignore_encrypted=True,
            password_auth=False,
            kbdint_auth=False,
            keepalive_interval=min(_LONGEST_KEEPALIVE_S, settings.silence_s / 3),
            keepalive_count_max=2,
            client_factory=lambda: client,
        )
    except asyncssh.ChannelOpenError as error:
        what = f"the host before it (ProxyJump) did not connect to it{_in_brackets(_say(error))}"
        advice = "check HostName and Port as that host sees them, and AllowTcpForwarding of its sshd"
        raise HostError(settings.host, HostFailure.UNREACHABLE, what, advice) from error
    except asyncssh.PermissionDenied as error:
        if said := _describe_unusable_keys(_client_keys(settings, config)):
            raise HostError(settings.host, HostFailure.KEY_REFUSED, f"key refused ({said})") from error
        raise
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        port = settings.port or config.get("Port")
        port = None if port == _SSH_PORT else port
        name = config.get("HostKeyAlias") or config.get("Hostname") or settings.host
        is_known = bool(asyncssh.match_known_hosts(known_hosts, name, "", port)[0])
        if client.refused_key is None and not (is_known and "host key" in str(error).lower()):
            raise
        if client.refused_key is not None and not is_known:
            _refuse_unreadable_key(settings.host, config, name, port, client.refused_key)
        raise _host_key_error(settings.host, name, port, is_known, client.refused_key) from error


def _load_known_hosts(host: str, config: Any) -> asyncssh.SSHKnownHosts:
    """Return the known hosts; raise HostError with file and line of an entry that is malformed."""
    found = asyncssh.SSHKnownHosts()
    for file in _known_hosts_files(config):
        text = Path(file).read_text(encoding="utf-8", errors="replace")
        try:
            found.load(text)
        except ValueError:
            for number, line in enumerate(text.splitlines(), 1):
                try:
                    asyncssh.import_known_hosts(line)
                except ValueError:
                    what = f"line {number} of {file} is not an entry of known hosts"
                    rule = "HOSTS TYPE KEY, or @MARKER HOSTS TYPE KEY"
                    advice = "correct or remove it"
                    raise HostError(host, HostFailure.INVALID_CONFIG, f"{what} ({rule})", advice) from None
    return found


def _refuse_unreadable_key(host: str, config: Any, name: str, port: int | None, key: asyncssh.SSHKey) -> None:
    """Raise HostError if a line of known_hosts names a host, but its key cannot be read."""
    readable = key.export_public_key().decode()
    for file in _known_hosts_files(config):
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            patterns = line.split(None, 1)[:1]
            if not patterns or patterns[0].startswith(("#", "@")):
                continue
            entries = (asyncssh.import_known_hosts(each) for each in (line, f"{patterns[0]} {readable}"))
            is_read, is_named = (
                bool(asyncssh.match_known_hosts(each, name, "", port)[0]) for each in entries
            )
            if is_named and not is_read:
                what = f"line {number} of {file} is for it, but the key there cannot be read"
                advice = f"remove the line, and run `ssh {host}` once"
                raise HostError(host, HostFailure.HOST_KEY_UNKNOWN, what, advice)


def _known_hosts_files(config: Any) -> list[str]:
    """Return the files of known hosts that exist."""
    users = config.get("UserKnownHostsFile", ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"])
    systems = config.get("GlobalKnownHostsFile", ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"])
    files = [str(Path(file).expanduser()) for file in [*(users or []), *(systems or [])]]
    return [file for file in files if os.access(file, os.R_OK)]


def _client_keys(settings: HostSettings, config: Any) -> list[str]:
    """Return the key files to use. Like ssh, ignore configured ones that do not exist; none: the defaults."""
    if settings.identity is not None:
        return [settings.identity]
    files = [str(Path(file).expanduser()) for file in config.get("IdentityFile", ())]
    return [file for file in files if os.access(file, os.R_OK)]


def _describe_unusable_keys(files: Sequence[str]) -> str:
    """Return why no key file was used; "": one of them was, or there is none."""
    problems = []
    for file in files:
        try:
            asyncssh.read_private_key(file)
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, OSError) as error:
            is_encrypted = "passphrase" in str(error).lower()
            problems.append(
                f"{file} is protected by a passphrase: run `ssh-add {file}`"
                if is_encrypted
                else f"{file} is not a private key that can be read"
            )
        else:
            return ""
    return "; ".join(problems)


def _host_key_error(
    host: str, name: str, port: int | None, is_known: bool, key: asyncssh.SSHKey | None
) -> HostError:
    shown = f" ({key.get_fingerprint()})" if key is not None else ""
    entry = f"[{name}]:{port}" if port else name
    if not is_known:
        return HostError(
            host,
            HostFailure.HOST_KEY_UNKNOWN,
            f"its host key{shown} is not in known_hosts",
            f"run `ssh {host}` once, compare the fingerprint with the one the site publishes, and accept it",
        )
    return HostError(
        host,
        HostFailure.HOST_KEY_CHANGED,
        f"its host key{shown} is not the one in known_hosts: another host may answer in its place",
        f"ask the site; if the key was changed on purpose, run `ssh-keygen -R '{entry}'` and `ssh {host}`",
    )


def _explain(host: str, error: BaseException | None) -> HostError:
    """Return the error of a connection as a ``HostError``."""
    if isinstance(error, HostError):
        return error
    said = _say(error)
    if str(error).startswith(_SEVERAL) and f"[Errno {errno.ECONNREFUSED}]" in str(error):
        error = ConnectionRefusedError()
    for kind, (cause, advice) in _CONNECTION_FAILURES.items():
        if isinstance(error, kind):
            return HostError(host, cause, f"{cause}{_in_brackets(said)}", advice)
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        what = f"{HostFailure.UNREACHABLE}{_in_brackets(said)}"
        return HostError(host, HostFailure.UNREACHABLE, what, "check the network")
    if error is None:
        return HostError(host, HostFailure.LOST, "it has closed the connection")
    return HostError(host, HostFailure.LOST, f"{HostFailure.LOST}{_in_brackets(said)}")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


_UNINFORMATIVE = ("", "connection lost", "connection closed")
"""Texts of errors that say no more than that the connection was lost, in lower case."""


def _say(error: BaseException | None) -> str:
    """Return what the text of an error adds to its kind; "": nothing."""
    if isinstance(error, OSError) and (found := _ADDRESS.search(str(error))) is not None:
        return f"address {found[1]}, port {found[2]}"
    text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error or "")
    if isinstance(error, OSError) and isinstance(error.filename, str):
        text = f"{error.filename}: {text}"
    return "" if text.lower().rstrip(".") in _UNINFORMATIVE else text


_SEVERAL = "Multiple exceptions"
"""Start of the text of an error of asyncio about several addresses of a host."""
_ADDRESS = re.compile(r"Connect call failed \('([^']+)', (\d+)")
"""Address and port in the text of an error of asyncio."""


_CONNECTION_FAILURES: dict[type[BaseException], tuple[HostFailure, str]] = {
    socket.gaierror: (
        HostFailure.CANNOT_RESOLVE,
        "check the name (`host`, or HostName in the ssh configuration)",
    ),
    ConnectionRefusedError: (
        HostFailure.REFUSED,
        "check the port (`port`, or Port in the ssh configuration), and that sshd runs there",
    ),
    TimeoutError: (HostFailure.TIMED_OUT, "check that the host runs and can be reached"),
    asyncssh.PermissionDenied: (
        HostFailure.KEY_REFUSED,
        "check `user` and `identity`; weft uses keys and the agent, never a password (ssh-add, ssh-copy-id)",
    ),
    asyncssh.ChannelOpenError: (
        HostFailure.NO_CHANNEL,
        "the host refused one more session or the way to the next host (MaxSessions, AllowTcpForwarding)",
    ),
    asyncssh.KeyImportError: (HostFailure.INVALID_CONFIG, "check IdentityFile or `identity`"),
    ValueError: (
        HostFailure.INVALID_CONFIG,
        "correct the ssh configuration, or name another one by `config`",
    ),
    FileNotFoundError: (HostFailure.INVALID_CONFIG, "check `config` and `identity`"),
    PermissionError: (HostFailure.INVALID_CONFIG, "check `config` and `identity`"),
}

_FILE_FAILURES: dict[type[Exception], tuple[HostFailure, str, str]] = {
    asyncssh.SFTPNoSuchFile: (HostFailure.NO_FILE, "no file {path}", ""),
    FileNotFoundError: (HostFailure.NO_FILE, "no file {path}", ""),
    asyncssh.SFTPPermissionDenied: (HostFailure.NO_PERMISSION, "no permission for {path}", "check its owner"),
    asyncssh.SFTPNoSpaceOnFilesystem: (
        HostFailure.DISK_FULL,
        "no space left for {path}",
        "remove files there, or set `sandbox` to a larger disk",
    ),
    asyncssh.SFTPQuotaExceeded: (HostFailure.DISK_FULL, "quota exceeded for {path}", "remove files there"),
    asyncssh.SFTPConnectionLost: (HostFailure.LOST, "connection lost while {path} was copied", ""),
    asyncssh.SFTPNoConnection: (HostFailure.LOST, "connection lost before {path} was copied", ""),
}

_NOT_FOUND = 127
"""Exit code of a shell that does not find a command."""


def _command_line(argv: Sequence[str]) -> str:
    """Return the text for the user's shell on the host. The program replaces the shell."""
    return f"exec {shlex.join(argv)}"


def _no_command(host: str, argv: Sequence[str], stderr: bytes) -> HostError:
    said = stderr.decode(errors="replace").strip()
    what = f"no command {argv[0]!r}" + (f" ({said})" if said else "")
    return HostError(host, HostFailure.NO_COMMAND, what, "install it there, or check the path")


def _exit_code(status: int | None, ended_by: tuple[str, bool, str, str] | None) -> int | None:
    if ended_by is None:
        return None if status is None or status < 0 else status
    return -int(getattr(signal, f"SIG{ended_by[0]}", signal.SIGKILL))


def _as_bytes(output: bytes | str | None) -> bytes:
    return output.encode() if isinstance(output, str) else output or b""


def _abort(hops: list[asyncssh.SSHClientConnection]) -> None:
    for hop in reversed(hops):
        hop.abort()


def _ignore(_: int) -> None:
    """Report no progress."""


async def _size(files: asyncssh.SFTPClient, path: str) -> int:
    try:
        return (await files.stat(path)).size or 0
    except asyncssh.SFTPNoSuchFile:
        return 0


async def _receive(
    source: asyncssh.SFTPClientFile, target: BinaryIO, start: int, size: int, progress: Callable[[int], None]
) -> None:
    position = start

    def read_next() -> tuple[int, Awaitable[bytes]] | None:
        nonlocal position
        if position >= size:
            return None
        length = min(_BLOCK_BYTES, size - position)
        position += length
        return position, source.read(length, position - length)

    def write(reached: int, block: bytes) -> None:
        target.write(block)
        if target.tell() != reached:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        progress(reached)

    await _pipeline(read_next, write)


async def _pipeline(
    start_next: Callable[[], tuple[int, Awaitable[_Result]] | None], finish: Callable[[int, _Result], None]
) -> None:
    """Keep ``_WINDOW`` requests under way, started and finished in order, so that a cut leaves no hole."""
    pending: deque[tuple[int, asyncio.Future[_Result]]] = deque()
    more = True
    try:
        while more or pending:
            request = start_next() if more else None
            more = request is not None
            if request is not None:
                pending.append((request[0], asyncio.ensure_future(request[1])))
            if pending and (not more or len(pending) == _WINDOW):
                reached, answer = pending.popleft()
                finish(reached, await answer)
    finally:
        # Answers to cancelled requests would be reported as unhandled errors.
        await asyncio.gather(*(answer for _, answer in pending), return_exceptions=True)
