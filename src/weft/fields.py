"""Fields of the records in weft's files; readers, writers, schemas and tables are derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from functools import cached_property
from itertools import compress, groupby
from operator import attrgetter, ne
from typing import Any, NamedTuple

from weft.documents import DocumentNode, Reader
from weft.records import dataclass

Shape = dict[str, Any]
"""A piece of JSON Schema, draft 2020-12."""

ANY_SHAPE: Shape = {}
NULL_SHAPE: Shape = {"type": "null"}
TEXT_SHAPE: Shape = {"type": ["string", "number"]}
"""Schema of a text, such as a name, a command or a path; a number is accepted and converted to text."""
QUANTITY_SHAPE: Shape = {"type": ["number", "string"], "minimum": 0}
"""Schema of a number, a quantity with a unit, or an expression."""


def any_of(*shapes: Shape) -> Shape:
    """Return the schema of a value that fits one of several schemas."""
    return {"anyOf": list(shapes)}


def list_shape(item: Shape) -> Shape:
    """Return the schema of a list. A single entry may be given without a list, and null is an empty list."""
    return any_of(item, {"type": "array", "items": item}, NULL_SHAPE)


def mapping_shape(values: Shape, *, least: int = 0) -> Shape:
    """Return the schema of a mapping from any name to values of one schema."""
    return {"type": "object", "additionalProperties": values, **({"minProperties": least} if least else {})}


def _unchanged(value: Any) -> Any:
    return value


def keep_node(_reader: Reader, node: DocumentNode) -> DocumentNode:
    """Return the node unchanged, for keys that the caller of ``Record.read`` reads later."""
    return node


def never_written(_record: Any) -> None:
    """Return None. A field with this function as ``write_record`` is read but never written."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of value in a file: its name, its JSON Schema, and functions that read and write it."""

    label: str
    """The name of the type on the reference page."""
    shape: Shape
    read: Callable[[Reader, DocumentNode], Any]
    """Function that returns the value to store, or None after adding a problem."""
    write: Callable[[Any], Any] = _unchanged
    """Function that returns the plain value for a file. If it returns None, the key is not written."""
    unit: str = ""
    """Unit of the stored number."""


def _read_texts(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    return tuple(reader.text(item) or "" for item in reader.listing(node))


TEXT = ValueType("text", TEXT_SHAPE, Reader.text)
TEXTS = ValueType("list of texts", list_shape(TEXT_SHAPE), _read_texts, list)
TEXTS_BY_NAME = ValueType(
    "mapping of texts",
    mapping_shape(TEXT_SHAPE),
    lambda reader, node: {key: reader.text(text) or "" for key, text in reader.mapping(node).items()},
    dict,
)
FLAG = ValueType("true or false", {"type": "boolean"}, Reader.flag)


def choice(words: Sequence[str]) -> ValueType:
    """Return the type of a value that is one of a few words."""
    label = ", ".join(f"`{word}`" for word in words)
    return ValueType(label, {"enum": list(words)}, lambda reader, node: reader.choice(node, words))


def integer(least: int, *, label: str = "whole number") -> ValueType:
    """Return the type of a whole number with a lower bound."""
    shape = {"type": "integer", "minimum": least}
    return ValueType(label, shape, lambda reader, node: reader.integer(node, least=least))


VERSION = 1
"""The version of the file format: ``weft: 1``."""


def _read_version(reader: Reader, node: DocumentNode) -> None:
    if isinstance(node.value, bool) or node.value != VERSION:
        newer = isinstance(node.value, int) and node.value > VERSION
        advice = "use a newer weft for this file" if newer else f"write `weft: {VERSION}`"
        what = f"version {node.display()} of the file format"
        reader.add_problem(node, what, rule=f"this weft reads version {VERSION}", advice=advice)


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record."""

    key: str
    type: ValueType
    help: str
    """Help text of one line in Markdown, for editors and the reference page."""
    _: KW_ONLY
    default: Any = None
    """Value that is stored if the key is absent; a field with this value is not written."""
    default_text: str = ""
    """Text for the default on the reference page, if ``default`` does not explain itself."""
    attribute: str = ""
    """Where the value is stored: ``name``, ``group.name``, or ``group.*`` for a mapping that is merged into
    the group. If empty, the attribute is named like the key.
    """
    required: bool = False
    advice: str = ""
    """Advice in the message about a missing required key."""
    write_record: Callable[[Any], Any] | None = None
    """Function that computes the plain value from the whole record, if it depends on several attributes."""

    @property
    def target(self) -> tuple[str, str]:
        """Return (group, attribute) in which the value is stored; the group is "" for the record itself."""
        group, _, name = self.attribute.rpartition(".")
        return group, name or self.key


def version_field(*, required: bool) -> Field:
    """Return the field ``weft``, which states the version of the format."""
    kind = ValueType(str(VERSION), {"const": VERSION}, _read_version)
    text, advice = "version of the file format", f"add `weft: {VERSION}`"
    return Field("weft", kind, text, required=required, advice=advice, write_record=lambda _: VERSION)


class _FieldRun(NamedTuple):
    """Consecutive fields of one group, which are written together; or one field with ``write_record``."""

    get: Callable[[Any], tuple[Any, ...]]
    """Function that takes a record (or its group) and returns the values of these fields."""
    defaults: tuple[Any, ...]
    writers: list[tuple[str, Callable[[Any], Any]]]
    """For each field: its key, and the function that converts the stored value to a plain value."""
    write_record: Callable[[Any], Any] | None


def _make_run(fields: Sequence[Field]) -> _FieldRun:
    group, names = fields[0].target[0], [each.target[1] for each in fields]
    defaults = tuple(each.default for each in fields)
    getter = attrgetter(*names)
    get = getter if len(names) > 1 else lambda holder: (getter(holder),)

    def get_from_group(record: Any) -> tuple[Any, ...]:
        if (holder := getattr(record, group)) is None:
            return defaults
        return tuple(map(holder.get, names)) if hasattr(holder, "keys") else get(holder)

    writers = [(each.key, each.type.write) for each in fields]
    return _FieldRun(get_from_group if group else get, defaults, writers, fields[0].write_record)


@dataclass(frozen=True)
class Record:
    """The fields of one kind of mapping in a file.

    The fields define how a mapping is read and written, its JSON Schema and its table on the reference page.
    """

    title: str
    """Name of this kind of mapping with its article, for messages: ``a loop``."""
    fields: tuple[Field, ...]
    _: KW_ONLY
    null_is_absent: bool = False
    """Whether a key whose value is null counts as absent."""
    constraints: Shape = field(default_factory=dict)
    """Rules over several keys, as JSON Schema."""

    @cached_property
    def help(self) -> dict[str, str]:
        """Return the help text of every key."""
        return {each.key: each.help for each in self.fields}

    @cached_property
    def _targets(self) -> dict[str, tuple[Callable[[Reader, DocumentNode], Any], str, str]]:
        return {each.key: (each.type.read, *each.target) for each in self.fields}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {each.key: position for position, each in enumerate(self.fields)}

    def read_entries(self, reader: Reader, node: DocumentNode) -> dict[str, DocumentNode]:
        """Return the nodes of the known keys; add problems for unknown and for missing keys."""
        entries = reader.mapping(node, self._targets)
        if self.null_is_absent:
            entries = {key: value for key, value in entries.items() if value.value is not None}
        if isinstance(node.value, dict):
            for each in self.fields:
                if each.required and each.key not in entries:
                    required = " and ".join(each.key for each in self.fields if each.required)
                    what = f"{self.title} without the key {each.key!r}"
                    reader.add_problem(
                        node, what, rule=f"{self.title} must have {required}", advice=each.advice
                    )
        return entries

    def read_values(self, reader: Reader, entries: Mapping[str, DocumentNode]) -> dict[str, Any]:
        """Return the values to store, by attribute; a group is a dictionary. Absent keys are left out.

        Keys are read in the order of the fields, so that a later field may override an earlier one.
        """
        found: dict[str, Any] = {}
        for key in sorted(entries, key=self._order.__getitem__):
            read, group, name = self._targets[key]
            if (value := read(reader, entries[key])) is None:
                continue
            holder = found.setdefault(group, {}) if group else found
            if name == "*":
                holder.update(value)
            else:
                holder[name] = value
        return found

    def read(self, reader: Reader, node: DocumentNode) -> dict[str, Any]:
        """Return the values to store by attribute (see ``read_values``); add every problem to the reader."""
        return self.read_values(reader, self.read_entries(reader, node))

    @cached_property
    def _runs(self) -> list[_FieldRun]:
        written = (each for each in self.fields if each.write_record is not never_written)
        runs = groupby(written, lambda each: each.key if each.write_record else each.target[:1])
        return [_make_run(list(fields)) for _, fields in runs]

    def write(self, record: Any) -> dict[str, Any]:
        """Return a record as a plain mapping for a file, without fields that have their default value."""
        found: dict[str, Any] = {}
        for get, defaults, writers, write_record in self._runs:
            if write_record is not None:
                if (plain := write_record(record)) is not None:
                    found[writers[0][0]] = plain
            # Most groups have only defaults, which one comparison of tuples detects.
            elif (values := get(record)) != defaults:
                for position, value in compress(enumerate(values), map(ne, values, defaults)):
                    key, write = writers[position]
                    if value is not None and (plain := write(value)) is not None:
                        found[key] = plain
        return found

    def shape(self) -> Shape:
        """Return the JSON Schema of the mapping."""
        required = [each.key for each in self.fields if each.required]
        return {
            "type": "object",
            "properties": {
                each.key: {"description": each.help, **self._value_shape(each)} for each in self.fields
            },
            "additionalProperties": False,
            **({"required": required} if required else {}),
            **self.constraints,
        }

    def _value_shape(self, each: Field) -> Shape:
        optional = self.null_is_absent and not each.required
        return any_of(each.type.shape, NULL_SHAPE) if optional else each.type.shape
