"""What is known of an executed run beyond its journal: promises, measurements, logs, products, wall clock.

Everything may be missing: the journal of a simulation has none of it, and the reports say ``-`` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from weft.backends.products import Product
from weft.engine.remaining.promises import Promise
from weft.reports.execution_logs import Logs

__all__ = ["NO_EVIDENCE", "Evidence", "Measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the operating system says of one attempt's program; None: unknown."""

    cpu_s: float | None = None
    max_rss_bytes: float | None = None
    pid: int | None = None
    signal: int | None = None
    """Which signal ended it; None: none did."""
    text: str = ""
    """Why it could not be started, or what else its runner has to say."""

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Measured:
        """Read the end record of a runner (``user_s``, ``system_s``, ``max_rss_bytes``, ``pid``, ...)."""
        times = [record.get(key) for key in ("user_s", "system_s")]
        known = [float(seconds) for seconds in times if seconds is not None]
        return cls(
            cpu_s=sum(known) if known else None,
            max_rss_bytes=record.get("max_rss_bytes"),
            pid=record.get("pid"),
            signal=record.get("signal"),
            text=str(record.get("text") or ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything else that is known."""

    promises: Mapping[int, Promise] = field(default_factory=dict)
    """By run. Of a run without one, the first plan in its journal is its promise."""
    measured: Mapping[int, Measured] = field(default_factory=dict)
    """By attempt."""
    products: Mapping[int, Product] = field(default_factory=dict)
    """By the attempt that made them."""
    logs: Logs | None = None
    numbers: Mapping[int, int] = field(default_factory=dict)
    """By run, the number that users know it by; a run without one goes by its place in the execution."""
    zero_at_s: float | None = None
    """Seconds since 1970 at the engine's time 0; None: unknown."""

    def wall(self, time_s: float | None) -> datetime | None:
        """Give a time on the engine's clock as a date, in UTC; None: unknown."""
        if time_s is None or self.zero_at_s is None:
            return None
        return datetime.fromtimestamp(self.zero_at_s + time_s, UTC)


NO_EVIDENCE = Evidence()
"""The journal is all there is."""
