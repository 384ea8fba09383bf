"""Inputs fetched from, and outputs published to, paths and URLs outside the sandboxes.

A relative path starts at the workflow's folder. A path is named by the user, so it may lead anywhere and
contain links. Links inside a named directory must not lead out of its parent directory. Links in the part of
a path that a task wrote must not lead out of the folder that the user named. URLs are opened with fsspec,
which is imported on first use. A compressed input is decompressed; its format is detected from the first
bytes.

Every input is a clone or a copy. Shared and compressed inputs of a machine are fetched once into a cache,
stored by content, and copied from there. The version of a source (inode, size and times, or a validator sent
by the server) is stored with the digest of its content, so changed content is fetched again. A cached file is
verified once per process before its first use.

    keys/KEY            record of a cached file; KEY is a hash of its source and the source's version
    content/DIGEST      cached content, read-only
    coming/...          incomplete downloads

Outputs are published as copies, so that editing a published file does not change the original.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote

from weft.backends.attempt.content import (
    Interrupted,
    bind_interruption,
    check_interruption,
    require_space,
    write_all,
)
from weft.backends.attempt.digests import boot_id, file_version, find_version
from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    Parts,
    StagingProblem,
    open_entry,
    open_inside,
    open_parent,
    split_name,
    staging_errors,
)
from weft.backends.attempt.staging import (
    CopyPermissions,
    atomic_file,
    clone_or_copy,
    copy_file,
    file_record,
    is_intact,
    make_read_only,
    measure_file,
    move,
    unnamed_file,
)
from weft.backends.attempt.temporary_files import temporary_name
from weft.backends.attempt.trees import DIGEST_SIZE, remove_tree, walk_tree
from weft.backends.file_record import FileRecord
from weft.private_files import make_folder
from weft.records import dataclass
from weft.units import format_bytes
from weft.urls import is_url, split_url

if TYPE_CHECKING:
    from concurrent.futures import Future


_STATE = ".weft"
_VALUES = (_STATE, "values")
_WEB = ("http", "https")
_CONNECT_S = 30.0
_SILENCE_S = 120.0
"""Seconds without data after which a connection fails; the total time of a transfer is not limited."""
_WRAPPED = frozenset({"fo", "fs", "target_protocol"})
"""Arguments of those file systems of fsspec that read another file or file system."""
_NOT_FOUND = 404
_PASSING = (408, 421, 423, 425, 429)
"""HTTP status codes from 400 to 499 after which a retry may succeed: timeout, locked, too early, too many
requests.
"""
_CHUNK_BYTES = 1 << 20
_SPACE_CHECK_BYTES = 64 << 20
"""Number of bytes after which the free space is checked again during downloads and decompression."""
_VALIDATORS = (
    "ETag",
    "etag",
    "Content-MD5",
    "Digest",
    "Last-Modified",
    "LastModified",
    "mtime",
    "created",
    "md5Hash",
)
"""Fields of a server's response that change when the content of a file changes."""


def file_url_path(url: str) -> str | None:
    """Return the local path of a ``file:`` URL; None for any other URL."""
    parts = _split(url)
    if parts.scheme not in ("file", "local"):
        return None
    if parts.netloc not in ("", "localhost"):
        why = f"a file: URL refers to this host, not to {parts.netloc!r}"
        raise StagingProblem("cannot be fetched", url, why, advice="write file:///PATH", lasting=True)
    return unquote(parts.path)


def _split(url: str, shown: str = "") -> SplitResult:
    try:
        return split_url(url)
    except ValueError as error:
        raise StagingProblem(
            "cannot be used", shown or url, _explain(error, url, shown), lasting=True
        ) from None


def download(url: str, target: int, shown: str = "") -> None:
    """Write the content of a URL to an open file.

    If the URL contains secrets, ``shown`` is its text without them, for error messages.
    """
    with _url_errors("cannot be fetched", url, shown):
        system, path = _open_filesystem(url, shown)
        # Use the descriptor: the name could refer to another file by now.
        system.get_file(path, f"/proc/self/fd/{target}", callback=_transfer_checks(shown or url, target))


def upload(source: int, url: str, shown: str = "") -> None:
    """Write an open file to a URL; readers see the complete content or none.

    If the URL contains secrets, ``shown`` is its text without them, for error messages.
    """
    with _url_errors("cannot be published", url, shown), os.fdopen(os.dup(source), "rb") as content:
        content.seek(0)
        system, path = _open_filesystem(url, shown)
        if _split(url, shown).scheme in _WEB:
            system.put_file(content, path, method="put", callback=_transfer_checks(shown or url))
            return
        if folder := path.rpartition("/")[0]:
            system.makedirs(folder, exist_ok=True)
        with system.transaction, system.open(path, "wb") as target:
            while chunk := content.read(_CHUNK_BYTES):
                check_interruption()
                target.write(chunk)


def _transfer_checks(url: str, target: int | None = None) -> Any:
    """Return an fsspec callback that ends a transfer if it was interrupted or would fill a disk."""
    from fsspec.callbacks import Callback

    check = bind_interruption()  # fsspec calls it in its own thread
    checked_bytes = -_SPACE_CHECK_BYTES

    def on_chunk(_: float | None, transferred_bytes: float, **__: object) -> None:
        nonlocal checked_bytes
        check()
        if target is not None and transferred_bytes >= checked_bytes + _SPACE_CHECK_BYTES:
            checked_bytes = int(transferred_bytes)
            require_space(target, _SPACE_CHECK_BYTES, url)

    return Callback(hooks={"check": on_chunk})


def url_version(url: str, shown: str = "") -> str | None:
    """Return a text that changes with the content of a URL; None if the server sends no validator.

    If the URL contains secrets, ``shown`` is its text without them, for error messages.
    """
    with _url_errors("cannot be fetched", url, shown):
        system, path = _open_filesystem(url, shown)
        try:
            info = system.info(path)
        except NotImplementedError:
            return None
    marks = [f"{key}={info[key]}" for key in _VALIDATORS if info.get(key)]
    return " ".join([f"size={info.get('size')}", *marks]) if marks else None


def _open_filesystem(url: str, shown: str = "") -> tuple[Any, str]:
    import fsspec

    options: dict[str, Any] = {}
    if _split(url, shown).scheme in _WEB:
        from aiohttp import ClientTimeout

        waits = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        options["client_kwargs"] = {"timeout": waits, "trust_env": True}
    # A separate instance: a transaction of another thread would delay the writes of this one.
    try:
        if why := _find_chain_problem(url) or _find_wrapper_problem(fsspec.get_filesystem_class, url):
            raise StagingProblem("cannot be used", shown or url, why, lasting=True)
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **options)
    except ValueError as error:
        why = _explain(error, url, shown)
        raise StagingProblem("cannot be used", shown or url, why, lasting=True) from error
    except (AttributeError, TypeError, NotImplementedError) as error:
        # Errors in the code of the file system, which say nothing to a user.
        why = (
            f"the fsspec file system of {_scheme(url)}:// URLs cannot open it: {_explain(error, url, shown)}"
        )
        raise StagingProblem("cannot be used", shown or url, why, lasting=True) from error
    return found[0], found[1]


@contextmanager
def _url_errors(what: str, url: str, shown: str = "") -> Iterator[None]:
    """Turn any exception of a file system library into a StagingProblem that names the URL."""
    try:
        yield
    except StagingProblem:
        raise
    except ImportError as error:
        advice = "install the package that fsspec needs for it"
        raise StagingProblem(what, shown or url, str(error), advice=advice, lasting=True) from error
    except Exception as error:
        check_interruption()  # A library may have replaced the exception of a callback.
        raise _url_problem(what, url, shown, _reason(error)) from error


def _reason(error: Exception) -> Exception:
    """Return the original cause of an error.

    fsspec raises FileNotFoundError for every failure of a web server.
    """
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) else error


def _url_problem(what: str, url: str, shown: str, error: Exception) -> StagingProblem:
    number = error.errno if isinstance(error, OSError) else None
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == _NOT_FOUND:
        return StagingProblem(what, shown or url, "there is no such file", number=number, lasting=True)
    why, lasting = _explain(error, url, shown), False
    if isinstance(status, int):
        from http import HTTPStatus  # only failures need it

        # The library's text has the URL, and the server's own phrase, which may repeat it.
        phrase = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
        why, lasting = f"the server answered {status}{phrase}", 400 <= status < 500 and status not in _PASSING
    return StagingProblem(what, shown or url, why, number=number, lasting=lasting)


def _explain(error: Exception, url: str, shown: str) -> str:
    """Return the text of a library's error.

    For a URL with secrets, the result has only those parts of the text that cannot contain them.
    """
    name = type(error).__name__
    if not shown or shown == url:
        return f"{error} ({name})" if str(error) else name
    number = error.errno if isinstance(error, OSError) else None
    return f"{os.strerror(number)} ({name})" if number else name


_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def decompressed_name(name: str) -> str:
    """Return the name of a file after decompression, without ``.gz``, ``.bz2``, ``.xz`` or ``.zst``."""
    plain = name.removesuffix(next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), ""))
    return plain if plain and not plain.endswith("/") else name


_DEFAULT_MOST_BYTES = 1 << 30
_DEFAULT_MOST_RATIO = 200
"""By default a file may grow to the larger of 1 GiB and 200 times its compressed size."""


def decompress(
    source: int, target: int, name: str, max_bytes: float | None = None, *, lasting: bool = True
) -> None:
    """Write the decompressed content of one open file to another.

    At most ``max_bytes`` are written; if ``max_bytes`` is None, a default limit applies. ``lasting`` says
    whether damaged content is a lasting problem, as in a file of the user. For a remote file it is False,
    because a new download may succeed.
    """
    opener = _opener(os.pread(source, 6, 0), name)
    limit = max_bytes or max(_DEFAULT_MOST_BYTES, _DEFAULT_MOST_RATIO * os.fstat(source).st_size)
    size_bytes, checked_bytes = 0, -_SPACE_CHECK_BYTES
    with os.fdopen(os.dup(source), "rb") as raw:
        raw.seek(0)
        with opener(raw) as plain:
            while chunk := _read_chunk(plain, name, lasting=lasting):
                check_interruption()
                size_bytes += len(chunk)
                if size_bytes > limit:
                    raise _too_large(name, limit)
                if size_bytes >= checked_bytes + _SPACE_CHECK_BYTES:
                    require_space(target, _SPACE_CHECK_BYTES, name)
                    checked_bytes = size_bytes
                write_all(chunk, target)


def _too_large(name: str, limit: float) -> StagingProblem:
    why = f"it has more than {format_bytes(limit)} after decompression"
    advice = "if this is right, state `max_size` of the input"
    return StagingProblem("cannot be decompressed", name, why, advice=advice, lasting=True)


def _read_chunk(plain: IO[bytes], name: str, *, lasting: bool) -> bytes:
    try:
        return plain.read(_CHUNK_BYTES)
    except Exception as error:  # Each library has its own errors for damaged or truncated data.
        number = error.errno if isinstance(error, OSError) else None
        why = str(error) or type(error).__name__
        damaged = lasting and number is None and not isinstance(error, MemoryError)
        raise StagingProblem("cannot be decompressed", name, why, number=number, lasting=damaged) from error


def _opener(first: bytes, name: str) -> Callable[[IO[bytes]], Any]:
    if first.startswith(b"\x1f\x8b"):
        import gzip

        return lambda raw: gzip.GzipFile(fileobj=raw)
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2File
    if first == b"\xfd7zXZ\0":
        import lzma

        return lzma.LZMAFile
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstandard(name)
    why = "it is not in one of the formats gzip, bzip2, xz, zstandard"
    raise StagingProblem(
        "cannot be decompressed",
        name,
        why,
        lasting=True,
        advice="remove `compressed` if the file is not compressed",
    )


def _zstandard(name: str) -> Callable[[IO[bytes]], Any]:
    """Return a function that opens a zstandard file for reading.

    It is from the standard library since Python 3.14, otherwise from its backport. The package ``zstandard``
    is not used, because it accepts truncated data as complete.
    """
    with suppress(ImportError):
        from compression import zstd

        return lambda raw: zstd.ZstdFile(raw)
    with suppress(ImportError):
        from backports import zstd as backport

        return lambda raw: backport.ZstdFile(raw)
    advice = "install the Python package 'backports.zstd', or compress it with gzip, bzip2 or xz"
    why = "this Python cannot read zstandard"
    raise StagingProblem("cannot be decompressed", name, why, advice=advice, lasting=True)


_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES)
"""Errors of a path that only the user can resolve."""


def check_links(text: str, path: Path, folder: Path, below: str) -> None:
    """Raise StagingProblem if a link leads a file name to a folder that the user has not named.

    ``text`` is the name, which contains values written by tasks; ``path`` is its absolute path with links
    resolved. The path may be in the workflow's ``folder``, but not in the state of weft. It may also be in
    ``below``, the folder that the user's text states before the first value of a task.
    """
    stated = file_url_path(f"{below}/") if is_url(below) else below
    for root in (folder, folder / (stated or "")):
        with suppress(ValueError):
            if _STATE not in path.relative_to(os.path.realpath(root)).parts:
                return
    why = f"a part of it was written by a task, and a link leads from there to '{path}', in another folder"
    advice = "state the folder in the workflow (`from: FOLDER/{name}`), or replace the link by a file"
    raise StagingProblem("is refused", text, why, advice=advice, lasting=True)


@dataclass(frozen=True, slots=True)
class InputSource:
    """The location of an input as stated by the user."""

    text: str
    """A path, a URL, or the name of a file in the folder."""
    folder: Path
    """Folder of the workflow; relative paths start there."""
    compressed: bool = False
    max_bytes: float | None = None
    """Largest allowed size after decompression; None: a default limit."""
    is_name: bool = False
    """Whether the text is a file name, which a task may have written: it is no URL and stays below
    ``folder``.
    """
    location: str = field(default="", repr=False)
    """The text with its secrets filled in; it is opened and never shown. "": the text has no secrets."""
    below: str | None = None
    """Folder that the user states for a text with values of tasks; None: the text has no such values."""

    @property
    def opened(self) -> str:
        """Return the path or URL to open."""
        return self.location or self.text

    def key(self) -> tuple[str, bool]:
        """Return the cache key of the source's current version, and whether the key may be stored.

        The key may be stored if every change of the content leads to another key.
        """
        where, stamp, lasting = self.text, None, False
        if (path := self.path()) is None:
            stamp = url_version(self.opened, self.text)
            lasting = stamp is not None
        else:
            with _lasting_refusals():
                version = find_version(path.parent, path.name)
            where, lasting = str(path), version.settled
            stamp = f"{boot_id()} {path.stat().st_dev} {replace(version, settled=True)}"
        text = json.dumps([where, stamp, self.compressed])
        return hashlib.blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest(), lasting

    def staged_name(self, name: str) -> str:
        """Return the name under which an input declared as ``name`` is staged."""
        return decompressed_name(name) if self.compressed else name

    def path(self) -> Path | None:
        """Return the local path with links resolved; None for a remote URL."""
        if self.is_name:
            split_name(self.text)
        stated = file_url_path(self.opened) if not self.is_name and is_url(self.opened) else self.opened
        if stated is None:
            return None
        if not stated.strip() or "\0" in stated:
            raise StagingProblem("cannot be fetched", self.text, "it is not a file name", lasting=True)
        try:
            path = Path(os.path.realpath(self.folder / stated, strict=True))
        except OSError as error:
            where = "" if stated.startswith("/") else f" in '{self.folder}'"
            why, lasting = f"{os.strerror(error.errno or 0)}{where}", error.errno in _LASTING
            raise StagingProblem(
                "cannot be fetched", self.text, why, number=error.errno, lasting=lasting
            ) from error
        if self.below is not None:
            check_links(self.text, path, self.folder, self.below)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedInput:
    """The result of fetching an input."""

    file: FileRecord
    """Record of the staged file. The name of a decompressed file has no suffix such as ``.gz``."""
    copied_bytes: int
    """Bytes read and written; 0 if the file system made a clone."""


def fetch(source: InputSource, root: Path, name: str, *, modes: CopyPermissions = "kept") -> FetchedInput:
    """Stage an input as ``name`` below a root; the file becomes visible when it is complete.

    ``modes`` selects the permissions of the copy. It is used only if the source is an uncompressed local file
    or a directory.
    """
    path, name = source.path(), source.staged_name(name)
    if source.compressed:
        return _fetch_compressed(source, path, root, name)
    if path is None:
        with _open_target(source, root, name) as (_, target):
            download(source.opened, target, source.text)
        file = measure_file(root, name)
        return FetchedInput(file=file, copied_bytes=file.size_bytes)
    parts = split_name(name)
    with open_entry(path.parent, (path.name,)) as found:
        if not found.is_file:
            return _fetch_tree(path, root, parts, modes)
        copied_bytes, digest = copy_file(found, source.text, root, parts, modes=modes)
    file = file_record("/".join(parts), digest, file_version(found.status, settled=False))
    return FetchedInput(file=file, copied_bytes=copied_bytes)


def _fetch_tree(path: Path, root: Path, parts: Parts, modes: CopyPermissions) -> FetchedInput:
    name = "/".join(parts)
    with _lasting_refusals():
        there = measure_file(path.parent, path.name)
    copied_bytes = clone_or_copy(path.parent, path.name, root, name, digest=there.digest, modes=modes)
    return FetchedInput(file=replace(there, name=name), copied_bytes=copied_bytes)


@contextmanager
def _lasting_refusals() -> Iterator[None]:
    """Mark refusals of links, pipes and devices in a folder of the user as lasting.

    Problems with the number of a system error are unchanged, because a retry may succeed.
    """
    try:
        yield
    except StagingProblem as problem:
        problem.lasting = problem.lasting or problem.number is None
        raise


def _fetch_compressed(source: InputSource, path: Path | None, root: Path, name: str) -> FetchedInput:
    with _open_target(source, root, name) as (parent, target), _open_compressed(source, path, parent) as raw:
        decompress(raw, target, source.text, source.max_bytes, lasting=path is not None)
        raw_bytes = os.fstat(raw).st_size
    return FetchedInput(file=measure_file(root, name), copied_bytes=raw_bytes)


@contextmanager
def _open_target(source: InputSource, root: Path, name: str) -> Iterator[tuple[int, int]]:
    """Yield a descriptor of the parent directory and one of the new file."""
    parts = split_name(name)
    with (
        staging_errors("cannot be fetched", source.text),
        open_parent(root, parts) as parent,
        atomic_file(parent, parts[-1]) as target,
    ):
        yield parent, target


@contextmanager
def _open_compressed(source: InputSource, path: Path | None, scratch: int) -> Iterator[int]:
    """Yield a descriptor of the compressed file; a remote file is first downloaded to an unnamed file."""
    if path is None:
        with unnamed_file(scratch) as raw:
            download(source.opened, raw, source.text)
            yield raw
        return
    with FileDescriptor(open_inside(path.parent, path.name)) as raw:
        yield raw


_LONGEST_KEY_BYTES = 65_536


class InputCache:
    """Cache of a machine's shared inputs. If several threads request one source, only one fetches it."""

    def __init__(self, directory: Path, *, fresh: bool = False) -> None:
        """Open a cache; if ``fresh`` is True, files that earlier processes stored in it are not used."""
        self._root = directory
        self._fresh = fresh
        self._lock = Lock()
        self._pending: dict[str, Future[FileRecord]] = {}
        self._verified: dict[str, FileRecord] = {}
        """By key: records fetched or verified by this process."""

    def stage(
        self,
        source: InputSource,
        root: Path,
        name: str,
        *,
        shared: bool = True,
        modes: CopyPermissions = "read-only",
    ) -> FetchedInput:
        """Stage an input as ``fetch`` does.

        A ``shared`` input is fetched once and then copied from the cache.
        """
        if not shared:
            return fetch(source, root, name, modes=modes)
        with staging_errors("cannot be created", str(self._root)):
            make_folder(self._root)
        kept, fetched_bytes = self._lookup(source)
        goal = source.staged_name(name)
        copied_bytes = clone_or_copy(self._root, kept.name, root, goal, digest=kept.digest, modes=modes)
        file = replace(kept, name="/".join(split_name(goal)))
        return FetchedInput(file=file, copied_bytes=copied_bytes + fetched_bytes)

    def _lookup(self, source: InputSource) -> tuple[FileRecord, int]:
        """Return the record of a source's cached file, and the number of bytes that were fetched now."""
        from concurrent.futures import Future

        key, lasting = source.key()
        own: Future[FileRecord] = Future()
        while True:
            with self._lock:
                pending = self._pending.setdefault(key, own)
            if pending is own:
                break
            try:
                return pending.result(), 0
            except Interrupted:
                check_interruption()  # another attempt was cancelled: unless this one was too, fetch it
        try:
            kept, fetched_bytes = self._find_or_fetch(source, key, lasting)
        except BaseException as error:
            # Waiting threads fail with the same error, except for an interruption; later requests try again.
            self._remove_pending(key)
            own.set_exception(error)
            raise
        self._remove_pending(key)
        own.set_result(kept)
        return kept, fetched_bytes

    def _remove_pending(self, key: str) -> None:
        with self._lock:
            del self._pending[key]

    def _find_or_fetch(self, source: InputSource, key: str, lasting: bool) -> tuple[FileRecord, int]:
        if (known := self._verified.get(key)) is not None and is_intact(self._root, known):
            return known, 0
        stored = self._read_key(key) if lasting and not self._fresh else None
        if stored is not None and is_intact(self._root, stored, thorough=True):
            self._verified[key] = stored
            return stored, 0
        kept, fetched_bytes = self._fetch(source)
        if lasting:
            self._write_key(key, kept)
        self._verified[key] = kept
        return kept, fetched_bytes

    def _fetch(self, source: InputSource) -> tuple[FileRecord, int]:
        pending = f"coming/{temporary_name()}"
        try:
            brought = fetch(source, self._root, pending)
            make_read_only(self._root, brought.file.name)
            if (kept := self._find_content(brought.file.digest)) is None:
                name = _content_name(brought.file.digest)
                remove_tree(self._root, name)
                move(self._root, brought.file.name, name)
                kept = measure_file(self._root, name)
        finally:
            remove_tree(self._root, pending)
        return kept, brought.copied_bytes

    def _find_content(self, digest: str) -> FileRecord | None:
        """Return the record of the cached file with this digest; None: it is missing or was modified."""
        with suppress(StagingProblem):
            kept = measure_file(self._root, _content_name(digest))
            return kept if kept.digest == digest else None
        return None

    def _read_key(self, key: str) -> FileRecord | None:
        """Return the record stored for a key; None if it is missing or unreadable."""
        with (
            suppress(StagingProblem, OSError, ValueError, TypeError),
            FileDescriptor(open_inside(self._root, f"keys/{key}")) as fd,
        ):
            return FileRecord(**json.loads(os.pread(fd, _LONGEST_KEY_BYTES, 0)))
        return None

    def _write_key(self, key: str, kept: FileRecord) -> None:
        parts = ("keys", key)
        with (
            staging_errors("cannot be written", "/".join(parts)),
            open_parent(self._root, parts) as parent,
            atomic_file(parent, key) as fd,
        ):
            write_all(json.dumps(asdict(kept)).encode(), fd)


def _content_name(digest: str) -> str:
    return f"content/{digest}"


def publish(
    directory: Path,
    file: FileRecord,
    target: str,
    *,
    folder: Path,
    below: str | None = None,
    shown: str = "",
) -> int:
    """Copy an output to a name below ``folder``, an absolute path or a URL; return the bytes copied.

    If the target ends with ``/``, the output is placed in that directory. A target that already has the same
    content is not changed. An output directory is merged into an existing directory. ``below`` is the folder
    that the user states for a target with values of tasks. If the target is a URL with secrets, ``shown`` is
    its text without them, for error messages.
    """
    if target.endswith("/"):
        target += split_name(file.name)[-1]
    path = file_url_path(target) if is_url(target) else target
    if path is None:
        return _upload(directory, file, target, shown or target)
    if path.startswith("/"):
        _refuse_state(path, Path(path).parts)
        if below is not None:
            check_links(target, Path(os.path.realpath(Path(path).parent)), folder, below)
        folder, path = _resolve_target(path)
        _refuse_state(f"{folder}/{path}", (*folder.parts, path))
    return publish_as(directory, file, path, folder=folder)


def publish_as(directory: Path, file: FileRecord, name: str, *, folder: Path) -> int:
    """Copy an output to ``name`` below ``folder``, never to a URL; return the bytes copied."""
    _refuse_state(name, split_name(name))
    if _is_published(folder, name, file):
        return 0
    return clone_or_copy(directory, file.name, folder, name, digest=file.digest, modes="own", synced=True)


def remove_published(target: str, *, folder: Path) -> None:
    """Remove a directory that ``publish`` has filled; it is no error if the directory is missing."""
    path = file_url_path(target) if is_url(target) else target
    if path is not None:
        place = folder / path
        remove_tree(place.parent, place.name)
        return
    with _url_errors("cannot be removed", target):
        system, place_there = _open_filesystem(target)
        with suppress(FileNotFoundError):
            system.rm(place_there, recursive=True)


def find_url_problem(url: str) -> str:
    """Return why a folder with this URL cannot be used here; "": it can."""
    try:
        return find_kind_problem(url) if file_url_path(url) is None else ""
    except StagingProblem as problem:
        return str(problem)


def find_kind_problem(url: str) -> str:
    """Return why URLs of this form cannot be used here; "": they can."""
    if (scheme := _scheme(url)) == "file":
        return ""
    if (chained := _find_chain_problem(url)) or scheme in _WEB:
        return chained  # without loading fsspec
    import fsspec

    try:
        return _find_wrapper_problem(fsspec.get_filesystem_class, url)
    except (ValueError, ImportError) as problem:
        return str(problem)


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _find_chain_problem(url: str) -> str:
    return "chains of URLs ('::') are not allowed" if "::" in url else ""


def _find_wrapper_problem(find_class: Callable[[str], Any], url: str) -> str:
    """Return a problem if the file system of a URL wraps another one, such as an archive; "": it does not.

    Raises ValueError for an unknown scheme, ImportError if a package is missing.
    """
    if (scheme := _scheme(url)) in _WEB:
        return ""
    from inspect import signature

    found = find_class(scheme)
    arguments = {name for each in found.__mro__ for name in signature(each.__init__).parameters}
    if scheme == "generic" or arguments & _WRAPPED:
        return f"{scheme}:// opens a file inside of another one, which needs a chain of URLs ('::')"
    return ""


def _refuse_state(target: str, parts: tuple[str, ...]) -> None:
    """Raise StagingProblem if an output would be written into ``.weft``, the state of a project.

    Files in ``.weft/values`` are allowed: values of task functions are published there. A value is used only
    if its content has the recorded digest.
    """
    if _STATE in parts and parts[-3:-1] != _VALUES:
        why = "weft keeps its own state there"
        raise StagingProblem("is not copied to the project", target, why, lasting=True)


def _resolve_target(path: str) -> tuple[Path, str]:
    """Create the parent directory of an absolute path; return that directory and the file name.

    Links in the path of the directory are resolved.
    """
    with staging_errors("cannot be published", path):
        above = Path(path).parent
        above.mkdir(parents=True, exist_ok=True)
        return Path(os.path.realpath(above, strict=True)), Path(path).name


def _is_published(root: Path, name: str, file: FileRecord) -> bool:
    try:
        with open_entry(root, split_name(name)) as found:
            # A different size means different content, and a link is not the file itself.
            if found.parts != split_name(name) or (found.is_file and found.status.st_size != file.size_bytes):
                return False
        return measure_file(root, name).digest == file.digest
    except StagingProblem:
        return False


def _upload(directory: Path, file: FileRecord, url: str, shown: str) -> int:
    if measure_file(directory, file.name).digest != file.digest:
        raise StagingProblem("cannot be published", file.name, "it was modified after its task had ended")
    with open_entry(directory, split_name(file.name)) as found:
        parts, is_directory = found.parts, found.is_directory
    if not is_directory:
        return _upload_file(directory, parts, url, shown)
    files = [entry for _, entry in walk_tree(directory, parts) if entry.is_file]
    return sum(
        _upload_file(
            directory, entry.location, "/".join((url, *entry.parts)), "/".join((shown, *entry.parts))
        )
        for entry in files
    )


def _upload_file(directory: Path, parts: Parts, url: str, shown: str) -> int:
    with FileDescriptor(open_inside(directory, "/".join(parts))) as fd:
        upload(fd, url, shown)
        return os.fstat(fd).st_size
