"""Plain values as YAML text: style, and reading back the same values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.formats import yaml_document
from weft.formats.yaml_document import parse_document, write_document

TRICKY = [
    "yes", "on", "1..5", "null", "~", "=x*2", "a: b", "{k}", "", " x", "x ", "two\nlines", "two\nlines\n",
    "\n", "ü€😀", "1:30", "010", "0x1f", "1e-6", "- a", "-", "--flag", "---", "...", "#c", "a #c", "a#c",
    "it's", 'say "x"', "back\\slash", "\ttab", "a\tb", "a:", ":a", "?", "? x", "<<", "&a", "*a", "!t", "%d",
    "@x", "`x`", "|", ">", "[a]", "a, b", "a]", "true", "vector.{k}", "line\r\nend", "\x85", "\u2028",
    "\ufeff", "\x7f", "\x00", "  deep\nx", "a\n\n\nb", "a\n  b\n", "a\n \nb", ".inf", "+5", "-.5", "1_000",
    "0o17", "1e400",
]  # fmt: skip


def plain(text: str) -> Any:
    document = parse_document(text, "w.yaml")
    assert document.root is not None
    return document.root.to_plain()


KEYS = st.text(max_size=12) | st.sampled_from(TRICKY)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30)
VALUES = st.recursive(
    SCALARS | st.sampled_from(TRICKY),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def same(one: object, other: object) -> bool:
    """Return whether two values are equal, including types and the order of keys."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


class TestWriting:
    @given(VALUES)
    def test_written_values_read_back_the_same(self, value: object) -> None:
        assert same(plain(write_document(value)), value)

    @given(VALUES)
    def test_written_values_read_back_the_same_with_the_python_parser(self, value: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml_document, "_LOADER", yaml.SafeLoader)
            assert same(plain(write_document(value)), value)

    @pytest.mark.parametrize("text", TRICKY)
    def test_texts_that_resemble_other_values_read_back_as_texts(self, text: str) -> None:
        value = {
            text: text,
            "list": [text, [text, [text]]],
            "map": {"m": {text: text}},
            "deep": [{"a": [{text: [text]}]}],
        }
        assert same(plain(write_document(value, comment=text)), value)
        assert same(plain(write_document(text)), text)

    def test_yaml_is_written_in_block_style(self) -> None:
        value = {
            "weft": 1,
            "name": "wien2k",
            "params": {"kpoints": 50, "w1": "=7*kpoints"},
            "tasks": {
                "lapw1": {
                    "sweep": {"k": "1..kpoints"},
                    "command": "./lapw1 --nodes {nodes} --k {k}\n./next\n",
                    "inputs": ["potential"],
                    "outputs": {"vector.{k}": "200*matrix"},
                    "checkpoint": {"files": ["restart.{k}"], "every": "60s"},
                },
                "fermi": {"after": "lapw1", "work": 0.01, "command": "./fermi"},
            },
            "between": [{"pair": ["ucm", "uibk"], "latency": "20ms"}],
        }
        assert write_document(value, comment="Made by weft.\n\nTwice.") == (
            "# Made by weft.\n#\n# Twice.\n"
            "weft: 1\n"
            "name: wien2k\n"
            "params: {kpoints: 50, w1: =7*kpoints}\n"
            "tasks:\n"
            "  lapw1:\n"
            "    sweep: {k: 1..kpoints}\n"
            "    command: |\n"
            "      ./lapw1 --nodes {nodes} --k {k}\n"
            "      ./next\n"
            "    inputs: [potential]\n"
            '    outputs: {"vector.{k}": 200*matrix}\n'
            '    checkpoint: {files: ["restart.{k}"], every: 60s}\n'
            "  fermi: {after: lapw1, work: 0.01, command: ./fermi}\n"
            "between:\n"
            "  - {pair: [ucm, uibk], latency: 20ms}\n"
        )

    def test_texts_are_quoted_only_where_needed(self) -> None:
        lines = write_document(
            {"list": [{"a": text} for text in ("yes", "1:30", "1..5", "=x*2", "12", "true", "it's")]}
        )
        assert lines.count('"') == 4
        assert '{a: "12"}' in lines
        assert "{a: it's}" in lines

    def test_long_lists_have_one_item_per_line(self) -> None:
        text = write_document({"names": [f"machine-{i}" for i in range(20)]})
        assert text.startswith("names:\n  - machine-0\n  - machine-1\n")

    def test_numpy_numbers_and_tuples_are_written(self) -> None:
        assert write_document({"a": (np.float64(1.5), np.int64(2), np.bool_(True))}) == "a: [1.5, 2, true]\n"

    def test_infinite_numbers_read_back_the_same(self) -> None:
        assert write_document([math.inf, -math.inf, math.nan]) == "- .inf\n- -.inf\n- .nan\n"

    def test_unsupported_types_are_rejected(self) -> None:
        with pytest.raises(InvalidInput, match="an unpaired surrogate"):
            write_document("\udc80")
        with pytest.raises(InvalidInput, match="too long"):
            write_document({"k" * 1001: 1})
        with pytest.raises(TypeError, match="type set"):
            write_document([{1}])
        deep: list[object] = []
        for _ in range(150):
            deep = [deep, 1]
        with pytest.raises(InvalidInput, match="deeper"):
            write_document(deep)
