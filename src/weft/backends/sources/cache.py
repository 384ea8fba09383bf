"""The cache of a machine: shared inputs are fetched once, kept by content, and linked wherever they are used.

What a source was when it was fetched (size and time, or what a server says of it) is written beside the
digest of its content. So another content under the same name is fetched anew, and one content under two names
is kept once. What the cache holds is read again, once per process, before it is used.

    keys/KEY            of a source: the file it has become
    content/DIGEST      what is kept, read-only
    coming/...          what is on the way
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock

from weft.backends.products import MadeFile
from weft.backends.sources.compression import plain_name_of
from weft.backends.sources.fetching import Brought, Source, fetch
from weft.backends.sources.remote_files import stamp_of_url
from weft.backends.staging.made import extent, intact, measured, protect
from weft.backends.staging.new_files import hidden_name, new_file, written
from weft.backends.staging.placing import place
from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.removing import remove_tree
from weft.backends.staging.safe_paths import open_inside, parent_of, parts_of
from weft.backends.staging.trees import DIGEST_SIZE

__all__ = ["Cache"]

_LONGEST_KEY_BYTES = 65_536


class Cache:
    """The shared inputs of one machine. Threads may ask at the same time: one fetches, the others wait."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._lock = Lock()
        self._coming: dict[str, Future[MadeFile]] = {}
        self._known: dict[str, MadeFile] = {}
        """By key: what this process has fetched, or has read again."""

    def bring(
        self, source: Source, root: Path, name: str, *, shared: bool = True, compressed: bool = False
    ) -> Brought:
        """Bring an input under a name below a root, as ``fetch`` does; a ``shared`` one is fetched once."""
        if not shared:
            return fetch(source, root, name, compressed=compressed)
        with telling("cannot be made", str(self._root)):
            self._root.mkdir(parents=True, exist_ok=True)
        kept, fetched_bytes = self._kept(_Asked(source, compressed))
        goal = plain_name_of(name) if compressed else name
        copied_bytes = place(self._root, kept.name, root, goal, digest=kept.digest)
        file = replace(kept, name="/".join(parts_of(goal)))
        return Brought(file=file, copied_bytes=copied_bytes + fetched_bytes)

    def _kept(self, asked: _Asked) -> tuple[MadeFile, int]:
        """Give what is kept for a source, and the bytes fetched for it just now."""
        key, lasting = asked.key()
        with self._lock:
            coming = self._coming.get(key)
            mine: Future[MadeFile] = Future()
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

    def _found_or_fetched(self, asked: _Asked, key: str, lasting: bool) -> tuple[MadeFile, int]:
        known = self._known.get(key)
        if known is not None and intact(self._root, known):
            return known, 0
        noted = self._read_key(key) if lasting else None
        if noted is not None and intact(self._root, noted, thorough=True):
            self._known[key] = noted
            return noted, 0
        kept, fetched_bytes = self._fetched(asked)
        if lasting:
            self._write_key(key, kept)
        self._known[key] = kept
        return kept, fetched_bytes

    def _fetched(self, asked: _Asked) -> tuple[MadeFile, int]:
        coming = f"coming/{hidden_name()}"
        try:
            brought = asked.fetched(self._root, coming)
            protect(self._root, [brought.file])
            kept = self._content(brought.file.digest)
            if kept is None:
                name = _content_name(brought.file.digest)
                remove_tree(self._root, name)
                place(self._root, coming, self._root, name)
                kept = measured(self._root, name)
        finally:
            remove_tree(self._root, coming)
        return kept, brought.copied_bytes

    def _content(self, digest: str) -> MadeFile | None:
        """Give what is kept of a content already, from another source; None: nothing, or it was changed."""
        with suppress(StagingProblem):
            kept = measured(self._root, _content_name(digest))
            return kept if kept.digest == digest else None
        return None

    def _read_key(self, key: str) -> MadeFile | None:
        """Read what a source has become; what is absent or makes no sense is not known."""
        with suppress(StagingProblem, OSError, ValueError, TypeError):
            fd = open_inside(self._root, f"keys/{key}")
            try:
                return MadeFile(**json.loads(os.pread(fd, _LONGEST_KEY_BYTES, 0)))
            finally:
                os.close(fd)
        return None

    def _write_key(self, key: str, kept: MadeFile) -> None:
        parts = ("keys", key)
        with (
            telling("cannot be written", "/".join(parts)),
            parent_of(self._root, parts) as parent,
            new_file(parent, key) as fd,
        ):
            written(json.dumps(asdict(kept)).encode(), fd)


def _content_name(digest: str) -> str:
    return f"content/{digest}"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the cache."""

    source: Source
    compressed: bool

    def fetched(self, root: Path, name: str) -> Brought:
        """Fetch it; a copy, since a link to the user's own file would change when the user changes it."""
        return fetch(self.source, root, name, how="copy", compressed=self.compressed)

    def key(self) -> tuple[str, bool]:
        """Name the source as it is now; and whether it can be told apart from what it will be later."""
        path = self.source.path()
        if path is None:
            where, stamp = self.source.text, stamp_of_url(self.source.text)
        else:
            where, stamp = str(path), "{} {}".format(*extent(path.parent, path.name))
        text = json.dumps([where, stamp, self.compressed])
        return hashlib.blake2b(text.encode(), digest_size=DIGEST_SIZE).hexdigest(), stamp is not None
