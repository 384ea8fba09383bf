"""Files behind URLs, through fsspec: whatever it can reach. Loaded only when a URL is used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from weft.backends.staging.problem import StagingProblem

__all__ = ["download", "is_url", "path_of_url", "stamp_of_url", "upload"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://|file:")
_WEB = ("http", "https")
_CONNECT_S = 30.0
_SILENCE_S = 120.0
"""How long a server may say nothing. The whole may take as long as it takes."""
_NOT_FOUND = 404
_PASSING = (408, 421, 423, 425, 429)
"""Of a server's refusals (400 to 499), those that it may not repeat: it was too slow, too busy, too early."""
_CHUNK_BYTES = 1 << 20
_VALIDATORS = (
    "ETag",
    "etag",
    "Content-MD5",
    "Digest",
    "Last-Modified",
    "LastModified",
    "mtime",
    "created",
    "md5Hash",
)
"""What servers say of a file that changes when its content does."""


def is_url(source: str) -> bool:
    """Say whether a text is a URL, and no path."""
    return _URL.match(source) is not None


def path_of_url(url: str) -> str | None:
    """Give the path on this computer that a ``file:`` URL names; None: it is another URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("file", "local"):
        return None
    if parts.netloc not in ("", "localhost"):
        why = f"'file' names files of this computer, not of {parts.netloc!r}"
        raise StagingProblem("cannot be fetched", url, why, advice="write file:///PATH", lasting=True)
    return unquote(parts.path)


def download(url: str, target: int) -> None:
    """Write what a URL names to an open file."""
    with _told("cannot be fetched", url):
        system, path = _reached(url)
        # The handle, not the name: what is written is the file that was opened.
        system.get_file(path, f"/proc/self/fd/{target}")


def upload(source: int, url: str) -> None:
    """Write an open file to a URL; who reads there sees all of it or nothing."""
    with _told("cannot be published", url), os.fdopen(os.dup(source), "rb") as content:
        content.seek(0)
        system, path = _reached(url)
        if urlsplit(url).scheme in _WEB:
            system.put_file(content, path, method="put")
            return
        if folder := path.rpartition("/")[0]:
            system.makedirs(folder, exist_ok=True)
        with system.transaction, system.open(path, "wb") as target:
            while chunk := content.read(_CHUNK_BYTES):
                target.write(chunk)


def stamp_of_url(url: str) -> str | None:
    """Give a text that changes when what a URL names does; None: nobody says."""
    with _told("cannot be fetched", url):
        system, path = _reached(url)
        try:
            info = system.info(path)
        except NotImplementedError:
            return None
    marks = [f"{key}={info[key]}" for key in _VALIDATORS if info.get(key)]
    return " ".join([f"size={info.get('size')}", *marks]) if marks else None


def _reached(url: str) -> tuple[Any, str]:
    import fsspec

    if "::" in url:
        why = "chains of URLs ('::') are not allowed"
        raise StagingProblem("cannot be used", url, why, lasting=True)
    options: dict[str, Any] = {}
    if urlsplit(url).scheme in _WEB:
        from aiohttp import ClientTimeout

        waits = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        options["client_kwargs"] = {"timeout": waits, "trust_env": True}
    # An instance of our own: a transaction of another thread would hold back what this one writes.
    try:
        found = fsspec.core.url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **options)
    except ValueError as error:
        raise StagingProblem("cannot be used", _without_secrets(url), str(error), lasting=True) from error
    return found[0], found[1]


@contextmanager
def _told(what: str, url: str) -> Iterator[None]:
    """Tell whatever a library raises as a problem of the URL: each has errors of its own."""
    try:
        yield
    except StagingProblem:
        raise
    except ImportError as error:
        advice = "install the package that fsspec needs for it"
        raise StagingProblem(what, _without_secrets(url), str(error), advice=advice, lasting=True) from error
    except Exception as error:
        raise _problem(what, _without_secrets(url), _reason(error)) from error


def _reason(error: Exception) -> Exception:
    """Give why there is no such file: fsspec says that of a server, whatever has gone wrong there."""
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) else error


def _problem(what: str, url: str, error: Exception) -> StagingProblem:
    number = error.errno if isinstance(error, OSError) else None
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == _NOT_FOUND:
        return StagingProblem(what, url, "there is no such file", number=number, lasting=True)
    why = f"{error} ({type(error).__name__})" if str(error) else type(error).__name__
    lasting = isinstance(status, int) and 400 <= status < 500 and status not in _PASSING
    return StagingProblem(what, url, why, number=number, lasting=lasting)


def _without_secrets(url: str) -> str:
    """Leave out a password."""
    return re.sub(r"//[^/@]*@", "//", url)
