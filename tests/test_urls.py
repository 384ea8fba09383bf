"""What a URL is, and which words can redirect a path or URL."""

from __future__ import annotations

import pytest

from weft.urls import find_base, is_url, redirects, split_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://host/x", True),
        ("HTTPS://host/x", True),
        ("s3://bucket/x", True),
        ("file:/x", True),
        ("file:x", True),
        ("FILE:/x", True),
        ("file://localhost/x", True),
        ("docker://image", True),
        ("", False),
        ("x", False),
        ("/x", False),
        ("//host/x", False),
        (" file:/x", False),
        ("\tfile:/x", False),
        ("fi\nle:/x", False),
        ("a:b", False),
        ("c:/x", False),
        ("c://x", False),
        ("profile:/x", False),
        ("://x", False),
        ("1ftp://x", False),
        ("http:/x", False),
        ("x/http://y", False),
        ("file", False),
        ("\\\\host\\x", False),
    ],
)
def test_url_has_a_scheme_and_two_slashes_or_starts_with_file(text: str, url: bool) -> None:
    assert is_url(text) is url


@pytest.mark.parametrize("letter", ["\0", "\n", "\t", "\r", "\x1f", "\x7f"])
def test_url_with_control_characters_is_refused(letter: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        split_url(f"file:/et{letter}c/passwd")


WORDS = [
    "/x", "//x", "\\x", "..", "a/..", "../x", "a\\..\\x", "file:x", "File:/x", "http://x", "a://b", "x::file://y",
    "%2fx", "%2e%2e/x", "..%2fx", "a%2F%2E%2E", "%66ile:/x", "%5cx",
]  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_word_that_would_redirect_a_path_or_url_is_recognised(word: str) -> None:
    assert redirects(word)


@pytest.mark.parametrize(
    "word", ["", "x", "a/b.c", "...", "a..b", ".", "a:b", "50%", "x y", "new\nline", "ü"]
)
def test_word_that_would_not_redirect_a_path_or_url_is_accepted(word: str) -> None:
    assert not redirects(word)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("file:/etc/passwd", "x:/etc/passwd"),
        ("/data.csv", "x/data.csv"),
        ("../x", "x./x"),
        ("./../x", "x/../x"),
        ("http://host@evil/x", "http://hostx/x"),
        ("http://host:80/x", "http://hostx/x"),
        ("file:/a/../../x", "file:/a/x/x"),
        ("file:///x", "file:x/x"),
        ("http://a/\n", "http://a/x"),
    ],
)
def test_base_of_a_path_or_url_differs_if_an_inserted_word_redirects_it(text: str, plain: str) -> None:
    assert find_base(text) != find_base(plain)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a/b", "a/x"),
        ("/data/a/b", "/data/x"),
        ("../a", "../x"),
        ("http://mirror.org/a", "http://x/a"),
        ("http://host/a/b.csv?q#f", "http://host/x?q#f"),
        ("file:a", "file:x"),
    ],
)
def test_base_of_a_path_or_url_is_the_same_if_no_inserted_word_redirects_it(text: str, plain: str) -> None:
    assert find_base(text) == find_base(plain)
