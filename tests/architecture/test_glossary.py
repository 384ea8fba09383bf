"""The glossary lists every public class, and class names are unique."""

from __future__ import annotations

import re

from architecture.package import ROOT, load_tool

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_the_table_of_classes_is_current() -> None:
    assert load_tool("glossary").written(PAGE) == PAGE, "run python .ci/glossary.py"


def test_every_class_has_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([\w/]+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 200
    assert [name for name, _, meaning in rows if len(meaning) < 10] == []


def test_every_term_is_defined_once() -> None:
    terms = re.findall(r"^\| ([^`|]+) \| [^|]+ \|$", PAGE.partition("## Classes")[0], re.MULTILINE)
    assert len(terms) > 40
    assert len(terms) == len(set(terms))
