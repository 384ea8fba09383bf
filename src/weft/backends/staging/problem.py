"""What can go wrong with a file on its way: one type, which says what was tried, on which file, and why."""

from __future__ import annotations

import os

from weft.errors import WeftError

__all__ = ["StagingProblem", "quoted", "refusal", "telling"]

_LONGEST_NAME = 200


class StagingProblem(WeftError):
    """A file could not be brought, made sure of, or taken away."""

    def __init__(
        self,
        what: str,
        file: str,
        why: str,
        *,
        advice: str = "",
        number: int | None = None,
        lasting: bool = False,
    ) -> None:
        self.what = what
        """What was tried or demanded, such as ``cannot be linked``."""
        self.file = file
        self.why = why
        self.number = number
        """The system's error number, such as ``errno.ENOSPC``; ``EAGAIN``: it changed while it was read."""
        self.lasting = lasting
        """Whether trying again would not help: nobody but the user can change it."""
        tail = f"; {advice}" if advice else ""
        super().__init__(f"{quoted(file)} {what}: {why}{tail}")


def quoted(name: str) -> str:
    """Show a file name in a message: quoted, on one line, not too long, whatever bytes are in it."""
    text = repr(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 2]}…{text[0]}"


def telling(what: str, file: str) -> _Telling:
    """Tell what the system refuses in a ``with`` block as a staging problem of one file."""
    return _Telling(what, file)


class _Telling:
    """A class, because generators cost more than what is done in most of these blocks."""

    __slots__ = ("_file", "_what")

    def __init__(self, what: str, file: str) -> None:
        self._what = what
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise refusal(self._what, self._file, error) from error


def refusal(what: str, file: str, error: OSError, *, lasting: bool = False) -> StagingProblem:
    """Make a staging problem of what the system said."""
    why = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    return StagingProblem(what, file, why, number=error.errno, lasting=lasting)
