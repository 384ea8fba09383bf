"""Sensors of a runner: how busy the cores of its machine are, and how much memory and disk are free.

The load is the number of cores that programs other than weft's own keep busy or wait for, on the cores of the
machine. It is the larger of two estimates. The first estimate is the busy time of these cores minus that of
weft's processes. It includes programs that have ended since the last sample. The second estimate sums, over
the programs that exist, their processor time and the time they waited for a core, so that four programs on
one core are a load of 4.

Weft's processes are the engine and the runners of the execution with all their descendants. The processor
time of a program that has ended is added to its parent, so that the sum over a runner and its descendants
never decreases. The time for which a program waited is known for its first thread only. Programs that end
between two samples count by their processor time only.

If a machine may use more cores than it has nodes, the load is assigned to the other cores first.

This module is loaded by the runner on first use: it must not import other parts of weft or heavy modules.
"""

from __future__ import annotations

import os
import time

from weft.backends.runner.processes import TICKS_PER_S, read_kernel_file

TYPE_CHECKING = False  # importing typing would slow down the start of the runner
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

FIRST_WINDOW_S = 0.5
"""Seconds over which the first load is measured; later loads are measured over the sensor's interval."""

_LEAST_CHANGE, _CORE_SHARE = 0.25, 0.1
"""Smallest reported change of the load: this number of cores or, if larger, this share of the nodes."""
_BYTES_SHARE, _LEAST_BYTES = 0.1, 64e6
"""Smallest change of free memory or disk that is reported: this share of the last value or, if larger, this
number of bytes.
"""
_NS = 1e9
_KERNEL_PARENT = 2
"""Process number of the parent of all threads of the kernel."""


class _StatLine:
    """One line of ``/proc/PID/stat`` or ``/proc/PID/task/TID/stat``."""

    __slots__ = ("began", "child_ticks", "core", "parent", "session", "ticks", "waited_ns")

    def __init__(self, fields: list[bytes], waited_ns: int) -> None:
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.ticks = int(fields[11]) + int(fields[12])
        """Processor time of all its threads."""
        self.child_ticks = int(fields[13]) + int(fields[14])
        """Processor time of children that have ended and were waited for."""
        self.began = int(fields[19])
        self.core = int(fields[36])
        """The core on which it ran last."""
        self.waited_ns = waited_ns
        """Time for which its first thread was ready and waited for a core."""


class _Sample:
    """Counters of the host at one time."""

    def __init__(self, cores: Collection[int], engine: int) -> None:
        self.at_s = time.monotonic()
        self.busy = _busy_ticks(cores)
        self.programs = {
            pid: found
            for pid in [int(name) for name in os.listdir("/proc") if name.isdecimal()]
            if (found := _read_program(f"/proc/{pid}")) is not None and found.parent != _KERNEL_PARENT
        }
        self.threads = _read_threads(engine)
        """Threads of the engine, each with the core on which it ran last."""


class HostSensor:
    """Measures the state of a machine of this host at an interval, and returns noticeable changes."""

    def __init__(self, sandbox: str, nodes: int, cores: Collection[int], every_s: float) -> None:
        """Create a sensor for a machine with ``nodes`` nodes, which uses ``sandbox`` and ``cores``."""
        self._sandbox = sandbox
        self._nodes = nodes
        self._cores = frozenset(cores)
        self._every_s = every_s
        self._runners: frozenset[int] = frozenset()
        self._engine = 0
        self._last: _Sample | None = None
        self._reported: dict[str, float | None] | None = None
        self.due_s = 0.0
        """Time of the next measurement on the monotonic clock."""

    def begin(self, runners: Iterable[int], engine: int) -> None:
        """Start to measure; ``runners`` and ``engine`` are the process numbers of weft's own processes.

        A repeated call only updates these numbers.
        """
        self._runners, self._engine = frozenset(runners), engine
        if self._last is None:
            self._last = _Sample(self._cores, engine)
            self.due_s = self._last.at_s + FIRST_WINDOW_S

    def measure(self) -> dict[str, float | None] | None:
        """Measure; return load, free memory and free disk if they have changed noticeably, else None."""
        assert self._last is not None
        before, now = self._last, _Sample(self._cores, self._engine)
        self._last, self.due_s = now, now.at_s + self._every_s
        found = {
            "load": round(self._share_load(self._compute_load(before, now)), 2),
            "memory_bytes": _free_memory(),
            "disk_bytes": _free_disk(self._sandbox),
        }
        if self._reported is not None and not self._has_changed(self._reported, found):
            return None
        self._reported = found
        return found

    def _compute_load(self, before: _Sample, now: _Sample) -> float:
        """Return how many cores programs other than weft's kept busy or waited for, between two samples."""
        window_s = max(now.at_s - before.at_s, 1e-3)
        own = _find_own(now.programs, self._runners, self._engine)
        demanded_s = sum(
            (program.ticks - ticks) / TICKS_PER_S + max(0, program.waited_ns - waited_ns) / _NS
            for pid, program in now.programs.items()
            if pid not in own and program.core in self._cores and pid != self._engine
            for ticks, waited_ns in [_earlier(before, pid, program)]
            if program.ticks > ticks
        )
        busy_s = (now.busy - before.busy - self._own_ticks(before, now, own)) / TICKS_PER_S
        return max(0.0, demanded_s, busy_s) / window_s

    def _own_ticks(self, before: _Sample, now: _Sample, own: dict[int, int]) -> float:
        """Return the processor time that weft's own processes used on these cores between two samples."""
        earlier = _find_own(before.programs, self._runners, self._engine)
        totals: dict[int, int] = {}
        for programs, runner_of, sign in ((now.programs, own, 1), (before.programs, earlier, -1)):
            for pid, runner in runner_of.items():
                program = programs[pid]
                totals[runner] = totals.get(runner, 0) + sign * (program.ticks + program.child_ticks)
        found = 0.0
        for runner, ticks in totals.items():
            # A runner missing in the earlier sample counts only if it started within this window.
            known = runner in earlier or _began_s(now.programs[runner]) >= before.at_s
            found += max(0, ticks) * _overlap(runner, self._cores) if known else 0.0
        for tid, thread in now.threads.items():
            then = before.threads.get(tid)
            if thread.core in self._cores and then is not None:
                found += thread.ticks - then.ticks
        return found

    def _share_load(self, load: float) -> float:
        """Return the load on the machine's nodes: the load minus the number of cores beyond its nodes."""
        return max(0.0, load - max(0, len(self._cores) - self._nodes))

    def _has_changed(self, old: dict[str, float | None], new: dict[str, float | None]) -> bool:
        least = max(_LEAST_CHANGE, _CORE_SHARE * self._nodes)
        if abs((new["load"] or 0.0) - (old["load"] or 0.0)) >= least:
            return True
        for name in ("memory_bytes", "disk_bytes"):
            then, value = old[name], new[name]
            if then is None or value is None:
                if then != value:
                    return True
            elif abs(value - then) >= max(_LEAST_BYTES, _BYTES_SHARE * then):
                return True
        return False


def _earlier(before: _Sample, pid: int, program: _StatLine) -> tuple[int, int]:
    """Return processor and waiting time of a program at an earlier sample; 0 and 0 if it did not exist."""
    then = before.programs.get(pid)
    return (then.ticks, then.waited_ns) if then is not None and then.began == program.began else (0, 0)


def _find_own(programs: dict[int, _StatLine], runners: Collection[int], engine: int) -> dict[int, int]:
    """Return weft's own processes: by process number, the runner to which the process belongs.

    A process belongs to the runner that leads its session or is among its ancestors.
    """
    found: dict[int, int] = {}
    for pid, program in programs.items():
        if program.session in runners and program.session in programs:
            found[pid] = program.session
            continue
        seen, parent = {pid}, program.parent
        while parent in programs and parent not in seen and parent != engine:
            if parent in runners:
                found[pid] = parent
                break
            seen.add(parent)
            parent = programs[parent].parent
    return found


def _overlap(pid: int, cores: Collection[int]) -> float:
    """Return which share of the cores allowed to a process is in ``cores``; 0 if the process has ended."""
    try:
        allowed = os.sched_getaffinity(pid)
    except OSError:
        return 0.0
    return len(allowed.intersection(cores)) / len(allowed)


def _began_s(program: _StatLine) -> float:
    """Return the start of a process on the monotonic clock."""
    asleep_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    return program.began / TICKS_PER_S - asleep_s


def _busy_ticks(cores: Collection[int]) -> int:
    """Return the busy processor time of some cores, including time taken by the hypervisor."""
    names = {b"cpu%d" % core for core in cores}
    busy = 0
    for line in read_kernel_file("/proc/stat").splitlines():
        words = line.split()
        if words and words[0] in names:
            user, nice, system, _, _, *more = map(int, words[1:9])
            busy += user + nice + system + sum(more)
    return busy


def _read_program(folder: str) -> _StatLine | None:
    text = read_kernel_file(f"{folder}/stat")
    # The name is in parentheses and may itself contain parentheses.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) <= 36:
        return None
    waited = read_kernel_file(f"{folder}/schedstat").split()
    return _StatLine(fields, int(waited[1]) if len(waited) > 1 else 0)


def _read_threads(pid: int) -> dict[int, _StatLine]:
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    found = ((int(name), _read_program(f"/proc/{pid}/task/{name}")) for name in names)
    return {tid: thread for tid, thread in found if thread is not None}


def _free_memory() -> float | None:
    """Return the bytes of memory that are available to new programs, on the host and in the control group."""
    amounts = [_read_kilobytes("/proc/meminfo", b"MemAvailable:"), _free_in_group()]
    return min((amount for amount in amounts if amount is not None), default=None)


def _read_kilobytes(name: str, key: bytes) -> float | None:
    for line in read_kernel_file(name).splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024.0
    return None


def _free_in_group() -> float | None:
    """Return the bytes that are free below the memory limit of the control group; None: no limit."""
    for line in read_kernel_file("/proc/self/cgroup").decode(errors="replace").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[1] == "":
            folder, files = f"/sys/fs/cgroup{parts[2]}", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in parts[1].split(","):
            folder = f"/sys/fs/cgroup/memory{parts[2]}"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        limit, used = (read_kernel_file(f"{folder}/{name}").strip() for name in files[:2])
        if limit.isdigit() and used.isdigit() and int(limit) < 1 << 60:
            return max(0.0, float(int(limit) - int(used) + _inactive(f"{folder}/memory.stat", files[2])))
    return None


def _inactive(name: str, key: str) -> int:
    """Return the bytes of a control group that the kernel can reclaim at once; 0 if unknown."""
    for line in read_kernel_file(name).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == key.encode():
            return int(words[1])
    return 0


def _free_disk(folder: str) -> float | None:
    """Return the bytes that are free below a directory, which need not exist yet."""
    while True:
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            if folder == "/":
                return None
            folder = os.path.dirname(folder)
            continue
        except OSError:
            return None
        return float(found.f_bavail * found.f_frsize)
