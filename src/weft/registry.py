"""Registries: interchangeable implementations that are selected by name and imported on first use.

A registry maps a short name to a dotted name (``package.module:attribute``). Other packages add entries
through the entry-point group of the registry (``weft.planners``, ``weft.formats``, ...). Options may
follow the name of an entry: ``heft:averaging=self-loops``. They are the fields of the entry's dataclass; the
command line, the documentation and studies list them.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from types import NoneType, TracebackType
from typing import Any, get_args, get_type_hints

from weft.errors import InvalidInput, nearest, suggest


class UnavailableEntry(InvalidInput):
    """An entry of another package cannot be imported, or is no implementation."""


_FOREIGN: dict[object, str] = {}
"""Descriptions of the loaded entries of other packages; keys are the entries and their top-level modules."""


def describe_foreign_entry(kind: type) -> str | None:
    """Return a description of a class that another package has registered; None for other classes."""
    return _FOREIGN.get(kind)


def find_foreign_entry(traceback: TracebackType | None) -> str | None:
    """Return a description of the plug-in of another package whose code occurs in a traceback, or None."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if (exact := _FOREIGN.get(type(frame.f_locals.get("self")))) is not None:
            return exact
        found = _FOREIGN.get(str(frame.f_globals.get("__name__", "")).partition(".")[0], found)
        traceback = traceback.tb_next
    return found


class Registry:
    """A mapping from names to implementations; ``load`` imports the implementation with a name."""

    def __init__(
        self,
        group: str,
        noun: str,
        entries: Mapping[str, str],
        *,
        interface: tuple[str, ...] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.group = group
        self.noun = noun
        self.interface = interface
        """Attributes that the class of every entry has; other packages may register anything."""
        self.builtin = dict(entries)
        self._aliases = dict(aliases or {})
        """Alternative names of entries, as used in papers; ``load`` accepts them, iteration omits them."""
        self._all: dict[str, str] | None = None

    def _entries(self) -> dict[str, str]:
        if self._all is None:
            # Reading entry points scans directories, so it is done at the first lookup, not at import.
            from importlib.metadata import entry_points

            foreign = {point.name: point.value for point in sorted(entry_points(group=self.group))}
            self._all = foreign | self.builtin
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def builtin_first(self) -> Iterator[str]:
        """Yield the built-in names in listed order, then the names of entry points of other packages.

        Entry points are read only if the caller continues after the built-in names.
        """
        yield from self.builtin
        yield from (name for name in self if name not in self.builtin)

    def __contains__(self, name: str) -> bool:
        return name in self.builtin or name in self._aliases or name in self._entries()

    def load(self, name: str) -> Any:
        """Import and return the entry of this name, or raise InvalidInput."""
        canonical = self._aliases.get(name, name)
        target = self.builtin.get(canonical) or self._entries().get(canonical)
        if target is None:
            hint = suggest(name, (*self, *self._aliases), f"known: {', '.join(self)}")
            raise InvalidInput(f"unknown {self.noun} {name!r}", advice=hint)
        module, _, attribute = target.partition(":")
        if canonical in self.builtin:
            return getattr(importlib.import_module(module), attribute)
        from importlib.metadata import entry_points

        points = entry_points(group=self.group, name=name)
        package = next((point.dist.name for point in points if point.dist is not None), "?")
        entry = f"{self.noun} {name!r} of package {package}"
        try:
            found = getattr(importlib.import_module(module), attribute)
        except Exception as error:
            what = f"{entry} cannot be imported: {type(error).__name__}: {error}"
            raise UnavailableEntry(what, advice=f"repair or uninstall package {package}") from error
        missing = ", ".join(name for name in self.interface if not hasattr(found, name))
        if missing or not callable(found):
            fault = f"is without {missing}" if callable(found) else "is no class"
            what = f"{entry} cannot be used: {target} {fault}"
            raise UnavailableEntry(what, advice=f"repair or uninstall package {package}")
        _FOREIGN[found] = _FOREIGN[module.partition(".")[0]] = entry
        return found

    def load_titled(self) -> Iterator[tuple[str, Any | None, str]]:
        """Yield (name, entry, title) of each entry; (name, None, reason) if it is unavailable."""
        for name in self:
            try:
                found = self.load(name)
            except UnavailableEntry as error:
                yield name, None, f"unavailable: {error.problems[0].what}"
            else:
                yield name, found, str(getattr(found, "title", ""))

    def load_each(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, entry), built-in ones first; skip unavailable entries, with a warning."""
        for name in self.builtin_first():
            try:
                found = self.load(name)
            except UnavailableEntry as error:
                sys.stderr.write(f"warning: {error}\n")
                continue
            yield name, found


def make_by_name(registry: Registry, text: str) -> Any:
    """Return an instance of the registry entry that ``name:option=value:...`` describes.

    Options after the first may also be separated by commas.
    """
    name, *settings = _SEPARATOR.split(text)
    kind = registry.load(name)
    known = {field.name: field for field in list_options(kind)}
    types = get_type_hints(kind) if known and settings else {}
    given: dict[str, Any] = {}
    for setting in settings:
        option, equals, value = setting.partition("=")
        key = option.strip().replace("-", "_")
        if key not in known:
            raise _unknown_option(f"{registry.noun} {name!r}", option.strip(), list(known))
        if not equals:
            what = f"option {key!r} of {registry.noun} {name!r} has no value"
            raise InvalidInput(what, advice=f"write '{key}=...'")
        given[key] = _parse_option(types[key], value.strip(), f"{name}:{setting}")
    return kind(**given)


_SEPARATOR = re.compile(r":|,(?=\s*[\w-]+\s*=)")
"""Separator between a name and its options, and between options."""


def split_names(text: str) -> list[str]:
    """Return the names in a list such as ``heft,genetic:population=50,scaling=2``, each with its options."""
    return [part.strip() for part in _BETWEEN_NAMES.split(text)]


_BETWEEN_NAMES = re.compile(r",(?!\s*[\w-]+\s*=)")


def list_options(kind: type) -> tuple[Field[Any], ...]:
    """Return the options of an entry: the fields of its dataclass."""
    return fields(kind) if is_dataclass(kind) else ()


def option_type(kind: Any) -> Any:
    """Return the type of an option's values: ``T`` for a field of type ``T | None``, else ``kind``."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    return parts[0] if NoneType in get_args(kind) and len(parts) == 1 else kind


def _unknown_option(whose: str, option: str, known: list[str]) -> InvalidInput:
    what = f"{whose} has no option {option!r}"
    close = nearest(option, known)
    listed = f"its options: {', '.join(known)}" if known else "it has no options"
    return InvalidInput(what, advice=f"did you mean '{close}=...'?" if close else listed)


def _parse_option(kind: Any, text: str, where: str) -> Any:
    """Return the value of an option, converted to the type of its field."""
    kind = option_type(kind)
    if words := get_args(kind):
        if text not in words:
            known = list(map(str, words))
            rule = f"must be one of {', '.join(known)}"
            raise InvalidInput(where, rule=rule, advice=suggest(text, known))
        return text
    if kind is bool:
        if text not in ("true", "false"):
            raise InvalidInput(where, rule="must be true or false")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        noun = "a whole number" if kind is int else "a number"
        raise InvalidInput(where, rule=f"must be {noun}, not {text!r}") from None
