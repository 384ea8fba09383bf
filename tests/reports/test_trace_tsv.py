"""``trace.tsv``: Nextflow's columns, a line per attempt, ``-`` for unknown values."""

from __future__ import annotations

import csv
import io

import pytest

import weft
from driven_engine import platform_of
from reports.executed_journals import example_journal, journal_of
from reports.test_execution import reuse_journal
from weft.backends.backend import Product
from weft.backends.simulation.scenario import Scenario
from weft.reports.execution import build_executed_run
from weft.reports.execution_records import ExecutionRecords, ProcessUsage
from weft.reports.trace_tsv import TRACE_COLUMNS, trace_tsv

DEFAULT = (
    "task_id hash native_id name status exit submit duration realtime %cpu peak_rss peak_vmem rchar wchar"
)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def written():
    flow = weft.Builder("flow")
    flow.task("work", sweep={"k": "1..2"}, work=90, retries=1)
    scenario = Scenario(exit_codes={"work[2]": (3, 0)})
    return journal_of(flow.build(), platform_of(1.0), scenario=scenario, policy="fcfs")


def test_the_first_columns_are_those_of_nextflow_in_the_same_order(written):
    head, *lines = trace_tsv(written.executed()).splitlines()
    assert head.split("\t")[:14] == DEFAULT.split()
    assert len(lines) == 3
    assert all(line.count("\t") == len(TRACE_COLUMNS) - 1 for line in lines)


def test_known_values_are_formatted_as_in_nextflow(written):
    product = Product(
        execution=1,
        run=0,
        task=0,
        name="work[1]",
        kind="work",
        workflow="flow",
        attempt=0,
        fingerprint="abcdef0123456789",
        directory="/somewhere/0",
    )
    records = ExecutionRecords(
        measured={0: ProcessUsage(cpu_s=45, max_rss_bytes=1.5 * 1024**3, pid=4711)},
        products={0: product},
        zero_at_s=1_000_000_000.25,
    )
    first, second, third = rows_of(trace_tsv(written.executed(records)))
    assert first == {
        "task_id": "0",
        "hash": "ab/cdef01",
        "native_id": "4711",
        "name": "work[1]",
        "status": "COMPLETED",
        "exit": "0",
        "submit": "2001-09-09 01:46:40.250",
        "duration": "1m 30s",
        "realtime": "1m 30s",
        "%cpu": "50.0%",
        "peak_rss": "1.5 GB",
        "peak_vmem": "-",
        "rchar": "-",
        "wchar": "-",
        "process": "work",
        "tag": "1",
        "attempt": "1",
        "cpus": "1",
        "memory": "-",
        "time": "-",
        "start": "2001-09-09 01:46:40.250",
        "complete": "2001-09-09 01:48:10.250",
        "queue": "m0",
        "workdir": "/somewhere/0",
    }
    assert (second["status"], second["exit"], second["attempt"]) == ("FAILED", "3", "1")
    assert (third["status"], third["exit"], third["attempt"]) == ("COMPLETED", "0", "2")
    raw = rows_of(trace_tsv(written.executed(records), raw=True))[0]
    assert (raw["submit"], raw["realtime"], raw["peak_rss"], raw["%cpu"]) == (
        "1000000000250",
        "90000",
        "1610612736",
        "50.0",
    )


def test_trace_contains_no_dates_if_the_wall_clock_time_is_unknown(written):
    row = rows_of(trace_tsv(written.executed()))[0]
    assert (row["submit"], row["start"], row["complete"], row["native_id"]) == ("-", "-", "-", "-")
    assert row["duration"] == "1m 30s"


def test_reused_tasks_have_the_status_cached():
    history, state, platform = reuse_journal()
    rows = rows_of(trace_tsv(build_executed_run(history, state, platform)))
    assert [(row["name"], row["status"], row["realtime"]) for row in rows] == [
        ("first", "CACHED", "-"),
        ("middle", "COMPLETED", "10s"),
        ("last", "COMPLETED", "10s"),
    ]
    assert [row["duration"] for row in rows] == ["0ms", "11s", "11s"]


def test_attempts_that_migrated_from_their_machine_have_the_status_aborted():
    executed = example_journal().executed()
    rows = rows_of(trace_tsv(executed))
    assert len(rows) == len(executed.attempts)
    by_number = {int(row["task_id"]): row["status"] for row in rows}
    for attempt in executed.attempts:
        expected = {"completed": "COMPLETED", "failed": "FAILED"}.get(attempt.ending, "ABORTED")
        assert by_number[attempt.number] == expected


def test_names_cannot_break_lines_or_columns():
    flow = weft.Builder("flow")
    flow.task("work", sweep={"k": ["a\tb\nc"]}, work=1)
    text = trace_tsv(journal_of(flow.build(), platform_of(1.0), policy="fcfs").executed())
    (row,) = rows_of(text)
    assert row["name"] == "work[a?b?c]"
