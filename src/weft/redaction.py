"""Redaction: secrets are replaced by ``***`` in every text that weft prints, logs, reports or stores.

Secrets are recognised by their form (passwords in URLs, query parameters such as ``token`` or
``X-Amz-Signature``, Authorization headers), and by their value, if a workflow declares them under
``secrets:``. The declared values are kept in memory only, for the whole process, because any part of the
program may write them. A value is also recognised if a URL contains it partly quoted or decoded, in upper or
lower case.

A part of a secret is not recognised, so a text is redacted before it is shortened. Of a long text, only the
part that is shown is redacted, extended by the length of the longest possible secret.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable

HIDDEN = "***"
_SHORTEST = 4
"""Shorter values are not redacted, because they would match parts of many words and numbers."""
_LONGEST = 65_536
"""Maximal length of a secret that is recognised by its form when only a part of a text is redacted."""
_LONGEST_REWRITTEN = 4096
"""Maximal length of a value that is also recognised if parts of it are quoted or decoded in a URL."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^\s\"'<>\\|`]|\\u0026)+", re.IGNORECASE)
"""A URL in text, JSON or HTML; ``\\u0026`` is an ampersand in a script of an HTML page."""
_NAMES = (
    r"[\w.-]*(?:token|signature|secret|passw(?:or)?d|passphrase|credentials?|jwt|sas|authorization|AccessKeyId|"
    r"(?:api|access|private|subscription|account)[_-]?key|session[_-]?id)|sig|key|auth|pwd|pass|code"
)
_USER = re.compile(r"(://[^/?#@:]*):[^/?#]*@")
_TOKEN_USER = re.compile(r"^(https?|ftps?)://[^/?#@:]+@", re.IGNORECASE)
_QUERY = re.compile(
    rf"((?:[?&;#]|\\u0026)(?:{_NAMES})=)(?!\{{\w+\}}(?:[&;#\\]|$))(?:(?!\\u0026)[^&;#])+", re.IGNORECASE
)
"""A query parameter with a secret; ``{{NAME}}`` as its value refers to a declared secret and is kept."""
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|x-[\w-]*(?:token|key)|private-token|(?:set-)?cookie)"
    r"([\"']?\s*[:=]\s*[\"']?)[^\n\r\"'<>\\]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")
_HINTS = ("authorization", "x-", "private-token", "cookie", "bearer", "basic")
_ASSIGNMENT = re.compile(rf"^((?:-\w|--[\w-]+=)?(?:{_NAMES})=).+", re.IGNORECASE | re.DOTALL)
"""A word such as ``token=...``, ``-ptoken=...`` or ``--param=token=...``."""


class _DeclaredValues:
    """The values of declared secrets in this process, in every form in which they appear in texts."""

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        """Regular expressions, by value, by line of a value, or by form of a long value."""
        self._pattern: re.Pattern[str] | None = None
        self.longest = _LONGEST
        """Maximal number of bytes of a secret in any of its forms."""

    def add(self, values: Iterable[str]) -> None:
        from urllib.parse import unquote

        for value in values:
            for each in (value, *value.splitlines(), unquote(value, errors="surrogateescape")):
                if len(each) >= _SHORTEST:
                    self._add_forms(each)
        # Longest first, because one value may be the beginning of another.
        ordered = sorted(self._forms, key=lambda form: (-len(form), form))
        patterns = "|".join(self._forms[form] for form in ordered)
        self._pattern = re.compile(patterns, re.IGNORECASE) if patterns else None

    def _add_forms(self, value: str) -> None:
        if len(value) > _LONGEST_REWRITTEN:
            forms = _long_forms(value)
            self._forms |= {form: re.escape(form) for form in forms}
        else:
            ways = [_character_forms(character) for character in value]
            forms = {"".join(max(each, key=len) for each in ways)}
            self._forms[value] = "".join(f"(?:{'|'.join(map(_any_depth, each))})" for each in ways)
        self.longest = max(self.longest, *(len(form.encode(errors="surrogatepass")) for form in forms))

    def hide(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def _long_forms(value: str) -> set[str]:
    """Return the forms of a value: unchanged, quoted as in a URL, and escaped as in JSON and Python."""
    from urllib.parse import quote

    found = {value, quote(value, safe="", errors="surrogateescape"), quote(value, errors="surrogateescape")}
    return found | {json.dumps(each)[1:-1] for each in found} | {repr(each)[1:-1] for each in found}


@functools.lru_cache(maxsize=None)
def _character_forms(character: str) -> tuple[str, ...]:
    """Return the forms of a character: unchanged, quoted as in a URL, escaped as in JSON, Python and HTML.

    Each character is matched separately, because libraries quote or decode only some characters of a URL.
    """
    import html

    quoted = "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogateescape"))
    escaped = {json.dumps(character)[1:-1], repr(character)[1:-1], html.escape(character), quoted}
    escaped |= {f"\\u{ord(character):04x}"} if ord(character) < 1 << 16 else set()
    escaped |= {"+", " ", "%20"} if character in " +" else set()
    return (character, *sorted(escaped - {character}))


def _any_depth(form: str) -> str:
    """Return the regular expression of a form, which also matches repeated quoting (``%2F``, ``%252F``)."""
    return (
        re.escape(form).replace("%", "%(?:25)*")
        if form.startswith("%") and len(form) > 1
        else re.escape(form)
    )


_declared = _DeclaredValues()


def hide_values(values: Iterable[str]) -> None:
    """Redact these values from now on in all texts of this process."""
    _declared.add(values)


def redact(text: str) -> str:
    """Return a text without secrets."""
    text = _declared.hide(text)
    if "://" in text:
        text = _URL.sub(lambda found: redact_url(found[0]), text)
    small = text.lower()
    if any(hint in small for hint in _HINTS):  # a fast test that most texts fail
        text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
        text = _BEARER.sub(rf"\1\2{HIDDEN}", text)
    return text


def redact_start(text: str, length: int, *, is_whole: bool = True) -> str:
    """Return the first ``length`` characters of a text without secrets.

    ``is_whole`` states whether ``text`` is complete. An incomplete text may end with a part of a secret, so
    as many characters as a secret may have are omitted at its end.
    """
    longest, end = _declared.longest, length + _declared.longest
    while end < len(text):
        # The end of this part may contain the beginning of a secret.
        if len(shown := redact(text[:end])) >= length + longest:
            return shown[:length]
        end *= 2
    shown = redact(text)
    return shown[: length if is_whole else min(length, max(0, len(shown) - longest))]


def tail_bytes(length: int) -> int:
    """Return how many bytes of the end of a log ``redact_tail`` needs to return ``length`` characters."""
    return length + _declared.longest


def redact_tail(data: bytes, length: int) -> str:
    """Return the last ``length`` characters of a log without secrets.

    ``data`` are the last ``tail_bytes(length)`` bytes of the log, or the whole log if it is shorter.
    """
    shown = redact(data.decode(errors="replace"))
    if len(data) >= tail_bytes(length):
        # The beginning of ``data`` may be the end of a secret.
        shown = shown[_declared.longest :]
    return shown[-length:]


def redact_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line without secrets and without the values of ``token=...``."""
    return [_ASSIGNMENT.sub(rf"\1{HIDDEN}", redact(word)) for word in words]


def redact_url(url: str) -> str:
    """Return a URL without its password, tokens and signatures."""
    url = _USER.sub(rf"\1:{HIDDEN}@", url)
    url = _TOKEN_USER.sub(rf"\1://{HIDDEN}@", url)
    return _QUERY.sub(rf"\1{HIDDEN}", url)


def has_secret(text: str) -> bool:
    """Return whether a text contains a URL with a password, a token or a signature."""
    return any(redact_url(found[0]) != found[0] for found in _URL.finditer(text))
