"""Decorators that define dataclasses and message classes quickly.

Until Python 3.12 the standard decorator compiles six functions for each frozen class with slots. A run loads
about 300 such classes, which took a third of its start-up time, and constructs instances of fewer than half.
The decorator ``dataclass`` in this module compiles only ``__init__``, and only when it is first used; all
classes share the other methods. They behave like standard dataclasses, except that ``repr`` does not detect
cycles and InitVar is not supported.

This module is also loaded on hosts with Python 3.8, where the standard decorator has neither keyword fields
nor slots. There a class with ``kw_only`` must not inherit fields from a class without it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, FrozenInstanceError, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "message"]

_Kind = TypeVar("_Kind")
_HAS_OPTIONS = sys.version_info[:2] > (3, 9)

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[_Kind], _Kind]:
        """Return a decorator that changes nothing: only type checkers need the information."""
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def message(kind: type[_Kind]) -> type[_Kind]:
    """Make a class a message: a slotted dataclass with keyword fields, compared and hashed by value.

    Type checkers treat messages as frozen. At run time they are not frozen, because constructing a frozen
    dataclass takes three times as long and the engine constructs several messages per task.
    """
    return _make(kind, frozen=False, eq=True, slots=True, kw_only=True, hashed=True)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        kind: type[_Kind] | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        slots: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """Make a class a dataclass, with the options of the standard decorator that weft uses."""

        def make(kind: type[_Kind]) -> type[_Kind]:
            return _make(kind, frozen=frozen, eq=eq, slots=slots, kw_only=kw_only, hashed=eq and frozen)

        return make if kind is None else make(kind)


def _make(
    kind: type[_Kind], *, frozen: bool, eq: bool, slots: bool, kw_only: bool, hashed: bool
) -> type[_Kind]:
    fields = _collect_fields(kind, kw_only=kw_only)
    if fields is None:
        return dataclasses.dataclass(
            frozen=frozen,
            eq=eq,
            unsafe_hash=hashed and not frozen,
            **_options({"slots": slots, "kw_only": kw_only}),
        )(kind)
    params = copy(_SAMPLE_PARAMS)
    params.eq, params.frozen = eq, frozen
    content: dict[str, Any] = {
        "__dataclass_fields__": fields,
        "__dataclass_params__": params,
        "__match_args__": tuple(each.name for each in fields.values() if not _is_keyword(each, kw_only)),
        "__init__": _LazyInit(frozen=frozen, kw_only=kw_only),
        "__repr__": _repr,
    }
    if eq:
        values = _value_getter([each.name for each in fields.values() if each.compare])
        content.update(__eq__=_make_eq(values), __hash__=_make_hash(values) if hashed else None)
    if frozen:
        content.update(__setattr__=_reject_assignment, __delattr__=_reject_deletion)
    if frozen and slots:
        content.update(__getstate__=_get_state, __setstate__=_set_state)
    own = {name: made for name, made in content.items() if name not in vars(kind)}
    if slots:
        slotted: type[_Kind] = _add_slots(kind, list(fields), own)
        return slotted
    for name, value in list(vars(kind).items()):
        if isinstance(value, dataclasses.Field):
            if value.default is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, value.default)
    for name, made in own.items():
        setattr(kind, name, made)
        if isinstance(made, _LazyInit):
            made.__set_name__(kind, name)
    return kind


@dataclasses.dataclass
class _StandardSample:
    """A standard dataclass: source of the values by which ``dataclasses.fields`` recognises a field."""

    value: int


_SAMPLE_PARAMS: Any = vars(_StandardSample)["__dataclass_params__"]
_REGULAR_FIELD: Any = getattr(dataclasses.fields(_StandardSample)[0], "_field_type")  # noqa: B009 -- not public


def _collect_fields(kind: type, *, kw_only: bool) -> dict[str, dataclasses.Field[Any]] | None:
    """Return the fields of a class and its bases by name; None if only the standard decorator supports them.

    The class is not changed. Annotations are texts: every module postpones their evaluation.
    """
    found: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(kind.__mro__[1:]):
        if "__dataclass_fields__" in vars(base):
            found.update({each.name: each for each in dataclasses.fields(base)})
    values = vars(kind)
    for name, annotation in values.get("__annotations__", {}).items():
        if not isinstance(annotation, str) or annotation.endswith("KW_ONLY"):
            return None
        if annotation.startswith("ClassVar"):
            continue
        value = values.get(name, MISSING)
        each: Any = value if isinstance(value, dataclasses.Field) else field(default=value)
        if not each.init or each.default.__class__.__hash__ is None:
            return None
        each.name, each.type = name, annotation
        each._field_type = _REGULAR_FIELD  # noqa: SLF001 -- the standard decorator sets it too
        if getattr(each, "kw_only", None) is MISSING:
            each.kw_only = kw_only
        found[name] = each
    return found


def _options(options: dict[str, bool]) -> dict[str, Any]:
    """Return options of the standard decorator that it has since Python 3.10."""
    return options if _HAS_OPTIONS else {}


def _is_keyword(each: dataclasses.Field[Any], kw_only: bool) -> bool:
    """Return whether a field is passed by keyword; before Python 3.10 all fields of a class are alike."""
    return bool(getattr(each, "kw_only", kw_only))


class _LazyInit:
    """Descriptor that compiles ``__init__`` of a class when it is first read, and replaces itself with it."""

    __slots__ = ("_frozen", "_keywords", "_kind")

    def __init__(self, *, frozen: bool, kw_only: bool) -> None:
        self._frozen = frozen
        self._keywords = kw_only

    def __set_name__(self, kind: type, name: str) -> None:
        self._kind = kind

    def __get__(self, record: object, kind: type) -> Any:
        fields = dataclasses.fields(self._kind)
        made: Any = _compile_init(self._kind, fields, frozen=self._frozen, kw_only=self._keywords)
        type.__setattr__(self._kind, "__init__", made)
        return made.__get__(record, kind)


def _compile_init(
    kind: Any, fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool, kw_only: bool
) -> Callable[..., None]:
    """Compile ``__init__``; positional fields come first, as in the standard decorator."""
    space: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters = {False: ["self"], True: []}
    body = []
    for each in fields:
        name, value = each.name, each.name
        text = name
        if each.default is not MISSING:
            space[f"_default_{name}"] = each.default
            text = f"{name}=_default_{name}"
        elif each.default_factory is not MISSING:
            space[f"_factory_{name}"] = each.default_factory
            text, value = f"{name}=_missing", f"_factory_{name}() if {name} is _missing else {name}"
        parameters[_is_keyword(each, kw_only)].append(text)
        body.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append(" self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    head = f"def __init__({', '.join([*parameters[False], *keywords])}):"
    exec("\n".join([head, *(body or [" pass"])]), space)  # noqa: S102 -- names of fields are identifiers
    made: Callable[..., None] = space["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    return made


def _value_getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(names[0])
    return lambda record: (only(record),)


def _make_eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], Any]:
    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _make_hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _reject_assignment(self: Any, name: str, value: object) -> None:  # noqa: ARG001 -- a special method
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _reject_deletion(self: Any, name: str) -> None:  # noqa: ARG001 -- a special method
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state):
        object.__setattr__(self, each.name, value)


def _add_slots(kind: Any, names: list[str], methods: dict[str, Any]) -> Any:
    """Return a copy of the class with slots, which cannot be added to an existing class."""
    content = {**kind.__dict__, **methods}
    for name in (*names, "__dict__", "__weakref__"):
        content.pop(name, None)
    inherited = {name for base in kind.__mro__[1:] for name in vars(base).get("__slots__", ())}
    content["__slots__"] = tuple(name for name in names if name not in inherited)
    made = type(kind)(kind.__name__, kind.__bases__, content)
    made.__qualname__ = kind.__qualname__
    return made
