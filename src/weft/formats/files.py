"""Reading of files by content and writing by extension, in any format."""

from __future__ import annotations

import sys
from pathlib import Path

from weft.errors import InvalidInput, SourceLocation, nearest, shorten, suggest
from weft.formats import FORMATS
from weft.formats.format import Format, PlatformReader, SourceFile
from weft.platform.platform import Platform
from weft.private_files import write_file
from weft.redaction import has_secret, redact
from weft.workflow.checks import check
from weft.workflow.workflow import Workflow

STDIN = "-"
"""The file name that stands for standard input or output."""


def open_source(name: str | Path) -> SourceFile:
    """Return the content of a file. Raises InvalidInput if it cannot be read."""
    if str(name) == STDIN:
        return SourceFile(name="<stdin>", data=sys.stdin.buffer.read())
    path, shown = Path(name), shorten(repr(str(name)), 200)
    try:
        if not str(name):
            raise InvalidInput("the file name is empty", advice="name a file")
        if path.is_dir():
            raise InvalidInput(f"{shown} is a directory", advice="name a file in this directory")
        if path.is_char_device() or path.is_block_device():
            raise InvalidInput(f"{shown} is a device", advice="name a file")
        # A file name that is not UTF-8 must not break messages and written files.
        return SourceFile(name=str(name).encode(errors="replace").decode(), data=path.read_bytes())
    except FileNotFoundError:
        advice = _sibling_advice(path)
        raise InvalidInput(f"no file {shown}", advice=advice) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"cannot read {shown}: {reason}") from None


def _sibling_advice(path: Path) -> str:
    """Return advice that names the file in the same folder whose name, without extension, is most similar."""
    try:
        siblings = {entry.stem: entry.name for entry in sorted(path.parent.iterdir())}
    except OSError:
        return "check the path"
    close = nearest(path.stem, siblings)
    return f"did you mean {path.with_name(siblings[close])}?" if close else "check the path"


def detect_format(source: SourceFile) -> Format:
    """Return the format of a file by its content; raise InvalidInput for an empty or unknown file.

    If no format recognises the content, the extension of the file selects the format.
    """
    if not source.data.strip():
        location = SourceLocation(file=source.name)
        raise InvalidInput("the file is empty", advice="write a workflow into the file", location=location)
    readers: list[Format] = []
    for _, kind in FORMATS.load_each():  # loads one at a time: most files have one of the first formats
        reader: Format = kind()
        if reader.reads and reader.recognises(source):
            return reader
        readers += [reader] if reader.reads else []
    suffix = Path(source.name).suffix
    for reader in readers:
        if suffix in reader.extensions:
            return reader  # this reader raises the most specific error message
    from weft.formats.predictions import is_csv_predictions  # imports this module

    if is_csv_predictions(source):
        what = "this file is a table, which may hold predictions; it describes no tasks"
        advice = "use it beside a workflow: --predictions FILE; `weft check FILE` checks it"
        raise InvalidInput(what, advice=advice, location=SourceLocation(file=source.name))
    known = "; ".join(f"{reader.name}: {reader.title}" for reader in readers)
    what = "the content has no known format"
    raise InvalidInput(what, rule=f"known formats are {known}", location=SourceLocation(file=source.name))


def load_workflow(name: str | Path, *, format_name: str | None = None) -> Workflow:
    """Return the checked workflow of a file of any format."""
    workflow = read_workflow_file(name, format_name=format_name)
    check(workflow)
    return workflow


def read_workflow_file(name: str | Path, *, format_name: str | None = None) -> Workflow:
    """Return the workflow of a file without checking it; callers check it with ``check_and_unfold``."""
    source = open_source(name)
    reader: Format = detect_format(source) if format_name is None else FORMATS.load(format_name)()
    if not reader.reads:
        raise InvalidInput(f"format {reader.name!r} can be written, not read")
    return reader.read(source)


def load_platform(text: str | Path) -> Platform:
    """Return a platform from a short form (``identical:8``, ``cluster:64``, ``local``) or a file.

    Files of other formats are accepted if they describe machines.
    """
    from weft.formats.native import read_platform_file
    from weft.platform.short_forms import parse_short_form

    if not Path(text).is_file():
        if (found := parse_short_form(str(text))) is not None:
            return found
        _refuse_short_form(str(text))
    source = open_source(text)
    if not source.data.strip():
        raise InvalidInput("the file is empty", location=SourceLocation(file=source.name))
    foreign = _find_platform_reader(source)
    return read_platform_file(source) if foreign is None else foreign.read_platform(source)


def describes_machines(name: str | Path) -> bool:
    """Return whether a file of another format than weft's own also describes machines."""
    return Path(name).is_file() and _find_platform_reader(open_source(name)) is not None


def _find_platform_reader(source: SourceFile) -> PlatformReader | None:
    """Return the reader of a platform in a format other than weft's own; None if there is no such reader."""
    from weft.formats.native import WeftYaml

    if WeftYaml().recognises(source):
        return None
    readers = (kind() for _, kind in FORMATS.load_each())
    found = (reader for reader in readers if isinstance(reader, PlatformReader))
    return next((reader for reader in found if reader.recognises(source)), None)


def _refuse_short_form(text: str) -> None:
    """Raise InvalidInput for a text that resembles a short form (``identicl:8``)."""
    from weft.platform.short_forms import SHORT_FORMS

    word, colon, _ = text.partition(":")
    if colon and not Path(text).exists() and "/" not in text:
        advice = suggest(word, SHORT_FORMS, f"known: {', '.join(SHORT_FORMS)}, or a file")
        raise InvalidInput(f"no platform {shorten(repr(text))}", advice=advice)


def find_writer(name: str | Path, format_name: str | None = None) -> Format:
    """Return the format to write, selected by its name or by the extension of the file."""
    if format_name is not None:
        chosen: Format = FORMATS.load(format_name)()
        if not chosen.writes:
            raise InvalidInput(f"format {chosen.name!r} can be read, not written")
        return chosen
    suffix = Path(name).suffix
    writers: list[Format] = []
    readers: list[str] = []
    for entry, kind in FORMATS.load_each():
        found: Format = kind()
        if found.writes and suffix in found.extensions:
            return found
        writers += [found] if found.writes else []
        readers += [entry] if suffix in found.extensions else []
    if readers:
        what = f"files {suffix!r} have the format {readers[0]!r}, which can be read, not written"
        raise InvalidInput(what, advice="choose another format; `weft formats` lists all of them")
    known = ", ".join(f"{writer.extensions[0]} ({writer.name})" for writer in writers)
    advice = f"use one of {known}, or --to NAME"
    raise InvalidInput(f"no format has the file extension {suffix!r}", advice=advice)


def save_workflow(workflow: Workflow, name: str | Path, *, format_name: str | None = None) -> None:
    """Write a workflow to a file in the named format, by default in the format of its extension.

    Only this user can read the file if a URL in it contains a password, a token or a signature.
    """
    text = find_writer(name, format_name).write(workflow)
    save_text(text, name, is_private=has_secret(text))


def save_report(text: str, name: str | Path) -> None:
    """Redact secrets in a page or table and write it with ``save_text``."""
    save_text(redact(text), name)


def save_text(text: str, name: str | Path, *, is_private: bool = False) -> None:
    """Write a text to a file, or to standard output for ``-``. Raises InvalidInput if that fails.

    ``is_private``: only this user can read the file.
    """
    if str(name) == STDIN:
        # Control characters are escaped on a terminal only; a file or pipe gets the text unchanged.
        stream = sys.stdout if sys.stdout.isatty() else getattr(sys.stdout, "unfiltered", sys.stdout)
        stream.write(text)
        return
    try:
        # File names that are not UTF-8 contain surrogates, which cannot be encoded.
        write_file(Path(name), text.encode(errors="replace"), is_private=is_private)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(name)!r}: {error.strerror}") from None
