"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from architecture.house import files, module_name

SHOWING = [module_name(path) for path in files() if ">>>" in path.read_text(encoding="utf-8")]


def test_the_front_door_has_an_example() -> None:
    assert {"weft", "weft.workflow.builder"} <= set(SHOWING)


@pytest.mark.parametrize("name", SHOWING)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0
