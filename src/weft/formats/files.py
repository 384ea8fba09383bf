"""Files in and out: formats are found by content when reading, by ending or name when writing."""

from __future__ import annotations

import sys
from pathlib import Path

from weft.errors import InvalidInput, Problem, SourceLocation, nearest, shorten
from weft.formats import FORMATS
from weft.formats.format import Format, PlatformReader, SourceFile
from weft.platform.platform import Platform
from weft.workflow.checks import check
from weft.workflow.workflow import Workflow

__all__ = [
    "STDIN",
    "detect_format",
    "find_writer",
    "load_platform",
    "load_workflow",
    "open_source",
    "read_workflow_file",
    "save_text",
    "save_workflow",
]

STDIN = "-"
"""The file name that means the standard input."""


def open_source(name: str | Path) -> SourceFile:
    """Read a file's bytes; what stands in the way is an InvalidInput."""
    if str(name) == STDIN:
        return SourceFile(name="<stdin>", data=sys.stdin.buffer.read())
    path, shown = Path(name), shorten(repr(str(name)), 200)
    try:
        if not str(name):
            raise InvalidInput(Problem(what="an empty file name", advice="name a file"))
        if path.is_dir():
            raise InvalidInput(Problem(what=f"{shown} is a folder", advice="name a file in it"))
        if path.is_char_device() or path.is_block_device():
            raise InvalidInput(Problem(what=f"{shown} is a device", advice="name a file"))
        # A name that is not UTF-8 must not break the messages and files it is written to.
        return SourceFile(name=str(name).encode(errors="replace").decode(), data=path.read_bytes())
    except FileNotFoundError:
        advice = _sibling_advice(path)
        raise InvalidInput(Problem(what=f"no file {shown}", advice=advice)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(Problem(what=f"cannot read {shown}: {reason}")) from None


def _sibling_advice(path: Path) -> str:
    """Find the file in the same folder that was probably meant; names are compared without their endings."""
    try:
        siblings = {entry.stem: entry.name for entry in sorted(path.parent.iterdir())}
    except OSError:
        return "check the path"
    close = nearest(path.stem, siblings)
    return f"did you mean {path.with_name(siblings[close])}?" if close else "check the path"


def detect_format(source: SourceFile) -> Format:
    """Find the format of a file by its content."""
    if not source.data.strip():
        place = SourceLocation(file=source.name)
        raise InvalidInput(Problem(what="the file is empty", advice="write a workflow into it", place=place))
    readers: list[Format] = []
    for name in FORMATS.builtin_first():  # loaded one by one: the later ones are not needed for most files
        reader: Format = FORMATS.load(name)()
        if reader.reads and reader.recognises(source):
            return reader
        readers += [reader] if reader.reads else []
    suffix = Path(source.name).suffix
    for reader in readers:
        if suffix in reader.extensions:
            return reader  # its own reading error says best what is wrong
    known = "; ".join(f"{reader.name}: {reader.title}" for reader in readers)
    what = "the content is of no known format"
    raise InvalidInput(Problem(what=what, rule=f"known are {known}", place=SourceLocation(file=source.name)))


def load_workflow(name: str | Path, *, format_name: str | None = None) -> Workflow:
    """Read and check a workflow file of any known format."""
    workflow = read_workflow_file(name, format_name=format_name)
    check(workflow)
    return workflow


def read_workflow_file(name: str | Path, *, format_name: str | None = None) -> Workflow:
    """Read a workflow file without checking what it says; ``checked_graph`` does that while unfolding."""
    source = open_source(name)
    reader: Format = detect_format(source) if format_name is None else FORMATS.load(format_name)()
    if not reader.reads:
        raise InvalidInput(Problem(what=f"format {reader.name!r} can be written, not read"))
    return reader.read(source)


def load_platform(text: str | Path) -> Platform:
    """Read a platform: a short form (``identical:8``, ``cluster:64``, ``local``) or a file.

    Besides our own files those of other formats will do that describe machines beside their tasks.
    """
    from weft.formats.native import read_platform_file
    from weft.platform.short_forms import parse_short_form

    if not Path(text).is_file():
        found = parse_short_form(str(text))
        if found is not None:
            return found
        _refuse_short_form(str(text))
    source = open_source(text)
    if not source.data.strip():
        raise InvalidInput(Problem(what="the file is empty", place=SourceLocation(file=source.name)))
    foreign = _find_platform_reader(source)
    return read_platform_file(source) if foreign is None else foreign.read_platform(source)


def _find_platform_reader(source: SourceFile) -> PlatformReader | None:
    """Find the other format that a file with machines is of; None: it should be one of ours."""
    from weft.formats.native import WeftYaml

    if WeftYaml().recognises(source):
        return None
    readers = (FORMATS.load(name)() for name in FORMATS.builtin_first())
    found = (reader for reader in readers if isinstance(reader, PlatformReader))
    return next((reader for reader in found if reader.recognises(source)), None)


def _refuse_short_form(text: str) -> None:
    """Explain a text that looks like a short form (``identicl:8``) but is none."""
    from weft.platform.short_forms import SHORT_FORMS

    word, colon, _ = text.partition(":")
    if colon and not Path(text).exists() and "/" not in text:
        close = nearest(word, SHORT_FORMS)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(SHORT_FORMS)}, or a file"
        raise InvalidInput(Problem(what=f"no platform {shorten(repr(text))}", advice=advice))


def find_writer(name: str | Path, format_name: str | None = None) -> Format:
    """Find the format to write, by its name or by the file's ending."""
    if format_name is not None:
        chosen: Format = FORMATS.load(format_name)()
        if not chosen.writes:
            raise InvalidInput(Problem(what=f"format {chosen.name!r} can be read, not written"))
        return chosen
    suffix = Path(name).suffix
    writers: list[Format] = [FORMATS.load(entry)() for entry in FORMATS]
    writers = [writer for writer in writers if writer.writes]
    for writer in writers:
        if suffix in writer.extensions:
            return writer
    known = ", ".join(f"{writer.extensions[0]} ({writer.name})" for writer in writers)
    advice = f"use one of {known}, or --to NAME"
    raise InvalidInput(Problem(what=f"no format is written to files ending in {suffix!r}", advice=advice))


def save_workflow(workflow: Workflow, name: str | Path, *, format_name: str | None = None) -> None:
    """Write a workflow in the format of the file's ending, or the one named."""
    text = find_writer(name, format_name).write(workflow)
    save_text(text, name)


def save_text(text: str, name: str | Path) -> None:
    """Write a text file (``-``: the standard output); what stands in the way is an InvalidInput."""
    if str(name) == STDIN:
        sys.stdout.write(text)
        return
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(Problem(what=f"cannot write {str(name)!r}: {error.strerror}")) from None
