"""Programs on real Dask workers, which are processes of their own and cannot import weft."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dask_clusters import DaskProcesses, dask_processes
from patience import PATIENCE_S
from weft.backends.dask.cluster import DaskWorkers, read_machine
from weft.errors import InvalidInput, WeftError
from weft.platform.machine import Machine

NAMES = ("one", "two")
_numbers = iter(range(1, 100_000))


class Bench:
    """A cluster with a connection to it; reports are collected until a test has seen what it waits for."""

    def __init__(self, cluster: DaskProcesses, root: Path) -> None:
        self.cluster = cluster
        self.root = root
        self.reports: list[dict[str, Any]] = []
        self.workers = self.connect()

    def connect(self) -> DaskWorkers:
        folders = {name: str(self.root / f"records-{name}") for name in NAMES}
        return DaskWorkers(self.cluster.address, folders, beat_s=0.2, silent_s=2.0)

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first report that is wanted, and remove it."""
        poll = select.poll()
        poll.register(self.workers.descriptor, select.POLLIN)
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            for index, report in enumerate(self.reports):
                if wanted(report):
                    return self.reports.pop(index)
            poll.poll(1000)
            self.reports += self.workers.receive()
        raise AssertionError(f"no such report: {self.reports[-5:]}")

    def await_state(self, what: str, worker: str) -> dict[str, Any]:
        return self.wait(lambda report: report["is"] == what and report.get("worker") == worker)

    def start(self, *argv: str, worker: str = "one", **more: Any) -> tuple[int, str]:
        attempt = next(_numbers)
        order = {
            "attempt": attempt,
            "nonce": f"n{attempt}",
            "argv": list(argv),
            "cwd": str(self.root),
            **more,
        }
        self.workers.start(worker, order)
        return attempt, f"n{attempt}"

    def end_of(self, key: tuple[int, str]) -> dict[str, Any]:
        return self.wait(lambda report: report["is"] in ("ended", "problem") and report["attempt"] == key[0])

    def await_start(self, key: tuple[int, str]) -> int:
        return self.wait(lambda report: report["is"] == "started" and report["attempt"] == key[0])["pid"]

    def await_usable(self) -> None:
        _until(lambda: not any(self.workers.inspect(name) for name in NAMES))
        self.reports += self.workers.receive()


def _until(is_true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if importlib.util.find_spec("distributed") is None and not os.environ.get("CI"):
        pytest.skip("the package distributed is not installed")
    root = tmp_path_factory.mktemp("dask")
    with dask_processes(root, NAMES) as cluster:
        found = Bench(cluster, root)
        try:
            yield found
        finally:
            found.workers.close()


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    shared_bench.await_usable()
    shared_bench.reports.clear()
    return shared_bench


def test_program_runs_with_its_streams_and_environment(bench: Bench) -> None:
    (bench.root / "in").write_text("hello")
    streams = {name: str(bench.root / name[3:]) for name in ("stdin", "stdout", "stderr")}
    env = {"GREETING": "good morning", "HOME": None}
    key = bench.start("/bin/sh", "-c", 'cat; echo " $GREETING ${HOME-none}"; exit 7', env=env, **streams)
    end = bench.end_of(key)
    assert (end["code"], end["signal"], end["cause"], end["worker"]) == (7, None, "", "one")
    assert end["disk"]["free_bytes"] > 0
    assert (bench.root / "out").read_text() == "hello good morning none\n"


def test_workers_cannot_import_weft(bench: Bench) -> None:
    key = bench.start(sys.executable, "-c", "import weft", stderr=str(bench.root / "import"))
    assert bench.end_of(key)["code"] == 1
    assert "weft is not installed on this worker" in (bench.root / "import").read_text()


def test_signal_and_failures_to_start_are_reported(bench: Bench) -> None:
    assert bench.end_of(bench.start("/bin/sh", "-c", "kill -9 $$"))["signal"] == signal.SIGKILL
    missing = bench.end_of(bench.start("no-such-program"))
    assert (missing["code"], missing["cause"]) == (127, "error")
    assert bench.end_of(bench.start("/bin/true", cwd="/no-such-directory"))["code"] == 126
    assert bench.end_of(bench.start("/bin/true", stdout="/no/such"))["code"] == 126


def test_cancelled_program_is_ended_with_all_its_processes(bench: Bench) -> None:
    script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & echo $! >child; wait"
    key = bench.start("/bin/sh", "-c", script)
    pid = bench.await_start(key)
    child = bench.root / "child"
    _until(lambda: child.exists() and bool(child.read_text().strip()))
    bench.workers.end("one", *key, grace_s=0.2)
    assert bench.end_of(key)["cause"] == "cancelled"
    assert not _is_running(pid)
    assert not _is_running(int(child.read_text()))


def test_signal_reaches_only_processes_that_handle_it(bench: Bench) -> None:
    script = "trap 'kill $!; exit 5' USR1; sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; echo ready >trapped; wait"
    key = bench.start("/bin/sh", "-c", script)
    _until((bench.root / "trapped").exists)
    bench.workers.signal("one", *key, "USR1")
    assert bench.wait(lambda report: report["is"] == "signalled")["processes"] == 1
    assert bench.end_of(key)["code"] == 5


def test_program_cancelled_before_its_start_never_starts(bench: Bench) -> None:
    attempt = next(_numbers)
    bench.workers.end("one", attempt, "early")
    assert bench.end_of((attempt, "early"))["cause"] == "cancelled"
    bench.workers.start(
        "one", {"attempt": attempt, "nonce": "early", "argv": ["touch", str(bench.root / "no")]}
    )
    assert bench.workers.call("one", "end_program", str(bench.root / "records-one"), attempt, "early")
    assert not (bench.root / "no").exists()


def test_time_and_memory_limits(bench: Bench) -> None:
    late = bench.start("sleep", "1000", time_s=0.3)
    fill = "x = bytearray(300_000_000); import time; time.sleep(1000)"
    large = bench.start(sys.executable, "-c", fill, memory_bytes=100e6)
    assert bench.end_of(late)["cause"] == "timeout"
    end = bench.end_of(large)
    assert (end["cause"], end["signal"]) == ("oom", signal.SIGKILL)
    assert end["max_rss_bytes"] > 100e6


def test_processes_left_behind_are_ended_and_counted(bench: Bench) -> None:
    end = bench.end_of(bench.start("/bin/sh", "-c", "sleep 1000 & echo $! >left"))
    assert (end["code"], end["strays"]) == (0, 1)
    assert not _is_running(int((bench.root / "left").read_text()))


def test_repeated_submission_starts_no_second_program(bench: Bench) -> None:
    order = {"attempt": next(_numbers), "nonce": "same", "cwd": str(bench.root)}
    order |= {"argv": ["/bin/sh", "-c", "echo run >>count; sleep 0.5"]}
    bench.workers.start("one", order)
    bench.await_start((order["attempt"], "same"))
    other = bench.connect()
    try:
        other.connect(PATIENCE_S)
        _until(lambda: not other.inspect("one"))
        other.start("one", order)
        ends = [bench.end_of((order["attempt"], "same"))]
        received: list[dict[str, Any]] = []

        def find_end() -> bool:
            received.extend(other.receive())
            return any(each["is"] == "ended" and each["attempt"] == order["attempt"] for each in received)

        _until(find_end)
    finally:
        other.close()
    assert (bench.root / "count").read_text() == "run\n"
    ends += [each for each in received if each["is"] == "ended" and each["attempt"] == order["attempt"]]
    assert [end["code"] for end in ends] == [0, 0]


def test_another_connection_finds_ends_until_they_are_forgotten(bench: Bench) -> None:
    key = bench.start("true")
    bench.end_of(key)
    folder = str(bench.root / "records-one")
    assert key in [
        (e["attempt"], e["nonce"]) for e in bench.workers.call("one", "list_programs", folder)["ended"]
    ]
    assert list((bench.root / "records-one").glob(f"{key[0]}.*"))
    bench.workers.forget("one", [key])
    _until(lambda: not list((bench.root / "records-one").glob(f"{key[0]}.*")))
    bench.workers.start("one", {"attempt": key[0], "nonce": key[1], "argv": ["true"]})
    assert "its record was dropped" in bench.end_of(key)["text"]


def test_files_pass_in_chunks_with_a_checksum_and_resume(bench: Bench) -> None:
    content = os.urandom(9 << 20)
    root = str(bench.root / "files")
    bench.workers.call("two", "make_folder", root, "inner")
    bench.workers.call("two", "write_chunk", root, "inner/data.part", 0, content[: 1 << 20])
    digest = bench.workers.send_file("two", root, "inner/data", io.BytesIO(content))
    assert digest == hashlib.blake2b(content, digest_size=20).hexdigest()
    assert (bench.root / "files/inner/data").read_bytes() == content
    back = io.BytesIO(content[:100])
    assert bench.workers.receive_file("two", root, "inner/data", back) == digest
    assert back.getvalue() == content
    bench.workers.send_file("two", root, "empty", io.BytesIO())
    assert (bench.root / "files/empty").read_bytes() == b""


def test_file_operations_stay_below_their_root(bench: Bench) -> None:
    root = bench.root / "jail"
    (root / "inner").mkdir(parents=True)
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (root / "inner" / "link").symlink_to(outside)
    for name, *more in (("write_chunk", 0, b"x"), ("read_chunk", 0, 9), ("hash_file",), ("remove_tree",)):
        for path in ("../outside/kept", str(outside / "kept")):
            with pytest.raises(WeftError, match="does not stay below"):
                bench.workers.call("one", name, str(root), path, *more)
    with pytest.raises(WeftError, match="Not a directory"):
        bench.workers.call("one", "write_chunk", str(root), "inner/link/kept", 0, b"x")
    assert bench.workers.call("one", "remove_tree", str(root), "inner")
    assert not (root / "inner").exists()
    assert (outside / "kept").read_text() == "kept"


def test_two_hundred_programs_end_once_each(bench: Bench) -> None:
    keys = [bench.start("true", worker=NAMES[index % 2]) for index in range(200)]
    assert [bench.end_of(key)["code"] for key in keys] == [0] * 200
    assert [report for report in bench.reports if report["is"] == "ended"] == []


def test_sensors_are_reported(bench: Bench) -> None:
    bench.workers.measure("two", str(bench.root), 0.1)
    found = bench.await_state("measured", "two")
    bench.workers.measure("two", str(bench.root), 1e9)
    assert found["load"] >= 0.0
    assert found["memory_bytes"] > 0
    assert found["disk_bytes"] > 0


def test_programs_end_with_a_killed_worker_and_are_lost_when_it_returns(bench: Bench) -> None:
    key = bench.start("/bin/sh", "-c", "setsid sleep 1000 & echo $! >apart; sleep 1000")
    pid = bench.await_start(key)
    _until(lambda: (bench.root / "apart").exists() and bool((bench.root / "apart").read_text().strip()))
    bench.cluster.kill("one")
    bench.await_state("lost", "one")
    assert "is lost" in bench.workers.inspect("one")
    assert bench.workers.choose(NAMES) == "two"
    _until(lambda: not _is_running(pid) and not _is_running(int((bench.root / "apart").read_text())))
    waiting = bench.start("true")
    bench.cluster.start_worker("one")
    assert bench.await_state("here", "one")["running"] == []
    assert bench.end_of(key)["cause"] == "lost"
    assert bench.end_of(waiting)["code"] == 0


def test_stopped_worker_is_noticed_and_its_programs_are_found_again(bench: Bench) -> None:
    key = bench.start("/bin/sh", "-c", "until test -e go; do sleep 0.05; done", worker="two")
    bench.await_start(key)
    bench.cluster.stop("two")
    try:
        assert "has not answered" in bench.await_state("silent", "two")["text"]
        with pytest.raises(WeftError, match="has not answered"):
            bench.workers.call("two", "list_programs", str(bench.root / "records-two"), timeout_s=0.1)
    finally:
        bench.cluster.resume("two")
    bench.await_state("back", "two")
    (bench.root / "go").touch()
    assert bench.end_of(key)["code"] == 0


def test_scheduler_that_is_gone_is_reported_and_found_again(bench: Bench) -> None:
    key = bench.start("sleep", "1000")
    pid = bench.await_start(key)
    bench.cluster.kill("")
    assert "no Dask scheduler answers" in bench.wait(lambda report: report["is"] == "disconnected")["text"]
    with pytest.raises(WeftError, match="no Dask scheduler answers"):
        bench.workers.call("one", "list_programs", "x")
    # Dask's workers end with their scheduler, and weft's programs end with their worker.
    for name in NAMES:
        bench.cluster.wait_end(name)
    _until(lambda: not _is_running(pid))
    bench.cluster.start_scheduler()
    for name in NAMES:
        bench.cluster.start_worker(name)
    bench.wait(lambda report: report["is"] == "connected")
    assert bench.end_of(key)["cause"] == "lost"
    assert bench.end_of(bench.start("true"))["code"] == 0


def test_no_scheduler_is_a_clear_error() -> None:
    workers = DaskWorkers("tcp://127.0.0.1:9", {"one": "x"})
    try:
        with pytest.raises(WeftError, match=r"tcp://127\.0\.0\.1:9.*dask scheduler"):
            workers.connect(0.2)
    finally:
        workers.close()
    with pytest.raises(InvalidInput, match="must be an address with a port"):
        DaskWorkers("nonsense", {})


def test_machine_maps_to_workers() -> None:
    stated = {
        "kind": "dask",
        "scheduler": "tcp://h:1",
        "workers": ["a", 2],
        "sandbox": "/data/",
        "shared": True,
    }
    found = read_machine(Machine(name="m", backend=stated))
    assert (found.workers, found.sandbox, found.shared) == (("a", "2"), "/data", True)
    assert found.records("a").startswith("/data/.weft-dask/a-")
    one = {"scheduler": "tcp://h:1", "worker": "a", "sandbox": "/data"}
    assert read_machine(Machine(name="m", backend=one)).workers == ("a",)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scheduler": "h"}, "scheduler h; must be an address"),
        ({"worker": "a", "workers": ["b"]}, "either worker .* or workers"),
        ({"workers": []}, "names of Dask workers"),
        ({"workers": ["a", "a"]}, "each once"),
        ({"sandbox": "data"}, "absolute path"),
        ({"shared": "yes"}, "must be true or false"),
        ({"schedular": 1}, "did you mean 'scheduler'"),
    ],
)
def test_invalid_machine_is_refused(change: dict[str, object], text: str) -> None:
    valid = {"kind": "dask", "scheduler": "tcp://h:1", "workers": ["a"], "sandbox": "/data"}
    with pytest.raises(InvalidInput, match=text):
        read_machine(Machine(name="m", backend=valid | change))
