"""The guard: the process beside a Dask worker that ends the programs of a runner when the worker is gone.

The engine reports a worker that does not answer as lost and starts its tasks on other machines. They must not
run twice at once, so the programs of a lost worker are ended: the worker (``dask/station.py``) writes to the
guard's standard input twice a second, and if nothing arrives for longer than the lease, because the worker
was killed or stopped, the guard kills the runner and its programs. The lease is shorter than the silence
after which the engine reports the worker as lost.

A ``?`` in the input announces that a runner may be started; the guard answers ``ready``, or has ended. A
worker that was restarted has another guard. The file ``guard`` in the runner's directory contains the
process number of the guard in charge; the others do nothing. A guard exits when no runner is left.

Hosts load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path

from weft.backends.runner.runner_link import RunnerFailed, RunnerLink
from weft.private_files import write_file

_READ_S, _LOOK_S = 0.2, 1.0
"""Seconds between reads of the beats of the worker, and between looks whether there is a runner."""
_STARTING_S, _UNUSED_S = 90.0, 3.0
"""Seconds without a runner after which a guard exits: before the runner has started, and after its end."""


def serve(directory: str, lease_s: float) -> int:
    """Guard the runner of a directory; the first line of standard input has ``token`` and ``scope``."""
    settings = json.loads(_read_line())
    link = RunnerLink(Path(directory), settings["token"], environment=os.environ, scope=settings["scope"])
    mark = Path(directory, "guard")
    write_file(mark, str(os.getpid()).encode(), is_private=True)
    os.write(1, b"ready\n")
    try:
        if _wait(link, lease_s) and mark.read_text() == str(os.getpid()):
            link.kill()
    except (OSError, RunnerFailed):
        return 1
    finally:
        link.close()
    return 0


def _wait(link: RunnerLink, lease_s: float) -> bool:
    """Return True when the lease has expired, False when no runner is left to guard."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    beat_s = alive_s = looked_s = time.monotonic()
    unused_s = _STARTING_S
    while True:
        now_s = time.monotonic()
        if now_s - beat_s > lease_s:
            return True
        if now_s - looked_s > _LOOK_S:
            looked_s = now_s
            if link.alive:
                alive_s, unused_s = now_s, _UNUSED_S
            elif now_s - alive_s > unused_s:
                return False
        if poller.poll(_READ_S * 1000):
            beats = os.read(0, 65536)
            if beats:
                beat_s = time.monotonic()
            else:  # the worker has ended; another one may take over before the lease expires
                poller.unregister(0)
            if b"?" in beats:
                alive_s, unused_s = time.monotonic(), _STARTING_S
                os.write(1, b"ready\n")
            time.sleep(_READ_S)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1)
        if not part:
            raise SystemExit(2)
        line += part
    return line
