"""The runner: the process that starts a machine's tasks and stays their parent when the engine dies.

Run as ``python -I -S runner.py DIRECTORY``, one per execution and machine, in its own session; one line of
JSON on its input gives the token and its settings. DIRECTORY then holds ``socket``, ``pid``, ``beat`` (once
a second), ``starts`` and ``ends`` (one line per attempt), ``lock`` and ``log``. It ends when it has nothing
to do and no engine for a minute. Over the socket goes one JSON object per line, and each may come twice.
From the engine:

- ``hello``: token, env (what all programs get), cores (null: all);
- ``start``: attempt, argv, env (what differs; null removes), cwd, stdin, stdout, stderr, append, time_s,
  memory_bytes, cores, grace_s, reminder (a text for the next engine);
- ``cancel``: attempt, grace_s; ``signal``: attempt, signal; ``forget``: attempt, or attempts; ``end``.

The runner says ``here`` (pid, problem, running, ended, and the starts of both), ``started``, ``ended``,
``signalled`` (to how many processes) and ``problem``. It must start in a few hundredths of a second, so it
loads neither weft nor heavy modules.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys

__all__ = ["ALREADY_RUNNING", "CANNOT_WRITE", "NO_SETTINGS", "main"]


ALREADY_RUNNING = 3
"""Exit code: another runner holds the directory."""
NO_SETTINGS = 4
"""Exit code: who started it died before saying what for."""
CANNOT_WRITE = 64
"""Exit code, with the system's error number added: it could not write its first records. Its log may not be
written either."""


def main(directory: str) -> int:
    """Serve a directory until there is nothing more to do."""
    # Only here: the packages that these files lie in are stood in for by then.
    from weft.backends.local.records import SealedRecords
    from weft.backends.local.runner_loop import Runner

    line = os.read(0, 65536)
    if not line.endswith(b"\n"):
        return NO_SETTINGS
    settings = json.loads(line)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    records = SealedRecords(directory, settings["token"])
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open("lock", how, 0o600, dir_fd=records.folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ALREADY_RUNNING
    except OSError:
        pass  # a file system without locks: who starts a runner has looked for one
    os.chdir("/")
    try:
        runner = Runner(records, settings["token"], idle_s=settings["idle_s"], grace_s=settings["grace_s"])
        runner.begin()
    except OSError as error:
        return CANNOT_WRITE + (error.errno or 0)
    runner.serve()
    return 0


def _install_package_stubs() -> None:
    """Make the files beside this one importable without loading weft: its packages are long to load."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("weft.backends.local", "weft.backends", "weft"):
        package = type(sys)(name)
        package.__path__ = [folder]
        sys.modules[name] = package
        folder = os.path.dirname(folder)


if __name__ == "__main__":
    # Files that the engine was born with: a pipe held open here would keep its reader waiting for us.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _install_package_stubs()
    sys.exit(main(sys.argv[1]))
