"""The files of a GridWay job: what is staged in and out, under which names (S3 section 6).

An input is ``NAME`` or ``LOCAL REMOTE``, an output ``NAME`` or ``REMOTE LOCAL``, and LOCAL may be a URL;
entries are parted by commas. A file with an absolute path is on the machine already and not moved. An output
has one name in a workflow, the LOCAL one: the command moves REMOTE there at its end. The flags ``[shared]``,
``[compressed]`` and ``[size=12.2MB]`` behind an input are weft's way to write what S3 says of inputs.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from weft.errors import shorten
from weft.formats.complaints import Complaints
from weft.formats.gridway_template import Entry
from weft.formats.gridway_variables import Variables
from weft.units import parse_bytes
from weft.workflow.records.data import Input, Output

__all__ = ["JobFiles", "is_url", "split_list"]

_PART = re.compile(r'(?:"[^"]*"|[^,"]|")+')
_FLAGS = re.compile(r"\s*\[([^\]]*)\]\s*")
_SAFE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def split_list(text: str) -> list[str]:
    """Split a value at the commas that stand in no quotes."""
    return [part for match in _PART.finditer(text) if (part := match[0].strip())]


def is_url(name: str) -> bool:
    """Say whether a file is named by its URL."""
    return _URL.match(name) is not None


def _is_elsewhere(name: str) -> bool:
    return is_url(name) or name.startswith("/")


def _word(name: str) -> str:
    """Write a name as one word of a command line."""
    return name if _SAFE.fullmatch(name) else shlex.quote(name)


@dataclass(slots=True, kw_only=True)
class JobFiles:
    """Gathers the inputs and outputs of one job, each name once."""

    variables: Variables
    complaints: Complaints
    inputs: dict[str, Input] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    """Commands that give outputs their names, when the program has ended well."""
    on_machine: list[str] = field(default_factory=list)
    """Listed files with absolute paths: they are not moved."""

    def add_inputs(self, entry: Entry) -> None:
        """Take in INPUT_FILES."""
        for part in split_list(entry.value):
            flags = _FLAGS.search(part)
            words = (part if flags is None else part[: flags.start()]).split()
            if pair := self._pair(entry, words):
                name = self._add_input(entry, *pair)
                if name is None:
                    self._keep(pair[0])
                elif flags is not None:
                    self._flag(entry, name, flags[1])

    def add_outputs(self, entry: Entry) -> None:
        """Take in OUTPUT_FILES."""
        for part in split_list(entry.value):
            if pair := self._pair(entry, part.split()):
                self._add_output(entry, *pair)

    def read(self, entry: Entry) -> str:
        """Take in the one file that a keyword names for reading, and name it in the job's folder."""
        path = self.variables.in_name(entry, entry.value)
        return self._add_input(entry, path, None) or path

    def write(self, entry: Entry) -> str:
        """Take in the file of a stream, which GridWay always brings back; name it in the job's folder."""
        name = self.variables.in_name(entry, entry.value)
        if name == "/dev/null":
            return name
        if not _is_elsewhere(name):
            self.outputs.setdefault(name, Output(file=name))
            return name
        inside = self.variables.unique(self._base(entry, name))
        self.outputs.setdefault(inside, Output(file=inside, target=name))
        return inside

    def program(self, entry: Entry) -> str:
        """Take in a program, which is staged unless its path is absolute; give the word that calls it."""
        path = self.variables.in_name(entry, entry.value)
        name = self._add_input(entry, path, None) or path
        return _word(name if "/" in name else f"./{name}")

    def _pair(self, entry: Entry, words: list[str]) -> tuple[str, str | None] | None:
        names = [self.variables.in_name(entry, word.strip('"')) for word in words]
        if len(names) in (1, 2) and all(names):
            return names[0], names[1] if len(names) == 2 else None
        what = f"{shorten(repr(' '.join(words)), 60)} in {entry.key}"
        rule = "an entry is one name or two: where it comes from and where it goes"
        self.complaints.add(what, rule=rule, advice="part entries by commas", line=entry.line)
        return None

    def _add_input(self, entry: Entry, local: str, remote: str | None) -> str | None:
        """Note an input; give its name in the job's folder, None if it is on the machine already."""
        if local.startswith("/"):
            if remote is not None:
                self._renamed(entry, local, remote, f"write file://{local} {remote}")
            return None
        name = remote or (self._base(entry, local) if is_url(local) else local)
        self.inputs.setdefault(name, Input(file=name, source=None if name == local else local))
        return name

    def _add_output(self, entry: Entry, remote: str, local: str | None) -> None:
        if remote.startswith("/"):
            self._keep(remote)
            if local is not None:
                self._renamed(entry, remote, local, "name a file of the job's own folder")
        elif is_url(remote):
            what, rule = (
                f"the URL {shorten(remote, 60)} in {entry.key}",
                "the first name is the job's own file",
            )
            self.complaints.add(what, rule=rule, advice="write NAME URL", line=entry.line)
        else:
            target = local if local is not None and _is_elsewhere(local) else None
            # Without the index in its name, the tasks of an array would all write the same file.
            name = remote if local is None else self.variables.unique(remote) if target else local
            self.outputs.setdefault(name, Output(file=name, target=target))
            if name != remote:
                self.moves.append(f"mv {_word(remote)} {_word(name)}")

    def _keep(self, path: str) -> None:
        if path not in self.on_machine:
            self.on_machine.append(path)

    def _renamed(self, entry: Entry, path: str, other: str, advice: str) -> None:
        what = f"{shorten(path, 60)} is renamed to {shorten(other, 60)} in {entry.key}"
        rule = "a file with an absolute path is not moved"
        self.complaints.add(what, rule=rule, advice=advice, line=entry.line)

    def _base(self, entry: Entry, name: str) -> str:
        """Take the last part of a path or URL."""
        try:
            base = (urlsplit(name).path if is_url(name) else name).rpartition("/")[2]
        except ValueError:
            base = ""
        if not base:
            what = f"{shorten(name, 60)} in {entry.key} names no file"
            self.complaints.add(what, advice="end it with the name of a file", line=entry.line)
        return base or name

    def _flag(self, entry: Entry, name: str, flags: str) -> None:
        given = self.inputs[name]
        for flag in flags.replace(",", " ").split():
            key, _, value = flag.partition("=")
            if flag in ("shared", "compressed"):
                given = replace(given, **{flag: True})  # type: ignore[arg-type]
            elif key == "size":
                given = replace(given, size=self._size(entry, value))
            else:
                what = f"flag {shorten(repr(flag), 40)} in {entry.key}"
                self.complaints.add(what, rule="flags are shared, compressed, size=BYTES", line=entry.line)
        self.inputs[name] = given

    def _size(self, entry: Entry, text: str) -> float | None:
        size = parse_bytes(text)
        if size is None:
            what = f"size={shorten(text, 40)} in {entry.key}"
            self.complaints.add(
                what, rule="a size is a number of bytes, or has a unit: 12.2MB", line=entry.line
            )
        return size
