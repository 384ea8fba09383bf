"""The contract of the shelf ``formats``: read it first.

A format recognises its files by content, reads them into a workflow, and may write one. Files that describe
machines beside the tasks give a platform, too. A damaged file gives an InvalidInput with the place, never a
traceback.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from weft.errors import InvalidInput, Place, Problem
from weft.platform.platform import Platform
from weft.workflow.records.workflow import Workflow

__all__ = ["Format", "PlatformReader", "Source", "damaged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The bytes of one file and the name to show for it."""

    name: str
    data: bytes

    @property
    def head(self) -> str:
        """Give the first characters, enough to recognise a format by."""
        return self.data[:65536].decode("utf-8", errors="replace").lstrip("\ufeff")

    @property
    def stem(self) -> str:
        """Give the file's name without folder and ending: the default name of a workflow."""
        return Path(self.name).name.split(".")[0] or "workflow"

    def text(self) -> str:
        """Decode the whole file."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            what = f"byte {self.data[error.start]:#04x} at offset {error.start} is not UTF-8"
            place = Place(file=self.name, line=line)
            raise InvalidInput(
                Problem(what=what, rule="files are UTF-8 text", advice="save the file as UTF-8", place=place)
            ) from None


def damaged(source: Source, what: str, *, line: int | None = None, column: int | None = None,
            path: tuple[str | int, ...] = (), rule: str = "", advice: str = "") -> InvalidInput:  # fmt: skip
    """Make the error for a file that does not follow its format."""
    place = Place(file=source.name, line=line, column=column)
    return InvalidInput(Problem(what=what, rule=rule, advice=advice, path=path, place=place))


class Format(Protocol):
    """One file format for workflows."""

    name: str
    """The word for ``--from`` and ``--to``."""
    title: str
    """What it is, in a few words, for lists."""
    extensions: tuple[str, ...]
    """Endings it is written under, the usual one first (``.dot``)."""
    reads: bool
    writes: bool

    def recognises(self, source: Source) -> bool:
        """Say, from the content alone and cheaply, whether a file is of this format."""
        ...

    def read(self, source: Source) -> Workflow:
        """Read a workflow. Raises InvalidInput."""
        ...

    def write(self, workflow: Workflow) -> str:
        """Write a workflow as text. Raises InvalidInput if the format cannot say it."""
        ...


@runtime_checkable
class PlatformReader(Protocol):
    """A format whose files describe machines beside the tasks: ``--on FILE`` takes them."""

    def recognises(self, source: Source) -> bool:
        """Say, from the content alone and cheaply, whether a file is of this format."""
        ...

    def read_platform(self, source: Source) -> Platform:
        """Read the machines. Raises InvalidInput."""
        ...
