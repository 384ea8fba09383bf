"""The examples in docstrings give the results they show."""

from __future__ import annotations

import doctest
import importlib

import pytest

from architecture.package import files, module_name

WITH_EXAMPLES = [module_name(path) for path in files() if ">>>" in path.read_text(encoding="utf-8")]


def test_the_package_and_the_builder_have_examples() -> None:
    assert {"weft", "weft.workflow.builder"} <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_give_the_documented_results(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0
