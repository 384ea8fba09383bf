"""Attempts of an executed run as ``trace.tsv``, with the columns of Nextflow's trace file.

The first fourteen columns are the default columns of Nextflow in its order; the others have names that
Nextflow defines too. Unknown values are ``-``. Deviations: a line is an attempt, ``task_id`` its number,
``attempt`` counts the attempts of the task; times are UTC; ``hash`` is the start of the fingerprint;
``queue`` is the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from weft.engine.history import AttemptRecord
from weft.reports.execution import ExecutedRun, is_reused
from weft.reports.text import printable

TRACE_COLUMNS = (
    "task_id", "hash", "native_id", "name", "status", "exit", "submit", "duration", "realtime", "%cpu",
    "peak_rss", "peak_vmem", "rchar", "wchar", "process", "tag", "attempt", "cpus", "memory", "time", "start",
    "complete", "queue", "workdir",
)  # fmt: skip
"""Names of the columns, in order."""

_Known = TypeVar("_Known")

_NOTHING = "-"
_STATUS = {"completed": "COMPLETED", "failed": "FAILED"}
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def trace_tsv(executed: ExecutedRun, *, raw: bool = False) -> str:
    """Return a line per attempt, by number; ``raw``: in milliseconds and bytes, as in Nextflow."""
    tries: dict[tuple[int, str, tuple[int, ...]], int] = {}
    lines = ["\t".join(TRACE_COLUMNS)]
    for attempt in executed.attempts:
        task = (attempt.run, attempt.task, attempt.counters)
        tries[task] = tries.get(task, 0) + 1
        cells = _cells(executed, attempt, tries[task], raw=raw)
        lines.append("\t".join(printable(cells.get(column) or _NOTHING) for column in TRACE_COLUMNS))
    return "\n".join(lines) + "\n"


def _cells(executed: ExecutedRun, attempt: AttemptRecord, number: int, *, raw: bool) -> dict[str, str | None]:
    measured = executed.measured(attempt.number)
    product = executed.records.products.get(attempt.number)
    submit_s = attempt.assigned_s if attempt.submitted_s is None else attempt.submitted_s
    machine = executed.machines[attempt.machine]
    duration, size, moment = (_raw_ms, _raw, _raw_date) if raw else (_duration, _size, _date)

    def wall(time_s: float | None) -> str | None:
        return _known(moment, executed.records.wall(time_s))

    ended_s = attempt.ended_s
    return {
        "task_id": str(attempt.number),
        "hash": f"{product.fingerprint[:2]}/{product.fingerprint[2:8]}"
        if product is not None and product.fingerprint
        else None,
        "native_id": attempt.job or _known(str, measured.pid),
        "name": _name(executed, attempt),
        "status": "CACHED" if is_reused(attempt) else _STATUS.get(attempt.ending, "ABORTED"),
        "exit": _known(str, attempt.exit_code),
        "submit": wall(submit_s),
        "duration": None if ended_s is None else duration(ended_s - submit_s),
        "realtime": duration(attempt.ran_s)
        if attempt.started_s is not None and ended_s is not None
        else None,
        "%cpu": _cpu(measured.cpu_s, attempt.ran_s, raw=raw),
        "peak_rss": _known(size, measured.max_rss_bytes),
        "process": attempt.kind,
        "tag": attempt.task[len(attempt.kind) :].strip("[]") or None,
        "attempt": str(number),
        "cpus": str(attempt.nodes * (1 if machine.node_is_core else machine.cores)),
        "memory": _known(size, attempt.memory_bytes),
        "time": _known(duration, attempt.time_limit_s),
        "start": wall(attempt.started_s),
        "complete": wall(ended_s),
        "queue": machine.name,
        "workdir": None if product is None else product.directory or None,
    }


def _name(executed: ExecutedRun, attempt: AttemptRecord) -> str:
    name = attempt.label
    return f"{executed.number(attempt.run)}:{name}" if executed.several else name


def _known(write: Callable[[_Known], str], value: _Known | None) -> str | None:
    return None if value is None else write(value)


def _cpu(cpu_s: float | None, ran_s: float, *, raw: bool) -> str | None:
    if cpu_s is None or ran_s <= 0:
        return None
    return f"{100 * cpu_s / ran_s:.1f}" + ("" if raw else "%")


def _raw_ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _raw(amount: float) -> str:
    return str(round(amount))


def _raw_date(moment: datetime) -> str:
    return str(round(moment.timestamp() * 1000))


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def _duration(seconds: float) -> str:
    """Return a duration in Nextflow's format: ``12ms``, ``2.5s``, ``1m 30s``, ``2h 5s``, ``1d 2h``."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < 60:
        return f"{round(seconds, 1):g}s"
    rest = round(seconds)
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        amount, rest = divmod(rest, length)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts)


def _size(amount: float) -> str:
    """Return a size in Nextflow's format: units are powers of 1024, with at most one decimal."""
    power = 0
    while amount >= 1024 and power < len(_UNITS) - 1:
        amount /= 1024
        power += 1
    return f"{round(amount, 1):g} {_UNITS[power]}"
