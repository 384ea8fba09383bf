"""File operations on the disk of a host: the server that runs there, and the records of its messages.

A machine with a disk of its own is reached through a process on its host. This module runs in that process:
it reads one request per line from standard input and writes one answer per line to standard output, both JSON
objects. Small files are parts of messages. Larger files from other machines arrive in a folder of the
project in the sandbox, each under its digest, so that a broken transfer continues where it stopped. An
arrived file is verified and then moved to its place.

A request has ``id``, ``do`` (the name of an operation) and the arguments of the operation. Its answer has the
same ``id`` and either ``value``, or ``problem``: the arguments of the StagingProblem that was raised. Several
threads handle the requests, so that hashing a large file does not delay the others.

Hosts load this module without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tarfile
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from weft.backends.attempt.content import write_all
from weft.backends.attempt.digests import DIGESTS, boot_id, find_version
from weft.backends.attempt.file_sync import sync_files
from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    StagingProblem,
    open_directory,
    open_entry,
    open_inside,
    split_name,
    staging_errors,
)
from weft.backends.attempt.staging import atomic_file, clone_or_copy, collect_outputs, is_intact, measure_file
from weft.backends.attempt.trees import match_names, remove_tree
from weft.backends.file_record import FileRecord
from weft.private_files import FILE_MODE, FOLDER_MODE, make_folder, write_file

if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from weft.backends.attempt.staging import CopyPermissions

_THREADS = 4
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BYTES = 1 << 16
SMALL_BYTES = 256 << 10
"""Files and archives of at most this size are sent in messages."""
_SANDBOX_DEPTH = 6
"""Number of directories above a working directory that weft may have created."""
PARTIAL = ".part"
"""Suffix of an arriving file that is not complete."""


class HostFiles:
    """The file operations; a method without a leading underscore is an operation of this name."""

    def __init__(self) -> None:
        self._synced: set[Path] = set()
        """Directories above working directories whose entries were synced to the disk."""
        self._lock = Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        """Programs that run for an operation."""
        self._ended = False

    def describe(self, sandbox: str = "") -> dict[str, Any]:
        """Return facts about the host: its boot, the version of Python and the user's home folder.

        ``sandbox`` is a path, absolute or relative to the home folder; it is returned without links.
        ``run_module`` is the command that runs a module of the bundle.
        """
        version = ".".join(str(each) for each in sys.version_info[:3])
        home = Path.home()
        found = str((home / Path(sandbox).expanduser()).resolve())
        facts = {"boot": boot_id(), "python": version, "home": str(home), "user": os.geteuid()}
        return {**facts, "sandbox": found, "run_module": [sys.executable, str(Path(sys.argv[0]).resolve())]}

    def check_space(self, sandbox: str) -> None:
        """Raise StagingProblem if the disk of a sandbox has no space for a small file."""
        root = (Path.home() / Path(sandbox).expanduser()).resolve()
        with staging_errors("cannot be written", str(root)):
            make_folder(root)
            probe = root / f".space-{os.urandom(8).hex()}"
            try:
                write_file(probe, bytes(_MOST_BYTES))
            finally:
                with suppress(FileNotFoundError):
                    probe.unlink()

    def make_workdir(
        self,
        sandbox: str,
        parts: Sequence[str],
        *,
        recovered: bool = False,
        records: Sequence[str] = (),
        content: str = "",
    ) -> None:
        """Create a working directory below a sandbox; parents that are missing are created.

        ``records`` is the path of one more directory, which may exist. If ``recovered`` is True, an earlier
        engine may have created the working directory; then it is removed first. ``content`` are the first
        files (see ``unpack_content``); "": the directory is empty.
        """
        root = Path(sandbox)
        with staging_errors("cannot be created", sandbox):
            make_folder(root)
        above, last = root.joinpath(*parts[:-1]), parts[-1]
        with open_directory(root, parts[:-1], make=True, mode=FOLDER_MODE) as parent:
            if recovered:
                remove_tree(above, last)
            with staging_errors("cannot be created", str(above / last)):
                os.mkdir(last, FOLDER_MODE, dir_fd=parent)
        if records:
            with open_directory(root, records, make=True, mode=FOLDER_MODE):
                pass
        if content:
            self.unpack_content(str(above / last), content)

    def copy(
        self, source_root: str, source: str, root: str, name: str, *, digest: str, modes: CopyPermissions
    ) -> int:
        """Copy an output of a task to the working directory of another; return the bytes copied."""
        return clone_or_copy(Path(source_root), source, Path(root), name, digest=digest, modes=modes)

    def find_arrived(
        self, folder: str, digests: Sequence[str], *, name: str = "", size_bytes: int = 0
    ) -> dict[str, int]:
        """Return by digest the number of bytes that have arrived, of files that have arrived in part.

        The number is -1 for a file that is complete. The folder is created if it is missing. Raises
        StagingProblem if the disk has no space for the missing part of a file with this name and size.
        """
        with staging_errors("cannot be created", folder):
            make_folder(Path(folder))
        found: dict[str, int] = {}
        for digest in digests:
            for arrived, complete in ((digest, True), (digest + PARTIAL, False)):
                try:
                    size = (Path(folder) / arrived).lstat().st_size
                except FileNotFoundError:
                    continue
                found[digest] = -1 if complete else size
                break
        missing_bytes = 0 if -1 in found.values() else size_bytes - sum(found.values())
        disk = os.statvfs(folder)
        if missing_bytes > (free_bytes := disk.f_bavail * disk.f_frsize):
            free = f"the disk of {folder} has {free_bytes / 1e6:.0f} MB free"
            why = f"it has {size_bytes / 1e6:.0f} MB, but {free}"
            advice = "free space there, or set `sandbox` to a larger disk"
            raise StagingProblem("cannot be sent", name, f"{why}; {advice}", number=errno.ENOSPC)
        return found

    def accept(self, folder: str, digest: str) -> None:
        """Verify a file that has arrived under its digest; a file with another content is removed."""
        root, name = Path(folder), digest + PARTIAL
        if not (root / name).exists() and (root / digest).exists():
            return  # another engine has sent the same content
        if DIGESTS.of_path(root, name) != digest:
            remove_tree(root, name)
            why = "its content differs from the one that was sent"
            raise StagingProblem("cannot be received", digest, why, number=errno.EAGAIN)
        with staging_errors("cannot be received", digest), open_directory(root, ()) as parent:
            os.rename(name, digest, src_dir_fd=parent, dst_dir_fd=parent)

    def place(
        self, folder: str, digest: str, root: str, name: str, *, mode: int, modified_ns: int, keep: bool
    ) -> None:
        """Put an accepted file into a working directory, with these permissions and this time.

        If ``keep`` is True, a copy stays in the folder for other tasks.
        """
        clone_or_copy(Path(folder), digest, Path(root), name, digest=digest, modes="own")
        with open_entry(Path(root), split_name(name)) as found, staging_errors("cannot be placed", name):
            path = f"/proc/self/fd/{found.fd}"
            Path(path).chmod(stat.S_IMODE(mode) & 0o777)
            os.utime(path, ns=(modified_ns, modified_ns))
        if not keep:
            remove_tree(Path(folder), digest)

    def unpack(self, folder: str, digest: str, root: str, *, is_own: bool = False) -> None:
        """Put the files of an accepted archive into a working directory, and remove the archive.

        ``is_own``: the user may write to the files.
        """
        with staging_errors("cannot be unpacked", digest), (Path(folder) / digest).open("rb") as archive:
            unpack_archive(archive, Path(root), 0o600 if is_own else 0)
        remove_tree(Path(folder), digest)

    def unpack_content(self, root: str, content: str) -> None:
        """Put the files of an archive, which is encoded as Base64, into a working directory."""
        unpack_archive(BytesIO(b64decode(content)), Path(root))

    def pack(self, root: str, name: str, folder: str, *, in_message: bool = True) -> dict[str, Any]:
        """Return the path of a file to receive, its digest, permissions and time.

        A directory is packed into an archive, which is removed after it was received. With
        ``in_message``, the content of a small file or archive is returned, encoded as Base64, in place of
        the path.
        """
        with open_entry(Path(root), split_name(name)) as found:
            status, is_directory = found.status, found.is_directory
        facts = {"mode": status.st_mode, "modified_ns": status.st_mtime_ns, "archive": is_directory}
        if not is_directory:
            found_at = {"digest": DIGESTS.of_path(Path(root), name)}
            if in_message and status.st_size <= SMALL_BYTES:
                with FileDescriptor(open_inside(Path(root), name)) as fd:
                    content = os.pread(fd, SMALL_BYTES + 1, 0)
                return {**facts, **found_at, "content": b64encode(content).decode()}
            path = "/".join((root, *split_name(name)))
            return {**facts, **found_at, "path": path, "size_bytes": status.st_size}
        make_folder(Path(folder))
        archive = Path(folder) / f"archive-{os.urandom(8).hex()}"
        with tarfile.open(str(archive), "w", format=tarfile.PAX_FORMAT) as packed:
            packed.add(str(Path(root).joinpath(*split_name(name))), "/".join(split_name(name)))
        digest = DIGESTS.of_path(Path(folder), archive.name)
        size_bytes = archive.stat().st_size
        if in_message and size_bytes <= SMALL_BYTES:
            content = archive.read_bytes()
            archive.unlink()
            return {**facts, "content": b64encode(content).decode(), "digest": digest}
        archive.rename(Path(folder) / digest)
        return {**facts, "path": f"{folder}/{digest}", "digest": digest, "size_bytes": size_bytes}

    def offer_proof(self, folder: str) -> list[str]:
        """Write a random text to a file and return its path and the text.

        A command that reads the text from this path reaches this host.
        """
        make_folder(Path(folder))
        path, text = Path(folder) / f"proof-{os.urandom(8).hex()}", os.urandom(16).hex()
        write_file(path, text.encode(), is_private=True)
        return [str(path), text]

    def try_route(self, command: Sequence[str], path: str, text: str) -> str:
        """Return why a command does not reach another host; "": it reads this text from the path there.

        A shell command is the last argument of ``command``, which runs it on the other host.
        """
        done, said = self._run([*command, f"exec cat {shlex.quote(path)}"], subprocess.PIPE)
        if done == text:
            return ""
        return said or "it reaches another host"

    def fetch(self, command: Sequence[str], path: str, folder: str, digest: str, *, size_bytes: int) -> int:
        """Receive a file from another host, to be accepted under its digest; return the bytes received.

        ``command`` runs a shell command there (see ``try_route``). Bytes that are here are not sent again.
        """
        with staging_errors("cannot be created", folder):
            make_folder(Path(folder))
            file = os.open(f"{folder}/{digest}{PARTIAL}", _APPEND, FILE_MODE)
        with FileDescriptor(file) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)  # a server before this one may not have ended yet
            start = os.fstat(fd).st_size
            if start > size_bytes:
                os.ftruncate(fd, 0)
                start = 0
            said = ""
            if start < size_bytes:
                _, said = self._run([*command, f"exec tail -c +{start + 1} {shlex.quote(path)}"], fd)
            if (found := os.fstat(fd).st_size) != size_bytes:
                why = said or f"{found} of {size_bytes} bytes have arrived"
                raise StagingProblem("cannot be received", path, why, number=errno.EAGAIN)
        return size_bytes - start

    def _run(self, command: Sequence[str], out: int) -> tuple[str, str]:
        """Run a program; return its output if ``out`` is a pipe, and why it failed, or ""."""
        with self._lock:
            if self._ended:
                return "", "the server ends"
            try:
                child = subprocess.Popen(  # noqa: S603 -- the engine states the command
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE
                )
            except OSError as error:
                return "", f"{command[0]}: {error.strerror}"
            self._children.add(child)
        said, err = child.communicate()
        with self._lock:
            self._children.discard(child)
        lines = err.decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"]
        return (said or b"").decode(errors="replace"), lines[-1][:200] if child.returncode else ""

    def _end(self) -> None:
        """End the programs that operations have started, and start no more."""
        with self._lock:
            self._ended = True
            for child in self._children:
                child.terminate()

    def measure(self, root: str, name: str) -> str:
        """Return the digest of a file or directory."""
        return measure_file(Path(root), name).digest

    def write_records(self, sandbox: str, path: str, texts: Mapping[str, str]) -> None:
        """Create a directory below a sandbox if it is missing, and write files into it."""
        parts = Path(path).relative_to(sandbox).parts
        with open_directory(Path(sandbox), parts, make=True, mode=FOLDER_MODE) as parent:
            for name, text in texts.items():
                with staging_errors("cannot be written", name), atomic_file(parent, name, mode=0o600) as fd:
                    write_all(text.encode(errors="surrogateescape"), fd)

    def find_sizes(self, root: str) -> dict[str, int]:
        """Return by name the sizes of the regular files in a directory; {} if there is none."""
        try:
            with os.scandir(root) as entries:
                found = [each for each in entries if each.is_file(follow_symlinks=False)]
        except OSError:
            return {}
        return {each.name: each.stat(follow_symlinks=False).st_size for each in found}

    def observe(self, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return for each entry the files that have changed, and the versions of its restart files.

        The sizes of its streams and of the files beside them are returned, too. An entry has ``root``,
        ``records``, ``files`` (by name: the signature that was returned last, or None) and ``patterns``. A
        signature is inode, size, modification time and status change time; with it comes the last 64 KiB of
        the file as text.
        """
        found: dict[str, Any] = {}
        for key, entry in entries.items():
            root, changed = entry["root"], {}
            for name, known in entry["files"].items():
                try:
                    with FileDescriptor(open_inside(Path(root), name)) as fd:
                        status = os.fstat(fd)
                        times = [status.st_mtime_ns, status.st_ctime_ns]
                        signature = [status.st_ino, status.st_size, *times]
                        if signature == known or not stat.S_ISREG(status.st_mode):
                            continue
                        content = os.pread(fd, _MOST_BYTES, max(0, status.st_size - _MOST_BYTES))
                except StagingProblem:
                    continue  # missing, or a link out of the directory
                changed[name] = [signature, content.decode(errors="surrogateescape")]
            versions = [self.find_versions(root, [pattern]) for pattern in entry["patterns"]]
            streams = self.find_sizes(entry["records"])
            found[key] = {"files": changed, "versions": versions, "streams": streams}
        return found

    def collect(self, root: str, patterns: Sequence[str], *, missing_ok: bool) -> list[dict[str, Any]]:
        """Make the declared outputs read-only, sync them to the disk, and return their records."""
        workdir = Path(root)
        files = collect_outputs(workdir, patterns, missing_ok=missing_ok, read_only=True)
        parent, *higher = list(workdir.parents)[:_SANDBOX_DEPTH]
        new = [each for each in higher if each not in self._synced]
        sync_files(workdir, [file.name for file in files], above=[parent, *new])
        self._synced.update(new)
        return [encode_file(file) for file in files]

    def find_intact(self, root: str, files: Sequence[Mapping[str, Any]], *, boot: str) -> list[bool]:
        """Return for each file whether it still has the recorded content; see ``is_intact``."""
        return [is_intact(Path(root), decode_file(file), boot=boot) for file in files]

    def find_versions(self, root: str, patterns: Sequence[str]) -> dict[str, list[int]]:
        """Return by name size, modification time, inode and status change time of files and directories."""
        found: dict[str, list[int]] = {}
        for pattern in patterns:
            for name in match_names(Path(root), pattern):
                try:
                    version = find_version(Path(root), name)
                except StagingProblem as problem:
                    if not problem.is_missing:  # a program may replace a file at any time
                        raise
                    continue
                found[name] = [
                    version.size_bytes, version.modified_ns, version.inode, version.changed_ns
                ]  # fmt: skip
        return found

    def read(self, root: str, names: Sequence[str]) -> dict[str, str]:
        """Return by name the last 64 KiB of each file that exists, as text; other bytes are escaped."""
        found: dict[str, str] = {}
        for name in names:
            try:
                with FileDescriptor(open_inside(Path(root), name)) as fd:
                    status = os.fstat(fd)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    content = os.pread(fd, _MOST_BYTES, max(0, status.st_size - _MOST_BYTES))
            except StagingProblem as problem:
                if not problem.is_missing:
                    raise
                continue
            found[name] = content.decode(errors="surrogateescape")
        return found

    def clean(
        self, sandbox: str, folders: Sequence[str], spared: Sequence[str], *, dry_run: bool
    ) -> dict[str, Any]:
        """Remove folders below a sandbox, except for the paths in ``spared``; return what was removed.

        Parents of the folders that are empty then are removed, too, and the sandbox itself.
        """
        root = Path(sandbox)
        found: dict[str, Any] = {"files": 0, "freed_bytes": 0, "folders": []}
        for folder in folders:
            for name in _without_spared(root, folder, spared):
                self._clean_folder(root, name, found, dry_run)
        if not dry_run:
            parents = {str(each) for folder in folders for each in Path(folder).parents}
            for each in sorted(parents, key=len, reverse=True):
                with suppress(OSError):  # it is not empty, or missing
                    (root / each).rmdir()
            with suppress(OSError):
                root.rmdir()
        return found

    def _clean_folder(self, root: Path, name: str, found: dict[str, Any], dry_run: bool) -> None:
        if not (root / name).is_dir():
            return
        for parent, _, names in os.walk(str(root / name)):
            for each in names:
                status = os.lstat(os.path.join(parent, each))  # noqa: PTH118
                found["files"] += 1
                found["freed_bytes"] += status.st_size if status.st_nlink == 1 else 0
        found["folders"].append(str(root / name))
        if not dry_run:
            remove_tree(root, name)

    def remove(self, root: str, name: str) -> None:
        """Remove a file or directory below a root; it is no error if there is none."""
        remove_tree(Path(root), name)


def _without_spared(root: Path, folder: str, spared: Sequence[str]) -> list[str]:
    """Return a folder, or its entries that are not spared if one of them is."""
    path = root.joinpath(*split_name(folder))
    if not any(each.startswith(f"{path}/") for each in spared):
        return [folder]
    try:
        names = sorted(os.listdir(str(path)))  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if f"{path}/{name}" not in spared]


def unpack_archive(archive: BinaryIO, root: Path, more_mode: int = 0) -> None:
    """Put the files, links and directories of an archive below a root, without following links there.

    The files get the permissions ``more_mode`` in addition to their own.
    """
    with staging_errors("cannot be unpacked", str(root)), tarfile.open(fileobj=archive) as packed:
        for member in packed:
            parts = split_name(member.name)
            if member.isdir():
                with open_directory(root, parts, make=True):
                    continue
            with open_directory(root, parts[:-1], make=True) as parent:
                if member.issym():
                    with suppress(FileNotFoundError):
                        os.unlink(parts[-1], dir_fd=parent)
                    os.symlink(member.linkname, parts[-1], dir_fd=parent)
                    continue
                content = packed.extractfile(member)
                if content is None:
                    continue
                with atomic_file(parent, parts[-1], mode=0o600) as fd:
                    shutil.copyfileobj(content, _Writer(fd))
                    os.fchmod(fd, (member.mode | more_mode) & 0o777)
                    os.utime(fd, ns=(int(member.mtime * 10**9),) * 2)


class _Writer:
    """File object that writes to a descriptor which stays open."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, content: bytes) -> int:
        write_all(content, self._fd)
        return len(content)


def encode_file(file: FileRecord) -> dict[str, Any]:
    """Return the record of a file as a JSON object."""
    return {name: getattr(file, name) for name in _FIELDS}


def decode_file(found: Mapping[str, Any]) -> FileRecord:
    """Return the record of a file from the object that ``encode_file`` returned."""
    return FileRecord(**{name: found[name] for name in _FIELDS})


_FIELDS = ("name", "size_bytes", "digest", "modified_ns", "inode", "changed_ns")


def encode_problem(problem: StagingProblem) -> dict[str, Any]:
    """Return a problem as a JSON object."""
    return {
        "what": problem.what, "file": problem.file, "why": problem.why, "number": problem.number,
        "lasting": problem.lasting,
    }  # fmt: skip


def decode_problem(found: Mapping[str, Any]) -> StagingProblem:
    """Return the problem that ``encode_problem`` encoded; invalid values become texts."""
    number = found.get("number")
    return StagingProblem(
        str(found.get("what")),
        str(found.get("file")),
        str(found.get("why")),
        number=number if isinstance(number, int) else None,
        lasting=found.get("lasting") is True,
    )


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Handle the requests of a stream until it ends, several at the same time."""
    files, lock = HostFiles(), Lock()

    def handle(line: bytes) -> None:
        text = json.dumps(_answer(files, line), separators=(",", ":"))
        with lock:
            answers.write(text.encode() + b"\n")
            answers.flush()

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        for line in requests:
            pool.submit(handle, line)
        files._end()  # noqa: SLF001 -- not an operation


def _answer(files: HostFiles, line: bytes) -> dict[str, Any]:
    number = None
    try:
        request = json.loads(line)
        number, what = request.pop("id"), request.pop("do")
        if what.startswith("_") or not hasattr(HostFiles, what):
            raise ValueError(f"unknown operation {what!r}")
        return {"id": number, "value": getattr(files, what)(**request)}
    except StagingProblem as problem:
        return {"id": number, "problem": encode_problem(problem)}
    except Exception as error:  # an invalid request must not end the server
        why = f"{type(error).__name__}: {error}"
        return {"id": number, "problem": {"what": "failed", "file": "a file operation", "why": why}}
