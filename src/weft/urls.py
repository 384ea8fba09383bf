"""Functions for URLs and paths; only this module decides whether a text is a URL or a path.

A path may contain a colon, so only two forms are URLs: ``SCHEME://...`` with a scheme of at least two
characters, and ``file:...`` (RFC 8089 allows ``file:/path``). Schemes are not case-sensitive.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import SplitResult, unquote, urlsplit

_URL = re.compile(r"[a-z][a-z0-9+.-]+://|file:", re.IGNORECASE)
_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_STATE = ".weft"
_UP = ".."


def is_url(text: str) -> bool:
    """Return whether a text is a URL and not a path.

    >>> [is_url(text) for text in ("http://host/x", "file:/x", "FILE:x", "a:b", "//host/x", " file:/x")]
    [True, True, True, False, False, False]
    """
    return _URL.match(text) is not None


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL, the scheme in lower case; raise ValueError if they cannot be determined."""
    # ``urlsplit`` removes some control characters, so its result could differ from a URL checked earlier.
    if _CONTROL.search(url):
        raise ValueError("a URL must not contain control characters")
    return urlsplit(url)


def local_path(text: str) -> str | None:
    """Return the absolute path that a path or ``file:`` URL of this host names; None for other texts.

    >>> [local_path(text) for text in ("file:///bin/sh", "/bin/sh", "bin/sh", "http://host/sh", "file:sh")]
    ['/bin/sh', '/bin/sh', None, None, None]
    """
    path = text
    if is_url(text):
        try:
            parts = split_url(text)
        except ValueError:
            return None
        path = unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else ""
    return path if path.startswith("/") else None


def redirects(word: str) -> bool:
    """Return whether a word inserted into a path or URL can lead to another folder, host or scheme."""
    return any(
        form.startswith(("/", "\\")) or "://" in form or is_url(form) or _UP in re.split(r"[/\\?#]", form)
        for form in (word, unquote(word))
    )


def names_state(text: str) -> bool:
    """Return whether a path or URL has a component ``.weft``, or consists only of ``.`` and separators."""
    forms = [re.split(r"[:/\\?#]", form) for form in (text, unquote(text))]
    return any(_STATE in parts or not set(parts) - {"", "."} for parts in forms)


def find_base(text: str) -> tuple[object, ...]:
    """Return a key of a path or URL that changes if an inserted word redirects it to another place.

    The key contains the scheme, the separators in the host, whether the path is absolute, and the number of
    folders that it leads upwards. A word for which ``redirects`` is False does not change the key.
    """
    if not is_url(text):
        return "path", text.startswith("/"), _count_steps_up(text)
    try:
        parts = split_url(text)
    except ValueError as error:
        return "no URL", str(error)
    host = "".join(letter for letter in parts.netloc if letter in "@:[]")
    path = unquote(parts.path)
    return parts.scheme, bool(parts.netloc), host, path.startswith("/"), _count_steps_up(path)


def is_below(folder: str, text: str) -> bool:
    """Return whether a path or URL is ``folder`` or below it; only the paths of URLs are compared.

    ``folder`` is a path or URL, too.
    """
    above, path = _local_part(folder), _local_part(text)
    return above in ("", "/", ".") or path == above or path.startswith(f"{above}/")


def _local_part(text: str) -> str:
    """Return a path, or the path of a URL, normalised; "" if the text has no path."""
    if is_url(text):
        try:
            text = unquote(split_url(text).path)
        except ValueError:
            return ""
    return re.sub(r"^/+", "/", posixpath.normpath(text)) if text else ""


def _count_steps_up(path: str) -> int:
    """Return how many folders above its start a path leads to."""
    depth = least = 0
    for part in path.split("/"):
        depth += -1 if part == _UP else part not in ("", ".")
        least = min(least, depth)
    return -least
