"""Registries: built-in entries come first; entry points are read only when needed."""

from __future__ import annotations

import importlib.metadata

import pytest

from weft.errors import InvalidInput
from weft.registry import Registry

OWN = {"late": "package:Late", "early": "package:Early"}


def test_built_in_names_are_listed_without_reading_entry_points(monkeypatch):
    requested = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: requested.append(group) or [])
    names = Registry("weft.things", "thing", OWN).builtin_first()
    assert [next(names), next(names)] == ["late", "early"]
    assert requested == []
    assert list(names) == []
    assert requested == ["weft.things"]


def test_entry_points_follow_built_in_names_without_duplicates(monkeypatch):
    points = [
        importlib.metadata.EntryPoint(name, f"other:{name}", "weft.things")
        for name in ("zoo", "early", "apple")
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    registry = Registry("weft.things", "thing", OWN)
    assert list(registry.builtin_first()) == ["late", "early", "apple", "zoo"]
    assert list(registry) == ["apple", "early", "late", "zoo"]


def test_aliases_are_loaded_but_not_listed():
    registry = Registry(
        "weft.things", "thing", {"counter": "collections:Counter"}, aliases={"c-t": "counter"}
    )
    assert registry.load("c-t") is registry.load("counter")
    assert "c-t" in registry
    assert list(registry) == ["counter"]
    with pytest.raises(InvalidInput, match="did you mean 'c-t'"):
        registry.load("c-tt")
