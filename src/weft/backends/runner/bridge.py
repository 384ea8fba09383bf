"""The bridge: the process on a host that connects a distant engine with the runner of a directory there.

The engine starts it over ssh and exchanges lines with it through standard input and output. The bridge finds
or starts the runner (see ``RunnerLink``) and then passes messages in both directions. Its end does not end
the runner: the programs continue, and the next bridge connects to the same runner.

The first line from the engine has ``token``, ``scope``, ``cores`` (null: all), ``known`` (pairs of attempt
and nonce: all other attempts of the runner are ended) and ``clear``. If ``clear`` is true, the bridge first
sends ``programs``: ``found`` are the programs of this project on the host, as execution, attempt and nonce.
The engine answers with ``known``, those of them that its journal contains, and the bridge kills the others.
Then the bridge sends the runner's ``here`` with the ``boot`` of the host, or ``failed`` with ``text``. Once a
second it sends ``beat`` with ``age_s``, the age of the runner's last heartbeat.

Hosts load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.backends.runner.processes import boot_id
from weft.backends.runner.records import encode_record
from weft.backends.runner.runner_link import (
    RunnerFailed,
    RunnerGone,
    RunnerLink,
    RunnerScope,
    RunnerUnresponsive,
    kill_unknown,
)

if TYPE_CHECKING:
    from typing import Any

RUNNER_LOST = 5
"""Exit code: the runner ended, does not respond or serves another engine; a new bridge may connect again."""
FAILED = 6
"""Exit code: no runner could be started."""
_BEAT_S = 1.0
_PART_BYTES = 1 << 18


def serve(directory: str, program: Sequence[str]) -> int:
    """Connect the engine on standard input and output with the runner of a directory; return the exit code.

    ``program`` are the words that start a runner, without the interpreter and the directory.
    """
    lines = InputLines()
    settings = lines.wait()
    if settings is None:
        return 0
    try:
        if settings.get("clear") and not _kill_unknown(settings, lines):
            return 0
        known = {int(attempt): str(nonce) for attempt, nonce in settings["known"]}
        link = RunnerLink(
            Path(directory),
            settings["token"],
            environment=os.environ,
            cores=settings.get("cores"),
            scope=settings["scope"],
            program=program,
        )
        here = _connect(link, known)
    except (RunnerFailed, RunnerUnresponsive) as error:
        send_message({"is": "failed", "text": str(error)})
        return FAILED
    send_message({**here, "boot": boot_id()})
    try:
        return _relay(link, lines)
    finally:
        link.close()


def _connect(link: RunnerLink, known: Mapping[int, str]) -> dict[str, Any]:
    try:
        return link.connect(known=known)
    except RunnerUnresponsive:
        link.kill()
        return link.connect(known=known)


def _kill_unknown(settings: Mapping[str, Any], lines: InputLines) -> bool:
    """Kill programs of the project that its journals do not contain; return False if the engine is gone."""
    home, _, execution = settings["scope"].rpartition("-")
    scope = RunnerScope(home, int(execution))
    found: set[tuple[int, int, str]] = set()

    def note(execution: int, attempt: int, nonce: str) -> bool:
        found.add((execution, attempt, nonce))
        return True

    for _ in scope.find_unknown(settings["token"], note):
        pass  # runners of this execution with another token: killed below
    send_message({"is": "programs", "found": sorted(found)})
    answer = lines.wait()
    if answer is None:
        return False
    unknown = found - {(each[0], each[1], each[2]) for each in answer["known"]}
    kill_unknown(scope, settings["token"], lambda *program: program not in unknown)
    return True


def _relay(link: RunnerLink, lines: InputLines) -> int:
    """Pass messages in both directions until the engine or the runner is gone."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(link.fileno(), select.POLLIN)
    beat_at_s = time.monotonic() + _BEAT_S
    while True:
        link.forward(lines.take())
        link.flush()
        ready = {descriptor for descriptor, _ in poller.poll(max(0.0, beat_at_s - time.monotonic()) * 1000)}
        if 0 in ready and not lines.read():
            return 0
        try:
            if link.fileno() in ready:
                _write(b"".join(line + b"\n" for line in link.receive_lines()))
        except RunnerGone:
            return RUNNER_LOST
        if time.monotonic() >= beat_at_s:
            beat_at_s = time.monotonic() + _BEAT_S
            if link.is_unresponsive:
                return RUNNER_LOST
            send_message({"is": "beat", "age_s": link.beat_age_s()})


class InputLines:
    """The messages of the engine on standard input."""

    def __init__(self) -> None:
        self._rest = b""
        self._complete: list[bytes] = []

    def read(self) -> bool:
        """Read what is available, or wait for it; return False at the end of the input."""
        part = os.read(0, _PART_BYTES)
        *complete, self._rest = (self._rest + part).split(b"\n")
        self._complete += complete
        return bool(part)

    def take(self) -> list[bytes]:
        """Return the lines that were read."""
        lines, self._complete = self._complete, []
        return lines

    def wait(self) -> dict[str, Any] | None:
        """Return the next message; None at the end of the input."""
        while not self._complete:
            if not self.read():
                return None
        found: dict[str, Any] = json.loads(self._complete.pop(0))
        return found

    def wait_for(self, key: str) -> dict[str, Any] | None:
        """Return the next message with a key, and keep those before it; None at the end of the input."""
        position = 0
        while True:
            while position == len(self._complete):
                if not self.read():
                    return None
            found: dict[str, Any] = json.loads(self._complete[position])
            if key in found:
                del self._complete[position]
                return found
            position += 1


def send_message(message: Mapping[str, Any]) -> None:
    """Write a message to the engine to standard output."""
    _write(encode_record(message).encode() + b"\n")


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]
