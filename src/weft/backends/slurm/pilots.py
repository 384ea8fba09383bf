"""Pilots of the Slurm backend, seen from the engine: their programs and the messages to and from them.

A pilot is a job (``pilot.py``) that holds nodes of a machine and runs one program after the other. Programs
wait here until a pilot that has started has a free slot: a slot is a node, or a core where a machine counts
cores. As many pilots are requested as programs wait, up to the nodes of the machine that no other job of weft
uses. An order that a pilot has not read before its end is sent to another pilot. Programs that ran when their
pilot ended are reported as preempted or lost, so that the engine starts them again.

All state belongs to the thread of the engine; another thread reads the reports. Login nodes load this module
without weft being installed there: it uses Python 3.8 and the standard library.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from weft.backends.runner.records import Record, SealedRecords
from weft.backends.slurm.job import REQUESTS
from weft.backends.slurm.job_files import JobFiles
from weft.backends.slurm.message_log import MessageReader, MessageWriter
from weft.backends.slurm.pilot import ORDERS, REPORTS
from weft.records import dataclass
from weft.units import parse_seconds

if TYPE_CHECKING:
    from typing import TypeAlias

ProgramReport: TypeAlias = "Mapping[str, Any]"
"""See ``attempt/attempt.py``."""
MODULE_NUMBERS = 1 << 30
"""Numbers from here on are those of prologs, epilogs and evaluators, which the journal does not contain."""
PILOT_NUMBERS = 1 << 60
"""Numbers from here on are those of pilots, which count as jobs but not as attempts."""
MODES = ("auto", "job", "array", "pilot")
"""Values of the key ``mode``."""
BELOW_S, TIME_S, IDLE_S = 60.0, 3600.0, 30.0
"""Defaults of ``pilot_below``, ``pilot_time`` and ``pilot_idle``."""
SIGNAL_BEFORE_S = 30
"""Seconds before the time limit at which a pilot ends its programs, if its limit is not short."""
_SHORT_S = 600.0
_LATE_S = 60.0
"""Seconds by which Slurm may send a signal earlier than requested."""
_RESERVE_S = 5.0
_MOST_FAILURES = 3
_READ_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What jobs need to know about the machine on which they run; a machine is a part of a cluster."""

    name: str
    nodes: int
    cores: int
    """Cores per node to request."""
    node_is_core: bool
    """Whether the nodes of the machine are cores (``unit: core``)."""
    backend: Mapping[str, Any]
    """The settings of the machine."""


@dataclass(slots=True, eq=False)
class PilotTask:
    """A program for a pilot, from its start by the engine until its end is reported."""

    machine: int
    attempt: int
    nonce: str
    order: Mapping[str, Any] | None
    """The order; None: a pilot has accepted it."""
    weight: int = 1
    """Number of slots that it uses."""
    pilot: Pilot | None = None
    message: int = 0
    """Number of the message that contains its order."""
    place: tuple[int, int] | None = None
    """Start and end of this message in the log."""
    signals: list[str] = field(default_factory=list)
    """Signals to send after the order."""


class Pilot:
    """A pilot job and the messages to and from it."""

    def __init__(self, machine: int, files: JobFiles, slots: int, memory_bytes: float | None) -> None:
        self.machine = machine
        self.files = files
        self.slots = slots
        self.memory_bytes = memory_bytes
        """Memory that its job requests; None: the default of the site."""
        self.tasks: dict[int, PilotTask] = {}
        """By attempt: the programs that it runs or will run."""
        self.number = ""
        """Number of its job; "": not known."""
        self.has_started = False
        self.is_leaving = False
        """Whether it gets no more orders."""
        self.end_s = math.inf
        """Time on the monotonic clock at which its programs must have ended."""
        self.outgoing: list[Record] = []
        self.discards: set[tuple[int, str]] = set()
        """Attempts and nonces of programs that are not in the journal and still have to be ended."""
        self.unconfirmed: set[int] = set()
        """Attempts whose ends the journal may not contain yet."""
        self.is_over = False
        self.lock = threading.Lock()
        self._folders: list[SealedRecords] = []
        self.reader: MessageReader | None = None
        self.writer: MessageWriter | None = None

    def open(self, last: int = 0) -> None:
        """Open the logs; ``last`` is the number of the last message to the pilot. Raises OSError."""
        if self.writer is None:
            folders = [SealedRecords(str(self.files.folder), self.files.key)]
            self._folders = folders
            folders.append(SealedRecords(str(self.files.folder / REQUESTS), self.files.key))
            self.reader, self.writer = (
                MessageReader(folders[0], REPORTS),
                MessageWriter(folders[1], ORDERS, last),
            )

    def read(self) -> list[Record]:
        """Return the new reports; the lock must be held if another thread may read them."""
        return [] if self.reader is None else self.reader.read()

    def close(self) -> None:
        """Close the logs."""
        with self.lock:
            self.reader = self.writer = None
            for folder in self._folders:
                folder.close()
            self._folders = []

    @property
    def free(self) -> int:
        """Return the number of free slots."""
        return self.slots - sum(task.weight for task in self.tasks.values())

    def send(self, **message: Any) -> int:
        """Queue a message; return its number."""
        assert self.writer is not None
        number = self.writer.number()
        self.outgoing.append({"n": number, **message})
        return number

    def flush(self) -> None:
        """Write the queued messages; after an error the next call tries again."""
        if not self.outgoing or self.writer is None:
            return
        if all(each["do"] == "forget" for each in self.outgoing) and len(self.outgoing) < self.slots + 50:
            return  # sent with the next order
        with suppress(OSError):
            places = self.writer.append(self.outgoing)
            by_number = {each["n"]: place for each, place in zip(self.outgoing, places)}
            for task in self.tasks.values():
                task.place = by_number.get(task.message, task.place)
            self.outgoing = []

    def erase(self, task: PilotTask) -> None:
        """Remove the order of a task from the log, because it may contain secrets."""
        task.order = None
        if task.place is not None and self.writer is not None:
            with suppress(OSError):
                self.writer.erase(*task.place)
            task.place = None


class ReportReader:
    """A thread that reads the reports of pilots while programs run in them."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._active: tuple[Pilot, ...] = ()
        self._found: SimpleQueue[tuple[Pilot, list[Record]]] = SimpleQueue()
        self._changed = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def watch(self, pilots: Sequence[Pilot]) -> None:
        """Read the reports of these pilots only."""
        if tuple(pilots) == self._active:
            return
        self._active = tuple(pilots)
        if self._thread is None and pilots:
            self._thread = threading.Thread(target=self._serve, name="slurm-pilots", daemon=True)
            self._thread.start()
        self._changed.set()

    def _serve(self) -> None:
        while not self._is_closed:
            self._changed.clear()
            found = False
            for pilot in self._active:
                found = self.read(pilot) or found
            if found:
                self._wake()
            self._changed.wait(_READ_EVERY_S if self._active else None)

    def read(self, pilot: Pilot) -> bool:
        """Read the new reports of a pilot; return whether there are any. Any thread may call this."""
        with pilot.lock:  # also while they are added, so that no later ones are added before
            messages = pilot.read()
            if messages:
                self._found.put((pilot, messages))
            return bool(messages)

    def take(self) -> Iterator[tuple[Pilot, list[Record]]]:
        """Yield what was read."""
        while not self._found.empty():
            yield self._found.get()

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join()


class PilotPool:
    """The pilots of all machines and the programs that wait for them."""

    def __init__(
        self,
        machines: Mapping[int, Partition],
        folder: Callable[[int], Path],
        token: str,
        wake: Callable[[], None],
    ) -> None:
        self._machines = machines
        self._folder = folder
        self._token = token
        self._reader = ReportReader(wake)
        self.pilots: list[Pilot] = []
        """Pilots that have not ended."""
        self._ended: list[Pilot] = []
        """Pilots that have ended, while ends of their programs are not confirmed."""
        self._waiting: dict[int, deque[PilotTask]] = {}
        """By machine: the programs without a pilot."""
        self._tasks: dict[int, PilotTask] = {}
        """By attempt: the programs whose ends were not reported."""
        self._holders: dict[int, Pilot] = {}
        """By attempt with an unconfirmed end: its pilot."""
        self._failures: dict[int, int] = {}
        """By machine: number of pilots that ended without executing an order, since one executed an order."""

    def __contains__(self, attempt: int) -> bool:
        return attempt in self._tasks

    @property
    def has_waiting(self) -> bool:
        """Return whether a program waits for a pilot."""
        return any(self._waiting.values())

    def list_waiting(self, machine: int | None = None) -> list[dict[str, Any]]:
        """Return attempt and nonce of the programs without a pilot, on one machine or on all."""
        found = [self._waiting.get(machine, ())] if machine is not None else list(self._waiting.values())
        return [{"attempt": task.attempt, "nonce": task.nonce} for queue in found for task in queue]

    @property
    def is_clear(self) -> bool:
        """Return whether no program runs that is not in the journal."""
        return not any(pilot.discards for pilot in self.pilots)

    # Choice of programs.

    def takes(self, machine: int, order: Mapping[str, Any]) -> bool:
        """Return whether a program runs in a pilot, not in a job of its own."""
        stated = self._machines[machine].backend
        mode = stated.get("mode", "auto")
        time_s, expected_s = order.get("time_s"), order.get("expected_s")
        if order.get("ooms") and order.get("memory_bytes") is None:
            return False  # its job requests more memory than a pilot has
        if mode in {"job", "array"} or self._weight(machine, order) > self._slots(machine):
            return False
        if max(time_s or 0.0, 2.0 * (expected_s or 0.0)) > 0.8 * seconds_of(stated, "pilot_time", TIME_S):
            return False
        if mode == "pilot":
            return True
        if int(order["attempt"]) >= MODULE_NUMBERS:
            return any(pilot.machine == machine and _is_usable(pilot) for pilot in self.pilots)
        return expected_s is not None and expected_s <= seconds_of(stated, "pilot_below", BELOW_S)

    def _slots(self, machine: int) -> int:
        found = self._machines[machine]
        # Generic resources of a node cannot be divided among its programs.
        is_divided = found.node_is_core and not found.backend.get("gres")
        return min(found.cores, found.nodes) if is_divided else 1

    def _weight(self, machine: int, order: Mapping[str, Any]) -> int:
        count = int(order.get("nodes") or 1)
        if self._machines[machine].node_is_core and self._slots(machine) == 1:
            return 1 if count <= self._machines[machine].cores else 2
        return count

    def add(self, machine: int, order: Mapping[str, Any]) -> None:
        """Queue a program."""
        attempt = int(order["attempt"])
        # The modules of a task run on the node that the engine has reserved for it.
        weight = 0 if attempt >= MODULE_NUMBERS else self._weight(machine, order)
        task = PilotTask(machine, attempt, str(order["nonce"]), order, weight)
        self._tasks[attempt] = task
        self._waiting.setdefault(machine, deque()).append(task)

    # Requests of the engine.

    def cancel(self, attempt: int, grace_s: float) -> list[ProgramReport]:
        """End a program; return its end if it has not been sent to a pilot."""
        task = self._tasks[attempt]
        if task.pilot is None:
            self._waiting[task.machine].remove(task)
            return [self._end(task, cause="cancelled", text="it was cancelled before it started")]
        task.pilot.send(do="cancel", attempt=attempt, nonce=task.nonce, grace_s=min(grace_s, 1e9))
        return []

    def signal(self, attempt: int, name: str) -> None:
        """Send a signal to a program."""
        task = self._tasks[attempt]
        if task.pilot is None:
            task.signals.append(name)
        else:
            task.pilot.send(do="signal", attempt=attempt, nonce=task.nonce, signal=name)

    def forget(self, attempt: int) -> bool:
        """Drop the end of a program; return whether a pilot ran it."""
        if (pilot := self._holders.pop(attempt, None)) is None:
            return False
        pilot.unconfirmed.discard(attempt)
        if not pilot.is_over:
            pilot.send(do="forget", attempts=[attempt])
        elif not pilot.unconfirmed and pilot in self._ended:
            self._ended.remove(pilot)
            pilot.files.remove()
        return True

    # Distribution of programs.

    def dispatch(self, used_nodes: Mapping[int, int]) -> list[Pilot]:
        """Send waiting programs to pilots; return new pilots whose jobs are to be submitted.

        ``used_nodes``: by machine, the nodes that other jobs use. Idle pilots in their way are ended.
        """
        wanted: list[Pilot] = []
        for machine, waiting in self._waiting.items():
            left: deque[PilotTask] = deque()
            while waiting:
                task = waiting.popleft()
                if not self._send(task):
                    left.append(task)
            self._waiting[machine] = left
            wanted += self._request(machine, left, self._allowed(machine, used_nodes))
        for machine in {pilot.machine for pilot in self.pilots}:
            here = [pilot for pilot in self.pilots if pilot.machine == machine and not pilot.is_leaving]
            excess = len(here) - max(0, self._allowed(machine, used_nodes))
            for pilot in [each for each in here if not each.tasks and each.has_started][: max(0, excess)]:
                self._release(pilot)
        return wanted

    def flush(self) -> None:
        """Write the messages to pilots, and read the reports of those that run programs."""
        for pilot in self.pilots:
            pilot.flush()
        self._reader.watch([pilot for pilot in self.pilots if pilot.tasks or pilot.discards])

    def _allowed(self, machine: int, used_nodes: Mapping[int, int]) -> int:
        free = self._machines[machine].nodes - used_nodes.get(machine, 0)
        return math.ceil(free / self._slots(machine)) if self._machines[machine].node_is_core else free

    def _send(self, task: PilotTask) -> bool:
        """Send a program to a pilot that has started, if there is one with a free slot."""
        order = task.order or {}
        beside = self._tasks.get(int(order.get("beside") or -1))
        now_s = time.monotonic()
        usable = [
            pilot
            for pilot in self.pilots
            if pilot.machine == task.machine
            and _is_usable(pilot)
            and pilot.free >= task.weight
            and _fits_memory(pilot, order)
        ]
        if beside is not None and beside.pilot is not None:
            usable = [beside.pilot]
        needed_s = order.get("time_s") or 2.0 * (order.get("expected_s") or 0.0)
        late = [pilot for pilot in usable if pilot.end_s < now_s + needed_s]
        for pilot in late:
            if not pilot.tasks:
                self._release(pilot)
        # The fullest one: the others can end.
        found = min((each for each in usable if each not in late), key=lambda each: each.free, default=None)
        if found is None:
            return False
        task.pilot = found
        found.tasks[task.attempt] = task
        task.message = found.send(**order)
        for name in task.signals:
            found.send(do="signal", attempt=task.attempt, nonce=task.nonce, signal=name)
        return True

    def _request(self, machine: int, waiting: Sequence[PilotTask], allowed: int) -> list[Pilot]:
        """Return new pilots for programs for which no pilot in the queue has a slot."""
        here = [pilot for pilot in self.pilots if pilot.machine == machine]
        coming = [pilot for pilot in here if not (pilot.has_started or pilot.is_leaving)]
        slots = {pilot: pilot.slots for pilot in coming}
        found: list[Pilot] = []
        for task in waiting:
            order = task.order or {}
            fitting = (each for each in slots if slots[each] >= task.weight and _fits_memory(each, order))
            pilot = next(fitting, None)
            if pilot is None:
                if len(here) + len(found) >= max(1, allowed):
                    break
                pilot = self._make(machine, order.get("memory_bytes"))
                found.append(pilot)
                slots[pilot] = pilot.slots
            slots[pilot] -= task.weight
        return found

    def _make(self, machine: int, memory_bytes: float | None) -> Pilot:
        slots = self._slots(machine)
        nonce, number = os.urandom(16).hex(), int.from_bytes(os.urandom(5), "big")
        files = JobFiles.of(self._folder(machine), PILOT_NUMBERS + number, nonce, self._token)
        pilot = Pilot(machine, files, slots, None if memory_bytes is None else memory_bytes * slots)
        self.pilots.append(pilot)
        return pilot

    def describe(self, pilot: Pilot) -> dict[str, Any]:
        """Return the order of a pilot's job."""
        stated = self._machines[pilot.machine].backend
        return {
            "attempt": pilot.files.attempt, "nonce": pilot.files.nonce, "nodes": 1, "slots": pilot.slots,
            "idle_s": seconds_of(stated, "pilot_idle", IDLE_S), "memory_bytes": pilot.memory_bytes,
        }  # fmt: skip

    def limit_s(self, pilot: Pilot) -> float:
        """Return the time limit to request for a pilot."""
        return seconds_of(self._machines[pilot.machine].backend, "pilot_time", TIME_S)

    def _release(self, pilot: Pilot) -> None:
        """Let a pilot end after its programs."""
        if not pilot.is_leaving:
            pilot.is_leaving = True
            pilot.send(do="end")

    # Reports.

    def note_start(self, pilot: Pilot, start: Record, limit_s: float) -> None:
        """Note that the job of a pilot runs; ``limit_s`` is its time limit."""
        try:
            pilot.open()
        except OSError:
            return  # its folder cannot be read now; tried again
        pilot.has_started = True
        began = start.get("at")
        age_s = max(0.0, time.time() - float(began)) if isinstance(began, (int, float)) else 0.0
        reserve_s = SIGNAL_BEFORE_S + _LATE_S if ends_early(limit_s) else 0.0
        pilot.end_s = time.monotonic() - age_s + limit_s - reserve_s - _RESERVE_S

    def collect(self) -> list[ProgramReport]:
        """Return the reports on programs that were read."""
        found: list[ProgramReport] = []
        for pilot, messages in self._reader.take():
            found += self._interpret(pilot, messages)
        return found

    def _interpret(self, pilot: Pilot, messages: Sequence[Record]) -> Iterator[ProgramReport]:
        for message in messages:
            what, attempt, nonce = message.get("is"), message.get("attempt"), message.get("nonce")
            if what in {"discarded", "ended"} and isinstance(attempt, int):
                pilot.discards.discard((attempt, str(nonce)))
            task = pilot.tasks.get(attempt) if isinstance(attempt, int) else None
            if task is None or (nonce is not None and nonce != task.nonce):
                continue
            if what == "accepted":
                self._failures[task.machine] = 0
                pilot.erase(task)
                if pilot.number:
                    yield {"is": "queued", "attempt": task.attempt, "nonce": task.nonce, "job": pilot.number}
            elif what == "ended":
                yield self._end(task, **message)
            elif what == "refused":
                yield self._end(task, cause="error", text=str(message.get("text")))
            elif what in {"stopped", "continued"}:
                yield {**message, "machine_index": task.machine}

    def _end(self, task: PilotTask, **end: Any) -> ProgramReport:
        """Return the report of a program's end, and keep its record until it is confirmed."""
        del self._tasks[task.attempt]
        if (pilot := task.pilot) is not None:
            pilot.tasks.pop(task.attempt, None)
            pilot.unconfirmed.add(task.attempt)
            self._holders[task.attempt] = pilot
        now = time.time()
        none = {"is": "ended", "code": None, "signal": None, "at": now, "began": now, "seconds": 0.0}
        known = {"attempt": task.attempt, "nonce": task.nonce, "machine_index": task.machine}
        return {**none, **end, **known}

    def note_end(self, pilot: Pilot, end: Mapping[str, Any], *, is_certain: bool) -> list[ProgramReport]:
        """Return reports on the programs of a pilot that has ended; unread orders are sent to others.

        ``is_certain``: whether its job has certainly ended, so that it cannot read another order.
        """
        self._reader.read(pilot)
        found = self.collect()
        pilot.is_over = True
        pilot.discards.clear()
        if pilot in self.pilots:
            self.pilots.remove(pilot)
        last = end.get("read")
        for task in list(pilot.tasks.values()):
            is_unread = (
                task.message > last if isinstance(last, int) else is_certain and task.order is not None
            )
            if is_unread:
                del pilot.tasks[task.attempt]
                task.pilot, task.place = None, None
                self._waiting.setdefault(task.machine, deque()).appendleft(task)
                continue
            cause = "lost" if end.get("cause") in {"lost", "error", None} else "preempted"
            cause = "oom" if end.get("cause") == "oom" else cause
            text = (
                f"the pilot job in which it ran has ended: {end.get('text') or 'without a record of its end'}"
            )
            found.append(self._end(task, cause=cause, text=text))
        if end.get("cause"):
            self._failures[pilot.machine] = self._failures.get(pilot.machine, 0) + 1
        if end.get("cause") and (not pilot.has_started or self._failures[pilot.machine] >= _MOST_FAILURES):
            # A further pilot would not start either.
            waiting = self._waiting.get(pilot.machine, deque())
            others = any(each.machine == pilot.machine for each in self.pilots)
            while waiting and not others:
                text = f"no pilot job can run it: {end.get('text')}"
                facts = {"cause": end["cause"], "text": text, "lasting": end.get("lasting") is True}
                found.append(self._end(waiting.popleft(), **facts))
        pilot.close()
        if pilot.unconfirmed:
            self._ended.append(pilot)
        else:
            pilot.files.remove()
        return found

    # Recovery.

    def recover(
        self, machine: int, files: JobFiles, known: Mapping[int, str], *, is_over: bool
    ) -> tuple[Pilot, dict[int, Record], dict[int, Record]]:
        """Find the programs of a pilot of an earlier engine; return starts and ends, by attempt."""
        pilot = Pilot(machine, files, self._slots(machine), None)
        accepted: dict[int, Record] = {}
        ends: dict[int, Record] = {}
        sent: dict[int, Record] = {}
        with suppress(OSError):
            requests = SealedRecords(str(files.folder / REQUESTS), files.key)
            orders = MessageReader(requests, ORDERS)
            for message in orders.read():
                if message.get("do") == "start":
                    sent[int(str(message["attempt"]))] = message
            requests.close()
            pilot.open(orders.last)
            for message in pilot.read():
                attempt = message.get("attempt")
                if isinstance(attempt, int) and message.get("is") in {"accepted", "ended"}:
                    (accepted if message["is"] == "accepted" else ends)[attempt] = message
            last = max([orders.last, *(int(str(each["order"])) for each in accepted.values())])
            pilot.close()
            pilot.open(last)
            pilot.read()
        starts: dict[int, Record] = {}
        for attempt, message in {**sent, **accepted}.items():
            nonce = str(message.get("nonce") or "")
            end = ends.get(attempt)
            if known.get(attempt) != nonce:
                if end is None and not is_over:
                    pilot.discards.add((attempt, nonce))
                continue
            if is_over and attempt not in accepted:
                continue
            starts[attempt] = {"at": message.get("at", time.time()), "reminder": message.get("reminder")}
            if end is None and is_over:
                text = "the pilot job in which it ran has ended"
                end = ends[attempt] = {
                    "is": "ended",
                    "attempt": attempt,
                    "nonce": nonce,
                    "cause": "lost",
                    "text": text,
                }
            if end is None:
                order = None if attempt in accepted else message
                weight = 0 if attempt >= MODULE_NUMBERS else self._weight(machine, message)
                task = PilotTask(machine, attempt, nonce, order, weight, pilot, int(str(message["n"])))
                self._tasks[attempt] = pilot.tasks[attempt] = task
            else:
                pilot.unconfirmed.add(attempt)
                self._holders[attempt] = pilot
        if is_over:
            pilot.is_over = True
            pilot.close()
            if pilot.unconfirmed:
                self._ended.append(pilot)
            else:
                files.remove()
        else:
            self.pilots.append(pilot)
            if pilot.discards:
                pilot.send(do="discard", attempts=[list(pair) for pair in sorted(pilot.discards)])
        return pilot, starts, {attempt: ends[attempt] for attempt in starts if attempt in ends}

    def close(self) -> None:
        """End the thread and close all logs."""
        self._reader.close()
        for pilot in self.pilots:
            pilot.close()


def ends_early(limit_s: float) -> bool:
    """Return whether a pilot gets a signal before its time limit; a short limit does not permit this."""
    return limit_s >= _SHORT_S


def seconds_of(stated: Mapping[str, object], key: str, default_s: float) -> float:
    """Return a time that a backend's settings state, or the default."""
    value = stated.get(key)
    if value is None:
        return default_s
    found = parse_seconds(str(value))
    return default_s if found is None else found


def _is_usable(pilot: Pilot) -> bool:
    return pilot.has_started and not pilot.is_leaving


def _fits_memory(pilot: Pilot, order: Mapping[str, Any]) -> bool:
    wanted = order.get("memory_bytes")
    return wanted is None or (pilot.memory_bytes is not None and wanted * pilot.slots <= pilot.memory_bytes)
