"""A disk that loses unsynced data: every state that a power cut may leave, computed from the trace of a run.

At a cut the following is on the disk:

- Data: what was written before an fsync or fdatasync of the file began that has returned. Later writes may be
  there or not, page by page and in any order; a page that is missing below the end of a file reads as zeros.
- Names (model ``ordered``, as with the journal of ext4): creations, renames, links and removals reach the disk in
  their order. A sync of any file or directory brings all earlier ones with it.
- Names (model ``strict``, what POSIX promises): each operation is there for sure only after a sync of its
  directory, and independent of all others.

The size of the page and the two models follow ALICE (Pillai et al., OSDI 2014, section 3.2) and CrashMonkey
(Mohan et al., OSDI 2018, section 4), which call them abstract persistence models.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.trace import Kind, Operation

_PAGE = 4096
_NAMES = (Kind.CREATE, Kind.RENAME, Kind.LINK, Kind.UNLINK, Kind.MKDIR, Kind.SYMLINK)
MODELS = ("ordered", "strict")
LOSSES = ("all", "none", "tail", "pages")
"""What happens to unsynced writes: all are lost, none, those after a point, or single pages."""


@dataclass(slots=True)
class RecordedFile:
    """A file of the trace: its content at first, and all changes of its data."""

    first: bytes = b""
    modified_ns: int = 0
    changes: list[Operation] = field(default_factory=list)
    syncs: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of SYNC_END and SYNC_BEGIN, in order."""
    loses: bool = True
    """False: the evidence, which is on no disk that fails."""

    def synced(self, cut: int) -> int:
        """Return the number up to which all changes are on the disk at a cut."""
        return max((began for ended, began in self.syncs if ended <= cut), default=0)


class RecordedDisk:
    """The files below some folders before a run, and everything that the run did to them."""

    def __init__(self, folders: Iterable[Path], witness: Path) -> None:
        """Take a copy of the folders; the run has not begun."""
        self._witness = f"{witness}/"
        self._files: dict[int, RecordedFile] = {}
        self.first_names: dict[str, RecordedFile] = {}
        self.first_folders: set[str] = set()
        self.names: list[tuple[Operation, RecordedFile | None]] = []
        """Operations on names, each with the file that it names."""
        self.last = 0
        """Number of the last operation."""
        self._syncs: list[tuple[int, int]] = []
        self._folder_syncs: dict[str, list[tuple[int, int]]] = {}
        for folder in (*folders, witness):
            for above, _, names in os.walk(folder):
                self.first_folders.add(above)
                for name in names:
                    self._take(Path(above, name))

    def _take(self, path: Path) -> None:
        if path.is_file():
            text = str(path)
            status, safe = path.stat(), text.startswith(self._witness)
            file = RecordedFile(path.read_bytes(), status.st_mtime_ns, loses=not safe)
            self._files[status.st_ino] = self.first_names[text] = file

    def add(self, operations: Iterable[Operation]) -> None:
        """Add the operations of the run."""
        for each in operations:
            self.last = each.sequence
            if each.kind is Kind.UNSEEN:
                raise AssertionError(f"{each.path} is written through memory; such changes are not recorded")
            if each.kind in _NAMES:
                self._add_name(each)
            elif each.kind is Kind.SYNC_END:
                self._syncs.append((each.sequence, each.offset))
                self._folder_syncs.setdefault(each.path, []).append((each.sequence, each.offset))
                self._file(each.inode).syncs.append((each.sequence, each.offset))
            elif each.kind is not Kind.SYNC_BEGIN:
                self._file(each.inode).changes.append(each)

    def _add_name(self, each: Operation) -> None:
        if each.kind is Kind.CREATE:  # the number of a removed file may be used again
            self._files[each.inode] = RecordedFile(loses=not each.path.startswith(self._witness))
        file = self._file(each.inode) if each.inode and each.kind is not Kind.MKDIR else None
        self.names.append((each, file))

    def _file(self, inode: int) -> RecordedFile:
        return self._files.setdefault(inode, RecordedFile())

    def image(self, cut: int, seed: object, *, model: str = "ordered", loss: str = "") -> Image:
        """Return one state of the disk after a power cut behind operation ``cut``, drawn from a seed."""
        rnd = random.Random(str(seed))
        kept = self._ordered(cut, rnd) if model == "ordered" else self._strict(cut, rnd)
        return Image(self, cut, kept, rnd, loss or rnd.choice(LOSSES))

    def whole(self, cut: int) -> Image:
        """Return the state of the disk if nothing is lost: a copy made at this moment."""
        kept = [pair for pair in self.names if pair[0].sequence <= cut]
        return Image(self, cut, kept, random.Random(0), "none")

    def _ordered(self, cut: int, rnd: random.Random) -> list[tuple[Operation, RecordedFile | None]]:
        synced = max((began for ended, began in self._syncs if ended <= cut), default=0)
        until = rnd.choice((synced, cut, rnd.randint(synced, cut)))
        return [
            pair for pair in self.names
            if pair[0].sequence <= until or (pair[0].sequence <= cut and self._is_safe(pair[0]))
        ]  # fmt: skip

    def _strict(self, cut: int, rnd: random.Random) -> list[tuple[Operation, RecordedFile | None]]:
        share = rnd.choice((0.0, 0.5, 1.0, rnd.random()))
        kept = []
        for operation, file in self.names:
            if operation.sequence > cut:
                break
            changed = operation.target if operation.kind in (Kind.RENAME, Kind.LINK) else operation.path
            syncs = self._folder_syncs.get(changed.rpartition("/")[0], ())
            certain = any(operation.sequence < began and ended <= cut for ended, began in syncs)
            if certain or self._is_safe(operation) or rnd.random() < share:
                kept.append((operation, file))
        return kept

    def _is_safe(self, operation: Operation) -> bool:
        return operation.path.startswith(self._witness)


class Image:
    """One state of a disk after a power cut."""

    def __init__(
        self,
        disk: RecordedDisk,
        cut: int,
        names: Iterable[tuple[Operation, RecordedFile | None]],
        rnd: random.Random,
        loss: str,
    ) -> None:
        self.cut = cut
        self._loss = loss
        self._salt = rnd.random()
        self._folders = set(disk.first_folders)
        self.files = dict(disk.first_names)
        """Files by path."""
        self.links: dict[str, str] = {}
        for operation, file in names:
            self._apply(operation, file)

    def _apply(self, operation: Operation, file: RecordedFile | None) -> None:
        path, kind = operation.path, operation.kind
        target = operation.target if kind in (Kind.RENAME, Kind.LINK) else path
        if kind is not Kind.UNLINK and target.rpartition("/")[0] not in self._folders:
            return  # its directory was lost
        if kind is Kind.MKDIR:
            self._folders.add(path)
        elif kind is Kind.SYMLINK:
            self.links[path] = operation.target
        elif kind is Kind.UNLINK:
            self.files.pop(path, None)
            self.links.pop(path, None)
            self._folders.discard(path)
        elif kind is Kind.RENAME and path in self._folders:
            self._move_folder(path, target)
        elif file is not None and (kind is not Kind.RENAME or self.files.pop(path, None) is not None):
            self.files[target] = file

    def _move_folder(self, path: str, target: str) -> None:
        def moved(name: str) -> str:
            return target + name[len(path) :] if name == path or name.startswith(f"{path}/") else name

        self._folders = set(map(moved, self._folders))
        self.files = {moved(name): file for name, file in self.files.items()}
        self.links = {moved(name): text for name, text in self.links.items()}

    def read(self, path: str | Path) -> bytes | None:
        """Return the content of a file; None: it does not exist."""
        file = self.files.get(str(path))
        return None if file is None else self._content(file)

    def _content(self, file: RecordedFile) -> bytes:
        return self._state(file)[0]

    def _state(self, file: RecordedFile) -> tuple[bytes, int]:
        """Return the content and the modification time of a file."""
        content, modified_ns = bytearray(file.first), file.modified_ns
        count = bisect_right(file.changes, self.cut, key=lambda each: each.sequence)
        changes = file.changes[:count]
        certain = bisect_right(changes, file.synced(self.cut), key=lambda each: each.sequence)
        lost = changes[certain:] if file.loses else []
        for each in (*changes[: count - len(lost)], *self._surviving(lost)):
            modified_ns = each.modified_ns
            if each.kind is not Kind.TIMES:
                _change(content, each.kind, each.offset, each.data)
        return bytes(content), modified_ns

    def _surviving(self, changes: list[Operation]) -> Iterator[Operation]:
        """Yield the changes, or parts of them, that reached the disk before the power was cut."""
        if not changes or self._loss == "all":
            return
        if self._loss == "none":
            yield from changes
            return
        rnd = random.Random(f"{self._salt} {changes[0].sequence}")  # the same at every reading
        if self._loss == "tail":
            yield from changes[: rnd.randint(0, len(changes))]
            return
        share = rnd.random()
        for each in changes:
            if each.kind is not Kind.WRITE:
                if rnd.random() < share:
                    yield each
                continue
            yield from (part for part in _pages(each) if rnd.random() < share)

    def write_to(self, folder: Path, *, instead_of: Path) -> None:
        """Write the files below ``instead_of`` into a folder; SQLite's index of the WAL is left out."""
        old = f"{instead_of}/"
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folders):
            if path.startswith(old):
                (folder / path.removeprefix(old)).mkdir(parents=True, exist_ok=True)
        written: dict[int, Path] = {}
        for path, file in self.files.items():
            if not path.startswith(old) or path.endswith("-shm"):
                continue
            into = folder / path.removeprefix(old)
            into.parent.mkdir(parents=True, exist_ok=True)
            if id(file) in written:
                os.link(written[id(file)], into)
            else:
                content, modified_ns = self._state(file)
                into.write_bytes(content)
                os.utime(into, ns=(modified_ns, modified_ns))
                written[id(file)] = into
        for path, text in self.links.items():
            if path.startswith(old):
                (folder / path.removeprefix(old)).symlink_to(text)


def _change(content: bytearray, kind: Kind, offset: int, data: bytes) -> None:
    if kind is Kind.TRUNCATE:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _pages(write: Operation) -> Iterator[Operation]:
    """Yield the parts of a write by page of the file."""
    place, end = write.offset, write.offset + len(write.data)
    while place < end:
        until = min(end, (place // _PAGE + 1) * _PAGE)
        data = write.data[place - write.offset : until - write.offset]
        yield replace(write, offset=place, data=data)
        place = until
