"""Fingerprints: hashes over everything a task's outputs depend on.

A fingerprint consists of one key and of parts that explain differences. A task is reused from an earlier run
if the same task of the same workflow has the same command after substitution, the same declared environment,
inputs and scripts with the same content, the same outputs and the same ``version:``. The machine and the
number of nodes do not matter, except for a transfer, whose output is a copy on a machine. Iterations of a
loop have different fingerprints, because they may read undeclared files. Values of environment variables are
stored only as digests, those of declared secrets as keyed digests. Secrets that are recognised in a command
are not stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from weft.backends.attempt.command import RenderedJob
from weft.backends.backend import Product
from weft.errors import shorten
from weft.records import dataclass
from weft.redaction import redact

_MOST_FILES = 100
"""If a part has at most this number of files, one digest per file is stored; otherwise one for all files."""
_MOST_CHARACTERS = 500
VALUES = "values"
"""Name of the part for the values in a command; fingerprints of older versions of weft do not have it."""
ISOLATION = "isolation"
"""Name of the part that only fingerprints of isolated tasks have."""
WRITER = "writer"
"""Key of the nonce of the attempt that wrote the files; stored beside the parts of a fingerprint."""
_SHORT = 12
_NAMED = {"inputs": "input", "scripts": "script", "environment": "environment variable"}
"""Parts that map names to digests; the value is the word for one entry of the part."""
_NOTHING: Mapping[str, str] = {}
_OTHERS = ("task", "command", "version", "isolation", "outputs")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The key and the parts of a task's fingerprint."""

    key: str
    parts: Mapping[str, str]


def compute_fingerprint(
    job: RenderedJob,
    inputs: Mapping[str, str],
    scripts: Mapping[str, str],
    secrets: Mapping[str, str] = _NOTHING,
) -> Fingerprint:
    """Return the fingerprint of a job.

    ``inputs`` and ``scripts`` map file names to digests of the content. ``secrets`` maps names of variables
    to keyed digests of their values.
    """
    environment_digests = {**_environment_digests(job), **secrets}
    whole: tuple[object, ...] = (
        job.identity,
        (job.command, job.values) if job.values else job.command,
        job.version,
        sorted(job.outputs),
        sorted(environment_digests.items()) if environment_digests else [],
        sorted(inputs.items()) if inputs else [],
        sorted(scripts.items()) if scripts else [],
    )
    values = _digest(job.values)[:_SHORT] if job.values else ""
    parts = {"task": job.identity, "command": _stored_text(job.command), VALUES: values}
    if job.isolation is not None:
        # Without isolation a program may have read undeclared files.
        parts[ISOLATION] = str(job.isolation)
        whole = (*whole, parts[ISOLATION])
    if job.version:
        parts["version"] = job.version
    if job.outputs:
        parts["outputs"] = _stored_text(" ".join(sorted(job.outputs)))
    for part, found in (("inputs", inputs), ("scripts", scripts), ("environment", environment_digests)):
        if found:
            parts[part] = _encode_digests(found)
    return Fingerprint(_digest(repr(whole)), parts)


def compute_transfer_fingerprint(identity: str, host: str, files: Mapping[str, str]) -> Fingerprint:
    """Return the fingerprint of a transfer.

    It depends on the transfer's identity, its destination and the content of its files.
    """
    parts = {"task": identity, "command": f"copy to {host}", "inputs": _encode_digests(files)}
    return Fingerprint(_digest(repr((identity, "transfer", host, sorted(files.items())))), parts)


def explain_staleness(parts: Mapping[str, str], old: Product) -> str:
    """Describe which parts of a fingerprint have changed since a product was made; "": none has changed."""
    if not old.parts:
        return "its earlier fingerprint was not recorded"
    found = []
    for part in _OTHERS:
        before, now = old.parts.get(part, ""), parts.get(part, "")
        if before != now and part == "task":
            found.append(_explain_identity(before, now))
        elif before != now:
            found.append(f"the {part} changed from {shorten(before or 'none', 80)!r}")
    if (
        VALUES in old.parts
        and old.parts[VALUES] != parts.get(VALUES)
        and old.parts.get("command") == parts.get("command")
    ):
        found.append("its command or a value in it changed")
    for part, word in _NAMED.items():
        found += _differences(old.parts.get(part, ""), parts.get(part, ""), word)
    return "; ".join(found)


def _explain_identity(before: str, now: str) -> str:
    """Describe how two identities (``folder:name:iteration``) differ."""
    folder, _, old = before.partition(":")
    if folder != now.partition(":")[0]:
        return f"it was produced by a workflow in {shorten(folder) if folder else 'the project folder'}"
    return f"it was produced by {shorten(old.rpartition(':')[0])}, iteration {old.rpartition(':')[2]}"


def _environment_digests(job: RenderedJob) -> dict[str, str]:
    """Return digests of declared variables, container, conda environment, modules and stdin, by name."""
    if not job.declared and job.environment is None and job.stdin is None:
        return {}
    found = {name: _digest(value) for name, value in job.declared.items()}
    environment = job.environment
    if environment is not None:
        stated = (environment.container, environment.conda, environment.modules)
        for name, value in zip(("container", "conda", "modules"), stated, strict=True):
            if value:
                found[f"{name}:"] = _digest(json.dumps(value))
    if job.stdin is not None:
        found["stdin:"] = _digest(job.stdin.removeprefix(f"{job.workdir}/"))
    return found


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def _stored_text(text: str) -> str:
    """Return a text with secrets redacted.

    A digest is added to a redacted text, so that a change of a secret is visible.
    """
    shown = redact(text)
    return _shorten_text(text) if shown == text else f"{_shorten_text(shown)} {_digest(text)[:_SHORT]}"


def _shorten_text(text: str) -> str:
    """Return a short text unchanged; shorten a long text to its beginning and a digest."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… {_digest(text)[:_SHORT]}"


def _encode_digests(digests: Mapping[str, str]) -> str:
    if len(digests) > _MOST_FILES:
        return f"{len(digests)} {_digest(json.dumps(sorted(digests.items())))}"
    return json.dumps({name: digest[:_SHORT] for name, digest in sorted(digests.items())})


def _differences(before: str, now: str, word: str) -> list[str]:
    if before == now:
        return []
    old, new = _entries(before), _entries(now)
    if old is None or new is None:
        return [f"at least one {word} changed"]
    changed = [name for name in new if name in old and old[name] != new[name]]
    added = [name for name in new if name not in old]
    removed = [name for name in old if name not in new]
    changes = ((changed, "changed"), (added, "is new"), (removed, "was removed"))
    return [f"{word} {_name_some(names)} {verb}" for names, verb in changes if names]


def _entries(text: str) -> dict[str, str] | None:
    """Return the digests in a stored part by name; None if they were too many to be stored individually."""
    if not text:
        return {}
    found: dict[str, str] | None = json.loads(text) if text.startswith("{") else None
    return found


def _name_some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shorten(name.rstrip(":")) for name in names[:3]) + more
