"""YAML and JSON text as trees: places, limits, error messages."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import DocumentNode
from weft.errors import InvalidInput, Problem
from weft.formats import yaml_document
from weft.formats.yaml_document import parse_document


def plain(text: str) -> Any:
    document = parse_document(text, "w.yaml")
    assert document.root is not None
    return document.root.to_plain()


def problem(text: str) -> Problem:
    with pytest.raises(InvalidInput) as caught:
        parse_document(text, "w.yaml")
    return caught.value.problems[-1]


def nodes(node: DocumentNode) -> list[DocumentNode]:
    found, waiting = [], [node]
    while waiting:
        current = waiting.pop()
        found.append(current)
        if isinstance(current.value, dict):
            waiting.extend(current.value.values())
        elif isinstance(current.value, list):
            waiting.extend(current.value)
    return found


class TestPlaces:
    TEXT = "weft: 1\ntasks:\n  a:\n    inputs: [x, 'y z']\n    work: 3\n"

    def test_every_value_has_line_column_and_path(self) -> None:
        root = parse_document(self.TEXT, "w.yaml").root
        assert root is not None
        found = {node.path: (node.location.line, node.location.column) for node in nodes(root)}
        assert found == {
            (): (1, 1),
            ("weft",): (1, 7),
            ("tasks",): (3, 3),
            ("tasks", "a"): (4, 5),
            ("tasks", "a", "inputs"): (4, 13),
            ("tasks", "a", "inputs", 0): (4, 14),
            ("tasks", "a", "inputs", 1): (4, 17),
            ("tasks", "a", "work"): (5, 11),
        }
        assert all(node.location.file == "w.yaml" for node in nodes(root))

    def test_every_key_has_its_location(self) -> None:
        document = parse_document(self.TEXT, "w.yaml")
        assert str(document.location(("tasks", "a", "work"))) == "w.yaml:5:5"
        assert str(document.location(("tasks", "a", "inputs", 1))) == "w.yaml:4:17"

    def test_column_numbers_do_not_count_a_byte_order_mark(self) -> None:
        root = parse_document("\ufeff{ä€😀: 1, b: 2}", None).root
        assert root is not None
        assert root.key_locations["b"].column == 10


class TestScalars:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("null", None), ("~", None), ("", None), ("Null", None), ("true", True), ("FALSE", False),
            ("tRue", "tRue"), ("12", 12), ("-7", -7), ("+7", 7), ("010", 10), ("0x1F", 31), ("0o17", 15),
            ("-0x1F", "-0x1F"), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e-6", 1e-6), ("1E5", 1e5),
            ("-2.5e+3", -2500.0), (".inf", math.inf), ("-.INF", -math.inf), ("yes", "yes"), ("on", "on"),
            ("1:30", "1:30"), ("1..50", "1..50"), ("1_000", "1_000"), ("2024-01-01", "2024-01-01"),
            ("'12'", "12"), ('"true"', "true"), ("''", ""), ("1.2.3", "1.2.3"), ("+", "+"), (".", "."),
            ("١٢", "١٢"), ("=7*x", "=7*x"), ("!!str 5", "5"), ("!!int '5'", 5), ("!!float 5", 5.0),
            ("!!null ''", None), ("!!bool 'true'", True), ("9" * 300, int("9" * 300)),
            ("9" * 301, "9" * 301), ("1e999", math.inf),
        ],
    )  # fmt: skip
    def test_scalars_follow_the_yaml_core_schema(self, text: str, value: object) -> None:
        found = plain(f"k: {text}\n")["k"]
        assert found == value
        assert type(found) is type(value)

    def test_nan_is_read(self) -> None:
        assert math.isnan(plain("k: .nan")["k"])

    def test_keys_are_read_as_strings(self) -> None:
        assert list(plain("{1: a, 01: b, null: c, true: d, 1e3: e, '': f}")) == [
            "1",
            "01",
            "null",
            "true",
            "1e3",
            "",
        ]


class TestAliasesAndMerges:
    def test_alias_repeats_the_value_and_shares_the_node(self) -> None:
        root = parse_document("a: &x [1, 2]\nb: *x\n", None).root
        assert root is not None
        assert isinstance(root.value, dict)
        assert root.value["b"] is root.value["a"]

    def test_own_keys_override_merged_keys_and_earlier_mappings_override_later_mappings(self) -> None:
        text = "a: &a {p: 1, q: 2}\nb: &b {q: 3, r: 4}\nc:\n  <<: [*a, *b]\n  p: 9\n"
        text += "d: {<<: *a}\ne: {<<: {z: 0}, y: 1}\n"
        value = plain(text)
        assert value["c"] == {"p": 9, "q": 2, "r": 4}
        assert value["d"] == {"p": 1, "q": 2}
        assert value["e"] == {"z": 0, "y": 1}

    def test_merged_key_has_its_original_location(self) -> None:
        document = parse_document("a: &a\n  p: 1\nb:\n  <<: *a\n", "w.yaml")
        assert str(document.location(("b", "p"))) == "w.yaml:2:3"

    def test_quoted_merge_key_is_an_ordinary_key(self) -> None:
        assert plain("{'<<': 1}") == {"<<": 1}

    @pytest.mark.parametrize(
        ("text", "part"),
        [
            ("a: *x", "no anchor &x"),
            ("a: &x [*x]", "inside its own anchor"),
            ("a: {<<: 3}", "cannot be merged"),
            ("a: &x 1\n*x : 2", "as a key"),
        ],
    )
    def test_invalid_aliases_and_merges_are_reported(self, text: str, part: str) -> None:
        assert part in str(problem(text))

    def test_size_limit_counts_expanded_aliases(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
        found = problem("\n".join(lines))
        assert found.what == "the file has too many values"
        assert found.location is not None
        assert found.location.line == 7

    def test_depth_limit_counts_through_aliases(self) -> None:
        lines = ["a0: &a0 [1]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 200)]
        assert "deeper than 100" in problem("\n".join(lines)).what


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "line", "column", "part"),
        [
            ("a: 1\nb: 2\na: 3\n", 3, 1, "'a' occurs twice"),
            ("? [1, 2]\n: x", 1, 3, "a list is used as a key"),
            ("{{k}: 1}", 1, 2, "a mapping is used as a key"),
            ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
            ("a: !!python/object:os.system x", 1, 4, "!!python/object:os.system is not allowed"),
            ("a: !mine {x: 1}", 1, 4, "the tag !mine"),
            ("a: !!seq {x: 1}", 1, 4, "the tag !!seq"),
            ("!!python/tuple k: 1", 1, 1, "!!python/tuple"),
            ("a: !!int x", 1, 4, "'x' is not a value of its tag !!int"),
            ("a:\n\tb: 1", 2, 1, "use spaces"),
            ("a:\n  b: 1\n\tc: 2", 3, 1, "use spaces"),
            ("a:\n  b: 1\n c: 2\n", 3, 2, "check the indentation"),
            ("a: 1\n  b: 2\n", 2, 4, "where no key is allowed"),
            ('a: "x\nb: 1\n', 1, 4, "never closed"),
            ("a: [1, 2\nb: 1\n", 2, 2, "opened in line 1"),
            ("a: {x: 1\nb: 1\n", 2, 2, "opened in line 1"),
            ("a: - 1\n", 1, 4, "lines of its own"),
            ("a: 1\nb\nc: 2\n", 3, 1, "without ':'"),
            ("a: %x\n", 1, 4, "cannot start with '%'"),
            ('a: "\\q"\n', 1, 5, "double the backslash"),
            ("a:\n  - 1\n  b: 2\n", 3, 3, "a line in a list that is not an item"),
            ("a: b\nc: x\x07y\n", 2, 5, "U+0007"),
            ("a: \ud800", 1, 4, "U+D800"),
            ("? " + "k" * 1001 + "\n: 1", 1, 3, "at most 1,000"),
        ],
    )  # fmt: skip
    def test_error_about_a_mistake_in_yaml_names_line_and_column(
        self, text: str, line: int, column: int, part: str
    ) -> None:
        found = problem(text)
        assert part in str(found)
        assert found.location is not None
        assert (found.location.file, found.location.line, found.location.column) == ("w.yaml", line, column)

    def test_error_about_a_duplicate_key_names_both_locations(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            parse_document("a: 1\nb: {c: 1, c: 2}\na: 2\n", "w.yaml")
        assert [p.path for p in caught.value.problems] == [("b", "c"), ("a",)]
        assert "first in line 2, column 5" in str(caught.value.problems[0])

    @pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n", "--- # c\n...\n"])
    def test_empty_text_is_rejected(self, text: str) -> None:
        assert problem(text).what == "the file is empty"

    @pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
    def test_too_deep_nesting_is_rejected(self, opening: str) -> None:
        assert "nested deeper than 100" in problem(opening * 100_000).what

    def test_nesting_of_a_hundred_levels_is_read(self) -> None:
        assert plain("[" * 100 + "]" * 100) is not None

    @pytest.mark.parametrize(
        "text", ['a: "' + "x" * 10_000_000, "x" * 10_000_000 + ": 1", "[" + "1," * 5_000_000, "'" * 9_999_999]
    )
    def test_error_about_a_huge_line_has_a_short_message(self, text: str) -> None:
        assert len(str(problem(text))) < 300

    def test_a_huge_text_is_read(self) -> None:
        assert len(plain("a: " + "x" * 10_000_000)["a"]) == 10_000_000

    def test_too_many_values_are_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(yaml_document, "MAX_NODES", 50)
        assert plain("- 1\n" * 49) == [1] * 49
        assert "at most 50" in problem("- 1\n" * 50).rule


class TestJson:
    VALUES = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs", "Cc"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('abc d{}:"\\', max_size=9), inner),
        max_leaves=20,
    )

    @given(VALUES, st.booleans(), st.sampled_from([None, 1, "\t"]))
    def test_json_is_read_as_by_the_json_module(self, value: object, ascii_only: bool, indent: Any) -> None:
        assert plain(json.dumps([value], ensure_ascii=ascii_only, indent=indent)) == [value]

    def test_surrogate_pairs_in_json_are_decoded(self) -> None:
        assert plain(r'{"a": "\ud83d\ude00 \\ud83d"}') == {"a": r"😀 \ud83d"}


class TestFuzz:
    SEED = (
        "weft: 1\ntasks:\n  a: {work: 1, after: [b, 'c']}\n"
        '  b: &x\n    cmd: |\n      run\n    k: "v\\n"\nc: {<<: *x}\n'
    )

    @given(st.text("ab:-[]{}&*!|>'\"%@`#,?<~\\\n\t .01\x00\x85\ud800é", max_size=60))
    def test_random_text_is_read_or_rejected(self, text: str) -> None:
        assert self.reads_or_refuses(text)

    @given(
        st.lists(
            st.tuples(st.integers(0, len(SEED) - 1), st.sampled_from("ab:-[]{}&*!|>'\"%#,?\n\t \x00")),
            max_size=6,
        )
    )
    def test_corrupted_text_is_read_or_rejected(self, changes: list[tuple[int, str]]) -> None:
        text = list(self.SEED)
        for position, sign in changes:
            text[position] = sign
        assert self.reads_or_refuses("".join(text))

    @given(st.text("ab:-[]{}&*!|>'\"%@#,?<~\\\n\t .01", max_size=40))
    def test_both_parsers_of_pyyaml_agree(self, text: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml_document, "_LOADER", yaml.SafeLoader)
            assert self.reads_or_refuses(text)

    @staticmethod
    def reads_or_refuses(text: str) -> bool:
        try:
            return parse_document(text, "w.yaml").root is not None
        except InvalidInput as error:
            return all(found.location is not None for found in error.problems)
