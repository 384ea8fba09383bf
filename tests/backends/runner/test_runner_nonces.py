"""The runner identifies an attempt by number and nonce: records of another nonce are never used."""

from __future__ import annotations

import os
import signal
from typing import Any

from backends.runner.runner_bench import TOKEN, Bench, is_running, wait_until
from weft.backends.runner.records import RecordLog, SealedRecords, encode_record

OLD, NEW = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def reconnect(bench: Bench, **known: Any) -> dict[str, Any]:
    bench.link.disconnect()
    bench.received.clear()
    return bench.link.connect(**known)


def endless(bench: Bench, attempt: int, nonce: str) -> int:
    bench.sh(attempt, f"echo $$ > pid{attempt}; sleep 1000", nonce=nonce)
    bench.wait_for("started", attempt)
    return bench.wait_for_pid(f"pid{attempt}")


def test_messages_and_records_carry_the_nonce(bench: Bench) -> None:
    bench.sh(1, "exit 2", nonce=NEW)
    assert bench.wait_for("started", 1)["nonce"] == NEW
    assert bench.wait_for_end(1)["nonce"] == NEW
    assert bench.records("starts")[1]["nonce"] == bench.records("ends")[1]["nonce"] == NEW
    endless(bench, 2, OLD)
    here = reconnect(bench)
    assert [(each["attempt"], each["nonce"]) for each in here["running"]] == [(2, OLD)]
    assert [(each["attempt"], each["nonce"]) for each in here["ended"]] == [(1, NEW)]
    assert {each["attempt"]: each["nonce"] for each in here["starts"]} == {1: NEW, 2: OLD}


def test_start_with_another_nonce_is_not_answered_with_the_old_end_record(bench: Bench) -> None:
    bench.sh(1, "exit 2", nonce=OLD)
    bench.wait_for_end(1)
    bench.sh(1, "exit 3", nonce=NEW)
    end = bench.wait_for_end(1)
    assert (end["code"], end["nonce"]) == (3, NEW)
    assert bench.records("ends")[1]["nonce"] == NEW


def test_start_with_another_nonce_waits_until_the_old_program_has_ended(bench: Bench) -> None:
    old = endless(bench, 1, OLD)
    bench.sh(1, f"kill -0 {old} && exit 1; exit 4", nonce=NEW)
    end = bench.wait_for_end(1)
    assert (end["code"], end["nonce"]) == (4, NEW)
    assert not is_running(old)


def test_repeated_start_with_the_same_nonce_is_answered_from_the_record(bench: Bench) -> None:
    bench.sh(1, "echo ran >> counted; exit 2", nonce=NEW)
    bench.wait_for_end(1)
    bench.sh(1, "echo ran >> counted; exit 2", nonce=NEW)
    assert bench.wait_for_end(1)["code"] == 2
    assert (bench.work / "counted").read_text() == "ran\n"


def test_forgotten_attempt_does_not_prevent_a_start_with_another_nonce(bench: Bench) -> None:
    bench.sh(1, "exit 2", nonce=OLD)
    bench.wait_for_end(1)
    bench.send({"do": "forget", "attempts": [1]})
    bench.sh(1, "exit 2", nonce=OLD)
    assert "its record was dropped" in bench.wait_for("problem", 1)["text"]
    bench.sh(1, "exit 5", nonce=NEW)
    assert bench.wait_for_end(1)["code"] == 5


def test_cancellation_with_another_nonce_ends_the_unknown_program(bench: Bench) -> None:
    old = endless(bench, 1, OLD)
    bench.send({"do": "cancel", "attempt": 1, "nonce": NEW, "grace_s": 0.0})
    end = bench.wait_for_end(1)
    assert (end["cause"], end["text"], end["nonce"]) == (
        "cancelled",
        "it was cancelled before it started",
        NEW,
    )
    wait_until(lambda: not is_running(old), "the unknown program has ended")


def test_signal_for_another_nonce_is_not_sent(bench: Bench) -> None:
    old = endless(bench, 1, OLD)
    bench.send({"do": "signal", "attempt": 1, "nonce": NEW, "signal": "KILL"})
    assert bench.wait_for("signalled", 1)["processes"] == 0
    assert is_running(old)


def test_unknown_attempts_are_discarded_before_the_connection_is_used(bench: Bench) -> None:
    kept, old = endless(bench, 1, NEW), endless(bench, 2, OLD)
    bench.sh(3, "exit 2", nonce=OLD)
    bench.sh(4, "exit 2", nonce=NEW)
    for attempt in (3, 4):
        bench.wait_for_end(attempt)
    here = reconnect(bench, known={1: NEW, 2: NEW, 4: NEW})
    assert not is_running(old)
    assert is_running(kept)
    assert [each["attempt"] for each in here["running"]] == [1]
    assert [each["attempt"] for each in here["ended"]] == [4]
    assert sorted(each["attempt"] for each in here["starts"]) == [1, 4]
    assert set(bench.records("starts")) == {1, 4}
    assert set(bench.records("ends")) == {4}


def test_records_of_a_dead_runner_are_matched_by_nonce(bench: Bench) -> None:
    bench.sh(1, "exit 2", nonce=OLD)
    bench.wait_for_end(1)
    program = endless(bench, 1, NEW)
    assert bench.link.pid is not None
    os.kill(bench.link.pid, signal.SIGKILL)
    here = reconnect(bench, known={1: NEW})
    assert not is_running(program)
    (end,) = here["ended"]
    assert (end["cause"], end["nonce"]) == ("lost", NEW)


def test_nonce_with_punctuation_is_refused(bench: Bench) -> None:
    bench.sh(1, "exit 2", nonce='a","attempt":7,"x":"')
    assert "nonce" in bench.wait_for("problem", 1)["text"]


def test_records_of_an_older_version_belong_to_attempts_without_a_nonce(bench: Bench) -> None:
    bench.link.kill()
    records = SealedRecords(str(bench.directory), TOKEN)
    ends = RecordLog(records, "ends")
    for attempt in (7, 8):
        ends.add(encode_record({"is": "ended", "attempt": attempt, "code": 2}))
    records.close()
    here = reconnect(bench, known={7: ""})
    assert [(each["attempt"], each["code"]) for each in here["ended"]] == [(7, 2)]
    assert set(bench.records("ends")) == {7}
