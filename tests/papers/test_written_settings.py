"""Settings of the reproductions: a user can write all of them in a file."""

from __future__ import annotations

import ast
import math
from dataclasses import fields
from pathlib import Path

import pytest

import weft.papers
from weft.errors import InvalidInput
from weft.workflow.settings import RunSettings, make_settings, write_settings

SOURCES = sorted(Path(weft.papers.__file__).parent.glob("*.py"))
OF_BACKENDS = {"begins_at_once", "brings_results", "pushes_state"}
"""Settings that follow from the backend; users choose them with the machines."""


def unwritten(source: str) -> list[str]:
    """Return the keywords in a source that set attributes of settings past the keys of files."""
    attributes = {each.name for each in fields(RunSettings)} - OF_BACKENDS
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        keyword.arg
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("RunSettings", "replace")
        for keyword in call.keywords
        if keyword.arg in attributes
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_reproductions_state_settings_by_the_keys_of_files(path):
    assert unwritten(path.read_text(encoding="utf-8")) == []


def test_settings_that_are_not_stated_by_file_keys_are_detected():
    assert unwritten("replace(preset, belief_s=1.0, begins_at_once=True)") == ["belief_s"]
    assert unwritten("RunSettings(contract=0.5)") == ["contract"]


def test_setting_slow_for_accepts_the_value_forever():
    layer = make_settings({"slow_for": "forever"})
    assert layer == {"belief_s": math.inf}
    assert write_settings(layer) == {"slow_for": "forever"}
    with pytest.raises(InvalidInput, match="slow_for"):
        make_settings({"slow_for": "always"})
