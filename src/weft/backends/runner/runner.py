"""The runner: the process that starts a machine's tasks and remains their parent if the engine dies.

It is started as ``python -I -S runner.py DIRECTORY``, one per execution and machine, in its own session. One
line of JSON on stdin gives the token and the settings. DIRECTORY contains ``socket``, ``pid``, ``beat``
(written once a second), ``starts`` and ``ends`` (one line per attempt), ``lock`` and ``log``. The runner
exits after a minute without tasks and without an engine. Messages on the socket are JSON objects, one per
line, and are idempotent. From the engine:

- ``hello``: token, env (environment of all programs), cores (null: all);
- ``start``: attempt, nonce, argv, env (changes; null removes a variable), cwd, stdin, stdout, stderr,
  private (the output files that only the user may read), append, isolated, time_s, memory_bytes, cores,
  grace_s, restart (names of restart files), beside (a running attempt: the program gets its process number
  in ``WEFT_PID``), reports_start, reminder (a text for the next engine), sandbox (the runner makes the empty
  ``cwd`` and the directory of ``stderr`` below it), reports (names of files in ``cwd``: the end then has
  ``left``, which lists the existing ones in ``reports`` and has short outputs in ``streams``);
- ``cancel``: attempt, nonce, grace_s; ``signal``: attempt, nonce, signal; ``forget``: attempt, or attempts;
- ``discard``: attempts (pairs of number and nonce), which are ended and whose records are removed;
- ``measure``: every_s, sandbox, nodes, runners and engine (process numbers of weft's own processes): measure
  the state of the machine at this interval; ``end``: exit when no task runs.

The runner sends ``here`` (protocol, pid, problem, running, ended, and starts: the start records of running
and ended attempts), ``started``, ``stopped``, ``continued``, ``ended``, ``discarded``, ``signalled`` (number
of processes), ``measured`` (load, memory_bytes, disk_bytes) and ``problem``. Records and messages of an
attempt contain its nonce: if the tail of the journal was lost, an attempt number is used again for another
task, and the old records must not be used for that task. The runner must start within a few hundredths of a
second, so it loads neither weft nor heavy modules.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys

ALREADY_RUNNING = 3
"""Exit code: another runner already serves the directory."""
NO_SETTINGS = 4
"""Exit code: the process that started this runner died before it sent the settings."""
CANNOT_WRITE = 64
"""The exit code is this number plus an ``errno`` if the first records could not be written.

The log may be missing in this case.
"""


def main(directory: str) -> int:
    """Run the runner of a directory until no work is left; return its exit code."""
    # Imported here because the package stubs must be installed first.
    from weft.backends.runner.records import SealedRecords
    from weft.backends.runner.runner_loop import Runner

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
        pass  # File systems without locks: RunnerLink has checked for a running runner.
    os.chdir("/")
    try:
        times = {"idle_s": settings["idle_s"], "grace_s": settings["grace_s"]}
        runner = Runner(records, settings["token"], scope=settings["scope"], **times)
        runner.begin()
    except OSError as error:
        return CANNOT_WRITE + (error.errno or 0)
    runner.serve()
    return 0


def close_inherited() -> None:
    """Close inherited descriptors: an open pipe would keep its reader waiting."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _install_package_stubs() -> None:
    """Make the modules of this folder importable without loading the package weft."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("weft.backends.runner", "weft.backends", "weft"):
        package = type(sys)(name)
        package.__path__ = [folder]
        sys.modules[name] = package
        folder = os.path.dirname(folder)


if __name__ == "__main__":
    close_inherited()
    _install_package_stubs()
    sys.exit(main(sys.argv[1]))
