"""Parse and format quantities with units: ``40MB``, ``1h30m``, ``D-HH:MM:SS``.

All numbers are in seconds, bytes, or bytes per second.
"""

from __future__ import annotations

import math
import re

BYTES: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGTP", start=1)},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGTP", start=1)},
}
"""Bytes per unit: decimal (kB, MB, ...) and binary (KiB, MiB, ...)."""

SECONDS: dict[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""Seconds per unit."""

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*")
_PLAIN = re.compile(rf"\s*({_NUMBER})\s*")
_CLOCK = re.compile(r"\s*(?:(\d+)-)?(\d{1,3}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*")
_ROUNDS_TO_A_SECOND = 0.9995
"""From this number of seconds on, milliseconds with three significant digits would round to 1000 ms."""
_LONGEST_IN_DAYS = 1e14
"""From this number of seconds on, the number of days would have more than nine digits."""
_SIZES = {name.lower(): value for name, value in BYTES.items()}


def parse_seconds(text: str) -> float | None:
    """Return the seconds of ``90``, ``90s``, ``1h30m``, ``HH:MM`` or ``D-HH:MM:SS``; None for other texts."""
    if plain := _PLAIN.fullmatch(text):
        return _finite(float(plain[1]))
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return _finite(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    total, position = 0.0, 0
    while part := _PART.match(text, position):
        if (unit := SECONDS.get(part[2])) is None:
            return None
        total += float(part[1]) * unit
        position = part.end()
    return _finite(total) if position == len(text) and position > 0 else None


def parse_bytes(text: str) -> float | None:
    """Return the bytes of ``40MB``, ``4gib`` or ``100`` (units in any case); None for other texts."""
    if plain := _PLAIN.fullmatch(text):
        return _finite(float(plain[1]))
    part = _PART.fullmatch(text)
    unit = _SIZES.get(part[2].lower()) if part else None
    return None if part is None or unit is None else _finite(float(part[1]) * unit)


def exact_bytes(amount: float) -> float | int | str:
    """Return a size as ``parse_bytes`` reads it back unchanged: with a short number and a unit if possible.

    >>> exact_bytes(8e9), exact_bytes(23.5 * 2**30), exact_bytes(1234567891.0), exact_bytes(0.5)
    ('8GB', '23.5GiB', 1234567891, 0.5)
    """
    if not math.isfinite(amount):
        return amount
    texts = (f"{amount / size:.4g}{unit}" for unit, size in BYTES.items() if size <= abs(amount) and size > 1)
    exact = [text for text in texts if parse_bytes(text) == amount]
    if exact:
        return min(exact, key=len)
    return int(amount) if amount == int(amount) else amount


def round_memory(amount: float) -> float:
    """Return a detected amount of memory, rounded down to a short number of GiB or MiB unless it has one.

    >>> exact_bytes(round_memory(25276518400.0)), exact_bytes(round_memory(4e9))
    ('23.5GiB', '4GB')
    """
    if isinstance(exact_bytes(amount), str):
        return amount
    unit = BYTES["GiB"] if amount >= BYTES["GiB"] else BYTES["MiB"]
    return math.floor(10.0 * amount / unit) * unit / 10.0


def parse_rate(text: str) -> float | None:
    """Return the bytes per second of a bandwidth (``12.5MB/s``, ``12.5MB``); None for other texts."""
    return parse_bytes(re.sub("/s$", "", text.strip()))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def format_seconds(seconds: float) -> str:
    """Return a duration as text in at most two units: ``1h 30m``, ``90 s``, ``12 ms``."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return "-" + format_seconds(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds < _ROUNDS_TO_A_SECOND:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.4g} s"
    if seconds >= _LONGEST_IN_DAYS:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    first = next(index for index, (amount, _) in enumerate(parts) if amount)
    return " ".join(f"{amount}{unit}" for amount, unit in parts[first : first + 2])


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 task``, ``2 tasks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_change(change: float) -> str:
    """Return a relative change in percent with its sign, ``+12.5%``; one that rounds to 0 is ``+0.0%``."""
    return f"{round(change, 3) + 0.0:+.1%}"


def format_bytes(amount: float) -> str:
    """Return a size as text in decimal units: ``76.8 MB``."""
    if not math.isfinite(amount):
        return "unknown"
    for unit in ("PB", "TB", "GB", "MB", "kB"):
        if abs(amount) >= BYTES[unit]:
            return f"{amount / BYTES[unit]:.4g} {unit}"
    return f"{amount:.4g} B"
