"""Words of a command that name files beside the workflow: programs and scripts that are brought along.

``./lapw0`` and ``python train.py`` work as the user wrote them: each such file lies in the task's directory
under the same name, and its content is part of the fingerprint.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import posixpath
import shlex
from collections.abc import Collection, Iterable

__all__ = ["brought_along", "words_of"]

_MOST_CHARACTERS = 1000
_OWN = ".weft"
_MANY = ("inputs", "outputs")


@functools.lru_cache(maxsize=1024)
def words_of(line: str) -> tuple[str, ...]:
    """Split a line for the shell into words, but for those it writes to; names in braces stay."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        tokens = list(reader)
    except ValueError:  # quotes of a here-document need not match
        tokens = line.split()
    found: dict[str, None] = {}
    written = False
    for token in tokens:
        if not written:
            found[token] = None
        written = token.startswith(">") or token.endswith(">")
    return tuple(word for word in found if _may_name_file(word))


def _may_name_file(word: str) -> bool:
    return (
        word[:1] not in ("", *"-/~();<>|&")
        and len(word) <= _MOST_CHARACTERS
        and not any(f"{{{name}}}" in word for name in _MANY)
    )


def brought_along(words: Iterable[str], folder: str, declared: Collection[str]) -> tuple[str, ...]:
    """List the words that are files of the workflow's folder, but for those the task declares itself."""
    found: dict[str, None] = {}
    for word in words:
        if "\0" in word or not os.path.isfile(f"{folder}/{word}"):  # noqa: PTH113 -- a Path costs more than the question
            continue
        name = posixpath.normpath(word)
        parts = name.split("/")
        if name.startswith("/") or parts[0] in ("..", _OWN) or _is_declared(name, declared):
            continue
        found[name] = None
    return tuple(found)


def _is_declared(name: str, declared: Collection[str]) -> bool:
    if name in declared:
        return True
    patterns = [given for given in declared if given.endswith("/") or "*" in given or "?" in given]
    return any(fnmatch.fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)
