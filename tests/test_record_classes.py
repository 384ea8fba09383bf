"""``weft.records.dataclass`` makes the same classes as the standard decorator."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from weft.records import dataclass, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A frozen record with slots."""

    kinds: ClassVar[int] = 3
    a: int
    b: list[int] = field(default_factory=list)
    c: str = field(default="x", compare=False, repr=False)


@dataclass
class Plain:
    """A record with positional fields."""

    a: int
    b: int = 2

    def __post_init__(self) -> None:
        self.b += 1


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A record that is compared by identity."""

    a: int


@message
class Notice:
    """A message that is not frozen at run time."""

    a: int
    b: float | None = None


def standard(kind: type, **options: bool) -> Any:
    space = {"__annotations__": kind.__annotations__, "__module__": __name__, "kinds": 3}
    space |= {"b": field(default_factory=list), "c": field(default="x", compare=False, repr=False)}
    return dataclasses.dataclass(**options)(type("Frozen", (), space))  # type: ignore[call-overload]


def test_frozen_record_behaves_like_a_standard_dataclass() -> None:
    other = standard(Frozen, frozen=True, slots=True, kw_only=True)
    for kind in (Frozen, other):
        made = kind(a=1, b=[2], c="y")
        assert repr(made).endswith("Frozen(a=1, b=[2])")
        assert made == kind(a=1, b=[2], c="z") != kind(a=2, b=[2])
        assert (dataclasses.asdict(made), kind.kinds) == ({"a": 1, "b": [2], "c": "y"}, 3)
        assert dataclasses.replace(made, a=5).a == 5
        assert kind(a=1).b is not kind(a=1).b
        with pytest.raises(FrozenInstanceError):
            made.a = 2
        with pytest.raises(FrozenInstanceError):
            del made.a
        with pytest.raises(TypeError):
            kind(1)
        assert kind.__slots__ == ("a", "b", "c")
        assert kind.__dataclass_params__.frozen


def test_copies_and_pickles_are_equal() -> None:
    for made in (Frozen(a=1, b=[2]), Notice(a=1, b=0.5)):
        assert pickle.loads(pickle.dumps(made)) == made
        assert copy.deepcopy(made) == made


def test_hashes_follow_equality() -> None:
    assert hash(Notice(a=1)) == hash(Notice(a=1))
    assert len({Notice(a=1), Notice(a=1), Notice(a=2)}) == 2
    assert len({Identity(1), Identity(1)}) == 2
    assert Plain.__hash__ is None  # type: ignore[comparison-overlap]


def test_positional_fields_and_post_init_are_supported() -> None:
    assert Plain(1) == Plain(1, 2) == Plain(a=1)
    assert Plain(1).b == 3
    match Plain(4):
        case Plain(a, b):
            assert (a, b) == (4, 3)


def test_messages_are_not_frozen_at_run_time() -> None:
    made = Notice(a=1)
    assert repr(made) == "Notice(a=1, b=None)"
    object.__setattr__(made, "a", 2)
    assert made.a == 2


def test_a_derived_record_inherits_fields() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class More(Frozen):
        d: int = 0

    assert More(a=1, d=2) == More(a=1, d=2) != Frozen(a=1)
    assert [each.name for each in dataclasses.fields(More)] == ["a", "b", "c", "d"]
    assert More.__slots__ == ("d",)
    with pytest.raises(FrozenInstanceError):
        More(a=1).a = 2  # type: ignore[misc]
    assert Frozen.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_init_is_compiled_when_it_is_first_used() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Unused:
        a: int
        b: int = 2

    @dataclass
    class Open:
        a: int
        b: list[int] = field(default_factory=list)

    for kind in (Unused, Open):
        assert not inspect.isfunction(vars(kind)["__init__"])
        assert kind(a=1).a == 1
        assert inspect.isfunction(vars(kind)["__init__"])
    assert str(inspect.signature(Unused)) == "(*, a, b=2)"
    assert not hasattr(Open, "b")


def test_a_derived_class_can_call_the_constructor_of_its_base_class() -> None:
    class Derived(Plain):
        def __init__(self) -> None:
            super().__init__(5)

    assert (Derived().a, Derived().b) == (5, 3)


def test_keyword_only_markers_and_mutable_defaults_are_handled_by_the_standard_decorator() -> None:
    @dataclass(frozen=True, slots=True)
    class Mixed:
        a: int
        _: KW_ONLY
        b: int = 2

    assert (Mixed(1, b=3).b, Mixed.__match_args__) == (3, ("a",))
    with pytest.raises(TypeError):
        Mixed(1, 3)  # type: ignore[misc]
    with pytest.raises(ValueError, match="mutable default"):
        dataclass(type("Shared", (), {"__annotations__": {"a": "list[int]"}, "a": []}))
