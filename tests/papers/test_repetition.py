"""Repetitions give the same rows on every pool and after an interruption, and every run is recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from papers.toy_reproduction import Toy
from weft.papers.repetition import ResultLedger, reproduce
from weft.papers.reproduction import Curves
from weft.pools.pool import make_pool
from weft.randomness import generator
from weft.search.pool import INLINE_POOL


@pytest.fixture
def ledger(tmp_path):
    return ResultLedger(tmp_path / "toy.jsonl")


def test_every_run_has_its_own_random_generator(ledger):
    made = reproduce(Toy(), ledger, seed=5)
    assert (made.runs, made.reused) == (6, 0)
    expected = [float(generator(5, "toy", "small", str(number)).random()) for number in range(4)]
    assert [ledger.read()["small", number]["drawn"] for number in range(4)] == expected
    assert made.rows[0].ours == pytest.approx(sum(expected) / 4)
    assert len({found["drawn"] % 1 for found in ledger.read().values()}) == 6


def test_figures_outside_their_tolerance_are_named(ledger):
    assert [row.figure for row in reproduce(Toy(), ledger).outside] == ["large"]


def test_recorded_runs_are_not_repeated(ledger):
    first = reproduce(Toy(), ledger)
    size = ledger.path.stat().st_size
    again = reproduce(Toy(), ledger)
    assert (again.reused, again.rows) == (6, first.rows)
    assert ledger.path.stat().st_size == size


def test_additional_runs_and_cells_reuse_recorded_runs(ledger):
    reproduce(Toy(), ledger, runs=1)
    made = reproduce(Toy(), ledger, runs=3, full=True)
    assert (made.runs, made.reused) == (9, 2)
    assert [row.runs for row in made.rows] == [3, 3, 3]
    fewer = reproduce(Toy(), ledger, runs=1)
    assert [row.runs for row in fewer.rows] == [1, 1]


class Ending:
    """Pool that stops after some items, as when its process is killed."""

    workers = 1

    def __init__(self, items):
        self.items = items

    def map(self, function, items):
        for number, result in enumerate(INLINE_POOL.map(function, items)):
            if number == self.items:
                raise KeyboardInterrupt
            yield result


@pytest.mark.parametrize("ended", [0, 1, 3, 5])
def test_an_interrupted_experiment_gives_the_same_rows(ledger, tmp_path, ended):
    whole = reproduce(Toy(), ResultLedger(tmp_path / "whole.jsonl"), seed=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce(Toy(), ledger, seed=2, pool=Ending(ended))
    assert len(ledger.read()) == ended
    rest = reproduce(Toy(), ledger, seed=2)
    assert (rest.reused, rest.rows) == (ended, whole.rows)


def test_parallel_processes_give_the_same_rows(ledger, tmp_path):
    alone = reproduce(Toy(), ledger)
    with make_pool("processes:2") as pool:
        shared = ResultLedger(tmp_path / "shared.jsonl")
        assert reproduce(Toy(), shared, pool=pool).rows == alone.rows
    here = {found["process"] for found in ledger.read().values()}
    there = {found["process"] for found in shared.read().values()}
    assert not here & there


def test_progress_is_reported_after_every_run(ledger):
    reproduce(Toy(), ledger, runs=1)
    received = []
    reproduce(Toy(), ledger, runs=2, report=received.append)
    assert received == [(3, 4, 1.0, 1.0), (4, 4, 2.0, 0.0)]


class Drawing(Toy):
    def charts(self, results, *, full):
        return [Curves(title="drawn", times_s=[0.0], values={"small": results.of("small", "drawn")[:1]})]


def test_charts_use_the_same_results_as_rows(ledger):
    assert reproduce(Toy(), ledger, seed=5).charts == ()
    (chart,) = reproduce(Drawing(), ledger, seed=5).charts
    assert chart.values == {"small": [ledger.read()["small", 0]["drawn"]]}


class Uncertain(Toy):
    """The toy with a large standard error of every figure."""

    def rows(self, results, *, full):
        return [replace(row, error=5.0) for row in super().rows(results, full=full)]


def test_only_a_quick_reproduction_accepts_figures_outside_by_up_to_two_standard_errors(ledger):
    quick, whole = (reproduce(Uncertain(), ledger, full=full) for full in (False, True))
    assert ([row.figure for row in quick.by_chance], quick.outside) == (["large"], [])
    assert (whole.by_chance, [row.figure for row in whole.outside]) == ([], ["large", "grid"])
