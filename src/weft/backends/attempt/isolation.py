"""Isolation of programs: they see only declared files, their own ``/tmp`` and processes, and no network.

An isolated program is started by bubblewrap (``bwrap``), or by ``unshare`` and a shell script that mounts the
same files. It sees:

- its own directory, the only one of the host that it can write;
- read-only: the system directories, a few files of ``/etc``, the Python that runs weft, the folders in
  ``read:``, and a container image that is a file;
- empty directories at ``/tmp``, ``/var/tmp``, ``/run`` and the home directory, which vanish at its end;
- its own ``/proc``, and a ``/dev`` with the devices that every program needs;
- of the environment: the variables in ``_KEPT``, those that the task declares, and ``WEFT_*``.

All processes of the program are in one PID namespace, so that the kernel ends them together, however they
were started. The root directory is read-only: a write elsewhere is an error. If the program runs as root, it
owns the kernel's settings below ``/proc`` and the host's devices. Those are therefore read-only for it too; a
device can still be used.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from weft.backends.attempt.command import RenderedJob
from weft.backends.attempt.substitution import JobProblem
from weft.documents import locate_problems
from weft.errors import InvalidInput, Problem
from weft.workflow.task import ISOLATED_BY, Isolation, Task
from weft.workflow.workflow import Workflow

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "alternatives", "apptainer", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "containers",
    "crypto-policies", "environment", "fonts", "group", "gai.conf", "host.conf", "hosts", "inputrc", "java",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "magic",
    "mime.types", "modules", "networks", "nsswitch.conf", "OpenCL", "openmpi", "os-release", "passwd", "pki",
    "profile", "profile.d", "protocols", "R", "resolv.conf", "rpc", "services", "singularity", "ssl",
    "subgid", "subuid", "terminfo", "timezone", "vulkan",
)  # fmt: skip
"""Visible entries of ``/etc``: libraries, names, certificates, time zones, but no passwords or keys."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "HOME", "USER", "LOGNAME", "SHELL")
"""Variables of the engine's environment that an isolated program inherits, besides ``LC_*``."""
FUNCTION_PATHS = ".weft/functions/places.json"
"""File in the project that contains the ``sys.path`` of a program that calls task functions."""
_PROBE_S = 20.0
_SHOWN_PROBLEMS = 5


class Mount(NamedTuple):
    """One entry of the file system that an isolated program sees."""

    kind: str
    """``read``, ``write``, ``empty``, ``link``, ``proc``, ``dev``, or ``seal`` (make an existing path
    read-only).
    """
    path: str
    source: str = ""
    """File or directory of the host, or the target of a link."""


def isolate_program(job: RenderedJob, records: str) -> tuple[list[str], dict[str, str | None]]:
    """Return the arguments and the environment changes that start a job's program in isolation.

    ``records`` is the directory of the script file. In the changes, the value None removes a variable. Raises
    JobProblem if the program cannot be isolated.
    """
    assert job.argv is not None
    assert job.isolation is not None
    if problem := find_isolation_problem(job.isolation.tool):
        raise JobProblem(f"{job.task} cannot be isolated: {problem}")
    mounts = [*_base_mounts(), *_stated_mounts(job, job.isolation)]
    if job.needs_script:
        mounts.append(Mount("read", f"{records}/{job.script_name}", f"{records}/{job.script_name}"))
    mounts.append(Mount("write", job.workdir, job.workdir))
    start = _START[job.isolation.tool](mounts, job.isolation.network, job.workdir)
    # The runner's standard input is the host's ``/dev/null``, whose permissions root could change through it.
    start += _OWN_INPUT if _is_root() and job.stdin is None else ()
    return [*start, *job.argv], _environment(job.env)


_OWN_INPUT = ("/bin/sh", "-c", 'exec "$@" </dev/null', "weft")
"""Command that runs a program with the read-only ``/dev/null`` as its standard input."""


def _is_root() -> bool:
    return os.geteuid() == 0


def _environment(declared: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changes that turn the engine's environment into that of an isolated program.

    The value None removes a variable. Secrets are added later.
    """
    removed: dict[str, str | None] = {
        name: None for name in os.environ if name not in _KEPT and not name.startswith("LC_")
    }
    return removed | dict(declared)


def _base_mounts() -> Iterator[Mount]:
    """Yield the mounts that every isolated program has; a later mount may be inside an earlier one."""
    yield from (Mount("empty", f"/{name}") for name in ("tmp", "var/tmp", "run"))
    home = os.environ.get("HOME", "")
    if home.startswith("/") and os.path.normpath(home) != "/" and not _is_below(home, _SYSTEM):
        yield Mount("empty", os.path.normpath(home))
    yield Mount("proc", "/proc")
    yield Mount("dev", "/dev")
    if _is_root():
        yield from (Mount("seal", path, path) for path in _kernel_settings())
    for path in _SYSTEM:
        if os.path.islink(path):  # noqa: PTH114 -- ``/bin`` is a link to ``usr/bin`` on most systems
            yield Mount("link", path, os.readlink(path))  # noqa: PTH115
        elif os.path.isdir(path):  # noqa: PTH112
            yield Mount("read", path, path)
    for name in _SETTINGS:
        if os.path.exists(f"/etc/{name}"):  # noqa: PTH110
            yield Mount("read", f"/etc/{name}", f"/etc/{name}")
    yield from (Mount("read", path, path) for path in _python_folders())


def _kernel_settings() -> Iterator[str]:
    """Yield the entries of ``/proc`` that root can write, except the directories of processes."""
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdecimal() or entry.is_symlink():
            continue
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_mode & 0o222:
                yield entry.path


@functools.cache
def _python_folders() -> tuple[str, ...]:
    """Return the folders of this Python and of weft that are not in the system directories."""
    found = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])]
    found += [str(Path(path).parent) for path in (sys.executable, str(Path(sys.executable).resolve()))]
    # Installed packages may be elsewhere, as those of the user in the home directory.
    found += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    folders = sorted({os.path.abspath(path) for path in found}, key=len)  # noqa: PTH100
    kept: list[str] = []
    for folder in folders:
        if not _is_below(folder, (*_SYSTEM, *kept)):
            kept.append(folder)
    return tuple(kept)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _stated_mounts(job: RenderedJob, isolation: Isolation) -> Iterator[Mount]:
    for path in isolation.read:
        if not os.path.exists(path):  # noqa: PTH110
            what = f"{job.task}: {path!r} of `isolate: read` does not exist on this machine"
            raise JobProblem(what, advice="correct the path, or remove it")
        yield Mount("read", os.path.normpath(path), path)
    paths = f"{job.env.get('WEFT_FOLDER', '')}/{FUNCTION_PATHS}"
    if os.path.isfile(paths):  # noqa: PTH113
        yield Mount("read", paths, paths)
    image = job.environment.container if job.environment is not None else None
    if image is not None and image.startswith("/") and os.path.exists(image):  # noqa: PTH110
        yield Mount("read", os.path.normpath(image), image)


def _start_bubblewrap(mounts: Iterable[Mount], network: bool, workdir: str) -> list[str]:
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if network else []
    for kind, path, source in mounts:
        words += _BUBBLEWRAP[kind], *([source] if source else []), path
    words += "--remount-ro", "/", "--chdir", workdir, "--"
    if not _is_root():
        return words
    # bubblewrap cannot make devices read-only, but it keeps them so if they are.
    outer = [_find_program("unshare") or "unshare", "--user", "--map-root-user", "--mount"]
    outer += "--propagation", "private"
    return [*outer, "/bin/sh", "-c", f'PATH=$PATH:{_PROGRAMS}; {_SEAL_DEVICES}exec "$@"', "weft", *words]


_BUBBLEWRAP = {
    "read": "--ro-bind", "write": "--bind", "empty": "--tmpfs", "link": "--symlink", "proc": "--proc",
    "dev": "--dev", "seal": "--ro-bind",
}  # fmt: skip

_SEAL_DEVICES = f"""\
seal() {{ mount -o "remount,bind,$2" "$1" 2>/dev/null; }}
for device in {" ".join(f"/dev/{name}" for name in _DEVICES)}; do
  mount --bind $device $device || exit
  seal $device ro || seal $device ro,nosuid || seal $device ro,nosuid,noexec || exit
done
"""
"""Shell commands that make devices read-only in this mount namespace.

A device can still be used, but its mode cannot be changed.
"""
_SCRIPT = """\
set -eu
weft_path=${{PATH-}}
PATH=$PATH:{system}
umask 022
{seal}mount -t tmpfs -o mode=0755 weft {root}
make() {{ if [ -d "$1" ]; then mkdir -p "{root}$2"; else mkdir -p "{root}${{2%/*}}"; : >> "{root}$2"; fi; }}
bind() {{ make "$1" "$2"; mount --rbind "$1" "{root}$2"; }}
show() {{ make "$1" "$2"; lock "$1" "$2" ro 2>/dev/null || lock "$1" "$2" ro,nosuid,nodev; }}
lock() {{ mount --rbind -o "$3" "$1" "{root}$2"; }}
empty() {{ mkdir -p "{root}$1"; mount -t tmpfs -o mode=1777 weft "{root}$1"; }}
{lines}
while read -r _ _ _ _ point _; do
  case $point in
  {kept}) ;;
  {read}) mount -o remount,bind,ro "$point" 2>/dev/null || mount -o remount,bind,ro,nosuid,nodev "$point" ;;
  esac
done < /proc/self/mountinfo
ip link set lo up 2>/dev/null || :
cd {root}
mkdir .host
pivot_root . .host
umount -l /.host
rmdir /.host
mount -o remount,bind,ro /
cd {workdir}
PATH=$weft_path {setpriv} --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""
"""Shell script that mounts the visible files below ``/sys`` and makes ``/sys`` the root directory.

Mounts of the host inside a read-only directory are made read-only one by one. The shell remains process 1 of
the namespace, so it ignores SIGTERM; the program is a child of the shell.
"""
_ROOT = "/sys"
_WRITTEN = ("write", "proc", "dev")
"""Kinds of mounts with writable content: mounts of the host inside them are not made read-only."""
_PROGRAMS = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Search path of programs for administrators, which the ``PATH`` of most users does not contain."""


def _find_program(name: str) -> str:
    """Return the path of a program; "" if it is not installed."""
    return shutil.which(name) or shutil.which(name, path=_PROGRAMS) or ""


def _start_unshare(mounts: Iterable[Mount], network: bool, workdir: str) -> list[str]:
    mounts = list(mounts)
    lines = [line for mount in mounts for line in _script_lines(mount)]
    kept = [shlex.quote(_ROOT + mount.path) for mount in mounts if mount.kind != "read"]
    kept += [f"{shlex.quote(_ROOT + mount.path)}/*" for mount in mounts if mount.kind in _WRITTEN]
    read = [f"{shlex.quote(_ROOT + mount.path)}/*" for mount in mounts if mount.kind == "read"]
    script = _SCRIPT.format(
        root=_ROOT,
        seal=_SEAL_DEVICES if _is_root() else "",
        lines="\n".join(lines),
        kept=" | ".join(kept),
        read=" | ".join(read),
        workdir=shlex.quote(workdir),
        system=_PROGRAMS,
        setpriv=_find_program("setpriv"),
    )
    words = [_find_program("unshare"), "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    words += ["--ipc", "--uts", "--cgroup", "--kill-child", "--propagation", "private"]
    words += [] if network else ["--net"]
    return [*words, "/bin/sh", "-c", script, "weft"]


def _script_lines(mount: Mount) -> Iterator[str]:
    path, source = shlex.quote(mount.path), shlex.quote(mount.source)
    match mount.kind:
        case "read":
            yield f"show {source} {path}"
        case "write":
            yield f"bind {source} {path}"
        case "empty":
            yield f"empty {path}"
        case "link":
            yield f"ln -s {source} {_ROOT}{path}"
        case "seal":
            yield f"mount --bind -o ro {_ROOT}{path} {_ROOT}{path}"
        case "proc":
            yield f"mkdir -p {_ROOT}{path}; mount -t proc proc {_ROOT}{path}"
        case _:
            yield f"empty {path}"
            yield from (f"bind /dev/{name} /dev/{name}" for name in _DEVICES)
            yield "empty /dev/shm"
            yield f"ln -s /proc/self/fd {_ROOT}/dev/fd"
            yield from (
                f"ln -s /proc/self/fd/{number} {_ROOT}/dev/{name}"
                for number, name in enumerate(("stdin", "stdout", "stderr"))
            )


_START = {"bubblewrap": _start_bubblewrap, "unshare": _start_unshare}

_PACKAGES = {"bubblewrap": ("bwrap",), "unshare": ("unshare", "mount", "umount", "pivot_root", "setpriv")}
"""By tool for isolation: the programs that it needs."""


@functools.cache
def find_isolation_problem(tool: str) -> str:
    """Return why programs cannot be isolated on this host, and what to do; "" if they can."""
    package = "bubblewrap" if tool == "bubblewrap" else "util-linux"
    find = shutil.which if tool == "bubblewrap" else _find_program
    if missing := [name for name in _PACKAGES[tool] if not find(name)]:
        install = f"apt-get install {package} (Debian, Ubuntu) or dnf install {package} (Fedora, RHEL)"
        return f"{', '.join(missing)} is not installed on this host; install it: {install}"
    mounts = list(_base_mounts())
    try:
        done = subprocess.run(  # noqa: S603 -- a fixed command
            [*_START[tool](mounts, False, "/"), "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tool} cannot be started: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    why = said[0] if said else f"exit code {done.returncode}"
    return (
        f"{tool} does not work on this host ({why}); it needs user namespaces: ask the administrator for "
        "`sysctl user.max_user_namespaces=10000`, and on Debian and Ubuntu for "
        "`sysctl kernel.unprivileged_userns_clone=1` or `kernel.apparmor_restrict_unprivileged_userns=0`"
    )


def check_isolation(workflows: Iterable[Workflow]) -> None:
    """Raise InvalidInput if the program of a task cannot be isolated on this host."""
    problems: list[Problem] = []
    for workflow in workflows:
        found = [problem for task in workflow.tasks for problem in _task_problems(task)]
        problems += locate_problems(found[:_SHOWN_PROBLEMS], workflow.document)
    if problems:
        raise InvalidInput(problems)


def _task_problems(task: Task) -> Iterator[Problem]:
    isolation = task.job.isolate if task.job is not None else None
    if task.job is None or isolation is None or isolation.tool not in ISOLATED_BY:
        return
    keys = ("tasks", task.name, "isolate")
    if problem := find_isolation_problem(isolation.tool):
        yield Problem(what=f"task {task.name!r} cannot be isolated: {problem}", path=keys)
    if task.job.environment is not None and task.job.environment.conda is not None:
        what = f"task {task.name!r} is isolated and has a conda environment"
        advice = "use `container`, or call the programs of an existing environment whose folder is in `read`"
        yield Problem(what=what, rule="conda needs files of the home directory", advice=advice, path=keys)
