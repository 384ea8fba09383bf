"""Secrets do not appear in texts, whatever their form; other texts are unchanged."""

from __future__ import annotations

import json
from html import escape
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import redaction
from weft.backends.attempt.safe_paths import quote_name
from weft.errors import shorten
from weft.redaction import (
    HIDDEN,
    has_secret,
    hide_values,
    redact,
    redact_start,
    redact_tail,
    tail_bytes,
)
from weft.reports.text import fitted

SECRET = "s3cr3t/Value+1=="
URLS = [
    "https://user:{}@host/data",
    "https://{}@host/data",
    "ftp://:{}@host/data",
    "postgresql://me:{}@db/table",
    "https://host/data?token={}",
    "https://host/data?a=1&access_token={}&b=2",
    "https://host/data?a=1;sig={}",
    "https://host/data#access_token={}",
    "https://host/x?X-Amz-Algorithm=A&X-Amz-Credential={}&X-Amz-Date=1",
    "https://host/x?X-Amz-Signature={}",
    "https://host/x?x-amz-security-token={}",
    "https://host/x?X-Goog-Signature={}",
    "https://account.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig={}&se=2026-01-01",
    "s3://bucket/x?AWSAccessKeyId={}&Signature={}",
    "https://host/x?api_key={}",
    "https://host/x?apikey={}",
    "https://host/x?key={}",
    "https://host/x?client_secret={}&password={}",
]
HEADERS = [
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Basic {}' https://host",
    '{{"authorization": "x", "Authorization":"token {}"}}',
    "X-Auth-Token: {}",
    "PRIVATE-TOKEN: {}",
    "x-api-key={}",
    "sent Bearer {} to the server",
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_declared", redaction._DeclaredValues())


@pytest.mark.parametrize("url", URLS)
def test_secrets_in_urls_are_hidden_in_every_kind_of_text(url: str) -> None:
    value = "s3cr3tValue%2B1%3D%3D"
    filled = url.replace("{}", value)
    script = json.dumps({"url": filled}).replace("&", "\\u0026")
    for text in (
        f"{filled} failed",
        json.dumps({"url": filled}),
        escape(filled),
        f"<a href='{filled}'>",
        script,
    ):
        found = redact(text)
        assert "s3cr3t" not in found, found
        assert HIDDEN in found
        assert "host" in found or "blob" in found or "bucket" in found or "db" in found
        assert redact(found) == found
    assert has_secret(filled)


@pytest.mark.parametrize("header", HEADERS)
def test_secrets_in_headers_are_hidden(header: str) -> None:
    found = redact(header.replace("{}", "s3cr3tValue1="))
    assert "s3cr3t" not in found
    assert HIDDEN in found


@pytest.mark.parametrize(
    "text",
    [
        "https://host:8080/data/file.txt?page=3&sort=name#part",
        "ssh://me@host/data",
        "https://host/data?token={TOKEN}&page=1",
        "https://host/data?sig={SIGNATURE}",
        "the key=value pairs of token=abc stand in the file",
        "file:///home/me/key=1",
        "monkey: value, tokens: 3, secretary; Basic facts",
        "échec à 12:30, 100 % sûr",
    ],
)
def test_texts_without_secrets_are_unchanged(text: str) -> None:
    assert redact(text) == text
    assert not has_secret(text)


def test_declared_values_are_hidden_in_every_form() -> None:
    hide_values([SECRET, 'with "quotes"\nand lines', "longer" + SECRET, "x1"])
    assert redact(f"a{SECRET}b") == f"a{HIDDEN}b"
    assert redact("s3cr3t%2FValue%2B1%3D%3D s3cr3t/Value%2B1%3D%3D") == f"{HIDDEN} {HIDDEN}"
    assert redact(json.dumps(["longer" + SECRET])) == json.dumps([HIDDEN])
    assert redact(json.dumps('with "quotes"\nand lines')) == json.dumps(HIDDEN)
    assert redact("value x1 is too short") == "value x1 is too short"


@given(st.text(), st.text(min_size=4))
def test_values_of_declared_secrets_are_always_redacted(around: str, value: str) -> None:
    redaction._declared = redaction._DeclaredValues()
    hide_values([value])
    if set(value) <= set(HIDDEN):
        return
    assert value not in redact(f"{around}\x00{value}\x00{around}").replace(HIDDEN, "")


@pytest.mark.parametrize(
    "text", ["https://" + "a:" * 300_000, "x?token=" * 200_000, "Authorization" * 100_000, "://" * 300_000]
)
def test_a_long_text_is_redacted_quickly(text: str) -> None:
    assert redact(text + "https://h/?" + text)


LONG = "".join(f"p{number:03}" for number in range(100))
"""A secret that is longer than most messages, and in which every part can be recognised."""


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: shorten(text),
        lambda text: shorten({"a": text}, 300),
        quote_name,
        lambda text: fitted(text, 40),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "a {}", "https://me:{}@host/x", "https://h/?a={}", "{} {} {}", "x" * 50 + "{}"]
)
def test_a_text_is_redacted_before_it_is_shortened(cut, around: str) -> None:
    hide_values([LONG])
    shown = cut(around.replace("{}", LONG))
    assert "p0" not in shown
    assert HIDDEN in shown or len(shown) < 50 + len(HIDDEN)


@pytest.mark.parametrize(
    "url", ["https://me:{}@host", "https://host/?x=1&token={}", "Authorization: Bearer {}"]
)
def test_a_secret_of_a_known_form_is_redacted_before_a_text_is_shortened(url: str) -> None:
    assert "p0" not in shorten(url.replace("{}", LONG), 40)


@given(st.integers(0, 500), st.integers(0, 2000), st.integers(1, 600))
def test_no_part_of_a_secret_remains_where_a_text_is_cut(before: int, after: int, length: int) -> None:
    redaction._declared = redaction._DeclaredValues()
    redaction._declared.longest = len(LONG)
    text = "." * before + LONG * 3 + "," * after
    redaction._declared.add([LONG])
    redaction._declared.longest = len(LONG)
    assert "p" not in redact_start(text, length)
    assert "p" not in redact_tail(text.encode()[-tail_bytes(length) :], length)
    for end in (length, length + 50, length + 399):
        assert "p" not in redact_start(text[:end], length, is_whole=False)
    assert redact_start("," * 3000, length) == "," * length
    assert redact_tail(b"," * tail_bytes(length), length) == "," * length


@given(st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=8, max_size=40), st.data())
def test_secret_value_is_recognised_in_every_form_of_quoting(value: str, data: st.DataObject) -> None:
    redaction._declared = redaction._DeclaredValues()
    hide_values([value])
    forms = (
        str,
        quote,
        lambda c: quote(c, safe="").lower(),
        lambda c: quote(quote(c)),
        lambda c: quote_plus(c),
    )
    ways = data.draw(st.lists(st.sampled_from(forms), min_size=len(value), max_size=len(value)))
    assert redact("".join(way(character) for way, character in zip(ways, value, strict=True))) == HIDDEN
    hide_values([quoted := quote(value, safe="")])
    assert redact(f"<{unquote(quoted)}>") == f"<{HIDDEN}>"


def test_number_of_bytes_read_from_the_end_of_a_text_covers_the_longest_secret() -> None:
    assert tail_bytes(10) == 65_546
    hide_values(["ü" * 100_000])
    assert tail_bytes(10) == 10 + 600_000
