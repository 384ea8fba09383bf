"""Connection to the named workers of a Dask cluster, on which weft runs programs.

One thread with an event loop of its own speaks to the scheduler; the caller's thread never waits for it,
except in ``connect``, ``call`` and ``close``, which have time limits. Reports are queued, and a descriptor
becomes readable when there are some.

A program is a Dask task that is pinned to one worker. Its result is its end record. The future is dropped at
once, because Dask would compute the result again if the worker died. Each worker also answers a heartbeat
once a second, with its running programs and its new end records. So an end is found even if the future was
lost with the connection, and a stopped worker is noticed, which Dask itself notices after minutes.

A program that was submitted, and that its worker does not know when it answers again, has not been started:
it is submitted again. A repeated submission never starts a second program (see ``workers.py``).
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, BinaryIO

from weft.backends.backend import find_unknown_keys
from weft.backends.dask import workers
from weft.errors import InvalidInput, Problem, WeftError, shorten
from weft.platform.machine import Machine
from weft.records import dataclass

Report = dict[str, Any]

_KEYS = ("kind", "scheduler", "worker", "workers", "sandbox", "shared")
_CONNECT_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
"""First and longest pause before a lost connection is tried again; it doubles each time."""
_CLOSE_S = 5.0
_CHUNK_BYTES = 4 << 20
_SOON_S = 0.1
"""Seconds after a submission in which the worker is asked whether the program has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskMachine:
    """The Dask workers behind a machine of a platform file."""

    scheduler: str
    workers: tuple[str, ...]
    sandbox: str
    """Directory on the workers in which weft works."""
    shared: bool
    """Whether this computer and the workers see the same files in ``sandbox``."""

    def records(self, worker: str) -> str:
        """Return the directory on a worker's disk that contains the records of its programs."""
        name = re.sub(r"[^\w.-]", "_", worker)
        return f"{self.sandbox}/.weft-dask/{name}-{hashlib.sha256(worker.encode()).hexdigest()[:8]}"


def read_machine(machine: Machine) -> DaskMachine:
    """Return the Dask workers of a machine; raise InvalidInput with all problems of its ``backend``."""
    if problems := list(_find_problems(machine)):
        raise InvalidInput(problems)
    stated = machine.backend
    names = stated["workers"] if "workers" in stated else [stated["worker"]]
    assert isinstance(names, list | tuple)
    return DaskMachine(
        scheduler=str(stated["scheduler"]),
        workers=tuple(str(name) for name in names),
        sandbox=os.path.normpath(str(stated["sandbox"])),
        shared=stated.get("shared") is True,
    )


def _find_problems(machine: Machine) -> Iterator[Problem]:
    where, stated = f"machine {machine.name!r}: backend", machine.backend
    yield from find_unknown_keys(machine, _KEYS)
    scheduler = stated.get("scheduler")
    if not (isinstance(scheduler, str) and _is_address(scheduler)):
        what = f"{where}: scheduler {shorten(scheduler)}"
        yield Problem(what=what, rule="must be an address with a port", advice="write tcp://HOST:8786")
    if ("worker" in stated) == ("workers" in stated):
        rule = "must have either worker (a name) or workers (a list of names)"
        yield Problem(what=where, rule=rule, advice="start workers with `dask worker ADDRESS --name NAME`")
    else:
        names = stated["workers"] if "workers" in stated else [stated["worker"]]
        known = [str(name) for name in names if _is_name(name)] if isinstance(names, list | tuple) else []
        if not known or len(set(known)) != len(names):  # type: ignore[arg-type]
            rule = "must be names of Dask workers, each once"
            yield Problem(what=f"{where}: workers {shorten(names)}", rule=rule)
    sandbox = stated.get("sandbox")
    if not (isinstance(sandbox, str) and sandbox.startswith("/")):
        rule = "must be the absolute path of a directory on the workers"
        yield Problem(what=f"{where}: sandbox {shorten(sandbox)}", rule=rule)
    if not isinstance(stated.get("shared", False), bool):
        yield Problem(what=f"{where}: shared {shorten(stated['shared'])}", rule="must be true or false")


def _is_address(text: str) -> bool:
    return re.fullmatch(r"\w+://.+:\d+", text) is not None


def _is_name(name: object) -> bool:
    return (isinstance(name, str) and bool(name)) or (isinstance(name, int) and not isinstance(name, bool))


class _SubmittedProgram:
    """A submitted program whose end was not reported."""

    def __init__(self, worker: _NamedWorker, order: Mapping[str, Any]) -> None:
        self.worker = worker
        self.order = order
        self.attempt: int = order["attempt"]
        self.nonce: str = order.get("nonce") or ""
        self.collector: asyncio.Task[None] | None = None
        """Waits for the result of the Dask task; None: the program is not submitted now."""
        self.started = False
        self.end: tuple[float | None] | None = None
        """A request to terminate it, with the seconds before SIGKILL; None: no request."""

    @property
    def key(self) -> tuple[int, str]:
        return self.attempt, self.nonce


class _NamedWorker:
    """A named worker."""

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = folder
        self.state = "absent"
        """``absent``: the scheduler has not listed it yet; ``here``, ``silent``, ``lost``."""
        self.address = ""
        self.threads = 1
        self.identity: tuple[object, ...] = ()
        self.last = 0
        """Serial number of the last end record that was received."""
        self.asked_s: float | None = None
        """When the heartbeat that is unanswered was sent; None: every heartbeat was answered."""
        self.tender: asyncio.Task[None] | None = None
        self.hurry = asyncio.Event()
        self.forget: list[tuple[int, str]] = []
        self.problem = ""
        self.measure_s: float | None = None
        self.measured_s = 0.0
        self.sandbox = ""


class DaskWorkers:
    """Runs programs on the named workers of one scheduler, and reports their ends and the workers' states.

    Reports have the key ``is``: ``connected``, ``disconnected`` (``text``); of a ``worker``: ``here``
    (``running``: its programs; also after a restart of the worker), ``silent``, ``back`` and ``lost``
    (``text``), ``measured``; of an ``attempt`` with ``nonce`` and ``worker``: ``started``, ``ended`` (the
    record of ``workers.py``), ``signalled``, ``problem``. The end of a program is reported only if its worker
    has recorded it, or has no record of a program that it had started.
    """

    def __init__(
        self, address: str, folders: Mapping[str, str], *, beat_s: float = 1.0, silent_s: float = 10.0
    ) -> None:
        """Begin to connect in the background.

        ``folders`` maps the name of each worker to the directory of its records on its disk.
        """
        if not _is_address(address):
            what, rule = f"the Dask scheduler is {shorten(address)!r}", "it must be an address with a port"
            raise InvalidInput(what, rule=rule, advice="write tcp://HOST:8786")
        if importlib.util.find_spec("distributed") is None:
            what = "the backend dask needs the package distributed, which is not installed"
            raise InvalidInput(what, advice="pip install 'weft[dask]'")
        self._address = address
        self._beat_s = beat_s
        self._silent_s = silent_s
        self._reports: deque[Report] = deque()
        self._ready = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._connected = threading.Event()
        self._problem = f"no connection to the Dask scheduler {address} yet"
        self._client: Any = None
        self._programs: dict[tuple[int, str], _SubmittedProgram] = {}
        self._reported: set[tuple[int, str]] = set()
        """Attempts whose end was reported, until their records are dropped."""
        self._serial = 0
        self._background: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._workers = {name: _NamedWorker(name, folder) for name, folder in folders.items()}
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="weft-dask", daemon=True)
        self._thread.start()

    # Called by the thread of the engine.

    @property
    def descriptor(self) -> int:
        """Return a descriptor that is readable while there are reports."""
        return self._ready

    @property
    def problem(self) -> str:
        """Return why there is no connection to the scheduler; "": there is one."""
        return self._problem

    def connect(self, timeout_s: float) -> None:
        """Wait for the connection to the scheduler; raise WeftError after ``timeout_s`` seconds."""
        if not self._connected.wait(timeout_s):
            advice = "start one with `dask scheduler`, or correct scheduler: of the machine"
            raise WeftError(f"{self._problem}; {advice}")

    def state(self, worker: str) -> str:
        """Return the state of a worker: ``absent``, ``here``, ``silent`` or ``lost``."""
        return self._workers[worker].state

    def inspect(self, worker: str) -> str:
        """Return why a worker cannot run programs now; "": it can."""
        found = self._workers[worker]
        if self._problem or found.state == "here":
            return self._problem or found.problem
        if found.state == "absent":
            return f"no worker {worker!r} is connected to the Dask scheduler {self._address}"
        return f"the Dask worker {worker!r} is {found.state}"

    def choose(self, names: Sequence[str]) -> str | None:
        """Return the usable worker with the fewest programs per thread, the first of equals; None: none."""
        usable = [name for name in names if not self.inspect(name)]
        counts = dict.fromkeys(usable, 0)
        for program in list(self._programs.values()):
            if program.worker.name in counts:
                counts[program.worker.name] += 1
        return min(usable, key=lambda name: counts[name] / self._workers[name].threads, default=None)

    def start(self, worker: str, order: Mapping[str, Any]) -> None:
        """Start a program on a worker (see ``workers.start_program``); returns at once."""
        program = _SubmittedProgram(self._workers[worker], order)
        self._programs.setdefault(program.key, program)
        self._soon(self._submit, program.key)

    def end(self, worker: str, attempt: int, nonce: str, grace_s: float | None = None) -> None:
        """Terminate a program, and kill it after ``grace_s`` seconds; returns at once."""
        self._soon(self._end, self._workers[worker], attempt, nonce, grace_s)

    def signal(self, worker: str, attempt: int, nonce: str, name: str) -> None:
        """Send a signal to a program; returns at once."""
        self._soon(self._signal, self._workers[worker], attempt, nonce, name)

    def forget(self, worker: str, attempts: Iterable[tuple[int, str]]) -> None:
        """Drop end records on a worker, with its next heartbeat."""
        self._soon(self._workers[worker].forget.extend, list(attempts))

    def measure(self, worker: str, sandbox: str, every_s: float) -> None:
        """Report load, free memory and free disk of a worker every ``every_s`` seconds."""
        found = self._workers[worker]
        found.sandbox, found.measure_s = sandbox, every_s

    def request(self, worker: str, name: str, *arguments: Any, **options: Any) -> Future[Any]:
        """Call a function of ``workers.py`` on a worker; the result raises WeftError if this fails.

        Can be used by any thread.
        """
        found = self._workers[worker]
        return asyncio.run_coroutine_threadsafe(self._call(found, name, arguments, options), self._loop)

    def call(self, worker: str, name: str, *arguments: Any, timeout_s: float = 60.0, **options: Any) -> Any:
        """Call a function of ``workers.py`` on a worker and return its result; raises WeftError."""
        future = self.request(worker, name, *arguments, **options)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise WeftError(f"the Dask worker {worker!r} has not answered for {timeout_s:g} s") from None
        except CancelledError:
            raise WeftError(f"the connection to the Dask scheduler {self._address} was closed") from None

    def send_file(self, worker: str, root: str, name: str, content: BinaryIO) -> str:
        """Copy an open file below a directory of a worker; return its BLAKE2b hash. Raises WeftError.

        The file has the name ``NAME.part`` until it is complete and its hash is verified. Bytes that an
        interrupted copy has left there are not sent again if they are equal.
        """
        part = f"{name}.part"
        left = self.call(worker, "hash_file", root, part)
        digest = hashlib.blake2b(digest_size=20)
        offset = 0
        if left is not None and _hash_start(content, left[0]) == left[1]:
            offset = left[0]
            _hash_start(content, offset, digest)
        content.seek(offset)
        while (chunk := content.read(_CHUNK_BYTES)) or offset == 0:
            digest.update(chunk)
            offset = self.call(worker, "write_chunk", root, part, offset, chunk)
            if not chunk:
                break
        found = self.call(worker, "hash_file", root, part)
        if found is None or tuple(found) != (offset, digest.hexdigest()):
            self.call(worker, "remove_tree", root, part)
            raise WeftError(
                f"the copy of {name} on the Dask worker {worker!r} differs from the file; try again"
            )
        self.call(worker, "rename_file", root, part, name)
        return digest.hexdigest()

    def receive_file(self, worker: str, root: str, name: str, target: BinaryIO) -> str:
        """Append the rest of a worker's file to an open file; return the hash of it all. Raises WeftError.

        ``target`` must be readable; it is emptied if it does not contain the beginning of the file.
        """
        size = target.seek(0, os.SEEK_END)
        digest = hashlib.blake2b(digest_size=20)
        left = self.call(worker, "hash_file", root, name, size) if size else None
        if left is not None and (size, _hash_start(target, size)) == tuple(left):
            _hash_start(target, size, digest)
        else:
            size = 0
            target.seek(0)
            target.truncate()
        while chunk := self.call(worker, "read_chunk", root, name, size, _CHUNK_BYTES):
            target.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        found = self.call(worker, "hash_file", root, name)
        if found is None or tuple(found) != (size, digest.hexdigest()):
            raise WeftError(
                f"{name} on the Dask worker {worker!r} has changed while it was copied; try again"
            )
        return digest.hexdigest()

    def receive(self) -> list[Report]:
        """Return the new reports."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._ready)
        found = []
        while self._reports:
            found.append(self._reports.popleft())
        return found

    def close(self) -> None:
        """Disconnect, for some seconds at most; programs continue to run."""
        self._soon(self._closing.set)
        self._thread.join(2.0 * _CLOSE_S)
        if not self._thread.is_alive() and self._ready >= 0:
            os.close(self._ready)
            self._ready = -1

    # Everything below runs in the thread of the event loop.

    def _soon(self, function: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _report(self, what: str, **more: Any) -> None:
        self._reports.append({"is": what, **more})
        os.eventfd_write(self._ready, 1)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=_CLOSE_S))
            self._loop.close()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _serve(self) -> None:
        """Connect, and connect again after a failure with growing pauses, until this is closed."""
        from distributed import Client

        pause_s = _FIRST_PAUSE_S
        while not self._closing.is_set():
            client = Client(self._address, asynchronous=True, timeout=_CONNECT_S, set_as_default=False)
            try:
                await asyncio.wait_for(client, 2.0 * _CONNECT_S)
                self._client, self._problem, pause_s = client, "", _FIRST_PAUSE_S
                self._connected.set()
                self._report("connected")
                await self._follow(client)
            except (OSError, TimeoutError, CancelledError, AttributeError) as error:
                # AttributeError: Dask's client closed itself in the middle of a call.
                self._disconnected(error)
            self._client = None
            self._drop_workers()
            with suppress(Exception):
                await asyncio.wait_for(client.close(), _CLOSE_S)
            await self._pause(pause_s)
            pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)

    def _disconnected(self, error: BaseException) -> None:
        reason = shorten(str(error).splitlines()[0], 100) if str(error) else type(error).__name__
        was = self._client is not None or not self._problem.startswith("no Dask scheduler")
        self._problem = f"no Dask scheduler answers at {self._address}: {reason}"
        self._connected.clear()
        if was:
            self._report("disconnected", text=self._problem)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    async def _follow(self, client: Any) -> None:
        """Watch the list of workers and their heartbeats until the connection is lost or closed."""
        while not self._closing.is_set():
            found = await asyncio.wait_for(client.scheduler.identity(), self._silent_s)
            listed = {str(each["name"]): (address, each) for address, each in found["workers"].items()}
            for worker in self._workers.values():
                if worker.name in listed:
                    self._meet(worker, *listed[worker.name])
                elif worker.address:
                    self._lose(worker, "the Dask scheduler has removed it")
            self._notice_silence()
            await self._pause(self._beat_s)

    def _meet(self, worker: _NamedWorker, address: str, about: Mapping[str, Any]) -> None:
        worker.threads = max(1, int(about["nthreads"]))
        if worker.address and worker.address != address:
            self._lose(worker, "a worker with the same name has replaced it")
        if worker.tender is None or worker.tender.done():
            worker.address = address
            worker.asked_s = None
            worker.tender = self._spawn(self._tend(worker))

    def _lose(self, worker: _NamedWorker, text: str) -> None:
        self._drop(worker)
        if worker.state != "lost":
            worker.state = "lost"
            self._report("lost", worker=worker.name, text=text)

    def _drop(self, worker: _NamedWorker) -> None:
        """Stop to speak to a worker."""
        if worker.tender is not None:
            worker.tender.cancel()
        worker.tender, worker.address, worker.identity = None, "", ()
        self._release(worker)

    def _release(self, worker: _NamedWorker) -> None:
        """Drop the futures of a worker, so that Dask does not run their tasks again."""
        for program in self._programs.values():
            if program.worker is worker and program.collector is not None:
                program.collector.cancel()
                program.collector = None

    def _drop_workers(self) -> None:
        for worker in self._workers.values():
            self._drop(worker)
            worker.state = "silent" if worker.state == "here" else worker.state

    def _notice_silence(self) -> None:
        now_s = time.monotonic()
        for worker in self._workers.values():
            late = worker.asked_s is not None and now_s - worker.asked_s > self._silent_s
            if late and worker.state == "here":
                worker.state = "silent"
                text = f"it has not answered for {self._silent_s:g} s"
                self._report("silent", worker=worker.name, text=text)

    async def _tend(self, worker: _NamedWorker) -> None:
        """Ask a worker for its state again and again; only one heartbeat is unanswered at a time."""
        while True:
            worker.asked_s = time.monotonic()
            forget, worker.forget = worker.forget, []
            try:
                beat = await self._call(worker, "heartbeat", (worker.folder, worker.last, forget), {})
            except WeftError as error:
                worker.problem = str(error)
                worker.forget = forget + worker.forget
                await asyncio.sleep(self._beat_s)
                continue
            worker.asked_s, worker.problem = None, ""
            self._take_beat(worker, beat)
            self._reported.difference_update(forget)
            if worker.measure_s is not None and time.monotonic() >= worker.measured_s + worker.measure_s:
                worker.measured_s = time.monotonic()
                self._spawn(self._measure(worker))
            with suppress(TimeoutError):
                await asyncio.wait_for(worker.hurry.wait(), self._beat_s)
                await asyncio.sleep(_SOON_S)
            worker.hurry.clear()

    def _take_beat(self, worker: _NamedWorker, beat: Report) -> None:
        identity = tuple(beat[key] for key in ("pid", "began_ticks", "boot", "host"))
        running = {(each["attempt"], each["nonce"]): each for each in beat["running"]}
        if identity != worker.identity:
            self._release(worker)
            if worker.last:  # the serial numbers are those of another process
                worker.last, worker.identity = 0, identity
                worker.state = "here"
                self._report("here", worker=worker.name, address=worker.address, running=beat["running"])
                worker.hurry.set()
                return
            worker.identity, worker.state = identity, "here"
            self._report("here", worker=worker.name, address=worker.address, running=beat["running"])
        elif worker.state != "here":
            worker.state = "here"
            self._report("back", worker=worker.name, running=beat["running"])
        for key, found in running.items():
            program = self._programs.get(key)
            if program is not None and not program.started and found["pid"] is not None:
                program.started = True
                self._report("started", worker=worker.name, **found)
        for end in beat["ended"]:
            self._take_end(worker, end)
        worker.last = beat["last"]
        self._reconcile(worker, running)

    def _reconcile(self, worker: _NamedWorker, running: Mapping[tuple[int, str], Report]) -> None:
        """Submit programs again that the worker does not know, and repeat requests to end programs."""
        for program in [each for each in self._programs.values() if each.worker is worker]:
            if program.end is not None:
                self._spawn(self._send_end(program))
            elif program.collector is None and program.key not in running:
                if program.started:
                    end = {"attempt": program.attempt, "nonce": program.nonce, "cause": "lost"}
                    text = "its Dask worker has no record of it"
                    none = {"code": None, "signal": None, "seconds": 0.0, "strays": 0, "at": time.time()}
                    self._take_end(worker, {"is": "ended", **end, "text": text, **none})
                else:
                    self._submit(program.key)

    def _take_end(self, worker: _NamedWorker, end: Report) -> None:
        """Report an end once: it arrives as a result and with a heartbeat."""
        key = end["attempt"], end["nonce"]
        self._programs.pop(key, None)
        if key not in self._reported:
            self._reported.add(key)
            self._reports.append({**end, "worker": worker.name})
            os.eventfd_write(self._ready, 1)

    def _submit(self, key: tuple[int, str]) -> None:
        program = self._programs.get(key)
        if program is None or program.collector is not None or program.end is not None:
            return
        worker = program.worker
        if worker.identity and self._client is not None:
            self._serial += 1
            program.collector = self._spawn(self._collect(program, f"weft-{key[0]}-{key[1]}-{self._serial}"))

    async def _collect(self, program: _SubmittedProgram, name: str) -> None:
        """Run a program as a Dask task and report its end; the future is dropped at once."""
        from distributed import CancelledError as Cancelled
        from distributed import KilledWorker

        worker, answer = program.worker, None
        future = self._client.submit(
            _make_start(), workers.MODULE, worker.folder, dict(program.order), key=name,
            workers=[worker.address], allow_other_workers=False, pure=False, retries=0,
        )  # fmt: skip
        worker.hurry.set()
        try:
            answer = await future.result()
        except (Cancelled, KilledWorker, OSError):
            pass  # the worker is asked for its records when it answers again
        finally:
            future.release()
            if program.collector is asyncio.current_task():
                program.collector = None
        if answer is None:
            return
        if "value" in answer and answer["value"]["is"] == "ended":
            self._take_end(worker, answer["value"])
        else:
            text = answer.get("error") or answer["value"]["text"]
            self._programs.pop(program.key, None)
            self._report(
                "problem", worker=worker.name, attempt=program.attempt, nonce=program.nonce, text=text
            )

    def _end(self, worker: _NamedWorker, attempt: int, nonce: str, grace_s: float | None) -> None:
        program = self._programs.get((attempt, nonce)) or _SubmittedProgram(
            worker, {"attempt": attempt, "nonce": nonce}
        )
        program.end = (grace_s,)
        self._spawn(self._send_end(program))

    async def _send_end(self, program: _SubmittedProgram) -> None:
        worker, request = program.worker, program.end
        if request is None:
            return
        arguments = (worker.folder, program.attempt, program.nonce, request[0])
        try:
            end = await self._call(worker, "end_program", arguments, {})
        except WeftError:
            return  # repeated with the next heartbeat
        program.end = None
        if end is not None:
            self._take_end(worker, end)
            if program.collector is not None:
                program.collector.cancel()

    def _signal(self, worker: _NamedWorker, attempt: int, nonce: str, name: str) -> None:
        self._spawn(self._send_signal(worker, attempt, nonce, name))

    async def _send_signal(self, worker: _NamedWorker, attempt: int, nonce: str, name: str) -> None:
        about = {"worker": worker.name, "attempt": attempt, "nonce": nonce}
        try:
            count = await self._call(worker, "signal_program", (worker.folder, attempt, nonce, name), {})
        except WeftError as error:
            self._report("problem", **about, text=str(error))
        else:
            self._report("signalled", **about, signal=name, processes=count)

    async def _measure(self, worker: _NamedWorker) -> None:
        with suppress(WeftError):
            found = await self._call(worker, "measure", (worker.sandbox,), {})
            self._report("measured", worker=worker.name, **found)

    async def _call(
        self, worker: _NamedWorker, name: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Call a function on a worker, and install the functions there first if they are missing."""
        client, address = self._client, worker.address
        if client is None or not address:
            raise WeftError(self._problem or self.inspect(worker.name))
        module = workers.MODULE
        try:
            answers = await client.run(_make_call(), module, name, arguments, options, workers=[address])
            if (answer := answers[address]) is None:
                text = inspect.getsource(workers)
                digest = hashlib.sha256(text.encode()).hexdigest()
                found = await client.run(_make_install(), module, text, digest, workers=[address])
                if found[address] != workers.PROTOCOL:
                    what = f"the Dask worker {worker.name!r} runs programs of another version of weft"
                    raise WeftError(f"{what}; wait for their ends")
                answers = await client.run(_make_call(), module, name, arguments, options, workers=[address])
                answer = answers[address]
        except (OSError, AttributeError, KeyError) as error:
            what = f"the Dask worker {worker.name!r} cannot be reached"
            raise WeftError(f"{what}: {shorten(str(error), 100)}") from None
        if answer is None or "error" in answer:
            text = answer["error"] if answer else "its functions are missing"
            raise WeftError(f"{name} failed on the Dask worker {worker.name!r}: {text}")
        return answer["value"]


def _hash_start(content: BinaryIO, size: int, digest: Any = None) -> str:
    """Return the hash of the first ``size`` bytes of an open file; ``digest`` is updated instead if given."""
    found = hashlib.blake2b(digest_size=20) if digest is None else digest
    content.seek(0)
    while size > 0 and (part := content.read(min(size, _CHUNK_BYTES))):
        found.update(part)
        size -= len(part)
    return str(found.hexdigest())


# A nested function is sent by value; a function of a module could not be found on a worker without weft.


def _make_install() -> Callable[..., int]:
    def install(module: str, text: str, digest: str, dask_worker: Any) -> int:
        import sys
        import types

        found: Any = sys.modules.get(module)
        if found is None or (found.digest != digest and found.is_idle()):
            if found is not None:
                found.close()
            found = types.ModuleType(module)
            sys.modules[module] = found
            exec(compile(text, module, "exec"), found.__dict__)  # noqa: S102
            found.source, found.digest, found.dask_worker = text, digest, dask_worker
        return int(found.PROTOCOL)

    return install


def _make_call() -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(module: str, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        import sys

        found: Any = sys.modules.get(module)
        return None if found is None else await found.answer(name, arguments, options)

    return call


def _make_start() -> Callable[..., Any]:
    def start(module: str, folder: str, order: dict[str, Any]) -> Any:
        import sys

        found: Any = sys.modules.get(module)
        return None if found is None else found.run_program(folder, order)

    return start
