"""The runner starts a program as ordered, or reports why it cannot."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from backends.runner.runner_bench import Bench
from weft.backends.runner.processes import peak_bytes


def test_end_record_states_exit_code_and_times(bench: Bench) -> None:
    before = time.time()
    bench.sh(1, "echo hello; echo woe >&2; exit 7")
    started = bench.wait_for("started", 1)
    end = bench.wait_for_end(1)
    assert (end["code"], end["signal"], end["cause"], end["text"]) == (7, None, "", "")
    assert before - 1 <= started["at"] == end["began"] <= end["at"] <= time.time() + 1
    assert bench.out(1) == "hello\n"
    assert (bench.work / "err1").read_text() == "woe\n"


def test_cpu_time_and_memory_are_measured(bench: Bench) -> None:
    bench.python(1, "x = bytearray(80_000_000)\nfor i in range(3_000_000): pass")
    end = bench.wait_for_end(1)
    assert end["user_s"] > 0
    assert end["max_rss_bytes"] > 80_000_000
    assert 0 < end["user_s"] + end["system_s"] <= end["seconds"] + 0.1


def test_peak_memory_excludes_the_runner(bench: Bench) -> None:
    """The kernel adds the resident memory of the runner to the peak of every program it starts."""
    own_bytes = peak_bytes(bench.here["pid"])
    bench.sh(1, "exit 0")
    assert bench.wait_for_end(1)["max_rss_bytes"] is None, "it is over before anybody looks"
    bench.sh(2, "(sleep 1000 & echo $! > pid; wait); echo done")
    bench.python(3, f"x = bytearray({2 * own_bytes})")
    os.kill(bench.wait_for_pid("pid"), signal.SIGSTOP)
    bench.wait_for("stopped", 2)  # the runner finds this when it measures the memory, however late
    bench.send({"do": "cancel", "attempt": 2, "grace_s": 0.0})
    assert 0 < bench.wait_for_end(2)["max_rss_bytes"] < own_bytes // 2
    assert 2 * own_bytes < bench.wait_for_end(3)["max_rss_bytes"] < 8 * own_bytes


def test_program_environment_is_that_of_the_runner_with_changes_of_the_start_order(bench: Bench) -> None:
    bench.sh(1, 'echo "$BASE ${HOME-none} $MINE"', env={"MINE": "two words; $(no) 'quotes'\nand lines"})
    bench.sh(2, 'echo "${BASE-none}"', env={"BASE": None})
    assert bench.wait_for_end(1)["code"] == bench.wait_for_end(2)["code"] == 0
    assert bench.out(1) == "base none two words; $(no) 'quotes'\nand lines\n"
    assert bench.out(2) == "none\n"


def test_streams_and_directory_follow_the_start_order(bench: Bench) -> None:
    (bench.work / "in").write_text("from a file\n")
    (bench.work / "both").write_text("before\n")
    both = str(bench.work / "both")
    bench.sh(1, "cat; pwd >&2", stdin=str(bench.work / "in"), stdout=both, stderr=both, append=True)
    bench.wait_for_end(1)
    assert Path(both).read_text() == f"before\nfrom a file\n{bench.work}\n"
    bench.sh(2, "cat; echo done", stdout=both)  # without stdin, reading ends at once
    bench.wait_for_end(2)
    assert Path(both).read_text() == "done\n"


def order_in_sandbox(bench: Bench, attempt: int, **more: object) -> dict[str, object]:
    sandbox = bench.work / "sandbox"
    records = sandbox / f"p/records/1/{attempt}"
    streams = {"stdout": str(records / "out"), "stderr": str(records / "err")}
    return {
        "cwd": str(sandbox / f"p/1/{attempt}"),
        **streams,
        "private": list(streams.values()),
        "sandbox": str(sandbox),
        "reports": ["result", "rank"],
        **more,
    }


def test_runner_makes_the_directories_of_a_program_and_lists_what_it_left(bench: Bench) -> None:
    bench.sh(1, "pwd; ls -A; echo 3 > rank", **order_in_sandbox(bench, 1))
    cwd = str(bench.work / "sandbox/p/1/1")
    assert bench.wait_for_end(1)["left"] == {"reports": ["rank"], "streams": {"out": f"{cwd}\n", "err": ""}}
    assert Path(cwd).stat().st_mode & 0o777 == 0o700
    bench.sh(2, "head -c 5000 /dev/zero; printf '\\377' >&2", **order_in_sandbox(bench, 2))
    assert bench.wait_for_end(2)["left"] == {"reports": [], "streams": {"out": None, "err": "\udcff"}}
    (bench.work / "sandbox/p/1/3").mkdir()
    (bench.work / "sandbox/p/1/3/old").touch()
    bench.sh(3, "ls -A", **order_in_sandbox(bench, 3))
    assert bench.wait_for_end(3)["left"]["streams"]["out"] == "", (
        "the directory of an earlier start is emptied"
    )


def test_runner_makes_no_directory_through_a_link_or_outside_the_sandbox(bench: Bench) -> None:
    elsewhere = bench.work / "elsewhere"
    elsewhere.mkdir()
    (bench.work / "sandbox").mkdir()
    (bench.work / "sandbox/p").symlink_to(elsewhere)
    bench.sh(1, "true", **order_in_sandbox(bench, 1))
    end = bench.wait_for_end(1)
    assert (end["code"], end["cause"]) == (126, "staging")
    assert "its directories in" in end["text"]
    bench.sh(2, "true", **order_in_sandbox(bench, 2, cwd=str(bench.work / "sandbox/../elsewhere/x")))
    assert "is not in it" in bench.wait_for_end(2)["text"]
    assert not any(elsewhere.iterdir())


def test_program_starts_with_default_signals_and_no_open_files(bench: Bench) -> None:
    """The program has its own group, default signals, none blocked, and no file of the runner open."""
    program = (
        "import os\n"
        "status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)\n"
        "ignored = [n for n in range(1, 65) if int(status['SigIgn'], 16) >> n - 1 & 1]\n"
        "print(os.getpgid(0) == os.getpid(), int(status['SigBlk'], 16), ignored)\n"
        "print(len(os.listdir('/proc/self/fd')))"
    )
    bench.python(1, program)
    assert bench.wait_for_end(1)["code"] == 0
    assert bench.out(1) == "True 0 [13, 25, 32, 33]\n4\n"
    # Python itself ignores 13 and 25, the C library reserves 32 and 33; the fourth file is the listing
    bench.sh(2, "yes | head -n 1; kill -PIPE $$")
    assert bench.wait_for_end(2)["signal"] == 13


def test_program_is_looked_up_in_the_path_of_its_start_order(bench: Bench) -> None:
    folder = bench.work / "bin"
    folder.mkdir()
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    bench.start(1, "tool", env={"PATH": str(folder)})
    bench.start(2, "bin/tool")
    bench.start(3, "tool")
    assert [bench.wait_for_end(attempt)["code"] for attempt in (1, 2, 3)] == [0, 0, 127]
    assert bench.out(1) == bench.out(2) == "mine\n"
    tool.unlink()
    bench.start(4, "tool", env={"PATH": str(folder)})  # the cached path is checked again
    assert bench.wait_for_end(4)["code"] == 127


@pytest.mark.parametrize(
    ("argv", "change", "code", "text"),
    [
        (["no-such-program"], {}, 127, "command not found: no-such-program"),
        (["./no-such-program"], {}, 127, "command not found: ./no-such-program"),
        (["./plain"], {}, 126, "./plain is not executable"),
        (["plain"], {"env": {"PATH": "."}}, 126, "./plain is not executable"),
        (["./broken"], {}, 126, "interpreter"),
        (["./headless"], {}, 126, "does not start with #!"),
        (["./"], {}, 126, "cannot be started"),
        ([], {}, 126, "empty"),
        (["true", "a\0b"], {}, 126, "null"),
        (["true"], {"env": {"A=B": "x"}}, 126, "cannot be started"),
        (["true"], {"cwd": "absent"}, 126, "absent cannot be entered: No such file"),
        (["true"], {"stdin": "absent"}, 126, "stdin absent cannot be opened: No such file"),
        (["true"], {"stdout": "absent/out"}, 126, "stdout absent/out cannot be opened: No such file"),
        (["true"], {"stderr": "link"}, 126, "stderr link cannot be opened"),
        (["true"], {"cores": [4000]}, 126, "cores [4000] are not available"),
        (["true", "x" * 200_000], {}, 126, "Argument list too long"),
    ],
)  # fmt: skip
def test_failed_start_is_explained(
    bench: Bench, argv: list[str], change: dict[str, object], code: int, text: str
) -> None:
    """A missing directory was removed by somebody else: this is no error of the program."""
    (bench.work / "plain").write_text("text")
    canary = bench.work.parent / "canary"
    canary.write_text("kept")
    (bench.work / "link").symlink_to(canary)
    for name, first in (("broken", "#!/no/such/interpreter\n"), ("headless", "no program")):
        (bench.work / name).write_text(first)
        (bench.work / name).chmod(0o755)
    bench.start(1, *argv, **change)
    end = bench.wait_for_end(1)
    cause = "lost" if "cwd" in change or change.get("stdout") == "absent/out" else "error"
    assert (end["code"], end["signal"], end["cause"]) == (code, None, cause)
    assert text in end["text"]
    assert canary.read_text() == "kept"
    assert bench.records("ends")[1] == end


def test_program_is_restricted_to_its_cores(bench: Bench) -> None:
    cores = sorted(os.sched_getaffinity(0))
    program = "import os; print(sorted(os.sched_getaffinity(0)))"
    bench.python(1, program, cores=[cores[-1]])
    bench.python(2, program)
    assert bench.wait_for_end(1)["code"] == bench.wait_for_end(2)["code"] == 0
    assert bench.out(1) == f"{[cores[-1]]}\n"
    assert bench.out(2) == f"{cores}\n"


def test_invalid_messages_are_reported_and_ignored(bench: Bench) -> None:
    for message in ({"do": "dance"}, {"do": "start", "attempt": "x"}, {"do": "cancel"}, {"do": "forget"}, {}):
        bench.send(message)
        assert bench.wait_for("problem")["text"]
    bench.send({"do": "signal", "attempt": 1, "signal": "NONSENSE"})
    assert "NONSENSE" in bench.wait_for("problem")["text"]
    bench.sh(1, "exit 3")
    assert bench.wait_for_end(1)["code"] == 3
