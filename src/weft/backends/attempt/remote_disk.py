"""Files of attempts on a machine with a disk of its own.

An attempt on such a machine has two working directories: the one on the host, in which its program runs, and
a *mirror* of it on the engine's disk, with the same path below ``.weft/mirror/MACHINE``. Inputs are staged
into the mirror as for a local machine and then sent; restart files, result and reports are received into the
mirror and read there. Outputs stay on the host. ``Product.directory`` of such outputs starts with the name of
the disk, for example ``ssh://host/path``.

Small files are sent together in one message. A larger file is sent under its digest into a folder of the host
and verified before it gets its name, so that a broken transfer continues where it stopped. A received file is
verified in the same way.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from weft.backends.attempt.command import EXIT_FILE, RESULT_FILE
from weft.backends.attempt.content import check_interruption
from weft.backends.attempt.digests import DIGESTS
from weft.backends.attempt.host_files import PARTIAL, SMALL_BYTES, decode_file, encode_file, unpack_archive
from weft.backends.attempt.safe_paths import StagingProblem, make_parents, staging_errors
from weft.backends.attempt.staging import CopyPermissions, measure_file
from weft.backends.attempt.task_files import (
    PERFORMANCE_FILE,
    RANK_FILE,
    REQUIREMENT_FILE,
    RestartState,
    TaskFiles,
)
from weft.backends.attempt.trees import remove_tree
from weft.backends.backend import Product
from weft.backends.file_record import FileRecord
from weft.private_files import make_folder, open_stream, write_file

if TYPE_CHECKING:
    from typing import BinaryIO

    from weft.backends.attempt.attempt import ActiveAttempt

_LARGE_BYTES = 8 << 20
"""Files of at least this size are sent on their own; smaller ones are sent together."""
_STREAMS = ("out", "err")
ARRIVALS = "arrivals"
"""Name of the folder, in the project's folder on a host, for files that arrive under their digests."""
TOO_SMALL = "a small file takes a message, a direct copy a connection"
_DIRECT_COPIES = 2
"""Files that a host receives directly from others at the same time; its file server has 4 threads."""
_TRIES = 2
_WATCH_S = 1.0
_CHECK_S = 0.2
"""Seconds between checks whether a thread that waits for another one is abandoned."""


class HostAccess(Protocol):
    """Operations on a host. They block until they are done, also while the host does not answer.

    They raise StagingProblem, also when the machine is lost or the attempt of this thread is abandoned.
    """

    no_routes: str
    """Why ``list_routes`` returns no command, if it returns none."""

    def call(self, operation: str, **arguments: Any) -> Any:
        """Perform an operation of ``HostFiles`` and return its value."""

    def send(self, local: Path, remote: str) -> None:
        """Copy a file to the host; bytes that are there are not sent again."""

    def receive(self, remote: str, local: Path) -> None:
        """Copy a file from the host; bytes that are here are not received again."""

    def list_routes(self) -> Sequence[Sequence[str]]:
        """Return commands by which another host may run a shell command, their last argument, on this host.

        (): files are not copied directly to or from this host.
        """


class RemoteDisk:
    """The disk of one machine."""

    def __init__(
        self, access: HostAccess, names: tuple[str, str], sandbox: str, own: str, mirror: Path
    ) -> None:
        """Create the disk; ``sandbox`` is its path on the host, absolute or relative to the home folder.

        ``names`` are its name, and that of earlier versions, which other disks may share. ``own`` is the name
        of the project's folder in the sandbox, which other projects may use, too.
        """
        self.name, self._earlier_name = names
        """Start of ``Product.directory`` of outputs on this disk, now and in journals of earlier versions."""
        self._access = access
        self._stated = sandbox
        self._own = own
        self._mirror = mirror
        self._found: Mapping[str, Any] | None = None
        self._lock = threading.Lock()
        self._versions: dict[int, RestartState] = {}
        """By attempt: the versions of its restart files that were observed last."""
        self._pulled: dict[int, Mapping[str, Any]] = {}
        """By attempt: the versions of its restart files in the mirror."""
        self._watched: dict[int, dict[str, Any]] = {}
        self._receiving = threading.Lock()
        """Held while streams are received: two threads must not append to the same file."""
        self._routes: dict[str, tuple[Sequence[str], str]] = {}
        """By name of another disk: the command by which this host reaches that host, or why it does not."""
        self._routing = threading.Lock()
        self._direct = threading.Semaphore(_DIRECT_COPIES)
        self._reserved: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()
        """Locks of threads by name: a digest while a file with this content is sent or received, because it
        has this name in ``arrivals`` and ``incoming``, and a mirror while inputs are staged into it.
        """
        self._watcher: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def sandbox(self) -> str:
        """Path of the sandbox on the host, without links."""
        return str(self._describe()["sandbox"])

    @property
    def boot(self) -> str:
        """Identifier of the boot of the host."""
        return str(self._describe()["boot"])

    @property
    def run_module(self) -> tuple[str, ...]:
        """Command that runs a module of weft on the host."""
        return tuple(map(str, self._describe()["run_module"]))

    def _describe(self) -> Mapping[str, Any]:
        with self._lock:
            if self._found is None:
                self._found = dict(self._access.call("describe", sandbox=self._stated))
            return self._found

    def refresh(self, found: Mapping[str, Any]) -> None:
        """Replace the facts about the host (see ``HostFiles.describe``), which may have been restarted."""
        with self._lock:
            self._found, self._routes = found, {}

    def close(self) -> None:
        """Stop watching files."""
        self._closed.set()

    # Paths.

    def workdir(self, attempt: ActiveAttempt) -> str:
        """Return the working directory of an attempt on the host."""
        return f"{self.sandbox}/{self._relative(attempt.workdir_path)}"

    def records(self, attempt: ActiveAttempt) -> str:
        """Return the directory on the host for the streams of an attempt."""
        project, execution, name = self._relative(attempt.workdir_path).split("/")
        return f"{self.sandbox}/{project}/records/{execution}/{name}"

    def directory(self, attempt: ActiveAttempt) -> str:
        """Return the value of ``Product.directory`` for the outputs of an attempt."""
        return f"{self.name}{self.workdir(attempt)}"

    def holds(self, product: Product) -> bool:
        """Return whether the outputs of a product are on this disk."""
        return product.directory.startswith(f"{self.name}/")

    def may_hold(self, product: Product) -> bool:
        """Return whether an earlier version may have written a product of this machine to this disk."""
        return not self.holds(product) and self.find_path(product.directory) is not None

    def find_path(self, directory: str) -> str | None:
        """Return the path of a ``Product.directory`` on this disk; None: it is on another one."""
        for name in (self.name, self._earlier_name):
            if directory.startswith(f"{name}/"):
                return directory.removeprefix(name)
        return None

    def lacks(self, product: Product) -> bool | None:
        """Return whether a product is outside of the sandbox; None: its path is not known yet."""
        if self._found is None:
            return None
        return not self._path(product).startswith(f"{self._found['sandbox']}/")

    def _relative(self, path: str) -> str:
        return str(Path(path).relative_to(self._mirror))

    def _path(self, product: Product) -> str:
        return self.find_path(product.directory) or product.directory

    @property
    def _arrivals(self) -> str:
        return f"{self.sandbox}/{self._own}/{ARRIVALS}"

    # Towards the host.

    def ensure_workdir(self, attempt: ActiveAttempt, content: str = "") -> bool:
        """Create the directories of an attempt on the host; return False if this engine has created them.

        ``content`` are the first files (see ``HostFiles.unpack_content``). For an attempt without files the
        runner creates the directories (see ``describe_start``).
        """
        parts = self._relative(attempt.workdir_path).split("/")
        records = self.records(attempt).removeprefix(f"{self.sandbox}/").split("/")
        with attempt.workdir_lock:
            if attempt.has_host_workdir:
                return False
            made = {"sandbox": self.sandbox, "parts": parts, "records": records}
            self._access.call("make_workdir", **made, recovered=True, content=content)
            attempt.has_host_workdir = True
            return True

    def describe_start(self, attempt: ActiveAttempt) -> dict[str, Any]:
        """Return the fields of an order that save messages: the runner makes the directories of an attempt
        that has none, and its report on the end lists the files that the engine needs.
        """
        names = [REQUIREMENT_FILE, RANK_FILE, PERFORMANCE_FILE, RESULT_FILE, EXIT_FILE]
        sandbox = None if attempt.has_host_workdir else self.sandbox
        return {"sandbox": sandbox, "reports": names}

    def hold_mirror(self, attempt: ActiveAttempt) -> contextlib.AbstractContextManager[None]:
        """Return a context in which no other thread stages inputs into the mirror of an attempt."""
        return self._reserve(attempt.workdir_path)

    def push_earlier(self, attempt: ActiveAttempt, name: str) -> None:
        """Push the mirror of an attempt if it has an entry of this name, which a later copy replaces.

        Without this, the push after the copy would replace the copy by the earlier file.
        """
        if os.path.lexists(attempt.workdir / name):
            self.push(attempt)

    def push(self, attempt: ActiveAttempt) -> int:
        """Move the files in the mirror of an attempt to its directory on the host; return their bytes."""
        mirror, moved = attempt.workdir, 0
        small: list[str] = []
        for name in sorted(_list_entries(mirror)):
            path = mirror / name
            if path.is_symlink() or path.is_dir() or path.stat().st_size < _LARGE_BYTES:
                small.append(name)
                continue
            self.ensure_workdir(attempt)
            moved += self._push_file(attempt, name)
        if small:
            moved += self._push_archive(attempt, small)
        for name in os.listdir(mirror):  # noqa: PTH208
            remove_tree(mirror, name)
        return moved

    def _push_file(self, attempt: ActiveAttempt, name: str) -> int:
        path = attempt.workdir / name
        status, digest = path.stat(), DIGESTS.of_path(attempt.workdir, name)
        times = {"mode": status.st_mode, "modified_ns": status.st_mtime_ns}
        with self._reserve(digest):
            self._send(path, digest, name)
            place = {"digest": digest, "root": self.workdir(attempt), "name": name}
            self._access.call("place", folder=self._arrivals, **place, keep=False, **times)
        return status.st_size

    def _push_archive(self, attempt: ActiveAttempt, names: Sequence[str]) -> int:
        root = self.workdir(attempt)
        size_bytes = sum((attempt.workdir / name).lstat().st_size for name in names)
        if size_bytes <= SMALL_BYTES:
            stream = io.BytesIO()
            _pack(attempt.workdir, names, stream)
            content = base64.b64encode(stream.getvalue()).decode()
            if not self.ensure_workdir(attempt, content):
                self._access.call("unpack_content", root=root, content=content)
            return size_bytes
        self.ensure_workdir(attempt)
        with self._archive(attempt) as archive:
            with open_stream(archive) as file:
                _pack(attempt.workdir, names, file)
            digest = DIGESTS.of_path(archive.parent, archive.name)
            with self._reserve(digest):
                self._send(archive, digest, "the archive of small inputs")
                self._access.call("unpack", folder=self._arrivals, digest=digest, root=root)
            return archive.stat().st_size

    @contextlib.contextmanager
    def _archive(self, attempt: ActiveAttempt) -> Iterator[Path]:
        folder = self._mirror / "archives"
        make_folder(folder)
        archive = folder / f"{attempt.number}-{os.urandom(8).hex()}"
        try:
            with staging_errors("cannot be written", str(archive)):
                yield archive
        finally:
            archive.unlink(missing_ok=True)

    def _send(self, local: Path, digest: str, name: str) -> None:
        file = {"name": name, "size_bytes": local.stat().st_size}
        found = self._access.call("find_arrived", folder=self._arrivals, digests=[digest], **file)
        if found.get(digest) != -1:
            try:
                self._access.send(local, f"{self._arrivals}/{digest}{PARTIAL}")
            except StagingProblem as problem:
                if problem.number == errno.ENOSPC:  # the other tasks need the space
                    self._access.call("remove", root=self._arrivals, name=f"{digest}{PARTIAL}")
                raise
            self._access.call("accept", folder=self._arrivals, digest=digest)

    def prepare_records(self, attempt: ActiveAttempt, files: Mapping[str, bytes]) -> None:
        """Write files into the directory of an attempt's streams on the host."""
        if not files:
            return
        texts = {name: content.decode(errors="surrogateescape") for name, content in files.items()}
        self._access.call("write_records", sandbox=self.sandbox, path=self.records(attempt), texts=texts)

    def copy(
        self, product: Product, file: FileRecord, attempt: ActiveAttempt, modes: CopyPermissions
    ) -> None:
        """Copy an output on this host, also from another sandbox, into the directory of an attempt here."""
        self.push_earlier(attempt, file.name)
        self.ensure_workdir(attempt)
        place = {"root": self.workdir(attempt), "name": file.name}
        source = {"source_root": self._path(product), "source": file.name}
        self._access.call("copy", **source, **place, digest=file.digest, modes=modes)

    # From another host.

    def copy_directly(
        self, source: RemoteDisk, product: Product, file: FileRecord, attempt: ActiveAttempt, *, is_own: bool
    ) -> str:
        """Copy an output from the disk of another host, not through this computer.

        ``is_own``: the task may write to the copy. Return why this is impossible; "": the file was copied. An
        interrupted copy is continued once, then by a copy through this computer.
        """
        if file.size_bytes <= SMALL_BYTES:
            return TOO_SMALL
        self.push_earlier(attempt, file.name)
        command, problem = self._find_route(source)
        for _ in range(_TRIES if not problem else 0):
            check_interruption()
            try:
                self._fetch(source, product, file, attempt, command, is_own)
            except StagingProblem as error:
                problem = str(error)
            else:
                return ""
        if command:
            self._routes[source.name] = (), problem
        return problem

    def _fetch(
        self,
        source: RemoteDisk,
        product: Product,
        file: FileRecord,
        attempt: ActiveAttempt,
        command: Sequence[str],
        is_own: bool,
    ) -> None:
        place = {"root": source._path(product), "name": file.name}
        packed = source.call("pack", **place, folder=source._arrivals, in_message=False)
        name = packed["digest"]
        if not packed["archive"] and name != file.digest:
            raise _checksum_problem(file.name)
        place = {"digest": name, "folder": self._arrivals}
        root = self.workdir(attempt)
        self.ensure_workdir(attempt)
        with self._direct, self._reserve(name):
            if self.call("find_arrived", folder=self._arrivals, digests=[name]).get(name) != -1:
                found = {"path": packed["path"], "size_bytes": packed["size_bytes"]}
                self.call("fetch", command=list(command), **found, **place)
                self.call("accept", **place)
            if packed["archive"]:
                self.call("unpack", **place, root=root, is_own=is_own)
                source.call("remove", root=source._arrivals, name=name)
            else:
                mode = packed["mode"] | 0o600 if is_own else packed["mode"] & 0o555
                facts = {"mode": mode, "modified_ns": packed["modified_ns"], "name": file.name}
                self.call("place", **place, **facts, root=root, keep=False)
        if packed["archive"] and self.call("measure", root=root, name=file.name) != file.digest:
            self.call("remove", root=root, name=file.name)
            raise _checksum_problem(file.name)

    def _find_route(self, source: RemoteDisk) -> tuple[Sequence[str], str]:
        """Return the command by which this host reaches another one, or why it does not; tried once."""
        with self._routing:
            if (known := self._routes.get(source.name)) is None:
                known = self._routes[source.name] = self._try_routes(source)
            return known

    def _try_routes(self, source: RemoteDisk) -> tuple[Sequence[str], str]:
        for access in (source._access, self._access):
            if not access.list_routes():
                return (), access.no_routes
        routes, problem = source._access.list_routes(), ""
        try:
            path, text = source.call("offer_proof", folder=source._arrivals)
            try:
                for command in routes:
                    said = self.call("try_route", command=list(command), path=path, text=text)
                    if not said:
                        return command, ""
                    problem = problem or said
            finally:
                source.call("remove", root=source._arrivals, name=path.rpartition("/")[2])
        except StagingProblem as error:
            problem = str(error)
        return (), problem

    def call(self, operation: str, **arguments: Any) -> Any:
        """Perform an operation of ``HostFiles`` on the host and return its value."""
        return self._access.call(operation, **arguments)

    # From the host.

    def pull(self, product: Product, file: FileRecord) -> Path:
        """Receive an output; return the directory on the engine's disk in which it has its name."""
        path = self._path(product)
        if not path.startswith(f"{self.sandbox}/"):
            raise StagingProblem("cannot be received", file.name, f"{path} is not in {self.sandbox}")
        mirror = self._mirror / path.removeprefix(f"{self.sandbox}/")
        with self._reserve(file.digest):
            with contextlib.suppress(StagingProblem):
                if measure_file(mirror, file.name).digest == file.digest:
                    return mirror
            self._pull(path, file.name, mirror, file.digest)
        return mirror

    def _pull(self, root: str, name: str, mirror: Path, digest: str | None = None) -> None:
        """Receive a file or directory into the mirror under the same name; verify its digest."""
        packed = self._access.call("pack", root=root, name=name, folder=self._arrivals)
        with self._reserve(packed["digest"]):
            self._accept(packed, name, mirror)
        if digest is not None and measure_file(mirror, name).digest != digest:
            remove_tree(mirror, name)
            raise _checksum_problem(name)

    def _accept(self, packed: Mapping[str, Any], name: str, mirror: Path) -> None:
        """Receive what ``HostFiles.pack`` described, verify it, and put it into the mirror."""
        incoming = self._mirror / "incoming"
        make_folder(incoming)
        make_folder(mirror)
        local = incoming / packed["digest"]
        if "content" in packed:
            write_file(local, base64.b64decode(packed["content"]))
        else:
            self._access.receive(packed["path"], local)
        if DIGESTS.of_path(incoming, local.name) != packed["digest"]:
            local.unlink()
            raise StagingProblem("cannot be received", name, "its content has changed", number=errno.EAGAIN)
        remove_tree(mirror, name)
        if packed["archive"]:
            with local.open("rb") as archive:
                unpack_archive(archive, mirror)
            local.unlink()
            if "path" in packed:
                self._access.call("remove", root=self._arrivals, name=packed["digest"])
        else:
            make_parents(mirror, name)
            with staging_errors("cannot be placed", name):
                local.chmod(packed["mode"] & 0o777)
                local.rename(mirror / name)
                os.utime(mirror / name, ns=(packed["modified_ns"], packed["modified_ns"]))

    @contextlib.contextmanager
    def _reserve(self, name: str) -> Iterator[None]:
        """Wait until no other thread has reserved a name; raise Interrupted if this one is abandoned."""
        with self._lock:
            lock = self._reserved.get(name) or threading.RLock()
            self._reserved[name] = lock
        while not lock.acquire(timeout=_CHECK_S):
            check_interruption()
        try:
            yield
        finally:
            lock.release()

    def collect(
        self, attempt: ActiveAttempt, patterns: Sequence[str], *, missing_ok: bool
    ) -> tuple[FileRecord, ...]:
        """Measure the outputs of an attempt on the host and sync them there."""
        root = self.workdir(attempt)
        found = self._access.call("collect", root=root, patterns=list(patterns), missing_ok=missing_ok)
        return tuple(decode_file(each) for each in found)

    def is_intact(self, product: Product) -> bool:
        """Return whether all outputs of a product still have the recorded content."""
        files = [encode_file(file) for file in product.files]
        root = self._path(product)
        return all(self._access.call("find_intact", root=root, files=files, boot=product.boot))

    def pull_reports(
        self, attempt: ActiveAttempt, names: Sequence[str] = (), left: Mapping[str, Any] | None = None
    ) -> None:
        """Receive the result file, the reports and the streams of an ended program, and these outputs.

        ``left`` has what the runner found at the end of the program; None: nothing is known.
        """
        self.unwatch(attempt)
        streams = {} if left is None else left["streams"]
        if left is not None and not (names or left["reports"] or None in streams.values()):
            with self._receiving:
                _write_streams(Path(attempt.records_path), streams)
            return
        watched = self._start_watching(attempt, "", ())
        watched["files"] = {**watched["files"], RESULT_FILE: None, EXIT_FILE: None}
        sizes = self._observe({attempt.number: watched})[attempt.number]
        for name in names:
            self._pull(self.workdir(attempt), name, attempt.workdir)
        with self._receiving:
            self._receive_streams(attempt, sizes)

    def pull_module(self, attempt: ActiveAttempt, module: str) -> None:
        """Receive the streams of a program of a module (prolog, epilog or evaluator) that has ended."""
        sizes = self._access.call("find_sizes", root=self.records(attempt))
        names = [f"{module}.{stream}" for stream in _STREAMS]
        with self._receiving:
            self._receive_streams(attempt, {name: sizes[name] for name in names if name in sizes})

    def _receive_streams(self, attempt: ActiveAttempt, sizes: Mapping[str, int]) -> None:
        """Receive files from the records of an attempt on the host; ``sizes`` are their sizes there."""
        root, records = self.records(attempt), Path(attempt.records_path)
        for name, size in sizes.items():
            local = records / name
            if "/" in name or name in (".", ".."):
                continue
            if name not in _STREAMS:  # an evaluator writes its streams again and again
                local.unlink(missing_ok=True)
            if size:
                self._access.receive(f"{root}/{name}", local)
            elif not local.exists():
                write_file(local, b"", is_private=True)

    def pull_restart_files(self, attempt: ActiveAttempt, patterns: Sequence[str]) -> bool:
        """Receive the restart files of an attempt; return False if they changed meanwhile."""
        root = self.workdir(attempt)
        found = self._access.call("find_versions", root=root, patterns=list(patterns))
        if found == self._pulled.get(attempt.number):
            return True
        try:
            for name in found:
                self._pull(root, name, attempt.workdir)
        except StagingProblem as problem:
            if problem.number in (errno.ENOENT, errno.EAGAIN):
                return False
            raise
        if self._access.call("find_versions", root=root, patterns=list(patterns)) != found:
            return False
        self._pulled[attempt.number] = found
        return True

    def remove(self, attempt: ActiveAttempt) -> None:
        """Remove the directories of an attempt on the host."""
        for path in (self.workdir(attempt), self.records(attempt)):
            above, _, name = path.rpartition("/")
            self._access.call("remove", root=above, name=name)

    # Files of running programs.

    def watch(self, attempt: ActiveAttempt, progress: str, restart: Sequence[str]) -> TaskFiles:
        """Observe the files of a running program once a second; return the reader of what was observed."""
        self._watched[attempt.number] = self._start_watching(attempt, progress, restart)
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._keep_watching, name="weft-watch", daemon=True)
            self._watcher.start()
        return MirroredTaskFiles(
            attempt.workdir, progress, restart, lambda: self._versions.get(attempt.number)
        )

    def unwatch(self, attempt: ActiveAttempt) -> None:
        """Stop observing the files of an attempt."""
        self._watched.pop(attempt.number, None)
        self._versions.pop(attempt.number, None)

    def _start_watching(
        self, attempt: ActiveAttempt, progress: str, restart: Sequence[str]
    ) -> dict[str, Any]:
        names = (*([progress] if progress else []), REQUIREMENT_FILE, RANK_FILE, PERFORMANCE_FILE)
        files: dict[str, Any] = dict.fromkeys(names)
        found = {"attempt": attempt, "files": files, "patterns": list(restart), "mirror": attempt.workdir}
        return {**found, "streams": {}}

    def _keep_watching(self) -> None:
        while not self._closed.wait(_WATCH_S):
            with contextlib.suppress(StagingProblem):  # the loss of the machine is reported by its runner
                self._observe(dict(self._watched))

    def _observe(self, watched: Mapping[int, dict[str, Any]]) -> dict[int, dict[str, int]]:
        """Receive the changed files of attempts into their mirrors, and the versions of restart files.

        Return by attempt the sizes of the files beside its streams on the host, by name.
        """
        sizes: dict[int, dict[str, int]] = {}
        if not watched:
            return sizes
        entries = {
            str(number): {
                "root": self.workdir(each["attempt"]),
                "records": self.records(each["attempt"]),
                "files": each["files"],
                "patterns": each["patterns"],
            }
            for number, each in watched.items()
        }
        for key, found in self._access.call("observe", entries=entries).items():
            number = int(key)
            each = watched[number]
            for name, (signature, text) in found["files"].items():
                each["files"][name] = signature
                with contextlib.suppress(StagingProblem, OSError):  # a name may be that of a directory here
                    _write_report(each["mirror"], name, signature, text)
            if each["patterns"]:
                versions = [
                    {name: (v[2], v[0], v[1], v[3]) for name, v in group.items()}
                    for group in found["versions"]
                ]
                self._versions[number] = versions
            sizes[number] = found["streams"]
            self._follow_streams(number, each, found["streams"])
        return sizes

    def _follow_streams(self, number: int, watched: dict[str, Any], sizes: Mapping[str, int]) -> None:
        """Receive what a running program has written to its streams since the last call."""
        known = watched["streams"]
        grown = {name: sizes[name] for name in _STREAMS if sizes.get(name, 0) > known.get(name, 0)}
        with self._receiving:
            if grown and number in self._watched:
                self._receive_streams(watched["attempt"], grown)
                watched["streams"].update(grown)


def _checksum_problem(name: str) -> StagingProblem:
    why = "its checksum differs from the recorded one, so it was modified"
    return StagingProblem("cannot be staged", name, why)


def _pack(folder: Path, names: Sequence[str], stream: BinaryIO) -> None:
    with tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name in names:
            packed.add(folder / name, name, recursive=False)


def _write_streams(records: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        if name in _STREAMS:
            write_file(records / name, text.encode(errors="surrogateescape"), is_private=True)


def _write_report(mirror: Path, name: str, signature: Sequence[int], text: str) -> None:
    make_parents(mirror, name)
    content = text.encode(errors="surrogateescape")
    write_file(mirror / name, content, is_private=True)
    if signature[1] > len(content):  # too large for a report: the reader refuses it by its size
        os.truncate(mirror / name, signature[1])
    os.utime(mirror / name, ns=(signature[2], signature[2]))


class MirroredTaskFiles(TaskFiles):
    """Observer of the files of an attempt through its mirror; restart files are observed on the host."""

    def __init__(
        self,
        mirror: Path,
        progress: str,
        restart: Sequence[str],
        versions: Callable[[], RestartState | None],
    ) -> None:
        self._versions = versions
        super().__init__(mirror, progress, restart)

    def _restart_state(self) -> RestartState:
        return self._versions() or [{} for _ in self.restart_files]


def _list_entries(mirror: Path) -> Iterator[str]:
    """Yield the names of all files, links and directories below a mirror."""
    for folder, folders, files in os.walk(mirror):
        for name in (*folders, *files):
            yield str(Path(folder, name).relative_to(mirror))
