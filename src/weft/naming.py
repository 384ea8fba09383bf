"""Things of a shelf by name, with options: ``heft``, ``heft:averaging=self-loops``, ``foft:intra=priority``.

The options of such a thing are the fields of its dataclass, so that the command line, the documentation and
studies read them from one place.
"""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any, get_args, get_type_hints

from weft.errors import InvalidInput, Problem, nearest
from weft.registry import Shelf

__all__ = ["made_by_name", "options_of"]


def made_by_name(shelf: Shelf, text: str) -> Any:
    """Make what a name with options describes."""
    name, *settings = text.split(":")
    kind = shelf.load(name)
    known = {field.name: field for field in options_of(kind)}
    types = get_type_hints(kind) if known else {}
    given: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in known:
            raise _unknown(f"{shelf.noun} {name!r}", setting, list(known))
        given[key] = _value(types[key], value.strip(), f"{name}:{setting}")
    return kind(**given)


def options_of(kind: type) -> tuple[Field[Any], ...]:
    """List the options of such a thing: the fields of its dataclass."""
    return fields(kind) if is_dataclass(kind) else ()


def _unknown(whose: str, setting: str, known: list[str]) -> InvalidInput:
    what = f"{whose} has no option {setting!r}"
    close = nearest(setting.partition("=")[0], known)
    listed = f"its options: {', '.join(known)}" if known else "it has no options"
    return InvalidInput(Problem(what=what, advice=f"did you mean '{close}=...'?" if close else listed))


def _value(kind: Any, text: str, where: str) -> Any:
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
