"""The station: the code that weft sends to a Dask worker and that runs in its event loop.

A worker needs Dask but not weft. ``connection.py`` sends the source of this module, which must import only
the standard library, and installs it under a name that contains its digest. The station starts processes of
the bundle (``backends/bundle.py``) and passes bytes between them and the engine, and it reads and writes
files in chunks. Nothing here blocks the event loop. A channel whose engine does not answer is closed.

The station also holds the leases of guards (``dask/guard.py``): a guard kills the programs of a runner when
the worker has died or was stopped for longer than the lease.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_BEAT_S = 0.5
_ABANDONED_S = 60.0
"""A channel from which no engine has taken anything for this long is closed."""
_UNREAD_BYTES = 16 << 20
_ERROR_BYTES = 8 << 10
_END_S = 5.0
_PIPE = asyncio.subprocess.PIPE


class Channel:
    """Standard input and output of a process of the bundle."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.taken_s = time.monotonic()
        self._out: list[bytes] = []
        self._error = b""
        self._changed = asyncio.Event()
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._ended = False
        self._readers = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._read_errors())]

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while part := await self.process.stdout.read(1 << 18):
            self._out.append(part)
            self._changed.set()
            if sum(map(len, self._out)) > _UNREAD_BYTES:
                self._has_space.clear()
                await self._has_space.wait()
        await self.process.wait()
        await self._readers[1]
        self._ended = True
        self._changed.set()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while part := await self.process.stderr.read(1 << 16):
            self._error = (self._error + part)[-_ERROR_BYTES:]

    async def take(self, wait_s: float) -> dict[str, Any]:
        """Return the output since the last call, the end of the errors, and the exit code after the end."""
        self.taken_s = time.monotonic()
        if not self._out and not self._ended:
            self._changed.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait_s)
        out, self._out = b"".join(self._out), []
        self._has_space.set()
        self.taken_s = time.monotonic()
        code = self.process.returncode if self._ended else None
        return {"out": out, "error": self._error, "code": code}

    async def write(self, data: bytes) -> None:
        """Pass bytes to the process; bytes for a process that has ended are dropped."""
        assert self.process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            self.process.stdin.write(data)
            await self.process.stdin.drain()

    async def close(self) -> None:
        """End the process: it gets an end of file, and SIGKILL if it does not end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._out.clear()
        self._has_space.set()
        try:
            await asyncio.wait_for(self.process.wait(), _END_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


_channels: dict[str, Channel] = {}
_guards: dict[str, asyncio.subprocess.Process] = {}
_tasks: set[asyncio.Future[Any]] = set()


def _spawn(work: Any) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def describe() -> dict[str, Any]:
    """Return the Python, home folder, host, process number, processor and system of the worker."""
    home, system = str(Path.home()), os.uname()
    process = {"host": socket.gethostname(), "pid": os.getpid()}
    return {"python": sys.executable, "home": home, **process, "arch": system.machine, "os": system.sysname}


async def open_channel(name: str, argv: list[str]) -> None:
    """Start a process; the channel to it is named by the engine."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=_PIPE, stdout=_PIPE, stderr=_PIPE, start_new_session=True, cwd="/"
    )
    if not _channels:
        _spawn(_close_abandoned())
    _channels[name] = Channel(process)


async def _close_abandoned() -> None:
    while _channels:
        await asyncio.sleep(_BEAT_S)
        now_s = time.monotonic()
        for name, channel in list(_channels.items()):
            if now_s - channel.taken_s > _ABANDONED_S:
                await close_channel(name)


async def take(name: str, wait_s: float) -> dict[str, Any]:
    """Return what a process has written (see ``Channel.take``), after ``wait_s`` seconds at the latest."""
    return await _find(name).take(wait_s)


async def write(name: str, data: bytes) -> None:
    """Pass bytes to the process of a channel."""
    await _find(name).write(data)


async def close_channel(name: str) -> None:
    """Close a channel; the process gets an end of file."""
    channel = _channels.pop(name, None)
    if channel is not None:
        _spawn(channel.close())


def _find(name: str) -> Channel:
    if name not in _channels:
        raise LookupError("the channel was closed, or its worker was restarted")
    return _channels[name]


async def guard(folder: str, argv: list[str], settings: bytes) -> None:
    """Start the guard of a runner's folder, unless this worker has one; return when it guards."""
    found = _guards.get(folder)
    if found is not None and await _is_guarding(found):
        return
    devnull = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=_PIPE, stdout=_PIPE, stderr=devnull, start_new_session=True, cwd="/"
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(settings + b"\n")
    if await process.stdout.readline() != b"ready\n":
        raise RuntimeError("the guard of its programs did not start")
    if not _guards:
        _spawn(_beat())
    _guards[folder] = process


async def _is_guarding(process: asyncio.subprocess.Process) -> bool:
    """Return whether a guard will not end before a runner has started."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"?")
        return await process.stdout.readline() == b"ready\n"
    except (ConnectionError, RuntimeError):
        return False


async def _beat() -> None:
    """Renew the lease of every guard."""
    while _guards:
        for folder, process in list(_guards.items()):
            if process.returncode is not None:
                del _guards[folder]
                continue
            assert process.stdin is not None
            with suppress(ConnectionError, RuntimeError):
                process.stdin.write(b".")
        await asyncio.sleep(_BEAT_S)


# Files.


def read_text(path: str) -> str:
    """Return the content of a small file; "" if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def find_size(path: str) -> int:
    """Return the size of a file; -1 if there is none."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return -1


def make_folder(path: str) -> None:
    """Create a folder of mode 0700 with its parents; it may exist."""
    Path(path).mkdir(0o700, parents=True, exist_ok=True)


def write_chunk(path: str, offset: int, data: bytes) -> None:
    """Write a part of a file of mode 0600 and cut the file after it; the part begins at most at its end."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if offset > os.fstat(file).st_size:
            raise ValueError(f"{path} is shorter than {offset} bytes")
        os.ftruncate(file, offset)
        written = 0
        while written < len(data):
            written += os.pwrite(file, data[written:], offset + written)
    finally:
        os.close(file)


def read_chunk(path: str, offset: int, size: int) -> bytes:
    """Return at most ``size`` bytes of a file from ``offset``; b"" at its end."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(file, size, offset)
    finally:
        os.close(file)


def rename(path: str, new_path: str) -> None:
    """Give a complete file its final name."""
    Path(path).replace(new_path)


_CALLS = (describe, open_channel, take, write, close_channel, guard)
_FILE_CALLS = (read_text, find_size, make_folder, write_chunk, read_chunk, rename)


async def answer(name: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Call a function of this module: return its ``value``, or an ``error`` and its number.

    Errors are not raised, because Dask would log them with all arguments, which may contain secrets.
    """
    try:
        for call in _CALLS:
            if call.__name__ == name:
                return {"value": await call(*arguments)}
        function = {each.__name__: each for each in _FILE_CALLS}[name]
        loop = asyncio.get_running_loop()
        return {"value": await loop.run_in_executor(None, lambda: function(*arguments))}
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return {"error": f"{error.strerror or error}{where}", "errno": error.errno}
    except Exception as error:
        return {"error": str(error) or type(error).__name__, "errno": None}
