"""Shelves: our own entries come first, and entry points of others are looked for only when asked for more."""

from __future__ import annotations

import importlib.metadata

import pytest

from weft.errors import InvalidInput
from weft.registry import Shelf

OWN = {"late": "package:Late", "early": "package:Early"}


def test_our_own_entries_are_named_without_looking_for_others(monkeypatch):
    asked = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: asked.append(group) or [])
    names = Shelf("weft.things", "thing", OWN).own_first()
    assert [next(names), next(names)] == ["late", "early"]
    assert asked == []
    assert list(names) == []
    assert asked == ["weft.things"]


def test_others_come_after_our_own_and_each_name_once(monkeypatch):
    points = [
        importlib.metadata.EntryPoint(name, f"other:{name}", "weft.things")
        for name in ("zoo", "early", "apple")
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    shelf = Shelf("weft.things", "thing", OWN)
    assert list(shelf.own_first()) == ["late", "early", "apple", "zoo"]
    assert list(shelf) == ["apple", "early", "late", "zoo"]


def test_other_names_are_found_but_not_listed():
    shelf = Shelf("weft.things", "thing", {"counter": "collections:Counter"}, aliases={"c-t": "counter"})
    assert shelf.load("c-t") is shelf.load("counter")
    assert "c-t" in shelf
    assert list(shelf) == ["counter"]
    with pytest.raises(InvalidInput, match="did you mean 'c-t'"):
        shelf.load("c-tt")
