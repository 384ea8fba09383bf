"""Checkpoints: copies of a running task's restart files, so that the task can resume on another machine.

The copies are kept on the engine's disk, so they survive the loss of the machine. If the checkpoint of a task
states a ``url``, the files are also copied there; these copies survive the loss of the engine's disk.

A program may write while its files are copied. A copy is accepted only if no file changed between the first
and the last read; otherwise the previous copy stays and the copy is repeated later. Each copy is made in a
directory of its own, and a pointer file is then replaced atomically. The pointer names the attempt that wrote
the files: if the tail of the journal was lost, the files may belong to another task.

    NUMBER/...     the files
    current        the pointer: the directory, the attempt and its nonce, and the records of the files
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from weft.backends.attempt.attempt import ActiveAttempt
from weft.backends.attempt.command import monitored_files
from weft.backends.attempt.content import write_all
from weft.backends.attempt.digests import DIGESTS, FileVersion, find_version, wait_for_clock
from weft.backends.attempt.external_files import InputSource, fetch, publish, remove_published
from weft.backends.attempt.file_sync import sync_files
from weft.backends.attempt.inputs import refuse_redirection
from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    StagingProblem,
    list_names,
    open_directory,
    open_inside,
    staging_errors,
)
from weft.backends.attempt.staging import atomic_file, clone_or_copy, file_record, is_intact, measure_file
from weft.backends.attempt.trees import match_names, remove_tree, walk_tree
from weft.backends.backend import ProjectContext
from weft.backends.file_record import FileRecord
from weft.engine.stored_fields import DAMAGE, decode_record, decode_text
from weft.private_files import FILE_MODE, close_to_others, make_folder
from weft.workflow.templates import fill_template

_POINTER, _COMING = "current", "coming"
_LONGEST_POINTER_BYTES = 1 << 26
_NEW_FOLDERS = 3
"""Number of parent folders that may be new: of the execution, of all checkpoints, and ``.weft``."""
_CHANGING = (errno.ENOENT, errno.EAGAIN)
_Versions = dict[str, FileVersion]
CheckpointMaker = tuple[int, str]
"""Number and nonce of the attempt that wrote restart files."""
NO_MAKER: CheckpointMaker = -1, ""


def keep_checkpoint(
    workdir: Path, names: Sequence[str], into: Path, maker: CheckpointMaker = NO_MAKER
) -> bool:
    """Copy the restart files if they differ from the last copy; return whether a new copy was kept.

    If a file changes while it is copied, the copy is discarded. ``maker`` is the attempt that wrote the
    files.
    """
    if not (before := _find_versions(workdir, names)) or _is_kept(workdir, before, into):
        return False
    wait_for_clock(max(version.changed_ns for version in before.values()))
    with staging_errors("cannot be created", str(into)):
        make_folder(into)
    number = _next_number(into)
    try:
        before = _find_versions(workdir, names)
        for name in before:
            clone_or_copy(workdir, name, into, f"{number}/{name}")
        if not before or not _are_same(before, _find_versions(workdir, names)):
            return False
        _close_to_others(into, str(number))
        sync_files(into, [str(number)], above=into.parents[:_NEW_FOLDERS])
        _write_pointer(into, number, before, maker)
        return True
    except StagingProblem as problem:
        if problem.number in _CHANGING:
            return False
        raise
    finally:
        _remove_old_copies(into)


class CheckpointKeeper:
    """Keeps and restores the restart files of attempts; called by staging threads."""

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._published: dict[tuple[int, int], str] = {}
        """By run and task: the directory in the task's store that contains the last copy."""

    def keep(self, attempt: ActiveAttempt) -> tuple[bool, str]:
        """Copy the restart files of an attempt if they changed and are complete.

        Return whether a new copy was made on the engine's disk, and why this copy, or the copy in the task's
        store (``url``), failed. The reason is "" if there was no problem.
        """
        context = self._context
        _, names = monitored_files(context.compiled_workflow(attempt.run), attempt.task)
        if not names:
            return False, ""
        into = self._folder(attempt)
        try:
            if not context.is_known(context.execution, *find_maker(into)):
                remove_tree(into.parent, into.name)
            if attempt.disk is not None and not attempt.disk.pull_restart_files(attempt, names):
                return False, ""
            if not keep_checkpoint(attempt.workdir, names, into, (attempt.number, attempt.nonce)):
                return False, ""
        except StagingProblem as problem:
            return False, f"its restart files are not kept: {problem}"
        try:
            self._publish(attempt, into)
        except StagingProblem as problem:
            return True, f"its restart files are not copied to the store: {problem}"
        return True, ""

    def restore(self, attempt: ActiveAttempt) -> bool:
        """Copy the kept restart files into the directory of an attempt; return whether there were any.

        Files are not used if the journal does not contain the attempt that wrote them.
        """
        kept = self._folder(attempt)
        if not list_checkpoint(kept) and (place := self._place(attempt)):
            self._fetch(place, attempt, kept)
        known = self._context.is_known(self._context.execution, *find_maker(kept))
        return known and restore_checkpoint(kept, attempt.workdir)

    def drop(self, attempt: ActiveAttempt) -> None:
        """Remove the copies in the store of a task that has completed; a failure is ignored."""
        with suppress(StagingProblem):
            if place := self._place(attempt):
                remove_published(place, folder=self._workflow_folder(attempt))

    def _folder(self, attempt: ActiveAttempt) -> Path:
        return self._context.layout.checkpoints(self._context.execution, attempt.run, attempt.task)

    def _workflow_folder(self, attempt: ActiveAttempt) -> Path:
        return Path(self._context.workflow_folder(attempt.run))

    def _place(self, attempt: ActiveAttempt) -> str:
        """Return the path or URL in a task's store for its copies; "" if the task states no store."""
        context = self._context
        compiled = context.compiled_workflow(attempt.run)
        description = compiled.description(attempt.task)
        checkpoint = description.recovery.checkpoint
        if checkpoint is None or checkpoint.url is None:
            return ""
        values = {**compiled.graph.context(attempt.task), "task": compiled.names[attempt.task]}
        refuse_redirection(description, checkpoint.url, values)
        store = fill_template(checkpoint.url, values).rstrip("/")
        return f"{store}/{context.project}/{context.execution}/{attempt.run}-{attempt.task}"

    def _publish(self, attempt: ActiveAttempt, kept: Path) -> None:
        """Copy the last restart files to the store, and the pointer after all files are complete."""
        if not (place := self._place(attempt)):
            return
        folder = self._workflow_folder(attempt)
        number, _, files = _read_pointer(kept)
        for file in files:
            publish(kept / number, file, f"{place}/{number}/{file.name}", folder=folder)
        publish(kept, measure_file(kept, _POINTER), f"{place}/{_POINTER}", folder=folder)
        before = self._published.get((attempt.run, attempt.task), number)
        self._published[attempt.run, attempt.task] = number
        if before != number:
            with suppress(StagingProblem):
                remove_published(f"{place}/{before}", folder=folder)

    def _fetch(self, place: str, attempt: ActiveAttempt, kept: Path) -> None:
        """Copy the restart files of a task from its store to the engine's disk, if there are any."""
        folder = self._workflow_folder(attempt)
        with staging_errors("cannot be created", str(kept)):
            make_folder(kept)
        try:
            fetch(InputSource(f"{place}/{_POINTER}", folder), kept, _COMING)
        except StagingProblem as problem:
            if problem.lasting:
                return  # nothing was copied there
            raise
        number, _, files = _read_pointer(kept, _COMING)
        for file in files:
            source = f"{place}/{number}/{file.name}"
            if fetch(InputSource(source, folder), kept, f"{number}/{file.name}").file.digest != file.digest:
                raise StagingProblem("cannot be used", source, "its content has changed", lasting=True)
        if files:
            _close_to_others(kept, number)
        with staging_errors("cannot be kept", str(kept)):
            (kept / _COMING).replace(kept / _POINTER)
            close_to_others(kept / _POINTER)


def list_checkpoint(kept: Path) -> tuple[FileRecord, ...]:
    """Return the records of the kept restart files, with the names they had in the task's directory."""
    return _read_pointer(kept)[2]


def find_maker(kept: Path) -> CheckpointMaker:
    """Return the attempt that wrote the kept restart files, or ``NO_MAKER`` if the attempt is unknown."""
    return _read_pointer(kept)[1]


def restore_checkpoint(kept: Path, workdir: Path) -> bool:
    """Copy the kept restart files into a task's directory; return whether there were any."""
    number, _, files = _read_pointer(kept)
    for file in files:
        clone_or_copy(kept, f"{number}/{file.name}", workdir, file.name, digest=file.digest)
    return bool(files)


def _is_kept(workdir: Path, versions: _Versions, into: Path) -> bool:
    """Return whether the last copy has the same content as the restart files.

    This is the case, for example, after the engine was restarted.
    """
    kept = list_checkpoint(into)
    return versions.keys() == {file.name for file in kept} and all(is_intact(workdir, file) for file in kept)


def _are_same(before: _Versions, after: _Versions) -> bool:
    return before.keys() == after.keys() and all(
        version.is_same(after[name]) for name, version in before.items()
    )


def _find_versions(workdir: Path, names: Sequence[str]) -> _Versions:
    """Return the version of each existing restart file."""
    found: _Versions = {}
    for pattern in names:
        for name in match_names(workdir, pattern):
            try:
                found[name] = find_version(workdir, name)
            except StagingProblem as problem:
                # A program that replaces a file may leave it missing for a moment.
                if problem.number != errno.ENOENT:
                    raise
    return found


def _next_number(into: Path) -> int:
    with open_directory(into, ()) as listing:
        return max((int(name) for name in list_names(listing) if name.isdecimal()), default=0) + 1


def _close_to_others(into: Path, folder: str) -> None:
    """Remove the permissions of group and others from a folder of copies and all that it contains."""
    entries = [entry for _, entry in walk_tree(into, (folder,)) if not entry.link]
    with staging_errors("cannot be kept", str(into)):
        for parts in ((), *(entry.parts for entry in entries)):
            close_to_others(into.joinpath(folder, *parts))


def _write_pointer(into: Path, number: int, versions: _Versions, maker: CheckpointMaker) -> None:
    files = [
        file_record(name, DIGESTS.of_path(into, f"{number}/{name}"), version)
        for name, version in versions.items()
    ]
    of = {"directory": str(number), "attempt": maker[0], "nonce": maker[1]}
    text = json.dumps({**of, "files": [asdict(file) for file in files]})
    with (
        staging_errors("cannot be kept", str(into)),
        open_directory(into, ()) as listing,
        atomic_file(listing, _POINTER, mode=FILE_MODE, synced=True) as fd,
    ):
        write_all(text.encode(), fd)
    sync_files(into, [_POINTER])


def _read_pointer(kept: Path, name: str = _POINTER) -> tuple[str, CheckpointMaker, tuple[FileRecord, ...]]:
    try:
        with FileDescriptor(open_inside(kept, name)) as fd:
            record = json.loads(os.pread(fd, _LONGEST_POINTER_BYTES, 0))
        # An older version of weft wrote no attempt.
        maker = int(record.get("attempt", -1)), str(record.get("nonce", ""))
        files = tuple(decode_record(FileRecord, file) for file in record["files"])
        return decode_text(record["directory"]), maker, files
    except StagingProblem as problem:
        if problem.number == errno.ENOENT:
            return "", NO_MAKER, ()
        raise
    except DAMAGE as error:
        why = "its content was not written by weft"
        raise StagingProblem("cannot be read", str(kept / name), why) from error


def _remove_old_copies(into: Path) -> None:
    """Remove all copies of restart files except the one that the pointer file names."""
    current = _read_pointer(into)[0]
    with open_directory(into, ()) as listing:
        names = list_names(listing)
    for name in names:
        if name not in (current, _POINTER):
            remove_tree(into, name)
