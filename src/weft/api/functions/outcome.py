"""What became of calls: the value that a task left, or the exception it ended with.

A value is read only from where a task of this project has put it, and only if it is what was there when the
task ended: the journal's database keeps the content's hash.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from weft.api.executions.ran import Ran
from weft.api.functions.child import EXCEPTION, VALUE
from weft.api.functions.values import UnfitValue, decoded
from weft.api.observing.following import Place
from weft.api.observing.task_logs import Log
from weft.backends.layout import Layout
from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import open_inside
from weft.backends.staging.trees import DIGEST_SIZE
from weft.errors import WeftError
from weft.repository.products import StoredProducts

__all__ = ["RemoteTraceback", "TaskFailed", "exception_of", "value_of"]


class TaskFailed(WeftError):
    """A call did not succeed, and what it raised is not one of Python's own exceptions."""


class RemoteTraceback(Exception):
    """The traceback of the process in which a task ran."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def value_of(layout: Layout | None, workflow: str, name: str, missing: Any) -> Any:
    """Give the value of a call that has run; ``missing`` if it has not, or somebody has touched it."""
    if layout is None or not layout.database.is_file():
        return missing
    with Place.at(str(layout.project)) as place:
        product = StoredProducts(place.database).last_of(workflow, name)
    if product is None:
        return missing
    file = next((each for each in product.files if each.name == f"{name}{VALUE}"), None)
    content = None if file is None else _content(Path(product.directory), file.name)
    # What is read is what was hashed, and nothing that was put in its place meanwhile.
    if file is None or content is None or _digest(content) != file.digest:
        return missing
    return decoded(content, _no_reference)


def _content(directory: Path, name: str) -> bytes | None:
    try:
        with os.fdopen(open_inside(directory, name), "rb") as stream:
            return stream.read()
    except (OSError, StagingProblem):
        return None


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).hexdigest()


def _no_reference(file: str) -> Any:
    raise UnfitValue(f"a value refers to {file!r}")


def exception_of(ran: Ran) -> BaseException | None:
    """Make the exception by which the first call failed for good; None: none did."""
    failures = [each for each in ran.told.executed.failures if each.failed.for_good]
    if not failures:
        return None
    first = failures[0]
    text = _error_text(ran, first.failed.attempt)
    record = _record(text)
    shown = "\n".join(line for line in text.splitlines() if not line.startswith(EXCEPTION))
    made = _exception(record) if record is not None else None
    if made is None:
        told = f"{record['name']}: {record['text']}" if record else first.failed.reason
        made = TaskFailed(f"{first.failed.task}: {told}")
    made.__cause__ = RemoteTraceback(shown.strip() or first.text)
    return made


def _error_text(ran: Ran, attempt: int) -> str:
    log = Log(ran.layout.records(ran.execution, attempt) / "err")
    return b"".join(log.more()).decode(errors="replace")


def _record(text: str) -> dict[str, Any] | None:
    lines = [line for line in text.splitlines() if line.startswith(EXCEPTION)]
    try:
        found = json.loads(lines[-1].removeprefix(EXCEPTION)) if lines else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"module", "name", "text"} <= found.keys() else None


def _exception(record: dict[str, Any]) -> Exception | None:
    """Make one of Python's own exceptions; of others only the name is believed."""
    kind = getattr(builtins, str(record["name"]), None) if record["module"] == "builtins" else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or record.get("args") is None:
        return None
    try:
        return kind(*record["args"])
    except TypeError:
        return None
