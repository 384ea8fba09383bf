"""The version of weft."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
