"""Registries: interchangeable things found by name and loaded only when asked for.

A registry is a mapping from a short name to a dotted name (``package.module:attribute``). Other
packages add to
it through the entry-point group of the same name (``weft.planners``, ``weft.formats``, ...).

Things of a registry by name, with options: ``heft``, ``heft:averaging=self-loops``, ``foft:intra=priority``.

The options of such a thing are the fields of its dataclass, so that the command line, the documentation and
studies read them from one place.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from weft.errors import InvalidInput, Problem, nearest

__all__ = ["Registry", "list_options", "make_by_name"]


class Registry:
    """A named collection of dotted names; ``load`` imports one of them."""

    def __init__(
        self, group: str, noun: str, entries: Mapping[str, str], *, aliases: Mapping[str, str] | None = None
    ) -> None:
        self.group = group
        self.noun = noun
        self._own = dict(entries)
        self._aliases = dict(aliases or {})
        """Other names under which entries are known, as in papers; they are found but not listed."""
        self._all: dict[str, str] | None = None

    def _entries(self) -> dict[str, str]:
        if self._all is None:
            # Entry points cost a directory scan, so they are read at the first look-up, not at import.
            from importlib.metadata import entry_points

            foreign = {point.name: point.value for point in sorted(entry_points(group=self.group))}
            self._all = foreign | self._own
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def builtin_first(self) -> Iterator[str]:
        """Name our own entries as they are listed, then the others, which are not looked for before."""
        yield from self._own
        yield from (name for name in self if name not in self._own)

    def __contains__(self, name: str) -> bool:
        return name in self._own or name in self._aliases or name in self._entries()

    def load(self, name: str) -> Any:
        """Import and return what stands on the registry under this name."""
        meant = self._aliases.get(name, name)
        target = self._own.get(meant) or self._entries().get(meant)
        if target is None:
            close = nearest(name, (*self, *self._aliases))
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(self)}"
            raise InvalidInput(Problem(what=f"unknown {self.noun} {name!r}", advice=hint))
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)


def make_by_name(registry: Registry, text: str) -> Any:
    """Make what a name with options describes."""
    name, *settings = text.split(":")
    kind = registry.load(name)
    known = {field.name: field for field in list_options(kind)}
    types = get_type_hints(kind) if known else {}
    given: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise _unknown_option(f"{registry.noun} {name!r}", setting, list(known))
        given[key] = _parse_option(types[key], value.strip(), f"{name}:{setting}")
    return kind(**given)


def list_options(kind: type) -> tuple[Field[Any], ...]:
    """List the options of such a thing: the fields of its dataclass."""
    return fields(kind) if is_dataclass(kind) else ()


def _unknown_option(whose: str, setting: str, known: list[str]) -> InvalidInput:
    what = f"{whose} has no option {setting!r}"
    close = nearest(setting.partition("=")[0], known)
    listed = f"its options: {', '.join(known)}" if known else "it has no options"
    return InvalidInput(Problem(what=what, advice=f"did you mean '{close}=...'?" if close else listed))


def _parse_option(kind: Any, text: str, where: str) -> Any:
    """Read one option as the type of its field: a number, true or false, or one of some words."""
    words = get_args(kind)
    if words:
        if text not in words:
            raise InvalidInput(Problem(what=where, rule=f"must be one of {', '.join(map(str, words))}"))
        return text
    if kind is bool:
        if text not in ("true", "false"):
            raise InvalidInput(Problem(what=where, rule="must be true or false"))
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise InvalidInput(Problem(what=where, rule=f"must be a number, not {text!r}")) from None
