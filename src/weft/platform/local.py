"""The local computer as a machine: its usable cores and memory."""

from __future__ import annotations

import math
import os
from pathlib import Path

from weft.platform.machine import Machine


def local_machine(most_nodes: int | None = None) -> Machine:
    """Return the local computer as a machine whose nodes are its usable cores.

    The machine has at most ``most_nodes`` nodes.
    """
    system = os.uname()
    cores = usable_cores()
    return Machine(
        name="local",
        nodes=cores if most_nodes is None else min(cores, most_nodes),
        cores=1,
        memory=usable_memory(),
        arch=system.machine,
        os=system.sysname.lower(),
        backend={"kind": "local"},
    )


def usable_cores() -> int:
    """Return the number of cores this process may use, which may be fewer than the computer has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_memory(root: Path = Path("/")) -> float | None:
    """Return the installed memory in bytes, or the limit of the control group if lower; None if unknown."""
    amounts = [amount for amount in (_installed_memory(root), _group_limit(root)) if amount is not None]
    return min(amounts) if amounts else None


def _installed_memory(root: Path) -> float | None:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if name == "MemTotal" and words and words[0].isdigit():
            return float(words[0]) * 1024
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError):
        return None


def _group_limit(root: Path) -> float | None:
    """Return the lowest memory limit in bytes of the process's control group (v1 or v2) and its ancestors."""
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[1] == "":
            base, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in parts[1].split(","):
            base, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        limits += [_limit(folder / file) for folder in _folders(base, parts[2])]
    return min((limit for limit in limits if limit < math.inf), default=None)


def _folders(base: Path, group: str) -> list[Path]:
    """Return the directories of a control group and its ancestors, up to the directory ``base``.

    Inside a container the group may have a name that is valid only on the host; then only the base directory
    exists.
    """
    names = [name for name in group.split("/") if name not in ("", "..")]
    return [base.joinpath(*names[:depth]) for depth in range(len(names), -1, -1)]


def _limit(file: Path) -> float:
    text = _text(file).strip()
    return float(text) if text.isdigit() else math.inf


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
