"""Files behind URLs, through fsspec: whatever it can reach. Loaded only when a URL is used.

Compression: a compressed input becomes a plain file on the machine. What it is, its first bytes say.

Fetching: an input comes from where the user keeps it, a path or a URL, into a directory.

A path is read from the folder of the workflow. It was named by the user, so it may lie anywhere and lead
over links; what lies in a directory that was named may not lead out of that directory.

The cache of a machine: shared inputs are fetched once, kept by content, and linked wherever they are used.

What a source was when it was fetched (size and time, or what a server says of it) is written beside the
digest of its content. So another content under the same name is fetched anew, and one content under two names
is kept once. What the cache holds is read again, once per process, before it is used.

    keys/KEY            of a source: the file it has become
    content/DIGEST      what is kept, read-only
    coming/...          what is on the way

Publishing: a result goes to where the user wants it, a path or a URL; always as a copy.

So that whoever edits a result cannot change what weft keeps. A path below the project is reached without
following links; a full path or a URL was named by the user and is taken as it is.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import hashlib
import json
import lzma
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from weft.backends.attempt.safe_paths import (
    Parts,
    StagingProblem,
    open_entry,
    open_inside,
    open_parent,
    split_name,
    staging_errors,
    staging_problem,
)
from weft.backends.attempt.staging import (
    CopyMethod,
    atomic_file,
    extent,
    is_intact,
    link_or_copy,
    make_read_only,
    measure_file,
    temporary_name,
    unnamed_file,
    write_all,
)
from weft.backends.attempt.trees import DIGEST_SIZE, list_tree, remove_tree
from weft.backends.backend import FileRecord

__all__ = [
    "FetchedInput",
    "InputCache",
    "InputSource",
    "decompress",
    "decompressed_name",
    "download",
    "fetch",
    "file_url_path",
    "is_url",
    "publish",
    "upload",
    "url_version",
]


_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://|file:")
_WEB = ("http", "https")
_CONNECT_S = 30.0
_SILENCE_S = 120.0
"""How long a server may say nothing. The whole may take as long as it takes."""
_NOT_FOUND = 404
_PASSING = (408, 421, 423, 425, 429)
"""Of a server's refusals (400 to 499), those that it may not repeat: it was too slow, too busy, too early."""
_CHUNK_BYTES = 1 << 20
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
"""What servers say of a file that changes when its content does."""


def is_url(source: str) -> bool:
    """Say whether a text is a URL, and no path."""
    return _URL.match(source) is not None


def file_url_path(url: str) -> str | None:
    """Give the path on this computer that a ``file:`` URL names; None: it is another URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("file", "local"):
        return None
    if parts.netloc not in ("", "localhost"):
        why = f"'file' names files of this computer, not of {parts.netloc!r}"
        raise StagingProblem("cannot be fetched", url, why, advice="write file:///PATH", lasting=True)
    return unquote(parts.path)


def download(url: str, target: int) -> None:
    """Write what a URL names to an open file."""
    with _url_errors("cannot be fetched", url):
        system, path = _open_filesystem(url)
        # The handle, not the name: what is written is the file that was opened.
        system.get_file(path, f"/proc/self/fd/{target}")


def upload(source: int, url: str) -> None:
    """Write an open file to a URL; who reads there sees all of it or nothing."""
    with _url_errors("cannot be published", url), os.fdopen(os.dup(source), "rb") as content:
        content.seek(0)
        system, path = _open_filesystem(url)
        if urlsplit(url).scheme in _WEB:
            system.put_file(content, path, method="put")
            return
        if folder := path.rpartition("/")[0]:
            system.makedirs(folder, exist_ok=True)
        with system.transaction, system.open(path, "wb") as target:
            while chunk := content.read(_CHUNK_BYTES):
                target.write(chunk)


def url_version(url: str) -> str | None:
    """Give a text that changes when what a URL names does; None: nobody says."""
    with _url_errors("cannot be fetched", url):
        system, path = _open_filesystem(url)
        try:
            info = system.info(path)
        except NotImplementedError:
            return None
    marks = [f"{key}={info[key]}" for key in _VALIDATORS if info.get(key)]
    return " ".join([f"size={info.get('size')}", *marks]) if marks else None


def _open_filesystem(url: str) -> tuple[Any, str]:
    import fsspec

    if "::" in url:
        why = "chains of URLs ('::') are not allowed"
        raise StagingProblem("cannot be used", url, why, lasting=True)
    options: dict[str, Any] = {}
    if urlsplit(url).scheme in _WEB:
        from aiohttp import ClientTimeout

        waits = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        options["client_kwargs"] = {"timeout": waits, "trust_env": True}
    # An instance of our own: a transaction of another thread would hold back what this one writes.
    try:
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **options)
    except ValueError as error:
        raise StagingProblem("cannot be used", _without_secrets(url), str(error), lasting=True) from error
    return found[0], found[1]


@contextmanager
def _url_errors(what: str, url: str) -> Iterator[None]:
    """Tell whatever a library raises as a problem of the URL: each has errors of its own."""
    try:
        yield
    except StagingProblem:
        raise
    except ImportError as error:
        advice = "install the package that fsspec needs for it"
        raise StagingProblem(what, _without_secrets(url), str(error), advice=advice, lasting=True) from error
    except Exception as error:
        raise _url_problem(what, _without_secrets(url), _reason(error)) from error


def _reason(error: Exception) -> Exception:
    """Give why there is no such file: fsspec says that of a server, whatever has gone wrong there."""
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) else error


def _url_problem(what: str, url: str, error: Exception) -> StagingProblem:
    number = error.errno if isinstance(error, OSError) else None
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == _NOT_FOUND:
        return StagingProblem(what, url, "there is no such file", number=number, lasting=True)
    why = f"{error} ({type(error).__name__})" if str(error) else type(error).__name__
    lasting = isinstance(status, int) and 400 <= status < 500 and status not in _PASSING
    return StagingProblem(what, url, why, number=number, lasting=lasting)


def _without_secrets(url: str) -> str:
    """Leave out a password."""
    return re.sub(r"//[^/@]*@", "//", url)


_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_DECOMPRESSION_CHUNK_BYTES = 1 << 20


def decompressed_name(name: str) -> str:
    """Give the name of a compressed file once it is decompressed: without ``.gz`` and the like."""
    plain = name.removesuffix(next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), ""))
    return plain if plain and not plain.endswith("/") else name


def decompress(source: int, target: int, name: str) -> None:
    """Write the plain content of an open compressed file to another open file."""
    opener = _opener(os.pread(source, 6, 0), name)
    with os.fdopen(os.dup(source), "rb") as raw:
        raw.seek(0)
        with opener(raw) as plain:
            while chunk := _read_chunk(plain, name):
                write_all(chunk, target)


def _read_chunk(plain: IO[bytes], name: str) -> bytes:
    try:
        return plain.read(_DECOMPRESSION_CHUNK_BYTES)
    except Exception as error:  # Each library has errors of its own for what is broken or cut off.
        raise StagingProblem("cannot be decompressed", name, str(error) or type(error).__name__) from error


def _opener(first: bytes, name: str) -> Callable[[IO[bytes]], Any]:
    if first.startswith(b"\x1f\x8b"):
        return lambda raw: gzip.GzipFile(fileobj=raw)
    if first.startswith(b"BZh"):
        return bz2.BZ2File
    if first == b"\xfd7zXZ\0":
        return lzma.LZMAFile
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstandard(name)
    why = "it is not in one of the formats gzip, bzip2, xz, zstandard"
    raise StagingProblem("cannot be decompressed", name, why, advice="leave `compressed` out if it is plain")


def _zstandard(name: str) -> Callable[[IO[bytes]], Any]:
    """Find what reads zstandard: Python's library since 3.14, before it the same as a package.

    Not the package ``zstandard``: it takes what was cut off for the whole.
    """
    with suppress(ImportError):
        from compression import zstd

        return lambda raw: zstd.ZstdFile(raw)
    with suppress(ImportError):
        from backports import zstd as backport

        return lambda raw: backport.ZstdFile(raw)
    advice = "install the Python package 'backports.zstd', or compress it with gzip, bzip2 or xz"
    raise StagingProblem("cannot be decompressed", name, "this Python cannot read zstandard", advice=advice)


_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES)
"""What only the user can change about a path."""


@dataclass(frozen=True, slots=True)
class InputSource:
    """Where the user keeps an input."""

    text: str
    """A path, or a URL."""
    folder: Path
    """Of the workflow: paths are read from there."""

    def path(self) -> Path | None:
        """Give its path on this computer, links resolved; None: it is a URL of elsewhere."""
        stated = file_url_path(self.text) if is_url(self.text) else self.text
        if stated is None:
            return None
        if not stated.strip() or "\0" in stated:
            raise StagingProblem("cannot be fetched", self.text, "it is no name of a file", lasting=True)
        try:
            return Path(os.path.realpath(self.folder / stated, strict=True))
        except OSError as error:
            raise staging_problem(
                "cannot be fetched", self.text, error, lasting=error.errno in _LASTING
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedInput:
    """An input that has come."""

    file: FileRecord
    """As it lies in the directory now: one that was compressed has lost its ``.gz``."""
    copied_bytes: int
    """What was read and written for it; 0: a link did."""


def fetch(
    source: InputSource, root: Path, name: str, *, how: CopyMethod = "link", compressed: bool = False
) -> FetchedInput:
    """Bring an input under a name below a root; nobody sees it there before it is whole."""
    path = source.path()
    if compressed:
        return _fetch_compressed(source, path, root, decompressed_name(name))
    if path is None:
        with _open_target(source, root, name) as (_, target):
            download(source.text, target)
        file = measure_file(root, name)
        return FetchedInput(file=file, copied_bytes=file.size_bytes)
    there = measure_file(path.parent, path.name)
    copied_bytes = link_or_copy(path.parent, path.name, root, name, how=how, digest=there.digest)
    # A link is the same file, and a copy was checked: neither has to be read again.
    return FetchedInput(file=replace(there, name="/".join(split_name(name))), copied_bytes=copied_bytes)


def _fetch_compressed(source: InputSource, path: Path | None, root: Path, name: str) -> FetchedInput:
    with _open_target(source, root, name) as (parent, target), _open_compressed(source, path, parent) as raw:
        decompress(raw, target, source.text)
        raw_bytes = os.fstat(raw).st_size
    return FetchedInput(file=measure_file(root, name), copied_bytes=raw_bytes)


@contextmanager
def _open_target(source: InputSource, root: Path, name: str) -> Iterator[tuple[int, int]]:
    """Open the directory and the new file to write."""
    parts = split_name(name)
    with (
        staging_errors("cannot be fetched", source.text),
        open_parent(root, parts) as parent,
        atomic_file(parent, parts[-1]) as target,
    ):
        yield parent, target


@contextmanager
def _open_compressed(source: InputSource, path: Path | None, scratch: int) -> Iterator[int]:
    """Open what is still compressed; from elsewhere it is first brought into a file without a name."""
    if path is None:
        with unnamed_file(scratch) as raw:
            download(source.text, raw)
            yield raw
        return
    raw = open_inside(path.parent, path.name)
    try:
        yield raw
    finally:
        os.close(raw)


_LONGEST_KEY_BYTES = 65_536


class InputCache:
    """The shared inputs of one machine. Threads may ask at the same time: one fetches, the others wait."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._lock = Lock()
        self._coming: dict[str, Future[FileRecord]] = {}
        self._known: dict[str, FileRecord] = {}
        """By key: what this process has fetched, or has read again."""

    def bring(
        self, source: InputSource, root: Path, name: str, *, shared: bool = True, compressed: bool = False
    ) -> FetchedInput:
        """Bring an input under a name below a root, as ``fetch`` does; a ``shared`` one is fetched once."""
        if not shared:
            return fetch(source, root, name, compressed=compressed)
        with staging_errors("cannot be made", str(self._root)):
            self._root.mkdir(parents=True, exist_ok=True)
        kept, fetched_bytes = self._kept(_CacheRequest(source, compressed))
        goal = decompressed_name(name) if compressed else name
        copied_bytes = link_or_copy(self._root, kept.name, root, goal, digest=kept.digest)
        file = replace(kept, name="/".join(split_name(goal)))
        return FetchedInput(file=file, copied_bytes=copied_bytes + fetched_bytes)

    def _kept(self, asked: _CacheRequest) -> tuple[FileRecord, int]:
        """Give what is kept for a source, and the bytes fetched for it just now."""
        key, lasting = asked.key()
        with self._lock:
            coming = self._coming.get(key)
            mine: Future[FileRecord] = Future()
            if coming is None:
                self._coming[key] = mine
        if coming is not None:
            return coming.result(), 0
        try:
            kept, fetched_bytes = self._found_or_fetched(asked, key, lasting)
        except BaseException as error:
            # Those who wait fail with it; who asks later tries anew.
            mine.set_exception(error)
            raise
        else:
            mine.set_result(kept)
            return kept, fetched_bytes
        finally:
            with self._lock:
                del self._coming[key]

    def _found_or_fetched(self, asked: _CacheRequest, key: str, lasting: bool) -> tuple[FileRecord, int]:
        known = self._known.get(key)
        if known is not None and is_intact(self._root, known):
            return known, 0
        noted = self._read_key(key) if lasting else None
        if noted is not None and is_intact(self._root, noted, thorough=True):
            self._known[key] = noted
            return noted, 0
        kept, fetched_bytes = self._fetched(asked)
        if lasting:
            self._write_key(key, kept)
        self._known[key] = kept
        return kept, fetched_bytes

    def _fetched(self, asked: _CacheRequest) -> tuple[FileRecord, int]:
        coming = f"coming/{temporary_name()}"
        try:
            brought = asked.fetched(self._root, coming)
            make_read_only(self._root, [brought.file])
            kept = self._content(brought.file.digest)
            if kept is None:
                name = _content_name(brought.file.digest)
                remove_tree(self._root, name)
                link_or_copy(self._root, coming, self._root, name)
                kept = measure_file(self._root, name)
        finally:
            remove_tree(self._root, coming)
        return kept, brought.copied_bytes

    def _content(self, digest: str) -> FileRecord | None:
        """Give what is kept of a content already, from another source; None: nothing, or it was changed."""
        with suppress(StagingProblem):
            kept = measure_file(self._root, _content_name(digest))
            return kept if kept.digest == digest else None
        return None

    def _read_key(self, key: str) -> FileRecord | None:
        """Read what a source has become; what is absent or makes no sense is not known."""
        with suppress(StagingProblem, OSError, ValueError, TypeError):
            fd = open_inside(self._root, f"keys/{key}")
            try:
                return FileRecord(**json.loads(os.pread(fd, _LONGEST_KEY_BYTES, 0)))
            finally:
                os.close(fd)
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


@dataclass(frozen=True, slots=True)
class _CacheRequest:
    """What is asked of the cache."""

    source: InputSource
    compressed: bool

    def fetched(self, root: Path, name: str) -> FetchedInput:
        """Fetch it; a copy, since a link to the user's own file would change when the user changes it."""
        return fetch(self.source, root, name, how="copy", compressed=self.compressed)

    def key(self) -> tuple[str, bool]:
        """Name the source as it is now; and whether it can be told apart from what it will be later."""
        path = self.source.path()
        if path is None:
            where, stamp = self.source.text, url_version(self.source.text)
        else:
            where, stamp = str(path), "{} {}".format(*extent(path.parent, path.name))
        text = json.dumps([where, stamp, self.compressed])
        return hashlib.blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest(), stamp is not None


def publish(directory: Path, file: FileRecord, target: str, *, folder: Path) -> int:
    """Bring what was made to its target: a name below ``folder``, a full path, a URL. Give the bytes copied.

    A target that ends with ``/`` is a directory to put it into. What is there already with the same content
    is left alone; a directory that is there is added to.
    """
    if target.endswith("/"):
        target += split_name(file.name)[-1]
    path = file_url_path(target) if is_url(target) else target
    if path is None:
        return _upload(directory, file, target)
    if path.startswith("/"):
        folder, path = _resolve_target(path)
    if _is_published(folder, path, file):
        return 0
    return link_or_copy(directory, file.name, folder, path, how="copy", digest=file.digest, modes="own")


def _resolve_target(path: str) -> tuple[Path, str]:
    """Give the directory, made where absent and its links resolved, and the name of a full path."""
    with staging_errors("cannot be published", path):
        above = Path(path).parent
        above.mkdir(parents=True, exist_ok=True)
        return Path(os.path.realpath(above, strict=True)), Path(path).name


def _is_published(root: Path, name: str, file: FileRecord) -> bool:
    try:
        with open_entry(root, split_name(name)) as found:
            # Another size is another content; what is behind a link is not at this place.
            if found.parts != split_name(name) or (found.is_file and found.status.st_size != file.size_bytes):
                return False
        return measure_file(root, name).digest == file.digest
    except StagingProblem:
        return False


def _upload(directory: Path, file: FileRecord, url: str) -> int:
    if measure_file(directory, file.name).digest != file.digest:
        raise StagingProblem("cannot be published", file.name, "somebody has changed it since it was made")
    with open_entry(directory, split_name(file.name)) as found:
        parts, is_directory = found.parts, found.is_directory
    if not is_directory:
        return _upload_file(directory, parts, url)
    files = [leaf for leaf in list_tree(directory, parts) if leaf.is_file]
    return sum(_upload_file(directory, leaf.lies, "/".join((url, *leaf.parts))) for leaf in files)


def _upload_file(directory: Path, parts: Parts, url: str) -> int:
    fd = open_inside(directory, "/".join(parts))
    try:
        upload(fd, url)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)
