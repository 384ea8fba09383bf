"""Compression: a compressed input becomes a plain file on the machine. What it is, its first bytes say."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from weft.backends.staging.new_files import written
from weft.backends.staging.problem import StagingProblem

__all__ = ["decompress", "plain_name_of"]

_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_CHUNK_BYTES = 1 << 20


def plain_name_of(name: str) -> str:
    """Give the name of a compressed file once it is decompressed: without ``.gz`` and the like."""
    plain = name.removesuffix(next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), ""))
    return plain if plain and not plain.endswith("/") else name


def decompress(source: int, target: int, name: str) -> None:
    """Write the plain content of an open compressed file to another open file."""
    opener = _opener(os.pread(source, 6, 0), name)
    with os.fdopen(os.dup(source), "rb") as raw:
        raw.seek(0)
        with opener(raw) as plain:
            while chunk := _next(plain, name):
                written(chunk, target)


def _next(plain: IO[bytes], name: str) -> bytes:
    try:
        return plain.read(_CHUNK_BYTES)
    except Exception as error:  # Each library has errors of its own for what is broken or cut off.
        raise StagingProblem("cannot be decompressed", name, str(error) or type(error).__name__) from error


def _opener(first: bytes, name: str) -> Callable[[IO[bytes]], Any]:
    if first.startswith(b"\x1f\x8b"):
        return lambda raw: gzip.GzipFile(fileobj=raw)
    if first.startswith(b"BZh"):
        return bz2.BZ2File
    if first == b"\xfd7zXZ\0":
        return lzma.LZMAFile
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstandard(name)
    why = "it is not in one of the formats gzip, bzip2, xz, zstandard"
    raise StagingProblem("cannot be decompressed", name, why, advice="leave `compressed` out if it is plain")


def _zstandard(name: str) -> Callable[[IO[bytes]], Any]:
    """Find what reads zstandard: Python's library since 3.14, before it the same as a package.

    Not the package ``zstandard``: it takes what was cut off for the whole.
    """
    with suppress(ImportError):
        from compression import zstd

        return lambda raw: zstd.ZstdFile(raw)
    with suppress(ImportError):
        from backports import zstd as backport

        return lambda raw: backport.ZstdFile(raw)
    advice = "install the Python package 'backports.zstd', or compress it with gzip, bzip2 or xz"
    raise StagingProblem("cannot be decompressed", name, "this Python cannot read zstandard", advice=advice)
