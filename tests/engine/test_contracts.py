"""Performance contracts: edge cases, iteration profile, waiting, and the time of a violation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.engine.reactions.contracts import (
    Breach,
    PerformanceContract,
    PerformanceSample,
    compute_ratio,
    find_breach,
    next_check_s,
)

HALF = PerformanceContract(limit=0.5)
STRICT = PerformanceContract(limit=0.5, grace_s=0)


def after(moment_s):
    return math.nextafter(moment_s, math.inf)


def running(**more):
    return PerformanceSample(**{"started_s": 1000, "predicted_s": 100, **more})


# Edge rules of docs/papers/dynamic-grid.md.


@pytest.mark.parametrize("done", [None, 0.0, 0.3])
def test_attempt_is_not_late_before_its_start(done):
    assert compute_ratio(running(done=done), 1000) == 0
    assert compute_ratio(running(done=done), 10) == 0
    assert find_breach(running(done=done), STRICT, 1000) is None


def test_ratio_of_an_attempt_without_progress_counts_from_a_tenth_of_the_prediction():
    watched = running(done=0.0)
    assert compute_ratio(watched, 1009.9) is None
    assert compute_ratio(watched, 1010) == pytest.approx(-0.9)
    assert compute_ratio(watched, 1200) == 1
    assert find_breach(watched, HALF, 1150) is None
    assert find_breach(watched, HALF, after(1150)) is not None


def test_missing_progress_is_no_violation_before_the_first_report_is_due():
    watched = running(done=0.0, reports_every_s=170)
    assert compute_ratio(watched, 1169) is None
    assert compute_ratio(watched, 1170) == pytest.approx(0.7)
    assert find_breach(watched, HALF, 1169) is None
    assert find_breach(watched, HALF, 1170) is not None
    assert next_check_s(watched, HALF, 1100) == 1170


def test_progress_within_the_grace_period_is_recorded_but_causes_no_violation():
    watched = running(done=0.01)
    assert compute_ratio(watched, 1008) == pytest.approx(7)
    assert find_breach(watched, HALF, 1008) is None
    assert find_breach(watched, HALF, 1010) is not None
    assert find_breach(watched, STRICT, 1008) is not None
    assert find_breach(watched, replace(HALF, grace_s=30), 1029) is None
    assert find_breach(watched, replace(HALF, grace_s=30), 1030) is not None


@pytest.mark.parametrize("predicted_s", [0, math.inf])
@pytest.mark.parametrize("done", [None, 0.0, 0.5])
def test_attempt_without_a_prediction_is_never_late(predicted_s, done):
    watched = running(predicted_s=predicted_s, done=done)
    assert compute_ratio(watched, 1e9) is None
    assert find_breach(watched, STRICT, 1e9) is None
    assert next_check_s(watched, STRICT, 1000) is None


def test_attempt_can_violate_its_contract_after_its_predicted_end():
    assert compute_ratio(running(done=0.9), 1180) == pytest.approx(1)


@pytest.mark.parametrize("done", [3.0, 3.5])
def test_finished_work_causes_no_contract_violation(done):
    watched = running(work=3.0, done=done, last_iteration_s=9, expected_iteration_s=1)
    assert compute_ratio(watched, 5000) is None
    assert find_breach(watched, HALF, 5000) is None
    assert next_check_s(watched, HALF, 1001) is None


def test_contract_after_a_restart_considers_only_the_remaining_work():
    # 30 of 100 units were left, predicted to take 60 s; 10 of them are done after 20 s: on schedule.
    assert compute_ratio(running(predicted_s=60, work=30, done=10), 1020) == pytest.approx(0)


def test_progress_too_small_for_a_double_gives_an_infinite_ratio():
    assert compute_ratio(running(predicted_s=1e-3, done=5e-324), 1001) == math.inf


def test_attempt_without_a_limit_is_never_late():
    watched = running(done=0.01, last_iteration_s=50, expected_iteration_s=1)
    assert find_breach(watched, PerformanceContract(limit=None), 1e9) is None
    assert next_check_s(watched, PerformanceContract(limit=None), 0) is None


# Periodic reports.


def test_time_between_two_progress_reports_is_not_counted_as_delay():
    watched = running(done=0.3, reported_s=1030, reports_every_s=30)
    for now_s in (1031, 1045, 1059.9):
        assert compute_ratio(watched, now_s) == pytest.approx(0)
        assert find_breach(watched, HALF, now_s) is None


def test_overdue_report_counts_as_no_progress():
    watched = running(done=0.3, reported_s=1030, reports_every_s=30)
    # 0.3 of the work may take 45 s; the next report may be 30 s late.
    assert next_check_s(watched, HALF, 1031) == after(1075)
    assert find_breach(watched, HALF, 1075) is None
    assert find_breach(watched, HALF, after(1075)) is not None
    assert compute_ratio(watched, 1075) == pytest.approx(0.5)


def test_progress_report_that_shows_slow_work_is_a_breach_at_once():
    watched = running(done=0.1, reported_s=1020)
    assert find_breach(watched, HALF, 1020) is not None
    assert next_check_s(watched, HALF, 1020) == 1020
    assert compute_ratio(watched, 1020) == compute_ratio(watched, 1100) == pytest.approx(1)


def test_old_report_causes_only_a_timeout_if_the_report_interval_is_unknown():
    watched = running(done=0.5, reported_s=1050)
    assert compute_ratio(watched, 1140) == pytest.approx(0.4)
    assert next_check_s(watched, HALF, 1060) == after(1150)


# Iteration profile, waiting and suspension of docs/papers/adaptive-jobs.md.


def test_duration_of_the_last_iteration_is_compared_with_the_expected_duration():
    watched = running(last_iteration_s=4, expected_iteration_s=4, done=0.01)
    assert compute_ratio(watched, 1020) == 0  # the work done is ignored
    slow = replace(watched, last_iteration_s=16)
    assert compute_ratio(slow, 1020) == 3
    assert find_breach(slow, HALF, 1020) is not None
    assert find_breach(replace(watched, last_iteration_s=6), HALF, 1020) is None
    assert find_breach(replace(watched, last_iteration_s=after(6)), HALF, 1020) is not None


def test_threshold_in_seconds_replaces_the_factor():
    # Scenario A of docs/papers/adaptive-jobs.md: more than 8 s where 4 s are normal.
    contract = PerformanceContract(limit=0.5, grace_s=0, iteration_limit_s=8)
    watched = running(last_iteration_s=8, expected_iteration_s=4)
    assert find_breach(watched, contract, 1016) is None
    assert find_breach(replace(watched, last_iteration_s=after(8)), contract, 1016) is not None
    assert find_breach(running(last_iteration_s=16), contract, 1016) is not None  # no expected time is needed


def test_program_that_stops_iterating_causes_a_timeout():
    watched = running(last_iteration_s=2, expected_iteration_s=4)
    assert next_check_s(watched, HALF, 1020) == after(1150)
    assert compute_ratio(watched, 1150) == 0.5


def test_attempt_that_waits_longer_than_its_limit_is_a_waiting_breach():
    contract = replace(HALF, waiting_limit_s=600)
    waiting = PerformanceSample(waiting_since_s=50)
    assert find_breach(waiting, contract, 650) is None
    assert find_breach(waiting, contract, after(650)) is Breach.WAITING
    assert next_check_s(waiting, contract, 60) == after(650)
    assert compute_ratio(waiting, 10_000) is None
    assert find_breach(waiting, HALF, 1e9) is None  # without a limit it may wait forever


def test_suspension_longer_than_the_waiting_limit_is_a_waiting_breach():
    contract = replace(HALF, waiting_limit_s=10)
    suspended = running(waiting_since_s=1500)
    assert find_breach(suspended, contract, 1505) is Breach.PERFORMANCE
    assert find_breach(suspended, contract, 1511) is Breach.WAITING


# Properties.

ABOVE = st.floats(1e-3, 1e6)
SECONDS = st.one_of(st.just(0.0), ABOVE)


def optional(strategy):
    return st.one_of(st.none(), strategy)


WATCHED = st.builds(
    PerformanceSample,
    started_s=optional(SECONDS),
    predicted_s=st.one_of(st.just(0.0), ABOVE),
    work=ABOVE,
    done=optional(SECONDS),
    reported_s=optional(SECONDS),
    reports_every_s=optional(SECONDS),
    last_iteration_s=optional(SECONDS),
    expected_iteration_s=optional(ABOVE),
    waiting_since_s=optional(SECONDS),
)
CONTRACTS = st.builds(
    PerformanceContract,
    limit=optional(st.floats(0, 10)),
    grace_s=optional(SECONDS),
    iteration_limit_s=optional(SECONDS),
    waiting_limit_s=optional(SECONDS),
)


@given(WATCHED, CONTRACTS, SECONDS, SECONDS)
def test_breach_persists_and_its_ratio_grows(watched, contract, one_s, two_s):
    early_s, late_s = sorted((one_s, two_s))
    assert find_breach(watched, contract, late_s) or find_breach(watched, contract, early_s) is None
    first, second = compute_ratio(watched, early_s), compute_ratio(watched, late_s)
    if watched.started_s is not None and early_s > watched.started_s and first is not None:
        assert second is not None
        assert second >= first


@given(WATCHED, CONTRACTS, SECONDS)
def test_next_check_is_at_the_earliest_time_of_a_breach(watched, contract, now_s):
    check_s = next_check_s(watched, contract, now_s)
    if check_s is None:
        assert find_breach(watched, contract, 1e300) is None
    else:
        assert check_s >= now_s
        assert find_breach(watched, contract, check_s) is not None
        assert check_s == now_s or find_breach(watched, contract, math.nextafter(check_s, -math.inf)) is None


def scaled(record, factor):
    names = [
        name for name in type(record).__slots__ if name.endswith("_s") and getattr(record, name) is not None
    ]
    return replace(record, **{name: factor * getattr(record, name) for name in names})


@given(WATCHED, CONTRACTS, SECONDS, st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**30]))
def test_contract_does_not_depend_on_the_unit_of_time(watched, contract, now_s, factor):
    assert compute_ratio(scaled(watched, factor), factor * now_s) == compute_ratio(watched, now_s)
    again = find_breach(scaled(watched, factor), scaled(contract, factor), factor * now_s)
    assert again == find_breach(watched, contract, now_s)


@given(WATCHED, CONTRACTS, SECONDS, st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**30]))
def test_contract_does_not_depend_on_the_unit_of_work(watched, contract, now_s, factor):
    other = replace(
        watched, work=factor * watched.work, done=None if watched.done is None else factor * watched.done
    )
    assert compute_ratio(other, now_s) == compute_ratio(watched, now_s)
    assert find_breach(other, contract, now_s) == find_breach(watched, contract, now_s)


@given(WATCHED, CONTRACTS, SECONDS, SECONDS)
def test_more_work_done_never_increases_the_ratio(watched, contract, now_s, more):
    if watched.done is None:
        return
    better = replace(watched, done=watched.done + more)
    # Zero work done is the timeout rule, the only case that can be better than little progress.
    if watched.done > 0 and find_breach(watched, contract, now_s) is None:
        assert find_breach(better, contract, now_s) is None


@given(WATCHED, CONTRACTS, SECONDS)
def test_ratio_above_the_limit_is_a_breach(watched, contract, now_s):
    contract = replace(contract, iteration_limit_s=None, waiting_limit_s=None)
    found = compute_ratio(watched, now_s)
    if watched.started_s is None or contract.limit is None or now_s <= watched.started_s:
        return
    if (watched.reported_s or 0) > now_s:
        return  # no report is from the future
    if found is None:
        assert find_breach(watched, replace(contract, grace_s=None), now_s) is None
        return
    near = abs(found - contract.limit) <= 1e-6 * (1 + contract.limit)
    if now_s >= watched.grace_end_s(contract.grace_s) and not near:
        assert (find_breach(watched, contract, now_s) is not None) == (found > contract.limit)
