"""Every pool of the registry implements the interface; new ones are tested automatically."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import threading
from functools import partial

import pytest

import dask_clusters as clusters
import pool_functions as functions
from weft.errors import InvalidInput
from weft.pools import POOLS
from weft.pools.pool import OpenPool, make_pool
from weft.search.pool import INLINE_POOL

HAS_DASK = importlib.util.find_spec("distributed") is not None


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Return the address of a Dask cluster of two threads; skip only if Dask is not installed."""
    if not HAS_DASK and not os.environ.get("CI"):
        pytest.skip("no Dask cluster: the package distributed is not installed")
    with clusters.cluster(tmp_path_factory.mktemp("dask")) as found:
        yield found


@pytest.fixture(params=list(POOLS))
def name(request):
    arguments = {
        "serial": "",
        "dask": ":" + request.getfixturevalue("address") if request.param == "dask" else "",
    }
    return request.param + arguments.get(request.param, ":2")


@pytest.fixture
def pool(name):
    with make_pool(name) as opened:
        yield opened


def test_a_pool_has_its_registered_name(pool, name):
    assert isinstance(pool, OpenPool)
    assert POOLS.load(pool.name) is type(pool)
    assert pool.workers == (1 if name == "serial" else 2)


def test_results_are_in_the_order_of_the_items(pool):
    found = list(pool.map(functions.slow_first, range(9)))
    assert [number for number, _, _ in found] == list(range(9))
    at = {(process, thread) for _, process, thread in found}
    assert len(at) == (1 if pool.name == "serial" else 2)


def test_items_are_computed_in_parallel(pool):
    (_, end), (start, _) = list(pool.map(functions.together, range(2)))
    assert (start < end) == (pool.workers > 1)


def test_results_equal_those_of_a_plain_loop(pool):
    seeds = list(range(20))
    assert list(pool.map(functions.drawn, seeds)) == list(INLINE_POOL.map(functions.drawn, seeds))


def test_map_of_no_items_gives_no_results(pool):
    assert list(pool.map(functions.squared, [])) == []


def test_exception_of_an_item_is_raised_in_place_of_its_result(pool):
    results = pool.map(functions.refused, range(40))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InvalidInput, match="piece 3; must not be 3"):
        next(results)
    assert list(pool.map(functions.squared, range(5))) == [0, 1, 4, 9, 16]


def test_exception_that_cannot_be_pickled_is_reported_as_text(pool):
    with pytest.raises(Exception, match="one and other"):
        list(pool.map(functions.failing_privately, range(2)))


def test_pool_is_usable_after_results_were_not_read_to_the_end(pool):
    results = pool.map(functions.squared, range(50))
    assert next(results) == 0
    if hasattr(results, "close"):
        results.close()
    assert list(pool.map(functions.drawn, [4])) == [functions.drawn(4)]


def test_a_function_is_sent_to_a_worker_at_most_once(pool):
    large = functions.Large()
    function = partial(functions.added, large)
    for first in range(4):
        assert list(pool.map(function, range(first, first + 6))) == list(range(first + 3, first + 9))
    assert large.journeys <= pool.workers


def test_close_ends_processes_and_threads(name):
    processes, threads = set(multiprocessing.active_children()), threading.active_count()
    with make_pool(name) as pool:
        assert list(pool.map(functions.squared, range(4))) == [0, 1, 4, 9]
    pool.close()  # closing twice is harmless
    assert set(multiprocessing.active_children()) == processes
    if pool.name != "dask":  # Dask keeps a thread for all clients
        assert threading.active_count() <= threads


def test_an_unknown_pool_is_refused():
    with pytest.raises(InvalidInput, match=r"unknown pool 'proceses'; did you mean 'processes'\?"):
        make_pool("proceses:2")
