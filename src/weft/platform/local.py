"""This computer as a machine: its usable cores and the memory we may take."""

from __future__ import annotations

import math
import os
from pathlib import Path

from weft.platform.machine import Machine

__all__ = ["local_machine", "usable_cores", "usable_memory"]


def local_machine(most_nodes: int | None = None) -> Machine:
    """Describe this computer as one machine whose nodes are cores; ``most_nodes`` limits how many of them."""
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
    """Count the cores this process may run on, which may be fewer than the computer has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_memory(root: Path = Path("/")) -> float | None:
    """Give the bytes of memory: those of the computer, or of our control group where that allows less."""
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
    """Find the lowest limit among our control group and those around it, of version 1 or 2."""
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
    """List a control group's folder and those around it, up to the base.

    Inside a container the group may be named as the host sees it; then only the base is there, and is ours.
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
