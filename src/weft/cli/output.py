r"""Standard output and error of the command, without secrets and control characters.

Names, values and file names may contain escape sequences that move the cursor, set the title or hide text.
The output streams replace every control character by its escape (``\x1b``) and redact secrets, whichever code
prints them. ``write_styled`` writes the escape sequences of weft itself, ``write_exactly`` writes data for
other programs.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from typing import Any, TextIO, cast

from weft.redaction import redact

_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""Control characters except newline and tab, marks that change the direction of text, lone surrogates."""

_STREAM_ENCODING = "_WEFT_STREAM_ENCODING"
"""Environment variable that passes the terminal's encoding to the interpreter that replaces this one."""


def escape_controls(text: str) -> str:
    r"""Return a text with escapes such as ``\x1b`` instead of control characters; newline and tab stay."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def escape_json(text: str) -> str:
    r"""Return a JSON document with escapes such as ``\u009b`` for control characters in its strings."""
    return _CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], text)


class PrintableStream:
    """A text stream that redacts secrets and escapes control characters.

    It has no attribute ``buffer``, because click would write to the buffer, unfiltered, if the encoding is
    ASCII.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.unfiltered = stream

    def write(self, text: str) -> int:
        """Write a text with secrets redacted and control characters escaped; return ``len(text)``."""
        self.unfiltered.write(escape_controls(redact(text)))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.unfiltered, name)


def write_styled(stream: TextIO, text: str) -> None:
    """Write a text with colours and cursor movements; names in the text must already be escaped."""
    _unfiltered(stream).write(redact(text))


def write_exactly(data: bytes) -> None:
    """Write bytes to the standard output: a file for another program, or the output of a task."""
    stream = _unfiltered(sys.stdout)
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


def _unfiltered(stream: TextIO) -> TextIO:
    return stream.unfiltered if isinstance(stream, PrintableStream) else stream


def prepare_streams() -> None:
    """Open streams that the caller has closed; redact secrets and escape control characters in the output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: `weft ... >&-`
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            # Print unsupported characters as question marks or escapes instead of failing.
            stream.reconfigure(encoding=os.environ.get(_STREAM_ENCODING), errors=errors)
            setattr(sys, name, cast("TextIO", PrintableStream(stream)))
    os.environ.pop(_STREAM_ENCODING, None)


def ensure_utf8_names() -> None:
    """Restart the interpreter in UTF-8 mode unless it already encodes file names and arguments in UTF-8.

    In a locale such as ISO 8859-1, the interpreter cannot encode some file names of workflows.
    The encoding of the output stays that of the terminal.
    """
    if sys.getfilesystemencoding() == "utf-8":
        return
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    os.environ[_STREAM_ENCODING] = encoding
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
