"""Directories and files of a project on disk: ``.weft/`` and the sandboxes of its machines.

Files that weft trusts (records, files of runners, checkpoints) are kept outside the directories in which
tasks work, so that a task cannot forge them by writing into its own directory. A symbolic link in place of
one of these directories would redirect weft's writes. Therefore a project with such a link cannot be opened.
The same holds for a ``.weft`` or a sandbox in which another user can replace directories.

A sandbox may be shared by several projects, and it may exist longer than ``.weft``. Then the same numbers of
executions and attempts occur several times in one sandbox. They also occur again after the tail of a journal
was lost. The paths of working directories therefore contain the identity of the project and the nonce of the
attempt:

    SANDBOX/PROJECT/EXECUTION/ATTEMPT-NONCE     working directory of an attempt
    SANDBOX/PROJECT/cache                       cache of inputs
    .weft/attempts/EXECUTION/ATTEMPT-NONCE      records of an attempt
"""

from __future__ import annotations

import errno
import grp
import hashlib
import os
import pwd
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine
from weft.private_files import FOLDER_MODE, STATE_FOLDER, find_foreign_owner
from weft.records import dataclass

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 80
_ENTERED_WITH_CARE = ("attempts", "checkpoints")
"""Subdirectories of ``.weft`` that are not scanned for links: their entries are opened without following
links.
"""


_SHORT = 16
"""Number of hexadecimal digits of an identity or nonce that are part of a path: 64 random bits."""


@dataclass(frozen=True, slots=True)
class ProjectLayout:
    """Paths of the files and directories in which weft stores the state of one project."""

    project: Path
    """Absolute path of the project, with symbolic links resolved."""

    @property
    def home(self) -> Path:
        """Return the directory that holds the state of weft, ``.weft``."""
        return self.project / STATE_FOLDER

    @property
    def database(self) -> Path:
        """Return the SQLite file with journals, runs and products."""
        return self.home / "weft.db"

    @property
    def lock(self) -> Path:
        """Return the path of the lock file, which the only running engine of the project holds."""
        return self.home / "lock"

    def records(self, execution: int, attempt: int, nonce: str) -> Path:
        """Return the directory of an attempt's files ``command.sh``, ``out``, ``err`` and ``exitcode``."""
        return self.home / "attempts" / str(execution) / attempt_folder(attempt, nonce)

    def runner(self, execution: int, machine: Machine) -> Path:
        """Return the directory of a machine's runner: its socket, heartbeat, start and end records."""
        return self.home / "runners" / str(execution) / path_component(machine.name)

    def checkpoints(self, execution: int, run: int, task: int) -> Path:
        """Return the directory for copies of a task's last restart files."""
        return self.home / "checkpoints" / str(execution) / f"{run}-{task}"

    def sandbox(self, machine: Machine) -> Path:
        """Return the sandbox of a machine: as stated in its ``backend``, or a directory in ``.weft``.

        Shares (virtual resources) use the sandbox of their physical machine, because they use its disk. Other
        projects may use the same sandbox; ``own_sandbox`` returns the directory of one project in it. The
        result for a machine with a disk of its own is the mirror of its sandbox (``attempt/remote_disk.py``).
        """
        if machine.has_own_disk:
            return self.home / "mirror" / path_component(machine.host_name)
        stated = machine.backend.get("sandbox")
        if isinstance(stated, str) and stated:
            return _resolve_sandbox(self.project / stated)
        return self.home / "sandbox" / path_component(machine.host_name)

    def own_sandbox(self, machine: Machine, project: str) -> Path:
        """Return the directory of a project in the sandbox of a machine; ``project`` is its identity."""
        return self.sandbox(machine) / project[:_SHORT]

    def workdir(self, machine: Machine, project: str, execution: int, attempt: int, nonce: str) -> Path:
        """Return the working directory of an attempt; the outputs of the attempt stay there."""
        return self.own_sandbox(machine, project) / str(execution) / attempt_folder(attempt, nonce)

    def cache(self, machine: Machine, project: str) -> Path:
        """Return the directory of a machine's cache of shared inputs, which are stored by content."""
        return self.own_sandbox(machine, project) / "cache"


def attempt_folder(attempt: int, nonce: str) -> str:
    """Return the name of an attempt's directories: its number and the start of its nonce.

    An attempt of an older version of weft has no nonce.
    """
    return f"{attempt}-{nonce[:_SHORT]}" if nonce else str(attempt)


@cache
def _resolve_sandbox(sandbox: Path) -> Path:
    """Resolve links in the user's sandbox path; the result is cached, so later links are not followed."""
    return sandbox.resolve()


def refuse_links(project: Path) -> None:
    """Raise InvalidInput if ``.weft`` is not a directory of this user, or if it is or contains a link.

    The same holds for a project in which every user can rename ``.weft``.
    """
    home = ProjectLayout(project).home
    if problem := _find_open_project(project):
        raise InvalidInput([problem])
    if home.is_symlink():
        raise _link_problem(home, "or choose another project with `--project DIR`")
    if home.exists() and not home.is_dir():
        rule = "it must be a directory: weft keeps its own state there"
        advice = "rename or remove it, or choose another project with `--project DIR`"
        raise InvalidInput(f"'{home}' is not a directory", rule=rule, advice=advice)
    if home.exists() and (owner := find_foreign_owner(home)):
        raise InvalidInput(
            f"'{home}' belongs to another user, {owner}",
            rule="weft keeps its own state there, which its owner could change",
            advice="run weft as that user, or choose another project with `--project DIR`; if it is yours, "
            f"`chown -R {os.geteuid()} '{home}'`",
        )
    for part in _list_entries(str(home)):
        deep = part.is_dir(follow_symlinks=False) and part.name not in _ENTERED_WITH_CARE
        for each in (part, *(_list_entries(part.path) if deep else ())):
            if each.is_symlink():
                sandbox = "or set `sandbox: DIR` of the machine"
                raise _link_problem(Path(each.path), sandbox if part.name == "sandbox" else "")


def _find_open_project(project: Path) -> Problem | None:
    """Return a problem if every user can rename entries of a project folder; None: they cannot."""
    try:
        mode = project.stat().st_mode
        if not mode & stat.S_IWOTH or mode & stat.S_ISVTX or not _keeps_modes(project):
            return None
    except OSError:
        return None  # reported when it is used
    return Problem(
        what=f"every user can write to the project folder '{project}'",
        rule="others could replace its '.weft', where weft keeps its own state",
        advice=f"`chmod o-w '{project}'`, or `chmod +t '{project}'` if others need it",
    )


def _keeps_modes(folder: Path) -> bool:
    """Return whether the file system of a folder stores permissions; some show the same for all files."""
    made = folder / f".weft-new-{os.urandom(8).hex()}"
    try:
        made.mkdir(mode=FOLDER_MODE)
    except OSError:
        return True
    try:
        return not made.stat().st_mode & stat.S_IWOTH
    finally:
        made.rmdir()


def describe_shared_project(project: Path) -> str:
    """Return why some other users can replace ``.weft`` of a project, as text; "": they cannot."""
    status = project.stat()
    if status.st_mode & stat.S_ISVTX:
        return ""
    if status.st_uid != 0 and (owner := find_foreign_owner(project)):
        return f"the project folder '{project}' belongs to another user, {owner}, who can replace its '.weft'"
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status):
        return (
            f"the group {_group_name(status.st_gid)} can write to the project folder '{project}', so its "
            f"members can replace its '.weft'; `chmod +t '{project}'` prevents this"
        )
    return ""


def _group_name(number: int) -> str:
    with suppress(KeyError):
        return grp.getgrgid(number).gr_name
    return str(number)


def check_sandboxes(layout: ProjectLayout, machines: Iterable[Machine]) -> None:
    """Raise InvalidInput if a machine states a sandbox in which other users can replace directories."""
    problems = []
    for machine in machines:
        if isinstance(stated := machine.backend.get("sandbox"), str) and stated:
            found = _find_sandbox_problem(layout.sandbox(machine))
            problems += [replace(found, what=f"machine {machine.name!r}: {found.what}")] if found else []
    if problems:
        raise InvalidInput(problems)


def _find_sandbox_problem(sandbox: Path) -> Problem | None:
    """Return why other users can replace directories in a sandbox; None: they cannot.

    If the sandbox does not exist, only its parents are checked, because it will be created with private
    permissions.
    """
    for folder in (sandbox, *sandbox.parents):
        try:
            status = folder.stat()
        except OSError:
            continue  # created later, or reported when it is used
        where = f"the sandbox '{sandbox}'" if folder == sandbox else f"'{folder}', which contains a sandbox,"
        rule = "others could replace directories in it, and with them outputs of tasks"
        own = status.st_uid in (os.geteuid(), 0)
        if folder == sandbox and not own and (owner := find_foreign_owner(folder)):
            advice = "use a folder of your own; if it is yours, change its owner with `chown`"
            return Problem(what=f"{where} belongs to another user, {owner}", rule=rule, advice=advice)
        shared = stat.S_IWOTH | (stat.S_IWGRP if folder == sandbox and not _is_private_group(status) else 0)
        if status.st_mode & shared and not status.st_mode & stat.S_ISVTX:
            advice = f"`chmod go-w '{folder}'`, or `chmod +t '{folder}'` if others need it"
            return Problem(what=f"{where} can be written by other users", rule=rule, advice=advice)
    return None


_WRONG_PATH = frozenset(
    {
        errno.EACCES,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""Error numbers that mean that no sandbox can be created at a path.

Other errors, such as a full disk, may pass.
"""


def describe_sandbox_error(sandbox: Path, error: OSError) -> tuple[str, bool]:
    """Return why a sandbox cannot be written, and whether this stays so until the user changes something."""
    is_file = (
        isinstance(error, FileExistsError | NotADirectoryError) and sandbox.exists() and not sandbox.is_dir()
    )
    why = "it is not a directory" if is_file else error.strerror
    return f"its sandbox {sandbox} cannot be written: {why}", is_file or error.errno in _WRONG_PATH


def refuse_wrong_sandboxes(layout: ProjectLayout, machines: Iterable[Machine]) -> None:
    """Raise InvalidInput if a machine states a sandbox that can never be created or written.

    The sandbox is not created. Causes that may pass, such as a full disk, are ignored.
    """
    problems = []
    for machine in machines:
        if isinstance(stated := machine.backend.get("sandbox"), str) and stated:
            sandbox = layout.sandbox(machine)
            if (error := _try_sandbox(sandbox)) is not None:
                text, lasting = describe_sandbox_error(sandbox, error)
                advice = "correct `sandbox` of the machine, or omit it: then weft chooses a folder in .weft"
                found = Problem(what=f"machine {machine.name!r}: {text}", advice=advice)
                problems += [found] if lasting else []
    if problems:
        raise InvalidInput(problems)


def _try_sandbox(sandbox: Path) -> OSError | None:
    """Try to create a directory in a sandbox; return the error, or None on success.

    If the sandbox is missing, its next existing parent is tried. Permissions are not sufficient for this
    check: in some file systems even root cannot create directories.
    """
    for folder in (sandbox, *sandbox.parents):
        tried = folder / f".weft-{os.getpid()}-check"
        try:
            folder.stat()
            tried.mkdir(mode=FOLDER_MODE)
            tried.rmdir()
        except FileNotFoundError as error:
            if folder.exists():
                return error
        except OSError as error:
            return error
        else:
            return None
    return None


def _is_private_group(status: os.stat_result) -> bool:
    """Return whether the group of a folder has the name of the folder's owner and no other members."""
    with suppress(KeyError):
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
        return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
    return False


def _list_entries(directory: str) -> list[os.DirEntry[str]]:
    with suppress(FileNotFoundError), os.scandir(directory) as found:
        return sorted(found, key=lambda part: part.name)
    return []  # Nothing was run here yet, or the directory is being removed.


def _link_problem(link: Path, elsewhere: str) -> InvalidInput:
    rule = "weft keeps its own state there and does not follow links to it"
    advice = "; ".join(("remove the link", *([elsewhere] if elsewhere else [])))
    return InvalidInput(f"'{link}' is a symbolic link to '{link.readlink()}'", rule=rule, advice=advice)


def path_component(name: str) -> str:
    """Return a single safe path component for ``name``; different names give different components."""
    plain = _UNSAFE.sub("_", name)
    if plain == name and len(name) <= _LONGEST and name.strip("."):
        return name
    return f"{plain[:_LONGEST].strip('.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
