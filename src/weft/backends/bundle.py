"""The bundle: one file with everything that weft needs on a host where it is not installed.

The bundle is a zip file that Python runs. It contains modules of weft that use Python 3.8 and the standard
library only; a test checks this. Its content depends on these modules alone, so a host keeps it under its
digest and gets it once per version of weft. Modes:

- ``python3 BUNDLE files``: serve file operations on standard input and output (``attempt/host_files.py``);
- ``python3 BUNDLE serve DIR``: run the runner of a directory (``runner/runner.py``);
- ``python3 BUNDLE bridge DIR``: pass messages between a remote engine and it (``runner/bridge.py``);
- ``python3 BUNDLE guard DIR LEASE``: end this runner when its Dask worker is gone (``dask/guard.py``);
- ``python3 BUNDLE job DIR``: be a Slurm job, which runs the program of a directory (``slurm/job.py``);
- ``python3 BUNDLE slurm DIR``: on a login node, run the jobs of a remote engine (``slurm/login_server.py``);
- ``python3 BUNDLE MODULE ARGUMENTS``: run a module of weft that is the program of a task;
- ``python3 BUNDLE version``: print the version of Python.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

import weft

HOST_MODULES = (
    "errors", "private_files", "records", "redaction", "task", "units",
    "backends.file_record",
    "backends.attempt.call", "backends.attempt.content", "backends.attempt.cpu_evaluator",
    "backends.attempt.digests", "backends.attempt.file_sync",
    "backends.attempt.host_files", "backends.attempt.safe_paths", "backends.attempt.staging",
    "backends.attempt.temporary_files", "backends.attempt.trees",
    "backends.dask.guard",
    "backends.runner.bridge", "backends.runner.message_socket", "backends.runner.processes",
    "backends.runner.records", "backends.runner.runner", "backends.runner.runner_link",
    "backends.runner.runner_loop", "backends.runner.sensors",
    "backends.slurm.commands", "backends.slurm.controller", "backends.slurm.job", "backends.slurm.job_files",
    "backends.slurm.job_queue", "backends.slurm.login_server", "backends.slurm.message_log",
    "backends.slurm.pilot", "backends.slurm.pilots",
)  # fmt: skip
"""The modules of the bundle, without the leading ``weft``."""

MEMORY_MAIN = """\
import os, sys

if sys.version_info < (3, 8):
    sys.exit("weft needs Python 3.8 or newer on this host; this is " + sys.version.split()[0])
left = int(sys.argv[1])
try:
    file = os.memfd_create("weft", 8)
except OSError:
    file = os.memfd_create("weft", 0)
with open(file, "wb", closefd=False) as bundle:
    while left:
        part = os.read(0, left)
        if not part:
            sys.exit("the bundle is not complete")
        left -= bundle.write(part)
os.read(0, 1)
path = "/proc/self/fd/" + str(file)
os.execv(sys.executable, [sys.executable, "-I", "-S", path, *sys.argv[2:]])
"""
"""Program that runs a bundle of the given size, which it reads from standard input, with the other arguments.

The bundle is one line of input; the lines after it are for the bundle. Nothing is written to a disk. The flag
8 (``MFD_NOEXEC_SEAL``) is required by some hosts and unknown to older kernels.
"""

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_MAIN = '''\
"""Entry point of the bundle."""

import sys


def run(arguments):
    if sys.version_info < (3, 8):
        found = sys.version.split()[0]
        sys.stderr.write("weft needs Python 3.8 or newer on this host; this is " + found + "\\n")
        return 3
    if arguments == ["files"]:
        from weft.backends.attempt.host_files import serve

        serve(sys.stdin.buffer, sys.stdout.buffer)
        return 0
    if len(arguments) == 2 and arguments[0] == "serve":
        from weft.backends.runner.runner import close_inherited, main

        close_inherited()
        return main(arguments[1])
    if len(arguments) == 2 and arguments[0] == "bridge":
        from weft.backends.runner.bridge import serve

        return serve(arguments[1], [sys.argv[0], "serve"])
    if len(arguments) == 2 and arguments[0] == "job":
        from weft.backends.slurm.job import main

        return main(arguments[1])
    if len(arguments) == 2 and arguments[0] == "slurm":
        from weft.backends.slurm.login_server import serve

        return serve(arguments[1])
    if len(arguments) == 3 and arguments[0] == "guard":
        from weft.backends.dask.guard import serve

        return serve(arguments[1], float(arguments[2]))
    if arguments[:1] == ["weft.backends.attempt.call"]:
        from weft.backends.attempt.call import main

        return main(arguments[1:])
    if arguments[:1] == ["weft.backends.attempt.cpu_evaluator"]:
        from weft.backends.attempt.cpu_evaluator import main

        return main(arguments[1:])
    if arguments == ["version"]:
        sys.stdout.write(sys.version.split()[0] + "\\n")
        return 0
    sys.stderr.write("unknown arguments: " + " ".join(arguments) + "\\n")
    return 2


sys.exit(run(sys.argv[1:]))
'''


@cache
def make_bundle() -> bytes:
    """Return the bundle; the same sources give the same bytes."""
    root = Path(weft.__file__).parent
    packages = {parent for name in HOST_MODULES for parent in _packages(name)}
    content = {f"weft/{package}__init__.py": b"" for package in packages}
    for name in HOST_MODULES:
        path = f"{name.replace('.', '/')}.py"
        content[f"weft/{path}"] = (root / path).read_bytes()
    content["__main__.py"] = _MAIN.encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in sorted(content):
            bundle.writestr(zipfile.ZipInfo(name, _LONG_AGO), content[name], zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def bundle_name() -> str:
    """Return the file name of the bundle on a host, which contains the digest of its content."""
    return f"weft-{hashlib.blake2b(make_bundle(), digest_size=8).hexdigest()}.pyz"


def _packages(module: str) -> list[str]:
    """Return the folders that contain a module, each with a slash at its end; "" is the folder of weft."""
    parts = module.split(".")[:-1]
    return ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts) + 1)]
