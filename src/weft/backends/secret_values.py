"""Values of the secrets that a workflow declares.

The values are read from the environment or from files when an engine starts, and kept in memory only. A
program receives them as environment variables in its start order. Fingerprints contain a keyed hash of a
value (BLAKE2b with a key of the project), so that nobody can test a guess without the key.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from weft.backends.layout import ProjectLayout
from weft.errors import InvalidInput, Problem
from weft.private_files import create_file, make_folder, read_state, write_file
from weft.records import dataclass
from weft.redaction import hide_values
from weft.workflow.task import JobSpec
from weft.workflow.workflow import Secret, Workflow

_KEY_BYTES = 32
_MOST_BYTES = 65_536
"""Maximal size in bytes of a file that contains a secret."""
_NO_VALUES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValues:
    """The values of the secrets of one workflow."""

    values: Mapping[str, str] = field(default_factory=lambda: _NO_VALUES, repr=False)
    """By name of the secret: its value."""
    digests: Mapping[str, str] = field(default_factory=lambda: _NO_VALUES)
    """By name: the keyed hash of a secret that is part of fingerprints."""
    sources: tuple[str, ...] = ()
    """Environment variables of weft from which values were read; programs do not inherit these variables."""

    def environment(self, job: JobSpec | None) -> dict[str, str | None]:
        """Return the variables that a program's start order changes, by name; None removes a variable."""
        removed: dict[str, str | None] = dict.fromkeys(self.sources)
        return {**removed, **{name: self.values[name] for name in self.names(job)}}

    def names(self, job: JobSpec | None) -> tuple[str, ...]:
        """Return the names of the secrets that a program receives."""
        if not self.values or job is None or job.secrets is None:
            return tuple(self.values)
        return tuple(name for name in job.secrets if name in self.values)

    def fingerprint(self, job: JobSpec | None) -> dict[str, str]:
        """Return the keyed hashes of the secrets that a program receives, by name."""
        return {name: self.digests[name] for name in self.names(job) if name in self.digests}


NO_SECRETS = SecretValues()
"""The values of a workflow without secrets."""


def read_secrets(
    layout: ProjectLayout, workflows: Mapping[str, Workflow], folders: Mapping[str, str]
) -> dict[str, SecretValues]:
    """Return the secrets by key of the workflow; raise InvalidInput that names every missing secret.

    ``workflows`` and ``folders`` (folders of the workflow files) have the same keys. A workflow without
    secrets has no entry in the result.
    """
    found, problems = {}, list[Problem]()
    for key, workflow in workflows.items():
        values = {}
        for secret in workflow.secrets:
            value = _read_value(secret, layout.project / folders.get(key, "."))
            if isinstance(value, Problem):
                problems.append(value)
            else:
                values[secret.name] = value
        if workflow.secrets and not problems:
            found[key] = _make_values(workflow, values, _read_key(layout.home))
    if problems:
        raise InvalidInput(problems)
    return found


def hide_secrets(
    layout: ProjectLayout, workflows: Mapping[str, Workflow], folders: Mapping[str, str]
) -> None:
    """Make this process redact the secrets of workflows in all its texts.

    Secrets whose values cannot be read are ignored.
    """
    hide_values(
        value
        for key, workflow in workflows.items()
        for secret in workflow.secrets
        if isinstance(value := _read_value(secret, layout.project / folders.get(key, ".")), str)
    )


def _make_values(workflow: Workflow, values: Mapping[str, str], key: bytes) -> SecretValues:
    hide_values(values.values())
    return SecretValues(
        values=values,
        digests={
            secret.name: _keyed_digest(values[secret.name], key)
            for secret in workflow.secrets
            if secret.fingerprint
        },
        sources=tuple(secret.source for secret in workflow.secrets if secret.file is None),
    )


def _read_value(secret: Secret, folder: Path) -> str | Problem:
    """Return the value of a secret without newlines at its end, or the problem that prevents reading it."""
    where, advice = (
        f"the environment variable {secret.source}",
        f"run `export {secret.source}=...` before weft",
    )
    text = os.environ.get(secret.source, "")
    if secret.file is not None:
        path = folder / Path(secret.file).expanduser()
        where, advice = f"the file '{path}'", "write the value into it"
        try:
            text = _read_secret_file(path).decode(errors="surrogateescape").rstrip("\r\n")
        except OSError as error:
            return Problem(what=f"secret {secret.name}: {where}: {error.strerror}", advice=advice)
    if not text or "\0" in text:
        what = (
            f"secret {secret.name}: {where} {'contains a NUL character' if text else 'is not set or empty'}"
        )
        return Problem(what=what, rule="a run needs every secret of its workflow", advice=advice)
    return text


def _read_secret_file(path: Path) -> bytes:
    """Return the content of a small regular file.

    Other files are refused, because a pipe or a device could block, or never end.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if len(content := os.read(file, _MOST_BYTES + 1)) > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {_MOST_BYTES} bytes", str(path))
        return content
    finally:
        os.close(file)


def _keyed_digest(value: str, key: bytes) -> str:
    content = value.encode(errors="surrogateescape")
    return hashlib.blake2b(content, key=key, digest_size=20).hexdigest()


def _read_key(home: Path) -> bytes:
    """Return the key of a project; if it has none yet, a random key is created."""
    path = home / "key"
    try:
        make_folder(home)
        with suppress(FileExistsError):
            create_file(path, os.urandom(_KEY_BYTES))
        if len(key := read_state(path, _KEY_BYTES)) < _KEY_BYTES:  # a full disk, or a crash in between
            key = os.urandom(_KEY_BYTES)
            write_file(path, key)
        return key
    except OSError as error:
        raise InvalidInput(f"cannot use the key of the project, '{path}': {error.strerror}") from None
